"""Mentions: files and directories that a prompt names, as `@path` or `@path#L10-20`, attached as if they were read.

The rules for `Read` apply: a file that it may not read, or would have to ask for, is not attached. A name that leads to
no file stays as text: people, packages, decorators. If a file exists and cannot be attached, the model gets a note:
pipes, devices, files that are neither text nor an image nor a PDF, files that are too large. The user also gets a
message for each: `MentionAttachment` has it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from typing import Literal

from mainspring.context.attachments import Attachment, AttachmentKind
from mainspring.context.memory import find_mentions
from mainspring.core.messages import Content, Text
from mainspring.core.value import Bundle
from mainspring.processes.atomic_write import ReadSet
from mainspring.processes.paths import PathRefused, Resolved, resolve_path
from mainspring.processes.safe_open import open_listing, open_read, read_all
from mainspring.providers.projection import FEWER_BYTES

MOST = 20  # files and directories of one prompt
LARGEST = 256 * 1024  # bytes; `Read` shows parts of a larger file
MOST_TEXT = 40_000  # characters of one file: about 12,000 tokens
TOTAL = 120_000  # of all
MEDIA = FEWER_BYTES  # of base64, of all images and documents after the first: more would push each other out
MOST_LINES = 2_000  # as with `Read`
WIDTH = 2_000  # characters of a line
MOST_ENTRIES = 500  # of a directory

Verdict = Literal["allow", "ask", "deny"]

# The notes for the model about a file that exists.
ASKS = "[Not attached: to read it takes the user's consent, for which the Read tool asks.]"
DENIED = "[Not attached: a rule keeps it from being read.]"
NO_TEXT = "[Not attached: it is no text. The Read tool shows images, PDF documents and notebooks.]"
TOO_MANY = "[Not attached: the prompt names more than fits. Use the Read tool.]"
NO_LINES = "It has {count:,} lines, none from {first:,} on."
EMPTY = "[It is empty.]"

# The messages for the user.
WHY = {
    ASKS: "reading it needs your consent",
    DENIED: "a rule keeps it from being read",
    NO_TEXT: "it is neither text nor an image nor a PDF",
    TOO_MANY: "the prompt names more than fits",
}


class MentionMedia(Bundle):
    """An image or a document. Without content: why the model cannot have it."""

    what: str  # 'PNG image, 640 x 480'
    content: Content | None = None
    data: bytes = b""  # of the file
    why_not: str = ""
    way_out: str = ""  # for the model

    @property
    def size(self) -> int:
        """As counted: in base64."""
        return len(self.data) * 4 // 3


class MentionScope(Bundle):
    """The directory for relative names, and what may be read."""

    cwd: str
    home: str | None
    may: Callable[[str], Awaitable[Verdict]]  # the decision of the rules about `Read` for a path
    listed: Callable[[str], bool]  # whether the rules allow listing a name in a directory
    known: ReadSet | None = None  # attached files count as read
    # of an open file and its name; None: neither image nor document
    medium: Callable[[int, str], MentionMedia | None] | None = None


class LineRange(Bundle):
    """Lines, counted from 1."""

    first: int = 1
    last: int | None = None


class MentionTarget(Bundle):
    path: Resolved
    span: LineRange


class MentionAttachment(Bundle):
    """What became of a mention: what was attached, or why it was not."""

    path: Resolved
    attachment: Attachment
    what: str = ""  # '12 lines'
    why_not: str = ""


class MentionBudget(Bundle):
    """The budget for the remaining mentions."""

    text: int = TOTAL
    media: int = MEDIA
    files: int = MOST

    @property
    def is_full(self) -> bool:
        return self.text <= 0 or self.files <= 0

    def holds(self, medium: MentionMedia) -> bool:
        """The first one always fits: it is within the limits of its kind."""
        return self.media == MEDIA or medium.size <= self.media

    def without(self, attachment: Attachment) -> MentionBudget:
        media = sum([len(part.data) for part in attachment.media if not isinstance(part, Text)])
        return MentionBudget(self.text - len(attachment.text), self.media - media, self.files - 1)


async def resolve_mentions(text: str, reach: MentionScope) -> tuple[MentionAttachment, ...]:
    """What a prompt attaches, in its order; each file once for each part of it."""
    brought: dict[tuple[str, LineRange], MentionAttachment] = {}
    room = MentionBudget()
    for name in find_mentions(text):
        found = look_up(name, reach)
        if found is None or (key := (found.path.real, found.span)) in brought:
            continue
        made = refuse_mention(found, TOO_MANY) if room.is_full else await brought_from(found, reach, room)
        room = room.without(made.attachment)
        brought[key] = made
    return tuple(brought.values())


def look_up(name: str, reach: MentionScope) -> MentionTarget | None:
    """None: there is nothing with this name."""
    for path, span in ((name, LineRange()), lines_of(name)):
        try:
            found = resolve_path(path, reach.cwd, home=reach.home)
        except PathRefused:
            continue
        if found.kind != "missing":
            return MentionTarget(found, span)
    return None


def lines_of(name: str) -> tuple[str, LineRange]:
    """`a.py#L10-20`; `a.py#L10` is one line."""
    said = re.fullmatch(r"(.+)#L(\d{1,7})(?:-L?(\d{1,7}))?", name)
    if said is None:
        return name, LineRange()
    first = max(1, int(said[2]))
    return said[1], LineRange(first, max(first, int(said[3] or first)))


async def brought_from(found: MentionTarget, reach: MentionScope, room: MentionBudget) -> MentionAttachment:
    path = found.path
    verdicts = [await reach.may(name) for name in path.names] if path.kind != "special" else []
    if "deny" in verdicts:
        return refuse_mention(found, DENIED)
    if "ask" in verdicts:
        return refuse_mention(found, ASKS)
    try:
        return attach_listing(found, reach) if path.kind == "folder" else read_mention(found, reach, room)
    except PathRefused as error:
        why = str(error)
    except OSError as error:
        why = str(error.strerror)
    return refuse_mention(found, f"[Not attached: {why}.]", why)


def refuse_mention(found: MentionTarget, text: str, why: str = "") -> MentionAttachment:
    """`text` is for the model, `why` for the user."""
    kind = AttachmentKind.FOLDER if found.path.kind == "folder" else AttachmentKind.FILE
    return MentionAttachment(found.path, Attachment(kind, found.path.real, text), why_not=why or WHY[text])


# --- a file -----------------------------------------------------------------------------------------


def read_mention(found: MentionTarget, reach: MentionScope, room: MentionBudget) -> MentionAttachment:
    path = found.path
    fd = open_read(path)
    try:
        medium = reach.medium(fd, path.real) if reach.medium is not None else None
        data = read_all(fd, path.real, LARGEST) if medium is None else medium.data
    finally:
        os.close(fd)
    if medium is not None and medium.content is None:
        return refuse_mention(found, f"[Not attached: {medium.why_not}. {medium.way_out}]", medium.why_not)
    if medium is None and b"\0" in data:
        return refuse_mention(found, NO_TEXT)
    if medium is not None and not room.holds(medium):
        return refuse_mention(found, TOO_MANY)
    if reach.known is not None:
        reach.known.remember(path, data)
    return attach_text(found, data, min(room.text, MOST_TEXT)) if medium is None else attach_media(found, medium)


def attach_media(found: MentionTarget, medium: MentionMedia) -> MentionAttachment:
    assert medium.content is not None
    said = f"[{medium.what}: it follows.]"
    return MentionAttachment(
        found.path, Attachment(AttachmentKind.MEDIA, found.path.real, said, (medium.content,)), medium.what
    )


def attach_text(found: MentionTarget, data: bytes, room: int) -> MentionAttachment:
    path, span = found.path, found.span
    if not data:
        return MentionAttachment(path, Attachment(AttachmentKind.FILE, path.real, EMPTY), "empty")
    text = data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").replace("\r\n", "\n")
    rows = text.removesuffix("\n").split("\n")  # and at nothing else: as `Read` counts them
    wanted = rows[span.first - 1 : span.last]
    if not wanted:
        words = NO_LINES.format(count=len(rows), first=span.first)
        return refuse_mention(found, f"[{words}]", words.removesuffix("."))
    lines = number_rows(wanted[:MOST_LINES], span.first, room)
    last = span.first + len(lines) - 1
    if len(lines) < len(wanted):
        lines.append(f"[Lines {span.first}-{last} of {len(rows):,}. The Read tool goes on with offset={last + 1}.]")
    whole = last - span.first + 1 == len(rows)
    what = (
        f"{len(rows):,} line{'' if len(rows) == 1 else 's'}" if whole else f"lines {span.first}-{last} of {len(rows):,}"
    )
    return MentionAttachment(path, Attachment(AttachmentKind.FILE, path.real, "\n".join(lines)), what)


def number_rows(rows: list[str], first: int, room: int) -> list[str]:
    """Number the lines, as many as fit."""
    lines: list[str] = []
    for number, row in enumerate(rows, first):
        line = f"{number}\t{row}" if len(row) <= WIDTH else f"{number}\t{row[:WIDTH]} [... cut]"
        room -= len(line) + 1
        if room < 0 and lines:
            break
        lines.append(line)
    return lines


# --- a directory ------------------------------------------------------------------------------------


def attach_listing(found: MentionTarget, reach: MentionScope) -> MentionAttachment:
    """Names, directories with a slash; without those that a rule denies."""
    real = found.path.real
    rows = [row for row in _entries(real) if reach.listed(f"{real.rstrip('/')}/{row.rstrip('/')}")]
    more = [f"[The first {MOST_ENTRIES:,} of more.]"] if len(rows) > MOST_ENTRIES else []
    text = "\n".join([*rows[:MOST_ENTRIES], *more]) or EMPTY
    number = min(len(rows), MOST_ENTRIES)
    what = f"folder, {'the first ' if more else ''}{number:,} name{'' if number == 1 else 's'}"
    return MentionAttachment(found.path, Attachment(AttachmentKind.FOLDER, real, text), what)


def _entries(real: str) -> list[str]:
    """Follows no link: lists the directory that the decision was about."""
    fd = open_listing(real)
    try:
        with os.scandir(fd) as entries:
            found = [
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry, _ in zip(entries, range(20 * MOST_ENTRIES), strict=False)
            ]
    finally:
        os.close(fd)
    return sorted(found)
