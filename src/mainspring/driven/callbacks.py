"""Hooks that are functions of the program which drives us (stream-json 5.2 and 10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mainspring.driven.incoming import listed, table
from mainspring.driven.questions import Questions
from mainspring.engine.plain import new_id
from mainspring.hooks.points import Point
from mainspring.hooks.runner import SECONDS, Hook

MOST_SECONDS = 86_400.0
# The session has begun before anybody could say what to do at its beginning.
NEVER_CALLED = frozenset({Point.SESSION_START, Point.SESSION_END})


def hooks_of(
    given: object, questions: Questions, shown: Callable[[], Awaitable[None]], warn: Callable[[str], object]
) -> list[Hook]:
    """`shown` returns when all that happened before is on the pipe: a call's frame precedes its hooks (7, rule 2)."""
    found: list[Hook] = []
    for event, matchers in table(given).items():
        point = next((one for one in Point if one == event), None)
        if point is None or point in NEVER_CALLED:
            warn(never_called(event))
            continue
        for matcher in map(table, listed(matchers)):
            ids = map(str, listed(matcher.get("hookCallbackIds")))
            found += [hook(point, matcher, one, questions, shown) for one in ids]
    return found


def never_called(event: str) -> str:
    if event in NEVER_CALLED:
        return f"the 'initialize' request has hooks for '{event}', which are never called: put them into the settings"
    from mainspring.core.meant import did_you_mean

    near = did_you_mean(event, Point)
    return f"the 'initialize' request has hooks for '{event}', which are never called: there is no such event{near}"


def hook(
    point: Point, matcher: dict[str, Any], id: str, questions: Questions, shown: Callable[[], Awaitable[None]]
) -> Hook:
    async def ask(facts: dict[str, Any]) -> dict[str, Any]:
        await shown()
        return await questions.ask(
            "hook_callback", callback_id=id, input=facts, tool_use_id=facts.get("tool_use_id") or new_id()
        )

    pattern, seconds = matcher.get("matcher"), matcher.get("timeout")
    return Hook(
        point,
        ask,
        matcher=pattern if isinstance(pattern, str) else None,
        seconds=min(float(seconds), MOST_SECONDS) if isinstance(seconds, int | float) and seconds > 0 else SECONDS,
        name=id,
        blocks=matcher.get("onFailure") == "block",
    )
