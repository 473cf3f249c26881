"""Some lines of a file of any size, without reading it whole.

Lines are counted in blocks, and how many end in each block is kept: a look at a big file counts as far as it must, the
next ones go straight to the block. What was not counted yet is counted meanwhile (`counting.py`). A line ends at a line
feed and nowhere else.

`bytes.count` is the fastest that Python has, and far from the 5 ms that we would like for the middle of 100 MB that
nobody has counted yet: 50 MB take 6 to 12 ms to be read, and 15 at least to be counted (0.3 ns a byte in cache, Python
3.11 to 3.13). A copy out of `mmap` is no faster, two threads gain a third, and what two `wc -l` gain is not enough
(`docs/decisions/0014-hands.md`).
"""

import os
import time
from array import array
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple, Protocol

from mainspring.tools.aside import Halt

BLOCK = 1 << 18  # counts as fast as any larger one; 64 KB takes half as long again
COUNTED = 1 << 24  # bytes: 12 ms; a larger file is counted only as far as it must be
MOST_KEPT = 16  # indexes
SETTLED = 1_000_000_000  # nanoseconds; a file that changed just now may change again without another time on it
_STEP = 1 << 16
_NARROW = 1 << 10


class Source(Protocol):
    size: int

    def at(self, start: int, length: int) -> bytes: ...


class Memory:
    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def at(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]


class Descriptor:
    """A file that is open. `skip` is for a mark at its beginning; what is appended meanwhile is not looked at."""

    def __init__(self, fd: int, skip: int = 0) -> None:
        self.fd, self.skip = fd, skip
        self.size = os.fstat(fd).st_size - skip

    def at(self, start: int, length: int) -> bytes:
        return os.pread(self.fd, max(0, min(length, self.size - start)), self.skip + start)


class Line(NamedTuple):
    data: bytes  # its beginning, if it is long
    size: int

    @property
    def cut(self) -> bool:
        return len(self.data) < self.size


class Wanted(NamedTuple):
    first: int  # counted from 0
    limit: int  # lines
    longest: int  # bytes of a line that are kept
    most: int  # bytes in all, about


class Window(NamedTuple):
    lines: list[Line]
    total: int | None  # of the file; None: nobody counted
    more: bool  # lines follow
    about: int = 0  # how many lines there may be, where nobody counted


class Index:
    """How many lines end before the end of each block. Threads may count on at the same time."""

    def __init__(self) -> None:
        self.ends = array("Q")
        self.whole = False
        self._lock = Lock()

    def count_until(self, source: Source, ends: int | None, halt: Halt) -> None:
        """Until so many line ends are behind, or to the end of the file."""
        while not self.whole and (ends is None or not self.ends or self.ends[-1] < ends):
            halt.check()
            with self._lock:
                self._count_block(source)

    def _count_block(self, source: Source) -> None:
        if self.whole:
            return  # by another thread, meanwhile
        block = source.at(len(self.ends) * BLOCK, BLOCK)
        if block:
            self.ends.append((self.ends[-1] if self.ends else 0) + block.count(b"\n"))
        self.whole = len(block) < BLOCK

    def total(self, source: Source) -> int:
        ends = self.ends[-1] if self.ends else 0
        return ends + (source.size > 0 and source.at(source.size - 1, 1) != b"\n")

    def about(self, source: Source) -> int:
        """How many lines there are, if the rest is like what was counted; at least as many as were."""
        seen = min(len(self.ends) * BLOCK, source.size)
        return self.ends[-1] * source.size // seen + 1 if seen else 0

    def start_of(self, source: Source, line: int) -> int | None:
        """Where a line begins, counted from 0; None: there are not so many."""
        if line == 0:
            return 0
        from bisect import bisect_left  # most files are read from their beginning

        block = bisect_left(self.ends, line)
        if block == len(self.ends):
            return None
        before = self.ends[block - 1] if block else 0
        start = block * BLOCK
        found = start + _nth(source.at(start, BLOCK), line - before) + 1
        return found if found < source.size else None


def _nth(data: bytes, count: int) -> int:
    """Where the line feed with this number is, counted from 1. It is there."""
    start, end = 0, len(data)
    while end - start > _NARROW:
        middle = (start + end) // 2
        here = data.count(b"\n", start, middle)
        if here >= count:
            end = middle
        else:
            start, count = middle, count - here
    for _ in range(count):
        start = data.index(b"\n", start) + 1
    return start - 1


_kept: dict[tuple[int, ...], Index] = {}


@contextmanager
def index_of(fd: int) -> Generator[Index]:
    """The one that was made before, as long as the file is the same."""
    key = _key(fd)
    if time.time_ns() - key[-1] <= SETTLED:
        yield Index()
        return
    index = _kept.pop(key, None) or Index()
    _kept[key] = index  # as the newest, and at once: others may count on
    while len(_kept) > MOST_KEPT:
        _kept.pop(next(iter(_kept)), None)  # threads may do so at the same time
    try:
        yield index
    finally:
        if _key(fd) != key:
            _kept.pop(key, None)


def _key(fd: int) -> tuple[int, ...]:
    found = os.fstat(fd)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def window(source: Source, index: Index, wanted: Wanted, halt: Halt) -> Window:
    index.count_until(source, None if source.size <= COUNTED else wanted.first, halt)
    total = index.total(source) if index.whole else None
    about = 0 if index.whole else index.about(source)
    start = index.start_of(source, wanted.first)
    if start is None:
        return Window([], total, more=False)
    lines, end = _take(source, start, wanted, halt)
    if total is None and end >= source.size:
        total = wanted.first + len(lines)
    return Window(lines, total, more=end < source.size, about=about)


def _take(source: Source, start: int, wanted: Wanted, halt: Halt) -> tuple[list[Line], int]:
    """The lines, and where the next one begins."""
    lines: list[Line] = []
    longest, room = wanted.longest, wanted.most
    begun, size = b"", 0  # of a line that goes on in the next piece
    while len(lines) < wanted.limit and room > 0:
        halt.check()
        piece = source.at(start, _STEP)
        if not piece:
            if size:
                lines.append(Line(begun, size))
            break
        at = 0
        while len(lines) < wanted.limit and room > 0 and (end := piece.find(b"\n", at)) >= 0:
            kept = begun + piece[at : min(end, at + longest - len(begun))]
            lines.append(Line(kept, size + end - at))
            room -= len(kept) + 1
            begun, size, at = b"", 0, end + 1
        if at < len(piece) and len(lines) < wanted.limit and room > 0:
            begun += piece[at : at + longest - len(begun)]
            size += len(piece) - at
            at = len(piece)
        start += at
    return lines, start
