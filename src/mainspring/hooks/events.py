"""Hook events and hook results, as values (stream-json 10)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, Protocol

from mainspring.core.value import Value


class HookPoint(StrEnum):
    """The events at which a hook can run."""

    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    POST_TOOL_USE_FAILURE = "PostToolUseFailure"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    STOP = "Stop"
    SUBAGENT_START = "SubagentStart"
    SUBAGENT_STOP = "SubagentStop"
    PRE_COMPACT = "PreCompact"
    POST_COMPACT = "PostCompact"
    SESSION_START = "SessionStart"
    SESSION_END = "SessionEnd"
    NOTIFICATION = "Notification"
    PERMISSION_REQUEST = "PermissionRequest"


# At these a hook decides about a call: its deny refuses the call, and so does a guard that cannot run.
GUARDS = frozenset({HookPoint.PRE_TOOL_USE, HookPoint.PERMISSION_REQUEST})

# Only these have a tool, so only their matchers count.
OF_TOOLS = GUARDS | {HookPoint.POST_TOOL_USE, HookPoint.POST_TOOL_USE_FAILURE}

# At these a block has an effect: it stops a prompt, a stop or a compaction, or the model gets the reason with the tool
# result. Elsewhere there is nothing to block.
CAN_BLOCK = frozenset(
    {
        HookPoint.POST_TOOL_USE,
        HookPoint.POST_TOOL_USE_FAILURE,
        HookPoint.USER_PROMPT_SUBMIT,
        HookPoint.STOP,
        HookPoint.SUBAGENT_STOP,
        HookPoint.PRE_COMPACT,
    }
)

# At these the model would be done: it can read added context only if it continues.
ENDS = frozenset({HookPoint.STOP, HookPoint.SUBAGENT_STOP})

Decision = Literal["allow", "deny", "ask"]
STRICTEST_FIRST: tuple[Decision, ...] = ("deny", "ask", "allow")


class HookResult(Value):
    """The answer of one hook, or of all together. The empty one: no opinion."""

    decision: Decision | None = None  # about a call
    block: bool = False  # about a prompt, a stop, a compaction, or a tool result
    reason: str = ""
    input: dict[str, Any] | None = None  # the call's input, changed
    output: Any = None  # replaces the tool result for the model
    context: tuple[str, ...] = ()  # texts for the model, with the next request
    message: str = ""  # for the person
    stop: str | None = None  # ends the run after this event; the reason
    mcp_output: Any = None  # like `output`, but only for MCP tools
    by: str = ""  # the names of the hooks that denied the call


NOTHING = HookResult()


def merge_hook_results(opinions: list[HookResult]) -> HookResult:
    """Deny over ask over allow, with the reasons of those that decided; contexts are joined; the last input counts."""
    said = [opinion for opinion in opinions if opinion != NOTHING]
    if len(said) <= 1:
        return said[0] if said else NOTHING
    decision, block = _strictest(said), any(opinion.block for opinion in said)
    deciding = [o for o in said if o.block or (o.decision is not None and o.decision == decision)] or said
    return HookResult(
        decision,
        block,
        "; ".join([opinion.reason for opinion in deciding if opinion.reason]),
        next((opinion.input for opinion in reversed(said) if opinion.input is not None), None),
        next((opinion.output for opinion in reversed(said) if opinion.output is not None), None),
        tuple([text for opinion in said for text in opinion.context]),
        "\n".join([opinion.message for opinion in said if opinion.message]),
        next((opinion.stop for opinion in said if opinion.stop is not None), None),
        next((opinion.mcp_output for opinion in reversed(said) if opinion.mcp_output is not None), None),
    )


def _strictest(said: list[HookResult]) -> Decision | None:
    """An allow was for the input that its hook has seen: it does not apply to one that another hook changed."""
    decided = {opinion.decision for opinion in said}
    decision: Decision | None = next((one for one in STRICTEST_FIRST if one in decided), None)
    rewritten = any(opinion.input is not None and opinion.decision != "allow" for opinion in said)
    return None if decision == "allow" and rewritten else decision


class Hooks(Protocol):
    """All hooks of a session."""

    def any_at(self, point: HookPoint, tool: str = "") -> bool:
        """Whether any hook runs at this event: if not, no payload is built."""
        ...

    async def ask(self, point: HookPoint, facts: dict[str, Any], tool: str = "") -> HookResult:
        """The merged answer of all hooks. Never raises: a failure is an answer, too."""
        ...

    def tell(self, point: HookPoint, facts: dict[str, Any], tool: str = "") -> None:
        """The same, in the background: nothing waits for these hooks, and their answers do not count."""
        ...

    async def close(self) -> None:
        """Ends the background hooks."""
        ...


class NoHooks:
    """No hooks."""

    def any_at(self, point: HookPoint, tool: str = "") -> bool:  # noqa: ARG002
        return False

    async def ask(self, point: HookPoint, facts: dict[str, Any], tool: str = "") -> HookResult:  # noqa: ARG002
        return NOTHING

    def tell(self, point: HookPoint, facts: dict[str, Any], tool: str = "") -> None:
        pass

    async def close(self) -> None:
        pass
