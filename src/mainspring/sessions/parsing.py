"""Reading a line of a session file, whoever wrote it, and the API's form of content in it. See `lines.py`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from mainspring.core.events import Event
from mainspring.core.messages import (
    Block,
    Content,
    Document,
    Image,
    Origin,
    RedactedThinking,
    ServerBlock,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from mainspring.core.money import Usage
from mainspring.sessions.forms import Unreadable, block_id, plainly
from mainspring.sessions.lines import PLAIN, Mark, Standing
from mainspring.sessions.records import Record

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError):  # damaged, or without a zone
        return 0


# --- content ---


class ApiSource(Struct):
    type: str = ""
    media_type: str = ""
    data: str = ""


class ApiBlock(Struct):
    """Any block of the API, as far as we read it."""

    type: str
    text: str = ""
    citations: Raw = Raw(b"")
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] = {}
    tool_use_id: str = ""
    content: Raw = Raw(b"")
    is_error: bool | None = None
    source: ApiSource | None = None


_blocks = msgspec.json.Decoder(list[Raw])
_block = msgspec.json.Decoder(ApiBlock)


def raw_blocks(content: Raw) -> list[bytes]:
    """The blocks of a message's content; a string is one text."""
    text = bytes(content)
    if text[:1] == b'"':
        return [b'{"type":"text","text":' + text + b"}"]
    return [bytes(block) for block in _blocks.decode(text)] if text not in (b"", b"null") else []


def to_block(raw: bytes) -> Block:
    block = _block.decode(raw)
    match block.type:
        case "text":
            return Text(block.text, _citations(block))
        case "thinking":
            return Thinking(block.thinking, block.signature)
        case "redacted_thinking":
            return RedactedThinking(block.data)
        case "tool_use":
            return ToolCall(block.id, block.name, block.input)
        case kind:
            return ServerBlock(kind, raw.decode())


def to_content(raw: bytes) -> Content | ToolResult:
    block = _block.decode(raw)
    match block.type:
        case "text":
            return Text(block.text, _citations(block))
        case "tool_result":
            return ToolResult(block.tool_use_id, _result_content(block), block.is_error is True)
        case "image" if block.source and block.source.type == "base64":
            return Image(block.source.media_type, block.source.data)
        case "document" if block.source and block.source.type == "base64":
            return Document(block.source.media_type, block.source.data)
        case kind:
            return Text(f"[{kind}]")  # a kind that we cannot send: better named than lost


def _citations(block: ApiBlock) -> str:
    return "" if bytes(block.citations) in (b"", b"null") else bytes(block.citations).decode()


def _result_content(block: ApiBlock) -> tuple[Content, ...]:
    parts = [to_content(raw) for raw in raw_blocks(block.content)]
    return tuple([part for part in parts if not isinstance(part, ToolResult)])


class ApiCreation(Struct):
    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0


class ApiUsage(Struct):
    input_tokens: int = 0
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int = 0
    cache_creation: ApiCreation | None = None
    estimated: bool = False


_usage = msgspec.json.Decoder(ApiUsage)


def usage_from_api(raw: Raw) -> Usage:
    try:
        usage = _usage.decode(raw)
    except Unreadable:
        return Usage()
    hour = usage.cache_creation.ephemeral_1h_input_tokens if usage.cache_creation else 0
    short = (usage.cache_creation_input_tokens or 0) - hour
    read = usage.cache_read_input_tokens or 0
    return Usage(usage.input_tokens, short, hour, read, usage.output_tokens, usage.estimated)


def stop_from_api(reason: str | None) -> Stop:
    try:
        return Stop(reason or Stop.END_TURN)
    except ValueError:
        return Stop.END_TURN


# --- lines, read ----------------------------------------------------------------------------------------------


class Metadata(Struct):
    """Of a compact boundary."""

    keptAfter: str = ""  # noqa: N815  # the file's own word


class ForkedFrom(Struct):
    """On a line that a client has copied."""

    messageUuid: str = ""  # noqa: N815


class Line(Struct):
    """Any line of a session file, whoever wrote it. What we do not know is not read."""

    type: str
    uuid: str = ""
    parentUuid: str | None = None  # noqa: N815  # the file's own words, here and below
    logicalParentUuid: str | None = None  # noqa: N815
    timestamp: str = ""
    subtype: str = ""
    isSidechain: bool = False  # noqa: N815
    isMeta: bool = False  # noqa: N815
    isCompactSummary: bool = False  # noqa: N815
    message: Raw = Raw(b"")
    mainspring: Mark | None = None
    compactMetadata: Metadata | None = None  # noqa: N815
    forkedFrom: ForkedFrom | None = None  # noqa: N815
    customTitle: str = ""  # noqa: N815
    aiTitle: str = ""  # noqa: N815
    lastPrompt: str = ""  # noqa: N815
    tag: str = ""
    # ours
    v: int = 0
    record: Raw = Raw(b"")
    n: int = 0
    event: Raw = Raw(b"")
    blocks: int = 0
    messages: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    checkpoint: Raw = Raw(b"")
    standing: Standing | None = None
    cut: str = ""  # why there is nothing of one of our lines but its place (see `driven/mirror.py`)


class Spoke(Struct):
    """The API message of a conversation line."""

    content: Raw = Raw(b"")
    id: str = ""
    model: str | None = None
    stop_reason: str | None = None
    usage: Raw = Raw(b"")


_line = msgspec.json.Decoder(Line)
_spoke = msgspec.json.Decoder(Spoke)
_events: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_records: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record, dec_hook=lambda _type, _value: None)
_our_block: msgspec.json.Decoder[Block] = msgspec.json.Decoder(Block)
_contents = msgspec.json.Decoder(tuple[Content, ...])


def parse(line: bytes) -> Line:
    """Raises one of `Unreadable`, with words that say why."""
    try:
        return _line.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if rb"\u" not in line:
            raise
        return _line.decode(plainly(json.loads(line)))  # half a character, which msgspec refuses


def event_of(line: Line) -> Event:
    return _events.decode(line.event)


def record_of(line: Line) -> Record:
    return _records.decode(line.record)


def spoke_of(line: Line) -> Spoke:
    return _spoke.decode(line.message)


def reply_blocks(line: Line, spoke: Spoke, payload: bytes | None) -> list[Block]:
    mark = line.mainspring or PLAIN
    if mark.odd:
        return [_our_block.decode(mark.odd)]
    blocks = [to_block(raw) for raw in raw_blocks(Raw(payload) if payload is not None else spoke.content)]
    if mark.defect and blocks and isinstance(blocks[0], ToolCall):
        blocks[0] = replace(blocks[0], defect=mark.defect)
    return blocks


def user_messages(line: Line, spoke: Spoke, payload: bytes | None) -> list[User | ToolResult]:
    """Usually one. Others than we put several results, or results and words, into one line."""
    mark, at = line.mainspring or PLAIN, milliseconds(line.timestamp)
    if mark.odd:
        return [User(_contents.decode(mark.odd), mark.origin, id=line.uuid, at=at)]
    parts = [to_content(raw) for raw in raw_blocks(Raw(payload) if payload is not None else spoke.content)]
    results = [part for part in parts if isinstance(part, ToolResult)]
    words = tuple([part for part in parts if not isinstance(part, ToolResult)])
    made: list[User | ToolResult] = [replace(part, synthetic=mark.synthetic) for part in results]
    if words or not results:
        made.append(User(words, _origin(line, mark, words)))
    return [replace(message, id=block_id(line.uuid, place), at=at) for place, message in enumerate(made)]


def _origin(line: Line, mark: Mark, words: tuple[Content, ...]) -> Origin:
    if line.isCompactSummary:
        return Origin.SUMMARY
    if line.mainspring is None and words and isinstance(words[0], Text):
        if words[0].text.startswith("[Request interrupted by user"):
            return Origin.INTERRUPTION
        if line.isMeta:
            return Origin.ATTACHMENT
    return mark.origin


def note_names(line: Line, standing: Standing) -> None:
    if line.type == "custom-title":
        standing.title = line.customTitle
    elif line.type == "tag":
        standing.tag = line.tag
