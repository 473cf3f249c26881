"""Reading a session file: any prefix of it, any damage to it (D2). Linear time, bounded memory, and no line is trusted.

A line that cannot be read is skipped, with a warning that says which and why. Nothing is ever changed: a file that we
cannot read today may be read by a person tomorrow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from mainspring.sessions.forms import Unreadable
from mainspring.sessions.lines import CHECKPOINT, VERSION
from mainspring.sessions.parsing import Line, parse
from mainspring.sessions.places import payload_file

CHUNK = 1 << 20
LINE = 1 << 13  # most lines are shorter
LONGEST_LINE = 16 << 20  # ours stay below 1 MiB; others keep images of a few MiB in a line
MOST_WARNINGS = 100

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\0"
_START = b'{"type":"'
_GLUED = ("custom-title", "ai-title", "tag", "last-prompt")  # what a client may write behind a torn line
_MESSAGE = re.compile(rb'\{"(?:parentUuid|logicalParentUuid|type|uuid)":')  # the beginning of a client's message
_MESSAGES = frozenset({"user", "assistant", "system", "attachment"})
_BEFORE_A_VALUE = (b":", b",", b"[")
MOST_GLUED = 50  # beginnings that are tried


class Reader:
    """One file, open for reading."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self.fd).st_size
        self.warnings: list[str] = []

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def warn(self, text: str) -> None:
        if text in self.warnings:  # a line may be read more than once
            return
        if len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(text)
        elif len(self.warnings) == MOST_WARNINGS:
            self.warnings.append("and more")

    @property
    def ends_in_mid_line(self) -> bool:
        return self.size > 0 and os.pread(self.fd, 1, self.size - 1) != b"\n"

    # --- lines ---

    def lines(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, Line]]:
        """What can be read, with where it stands. From the middle of a file, lines are counted from there."""
        for number, (offset, data) in enumerate(self._raw(start, self.size if end is None else end), 1):
            where = f"line {number}" if start == 0 else f"line {number} after byte {start:,}"
            if data is None:
                self.warn(f"{where}: longer than {LONGEST_LINE:,} bytes, skipped")
            elif line := self._line(data, where):
                yield offset, line

    def line_at(self, offset: int) -> Line | None:
        """The line that begins here, if one does."""
        if not self.is_start(offset):
            return None
        _, data = next(self._raw(offset, self.size, LINE), (0, None))
        return self._line(data, f"the line at byte {offset:,}") if data is not None else None

    def is_start(self, offset: int) -> bool:
        return offset == 0 or (offset > 0 and os.pread(self.fd, 1, offset - 1) == b"\n")

    def _line(self, data: bytes, where: str) -> Line | None:
        clean = data.removeprefix(_BOM).strip(_BLANK)
        if not clean:
            if b"\0" in data:
                self.warn(f"{where}: nothing but zeros, skipped")
            return None
        try:
            line = parse(clean)
        except Unreadable as error:
            self.warn(f"{where}: {type(error).__name__}: {str(error)[:200]}, skipped")
            return self._glued(clean)
        if line.type == "mainspring" and line.v != VERSION:
            self.warn(f"{where}: version {line.v} is not known here, skipped")
            return None
        return line

    def _glued(self, data: bytes) -> Line | None:
        """What a client has appended to a line that a crash had torn: a message, a title or a tag. Within a string
        there is no bare quote, so what begins like a line and is whole up to the end is one, unless it could be a value
        within the torn line: a model chooses what stands there."""
        for found in [*_MESSAGE.finditer(data, 1)][:MOST_GLUED]:
            begin = found.start()
            if data[max(0, begin - 64) : begin].rstrip().endswith(_BEFORE_A_VALUE):
                continue
            try:
                message = parse(data[begin:])
            except Unreadable:
                continue
            if message.uuid and message.type in _MESSAGES:
                return message
        begin = data.rfind(_START)
        try:
            line = parse(data[begin:]) if begin > 0 else None
        except Unreadable:
            return None
        return line if line is not None and line.type in _GLUED else None

    def _raw(self, start: int, end: int, window: int = CHUNK) -> Iterator[tuple[int, bytes | None]]:
        """None in place of a line that is too long: it is passed over without being kept."""
        kept, kept_at, too_long, position = b"", start, False, start
        while position < end:
            chunk, window = os.pread(self.fd, min(window, end - position), position), CHUNK
            if not chunk:
                break
            begin = 0
            while (newline := chunk.find(b"\n", begin)) >= 0:
                yield kept_at, None if too_long else kept + chunk[begin:newline]
                begin, kept, too_long = newline + 1, b"", False
                kept_at = position + begin
            kept = b"" if too_long else kept + chunk[begin:]
            if len(kept) > LONGEST_LINE:
                kept, too_long = b"", True
            position += len(chunk)
        if kept or too_long:
            yield kept_at, None if too_long else kept

    # --- looking back ---

    def last_checkpoint(self, end: int) -> int:
        """Where the last checkpoint before `end` begins, or -1. Reads only as far back as it must."""
        wanted = b"\n" + CHECKPOINT
        overlap, stop, window = len(wanted), end, 1 << 16
        while stop > 0:
            begin = max(0, stop - window)
            found = os.pread(self.fd, min(end, stop + overlap) - begin, begin).rfind(wanted)
            if found >= 0:
                return begin + found + 1
            stop, window = begin, min(window * 4, CHUNK)
        return -1

    # --- what is kept beside the file ---

    def payload(self, name: str) -> bytes | None:
        """Content that was too large for a line; None, with a warning, if it is gone or is not what it was."""
        if not name:
            return None
        path = Path(payload_file(self.file, name))
        try:
            data = path.read_bytes() if name.isalnum() else b""
        except OSError as error:
            self.warn(f"payload '{name}': {error.strerror}; its beginning stands for it")
            return None
        if sha256(data).hexdigest() != name:
            self.warn(f"payload '{name}': is not what was written; its beginning stands for it")
            return None
        return data
