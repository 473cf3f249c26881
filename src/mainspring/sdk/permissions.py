"""`can_use_tool`: the callback of the program for tool calls that no rule covers (stream-json 5.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Literal

from mainspring.core.value import as_object_or_none

# "manual" is another name of "default"
PermissionMode = Literal["default", "manual", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto"]
PermissionBehavior = Literal["allow", "deny", "ask"]
PermissionUpdateDestination = Literal["userSettings", "projectSettings", "localSettings", "session"]
PermissionUpdateType = Literal[
    "addRules", "replaceRules", "removeRules", "setMode", "addDirectories", "removeDirectories"
]


@dataclass
class PermissionRuleValue:
    """A permission rule: a tool, and what the rule is about."""

    tool_name: str
    rule_content: str | None = None


@dataclass
class PermissionUpdate:
    """A change of rules, mode or directories that comes with an approval."""

    type: PermissionUpdateType
    rules: list[PermissionRuleValue] | None = None
    behavior: PermissionBehavior | None = None
    mode: PermissionMode | None = None
    directories: list[str] | None = None
    destination: PermissionUpdateDestination | None = None

    def to_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "type": self.type,
            "destination": self.destination,
            "behavior": self.behavior,
            "mode": self.mode,
            "directories": self.directories,
        }
        if self.rules is not None:
            said["rules"] = [{"toolName": rule.tool_name, "ruleContent": rule.rule_content} for rule in self.rules]
        return {name: value for name, value in said.items() if value is not None}

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> PermissionUpdate:
        rules = said.get("rules")
        return cls(
            said["type"],
            [PermissionRuleValue(one["toolName"], one.get("ruleContent")) for one in rules] if rules else None,
            said.get("behavior"),
            said.get("mode"),
            said.get("directories"),
            said.get("destination"),
        )


@dataclass
class ToolPermissionContext:
    """Details of the request."""

    signal: Any | None = None  # reserved
    suggestions: list[PermissionUpdate] = field(default_factory=list[PermissionUpdate])
    tool_use_id: str | None = None
    agent_id: str | None = None  # the subagent that asks; None: the session itself
    blocked_path: str | None = None
    decision_reason: str | None = None
    title: str | None = None
    display_name: str | None = None
    description: str | None = None
    deps: Any = None  # `Options.deps`


@dataclass
class PermissionResultAllow:
    """Returned by `can_use_tool`: allow the call, also with another input or with new rules."""

    behavior: Literal["allow"] = "allow"
    updated_input: dict[str, Any] | None = None
    updated_permissions: list[PermissionUpdate] | None = None


@dataclass
class PermissionResultDeny:
    """Returned by `can_use_tool`: deny the call, with a message for the model."""

    behavior: Literal["deny"] = "deny"
    message: str = ""
    interrupt: bool = False  # ends the turn, too


PermissionResult = PermissionResultAllow | PermissionResultDeny
CanUseTool = Callable[[str, dict[str, Any], ToolPermissionContext], Awaitable[PermissionResult]]


async def call_can_use_tool(ask: CanUseTool, asked: dict[str, Any], deps: object = None) -> dict[str, Any]:
    """The program's answer to a permission request. An invalid answer is an error, and denies the call."""
    names = ("tool_use_id", "agent_id", "blocked_path", "decision_reason", "title", "display_name", "description")
    context = ToolPermissionContext(
        suggestions=[PermissionUpdate.from_dict(one) for one in asked.get("permission_suggestions") or ()],
        **{name: asked.get(name) for name in names},
        deps=deps,
    )
    said: object = ask(asked["tool_name"], asked["input"], context)
    return permission_result_to_wire(await said if isawaitable(said) else said)


def permission_result_to_wire(said: object) -> dict[str, Any]:
    match said:
        case PermissionResultAllow():
            if said.updated_input is not None and as_object_or_none(said.updated_input) is None:
                raise TypeError("'updated_input' must be a dict: the call is denied")
            allowed: dict[str, Any] = {"behavior": "allow"}
            if said.updated_input is not None:
                allowed["updatedInput"] = said.updated_input
            if said.updated_permissions is not None:
                allowed["updatedPermissions"] = [one.to_dict() for one in said.updated_permissions]
            return allowed
        case PermissionResultDeny():
            return {"behavior": "deny", "message": said.message, "interrupt": said.interrupt}
        case _:
            raise TypeError(
                f"'can_use_tool' returned {type(said).__name__}: return PermissionResultAllow or PermissionResultDeny"
            )
