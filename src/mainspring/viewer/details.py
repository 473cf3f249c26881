"""What a span is about, read again from the file when somebody asks: texts under titles, cut, redacted, harmless."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from mainspring.core.messages import (
    Block,
    Content,
    RedactedThinking,
    ServerBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from mainspring.messages_api import Unreadable, encode_plainly
from mainspring.secrets.redaction import redact
from mainspring.sessions.decoder import TranscriptDecoder
from mainspring.sessions.reader import JournalReader
from mainspring.text import strip_control_characters
from mainspring.viewer.spans import Span, SpanKind
from mainspring.viewer.trace import Trace

LONGEST = 20_000  # characters of one text: more than anybody reads in a panel
MOST = 60  # texts of one span


class DetailPart(Struct):
    title: str
    text: str
    more: int = 0  # characters that are left out


class SpanDetails(Struct):
    key: str
    parts: list[DetailPart]


def get_span_details(trace: Trace, key: str, longest: int = LONGEST) -> SpanDetails | None:
    """None for a span that there is not. Raises OSError if its file is gone."""
    found = trace.span(key)
    if found is None:
        return None
    traced, span, places = found
    with JournalReader(traced.lines.file) as reader:
        parts = [make_detail_part(title, text, longest) for title, text in iter_span_texts(reader, span, places[:MOST])]
    return SpanDetails(key, parts)


def make_detail_part(title: str, text: str, longest: int) -> DetailPart:
    cut = text[: longest + 200]  # a secret that is cut in two is still seen as one
    clean = strip_control_characters(redact(cut))[:longest]
    return DetailPart(title, clean, max(0, len(text) - longest))


def iter_span_texts(reader: JournalReader, span: Span, places: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    for offset in places:
        line = reader.line_at(offset)
        if line is None:
            yield "gone", f"the line at byte {offset:,} cannot be read any more"
            continue
        book = TranscriptDecoder(reader.payload)
        try:
            ids = book.take(offset, line)
        except Unreadable as error:
            yield "damaged", str(error)
            continue
        for name in ids:
            if name in book.said:
                yield from iter_message_texts(book.said[name], span)
            else:
                for blocks in book.replies.values():
                    for block in blocks.values():
                        yield from iter_block_texts(block, span)


def iter_message_texts(message: User | ToolResult, span: Span) -> Iterator[tuple[str, str]]:
    if isinstance(message, ToolResult):
        if message.call_id == span.call:
            yield "what it came to", join_content_text(message.content)
    else:
        yield ("the prompt" if message.origin == "prompt" else message.origin), join_content_text(message.content)


def iter_block_texts(block: Block, span: Span) -> Iterator[tuple[str, str]]:
    match block:
        case ToolCall() if span.kind is SpanKind.TOOL:
            if block.id == span.call:
                yield "input", format_input(block.input)
        case ToolCall():
            yield f"call of {block.name}", format_input(block.input)
        case _ if span.kind is SpanKind.TOOL:
            return
        case Text():
            yield "text", block.text
        case Thinking():
            yield "thinking", block.text or "(it is not shown)"
        case RedactedThinking():
            yield "thinking", "(it is encrypted)"
        case ServerBlock():
            yield block.kind, block.json


def join_content_text(content: tuple[Content, ...]) -> str:
    return "\n".join([part.text if isinstance(part, Text) else f"[{part.media_type}]" for part in content])


def format_input(input: dict[str, object]) -> str:
    """Fields under their names; texts as they are, since most of them have lines."""
    rows = [f"{name}: {value if isinstance(value, str) else format_json(value)}" for name, value in input.items()]
    return "\n".join(rows)


def format_json(value: object) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value)).decode()
    except (UnicodeError, OverflowError, msgspec.MsgspecError):
        return encode_plainly(value).decode()
