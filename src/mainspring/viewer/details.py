"""What a span is about, read again from the file when somebody asks: texts under titles, cut, redacted, harmless."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from mainspring.agent.harmless import strip_control_characters
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
from mainspring.secrets.redaction import redact
from mainspring.sessions.book import TranscriptDecoder
from mainspring.sessions.forms import Unreadable, encode_plainly
from mainspring.sessions.reader import JournalReader
from mainspring.viewer.spans import Kind, Span
from mainspring.viewer.trace import Trace

LONGEST = 20_000  # characters of one text: more than anybody reads in a panel
MOST = 60  # texts of one span


class Part(Struct):
    title: str
    text: str
    more: int = 0  # characters that are left out


class Details(Struct):
    key: str
    parts: list[Part]


def details(trace: Trace, key: str, longest: int = LONGEST) -> Details | None:
    """None for a span that there is not. Raises OSError if its file is gone."""
    found = trace.span(key)
    if found is None:
        return None
    traced, span, places = found
    with JournalReader(traced.lines.file) as reader:
        parts = [shown(title, text, longest) for title, text in texts(reader, span, places[:MOST])]
    return Details(key, parts)


def shown(title: str, text: str, longest: int) -> Part:
    cut = text[: longest + 200]  # a secret that is cut in two is still seen as one
    clean = strip_control_characters(redact(cut))[:longest]
    return Part(title, clean, max(0, len(text) - longest))


def texts(reader: JournalReader, span: Span, places: tuple[int, ...]) -> Iterator[tuple[str, str]]:
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
                yield from of_message(book.said[name], span)
            else:
                for blocks in book.replies.values():
                    for block in blocks.values():
                        yield from of_block(block, span)


def of_message(message: User | ToolResult, span: Span) -> Iterator[tuple[str, str]]:
    if isinstance(message, ToolResult):
        if message.call_id == span.call:
            yield "what it came to", words(message.content)
    else:
        yield ("the prompt" if message.origin == "prompt" else message.origin), words(message.content)


def of_block(block: Block, span: Span) -> Iterator[tuple[str, str]]:
    match block:
        case ToolCall() if span.kind is Kind.TOOL:
            if block.id == span.call:
                yield "input", pretty(block.input)
        case ToolCall():
            yield f"call of {block.name}", pretty(block.input)
        case _ if span.kind is Kind.TOOL:
            return
        case Text():
            yield "text", block.text
        case Thinking():
            yield "thinking", block.text or "(it is not shown)"
        case RedactedThinking():
            yield "thinking", "(it is encrypted)"
        case ServerBlock():
            yield block.kind, block.json


def words(content: tuple[Content, ...]) -> str:
    return "\n".join([part.text if isinstance(part, Text) else f"[{part.media_type}]" for part in content])


def pretty(input: dict[str, object]) -> str:
    """Fields under their names; texts as they are, since most of them have lines."""
    rows = [f"{name}: {value if isinstance(value, str) else as_json(value)}" for name, value in input.items()]
    return "\n".join(rows)


def as_json(value: object) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value)).decode()
    except (UnicodeError, OverflowError, msgspec.MsgspecError):
        return encode_plainly(value).decode()
