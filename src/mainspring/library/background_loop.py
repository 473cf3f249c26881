"""The event loop of `run_sync`: one per process, in a thread of its own.

A program without a loop, a Django view and a notebook cell with a running loop can all wait for it. The loop stays, so
that what a program passes to several calls, such as a provider, always meets the same loop.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from mainspring.core.errors import UsageError

T = TypeVar("T")

STOPPING = 5.0  # seconds for the loop to stop when the program ends


class BackgroundLoop:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="mainspring", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            if running := asyncio.all_tasks(self.loop):  # of threads that did not end before the program
                for task in running:
                    task.cancel()
                self.loop.run_until_complete(asyncio.wait(running, timeout=STOPPING))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine. If the caller is interrupted, it is cancelled, and its cleanup is awaited."""
        if threading.current_thread() is self.thread:
            work.close()
            raise UsageError("'run_sync' cannot be called in its own event loop: use 'await agent.run(...)' there")
        done: Future[T] = Future()
        task: list[asyncio.Task[T]] = []

        def start() -> None:  # in the context of the caller, so its context variables reach the tools
            task.append(self.loop.create_task(work))
            task[0].add_done_callback(finish)

        def finish(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                done.set_exception(asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(task.result())

        def cancel() -> None:
            if task:
                task[0].cancel()
            else:
                work.close()
                done.set_exception(asyncio.CancelledError())

        try:
            self.loop.call_soon_threadsafe(start)  # its thread may do much of the work before this returns
            return done.result()
        except KeyboardInterrupt:
            self.loop.call_soon_threadsafe(cancel)
            wait([done])
            raise

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(2 * STOPPING)


_lock = threading.Lock()
_current: list[BackgroundLoop] = []


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    with _lock:
        if not _current:
            _current.append(BackgroundLoop())
        loop = _current[0]
    return loop.run(work)


def _stop() -> None:
    with _lock:
        for loop in _current:
            loop.stop()
        _current.clear()


def _forget() -> None:
    """A child process has no thread of its parent's."""
    global _lock  # noqa: PLW0603  # it may have been held
    _lock = threading.Lock()
    _current.clear()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
