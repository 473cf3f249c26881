"""What hooks do, as frames of stream-json (6.7), for those who ask for it: one when a hook is asked, one when it has
answered. Each comes in its place: behind all that happened before the hook was asked, and before what comes of it.

Nothing but what the client knows may stand behind a result (6.4): what hooks do between turns is told with the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mainspring.driven.wire import Object
from mainspring.engine.endings import look_at

if TYPE_CHECKING:
    from mainspring.hooks.points import Hooks
    from mainspring.hooks.seen import Answered, Started

System = Callable[[str, Object], Object]  # makes a `system` frame of a subtype and its fields


class HookFrames:
    def __init__(
        self, system: System, put: Callable[..., Awaitable[None]], shown: Callable[[], Awaitable[None]]
    ) -> None:
        """`shown` returns when all that happened before has been told."""
        self._system, self._put, self._shown = system, put, shown
        self._frames: list[Object] = []
        self._open = False  # a turn is under way

    def watch(self, hooks: Hooks) -> None:
        from mainspring.hooks.runner import Runner  # loaded, if there is one

        if isinstance(hooks, Runner):
            hooks.watch(self)

    # --- the turn ---

    async def open(self) -> None:
        self._open = True
        await self.show()

    async def close(self) -> None:
        self._open = False
        await self.show()

    async def show(self) -> None:
        if self._frames:
            frames, self._frames = self._frames, []
            await self._put(*frames)

    # --- the hooks ---

    async def starts(self, hook: Started) -> None:
        if self._open:
            await self._shown()
        self._frames.append(self._system("hook_started", named(hook)))
        if self._open:
            await self.show()

    def ended(self, hook: Answered) -> None:
        said = {"output": hook.output, "stdout": hook.stdout, "stderr": hook.stderr, "exit_code": hook.code}
        self._frames.append(self._system("hook_response", named(hook) | said | {"outcome": hook.outcome}))
        if self._open:
            asyncio.ensure_future(self.show()).add_done_callback(look_at)  # at once, and before what comes next


def named(hook: Started | Answered) -> Object:
    return {"hook_id": hook.id, "hook_name": hook.name, "hook_event": str(hook.point)}
