"""What can be seen of hooks from outside: that one is asked, and what came of it (stream-json 6.7). For whoever shows
it: nothing depends on it, and what the watcher does is no concern of the hook.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Literal, Protocol

import msgspec

from mainspring.core.value import Value
from mainspring.hooks.events import OF_TOOLS, HookPoint, HookResult
from mainspring.hooks.invocation import HookOutput

MOST_SEEN = 100_000  # characters of each text: a program that reads along wants to know, not to have it all
# What a point is about, beside its own name; points of tools are about the tool.
ABOUT = {
    HookPoint.SUBAGENT_START: "agent_type",
    HookPoint.SUBAGENT_STOP: "agent_type",
    HookPoint.PRE_COMPACT: "trigger",
    HookPoint.POST_COMPACT: "trigger",
    HookPoint.SESSION_START: "source",
    HookPoint.SESSION_END: "reason",
    HookPoint.NOTIFICATION: "notification_type",
}

How = Literal["success", "error", "cancelled"]


class HookCallStarted(Value):
    """A hook is being asked."""

    id: str
    name: str  # 'PreToolUse:Bash', 'SessionStart:startup', 'Stop'
    point: HookPoint


class HookCallFinished(Value):
    """It has answered, or never will."""

    id: str
    name: str
    point: HookPoint
    outcome: How
    output: str = ""  # what it has to say: what a command printed, what a function returned, or what went wrong
    stdout: str = ""  # of a command
    stderr: str = ""
    code: int | None = None  # with which a command ended


class HookObserver(Protocol):
    async def starts(self, hook: HookCallStarted) -> None:
        """Before it is asked, which waits for this: so that it can be told of behind all that came before it."""
        ...

    def ended(self, hook: HookCallFinished) -> None: ...


class NoHookObserver:
    """Nobody looks."""

    async def starts(self, hook: HookCallStarted) -> None:
        pass

    def ended(self, hook: HookCallFinished) -> None:
        pass


class HookWatch:
    """One hook, from when it is asked until it has answered: told of once each."""

    def __init__(self, watcher: HookObserver, point: HookPoint, facts: dict[str, Any]) -> None:
        self._watcher = watcher
        self._started = HookCallStarted(os.urandom(8).hex(), name_of(point, facts), point)
        self._answered: HookCallFinished | None = None
        self.goes_on = False  # nobody waits for it any more, and it has not ended yet

    async def starts(self) -> None:
        with contextlib.suppress(Exception):  # of whoever looks on
            await self._watcher.starts(self._started)

    def spoke(self, spoken: HookOutput) -> None:
        """A command has ended."""
        stdout, stderr = spoken.stdout[:MOST_SEEN], spoken.stderr[:MOST_SEEN]
        how: How = "success" if spoken.code == 0 else "error"
        self._answer(how, stdout + stderr, stdout=stdout, stderr=stderr, code=spoken.code)

    def said(self, answer: object) -> None:
        """A function has returned."""
        if self._answered is None:
            self._answer("success", "" if answer is None else answer_to_json(answer))

    def failed(self, why: str, how: How = "error") -> None:
        """What a command printed is still worth more than our words."""
        if self._answered is not None:
            self._answered = msgspec.structs.replace(self._answered, outcome=how)
        else:
            self._answer(how, why, stderr=why)

    def over(self) -> None:
        """It ended in one of these ways, or else somebody ended it."""
        with contextlib.suppress(Exception):
            self._watcher.ended(self._answered or self._made("cancelled"))

    def _answer(self, how: How, output: str, **more: Any) -> None:
        self._answered = self._made(how, output=output[:MOST_SEEN], **more)

    def _made(self, how: How, **more: Any) -> HookCallFinished:
        of = self._started
        return HookCallFinished(of.id, of.name, of.point, how, **more)


def name_of(point: HookPoint, facts: dict[str, Any]) -> str:
    about = facts.get("tool_name" if point in OF_TOOLS else ABOUT.get(point, ""))
    return f"{point}:{about}" if about else str(point)


def answer_to_json(answer: object) -> str:
    """As a program would have written it: of an opinion, what it holds."""
    told = {k: v for k, v in msgspec.structs.asdict(answer).items() if v} if isinstance(answer, HookResult) else answer
    try:
        return msgspec.json.encode(told).decode()
    except (TypeError, ValueError, RecursionError):
        return ""
