"""Reading a session file: any prefix of it, with any damage (security D2). Linear time, bounded memory; no line is
trusted.

A line that cannot be read is skipped, with a warning that says which and why. The reader changes nothing: a person may
still read a file that we cannot read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from hashlib import sha256
from json import JSONDecoder
from pathlib import Path

from mainspring.messages_api import Unreadable
from mainspring.sessions.line_format import CHECKPOINT, VERSION
from mainspring.sessions.line_parser import JournalLine, decode_line, parse_journal_line
from mainspring.sessions.paths import payload_file

CHUNK = 1 << 20
LINE = 1 << 13  # most lines are shorter
LONGEST_LINE = 16 << 20  # ours stay below 1 MiB; other programs keep images of a few MiB in a line
MOST_WARNINGS = 100

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\0"
_START = b'{"type":"'
_GLUED = ("custom-title", "ai-title", "tag", "last-prompt")  # what a client may append to a torn line
_MESSAGE = re.compile(rb'\{"(?:parentUuid|logicalParentUuid|type|uuid)":')  # the beginning of a client's message
_MESSAGES = frozenset({"user", "assistant", "system", "attachment"})
_OBJECT = re.compile("[ \\t\\r\\0\\ufeff]*\\{")
_BEFORE_A_VALUE = (b":", b",", b"[")
MOST_GLUED = 50  # candidates that are tried


class JournalReader:
    """One file, open for reading."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self.fd).st_size
        self.warnings: list[str] = []
        self._several: dict[int, JournalLine] = {}  # those that `line_at` has found without a newline between them

    def __enter__(self) -> JournalReader:
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

    def lines(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, JournalLine]]:
        """The readable lines, with their positions. From the middle of a file, lines are counted from there."""
        for number, (offset, data) in enumerate(self._raw(start, self.size if end is None else end), 1):
            if data is not None:
                try:  # nearly every line is one that we know: a long session has a hundred thousand
                    line = decode_line(data)
                except Unreadable:
                    pass
                else:
                    if line.v == VERSION or line.type != "mainspring":
                        yield offset, line
                        continue
            where = f"line {number}" if start == 0 else f"line {number} after byte {start:,}"
            if data is None:
                self.warn(f"{where}: longer than {LONGEST_LINE:,} bytes, skipped")
            else:
                for place, line in self._lines_in(data, where):
                    yield offset + place, line

    def line_at(self, offset: int) -> JournalLine | None:
        """The line that begins here, if one does."""
        if (known := self._several.get(offset)) is not None:
            return known
        begin = offset if self._follows_newline(offset) else self._start_of(offset)
        _, data = next(self._raw(begin, self.size, LINE), (0, None))
        found = self._lines_in(data, f"the line at byte {begin:,}") if data is not None else []
        lines = {begin + place: line for place, line in found}
        if len(lines) > 1:
            self._several = lines
        return lines.get(offset)

    def is_start(self, offset: int) -> bool:
        return self._follows_newline(offset) or (0 < offset < self.size and self.line_at(offset) is not None)

    def _follows_newline(self, offset: int) -> bool:
        return offset == 0 or (offset > 0 and os.pread(self.fd, 1, offset - 1) == b"\n")

    def _start_of(self, offset: int) -> int:
        """The start of the line that contains this byte."""
        stop = max(0, offset)
        while stop > 0:
            begin = max(0, stop - CHUNK)
            newline = os.pread(self.fd, stop - begin, begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            stop = begin
        return 0

    def _lines_in(self, data: bytes, where: str) -> list[tuple[int, JournalLine]]:
        """Usually one. Several, with their positions, if a program forgot a newline."""
        clean = data.removeprefix(_BOM).strip(_BLANK)
        if not clean:
            if b"\0" in data:
                self.warn(f"{where}: nothing but zeros, skipped")
            return []
        try:
            return self._known(0, parse_journal_line(clean), where)
        except Unreadable as error:
            why = f"{where}: {type(error).__name__}: {str(error)[:200]}, skipped"
        ends = _objects_in(data)
        if len(ends) == 1 and not data[ends[0] :].strip(_BLANK):  # one object, which is no known line
            self.warn(why)
            return []
        found, begin = list[tuple[int, JournalLine]](), 0
        for end in ends:
            found += self._one_of(data[begin:end], begin, where)
            begin = end
        if rest := data[begin:].strip(_BLANK):
            self.warn(why)
            found += [(begin + place, line) for place, line in self._glued(rest)]
        return found

    def _one_of(self, data: bytes, begin: int, where: str) -> list[tuple[int, JournalLine]]:
        try:
            return self._known(begin, parse_journal_line(data.removeprefix(_BOM).strip(_BLANK)), where)
        except Unreadable as error:
            self.warn(f"{where}: {type(error).__name__}: {str(error)[:200]}, skipped")
            return []

    def _known(self, begin: int, line: JournalLine, where: str) -> list[tuple[int, JournalLine]]:
        if line.type == "mainspring" and line.v != VERSION:
            self.warn(f"{where}: unknown version {line.v}, skipped")
            return []
        return [(begin, line)]

    def _glued(self, data: bytes) -> list[tuple[int, JournalLine]]:
        """What a client has appended to a line that a crash had torn: messages, a title or a tag. Within a string there
        is no bare quote, so text that begins like a line and is complete up to the end is one, unless it could be a
        value within the torn line: the model chooses that text."""
        for found in [*_MESSAGE.finditer(data, 1)][:MOST_GLUED]:
            begin = found.start()
            if data[max(0, begin - 64) : begin].rstrip().endswith(_BEFORE_A_VALUE):
                continue
            if messages := _messages_in(data[begin:]):
                return [(begin + place if place else 0, message) for place, message in messages]
        begin = data.rfind(_START)
        try:
            line = parse_journal_line(data[begin:]) if begin > 0 else None
        except Unreadable:
            return []
        return [(0, line)] if line is not None and line.type in _GLUED else []

    def _raw(self, start: int, end: int, window: int = CHUNK) -> Iterator[tuple[int, bytes | None]]:
        """None for a line that is too long: it is skipped without being stored."""
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

    # --- files beside the session ---

    def payload(self, name: str) -> bytes | None:
        """Content that was too large for a line; None, with a warning, if it is missing or has changed."""
        if not name:
            return None
        path = Path(payload_file(self.file, name))
        try:
            data = path.read_bytes() if name.isalnum() else b""
        except OSError as error:
            self.warn(f"payload '{name}': {error.strerror}; only its beginning is used")
            return None
        if sha256(data).hexdigest() != name:
            self.warn(f"payload '{name}': it was changed; only its beginning is used")
            return None
        return data


def _objects_in(data: bytes) -> list[int]:
    """The end of each complete JSON object, as they follow each other from the beginning."""
    text, ends, place, size = data.decode(errors="surrogateescape"), list[int](), 0, 0
    decode = JSONDecoder().raw_decode
    while True:
        found = _OBJECT.match(text, place)
        try:
            _, end = decode(text, found.end() - 1) if found else (None, 0)
        except (ValueError, RecursionError):
            end = 0
        if not end:
            return ends
        size += len(text[place:end].encode(errors="surrogateescape"))
        ends.append(size)
        place = end


def _messages_in(data: bytes) -> list[tuple[int, JournalLine]]:
    """Messages that follow each other up to the end, with their positions; empty: it is something else."""
    found, begin = list[tuple[int, JournalLine]](), 0
    for end in _objects_in(data):
        try:
            line = parse_journal_line(data[begin:end].strip(_BLANK))
        except Unreadable:
            return []
        if not line.uuid or line.type not in _MESSAGES:
            return []
        found.append((begin, line))
        begin = end
    return found if not data[begin:].strip(_BLANK) else []
