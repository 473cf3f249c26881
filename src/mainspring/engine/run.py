"""A run as its caller sees it: updates to iterate, a result at the end, an interrupt at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from mainspring.core.errors import UsageError
from mainspring.core.messages import User
from mainspring.core.reasons import AbortReason
from mainspring.core.state import State
from mainspring.core.updates import Result, Update
from mainspring.engine.channel import Channel
from mainspring.engine.driver import Driver
from mainspring.engine.shared import Command


class Run:
    """Use it as a context manager and iterate it; leaving the block ends the run, wherever it is.

    Nothing happens before the first update is asked for (A-06). A crash of the engine is raised to whoever iterates,
    with its traceback.
    """

    def __init__(self, driver: Driver, channel: Channel[Update], messages: tuple[User, ...]) -> None:
        self._driver = driver
        self._channel = channel
        self._messages = messages
        self._task: asyncio.Task[None] | None = None
        self._left_early = False
        self.on_end: Callable[[Run], None] = _nothing

    def interrupt(self, reason: AbortReason = AbortReason.HARD) -> None:
        """The run ends soon, with its history in order and a result that says so."""
        self._driver.interrupt(reason)

    @property
    def result(self) -> Result:
        if self._driver.result is None:
            raise UsageError("the run has no result yet: iterate it to its end first")
        return self._driver.result

    @property
    def completed_commands(self) -> list[Command]:
        """The queued commands that this run took up; none if it crashed or was left before its end (A-17)."""
        finished = self._driver.result is not None and not self._left_early
        return self._driver.started_commands if finished else []

    @property
    def state(self) -> State:
        return self._driver.state

    # --- iterating ---

    def __aiter__(self) -> Run:
        return self

    async def __anext__(self) -> Update:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._driver.run(self._messages))
        try:
            return await self._channel.__anext__()
        except StopAsyncIteration:
            await ended(self._task)
            self._task.result()  # a crash is raised here
            raise

    # --- leaving ---

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.leave()
        try:
            if self._task is not None:
                self._left_early = not self._task.done()
                self._driver.interrupt(AbortReason.HARD)
                await ended(self._task)
                if error is None and not self._task.cancelled():
                    self._task.result()
        finally:
            self.on_end(self)


def _nothing(_: Run) -> None:
    pass


async def ended(task: asyncio.Task[None]) -> None:
    """Wait until a task is over. Our own cancellation is passed on to it, waited for, and then goes on."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            task.cancel()
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # looked at: the cancellation is what counts
        raise cancelled
