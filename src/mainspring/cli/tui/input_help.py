"""What helps typing in a session: what can be completed, what was typed before, what is pasted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mainspring.agent.slash_commands import TERMINAL, list_other_commands, names_at, words_at
from mainspring.cli.terminal_session import TerminalSession
from mainspring.cli.tui.adapters import PromptCompleter, PromptHistory
from mainspring.cli.tui.completion import Completable, CompletionOption, CompletionSources
from mainspring.cli.tui.files_index import FilesIndex
from mainspring.cli.tui.history import StoredHistory
from mainspring.cli.tui.pasted import PastedTexts
from mainspring.engine.shared_state import EnginePolicy
from mainspring.settings.load import home_folder, users_folder

MOST_SESSIONS = 50
SOON = 0.3  # seconds that somebody who types a '@' waits, in a thread, for the first look


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
    """Whether the rules of now let a file be read. They are put together once for as long as they are the same."""

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
    own = names_at(TERMINAL)
    return (*words_at(TERMINAL), *list_other_commands(talk.world.around, own), *talk.world.servers.words())


def list_model_options(talk: TerminalSession) -> Iterable[CompletionOption]:
    from mainspring.cli.commands.models import known_models

    known = known_models(talk.config.settings)
    return [
        CompletionOption("default", "the one that the session began with"),
        *[CompletionOption(model.name) for model in known],
    ]


def list_session_options(talk: TerminalSession) -> Iterable[CompletionOption]:
    from mainspring.agent.resume import new_place
    from mainspring.sessions.listing import list_sessions_in

    place = new_place(talk.config.environment, talk.config.cwd, ())
    if place.home is None:
        return ()
    own = talk.world.about.session_id
    return [
        CompletionOption(one.session_id, one.title)
        for one in list_sessions_in(place.folder, MOST_SESSIONS)
        if one.session_id != own
    ]
