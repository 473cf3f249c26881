"""Asks everybody who stands at a point, all at once, and puts together what they say.

A hook that fails has no opinion, and is named. But whoever guards calls and cannot be asked, because it cannot be
started or takes too long, is taken at its strictest: it says no.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.hooks.answers import WrongAnswer, blocked, opinion_of
from mainspring.hooks.points import NOTHING, OF_TOOLS, Opinion, Point, together

SECONDS = 60.0
GUARDS = (Point.PRE_TOOL_USE, Point.PERMISSION_REQUEST)

Ask = Callable[[dict[str, Any]], Awaitable[object] | object]
Warn = Callable[[str], object]


class Unasked(Exception):  # noqa: N818  # it reads as what it says
    """A hook that could not be asked at all."""


class Hook(Bundle):
    """One who is to be asked. `ask` gets the facts and returns an `Opinion`, a dictionary as in stream-json, or None."""

    point: Point
    ask: Ask
    matcher: str = ""  # for tools: a regular expression for the whole name; empty or '*': all
    seconds: float = SECONDS
    name: str = ""  # for messages
    blocks: bool = False  # its failure is a no, wherever it stands
    aside: bool = False  # nobody waits for it


class Runner:
    """All hooks of a session."""

    def __init__(
        self, hooks: Iterable[Hook], *, common: Callable[[], dict[str, Any]] = dict, warn: Warn = lambda _: None
    ) -> None:
        self._hooks: dict[Point, list[tuple[Hook, re.Pattern[str] | None]]] = {}
        for hook in hooks:
            self._hooks.setdefault(hook.point, []).append((hook, compiled(hook)))
        self._common = common
        self._warn = warn
        self._aside: set[asyncio.Task[Opinion]] = set()

    def any_at(self, point: Point, tool: str = "") -> bool:
        return bool(self._matching(point, tool))

    def _matching(self, point: Point, tool: str) -> list[Hook]:
        standing = self._hooks.get(point, ())
        if point not in OF_TOOLS:
            return [hook for hook, _ in standing]
        return [hook for hook, matcher in standing if matcher is None or matcher.fullmatch(tool)]

    async def ask(self, point: Point, facts: dict[str, Any], tool: str = "") -> Opinion:
        hooks = self._matching(point, tool)
        given = {**self._common(), "hook_event_name": str(point), **facts}
        waited = [self._one(hook, dict(given)) for hook in hooks if not hook.aside]
        for hook in hooks:
            if hook.aside:
                task = asyncio.get_running_loop().create_task(self._one(hook, dict(given)))
                self._aside.add(task)
                task.add_done_callback(self._aside.discard)
        if len(waited) == 1:
            return await waited[0]
        return together(list(await asyncio.gather(*waited))) if waited else NOTHING

    async def close(self) -> None:
        """End those that nobody waits for."""
        for task in tuple(self._aside):
            task.cancel()
        if self._aside:
            await asyncio.wait(self._aside)

    async def _one(self, hook: Hook, facts: dict[str, Any]) -> Opinion:
        name = hook.name or getattr(hook.ask, "__name__", "hook")
        try:
            async with asyncio.timeout(hook.seconds):
                answer = hook.ask(facts)
                said: object = await answer if isinstance(answer, Awaitable) else answer
            return opinion_of(said, hook.point)
        except TimeoutError:
            why, unasked = f"took longer than {hook.seconds:g} seconds", True
        except Unasked as error:
            why, unasked = str(error), True
        except WrongAnswer as error:
            why, unasked = str(error), False
        except Exception as error:  # noqa: BLE001  # whatever somebody else's code does
            why, unasked = f"failed: {type(error).__name__}: {error}", False
        self._warn(f"the {hook.point} hook '{name}' {why}")
        if hook.blocks or (unasked and hook.point in GUARDS):
            return blocked(hook.point, f"The hook '{name}', which guards this, {why}.")
        return NOTHING


def compiled(hook: Hook) -> re.Pattern[str] | None:
    if hook.matcher in ("", "*") or hook.point not in OF_TOOLS:
        return None
    try:
        return re.compile(hook.matcher)
    except re.error as error:
        raise UsageError(
            f"the matcher '{hook.matcher}' of a {hook.point} hook is no regular expression ({error}): mend it, or "
            "leave it out to match every tool"
        ) from None
