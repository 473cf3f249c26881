"""The last lines of a running command, shown while they come, but not more often than an eye can follow."""

import asyncio
import time
from collections.abc import Callable

EVERY = 0.1  # seconds
BYTES, LINES = 1_000, 5  # of the end of the output


class LiveOutput:
    """Called with each piece of output."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._tail = b""
        self._shown_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, data: bytes) -> None:
        self._tail = data[-BYTES:] if len(data) >= BYTES else (self._tail + data)[-BYTES:]
        if self._timer is None:
            wait = self._shown_at + EVERY - time.monotonic()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, wait), self._now)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._shown_at = time.monotonic()
        lines = self._tail.decode(errors="replace").rstrip().splitlines()
        self._show("\n".join(lines[-LINES:]))
