"""Standard output for programs: whole lines, at once, and never a wait that stops the event loop.

A pipe whose reader is slow must not be written to beyond what it has room for, or the loop would stand still, and with
it the model's stream, the tools and their deadlines. Making it non-blocking is no way out: others share that setting.
"""

from __future__ import annotations

import asyncio
import os
import select

from mainspring.cli.stdio import safe_bytes

CHUNK = 4_096  # POSIX: a pipe that is ready takes this much without a wait (PIPE_BUF on Linux)


class StdoutWriter:
    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    async def write(self, data: bytes) -> None:
        """Raises `BrokenPipeError` if nobody reads any more."""
        left = memoryview(safe_bytes(self._fd, data))
        while left:
            if not self._poll.poll(0):
                await self._room()
            left = left[self._put(left[:CHUNK]) :]

    def _put(self, chunk: memoryview) -> int:
        try:
            return os.write(self._fd, chunk)
        except BlockingIOError:  # somebody else made it non-blocking after all
            return 0

    async def _room(self) -> None:
        """Only what can be full comes here: a file is always ready, so epoll need not know it."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._fd, wake_waiter, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._fd)


def wake_waiter(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
