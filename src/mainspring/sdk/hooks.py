"""Hooks that are functions of the program (stream-json 10): their input and their output."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Literal, NotRequired, TypedDict, get_args

from mainspring.agent.host import HostHook
from mainspring.core.value import as_object_or_none
from mainspring.sdk.errors import function_name

HookEvent = Literal[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "Notification",
    "PermissionRequest",
]

EVENTS: tuple[str, ...] = get_args(HookEvent)

# --- input ------------------------------------------------------------------------------------------


class BaseHookInput(TypedDict):
    """The fields that every hook gets."""

    session_id: str
    transcript_path: str
    cwd: str
    permission_mode: NotRequired[str]
    agent_id: NotRequired[str]  # of the subagent that it is about
    agent_type: NotRequired[str]


class PreToolUseHookInput(BaseHookInput):
    """What a hook for `PreToolUse` gets."""

    hook_event_name: Literal["PreToolUse"]
    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str


class PostToolUseHookInput(BaseHookInput):
    """What a hook for `PostToolUse` gets."""

    hook_event_name: Literal["PostToolUse"]
    tool_name: str
    tool_input: dict[str, Any]
    tool_response: Any
    tool_use_id: str


class PostToolUseFailureHookInput(BaseHookInput):
    """What a hook for `PostToolUseFailure` gets."""

    hook_event_name: Literal["PostToolUseFailure"]
    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str
    error: str
    is_interrupt: NotRequired[bool]


class UserPromptSubmitHookInput(BaseHookInput):
    """What a hook for `UserPromptSubmit` gets."""

    hook_event_name: Literal["UserPromptSubmit"]
    prompt: str


class StopHookInput(BaseHookInput):
    """What a hook for `Stop` gets."""

    hook_event_name: Literal["Stop"]
    stop_hook_active: bool
    last_assistant_message: NotRequired[str]


class SubagentStopHookInput(BaseHookInput):
    """What a hook for `SubagentStop` gets."""

    hook_event_name: Literal["SubagentStop"]
    stop_hook_active: bool
    agent_transcript_path: str
    last_assistant_message: NotRequired[str]


class SubagentStartHookInput(BaseHookInput):
    """What a hook for `SubagentStart` gets."""

    hook_event_name: Literal["SubagentStart"]


class PreCompactHookInput(BaseHookInput):
    """What a hook for `PreCompact` gets."""

    hook_event_name: Literal["PreCompact"]
    trigger: Literal["manual", "auto"]
    custom_instructions: str | None


class NotificationHookInput(BaseHookInput):
    """What a hook for `Notification` gets."""

    hook_event_name: Literal["Notification"]
    message: str
    title: NotRequired[str]
    notification_type: str


class PermissionRequestHookInput(BaseHookInput):
    """What a hook for `PermissionRequest` gets."""

    hook_event_name: Literal["PermissionRequest"]
    tool_name: str
    tool_input: dict[str, Any]
    permission_suggestions: NotRequired[list[Any]]


HookInput = (
    PreToolUseHookInput
    | PostToolUseHookInput
    | PostToolUseFailureHookInput
    | UserPromptSubmitHookInput
    | StopHookInput
    | SubagentStopHookInput
    | SubagentStartHookInput
    | PreCompactHookInput
    | NotificationHookInput
    | PermissionRequestHookInput
)


class HookContext(TypedDict):
    """The third argument of a hook function; `deps` is the object of `Options.deps`."""

    signal: Any | None  # reserved
    deps: NotRequired[Any]  # `Options.deps`


# --- output -----------------------------------------------------------------------------------------


class HookJSONOutput(TypedDict, total=False):
    """All fields are optional: `{}` decides nothing. Two names are Python keywords and are written with an
    underscore.
    """

    continue_: bool  # false: the run ends
    stopReason: str
    suppressOutput: bool
    decision: Literal["block", "approve"]
    reason: str
    systemMessage: str
    hookSpecificOutput: dict[str, Any]
    async_: bool
    asyncTimeout: int


HookCallback = Callable[[Any, str | None, HookContext], Awaitable[HookJSONOutput | dict[str, Any]]]


@dataclass
class HookMatcher:
    """Functions for the tools whose names match; None: for all. With `on_failure="block"` a hook that fails denies."""

    matcher: str | None = None
    hooks: list[HookCallback] = field(default_factory=list[HookCallback])
    timeout: float | None = None  # seconds
    on_failure: Literal["continue", "block"] | None = None


def host_hooks(hooks: Mapping[HookEvent, list[HookMatcher]], calls: dict[str, HookCallback]) -> tuple[HostHook, ...]:
    """The hooks as the session expects them: functions by ids, which are added to `calls`."""
    found: list[HostHook] = []
    for event, matchers in hooks.items():
        for matcher in matchers:
            for call in matcher.hooks:
                own_id = f"hook_{len(calls)}"
                calls[own_id] = call
                seconds, blocks = matcher.timeout, matcher.on_failure == "block"
                found.append(HostHook(event, own_id, matcher.matcher or None, seconds, blocks))
    return tuple(found)


async def call_hook_callback(call: HookCallback, asked: dict[str, Any], deps: object = None) -> dict[str, Any]:
    said: object = call(asked["input"], asked.get("tool_use_id"), {"signal": None, "deps": deps})
    answer = as_object_or_none(await said if isawaitable(said) else said)
    if answer is None:
        raise TypeError(f"the hook '{function_name(call)}' did not return a dict: return one, '{{}}' to decide nothing")
    return {name.removesuffix("_") if name in ("continue_", "async_") else name: answer[name] for name in answer}
