"""Asks everybody who stands at a point, all at once, and puts together what they say.

A hook that fails has no opinion, and is named. But whoever guards calls and cannot be asked, because it cannot be
started, takes too long or is killed, is taken at its strictest: it says no.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.hooks.answers import WrongAnswer, blocked, opinion_of
from mainspring.hooks.points import GUARDS, NOTHING, OF_TOOLS, Opinion, Point, together
from mainspring.hooks.waiting import Ask, GoesOn, Unasked, asked, within

SECONDS = 60.0  # stream-json 10
GRACE = 2.0  # seconds at the end of a session for those that nobody waited for
MOST_ASIDE = 64  # of them at once: a hook that never ends must not pile up
LONGEST_WHY = 2_000  # characters of somebody else's words in a message
FORMER_NAMES = {"Agent": ("Task",)}  # which a matcher may still say (stream-json 8)

Tell = Callable[[str], object]


def nobody(_: str) -> None:
    """Hears nothing."""


class Hook(Bundle):
    """One who is asked. `ask` gets the facts and returns an `Opinion`, a dictionary as in stream-json, or None."""

    point: Point
    ask: Ask
    matcher: str | None = None  # for tools: a regular expression for the whole name; none, empty or '*': all
    seconds: float = SECONDS
    name: str = ""  # for messages
    blocks: bool = False  # its failure is a no, wherever it stands
    aside: bool = False  # nobody waits for it


class Runner:
    """All hooks of a session."""

    def __init__(
        self,
        hooks: Iterable[Hook],
        *,
        common: Callable[[], dict[str, Any]] = dict,
        warn: Tell = nobody,
        say: Tell = nobody,
    ) -> None:
        """`common`: facts that all are told. `warn` hears of hooks that fail, `say` what hooks have for the person."""
        self._hooks: dict[Point, list[tuple[Hook, re.Pattern[str] | None]]] = {}
        for hook in hooks:
            self._hooks.setdefault(hook.point, []).append((hook, compiled(hook)))
        self._common = common
        self._warn, self._say = warn, say
        self._aside: set[asyncio.Task[Opinion]] = set()

    def any_at(self, point: Point, tool: str = "") -> bool:
        return bool(self._matching(point, tool))

    def _matching(self, point: Point, tool: str) -> list[Hook]:
        standing = self._hooks.get(point, ())
        names = (tool, *FORMER_NAMES.get(tool, ()))
        return [hook for hook, matcher in standing if matcher is None or any(map(matcher.fullmatch, names))]

    async def ask(self, point: Point, facts: dict[str, Any], tool: str = "") -> Opinion:
        given = self._given(point, facts)
        waited: list[Hook] = []
        for hook in self._matching(point, tool):
            if hook.aside:
                self._keep(hook, self._one(hook, given))
            else:
                waited.append(hook)
        if len(waited) == 1:
            opinion = await self._one(waited[0], given)
        else:
            async with asyncio.TaskGroup() as group:  # which is over when all are; `gather` leaves with the first
                all_of_them = [group.create_task(self._one(hook, given)) for hook in waited]
            opinion = together([task.result() for task in all_of_them])
        if opinion.message:
            self._tell(self._say, opinion.message)
        return opinion

    def tell(self, point: Point, facts: dict[str, Any], tool: str = "") -> None:
        given = self._given(point, facts)
        for hook in self._matching(point, tool):
            self._keep(hook, self._told(hook, given))

    def _given(self, point: Point, facts: dict[str, Any]) -> dict[str, Any]:
        return {**self._common(), "hook_event_name": str(point), **facts}

    async def close(self, *, grace: float = GRACE) -> None:
        """End those that nobody waited for, after a moment in which they may end by themselves."""
        if self._aside:
            await asyncio.wait(self._aside, timeout=grace)
        for task in tuple(self._aside):
            task.cancel()
        if self._aside:
            await asyncio.wait(self._aside)

    async def _one(self, hook: Hook, facts: dict[str, Any]) -> Opinion:
        unasked, said = False, NOTHING
        try:
            answer = await within(asyncio.ensure_future(asked(hook.ask, copied(facts))), hook.seconds)
            if not isinstance(answer, GoesOn):
                return opinion_of(answer, hook.point)
            self._keep(hook, self._rest(hook, answer))
            return NOTHING
        except Unasked as error:
            why, unasked = str(error), True
        except WrongAnswer as error:
            why, said = str(error), error.said
        except Exception as error:  # noqa: BLE001  # whatever somebody else's code does
            why = f"failed: {type(error).__name__}: {error}"
        why = why[:LONGEST_WHY]
        self._tell(self._warn, f"the {hook.point} hook '{called(hook)}' {why}")
        if hook.blocks or (unasked and hook.point in GUARDS):
            return blocked(hook.point, f"The hook '{called(hook)}', which guards this, {why}.")
        return said

    # --- those that nobody waits for ---

    def _keep(self, hook: Hook, asking: Coroutine[Any, Any, Opinion]) -> None:
        task = asyncio.get_running_loop().create_task(asking)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)
        if len(self._aside) > MOST_ASIDE:
            task.cancel()
            self._tell(
                self._warn, f"{MOST_ASIDE} hooks are still under way, so '{called(hook)}' was not left to go on, too"
            )

    async def _told(self, hook: Hook, facts: dict[str, Any]) -> Opinion:
        opinion = await self._one(hook, facts)
        if opinion.message:
            self._tell(self._say, opinion.message)
        return opinion

    async def _rest(self, hook: Hook, answer: GoesOn) -> Opinion:
        with contextlib.suppress(Exception):  # its word does not count any more, and it said so itself
            try:
                await within(answer.rest, answer.seconds)
            except Unasked as error:
                self._tell(self._warn, f"the {hook.point} hook '{called(hook)}', which nobody waited for, {error}")
        return NOTHING

    @staticmethod
    def _tell(tell: Tell, text: str) -> None:
        with contextlib.suppress(Exception):  # a closed terminal is no reason to fail
            tell(text)


def called(hook: Hook) -> str:
    return hook.name or getattr(hook.ask, "__name__", "") or type(hook.ask).__name__


def copied(facts: dict[str, Any]) -> dict[str, Any]:
    """For each hook its own: a call's input that one of them changes in place would run without having been decided."""
    try:
        return dict(msgspec.to_builtins(facts))
    except (TypeError, ValueError, RecursionError) as error:
        raise Unasked(f"cannot be told what is going on: {error}") from None


def compiled(hook: Hook) -> re.Pattern[str] | None:
    """None: it stands for all, or at a point that has no tools."""
    if hook.matcher in (None, "", "*") or hook.point not in OF_TOOLS:
        return None
    try:
        return re.compile(hook.matcher)
    except re.error as error:
        raise UsageError(
            f"the matcher '{hook.matcher}' of a {hook.point} hook is no regular expression ({error}): mend it, or "
            "leave it out to match every tool"
        ) from None
