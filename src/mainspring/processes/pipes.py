"""The pipes of a child, read by the event loop: always, so that the child is never held up, and in small slices."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

SLICE = 65_536  # bytes at a time: what a pipe holds. Everybody else has a turn between two of them
LAST = 64  # slices that are read at the end, should a stranger still be writing


class PipeReader:
    def __init__(self, fd: int, feed: Callable[[bytes], object]) -> None:
        self.closed = asyncio.Event()
        self._fd, self._feed = fd, feed
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def finish(self) -> None:
        """Take what is there, and close, whoever may still hold the other end."""
        for _ in range(LAST):
            if self.closed.is_set() or not self._read():
                break
        self._close()

    def _read(self) -> bool:
        """Whether there was something."""
        try:
            data = os.read(self._fd, SLICE)
        except BlockingIOError:
            return False
        except OSError:  # it broke: that is its end
            data = b""
        if data:
            self._feed(data)
        else:
            self._close()
        return bool(data)

    def _close(self) -> None:
        if not self.closed.is_set():
            self.closed.set()
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                self._loop.remove_reader(self._fd)
            os.close(self._fd)


def input_of(data: bytes) -> int:
    """A descriptor from which a child reads these bytes: a file in memory, so that nobody has to write to a pipe."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fd = os.memfd_create("input", os.MFD_CLOEXEC)
    except AttributeError:  # macOS
        import tempfile

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
