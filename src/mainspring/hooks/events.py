"""Where hooks stand, and what they can answer. Values only (stream-json 10)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, Protocol

from mainspring.core.value import Value


class HookPoint(StrEnum):
    """Where a hook may stand."""

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


# Here a hook decides about a call: its no is a refusal, and so is that of one who cannot be asked.
GUARDS = frozenset({HookPoint.PRE_TOOL_USE, HookPoint.PERMISSION_REQUEST})

# Only these have a tool, so only their matchers count.
OF_TOOLS = GUARDS | {HookPoint.POST_TOOL_USE, HookPoint.POST_TOOL_USE_FAILURE}

# Here a no holds something up: a prompt, an end, a compaction; or the model hears of it with the outcome of a call.
# At all others there is nothing to say no to.
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

# Here the model would be done: whatever is added for it, it can only hear if it goes on.
ENDS = frozenset({HookPoint.STOP, HookPoint.SUBAGENT_STOP})

Decision = Literal["allow", "deny", "ask"]
STRICTEST_FIRST: tuple[Decision, ...] = ("deny", "ask", "allow")


class HookResult(Value):
    """What one hook says, or all of them together. The empty one: nothing."""

    decision: Decision | None = None  # about a call
    block: bool = False  # about a prompt, an end, a compaction, or the outcome of a call
    reason: str = ""
    input: dict[str, Any] | None = None  # the call's input, changed
    output: Any = None  # what the model gets instead of the call's outcome
    context: tuple[str, ...] = ()  # texts for the model, with the next request
    message: str = ""  # for the person
    stop: str | None = None  # the run ends after this point, and why
    mcp_output: Any = None  # like `output`, but for tools of MCP servers alone


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
    """A yes was for the input that its hook has seen: it does not hold for one that another hook made of it."""
    decided = {opinion.decision for opinion in said}
    decision: Decision | None = next((one for one in STRICTEST_FIRST if one in decided), None)
    rewritten = any(opinion.input is not None and opinion.decision != "allow" for opinion in said)
    return None if decision == "allow" and rewritten else decision


class Hooks(Protocol):
    """All hooks of a session."""

    def any_at(self, point: HookPoint, tool: str = "") -> bool:
        """Whether somebody stands there. Nothing is made up for nobody."""
        ...

    async def ask(self, point: HookPoint, facts: dict[str, Any], tool: str = "") -> HookResult:
        """What they say together. Never raises: a hook that fails has an opinion, too."""
        ...

    def tell(self, point: HookPoint, facts: dict[str, Any], tool: str = "") -> None:
        """The same, in the background: nobody waits for them, and what they say does not count."""
        ...

    async def close(self) -> None:
        """End those that nobody waits for."""
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
