"""Channels, side jobs and the end of tasks.

`Channel` is a bounded queue from a run, and the subagents below it, to one consumer; either end can close it.
`SideJobs` and `BackgroundJobs` are bounded, owned by the run and end with it; their failures are ignored, because they
are optional. `end_all` and the functions after it end tasks: everything that a run starts ends with it, or is abandoned
after a grace period and watched.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from mainspring.core.messages import ToolCall, ToolResult, User
    from mainspring.core.state import State

    SummarizeTools = Callable[[tuple[ToolCall, ...], tuple[ToolResult, ...]], Coroutine[Any, Any, str | None]]


T = TypeVar("T")

CAPACITY = 16  # about one terminal frame of updates; more would only delay the moment the loop notices a slow reader


class Channel(Generic[T]):
    """The producer pushes without waiting and waits for room between its effects (settled 16).

    So the socket is always read at its own speed, one reply deep at most, while a slow consumer still slows the loop.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._items: deque[T] = deque()
        self._capacity = capacity
        self._closed = False  # by the producer: nothing more will come
        self._left = False  # by the consumer: there is no reader any more
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []  # the loop itself, and subagents whose updates come this way

    # --- the producer's end ---

    def push(self, item: T) -> None:
        if not self._left:
            self._items.append(item)
            if self._reader is not None:
                _wake(self._reader)
                self._reader = None

    @property
    def is_full(self) -> bool:
        return len(self._items) >= self._capacity and not self._left

    async def room(self) -> None:
        """Wait until the consumer has caught up, or has left."""
        while self.is_full:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.append(waiting)
            await waiting

    def close(self) -> None:
        self._closed = True
        _wake(self._reader)

    @property
    def over(self) -> bool:
        """Closed from either end."""
        return self._closed or self._left

    # --- the consumer's end ---

    def leave(self) -> None:
        self._left = True
        self._items.clear()
        self._wake_writers()
        _wake(self._reader)

    def __aiter__(self) -> Channel[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._closed or self._left:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self.pop()

    @property
    def ready(self) -> bool:
        """Whether `pop` returns without waiting."""
        return bool(self._items)

    def pop(self) -> T:
        item = self._items.popleft()
        if self._writers and len(self._items) <= self._capacity // 2:
            self._wake_writers()
        return item

    def _wake_writers(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            _wake(writer)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


GRACE = 2.0  # seconds for a cancelled task to end (security X2)


async def end_all(tasks: Iterable[asyncio.Task[Any]], grace: float = GRACE) -> None:
    """Cancel and wait. A task that does not end within the grace period is abandoned, but its exception is still
    retrieved."""
    pending = {task for task in tasks if not task.done()}
    for task in pending:
        task.add_done_callback(retrieve_exception)
        task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=grace)


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve an exception that has no reader any more, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()


async def run_to_completion(work: Coroutine[Any, Any, None]) -> None:
    """Finish this coroutine, however often we are cancelled meanwhile; the cancellation continues afterwards."""
    await await_uncancellable(asyncio.get_running_loop().create_task(work))


async def await_uncancellable(task: asyncio.Task[T]) -> T:
    """The same for a task that others may also wait for."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        retrieve_exception(task)
        raise cancelled
    return task.result()


async def wait_and_propagate(task: asyncio.Task[None]) -> None:
    """Wait until a task is over. Passes our own cancellation on to it, waits, and then re-raises it."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            task.cancel()
    retrieve_exception(task)
    if cancelled is not None:
        raise cancelled


MOST = 8  # beyond this, new jobs are rejected: they are never worth slowing the run for


class SideJobs:
    """What a run does beside its turns. All are optional: without one the run only gets slower, or shows less.

    The run owns them: it never waits for one, ends all of them with itself, and ignores their failures.
    """

    def __init__(
        self,
        expect_tool: Callable[[str], None] | None = None,
        recall: Callable[[State], Coroutine[Any, Any, tuple[User, ...]]] | None = None,
        stage: Callable[[State], Coroutine[Any, Any, None]] | None = None,
        summarize_tools: SummarizeTools | None = None,
    ) -> None:
        self.expect_tool = expect_tool  # the model has begun to write a call of this tool; must return at once
        self.recall = recall  # finds memory while the reply streams; used only if it is ready in time (B-30)
        self.stage = stage  # prepares, once a turn and while tools run, what will make the conversation smaller (D-18)
        self.summarize_tools = summarize_tools  # in a few words, while the next reply streams (B-31)


NO_SIDE_JOBS = SideJobs()


class BackgroundJobs:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, job: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
        if len(self._tasks) >= self._most:
            job.close()
            return None
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        retrieve_exception(task)

    async def end(self) -> None:
        tasks, self._tasks = self._tasks, set()
        await end_all(tasks)


def result_if_done(task: asyncio.Task[T] | None) -> T | None:
    """A job's result if it is ready; does not wait (B-30)."""
    if task is None or not task.done() or task.cancelled() or task.exception() is not None:
        return None
    return task.result()
