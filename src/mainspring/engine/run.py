"""A run as its caller sees it: updates to iterate, a result at the end, an interrupt at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from mainspring.core.errors import UsageError
from mainspring.core.events import Submitted
from mainspring.core.reasons import AbortReason
from mainspring.core.updates import Result, Update
from mainspring.engine.driver import Driver
from mainspring.engine.tasks import Channel, wait_and_propagate


class Run:
    """A context manager to iterate: `async with session.run("...") as run: async for update in run: ...`

    The run starts when the caller asks for the first update (A-06). Leaving the block ends the run at any point. A
    crash of the engine is raised to the caller that iterates, with its traceback.
    """

    def __init__(
        self,
        start: Callable[[Channel[Update]], tuple[Driver, Submitted]],
        on_end: Callable[[Driver, bool], None],
        *,
        leaving: AbortReason = AbortReason.HARD,
    ) -> None:
        self._start = start
        self._on_end = on_end  # called once, with whether the result was seen
        self._leaving = leaving  # the reason for leaving early
        self._channel: Channel[Update] = Channel()
        self._driver: Driver | None = None
        self._task: asyncio.Task[None] | None = None
        self._entered = self._left = self._reading = False
        self.on_leave: Callable[[], Awaitable[None]] | None = None  # closes what was made for this run

    def interrupt(self, reason: AbortReason = AbortReason.HARD) -> None:
        """End the run soon, with a consistent history and a result that says so. Does nothing before the run began."""
        if self._driver is not None:
            self._driver.interrupt(reason)

    @property
    def begun(self) -> bool:
        """Whether the caller has asked for the first update."""
        return self._driver is not None

    @property
    def unread(self) -> bool:
        """Whether there are updates that the caller has not read yet."""
        return self._channel.ready

    def take(self) -> Update:
        """The next unread update."""
        return self._channel.pop()

    def show(self, update: Any) -> bool:
        """Show this after everything that has happened so far. False: the run has not begun, or is over."""
        if self._driver is None or self._channel.over:
            return False
        self._channel.push(update)
        return True

    @property
    def result(self) -> Result:
        if self._driver is None or self._driver.result is None:
            raise UsageError("the run has no result: iterate it to its end first")
        return self._driver.result

    # --- iterating ---

    def __aiter__(self) -> Run:
        return self

    async def __anext__(self) -> Update:
        if self._channel.ready and not self._reading:
            return self._channel.pop()  # the common case, and the fast one
        if not self._entered or self._left:
            raise UsageError("a run is iterated inside its block: 'async with session.run(...) as run'")
        if self._reading:
            raise UsageError("another task is already reading this run: read it in one task, and pass the updates on")
        if self._driver is None:
            self._begin()
        self._reading = True
        try:
            return await self._channel.__anext__()
        except StopAsyncIteration:
            await self.finish()
            raise
        finally:
            self._reading = False

    def _begin(self) -> None:
        self._driver, submitted = self._start(self._channel)
        observer, loop = self._driver.observer, asyncio.get_running_loop()
        if observer is None:
            self._task = loop.create_task(self._driver.run(submitted))
        else:
            self._task = loop.create_task(self._driver.run(submitted), context=observer.context)
            self._task.add_done_callback(observer.end)

    async def finish(self) -> None:
        """Wait for the end of the run, when its result is known; raises a crash of the engine, once."""
        task, self._task = self._task, None
        if task is None or self._driver is None:
            return
        seen = self._driver.result is not None
        try:
            await wait_and_propagate(task)
        finally:
            self._on_end(self._driver, seen)
        if not task.cancelled():
            task.result()

    # --- leaving ---

    async def __aenter__(self) -> Run:
        if self._entered:
            raise UsageError("a run is entered once: start another one with 'session.run(...)'")
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        self._channel.leave()
        self.interrupt(self._leaving)
        try:
            await self.finish()
        except Exception:
            if error is None:  # the caller's own exception takes precedence
                raise
        finally:
            if self.on_leave is not None:
                await self.on_leave()
