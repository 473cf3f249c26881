"""Runs all matching hooks of an event in parallel, and merges their answers.

A hook that fails has no opinion, and a warning names it. But a guard of calls that cannot run, because it cannot be
started, times out or is killed, counts as a deny.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from mainspring.core.matchers import compile_matcher
from mainspring.core.value import Bundle
from mainspring.hooks.events import ENDS, GUARDS, NOTHING, OF_TOOLS, HookPoint, HookResult, merge_hook_results
from mainspring.hooks.invocation import (
    Ask,
    AsyncHookAnswer,
    HookCallError,
    HookObserver,
    HookOutput,
    HookTimeoutError,
    HookWatch,
    How,
    NoHookObserver,
    call_hook,
    wait_with_timeout,
)
from mainspring.hooks.payloads import Facts
from mainspring.hooks.results import ENDED, HookAnswerError, blocking_result, opinion_of

SECONDS = 60.0  # stream-json 10
GRACE = 2.0  # seconds at the end of a session for background hooks
MOST_ASIDE = 64  # of them at once: hooks that never end must not pile up
LONGEST_WHY = 2_000  # characters of foreign text in a message
QUIET_ENDS = (OF_TOOLS - GUARDS) | ENDS
FORMER_NAMES = {"Agent": ("Task",)}  # that a matcher may still use (stream-json 8)

Tell = Callable[[str], object]


def match_nothing(_: str) -> None:
    """Ignores everything."""


class Hook(Bundle):
    """One hook. `ask` gets the payload and returns a `HookResult`, a dictionary as in stream-json, or None."""

    point: HookPoint
    ask: Ask
    matcher: str | None = None  # for tools: a regular expression for the whole name; none, empty or '*': all
    seconds: float = SECONDS
    name: str = ""  # for messages
    blocks: bool = False  # its failure blocks, at any event
    aside: bool = False  # it runs in the background


class HookRunner:
    """All hooks of a session."""

    def __init__(  # noqa: PLR0913  # keywords, all but one
        self,
        hooks: Iterable[Hook],
        *,
        common: Callable[[], Facts] = dict,
        more: Mapping[HookPoint, Callable[[Facts], Facts]] | None = None,
        warn: Tell = match_nothing,
        say: Tell = match_nothing,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`common`: fields of every payload; `more`: fields that only the session knows, for some events, which add to
        or replace those of the event. `warn` gets failures of hooks, `say` messages of hooks to the person.
        `before` is awaited before each hook, which may change files.
        """
        self._hooks: dict[HookPoint, list[tuple[Hook, re.Pattern[str] | None]]] = {}
        for hook in hooks:
            self._hooks.setdefault(hook.point, []).append((hook, compile_hook_matcher(hook, warn)))
        self._common, self._more = common, more or {}
        self._warn, self._say, self._before = warn, say, before
        self._watcher: HookObserver = NoHookObserver()
        self._aside: set[asyncio.Task[HookResult]] = set()

    def watch(self, watcher: HookObserver) -> None:
        """From now on `observer` gets the start and the end of each hook."""
        self._watcher = watcher

    def any_at(self, point: HookPoint, tool: str = "") -> bool:
        return bool(self._matching(point, tool))

    def _matching(self, point: HookPoint, tool: str) -> list[Hook]:
        standing = self._hooks.get(point, ())
        names = (tool, *FORMER_NAMES.get(tool, ()))
        return [hook for hook, matcher in standing if matcher is None or any(map(matcher.fullmatch, names))]

    async def ask(self, point: HookPoint, facts: dict[str, Any], tool: str = "") -> HookResult:
        given = self._given(point, facts)
        waited: list[Hook] = []
        for hook in self._matching(point, tool):
            if hook.aside:
                self._keep(hook, self._one(hook, given))
            else:
                waited.append(hook)
        if len(waited) == 1:
            opinions = [await self._one(waited[0], given)]
        else:
            async with asyncio.TaskGroup() as group:  # ends when all are done; `gather` returns with the first error
                all_of_them = [group.create_task(self._one(hook, given)) for hook in waited]
            opinions = [task.result() for task in all_of_them]
        opinion = merge_hook_results(opinions)
        if opinion.decision == "deny":
            names = [get_hook_name(hook) for hook, one in zip(waited, opinions, strict=True) if one.decision == "deny"]
            opinion = replace(opinion, by=", ".join(names))
        for words in (opinion.message, why_ended(opinion, point)):
            if words:
                self._tell(self._say, words)
        return opinion

    def tell(self, point: HookPoint, facts: dict[str, Any], tool: str = "") -> None:
        given = self._given(point, facts)
        for hook in self._matching(point, tool):
            self._keep(hook, self._told(hook, given))

    def _given(self, point: HookPoint, facts: dict[str, Any]) -> dict[str, Any]:
        more = self._more[point](facts) if point in self._more else {}
        return {**self._common(), "hook_event_name": str(point), **facts, **more}

    async def close(self, *, grace: float = GRACE) -> None:
        """Ends the background hooks, after a moment in which they may end by themselves."""
        if self._aside:
            await asyncio.wait(self._aside, timeout=grace)
        for task in tuple(self._aside):
            task.cancel()
        if self._aside:
            await asyncio.wait(self._aside)

    async def _one(self, hook: Hook, facts: dict[str, Any]) -> HookResult:
        sight = HookWatch(self._watcher, hook.point, facts)
        await sight.starts()
        if self._before is not None:
            await self._before()
        try:
            return await self._asked(hook, facts, sight)
        finally:
            if not sight.goes_on:
                sight.over()

    async def _asked(self, hook: Hook, facts: dict[str, Any], sight: HookWatch) -> HookResult:
        unasked, said = False, NOTHING
        how: How = "error"
        try:
            answer = await wait_with_timeout(
                asyncio.ensure_future(call_hook(hook.ask, copy_payload(facts))), hook.seconds
            )
            if isinstance(answer, AsyncHookAnswer):
                sight.goes_on = True
                self._keep(hook, self._rest(hook, answer, sight)).add_done_callback(lambda _: sight.over())
                return NOTHING
            if isinstance(answer, HookOutput):
                sight.spoke(answer)
                answer = answer.meant()
            opinion = opinion_of(answer, hook.point)
        except HookCallError as error:
            why, unasked, how = str(error), True, "cancelled" if isinstance(error, HookTimeoutError) else "error"
        except HookAnswerError as error:
            why, said = str(error), error.said
        except Exception as error:  # noqa: BLE001  # whatever somebody else's code does
            why = f"failed: {type(error).__name__}: {error}"
        else:
            sight.said(answer)
            return opinion
        why = why[:LONGEST_WHY]
        sight.failed(why, how)
        self._tell(self._warn, f"the {hook.point} hook '{get_hook_name(hook)}' {why}")
        if hook.blocks or (unasked and hook.point in GUARDS):
            return blocking_result(hook.point, f"The hook '{get_hook_name(hook)}', which guards this, {why}.")
        return said

    # --- background hooks ---

    def _keep(self, hook: Hook, asking: Coroutine[Any, Any, HookResult]) -> asyncio.Task[HookResult]:
        task = asyncio.get_running_loop().create_task(asking)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)
        if len(self._aside) > MOST_ASIDE:
            task.cancel()
            self._tell(
                self._warn,
                f"{MOST_ASIDE} background hooks are still running, so '{get_hook_name(hook)}' was stopped",
            )
        return task

    async def _told(self, hook: Hook, facts: dict[str, Any]) -> HookResult:
        opinion = await self._one(hook, facts)
        if opinion.message:
            self._tell(self._say, opinion.message)
        return opinion

    async def _rest(self, hook: Hook, answer: AsyncHookAnswer, sight: HookWatch) -> HookResult:
        with contextlib.suppress(Exception):  # its answer does not count any more, and it reported its error itself
            try:
                ended = await wait_with_timeout(answer.rest, answer.seconds)
                if answer.spoken is not None:
                    sight.spoke(answer.spoken(ended))
            except HookCallError as error:
                sight.failed(str(error), "cancelled")
                self._tell(self._warn, f"the {hook.point} background hook '{get_hook_name(hook)}' {error}")
        return NOTHING

    @staticmethod
    def _tell(tell: Tell, text: str) -> None:
        with contextlib.suppress(Exception):  # a closed terminal is no reason to fail
            tell(text)


def why_ended(opinion: HookResult, point: HookPoint) -> str:
    """A `stopReason` that the person would not see: elsewhere it is the result of the call or the prompt."""
    return opinion.stop or "" if point in QUIET_ENDS and opinion.stop != ENDED else ""


def get_hook_name(hook: Hook) -> str:
    return hook.name or getattr(hook.ask, "__name__", "") or type(hook.ask).__name__


def copy_payload(facts: dict[str, Any]) -> dict[str, Any]:
    """One for each hook: an input that a hook changes in place would run without a decision."""
    try:
        return dict(msgspec.to_builtins(facts))
    except (TypeError, ValueError, RecursionError) as error:
        raise HookCallError(f"cannot receive its payload: {error}") from None


def compile_hook_matcher(hook: Hook, warn: Tell) -> re.Pattern[str] | None:
    """None: it matches every tool, or the event has no tools. An invalid one may be a guard's: it matches all."""
    if hook.point not in OF_TOOLS:
        return None
    try:
        return compile_matcher(hook.matcher or "")
    except ValueError as error:
        warn(f"the matcher '{hook.matcher}' of the {hook.point} hook '{get_hook_name(hook)}' is not used: {error}. "
             "The hook runs for every call")  # fmt: skip
        return None


# Former names, for one release.
Runner = HookRunner
