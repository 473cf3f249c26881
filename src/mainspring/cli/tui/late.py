"""What helps typing comes after the first prompt: until then nothing is completed, and the history waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History


class LateCompleter(Completer):
    inner: Completer | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return self.inner.get_completions(document, complete_event) if self.inner is not None else ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        if self.inner is not None:
            async for one in self.inner.get_completions_async(document, complete_event):
                yield one


class LateHistory(History):
    def __init__(self) -> None:
        super().__init__()
        self._inner: History | None = None
        self._ready = asyncio.Event()

    def begin(self, inner: History) -> None:
        self._inner = inner
        self._ready.set()

    async def load(self) -> AsyncGenerator[str, None]:
        await self._ready.wait()
        assert self._inner is not None
        async for text in self._inner.load():
            yield text

    def append_string(self, string: str) -> None:
        if self._inner is not None:
            self._inner.append_string(string)

    def load_history_strings(self) -> Iterable[str]:
        return ()

    def store_string(self, string: str) -> None:
        pass  # the inner one does
