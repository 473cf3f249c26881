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
    wanted = None if options.output_format == "stream-json" else "result"
    return Framed(frames, write, wanted, lambda: world.has_more)


class Framed:
    """Frames, all of them or only the result."""

    def __init__(self, frames: Frames, write: Write, wanted: str | None, more: Callable[[], bool]) -> None:
        self._more = more  # whether another result will follow: who wants one alone gets the last
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
            last = self.failed or not self._more()
            if self._wanted is None or (frame["type"] == self._wanted and last):
                await self._write(line(frame))
