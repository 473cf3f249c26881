"""Convert frames of the session (stream-json 6) to messages, with tables. An unknown frame gives no message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from mainspring.sdk.messages import (
    AssistantMessage,
    ContentBlock,
    ConversationResetMessage,
    DeferredToolUse,
    HookEventMessage,
    MaxTurnsMessage,
    Message,
    MessageOrigin,
    MirrorErrorMessage,
    PrefixBreakMessage,
    PromptSuggestionMessage,
    RateLimitEvent,
    RateLimitInfo,
    ResultMessage,
    ServerToolResultBlock,
    ServerToolUseBlock,
    StreamEvent,
    SystemMessage,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    TextBlock,
    ThinkingBlock,
    ToolProgressMessage,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseSummaryMessage,
    TurnMessage,
    UserMessage,
)

Frame = dict[str, Any]


def message_of(frame: Frame) -> Message | None:
    read = KINDS.get(frame["type"])
    return read(frame) if read is not None else None


# --- blocks -----------------------------------------------------------------------------------------


def tool_result(block: Frame) -> ToolResultBlock:
    return ToolResultBlock(block["tool_use_id"], block.get("content"), block.get("is_error"))


BLOCKS: dict[str, Callable[[Frame], ContentBlock]] = {
    "text": lambda block: TextBlock(block["text"]),
    "thinking": lambda block: ThinkingBlock(block["thinking"], block.get("signature", "")),
    "tool_use": lambda block: ToolUseBlock(block["id"], block["name"], block["input"]),
    "tool_result": tool_result,
    "server_tool_use": lambda block: ServerToolUseBlock(block["id"], block["name"], block["input"]),
    "web_search_tool_result": lambda block: ServerToolResultBlock(block["tool_use_id"], block["content"]),
    "advisor_tool_result": lambda block: ServerToolResultBlock(block["tool_use_id"], block["content"]),
}


def parse_blocks(content: list[Frame]) -> list[ContentBlock]:
    """Images and the like have no block class: they are in `tool_use_result`, or in the frames of stream-json."""
    return [BLOCKS[block["type"]](block) for block in content if block["type"] in BLOCKS]


# --- messages ---------------------------------------------------------------------------------------


def parse_user_message(frame: Frame) -> UserMessage:
    content = frame["message"]["content"]
    return UserMessage(
        content if isinstance(content, str) else parse_blocks(content),
        frame.get("uuid"),
        frame.get("parent_tool_use_id"),
        frame.get("tool_use_result"),
        parse_origin(frame),
    )


def parse_assistant_message(frame: Frame) -> AssistantMessage:
    message = frame["message"]
    return AssistantMessage(
        parse_blocks(message["content"]),
        message["model"],
        frame.get("parent_tool_use_id"),
        frame.get("error"),
        message.get("usage"),
        message.get("id"),
        message.get("stop_reason"),
        frame.get("session_id"),
        frame.get("uuid"),
    )


def parse_result_message(frame: Frame) -> ResultMessage:
    deferred = frame.get("deferred_tool_use")
    return ResultMessage(
        subtype=frame["subtype"],
        duration_ms=frame["duration_ms"],
        duration_api_ms=frame["duration_api_ms"],
        is_error=frame["is_error"],
        num_turns=frame["num_turns"],
        session_id=frame["session_id"],
        stop_reason=frame.get("stop_reason"),
        total_cost_usd=frame.get("total_cost_usd"),
        usage=frame.get("usage"),
        result=frame.get("result"),
        structured_output=frame.get("structured_output"),
        model_usage=frame.get("modelUsage"),
        permission_denials=frame.get("permission_denials"),
        deferred_tool_use=DeferredToolUse(**deferred) if deferred else None,
        errors=frame.get("errors"),
        api_error_status=frame.get("api_error_status"),
        uuid=frame.get("uuid"),
        terminal_reason=frame.get("terminal_reason"),
        origin=parse_origin(frame),
    )


def parse_origin(frame: Frame) -> MessageOrigin | None:
    return frame.get("origin")


def stream_event(frame: Frame) -> StreamEvent:
    return StreamEvent(frame["uuid"], frame["session_id"], frame["event"], frame.get("parent_tool_use_id"))


def parse_reset_message(frame: Frame) -> ConversationResetMessage:
    return ConversationResetMessage(frame["new_conversation_id"], frame["uuid"], frame["session_id"])


def rate_limit(frame: Frame) -> RateLimitEvent:
    told: Frame = frame["rate_limit_info"]
    info = RateLimitInfo(
        told["status"],
        told.get("resetsAt"),
        told.get("rateLimitType"),
        told.get("utilization"),
        told.get("overageStatus"),
        told.get("overageResetsAt"),
        told.get("overageDisabledReason"),
        told,
    )
    return RateLimitEvent(info, frame["uuid"], frame["session_id"])


def without_type(frame: Frame) -> Frame:
    return {name: value for name, value in frame.items() if name != "type"}


KINDS: dict[str, Callable[[Frame], Message]] = {
    "user": parse_user_message,
    "assistant": parse_assistant_message,
    "result": parse_result_message,
    "stream_event": stream_event,
    "conversation_reset": parse_reset_message,
    "rate_limit_event": rate_limit,
    "tool_progress": lambda frame: ToolProgressMessage(**without_type(frame)),
    "tool_use_summary": lambda frame: ToolUseSummaryMessage(**without_type(frame)),
    "prompt_suggestion": lambda frame: PromptSuggestionMessage(**without_type(frame)),
    "system": lambda frame: SUBTYPES.get(frame["subtype"], parse_system_message)(frame),
}


# --- system messages --------------------------------------------------------------------------------


def parse_system_message(frame: Frame) -> SystemMessage:
    return SystemMessage(frame["subtype"], frame)


def hook_event(frame: Frame) -> HookEventMessage:
    return HookEventMessage(
        frame["subtype"], frame, frame.get("hook_event", ""), frame.get("session_id"), frame.get("uuid")
    )


def pick_fields(frame: Frame, *names: str) -> Frame:
    return {name: frame.get(name) for name in names}


def task_updated(frame: Frame) -> TaskUpdatedMessage:
    patch: Frame = frame.get("patch") or {}
    return TaskUpdatedMessage(
        frame["subtype"],
        frame,
        frame["task_id"],
        patch,
        patch.get("status"),
        frame.get("session_id"),
        frame.get("uuid"),
    )


def parse_fields_of(kind: type[TurnMessage | MaxTurnsMessage | PrefixBreakMessage]) -> Callable[[Frame], SystemMessage]:
    """For messages that we defined: their fields have the names of the frame's."""
    names = [field.name for field in fields(kind) if field.name not in {"subtype", "data"}]
    return lambda frame: kind(frame["subtype"], frame, **pick_fields(frame, *names))


OF_TASKS = ("task_id", "uuid", "session_id", "tool_use_id")

SUBTYPES: dict[str, Callable[[Frame], SystemMessage]] = {
    "hook_started": hook_event,
    "hook_response": hook_event,
    "task_started": lambda frame: TaskStartedMessage(
        frame["subtype"], frame, **pick_fields(frame, *OF_TASKS, "description", "task_type")
    ),
    "task_progress": lambda frame: TaskProgressMessage(
        frame["subtype"], frame, **pick_fields(frame, *OF_TASKS, "description", "usage", "last_tool_name")
    ),
    "task_notification": lambda frame: TaskNotificationMessage(
        frame["subtype"], frame, **pick_fields(frame, *OF_TASKS, "status", "output_file", "summary", "usage")
    ),
    "task_updated": task_updated,
    "mirror_error": lambda frame: MirrorErrorMessage(frame["subtype"], frame, frame.get("key"), frame.get("error", "")),
    "mainspring_turn": parse_fields_of(TurnMessage),
    "mainspring_max_turns": parse_fields_of(MaxTurnsMessage),
    "mainspring_prefix_break": parse_fields_of(PrefixBreakMessage),
}
