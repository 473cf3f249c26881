"""A session for other people: as Markdown, as one HTML page, or as JSON, with secrets removed.

    sections = read_export_sections(file)
    page = export_to_html(ExportHeading("Fix the parser", ...), sections)

Markdown has prompts, answers and one line for each call; HTML and JSON also have thinking, whole calls and results. The
page is one file without scripts: its content security policy allows its own style and nothing else, so text of a model
or a tool can neither run nor load anything. All texts are redacted before they are cut or written.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.core.messages import (
    Assistant,
    Block,
    Content,
    Message,
    Origin,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from mainspring.core.value import Value
from mainspring.messages_api import Unreadable, encode_plainly
from mainspring.secrets.redaction import redact
from mainspring.sessions.line_format import PLAIN
from mainspring.sessions.line_parser import record_of, reply_blocks, spoke_of, user_messages
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.records import WithdrawnRecord
from mainspring.text import strip_control_characters, truncate

if TYPE_CHECKING:
    from collections.abc import Callable

    from mainspring.sessions.line_parser import JournalLine

    Payload = Callable[[str], bytes | None]  # loads content that is too large for a line, by its name

LONGEST = 50_000  # characters of one text in HTML and JSON
LONGEST_ABOUT = 90  # columns of a call's line


class ExportSection(Value, omit_defaults=True):
    """`kind`: prompt, answer, thinking, call, result, summary or interruption."""

    kind: str
    text: str
    tool: str = ""  # of a call: its name,
    about: str = ""  # and what it is about, in one line
    call: str = ""  # id of a call, and of the call that a result belongs to
    reply: str = ""  # id of the reply that it is part of
    failed: bool = False  # of a result


class ExportHeading(Value):
    title: str
    session_id: str
    folder: str
    model: str = ""
    written: str = ""  # when, such as '2026-11-19 20:31'


# --- reading ----------------------------------------------------------------------------------------------------------


def read_export_sections(file: Path) -> list[ExportSection]:
    """Also what left the model's view, and without replies that were withdrawn. Raises `OSError`."""
    found: list[ExportSection] = []
    with JournalReader(file) as reader:
        for _, line in reader.lines():
            with suppress(*Unreadable):
                record = record_of(line) if line.record else None
                if isinstance(record, WithdrawnRecord):
                    found = [section for section in found if section.reply != record.reply_id]
                elif record is None:
                    found += _read_line(line, reader.payload)
    return found


def _read_line(line: JournalLine, payload: Payload) -> Iterator[ExportSection]:
    if line.isSidechain or line.isMeta or not line.message:
        return
    spoke, kept = spoke_of(line), payload((line.mainspring or PLAIN).payload)
    if line.type == "assistant":
        for block in reply_blocks(line, spoke, kept):
            yield from _of_block(block, spoke.id or line.uuid)
    elif line.type == "user":
        for message in user_messages(line, spoke, kept):
            yield from list_message_sections(message)


def list_message_sections(message: Message) -> Iterator[ExportSection]:
    if isinstance(message, Assistant):
        for block in message.blocks:
            yield from _of_block(block, message.id)
    elif isinstance(message, ToolResult):
        yield ExportSection("result", _joined(message.content), call=message.call_id, failed=message.is_error)
    elif message.origin is Origin.PROMPT:
        others = [part for part in message.content if not isinstance(part, Text)]
        yield ExportSection("prompt", "\n".join([message.shown_text, *[f"[{one.media_type}]" for one in others]]))
    elif message.origin is Origin.SUMMARY:
        yield ExportSection("summary", message.text)
    elif message.origin is Origin.INTERRUPTION:
        yield ExportSection("interruption", "")


def _of_block(block: Block, reply: str) -> Iterator[ExportSection]:
    match block:
        case Text():
            yield ExportSection("answer", block.text, reply=reply)
        case Thinking() if block.text:
            yield ExportSection("thinking", block.text, reply=reply)
        case RedactedThinking():
            yield ExportSection("thinking", "(encrypted)", reply=reply)
        case ToolCall():
            about = next((value for value in block.input.values() if isinstance(value, str) and value), "")
            yield ExportSection("call", _input(block), block.name, about, block.id, reply)
        case _:
            return


def _joined(content: tuple[Content, ...]) -> str:
    return "\n".join([part.text if isinstance(part, Text) else f"[{part.media_type}]" for part in content])


def _input(call: ToolCall) -> str:
    rows = [
        f"{name}: {value if isinstance(value, str) else encode_plainly(value).decode(errors='replace')}"
        for name, value in call.input.items()
    ]
    return "\n".join(rows)


# --- cleaning ---------------------------------------------------------------------------------------------------------


def clean_section(section: ExportSection) -> ExportSection:
    """Without secrets and control characters, and bounded."""
    text = clean_text(section.text)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n[{len(text) - LONGEST:,} more characters]"
    about = truncate(clean_one_line(section.about), LONGEST_ABOUT)
    return ExportSection(
        section.kind, text, clean_one_line(section.tool), about, section.call, section.reply, section.failed
    )


def clean_text(text: str) -> str:
    return strip_control_characters(redact(text)).strip("\n").encode(errors="replace").decode()


def clean_one_line(text: str) -> str:
    return " ".join(clean_text(text).split())


def clean_heading(heading: ExportHeading) -> ExportHeading:
    fields = (heading.title, heading.session_id, heading.folder, heading.model, heading.written)
    return ExportHeading(*map(clean_one_line, fields))


# --- Markdown and JSON ------------------------------------------------------------------------------------------------


def export_to_markdown(heading: ExportHeading, sections: Iterable[ExportSection]) -> str:
    heading = clean_heading(heading)
    model = f", with {heading.model}" if heading.model else ""
    rows = [f"# {heading.title}", "", f"Session {heading.session_id} in {heading.folder}{model}. {heading.written}."]
    before = ""
    for section in map(clean_section, sections):
        if section.kind not in ("prompt", "answer", "call"):
            continue
        if not before == section.kind == "call":  # consecutive calls form one list
            rows.append("")
        before = section.kind
        if section.kind == "prompt":
            rows += [f"> {row}".rstrip() for row in section.text.split("\n")]
        elif section.kind == "call":
            about = section.about.replace("`", "'")
            rows.append(f"- {section.tool}: `{about}`" if about else f"- {section.tool}")
        else:
            rows.append(section.text)
    return "\n".join([*rows, ""])


def export_to_json(heading: ExportHeading, sections: Iterable[ExportSection]) -> str:
    written = {**msgspec.to_builtins(clean_heading(heading)), "sections": list(map(clean_section, sections))}
    return msgspec.json.format(msgspec.json.encode(written)).decode() + "\n"


# --- HTML -------------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --text: #1d1c1a; --dim: #6b6862; --page: #fbfaf7; --bar: #efece4; --line: #d9d5ca; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e3dc; --dim: #98948b; --page: #1b1a18; --bar: #292723; --line: #3b3832; }
}
body { margin: 0 auto; max-width: 54rem; padding: 2rem 1rem 4rem; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
header p, .note { color: var(--dim); font-size: .875rem; margin: 0; }
.prompt { background: var(--bar); border-radius: .5rem; margin: 2rem 0 1rem; padding: .75rem 1rem; }
.prompt h2 { color: var(--dim); font-size: .75rem; font-weight: 600; margin: 0 0 .25rem; }
.text, pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
.answer { margin: 1rem 0; }
pre { background: var(--bar); border-radius: .375rem; font: .85rem/1.45 ui-monospace, monospace; margin: .5rem 0;
  padding: .5rem .75rem; }
details { border-left: 2px solid var(--line); margin: .5rem 0; padding-left: .75rem; }
summary { color: var(--dim); cursor: pointer; overflow-wrap: anywhere; }
summary b { color: var(--text); font-weight: 600; }
.failed { border-left: 3px solid #b3261e; }
"""


def export_to_html(heading: ExportHeading, sections: Iterable[ExportSection]) -> str:
    """One page that needs no script and loads nothing."""
    heading = clean_heading(heading)
    digest = b64encode(sha256(STYLE.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    model = f" · {heading.model}" if heading.model else ""
    about = f"{heading.folder}{model} · session {heading.session_id} · {heading.written}"
    body = "\n".join(_html_sections([clean_section(section) for section in sections]))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(heading.title)}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{escape(heading.title)}</h1>
<p>{escape(about)}</p>
</header>
<main>
{body}
</main>
</body>
</html>
"""


def _html_sections(sections: list[ExportSection]) -> Iterator[str]:
    results = {section.call: section for section in sections if section.kind == "result"}
    prompts = 0
    for section in sections:
        match section.kind:
            case "prompt":
                prompts += 1
                text = f'<div class="text">{escape(section.text)}</div>'
                yield f'<section class="prompt" id="prompt-{prompts}"><h2>Prompt {prompts}</h2>{text}</section>'
            case "answer":
                yield f'<div class="answer">{"".join(_html_answer(section.text))}</div>'
            case "call":
                yield _html_call(section, results.get(section.call))
            case "thinking" | "summary":
                name = "Thinking" if section.kind == "thinking" else "Summary of the conversation so far"
                yield f"<details><summary>{name}</summary><pre>{escape(section.text)}</pre></details>"
            case "interruption":
                yield '<p class="note">Interrupted</p>'
            case _:
                pass  # a result is shown with its call


def _html_call(call: ExportSection, result: ExportSection | None) -> str:
    shown = f"<pre>{escape(call.text)}</pre>" if call.text else ""
    if result is not None:
        style = ' class="failed"' if result.failed else ""
        shown += f"<pre{style}>{escape(result.text) or '(no output)'}</pre>"
    return f"<details><summary><b>{escape(call.tool)}</b> {escape(call.about)}</summary>{shown}</details>"


def _html_answer(text: str) -> Iterator[str]:
    """Code blocks as such; the rest as it was written."""
    plain: list[str] = []
    code: list[str] = []
    fence = ""
    for row in text.split("\n"):
        bare = row.strip()
        if not fence and bare.startswith(("```", "~~~")):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
            yield _html_text(plain)
            plain = []
        elif fence and bare.startswith(fence) and not bare.strip(fence[0]):
            yield f"<pre><code>{escape(chr(10).join(code))}</code></pre>"
            fence, code = "", []
        else:
            (code if fence else plain).append(row)
    if fence:
        yield f"<pre><code>{escape(chr(10).join(code))}</code></pre>"
    yield _html_text(plain)


def _html_text(rows: list[str]) -> str:
    text = "\n".join(rows).strip("\n")
    return f'<div class="text">{escape(text)}</div>' if text else ""


FORMATS = {"md": export_to_markdown, "html": export_to_html, "json": export_to_json}
