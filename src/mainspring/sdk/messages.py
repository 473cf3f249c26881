"""The messages of a session: system, user, assistant, stream event and result, and their blocks.

Names and fields are those of `claude-agent-sdk`, so that a program changes one import. Plain dataclasses: you can
compare, copy (`dataclasses.replace`), match and print them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

# --- blocks -----------------------------------------------------------------------------------------


@dataclass
class TextBlock:
    """Text of the model."""

    text: str


@dataclass
class ThinkingBlock:
    """Thinking of the model, with its signature."""

    thinking: str
    signature: str


@dataclass
class ToolUseBlock:
    """The model calls a tool."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass
class ToolResultBlock:
    """The result of a tool call."""

    tool_use_id: str
    content: str | list[dict[str, Any]] | None = None
    is_error: bool | None = None


@dataclass
class ServerToolUseBlock:
    """A tool call that the model's own service runs, such as a search."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass
class ServerToolResultBlock:
    """The result of a tool that the model's service runs."""

    tool_use_id: str
    content: Any


ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ServerToolUseBlock | ServerToolResultBlock


class MessageOrigin(TypedDict, total=False):
    """What started a turn; None if a message does not say: the program itself."""

    kind: str


# --- messages ---------------------------------------------------------------------------------------


@dataclass
class SystemMessage:
    """`init` opens each turn; the others report events beside the conversation."""

    subtype: str
    data: dict[str, Any]


@dataclass
class UserMessage:
    """Tool results, and other input to the model."""

    content: str | list[ContentBlock]
    uuid: str | None = None
    parent_tool_use_id: str | None = None  # of the call that started a subagent
    tool_use_result: Any = None  # as data, where the tool returns some
    origin: MessageOrigin | None = None


@dataclass
class AssistantMessage:
    """A finished block of a reply; blocks of one reply share a `message_id`."""

    content: list[ContentBlock]
    model: str
    parent_tool_use_id: str | None = None
    error: str | None = None
    usage: dict[str, Any] | None = None
    message_id: str | None = None
    stop_reason: str | None = None
    session_id: str | None = None
    uuid: str | None = None


@dataclass
class DeferredToolUse:
    """A call that a hook has deferred."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass
class ResultMessage:
    """The end of a turn and its reason. Only `success` has a `result`; `stop_reason` is `refusal` if the model
    declined.
    """

    subtype: str
    duration_ms: int
    duration_api_ms: int
    is_error: bool
    num_turns: int
    session_id: str
    stop_reason: str | None = None
    total_cost_usd: float | None = None
    usage: dict[str, Any] | None = None
    result: str | None = None
    structured_output: Any = None
    model_usage: dict[str, Any] | None = None
    permission_denials: list[Any] | None = None
    deferred_tool_use: DeferredToolUse | None = None
    errors: list[str] | None = None
    api_error_status: int | None = None
    uuid: str | None = None
    terminal_reason: str | None = None
    origin: MessageOrigin | None = None


@dataclass
class StreamEvent:
    """A streaming event of the API; only with `include_partial_messages`."""

    uuid: str
    session_id: str
    event: dict[str, Any]
    parent_tool_use_id: str | None = None


# --- system messages with fields of their own -----------------------------------------------------


class TaskUsage(TypedDict):
    """What a subagent or a background task has used so far."""

    total_tokens: int
    tool_uses: int
    duration_ms: int


TaskNotificationStatus = Literal["completed", "failed", "stopped"]
TaskUpdatedStatus = Literal["pending", "running", "paused", "completed", "failed", "killed"]
TERMINAL_TASK_STATUSES: frozenset[str] = frozenset({"completed", "failed", "stopped", "killed"})


@dataclass
class TaskStartedMessage(SystemMessage):
    """A subagent, or a background command, has started."""

    task_id: str
    description: str
    uuid: str
    session_id: str
    tool_use_id: str | None = None
    task_type: str | None = None


@dataclass
class TaskProgressMessage(SystemMessage):
    """The progress of a subagent or a background task."""

    task_id: str
    description: str
    usage: TaskUsage
    uuid: str
    session_id: str
    tool_use_id: str | None = None
    last_tool_name: str | None = None


@dataclass
class TaskNotificationMessage(SystemMessage):
    """A task has ended."""

    task_id: str
    status: TaskNotificationStatus
    output_file: str
    summary: str
    uuid: str
    session_id: str
    tool_use_id: str | None = None
    usage: TaskUsage | None = None


@dataclass
class TaskUpdatedMessage(SystemMessage):
    """A task has changed; with a terminal status, it has ended."""

    task_id: str
    patch: dict[str, Any]
    status: TaskUpdatedStatus | None = None
    session_id: str | None = None
    uuid: str | None = None


@dataclass
class HookEventMessage(SystemMessage):
    """A hook has started, or has returned; only with `include_hook_events`."""

    hook_event_name: str = ""
    session_id: str | None = None
    uuid: str | None = None


@dataclass
class MirrorErrorMessage(SystemMessage):
    """A session store did not accept lines. The session's own file has them."""

    key: Any = None
    error: str = ""


# Additions of mainspring: why the loop went on, and why the prompt cache broke. To `claude-agent-sdk` they are plain
# system messages. `parent_tool_use_id` is that of the call that started a subagent, if it is about a subagent.


@dataclass
class TurnMessage(SystemMessage):
    """The model is about to be called. A recovery repeats the number of its turn."""

    turn: int
    model: str
    continue_reason: str | None = None  # `next_turn`, or the recovery; None: a prompt
    parent_tool_use_id: str | None = None


@dataclass
class MaxTurnsMessage(SystemMessage):
    """The limit of turns is reached; the result follows."""

    max_turns: int
    turns: int
    parent_tool_use_id: str | None = None


@dataclass
class PrefixBreakMessage(SystemMessage):
    """A request did not extend the last one, so that part of it was paid for again."""

    block: int  # the first that differs, counted over tools, system and messages
    position: str
    reason: str
    layers: list[str]  # the context layers that edited the view, if that is the reason
    description: str
    lost_tokens: int
    cost_usd: float  # compared with reading the tokens from the cache
    estimated: bool = False  # the server reported no figures
    parent_tool_use_id: str | None = None


# --- other messages ---------------------------------------------------------------------------------


@dataclass
class ConversationResetMessage:
    """`/clear`: what follows belongs to another conversation."""

    new_conversation_id: str
    uuid: str
    session_id: str


@dataclass
class RateLimitInfo:
    """A rate limit: its state, its kind, and when it resets."""

    status: str
    resets_at: int | None = None
    rate_limit_type: str | None = None
    utilization: float | None = None
    overage_status: str | None = None
    overage_resets_at: int | None = None
    overage_disabled_reason: str | None = None
    raw: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class RateLimitEvent:
    """The state of a rate limit has changed."""

    rate_limit_info: RateLimitInfo
    uuid: str
    session_id: str


@dataclass
class ToolProgressMessage:
    """Progress of a tool call; only with `include_partial_messages`. `text`, the last output, is our addition."""

    tool_use_id: str
    tool_name: str
    elapsed_time_seconds: float
    text: str
    uuid: str
    session_id: str
    parent_tool_use_id: str | None = None


@dataclass
class ToolUseSummaryMessage:
    """One line about a batch of tool calls; only with `tool_use_summaries`."""

    summary: str
    preceding_tool_use_ids: list[str]
    uuid: str
    session_id: str


@dataclass
class PromptSuggestionMessage:
    """A suggestion for the next prompt, after the result; only with `prompt_suggestions`."""

    suggestion: str
    uuid: str
    session_id: str


Message = (
    UserMessage
    | AssistantMessage
    | SystemMessage
    | ResultMessage
    | StreamEvent
    | RateLimitEvent
    | ConversationResetMessage
    | ToolProgressMessage
    | ToolUseSummaryMessage
    | PromptSuggestionMessage
)
