"""Side jobs of a run: bounded, owned by the run, ended with it. A job that fails is silent: it was only a kindness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring.engine.endings import end_all, retrieve_exception

if TYPE_CHECKING:
    from mainspring.core.messages import ToolCall, ToolResult, User
    from mainspring.core.state import State

    SummarizeTools = Callable[[tuple[ToolCall, ...], tuple[ToolResult, ...]], Coroutine[Any, Any, str | None]]

MOST = 8  # more than this and new jobs are refused: they are never worth slowing the run for

T = TypeVar("T")


class SideJobs:
    """What a run does beside its turns. You can leave out any of them: the run only gets slower, or tells less.

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
        self.recall = recall  # finds memory while the model talks; used only if it is there in time (B-30)
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
    """A job's result if it is there already; nobody waits for it (B-30)."""
    if task is None or not task.done() or task.cancelled() or task.exception() is not None:
        return None
    return task.result()
