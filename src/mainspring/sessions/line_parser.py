"""Reading a line of a session file, of any program, and the API's form of content in it. See `line_format.py`."""

from __future__ import annotations

import json
from contextlib import suppress
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
from mainspring.messages_api import Unreadable, block_id, encode_plainly
from mainspring.sessions.line_format import PLAIN, CheckpointExtras, LineMark
from mainspring.sessions.records import Record

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_timestamp(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError):  # damaged, or without a time zone
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


class PlainText(Struct, tag="text", forbid_unknown_fields=True):
    """This and the next two: blocks as nearly every line has them, which are decoded at once. Others, such as a text
    with citations, are decoded in parts, each of them as often as it is nested."""

    text: str


class PlainCall(Struct, tag="tool_use", forbid_unknown_fields=True):
    id: str
    name: str
    input: dict[str, Any]


class PlainResult(Struct, tag="tool_result", forbid_unknown_fields=True):
    tool_use_id: str
    content: str | list[PlainText] = []
    is_error: bool | None = None


_blocks = msgspec.json.Decoder(list[Raw])
_block = msgspec.json.Decoder(ApiBlock)
_plain_reply = msgspec.json.Decoder(list[PlainText | PlainCall])
_plain_content = msgspec.json.Decoder(list[PlainText | PlainResult])


def raw_blocks(content: Raw) -> list[bytes]:
    """The blocks of a message's content; a string is one text."""
    text = bytes(content)
    if text[:1] == b'"':
        return [b'{"type":"text","text":' + text + b"}"]
    return [bytes(block) for block in _blocks.decode(text)] if text not in (b"", b"null") else []


def parse_blocks(content: Raw) -> list[Block]:
    """The blocks of a reply."""
    try:
        plain = _plain_reply.decode(content)
    except msgspec.DecodeError:
        return [parse_block(raw) for raw in raw_blocks(content)]
    return [Text(one.text) if isinstance(one, PlainText) else ToolCall(one.id, one.name, one.input) for one in plain]


def parse_contents(content: Raw) -> list[Content | ToolResult]:
    """What a message of the user's side consists of."""
    try:
        plain = _plain_content.decode(content)
    except msgspec.DecodeError:
        return [parse_content(raw) for raw in raw_blocks(content)]
    return [Text(one.text) if isinstance(one, PlainText) else _plain_result(one) for one in plain]


def _plain_result(one: PlainResult) -> ToolResult:
    words = [one.content] if isinstance(one.content, str) else [part.text for part in one.content]
    return ToolResult(one.tool_use_id, tuple([Text(each) for each in words]), one.is_error is True)


def parse_block(raw: bytes) -> Block:
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


def parse_content(raw: bytes) -> Content | ToolResult:
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
            return Text(f"[{kind}]")  # an unsupported type: better named than lost


def _citations(block: ApiBlock) -> str:
    return "" if bytes(block.citations) in (b"", b"null") else bytes(block.citations).decode()


def _result_content(block: ApiBlock) -> tuple[Content, ...]:
    parts = [parse_content(raw) for raw in raw_blocks(block.content)]
    return tuple([part for part in parts if not isinstance(part, ToolResult)])


class ApiCreation(Struct):
    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0


class ApiServerTools(Struct):
    web_search_requests: int | None = None


class ApiUsage(Struct):
    input_tokens: int = 0
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int = 0
    cache_creation: ApiCreation | None = None
    server_tool_use: ApiServerTools | None = None
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
    searches = (usage.server_tool_use.web_search_requests or 0) if usage.server_tool_use else 0
    return Usage(usage.input_tokens, short, hour, read, usage.output_tokens, usage.estimated, searches)


def stop_from_api(reason: str | None) -> Stop:
    try:
        return Stop(reason or Stop.END_TURN)
    except ValueError:
        return Stop.END_TURN


# --- lines, read ----------------------------------------------------------------------------------------------


class BoundaryMetadata(Struct):
    """Metadata of a compact boundary."""

    keptAfter: str = ""  # noqa: N815  # the file's own word
    preservedMessages: Raw = Raw(b"")  # noqa: N815  # Claude Code's way to say the same,
    preservedSegment: Raw = Raw(b"")  # noqa: N815  # and its older one


class PreservedMessages(Struct):
    uuids: tuple[str, ...] = ()


class PreservedSegment(Struct):
    headUuid: str = ""  # noqa: N815
    tailUuid: str = ""  # noqa: N815


class ForeignAttachment(Struct):
    """What Claude Code adds to a prompt for the model."""

    type: str = ""
    prompt: Raw = Raw(b"")  # of one that was submitted during a turn
    isMeta: bool = False  # noqa: N815


class RenderedAttachment(Struct):
    """An attachment as the model saw it."""

    content: Raw = Raw(b"")


class ForkedFrom(Struct):
    """On a line that a client has copied."""

    messageUuid: str = ""  # noqa: N815


class JournalLine(Struct):
    """Any line of a session file, of any program. Unknown fields are not read."""

    type: str
    uuid: str = ""
    parentUuid: str | None = None  # noqa: N815  # the file's own words, here and below
    logicalParentUuid: str | None = None  # noqa: N815
    timestamp: str = ""
    subtype: str = ""
    isSidechain: bool = False  # noqa: N815
    isMeta: bool = False  # noqa: N815
    isCompactSummary: bool = False  # noqa: N815
    isApiErrorMessage: bool = False  # noqa: N815
    attachment: Raw = Raw(b"")
    rendered: Raw = Raw(b"")
    content: Raw = Raw(b"")  # of a system line
    message: Raw = Raw(b"")
    mainspring: LineMark | None = None
    compactMetadata: BoundaryMetadata | None = None  # noqa: N815
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
    standing: CheckpointExtras | None = None
    cut: str = ""  # why only a mark is left of one of our lines (see `stream_json/outgoing.py`)


class ApiMessage(Struct):
    """The API message of a conversation line."""

    content: Raw = Raw(b"")
    id: str = ""
    model: str | None = None
    stop_reason: str | None = None
    usage: Raw = Raw(b"")


_line = msgspec.json.Decoder(JournalLine)
_spoke = msgspec.json.Decoder(ApiMessage)
_attachment = msgspec.json.Decoder(ForeignAttachment)
_rendered = msgspec.json.Decoder(list[RenderedAttachment])
_events: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_records: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record, dec_hook=lambda _type, _value: None)
_our_block: msgspec.json.Decoder[Block] = msgspec.json.Decoder(Block)
_contents = msgspec.json.Decoder(tuple[Content, ...])


decode_line = _line.decode  # for a line that is likely to be sound


def parse_journal_line(line: bytes) -> JournalLine:
    """Raises one of `Unreadable`, with the reason."""
    try:
        return _line.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if rb"\u" not in line:
            raise
        return _line.decode(encode_plainly(json.loads(line)))  # a lone surrogate, which msgspec rejects


def event_of(line: JournalLine) -> Event:
    return _events.decode(line.event)


def record_of(line: JournalLine) -> Record:
    return _records.decode(line.record)


def spoke_of(line: JournalLine) -> ApiMessage:
    return _spoke.decode(line.message)


def reply_blocks(line: JournalLine, spoke: ApiMessage, payload: bytes | None) -> list[Block]:
    mark = line.mainspring or PLAIN
    if mark.odd:
        return [_our_block.decode(mark.odd)]
    blocks = parse_blocks(Raw(payload) if payload is not None else spoke.content)
    if mark.defect and blocks and isinstance(blocks[0], ToolCall):
        blocks[0] = replace(blocks[0], defect=mark.defect)
    return blocks


def user_messages(line: JournalLine, spoke: ApiMessage, payload: bytes | None) -> list[User | ToolResult]:
    """Usually one. Other programs put several results, or results and text, into one line."""
    mark, at = line.mainspring or PLAIN, parse_timestamp(line.timestamp)
    if mark.odd:
        return [User(_contents.decode(mark.odd), mark.origin, mark.typed, id=line.uuid, at=at)]
    parts = parse_contents(Raw(payload) if payload is not None else spoke.content)
    results = [part for part in parts if isinstance(part, ToolResult)]
    words = tuple([part for part in parts if not isinstance(part, ToolResult)])
    made: list[User | ToolResult] = [replace(part, synthetic=mark.synthetic) for part in results]
    if words or not results:
        made.append(User(words, _origin(line, mark, words), mark.typed or _foreign_command(line, words)))
    return [replace(message, id=block_id(line.uuid, place), at=at) for place, message in enumerate(made)]


# Claude Code's attachments that belong to the conversation. The others describe Claude Code itself: its tools, its
# model, its limits. They would be wrong here.
CONVERSATION_ATTACHMENTS = frozenset(
    {
        "queued_command",
        "file",
        "directory",
        "mcp_resource",
        "selected_lines_in_ide",
        "edited_text_file",
        "edited_image_file",
        "plan_file_reference",
        "invoked_skills",
        "hook_additional_context",
        "async_hook_response",
        "task_status",
    }
)


def attachment_message(line: JournalLine) -> User | None:
    """What the user or a hook added to a conversation of Claude Code; None for what only describes that program."""
    found = _attachment.decode(line.attachment) if line.attachment else ForeignAttachment()
    if found.type not in CONVERSATION_ATTACHMENTS:
        return None
    queued = found.type == "queued_command"
    sources = [found.prompt] if queued and found.prompt else [each.content for each in _rendered_parts(line)]
    parts = [parse_content(raw) for source in sources for raw in raw_blocks(source)]
    words = tuple([part for part in parts if not isinstance(part, ToolResult)])
    origin = Origin.PROMPT if queued and not found.isMeta else Origin.ATTACHMENT
    return User(words, origin, id=line.uuid, at=parse_timestamp(line.timestamp)) if words else None


def _rendered_parts(line: JournalLine) -> list[RenderedAttachment]:
    return _rendered.decode(line.rendered) if line.rendered else []


def command_message(line: JournalLine) -> User | None:
    """The output of a slash command of Claude Code: its model sees it, too."""
    if line.subtype != "local_command" or not bytes(line.content).startswith(b'"'):
        return None
    words = tuple([part for raw in raw_blocks(line.content) if isinstance(part := parse_content(raw), Text)])
    return User(words, Origin.ATTACHMENT, id=line.uuid, at=parse_timestamp(line.timestamp))


def preserved_messages(metadata: BoundaryMetadata | None) -> tuple[str, ...]:
    """The lines that Claude Code has kept in view after a summary."""
    if metadata is None:
        return ()
    with suppress(*Unreadable):
        if metadata.preservedMessages:
            return msgspec.json.decode(metadata.preservedMessages, type=PreservedMessages).uuids
    return ()


def preserved_segment(metadata: BoundaryMetadata | None) -> tuple[str, str]:
    """The same, in files of earlier versions: the first and the last line."""
    with suppress(*Unreadable):
        if metadata is not None and metadata.preservedSegment:
            found = msgspec.json.decode(metadata.preservedSegment, type=PreservedSegment)
            return found.headUuid, found.tailUuid
    return "", ""


def _origin(line: JournalLine, mark: LineMark, words: tuple[Content, ...]) -> Origin:
    if line.isCompactSummary:
        return Origin.SUMMARY
    if line.mainspring is None and words and isinstance(words[0], Text):
        if words[0].text.startswith("[Request interrupted by user"):
            return Origin.INTERRUPTION
        if line.isMeta:
            return Origin.ATTACHMENT
    return mark.origin


def _foreign_command(line: JournalLine, words: tuple[Content, ...]) -> str:
    """The slash command that the user typed in Claude Code, which stores it in tags."""
    text = words[0].text if words and isinstance(words[0], Text) else ""
    if line.mainspring is not None or not text.startswith("<command-"):
        return ""
    name, arguments = [_tagged(text, tag).strip() for tag in ("command-name", "command-args")]
    return f"/{name.removeprefix('/')} {arguments}".rstrip() if name else ""


def _tagged(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]


def note_names(line: JournalLine, standing: CheckpointExtras) -> None:
    if line.type == "custom-title":
        standing.title = line.customTitle
    elif line.type == "tag":
        standing.tag = line.tag
