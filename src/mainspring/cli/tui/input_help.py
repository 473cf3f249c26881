"""Completion, history and pastes for the input: our parts behind the interfaces of prompt-toolkit.

Slow work (listing folders, reading and writing the history file) runs in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from mainspring import agent, cli
from mainspring.agent.slash_commands import TERMINAL, list_other_commands, names_at, words_at
from mainspring.cli.terminal_session import TerminalSession
from mainspring.cli.tui.completion import (
    Candidate,
    Completable,
    CompletionOption,
    CompletionSources,
    PastedTexts,
    find_candidates,
)
from mainspring.cli.tui.files_index import FilesIndex
from mainspring.cli.tui.history import HistoryEntry, StoredHistory
from mainspring.engine.shared_state import EnginePolicy
from mainspring.settings.load import home_folder, users_folder

MOST_LOADED = 1_000  # prompts; more than a user steps through


class PromptHistory(History):
    """`expand` replaces paste placeholders (`completion.py`): later sessions do not have the pasted text."""

    def __init__(self, past: StoredHistory, expand: Callable[[str], str] = str) -> None:
        super().__init__()
        self._past, self._expand = past, expand
        self._writer = ThreadPoolExecutor(1, "history")  # the process waits for it at its end

    async def load(self) -> AsyncGenerator[str, None]:
        if not self._loaded:
            found = await asyncio.to_thread(lambda: list(self.load_history_strings()))
            if not self._loaded:
                self._loaded = True
                new = self._loaded_strings  # added while the file was read, so the file may contain some of them
                self._loaded_strings = [*new, *_without(found, {self._expand(text) for text in new})]
        for text in tuple(self._loaded_strings):
            yield text

    def newest_entries(self, *, everywhere: bool) -> list[HistoryEntry]:
        """Reads the file: call it in a thread."""
        return list(islice(self._past.newest_entries(everywhere=everywhere), MOST_LOADED))

    def load_history_strings(self) -> Iterable[str]:
        self._past.trim()
        return islice(self._past.newest(), MOST_LOADED)

    def append_string(self, string: str) -> None:
        if self._past.keeps(self._expand(string)):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Write in a thread, in order: another process may hold the lock for a moment."""
        self._writer.submit(self._past.add, self._expand(string))


def _without(found: list[str], new: set[str]) -> list[str]:
    first = next((place for place, text in enumerate(found) if text not in new), len(found))
    return found[first:]


class PromptCompleter(Completer):
    def __init__(self, known: CompletionSources) -> None:
        self._known = known

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        before, after = document.text_before_cursor, document.text_after_cursor
        return [_completion(one, before, after) for one in find_candidates(before, self._known)]

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        for one in await asyncio.to_thread(self.get_completions, document, complete_event):
            yield one


def _completion(one: Candidate, before: str, after: str) -> Completion:
    text = one.text.rstrip(" ") if after[:1].isspace() else one.text
    return Completion(text, start_position=one.start - len(before), display=one.shown, display_meta=one.about or None)


MOST_SESSIONS = 50
SOON = 0.3  # seconds that the first `@` completion waits, in a thread, for the first scan


class PromptHelpers(NamedTuple):
    completer: PromptCompleter
    history: PromptHistory
    pastes: PastedTexts
    files: FilesIndex


def helps_for(talk: TerminalSession) -> PromptHelpers:
    cwd, environment = talk.config.cwd, talk.config.environment
    home = users_folder(environment)
    index = FilesIndex(talk.world.kit.place)
    known = CompletionSources(
        words=lambda: words_of(talk),
        paths=lambda: index.paths(SOON),
        may_read=ReadableFiles(talk),
        behind={"model": lambda: list_model_options(talk), "resume": lambda: list_session_options(talk)},
        cwd=cwd,
        home=home,
    )
    pastes = PastedTexts(cwd, home)
    past = StoredHistory(home_folder(environment), cwd)
    return PromptHelpers(PromptCompleter(known), PromptHistory(past, pastes.expand), pastes, index)


class ReadableFiles:
    """Whether the current rules allow reading a file. The check is rebuilt only when the rules change."""

    def __init__(self, talk: TerminalSession) -> None:
        self._talk = talk
        self._rules: EnginePolicy | None = None
        self._may_read: Callable[[str], bool] = bool

    def __call__(self, path: str) -> bool:
        rules = self._talk.world.session.shared.policy
        if rules is not self._rules:
            self._rules, self._may_read = rules, self._talk.config.gate.readable(self._talk.config.cwd, rules)
        return self._may_read(path)


def words_of(talk: TerminalSession) -> Iterable[Completable]:
    others = (*list_other_commands(talk.world.around, names_at(TERMINAL)), *talk.world.servers.words())
    replaced = {one.name for one in others}
    return (*[one for one in words_at(TERMINAL) if one.name not in replaced], *others)


def list_model_options(talk: TerminalSession) -> Iterable[CompletionOption]:
    known = cli.known_models(talk.config.settings)
    return [
        CompletionOption("default", "the model the session started with"),
        *[CompletionOption(model.name) for model in known],
    ]


def list_session_options(talk: TerminalSession) -> Iterable[CompletionOption]:
    place = agent.new_place(talk.config.environment, talk.config.cwd, ())
    if place.home is None:
        return ()
    own = talk.world.about.session_id
    return [
        CompletionOption(one.session_id, one.title)
        for one in agent.list_sessions_of(place.cwd, place, MOST_SESSIONS, trials=False)
        if one.session_id != own
    ]
