"""Our values in the shapes of the Messages API, as stream-json shows them: blocks, messages, usage, stream events."""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from mainspring.core.messages import (
    Block,
    Content,
    Document,
    Image,
    RedactedThinking,
    ServerBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from mainspring.core.money import Usage
from mainspring.core.updates import BlockKind, BlockStarted, Delta
from mainspring.core.value import Stamp

Object = dict[str, Any]


def block_id(reply_id: str, index: int) -> str:
    """The uuid of a block's frame. The first one has the reply's own id; the others count up from it."""
    return Stamp(reply_id).derive(index) if index else reply_id


def parse_server_block(text: str, kind: str) -> Object:
    """The server's own block. It came as JSON; should it be none any more, it is shown as it is."""
    try:
        return msgspec.json.decode(text, type=Object)
    except msgspec.DecodeError:
        return {"type": kind, "data": text}


def block_to_wire(made: Block) -> Object:
    match made:
        case Text():
            return {"type": "text", "text": made.text}  # readers of stream-json drop citations
        case Thinking():
            return {"type": "thinking", "thinking": made.text, "signature": made.signature}
        case RedactedThinking():
            return {"type": "redacted_thinking", "data": made.data}
        case ToolCall():
            return {"type": "tool_use", "id": made.id, "name": made.name, "input": made.input}
        case ServerBlock():
            return parse_server_block(made.json, made.kind)
        case _:
            assert_never(made)


def content_to_wire(part: Content) -> Object:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image() | Document():
            source = {"type": "base64", "media_type": part.media_type, "data": part.data}
            return {"type": "image" if isinstance(part, Image) else "document", "source": source}
        case _:
            assert_never(part)


def tool_result(result: ToolResult) -> Object:
    match result.content:
        case (Text() as only,):
            shown: str | list[Object] = only.text
        case parts:
            shown = [content_to_wire(part) for part in parts]
    return {"type": "tool_result", "tool_use_id": result.call_id, "content": shown, "is_error": result.is_error}


def usage_to_wire(spent: Usage) -> Object:
    """With a word of our own where it is a guess: the API has none."""
    told: Object = {
        "input_tokens": spent.input,
        "output_tokens": spent.output,
        "cache_creation_input_tokens": spent.cache_write + spent.cache_write_1h,
        "cache_read_input_tokens": spent.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": spent.cache_write,
            "ephemeral_1h_input_tokens": spent.cache_write_1h,
        },
    }
    return told | {"estimated": True} if spent.estimated else told


def message_to_wire(id: str, model: str, blocks: list[Object], spent: Usage) -> Object:
    """All blocks of a reply share its id. `stop_reason` is null: a block leaves before its reply ends."""
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_to_wire(spent),
    }


# --- stream events ----------------------------------------------------------------------------------

DELTAS: dict[BlockKind, tuple[str, str]] = {
    BlockKind.TEXT: ("text_delta", "text"),
    BlockKind.THINKING: ("thinking_delta", "thinking"),
    BlockKind.INPUT: ("input_json_delta", "partial_json"),
}


def empty_block(started: BlockStarted) -> Object:
    """A block that has nothing in it yet."""
    match started.kind:
        case BlockKind.TEXT:
            return {"type": "text", "text": ""}
        case BlockKind.THINKING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        case BlockKind.INPUT:
            return {"type": "tool_use", "id": started.id, "name": started.name, "input": {}}
        case _:
            assert_never(started.kind)


def delta_to_wire(piece: Delta) -> Object:
    kind, field = DELTAS[piece.kind]
    return {"type": "content_block_delta", "index": piece.index, "delta": {"type": kind, field: piece.text}}
