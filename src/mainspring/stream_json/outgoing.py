"""Frames on their way out: whole lines, in order, from whoever has one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from mainspring.engine.tasks import retrieve_exception
from mainspring.stream_json.lines import encode_line

Write = Callable[[bytes], Awaitable[None]]


class FrameSink(Protocol):
    """To the program that drives us."""

    async def put(self, *frames: dict[str, Any]) -> None: ...

    async def raw(self, lines: list[bytes]) -> None:
        """Frames that are JSON already."""

    async def room(self) -> None:
        """Wait for a slow reader, between two things that happen. `put` may not wait: answers must get through."""


class PipeFrameSink:
    """Over a pipe."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._one = asyncio.Lock()  # a line may take several writes

    async def put(self, *frames: dict[str, Any]) -> None:
        await self.raw([encode_line(frame) for frame in frames])

    async def raw(self, lines: list[bytes]) -> None:
        """Whoever is cancelled meanwhile, what has begun is written to its end: half a line ends the other side."""
        if lines:
            work = asyncio.ensure_future(self._all(lines))
            work.add_done_callback(retrieve_exception)  # nobody may be left who waits for it
            await asyncio.shield(work)

    async def room(self) -> None:
        """`put` has waited: a pipe has room for little."""

    async def _all(self, lines: list[bytes]) -> None:
        async with self._one:
            for one in lines:
                await self._write(one)
