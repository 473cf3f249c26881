"""Export a trace as one HTML file, read the details of a span, and serve the files of the page.

- `export_html`: the page with its scripts and data in one file. Its content security policy allows only its own
  scripts, by hash, and no connections.
- `get_span_details`: the texts of a span, read again from the journal: cut, redacted and sanitized.
- `FILES`: the files of the page by request path. A name from a request is never used as a file name.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

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
from mainspring.viewer.replay import StepReplay
from mainspring.viewer.spans import Span, SpanKind
from mainspring.viewer.trace import Trace

LONGEST_DETAIL = 20_000  # characters of one text: enough for a panel
MOST = 60  # texts of one span


class DetailPart(Struct):
    title: str
    text: str
    more: int = 0  # characters left out


class SpanDetails(Struct):
    key: str
    parts: list[DetailPart]


def get_span_details(trace: Trace, key: str, longest: int = LONGEST_DETAIL) -> SpanDetails | None:
    """None for an unknown span. Raises OSError if its file is gone."""
    found = trace.span(key)
    if found is None:
        return None
    traced, span, places = found
    with JournalReader(traced.lines.file) as reader:
        parts = [make_detail_part(title, text, longest) for title, text in iter_span_texts(reader, span, places[:MOST])]
    return SpanDetails(key, parts)


def make_detail_part(title: str, text: str, longest: int) -> DetailPart:
    cut = text[: longest + 200]  # a secret at the cut is still recognized
    clean = strip_control_characters(redact(cut))[:longest]
    return DetailPart(title, clean, max(0, len(text) - longest))


def iter_span_texts(reader: JournalReader, span: Span, places: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    for offset in places:
        line = reader.line_at(offset)
        if line is None:
            yield "gone", f"cannot read the line at byte {offset:,} any more"
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
            yield "result", join_content_text(message.content)
    else:
        yield ("prompt" if message.origin == "prompt" else message.origin), join_content_text(message.content)


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
            yield "thinking", block.text or "(not shown)"
        case RedactedThinking():
            yield "thinking", "(encrypted)"
        case ServerBlock():
            yield block.kind, block.json


def join_content_text(content: tuple[Content, ...]) -> str:
    return "\n".join([part.text if isinstance(part, Text) else f"[{part.media_type}]" for part in content])


def format_input(input: dict[str, object]) -> str:
    """One field per line; texts unquoted, since most of them have several lines."""
    rows = [f"{name}: {value if isinstance(value, str) else format_json(value)}" for name, value in input.items()]
    return "\n".join(rows)


def format_json(value: object) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value)).decode()
    except (UnicodeError, OverflowError, msgspec.MsgspecError):
        return encode_plainly(value).decode()


PAGE = Path(__file__).parent / "page"
SCRIPTS = ("data.js", "rows.js", "timeline.js", "replay.js", "reader.js", "app.js")  # in load order
STYLE = "style.css"
INDEX = "index.html"

FILES = {
    "": (INDEX, "text/html"),
    STYLE: (STYLE, "text/css"),
    **{name: (name, "text/javascript") for name in SCRIPTS},
}


@cache
def read_page_file(name: str) -> bytes:
    return (PAGE / name).read_bytes()


LONGEST = 8_000  # characters of one text: people send the file around, and it contains all texts
ALL = 10**9


def export_html(trace: Trace) -> bytes:
    """The HTML of a trace; call `Trace.look` first. Raises OSError if its files are gone."""
    style = read_page_file(STYLE)
    scripts = [read_page_file(name) for name in SCRIPTS]
    made = read_page_file(INDEX).replace(b'<link rel="stylesheet" href="style.css">', b"<style>%b</style>" % style)
    data = b'<script type="application/json" id="embedded">%b</script>\n' % harmless_json(encode_trace(trace))
    first, *others = [b'<script src="%b"></script>' % name.encode() for name in SCRIPTS]
    made = made.replace(first, data + first)
    for tag, script in zip((first, *others), scripts, strict=True):
        made = made.replace(tag, b"<script>%b</script>" % script)
    policy = b'<meta http-equiv="Content-Security-Policy" content="%b">\n' % policy_for(scripts, style).encode()
    return made.replace(b"<meta charset", policy + b"<meta charset", 1)


def policy_for(scripts: list[bytes], style: bytes) -> str:
    known = " ".join([f"'sha256-{base64_digest(script)}'" for script in scripts])
    return (
        f"default-src 'none'; script-src {known}; style-src 'sha256-{base64_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def base64_digest(data: bytes) -> str:
    return b64encode(sha256(data).digest()).decode()


def encode_trace(trace: Trace) -> bytes:
    parts = {span.key: found.parts for span in trace.spans if (found := get_span_details(trace, span.key, LONGEST))}
    return msgspec.json.encode(
        {
            "head": trace.head(),
            "spans": list(trace.spans),
            "details": {key: texts for key, texts in parts.items() if texts},
            "steps": [steps_of(trace, place) for place in range(len(trace.files))],
        }
    )


def steps_of(trace: Trace, place: int) -> list[msgspec.Raw]:
    replay = StepReplay(trace.files[place].lines.file, aside=place > 0)
    replay.look()
    return replay.steps(1, ALL)


def harmless_json(data: bytes) -> bytes:
    """JSON for a script element: it must not end the element, open a comment, or contain a JavaScript line end. JSON
    has these characters only inside strings."""
    for character, escaped in ESCAPES:
        data = data.replace(character, escaped)
    return data


ESCAPES = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    (b"\xe2\x80\xa8", rb"\u2028"),
    (b"\xe2\x80\xa9", rb"\u2029"),
)
