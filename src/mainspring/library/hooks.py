"""Hooks of an agent: functions of the program that see prompts and calls, and may block or change them.

    def guard(call: HookCall[Database]) -> dict[str, object] | None:
        return {"decision": "block", "reason": "Read-only today."} if call.deps.frozen else None

    agent = Agent("haiku", tools=["Bash"], deps=Database, hooks={"PreToolUse": [AgentHook(guard, matcher="Bash")]})

The result is the JSON of a hook, as docs/hooks.md has it; None decides nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, cast, get_args

from mainspring.agent.host import HostHook
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.text import did_you_mean

DepsT = TypeVar("DepsT")
HookEventName = Literal[
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
EVENTS: tuple[str, ...] = get_args(HookEventName)


class HookCall(Bundle, Generic[DepsT]):
    """What a hook gets.

    Example:
        calls: list[str] = []

        def watch(call: HookCall[None]) -> None:
            calls.append(f"{call.event}: {call.tool_name} {call.tool_input}")

        agent = Agent("haiku", tools=["Read"], hooks={"PostToolUse": [watch]})
    """

    event: str
    payload: dict[str, Any]
    """Everything that is known, as in docs/hooks.md."""
    deps: DepsT
    """The object that the program gave to the run (`deps=...`)."""

    @property
    def tool_name(self) -> str:
        """Empty: the event is about no call."""
        return str(self.payload.get("tool_name", ""))

    @property
    def tool_input(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.payload.get("tool_input", {}))


HookReply = Mapping[str, Any] | None
HookFunction = Callable[[HookCall[Any]], "HookReply | Awaitable[HookReply]"]


class AgentHook(Bundle):
    """A hook for some tools only, with a time limit, or one that denies when it fails.

    Example:
        def guard(call: HookCall[None]) -> dict[str, str]:
            return {"decision": "block", "reason": "Not today."}

        agent = Agent("haiku", tools=["Bash"], hooks={"PreToolUse": [AgentHook(guard, matcher="Bash")]})
    """

    function: HookFunction
    matcher: str = ""
    """A pattern of tool names; empty: all."""
    timeout: float | None = None
    """Seconds; None: as for every hook."""
    on_failure: Literal["continue", "block"] = "continue"


HookTable = Mapping[HookEventName, Sequence[HookFunction | AgentHook]]


def check_hook_table(given: Mapping[Any, Any]) -> None:
    """Raises `UsageError`."""
    for event, hooks in given.items():
        if event not in EVENTS:
            near = did_you_mean(str(event), EVENTS) or f"; use {', '.join(EVENTS)}"
            raise UsageError(f"'hooks' has no event '{event}'{near}")
        if not isinstance(hooks, list | tuple):
            raise UsageError(f"'hooks' has {hooks!r} for '{event}': use a list of functions")
        for hook in cast("Sequence[object]", hooks):
            if not callable(hook.function if isinstance(hook, AgentHook) else hook):
                raise UsageError(f"'hooks' has {hook!r} for '{event}': use functions, and 'AgentHook'")


def name_hooks(given: HookTable) -> dict[str, tuple[HostHook, HookFunction]]:
    """The hooks as a session expects them, by ids that say which function it is."""
    found: dict[str, tuple[HostHook, HookFunction]] = {}
    for event, hooks in given.items():
        for hook in hooks:
            own = hook if isinstance(hook, AgentHook) else AgentHook(hook)
            own_id = f"{getattr(own.function, '__name__', 'hook')}_{len(found)}"
            found[own_id] = (
                HostHook(event, own_id, own.matcher or None, own.timeout, own.on_failure == "block"),
                own.function,
            )
    return found


def check_reply(said: object, name: str) -> dict[str, Any]:
    """Raises `TypeError`, which the session logs: the hook has failed."""
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        raise TypeError(f"the hook '{name}' must return a dict or None, not {said!r}")
    return dict(cast("Mapping[str, Any]", said))
