"""Encode the parts of a conversation as JSON for Anthropic's Messages API."""

from __future__ import annotations

from typing import Any, assert_never, cast

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
)
from mainspring.providers.base import ToolSpec, WebSearchSpec
from mainspring.providers.message_order import (
    NAME_LENGTH,
    REASONING,
    Part,
    PlacedPart,
    PlacedToolResult,
    Role,
    clean_tool_name,
    is_empty,
)
from mainspring.providers.projection import replace_oversized_media

BETWEEN = b","
END = b"]}"
BEGIN: dict[Role, bytes] = {
    "user": b'{"role":"user","content":[',
    "assistant": b'{"role":"assistant","content":[',
}
MARK = b',"cache_control":{"type":"ephemeral"}}'
NO_WORDS = "(no output)"


def encode_part(placed: PlacedPart, before: str | None) -> bytes:
    """A part, with the separator from the part before. `END` closes the last one."""
    if placed.role == before:
        return BETWEEN + part_json(placed.part)
    opened = BEGIN[placed.role] + part_json(placed.part)
    return opened if before is None else END + BETWEEN + opened


def mark_cache_end(chunk: bytes) -> bytes:
    """The same part with a cache breakpoint."""
    return chunk[:-1] + MARK


def can_be_marked(chunk: bytes) -> bool:
    return b'{"type":"thinking"' not in chunk[:60] and b'{"type":"redacted_thinking"' not in chunk[:60]


def encode_json_safely(value: object) -> bytes:
    """JSON for any string: a lone surrogate, which UTF-8 cannot express, becomes a question mark."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(replace_surrogates(value))


def replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        return {replace_surrogates(key): replace_surrogates(inner) for key, inner in pairs.items()}
    if isinstance(value, list | tuple):
        return [replace_surrogates(inner) for inner in cast("list[Any]", value)]
    return value


def accepts_block(block: Block) -> bool:
    """Of thinking, accept only blocks that this protocol signed. Other protocols' signatures contain a blank, or name a
    field.
    """
    return not isinstance(block, Thinking) or (" " not in block.signature and block.signature not in REASONING)


def part_json(part: Part) -> bytes:
    match part:
        case Text():
            return text_json(part)
        case Image() | Document():
            return encode_json_safely(media_object(replace_oversized_media(part)))
        case Thinking():
            return encode_json_safely({"type": "thinking", "thinking": part.text, "signature": part.signature})
        case RedactedThinking():
            return encode_json_safely({"type": "redacted_thinking", "data": part.data})
        case ServerBlock():
            return part.json.strip().encode(errors="replace")
        case ToolCall():
            name = clean_tool_name(part.name)[:NAME_LENGTH] or "unknown"
            return encode_json_safely({"type": "tool_use", "id": part.id, "name": name, "input": part.input})
        case PlacedToolResult():
            return encode_json_safely(answer_object(part))
        case _:
            assert_never(part)


def text_json(text: Text) -> bytes:
    block: dict[str, object] = {"type": "text", "text": text.text}
    if text.citations:
        block["citations"] = msgspec.Raw(text.citations.encode(errors="replace"))
    return encode_json_safely(block)


def media_object(part: Content) -> dict[str, object]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": "image" if isinstance(part, Image) else "document", "source": source}


def answer_object(answer: PlacedToolResult) -> dict[str, object]:
    """The API rejects empty text, and accepts only non-empty text in a result that is an error (F-22)."""
    content = [media_object(replace_oversized_media(part)) for part in answer.content if not is_empty(part)]
    if answer.is_error:
        content = [block for block in content if block["type"] == "text"] or [{"type": "text", "text": NO_WORDS}]
    block: dict[str, object] = {"type": "tool_result", "tool_use_id": answer.call_id}
    if content:
        block["content"] = content
    if answer.is_error:
        block["is_error"] = True
    return block


WEB_SEARCH_TOOL = "web_search_20250305"  # the first one: every model that searches has it, without code execution


def tool_json(tool: ToolSpec) -> bytes:
    if tool.search is not None:
        return encode_json_safely(search_object(tool.search))
    return encode_json_safely({"name": tool.name, "description": tool.description, "input_schema": tool.schema})


def search_object(search: WebSearchSpec) -> dict[str, object]:
    declared: dict[str, object] = {"type": WEB_SEARCH_TOOL, "name": "web_search", "max_uses": search.most}
    if search.allowed:
        return declared | {"allowed_domains": search.allowed}
    return declared | ({"blocked_domains": search.blocked} if search.blocked else {})


def system_json(text: str) -> bytes:
    return encode_json_safely({"type": "text", "text": text})
