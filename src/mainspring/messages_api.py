"""Conversion of our values to the shapes of the Messages API: content, blocks, messages, usage, stream events.

The byte functions write compact JSON with times and ids as in a session file, which `sessions/line_parser.py` reads.
The `*_to_wire` functions build the objects that stream-json prints.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, assert_never

import msgspec
from msgspec import Raw, Struct

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

Unreadable = (msgspec.DecodeError, UnicodeError, RecursionError, ValueError)


# --- JSON -----------------------------------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode


def as_line(value: object) -> bytes:
    """Compact JSON on one line, also for values that msgspec rejects: lone surrogates, integers above 64 bits."""
    try:
        return _encode(value)
    except (UnicodeEncodeError, OverflowError):
        return encode_plainly(msgspec.to_builtins(value))


def encode_plainly(value: object) -> bytes:
    import json  # rarely needed, and slow to load

    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def one_line(line: bytes) -> bytes:
    """Python's `splitlines`, with which the client forks a session, also splits at these three characters."""
    if line.isascii():
        return line
    if b"\xe2\x80" in line:
        line = line.replace(b"\xe2\x80\xa8", rb"\u2028").replace(b"\xe2\x80\xa9", rb"\u2029")
    return line.replace(b"\xc2\x85", rb"\u0085") if b"\xc2\x85" in line else line


# --- times and ids --------------------------------------------------------------------------------------------

_LAST = 253_402_300_799_999  # the end of the year 9999


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def format_timestamp(at: int) -> str:
    seconds, rest = divmod(min(max(at, 0), _LAST), 1_000)
    return f"{_second(seconds)}.{rest:03}Z"


def block_id(reply_id: str, index: int) -> str:
    """Return the uuid of a block's line, and of its frame on the wire. The first block uses its reply's own uuid."""
    return reply_id if index == 0 else Stamp(reply_id).derive(index)


# --- content as the API has it --------------------------------------------------------------------------------


class TypedBlock(Struct):
    type: str = ""


OWN_FORMS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})  # blocks with a class of their own


def is_json(text: str, kind: str | None = None) -> bool:
    """Whether this text is JSON that a line can embed as it is; with a kind, only an object of that type."""
    try:
        fits = kind is None or msgspec.json.decode(text, type=TypedBlock).type == kind
        msgspec.json.decode(text)
    except Unreadable:
        return False
    return fits and text == text.strip() and text != "null" and len(text.splitlines()) == 1


def block_to_api(part: Block | Content) -> object:
    match part:
        case Text(citations=""):
            return {"type": "text", "text": part.text}
        case Text():
            return {"type": "text", "text": part.text, "citations": Raw(part.citations.encode())}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.input}
        case Thinking():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case RedactedThinking():
            return {"type": "redacted_thinking", "data": part.data}
        case ServerBlock():
            return Raw(part.json.encode())
        case Image() | Document():
            kind = "image" if isinstance(part, Image) else "document"
            source = {"type": "base64", "media_type": part.media_type, "data": part.data}
            return {"type": kind, "source": source}


def fits_api_form(part: Block | Content) -> bool:
    """Whether converting this part to the API's form and back loses nothing."""
    match part:
        case Text():
            return not part.citations or is_json(part.citations)
        case ServerBlock():
            return part.kind not in OWN_FORMS and is_json(part.json, part.kind)
        case _:
            return True


def contents_to_api(parts: Iterable[Content]) -> object:
    """A single text is a string, as a user's prompt usually is; everything else is a list."""
    listed = [Text(part.text) if isinstance(part, Text) and not fits_api_form(part) else part for part in parts]
    if len(listed) == 1 and isinstance(listed[0], Text) and not listed[0].citations:
        return listed[0].text
    return [block_to_api(part) for part in listed]


def usage_to_api(usage: Usage) -> bytes:
    cached = b""
    if written := usage.cache_write + usage.cache_write_1h:
        lasting = (written, usage.cache_write, usage.cache_write_1h)
        cached = (
            b',"cache_creation_input_tokens":%d,'
            b'"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":%d}' % lasting
        )
    if usage.cache_read:
        cached += b',"cache_read_input_tokens":%d' % usage.cache_read
    if usage.web_searches:
        cached += b',"server_tool_use":{"web_search_requests":%d}' % usage.web_searches
    if usage.estimated:
        cached += b',"estimated":true'  # our own key: the API has none
    return b'{"input_tokens":%d,"output_tokens":%d%b}' % (usage.input, usage.output, cached)


Object = dict[str, Any]


def parse_server_block(text: str, kind: str) -> Object:
    """Parse the server's own block. It arrived as JSON; if it no longer parses, show it as text."""
    try:
        return msgspec.json.decode(text, type=Object)
    except msgspec.DecodeError:
        return {"type": kind, "data": text}


def block_to_wire(made: Block) -> Object:
    match made:
        case Text():
            return {"type": "text", "text": made.text}  # stream-json readers drop citations
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
    """Adds a key of our own to an estimate: the API has none."""
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
    if spent.web_searches:
        told["server_tool_use"] = {"web_search_requests": spent.web_searches}
    return told | {"estimated": True} if spent.estimated else told


def message_to_wire(id: str, model: str, blocks: list[Object], spent: Usage) -> Object:
    """All blocks of a reply share its id. `stop_reason` is null, because a block is sent before its reply ends."""
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
    """A block without content yet."""
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
