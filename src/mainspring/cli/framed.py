"""The doors that speak stream-json: frames, all of them or only the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mainspring.cli.flags import Options
from mainspring.cli.frames import Frames
from mainspring.cli.lines import line
from mainspring.cli.wire import Object
from mainspring.cli.world import World
from mainspring.core.messages import User
from mainspring.core.updates import Update

Write = Callable[[bytes], Awaitable[None]]


def framed(world: World, options: Options, write: Write) -> Framed:
    deps = world.session.deps
    frames = Frames(
        world.about,
        new_id=deps.new_id,
        now=deps.now,
        partial=options.include_partial_messages,
        replay=options.replay_user_messages,
    )
    return Framed(frames, write, None if options.output_format == "stream-json" else "result")


class Framed:
    """Frames, all of them or only the result."""

    def __init__(self, frames: Frames, write: Write, wanted: str | None) -> None:
        self._frames = frames
        self._write = write
        self._wanted = wanted
        self.failed = False

    async def open(self, said: User) -> None:
        await self._put(self._frames.opening(said))

    async def show(self, update: Update) -> None:
        await self._put(self._frames.of(update))

    async def broke_off(self, why: str) -> None:
        await self._put(self._frames.broke_off(why))

    async def refused(self, why: str) -> None:
        await self._put(self._frames.refused(why))

    async def _put(self, frames: list[Object]) -> None:
        for frame in frames:
            self.failed = bool(frame.get("is_error"))
            if self._wanted in (None, frame["type"]):
                await self._write(line(frame))
