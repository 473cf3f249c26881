"""Ctrl-C that cannot break into cleaning up, however often it is pressed.

`asyncio.run` cancels its task the first time and raises in the middle of whatever runs the second time: a child or a
temporary folder would then be left behind.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType, TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class CtrlC:
    """Within this block, Ctrl-C cancels what `run` runs, once; `KeyboardInterrupt` is raised where the block ends."""

    def __init__(self) -> None:
        self._pressed = False
        self._cancel: Callable[[], object] | None = None
        self._ours = False

    def __enter__(self) -> CtrlC:
        self._ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored: let it be
        if self._ours:
            signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pressed:
            raise KeyboardInterrupt  # we go on listening, so that one more does not disturb the program's last words
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(self._watched(work))

    async def _watched(self, work: Coroutine[Any, Any, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)  # also wakes a loop that waits
        try:
            if self._pressed:
                task.cancel()
            return await work
        finally:
            self._cancel = None

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # what a signal handler is given
        if self._pressed:
            return
        self._pressed = True
        if self._cancel is not None:
            self._cancel()
