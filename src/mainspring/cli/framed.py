"""The doors that speak stream-json: frames, all of them or only the result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mainspring.assembly.options import Options
from mainspring.assembly.world import World
from mainspring.core.messages import User
from mainspring.core.updates import Result, Update
from mainspring.driven.frames import Frames
from mainspring.driven.hook_frames import HookFrames
from mainspring.driven.lines import line
from mainspring.driven.wire import Object

Write = Callable[[bytes], Awaitable[None]]


def framed(world: World, options: Options, write: Write) -> Framed | Alone:
    deps = world.session.deps
    frames = Frames(
        world.about,
        new_id=deps.new_id,
        now=deps.now,
        partial=options.include_partial_messages,
        replay=options.replay_user_messages,
    )
    wish = options.words[0] if options.words else None
    if options.output_format == "stream-json":
        door = Framed(frames, write, wish)
        if options.include_hook_events:
            door.hooks.watch(world.hands.hooks)
        return door
    return Alone(frames, write, wish, more=lambda: world.has_more, now=deps.now)


class Framed:
    """All frames, as they come."""

    def __init__(self, frames: Frames, write: Write, wish: str | None) -> None:
        self._frames = frames
        self._write = write
        self._wish = wish  # on the command line; what comes by standard input is data then
        self.failed = False
        self._one = asyncio.Lock()  # a line may take several writes
        self._idle = asyncio.Event()  # nothing is being shown
        self._idle.set()
        self.hooks = HookFrames(frames.system, self._of_hooks, self._shown)

    async def open(self, said: User) -> None:
        await self._put(self._frames.opening(said, self._wish))
        await self.hooks.open()

    async def show(self, update: Update) -> None:
        self._idle.clear()
        try:
            await (self.hooks.close() if isinstance(update, Result) else self.hooks.open())
            await self._put(self._frames.of(update))
        finally:
            self._idle.set()

    async def broke_off(self, why: str) -> None:
        await self.hooks.close()
        await self._put(self._frames.broke_off(why))

    async def refused(self, why: str) -> None:
        await self.hooks.close()
        await self._put(self._frames.refused(why))

    async def leave(self) -> None:
        pass

    async def _shown(self) -> None:
        """Return when all that happened before is written. Whoever reads the run has been woken, and gets to it first;
        from one update to the next it does not pause."""
        await asyncio.sleep(0)
        while not self._idle.is_set():
            await self._idle.wait()

    async def _of_hooks(self, *frames: Object) -> None:
        await self._put(list(frames))

    async def _put(self, frames: list[Object]) -> None:
        async with self._one:
            for frame in frames:
                self.failed = bool(frame.get("is_error"))
                await self._take(frame)

    async def _take(self, frame: Object) -> None:
        await self._write(line(frame))


class Alone(Framed):
    """The result alone, and one only. Where agents in the background report, several runs come of one prompt: the
    result is the last one's, and its figures are those of all."""

    def __init__(
        self, frames: Frames, write: Write, wish: str | None, *, more: Callable[[], bool], now: Callable[[], int]
    ) -> None:
        super().__init__(frames, write, wish)
        self._more = more  # whether another result will follow
        self._now = now
        self._began = 0
        self._results: list[Object] = []  # that are not told yet

    async def open(self, said: User) -> None:
        self._began = self._now()
        await super().open(said)

    async def leave(self) -> None:
        """The last one was held back for another, and none came."""
        if self._results:
            results, self._results = self._results, []
            await self._write(line(whole(results, self._now() - self._began)))

    async def _take(self, frame: Object) -> None:
        if frame["type"] == "result":
            self._results.append(frame)
            if self.failed or not self._more():
                await self.leave()


def whole(results: list[Object], took: int) -> Object:
    """What several runs of one process came to. Cost, rows by model and time with the API add up by themselves."""
    last = results[-1]
    if len(results) == 1:
        return last
    return last | {
        "duration_ms": took,
        "num_turns": sum([one["num_turns"] for one in results]),
        "usage": added([one["usage"] for one in results]),
        "permission_denials": [denial for one in results for denial in one["permission_denials"]],
        **({"estimated": True} if any("estimated" in one for one in results) else {}),
    }


def added(parts: list[Object]) -> Object:
    """Figures by name, and such figures within them; whatever else is said of one is said of the sum."""
    sums: Object = {}
    for part in parts:
        for name, value in part.items():
            if isinstance(value, dict):
                sums[name] = added([sums.get(name, {}), value])
            else:
                sums[name] = value if isinstance(value, bool) else sums.get(name, 0) + value
    return sums
