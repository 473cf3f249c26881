"""A call that waits for its server. Its clock stands still while somebody is asked on the server's behalf: a person may
take their time (settled 12). What is asked for a call is withdrawn when the call is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mainspring.core.errors import ToolError
from mainspring.tools.base import ToolContext


class CallClock:
    def __init__(self, calling: ToolContext, clock: asyncio.Timeout) -> None:
        """`clock` is entered by whoever waits."""
        self._calling, self._clock = calling, clock
        self._asking: set[asyncio.Future[str]] = set()
        self._pauses = 0
        self._left = 0.0  # seconds, while the clock stands still
        self._over = False

    def end(self) -> None:
        """The call is over, however."""
        self._over = True
        for one in self._asking:
            one.cancel()

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None, None]:
        loop = asyncio.get_running_loop()
        if not self._pauses and not self._over and not self._clock.expired():
            self._left = (self._clock.when() or loop.time()) - loop.time()
            self._clock.reschedule(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and not self._over and not self._clock.expired():
                self._clock.reschedule(loop.time() + self._left)

    async def ask(self, text: str) -> str:
        """Raises `ToolError` if nobody can be asked, or the call is over before the answer."""
        if self._over:
            raise ToolError("The call is over.")
        asking = asyncio.ensure_future(self._calling.ask(text))
        self._asking.add(asking)
        try:
            await asyncio.wait([asking])
        finally:
            asking.cancel()
            self._asking.discard(asking)
        if asking.cancelled():
            raise ToolError("The call is over.")
        return asking.result()
