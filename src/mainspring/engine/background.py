"""Side jobs of a run: bounded, owned by the run, ended with it. A job that fails is silent: it was only a kindness."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from mainspring.engine.endings import end_all, look_at

MOST = 8  # more than this and new jobs are refused: they are never worth slowing the run for

T = TypeVar("T")


class Background:
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
        look_at(task)

    async def end(self) -> None:
        tasks, self._tasks = self._tasks, set()
        await end_all(tasks)


def settled(task: asyncio.Task[T] | None) -> T | None:
    """A job's result if it is there already; nobody waits for it (B-30)."""
    if task is None or not task.done() or task.cancelled() or task.exception() is not None:
        return None
    return task.result()
