"""The input and the result of a decision, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Literal

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
    closed: tuple[str, ...] = ()  # files that no tool and no command opens, under every name: the user's keys
    root: str = ""  # where the session began: rules are relative to it, wherever a shell has gone since
    reads_enforced: bool = False  # a sandbox hides files from commands that rules deny reading
    trusted: bool = True  # whether the repository's own code may run, such as its git configuration
    # Every name that the folders had when they were added: a command may replace one with a link later, whose target
    # was never allowed. None: not looked up, so the current names count, also that of the current folder.
    reached: tuple[str, ...] | None = None


class PermissionRequest(Value):
    """One tool call, before it runs."""

    tool: str
    input: Mapping[str, object]
    cwd: str
    before: Mapping[str, object] | None = None  # the input before a hook changed it: deny and ask apply to both
    hook: Decision | None = None  # the hooks' decision, the strictest of them
    hook_reason: str = ""
    reads: bool = False  # a third-party tool that declares itself read-only: it may run in plan mode


class PermissionDecision(Value):
    decision: Decision
    reason: str
    rule: str = ""  # the text of the rule that decided, or ""
    source: str = ""
    shown: str = ""  # for the person: all of it, with invisible characters made visible
    open: bool = False  # in mode auto, asked only because no rule covers it, and contained: a classifier may answer
    is_default: bool = False  # asked for no other reason than that no rule covers it
    person: bool = False  # only a person may approve: a removal of everything, a protected path


class Findings(Value):
    """What the rules and the built-in tables say about one call. `decide.py` puts them in order."""

    deny: PermissionRule | None = None
    refused: str = ""  # denied without a rule
    ask: PermissionRule | None = None
    never: str = ""  # why it is never approved without a person
    allow: tuple[PermissionRule, ...] = ()
    covered: bool = False  # all of it, by allow rules and the read-only table
    reads: bool = False  # only reads, where reading is allowed
    edits: bool = False  # covered, or file changes in the working folders
    why: str = ""  # in words
    uncontained: str = ""  # of a command, in mode auto: why only a person may approve it, even in a sandbox
