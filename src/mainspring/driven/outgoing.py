"""Frames on their way out: whole lines, in order, from whoever has one; and what the session is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from mainspring.driven.lines import line
from mainspring.engine.endings import look_at

Write = Callable[[bytes], Awaitable[None]]
Stamp = Callable[[str, dict[str, Any]], dict[str, Any]]  # makes a `system` frame of a subtype and its fields

IDLE, RUNNING, WAITING = "idle", "running", "requires_action"


class Out(Protocol):
    """To the program that drives us."""

    async def put(self, *frames: dict[str, Any]) -> None: ...

    async def raw(self, lines: list[bytes]) -> None:
        """Frames that are JSON already."""

    async def room(self) -> None:
        """Wait for a slow reader, between two things that happen. `put` may not wait: answers must get through."""


class Outgoing:
    """Over a pipe."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._one = asyncio.Lock()  # a line may take several writes

    async def put(self, *frames: dict[str, Any]) -> None:
        await self.raw([line(frame) for frame in frames])

    async def raw(self, lines: list[bytes]) -> None:
        """Whoever is cancelled meanwhile, what has begun is written to its end: half a line ends the other side."""
        if lines:
            work = asyncio.ensure_future(self._all(lines))
            work.add_done_callback(look_at)  # nobody may be left who waits for it
            await asyncio.shield(work)

    async def room(self) -> None:
        """`put` has waited: a pipe has room for little."""

    async def _all(self, lines: list[bytes]) -> None:
        async with self._one:
            for one in lines:
                await self._write(one)


class States:
    """Told when they change, to those who asked for it. While several questions are open, somebody is wanted."""

    def __init__(self, out: Out, stamp: Stamp, *, wanted: bool, host_only: bool) -> None:
        self._out, self._stamp, self._wanted = out, stamp, wanted
        self._extra: dict[str, Any] = {"sdk_host_only": True} if host_only else {}
        self._told = IDLE
        self._open = 0  # questions

    @property
    def now(self) -> str:
        return self._told

    async def running(self) -> None:
        await self._tell(WAITING if self._open else RUNNING)

    async def idle(self) -> None:
        await self._tell(IDLE)

    async def asks(self) -> None:
        self._open += 1
        await self._tell(WAITING)

    async def answered(self) -> None:
        self._open -= 1
        if not self._open and self._told == WAITING:
            await self._tell(RUNNING)

    async def _tell(self, state: str) -> None:
        if state == self._told:
            return
        self._told = state
        if self._wanted:
            await self._out.put(self._stamp("session_state_changed", {"state": state} | self._extra))
