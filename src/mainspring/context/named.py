"""Files and folders that somebody names in a prompt, `@path` or `@path#L10-20`: brought along, as if they were read.

By the rules for `Read`: what it may not read, or would have to ask for, is not brought. A name that leads to nothing is
a word like any other: people, packages, decorators. What is there and cannot be brought is told to the model, so that
nobody thinks it was: a pipe, a device, what is no text, what is too large.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Literal

from mainspring.context.attachments import Attachment, Kind
from mainspring.context.includes import mentions
from mainspring.core.value import Bundle
from mainspring.processes.atomic import ReadSet
from mainspring.processes.opening import open_folder, read
from mainspring.processes.paths import PathRefused, Resolved, resolve

MOST = 20  # files and folders of one prompt
LARGEST = 256 * 1024  # bytes; of a larger file, `Read` shows parts
MOST_TEXT = 40_000  # characters of one file: about 12,000 tokens
TOTAL = 120_000  # of all
MOST_LINES = 2_000  # as with `Read`
WIDTH = 2_000  # characters of a line
MOST_ENTRIES = 500  # of a folder

Verdict = Literal["allow", "ask", "deny"]

# What the model is told of a file that is there.
ASKS = "[Not attached: to read it takes the user's consent, for which the Read tool asks.]"
DENIED = "[Not attached: a rule keeps it from being read.]"
NO_TEXT = "[Not attached: it is no text. The Read tool shows images, PDF documents and notebooks.]"
TOO_MANY = "[Not attached: the prompt names more than fits. Use the Read tool.]"
NO_LINES = "[It has {count:,} lines, none from {first:,} on.]"
EMPTY = "[It is empty.]"


class Reach(Bundle):
    """Where names are seen from, and what may be read."""

    cwd: str
    home: str | None
    may: Callable[[str], Awaitable[Verdict]]  # what the rules say of `Read` for a path
    listed: Callable[[str], bool]  # whether a rule lets a name in a folder be shown
    known: ReadSet | None = None  # what is brought counts as read


class Span(Bundle):
    """Lines, counted from 1."""

    first: int = 1
    last: int | None = None


class Found(Bundle):
    path: Resolved
    span: Span


async def named(text: str, reach: Reach) -> tuple[tuple[Resolved, Attachment], ...]:
    """What a prompt brings along, in its order; each place once for each part of it."""
    brought: dict[tuple[str, Span], tuple[Resolved, Attachment]] = {}
    room = TOTAL
    for name in mentions(text):
        found = look_up(name, reach)
        if found is None or (key := (found.path.real, found.span)) in brought:
            continue
        if len(brought) >= MOST or room <= 0:
            attachment = Attachment(Kind.FILE, found.path.real, TOO_MANY)
        else:
            attachment = await brought_from(found, reach, min(room, MOST_TEXT))
        room -= len(attachment.text)
        brought[key] = (found.path, attachment)
    return tuple(brought.values())


def look_up(name: str, reach: Reach) -> Found | None:
    """None: there is nothing of this name."""
    for path, span in ((name, Span()), lines_of(name)):
        try:
            found = resolve(path, reach.cwd, home=reach.home)
        except PathRefused:
            continue
        if found.kind != "missing":
            return Found(found, span)
    return None


def lines_of(name: str) -> tuple[str, Span]:
    """`a.py#L10-20`; `a.py#L10` is one line."""
    import re

    said = re.fullmatch(r"(.+)#L(\d{1,7})(?:-L?(\d{1,7}))?", name)
    if said is None:
        return name, Span()
    first = max(1, int(said[2]))
    return said[1], Span(first, max(first, int(said[3] or first)))


async def brought_from(found: Found, reach: Reach, room: int) -> Attachment:
    path, span = found.path, found.span
    kind = Kind.FOLDER if path.kind == "folder" else Kind.FILE
    verdicts = [await reach.may(name) for name in path.names] if path.kind != "special" else []
    if "deny" in verdicts:
        return Attachment(kind, path.real, DENIED)
    if "ask" in verdicts:
        return Attachment(kind, path.real, ASKS)
    try:
        text = listing(path, reach) if kind is Kind.FOLDER else contents(path, span, reach, room)
    except PathRefused as error:
        text = f"[Not attached: {error}.]"
    except OSError as error:
        text = f"[Not attached: {error.strerror}.]"
    return Attachment(kind, path.real, text)


# --- a file -----------------------------------------------------------------------------------------


def contents(path: Resolved, span: Span, reach: Reach, room: int) -> str:
    data = read(path, limit=LARGEST)
    if b"\0" in data:
        return NO_TEXT
    if reach.known is not None:
        reach.known.remember(path, data)
    if not data:
        return EMPTY
    text = data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").replace("\r\n", "\n")
    rows = text.removesuffix("\n").split("\n")  # and at nothing else: so `Read` counts them
    wanted = rows[span.first - 1 : span.last]
    if not wanted:
        return NO_LINES.format(count=len(rows), first=span.first)
    return shown(wanted[:MOST_LINES], span.first, len(rows), room, whole=len(wanted))


def shown(rows: list[str], first: int, total: int, room: int, *, whole: int) -> str:
    """With their numbers, as many as there is room for."""
    lines: list[str] = []
    for number, row in enumerate(rows, first):
        line = f"{number}\t{row}" if len(row) <= WIDTH else f"{number}\t{row[:WIDTH]} [... cut]"
        room -= len(line) + 1
        if room < 0 and lines:
            break
        lines.append(line)
    last = first + len(lines) - 1
    if len(lines) < whole:
        lines.append(f"[Lines {first}-{last} of {total:,}. The Read tool goes on with offset={last + 1}.]")
    return "\n".join(lines)


# --- a folder ---------------------------------------------------------------------------------------


def listing(path: Resolved, reach: Reach) -> str:
    """Names, folders with a slash; none that a rule keeps from being read."""
    rows = [row for row in _entries(path.real) if reach.listed(f"{path.real.rstrip('/')}/{row.rstrip('/')}")]
    more = [f"[The first {MOST_ENTRIES:,} of more.]"] if len(rows) > MOST_ENTRIES else []
    return "\n".join([*rows[:MOST_ENTRIES], *more]) or EMPTY


def _entries(real: str) -> list[str]:
    """No link on the way is followed: it is the folder that was decided on."""
    folder = open_folder(real)
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        with os.scandir(fd) as entries:
            found = [
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry, _ in zip(entries, range(20 * MOST_ENTRIES), strict=False)
            ]
    finally:
        os.close(fd)
    return sorted(found)
