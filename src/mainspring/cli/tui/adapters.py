"""What prompt-toolkit asks of an input line, answered by our own parts. All that may take time is done in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from mainspring.cli.tui.completion import Candidate, CompletionSources, find_candidates
from mainspring.cli.tui.history import StoredHistory

MOST_LOADED = 1_000  # prompts; nobody presses a key so often


class PromptHistory(History):
    """`expand`: what a prompt stands for, since others cannot know (`pasted.py`)."""

    def __init__(self, past: StoredHistory, expand: Callable[[str], str] = str) -> None:
        super().__init__()
        self._past, self._expand = past, expand
        self._writer = ThreadPoolExecutor(1, "history")  # waited for when the process ends

    async def load(self) -> AsyncGenerator[str, None]:
        if not self._loaded:
            found = await asyncio.to_thread(lambda: list(self.load_history_strings()))
            if not self._loaded:
                self._loaded = True
                new = self._loaded_strings  # of the time in which it was read, which may have seen some of them
                self._loaded_strings = [*new, *_without(found, {self._expand(text) for text in new})]
        for text in tuple(self._loaded_strings):
            yield text

    def load_history_strings(self) -> Iterable[str]:
        self._past.trim()
        return islice(self._past.newest(), MOST_LOADED)

    def append_string(self, string: str) -> None:
        if self._past.keeps(self._expand(string)):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """In a thread, one after the other: another process may hold the file for a moment."""
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
