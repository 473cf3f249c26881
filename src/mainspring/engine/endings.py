"""Ending tasks: everything that a run starts ends with it, or is given up after a while and looked after."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

GRACE = 2.0  # seconds that something cancelled has to end (security X2)


async def end_all(tasks: Iterable[asyncio.Task[Any]], grace: float = GRACE) -> None:
    """Cancel and wait. What does not end within the grace is left behind, but not forgotten."""
    pending = {task for task in tasks if not task.done()}
    for task in pending:
        task.add_done_callback(retrieve_exception)
        task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=grace)


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """An exception that nobody waits for any more: looked at, so that asyncio does not complain."""
    if not task.cancelled():
        task.exception()


async def run_to_completion(work: Coroutine[Any, Any, None]) -> None:
    """Bring this to its end, however often we are cancelled meanwhile; the cancellation goes on afterwards."""
    await await_uncancellable(asyncio.get_running_loop().create_task(work))


async def await_uncancellable(task: asyncio.Task[None]) -> None:
    """The same, with a task that others may wait for, too."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        retrieve_exception(task)
        raise cancelled
    task.result()


async def wait_and_propagate(task: asyncio.Task[None]) -> None:
    """Wait until a task is over. Our own cancellation is passed on to it, waited for, and then goes on."""
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
