"""Hooks that are functions of the host (stream-json 5.2 and 10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mainspring.agent.host import HostHook
from mainspring.hooks.events import HookPoint
from mainspring.hooks.runner import SECONDS, Hook

MOST_SECONDS = 86_400.0
# The session has begun before anybody could say what to do at its beginning.
NEVER_CALLED = frozenset({HookPoint.SESSION_START, HookPoint.SESSION_END})

Run = Callable[[str, dict[str, Any]], Awaitable[Any]]


def host_hooks(given: Iterable[HostHook], run: Run, warn: Callable[[str], object]) -> tuple[Hook, ...]:
    found: list[Hook] = []
    told: set[str] = set()
    for one in given:
        point = next((point for point in HookPoint if point == one.event), None)
        if point is not None and point not in NEVER_CALLED:
            found.append(make_host_hook(point, one, run))
        elif one.event not in told:
            told.add(one.event)
            warn(never_called(one.event))
    return tuple(found)


def never_called(event: str) -> str:
    if event in NEVER_CALLED:
        return f"the 'initialize' request has hooks for '{event}', which are never called: put them into the settings"
    from mainspring.text import did_you_mean

    near = did_you_mean(event, HookPoint)
    return f"the 'initialize' request has hooks for '{event}', which are never called: there is no such event{near}"


def make_host_hook(point: HookPoint, given: HostHook, run: Run) -> Hook:
    async def ask(payload: dict[str, Any]) -> Any:
        return await run(given.id, payload)

    seconds = given.seconds
    return Hook(
        point,
        ask,
        matcher=given.matcher,
        seconds=min(seconds, MOST_SECONDS) if seconds is not None and seconds > 0 else SECONDS,
        name=given.id,
        blocks=given.blocks,
    )
