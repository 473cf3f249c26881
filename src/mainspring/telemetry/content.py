"""Messages in the shape that the GenAI semantic conventions give them, with secrets redacted.

Used only if content is switched on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never, cast

from mainspring import secrets
from mainspring.core.messages import (
    Assistant,
    Block,
    Content,
    Document,
    Image,
    Message,
    RedactedThinking,
    ServerBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)


def redact_value(value: object) -> Any:
    """A JSON value with secrets redacted in every text of it."""
    if isinstance(value, str):
        return secrets.redact(value)
    if isinstance(value, dict):
        known = cast("dict[object, object]", value)
        return {secrets.redact(str(key)): redact_value(one) for key, one in known.items()}
    if isinstance(value, list | tuple):
        return [redact_value(one) for one in cast("list[object]", value)]
    return value


def describe_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [_describe_message(message) for message in messages]


def _describe_message(message: Message) -> dict[str, Any]:
    match message:
        case User():
            return {"role": "user", "parts": _describe_parts(message.content)}
        case Assistant():
            return {
                "role": "assistant",
                "parts": _describe_parts(message.blocks),
                "finish_reason": str(message.stop),
            }
        case ToolResult():
            response = {"type": "tool_call_response", "id": message.call_id, "response": secrets.redact(message.text)}
            return {"role": "tool", "parts": [response]}
        case _:
            assert_never(message)


def _describe_parts(parts: Iterable[Content | Block]) -> list[dict[str, Any]]:
    return [_describe_part(part) for part in parts]


def _describe_part(part: Content | Block) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "content": secrets.redact(part.text)}
        case Thinking():
            return {"type": "reasoning", "content": secrets.redact(part.text)}
        case ToolCall():
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": redact_value(part.input)}
        case Image() | Document():
            return {"type": "blob", "mime_type": part.media_type, "size": len(part.data)}  # the data is too large
        case RedactedThinking():
            return {"type": "reasoning", "content": ""}
        case ServerBlock():
            return {"type": part.kind, "content": secrets.redact(part.json)}
        case _:
            assert_never(part)
