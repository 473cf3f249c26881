"""What a program is shown of a session: the five familiar messages, and what they hold.

Names and fields are those of `claude-agent-sdk`, so that a program changes one import. Plain dataclasses: they can be
compared, copied with `dataclasses.replace`, matched and printed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

# --- what messages hold -----------------------------------------------------------------------------


@dataclass
class TextBlock:
    text: str


@dataclass
class ThinkingBlock:
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
    """What came of it."""

    tool_use_id: str
    content: str | list[dict[str, Any]] | None = None
    is_error: bool | None = None


@dataclass
class ServerToolUseBlock:
    """The model's own service runs this one, such as a search."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass
class ServerToolResultBlock:
    tool_use_id: str
    content: Any


ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ServerToolUseBlock | ServerToolResultBlock


class MessageOrigin(TypedDict, total=False):
    """Who wanted a turn; None where a message says nothing: the program itself."""

    kind: str


# --- the five -------------------------------------------------------------------------------------


@dataclass
class SystemMessage:
    """`init` opens each turn; the others say what happens beside the conversation."""

    subtype: str
    data: dict[str, Any]


@dataclass
class UserMessage:
    """The results of tools, and what is said to the model besides."""

    content: str | list[ContentBlock]
    uuid: str | None = None
    parent_tool_use_id: str | None = None  # of the call that sent an agent out
    tool_use_result: Any = None  # as data, where the tool has some
    origin: MessageOrigin | None = None


@dataclass
class AssistantMessage:
    """A finished block of a reply; blocks of one reply have one `message_id`."""

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
    """A call that a hook wants to be taken up later."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass
class ResultMessage:
    """The end of a turn, and why. Only `success` has a `result`; `stop_reason` says `refusal` if the model declined."""

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
    """A piece of a reply, as the API has it; only with `include_partial_messages`."""

    uuid: str
    session_id: str
    event: dict[str, Any]
    parent_tool_use_id: str | None = None


# --- system messages with fields of their own -----------------------------------------------------


class TaskUsage(TypedDict):
    total_tokens: int
    tool_uses: int
    duration_ms: int


TaskNotificationStatus = Literal["completed", "failed", "stopped"]
TaskUpdatedStatus = Literal["pending", "running", "paused", "completed", "failed", "killed"]
TERMINAL_TASK_STATUSES: frozenset[str] = frozenset({"completed", "failed", "stopped", "killed"})


@dataclass
class TaskStartedMessage(SystemMessage):
    """An agent, or a command in the background, begins."""

    task_id: str
    description: str
    uuid: str
    session_id: str
    tool_use_id: str | None = None
    task_type: str | None = None


@dataclass
class TaskProgressMessage(SystemMessage):
    task_id: str
    description: str
    usage: TaskUsage
    uuid: str
    session_id: str
    tool_use_id: str | None = None
    last_tool_name: str | None = None


@dataclass
class TaskNotificationMessage(SystemMessage):
    """It is over."""

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
    """Something of it has changed; with a terminal status, it is over."""

    task_id: str
    patch: dict[str, Any]
    status: TaskUpdatedStatus | None = None
    session_id: str | None = None
    uuid: str | None = None


@dataclass
class HookEventMessage(SystemMessage):
    """A hook begins, or has answered; only with `include_hook_events`."""

    hook_event_name: str = ""
    session_id: str | None = None
    uuid: str | None = None


@dataclass
class MirrorErrorMessage(SystemMessage):
    """A store did not take what was to be kept there. The session's own file has it."""

    key: Any = None
    error: str = ""


# --- the rest -------------------------------------------------------------------------------------


@dataclass
class ConversationResetMessage:
    """`/clear`: what follows belongs to another conversation."""

    new_conversation_id: str
    uuid: str
    session_id: str


@dataclass
class RateLimitInfo:
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
    rate_limit_info: RateLimitInfo
    uuid: str
    session_id: str


@dataclass
class ToolProgressMessage:
    """How a call gets on; only with `include_partial_messages`. Ours: `text`, its last words."""

    tool_use_id: str
    tool_name: str
    elapsed_time_seconds: float
    text: str
    uuid: str
    session_id: str
    parent_tool_use_id: str | None = None


Message = (
    UserMessage
    | AssistantMessage
    | SystemMessage
    | ResultMessage
    | StreamEvent
    | RateLimitEvent
    | ConversationResetMessage
    | ToolProgressMessage
)
