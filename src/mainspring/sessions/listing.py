"""Lists of sessions, and one session as text for the user.

A list needs only directories and file times; only the listed sessions are read, and of those only the beginning and the
end, as text. So ten thousand sessions cost no more than listing their directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from mainspring.core.messages import Assistant, Block, Content, Origin, Text, Thinking, ToolCall, ToolResult, User
from mainspring.messages_api import Unreadable, as_line
from mainspring.secrets.redaction import redact
from mainspring.sessions.decoder import TranscriptDecoder
from mainspring.sessions.line_format import CHECKPOINT, DEMO, TESTS
from mainspring.sessions.line_parser import JournalLine, parse_journal_line, reply_blocks, spoke_of, user_messages
from mainspring.sessions.paths import Place, is_session_id
from mainspring.sessions.reader import JournalReader
from mainspring.text import plural

WINDOW = 64 * 1024  # as the Claude Agent SDK reads it
TITLE = 200
LONGEST_SHOWN = 2_000  # characters of one block

# A name given by a user wins. Then the first prompt: users remember a conversation by it, and it does not change. The
# last prompt, which the Claude Agent SDK shows in its own lists (`sdk/session_info.py`), only if the first one is too
# far from the beginning of the file.
_NAMES = (b'"customTitle":"', b'"aiTitle":"')
_HINTS = (b'"lastPrompt":"', b'"summary":"')
_CWD, _BRANCH = b'"cwd":"', b'"gitBranch":"'
_MODEL, _ENTRYPOINT = b'"model":{"type":"Model","name":"', b'"entrypoint":"'
_STRING = re.compile(rb'(?:[^"\\]|\\.)*+"')
_FIGURES = [re.compile(rb'"%b":(\d+)' % name) for name in (b"turns", b"spent")]


class SessionEntry(NamedTuple):
    """A session in a list."""

    session_id: str
    file: Path
    changed: int  # milliseconds
    size: int
    title: str = ""
    cwd: str = ""
    turns: int = 0
    cost: int = 0  # nano-dollars
    branch: str = ""  # of git, at the end
    is_trial: bool = False  # of a model for tests, or of the demo's at the end: no work to continue


MOST_LISTED = 50  # more than fit on a screen; describing one takes 60 us


def list_sessions_in(folder: Place, limit: int | None = MOST_LISTED, *, trials: bool = True) -> list[SessionEntry]:
    """The sessions of a directory, the newest first, without those of subagents and empty ones. `trials`: with those
    of models for tests and of the demo's."""
    shown: list[SessionEntry] = []
    for entry in newest_first(folder):
        described = describe_session(entry)
        if described is not None and (trials or not described.is_trial):
            shown.append(described)
        if limit is not None and len(shown) >= limit:
            break
    return shown


def newest_first(folder: Place) -> Iterator[SessionEntry]:
    found: list[tuple[int, int, str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name[36:] == ".jsonl":
                try:
                    about = entry.stat()
                except OSError:
                    continue  # deleted meanwhile
                found.append((about.st_mtime_ns, about.st_size, name))
    found.sort(reverse=True)
    for at, size, name in found:
        if size and is_session_id(name[:36]):
            yield SessionEntry(name[:36], Path(folder, name), at // 1_000_000, size)


def find_newest_session(folder: Place, *, trials: bool = True) -> Path | None:
    """The session that was written to last, for `--continue`."""
    return next((entry.file for entry in list_sessions_in(folder, 1, trials=trials)), None)


def describe_session(entry: SessionEntry) -> SessionEntry | None:
    """None for a file that is not a user's session: a subagent's, or one without messages."""
    try:
        fd = os.open(entry.file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        head = os.pread(fd, WINDOW, 0)
        tail = os.pread(fd, WINDOW, entry.size - WINDOW) if entry.size > WINDOW else head
    finally:
        os.close(fd)
    if b'"isSidechain":true' in head[: head.find(b"\n")]:
        return None
    title = _title(head, tail)
    if not title:
        return None
    turns, spent = _figures(tail)
    cwd, branch = _value(head, head.find(_CWD), _CWD), _last(_BRANCH, tail)
    is_trial = _last(_ENTRYPOINT, tail) == TESTS or _last(_MODEL, tail).startswith(DEMO)
    return SessionEntry(*entry[:4], title, cwd, turns, spent, branch, is_trial)


def _title(head: bytes, tail: bytes) -> str:
    names = (_last(field, text) for field in _NAMES for text in (tail, head))
    hints = (_last(field, tail) for field in _HINTS)
    return next(filter(None, names), "") or _first_prompt(head) or next(filter(None, hints), "")


def _last(field: bytes, text: bytes) -> str:
    return _value(text, text.rfind(field), field)


def _value(text: bytes, at: int, field: bytes) -> str:
    found = _STRING.match(text, at + len(field)) if at >= 0 else None
    try:
        return msgspec.json.decode(b'"' + found[0], type=str)[:TITLE] if found else ""
    except Unreadable:
        return ""


def _first_prompt(head: bytes) -> str:
    for raw in head.split(b"\n"):
        if not raw.startswith(b"{") or b'"type":"user"' not in raw or b'"isMeta":true' in raw:
            continue  # within a text these have backslashes
        try:
            line = parse_journal_line(raw)
            hidden = line.type != "user" or line.isMeta or line.isCompactSummary
            messages = [] if hidden else user_messages(line, spoke_of(line), None)
        except Unreadable:
            continue
        for message in messages:
            if isinstance(message, User) and message.text.strip():
                return " ".join(message.shown_text.split())[:TITLE]
    return ""


def _figures(tail: bytes) -> tuple[int, int]:
    """As in the last checkpoint."""
    begin = tail.rfind(CHECKPOINT)
    if begin < 0:
        return 0, 0
    line = tail[begin : tail.find(b"\n", begin)]
    standing = line[line.rfind(b'"standing":') :]
    found = [pattern.search(standing) for pattern in _FIGURES]
    turns, spent = [int(match[1]) if match else 0 for match in found]
    return turns, spent


LONGEST_PREVIEW = 400  # characters of one message


def preview_session(file: Place) -> list[str]:
    """The last messages with text, the newest last, each on one line. Reads only the end of the file."""
    found: list[str] = []
    with suppress(OSError), JournalReader(Path(file)) as reader:
        for _, line in reader.lines(max(0, reader.size - WINDOW)):
            if line.isSidechain or line.isMeta or line.isCompactSummary or line.type not in ("user", "assistant"):
                continue
            with suppress(*Unreadable):
                found += _preview_line(line)
    return [redact(text)[:LONGEST_PREVIEW] for text in found[-MOST_PREVIEWED:]]


MOST_PREVIEWED = 12  # messages


def _preview_line(line: JournalLine) -> Iterator[str]:
    spoke = spoke_of(line)
    if line.type == "assistant":
        texts = [("● ", block.text) for block in reply_blocks(line, spoke, None) if isinstance(block, Text)]
    else:
        said = [message for message in user_messages(line, spoke, None) if isinstance(message, User)]
        texts = [("❯ ", message.shown_text) for message in said if message.origin is Origin.PROMPT]
    yield from [mark + words for mark, text in texts if (words := " ".join(text.split()))]


# --- one session, for the user --------------------------------------------------------------------------------


def render_session(file: Place) -> Iterator[str]:
    """A session as text, line by line: everything that was said, including what has left the view."""
    with JournalReader(Path(file)) as reader:
        book = TranscriptDecoder(reader.payload)
        for offset, line in reader.lines():
            if line.isSidechain or line.isMeta:
                continue
            if line.type == "system" and line.subtype == "compact_boundary":
                yield "--- the conversation was compacted here ---"
            try:
                ids = book.take(offset, line)
            except Unreadable:
                continue
            messages = [book.said[name] for name in ids if name in book.said]
            for message in messages:
                yield from _told(message)
            if not messages and ids:
                reply = book.message(ids[0])
                last = reply.blocks[-1:] if isinstance(reply, Assistant) else ()
                for block in last:
                    yield from _block(block)
        for warning in reader.warnings:
            yield f"! {warning}"


def _told(message: User | ToolResult) -> Iterator[str]:
    if isinstance(message, User):
        yield ""
        yield from _indented("> ", (Text(message.typed),) if message.typed else message.content)
    else:
        yield from _indented("  ! " if message.is_error else "  = ", message.content)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Text():
            yield from _indented("", (block,))
        case Thinking():
            yield from _indented("~ ", (Text(block.text),))
        case ToolCall():
            yield from _indented("  * ", (Text(f"{block.name} {as_line(block.input).decode()}"),))
        case _:
            yield "[a server-side block]"


def _indented(prefix: str, content: tuple[Content, ...]) -> Iterator[str]:
    for part in content:
        text = redact(part.text) if isinstance(part, Text) else f"[{part.media_type}]"
        cut = text[:LONGEST_SHOWN]
        for row in cut.splitlines() or [""]:
            yield prefix + "".join([c if c.isprintable() or c == "\t" else "?" for c in row])
        if len(text) > len(cut):
            yield f"{prefix}[{plural(len(text) - len(cut), 'more character')}]"
