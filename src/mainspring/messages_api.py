"""The API's form of content, in compact JSON; times and ids as they stand in a session file. Read by
`sessions/line_parser.py`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache

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
)
from mainspring.core.money import Usage
from mainspring.core.value import Stamp

Unreadable = (msgspec.DecodeError, UnicodeError, RecursionError, ValueError)


# --- JSON -----------------------------------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode


def as_line(value: object) -> bytes:
    """Compact JSON without line ends, also for what msgspec refuses: half characters, numbers beyond 64 bits."""
    try:
        return _encode(value)
    except (UnicodeEncodeError, OverflowError):
        return encode_plainly(msgspec.to_builtins(value))


def encode_plainly(value: object) -> bytes:
    import json  # seldom needed, and slow to load

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
    """The uuid of a block's line, and of its frame on the wire. The first block has its reply's own."""
    return reply_id if index == 0 else Stamp(reply_id).derive(index)


# --- content as the API has it --------------------------------------------------------------------------------


class TypedBlock(Struct):
    type: str = ""


def is_json(text: str, kind: str = "") -> bool:
    """Whether this can stand in a line as it is; with a kind, only an object of that type."""
    try:
        fits = not kind or msgspec.json.decode(text, type=TypedBlock).type == kind
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
    """Whether the API's form gives this part back as it was."""
    match part:
        case Text():
            return not part.citations or is_json(part.citations)
        case ServerBlock():
            return is_json(part.json, part.kind)
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
    if usage.estimated:
        cached += b',"estimated":true'  # our own word: the API has none
    return b'{"input_tokens":%d,"output_tokens":%d%b}' % (usage.input, usage.output, cached)
