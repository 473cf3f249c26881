"""Reading a text file that somebody else may have put there: bounded, no link followed, nothing that blocks."""

from __future__ import annotations

import os
import time

from msgspec.structs import replace

from mainspring.core.value import Bundle
from mainspring.processes.paths import PathRefused, Resolved

LARGEST = 256 * 1024  # bytes that are read of a file, whatever its size
TICK = 100_000_000  # nanoseconds; file systems keep times in steps, of 4 ms or more


class FileStamp(Bundle):
    """By which a file is known to be unchanged, without reading it."""

    inode: int
    size: int
    time: int


class FileText(Bundle):
    text: str
    size: int  # of the whole file, in bytes
    cut: bool  # there is more of it
    mark: FileStamp
    owner: int = -1  # of what was opened


def read_text(path: Resolved, most: int = LARGEST) -> FileText:
    """The beginning of a file. What is no UTF-8 is replaced; raises `PathRefused` and `OSError`."""
    from mainspring.processes.safe_open import open_read  # where there is no such file, nobody pays for it

    fd = open_read(path)
    try:
        found = os.fstat(fd)
        data = _read(fd, most)
    finally:
        os.close(fd)
    if b"\0" in data:
        raise PathRefused(f"'{path.real}' is no text: it holds NUL bytes")
    cut = len(data) == most and found.st_size > most
    whole = data[: _whole(data)] if cut else data
    text = whole.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").replace("\r\n", "\n")
    return FileText(text, found.st_size, cut, settle_stamp(mark_of(found)), found.st_uid)


def mark_of(found: os.stat_result) -> FileStamp:
    return FileStamp(found.st_ino, found.st_size, found.st_mtime_ns)


def settle_stamp(mark: FileStamp) -> FileStamp:
    """For keeping. A file that was written just now may be written again without its time moving on: such a mark is
    like no other, so the file is read once more."""
    return replace(mark, time=-1) if time.time_ns() - mark.time < TICK else mark


def stat_file(real: str) -> FileStamp | None:
    """None: it is gone, or cannot be looked at."""
    try:
        return mark_of(os.lstat(real))
    except OSError:
        return None


def _read(fd: int, most: int) -> bytes:
    pieces: list[bytes] = []
    left = most
    while left and (piece := os.read(fd, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _whole(data: bytes) -> int:
    """Where the last whole character ends."""
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead < 0x80:
            return len(data)
        if lead >= 0xC0:
            width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return len(data) if width <= back else len(data) - back
    return len(data)
