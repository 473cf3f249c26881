"""Work that would keep the event loop waiting goes into a thread.

A thread cannot be cancelled, so the work looks at its `HaltSignal` from time to time; what only a signal can end, such
as a child process, is ended by what was given to `HaltSignal.also`.
"""

import asyncio
import contextlib
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from mainspring.core.errors import ToolError

SMALL = 1 << 20  # bytes; less is read at once: the way to a thread and back takes as long as this does

T = TypeVar("T")


class HaltSignal:
    """Shared by the loop, which sets it, and the work, which obeys."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self.deadline = None if seconds is None else monotonic() + seconds
        self.set = False
        self._also: list[Callable[[], object]] = []

    def also(self, end: Callable[[], object]) -> None:
        """Called when the work is to end, at once if that is so already."""
        self._also.append(end)
        if self.set:
            end()

    def now(self) -> None:
        self.set = True
        for end in self._also:
            with contextlib.suppress(OSError):
                end()

    @property
    def left(self) -> float | None:
        """Seconds, not below 0; None: as many as it takes."""
        return None if self.deadline is None else max(0.0, self.deadline - monotonic())

    def check(self) -> None:
        if self.set:
            raise ToolError("It was cancelled.")
        if self.left == 0:
            raise ToolError(f"It took longer than {self.seconds:g} seconds, and was ended: ask for less at once.")


async def run_in_thread(work: Callable[[HaltSignal], T], *, seconds: float | None = None) -> T:
    """For work that changes nothing: a cancellation does not wait for it."""
    halt = HaltSignal(seconds)
    try:
        return await asyncio.to_thread(work, halt)
    except asyncio.CancelledError:  # by whoever runs the call
        halt.now()
        raise


async def run_in_thread_to_end(work: Callable[[], T]) -> T:
    """For work that changes files: it is done or undone when this returns, also after a cancellation."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:  # by whoever runs the call; a write takes milliseconds, and its end must be known
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody else will ask
        raise
