"""What a decision is made from, and what it says. Values only.

Around a verdict: who may choose bypassPermissions, and the classifier of mode auto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Literal, Protocol

from msgspec.structs import replace

from mainspring.core.value import Value
from mainspring.permissions.rules import PermissionRule, PermissionRules
from mainspring.processes.paths import Resolved

Decision = Literal["allow", "ask", "deny"]

Paths = Callable[[str, str], Resolved]
"""Where a path leads, seen from a folder. The only thing a decision asks of the world; raises `PathRefused`."""


class Mode(StrEnum):
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    PLAN = "plan"
    DONT_ASK = "dontAsk"
    BYPASS = "bypassPermissions"
    AUTO = "auto"


class PermissionPolicy(Value):
    rules: PermissionRules = PermissionRules()
    mode: Mode = Mode.DEFAULT
    folders: tuple[str, ...] = ()  # the working folders; the current one is always among them
    home: str = ""
    ours: tuple[str, ...] = ()  # our own folders in the user's home: protected wherever they are
    root: str = ""  # where the session began: rules are seen from there, wherever a shell has gone since
    reads_enforced: bool = False  # a sandbox hides from commands what rules keep from being read
    trusted: bool = True  # whether what a repository brings may run, as its configuration of git does
    # Every name that the folders had when they were added: a command may put a link in the place of one later, and
    # where that leads nobody has allowed. None: nobody has looked, so the names of now count, the current one's too.
    reached: tuple[str, ...] | None = None


class PermissionRequest(Value):
    """One tool call, before it runs."""

    tool: str
    input: Mapping[str, object]
    cwd: str
    before: Mapping[str, object] | None = None  # the input before a hook changed it: deny and ask hold for both
    hook: Decision | None = None  # what the hooks said, the strictest of them
    hook_reason: str = ""
    reads: bool = False  # a tool of somebody else's that says it only reads: it may run in plan mode


class PermissionDecision(Value):
    decision: Decision
    reason: str
    rule: str = ""  # the text of the rule that decided, or ""
    source: str = ""
    shown: str = ""  # what a person should see: all of it, with what cannot be seen made visible
    open: bool = False  # asked only because no rule covers it: here a classifier may answer
    person: bool = False  # nobody but a person may say yes: a removal of everything, a protected place


class Findings(Value):
    """What the rules and the built-in knowledge say about one call. `decide.py` puts them in order."""

    deny: PermissionRule | None = None
    refused: str = ""  # denied without a rule
    ask: PermissionRule | None = None
    never: str = ""  # why it is never approved without a person
    allow: tuple[PermissionRule, ...] = ()
    covered: bool = False  # by allow rules and what is free, all of it
    reads: bool = False  # only reads, where reading is free
    edits: bool = False  # covered, or file changes in the working folders
    why: str = ""  # in words


def bypass_refused(*, root: bool, environment: Mapping[str, str]) -> str:
    """Why mode bypassPermissions must not be entered, or "" (N-16)."""
    if root and environment.get("IS_SANDBOX") != "1":
        return (
            "bypassPermissions is refused to root: use another user, or set IS_SANDBOX=1 where the machine is isolated"
        )
    return ""


class Classifier(Protocol):
    """A model that judges a call. None: it cannot tell."""

    async def judge(self, asked: PermissionRequest) -> Literal["allow", "deny"] | None: ...


async def apply_classifier(
    verdict: PermissionDecision, asked: PermissionRequest, mode: Mode, classifier: Classifier | None
) -> PermissionDecision:
    """In mode auto a classifier answers what is asked only for want of a rule; else it stays asked (N-15)."""
    if mode is not Mode.AUTO or not verdict.open or classifier is None:
        return verdict
    try:
        answer = await classifier.judge(asked)
    except Exception as error:  # noqa: BLE001  # whatever a classifier does, the safe answer is the question
        return replace(verdict, reason=f"{verdict.reason}; the classifier failed: {error}")
    match answer:
        case "allow":
            return replace(verdict, decision="allow", reason="the classifier allowed it", open=False)
        case "deny":
            return replace(verdict, decision="deny", reason="the classifier refused it", open=False)
        case _:
            return replace(verdict, reason=f"{verdict.reason}; the classifier cannot tell")
