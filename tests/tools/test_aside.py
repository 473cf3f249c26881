"""Work in a thread: what only reads is left alone when it is cancelled, what writes is waited for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mainspring.core.errors import ToolError
from mainspring.tools.files import HaltSignal, run_in_thread, run_in_thread_to_end


def test_a_write_has_ended_when_its_cancellation_has() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        begun.set()
        go_on.wait()
        done.append("written")

    async def main() -> None:
        task = asyncio.create_task(run_in_thread_to_end(work))
        while not begun.is_set():  # noqa: ASYNC110  # a thread tells it
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # twice, as impatient people do
        await asyncio.sleep(0.01)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == ["written"]

    asyncio.run(main())


def test_a_write_that_fails_after_a_cancellation_disturbs_nobody() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait()
        raise ToolError("no room")

    async def main() -> None:
        task = asyncio.create_task(run_in_thread_to_end(work))
        while not begun.is_set():  # noqa: ASYNC110  # a thread tells it
            await asyncio.sleep(0.001)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_search_hears_of_its_cancellation() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(halt: HaltSignal) -> None:
        halt.also(ended.set)
        begun.set()
        ended.wait()
        halt.check()

    async def main() -> None:
        task = asyncio.create_task(run_in_thread(work))
        while not begun.is_set():  # noqa: ASYNC110  # a thread tells it
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended.is_set()


def test_what_is_to_end_ends_at_once_if_it_comes_too_late() -> None:
    halt = HaltSignal()
    halt.now()
    ended: list[int] = []
    halt.also(lambda: ended.append(1))
    assert ended == [1]
    with pytest.raises(ToolError, match="cancelled"):
        halt.check()


def test_time_is_limited() -> None:
    with pytest.raises(ToolError, match="longer than 0 seconds"):
        HaltSignal(0).check()
    assert HaltSignal(None).left is None
