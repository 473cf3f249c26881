"""Where the lines of a big file are: how many end before the end of each block, as far as anybody had to know.

Threads that want to know more share the work: each takes the next piece that nobody has, and what they bring is put
together in order. One that gives up gives its piece back.
"""

import os
import time
from array import array
from collections.abc import Generator
from contextlib import contextmanager
from threading import Condition, Thread

from mainspring.tools.aside import Halt
from mainspring.tools.line_ends import Ends, Source, native_count

BLOCK = 1 << 18  # bytes; counts as fast as any larger one; 64 KB takes half as long again in Python
PIECE = 4  # blocks; what a thread takes at a time
AHEAD = 8  # pieces; how far one may go on while another is late with its own, so how far too far
MOST_KEPT = 16  # indexes
SETTLED = 1_000_000_000  # nanoseconds; a file that changed just now may change again without another time on it
ALONE = 1 << 23  # bytes; who has no more to count than this is done before a second thread would help
_NARROW = 1 << 10
_LOOK = 0.05  # seconds; how soon one that waits for others sees that it is to end


class Index:
    def __init__(self, block: int = BLOCK) -> None:
        self.block = block
        self.ends = array("Q")
        self.whole = False
        self._changed = Condition()
        self._taken = 0  # pieces, from the first on
        self._returned: list[int] = []
        self._early: dict[int, Ends] = {}  # pieces that wait for one before them

    # --- counting ---------------------------------------------------------------------------------------------------

    def count_until(self, source: Source, ends: int | None, halt: Halt) -> None:
        """Until so many line ends are behind, or to the end of the file. Others may do the same meanwhile."""
        while (piece := self._take(source, ends, halt)) is not None:
            self._count(source, piece)

    def count_at_once(self, source: Source, ends: int | None, halt: Halt) -> None:
        """The same, for somebody who waits: on two processors, if there is much to count."""
        piece = self._take(source, ends, halt)
        if piece is None:
            return
        self._count(source, piece)  # often enough
        known = ends is not None and self._reached(ends)
        if known or source.size - len(self.ends) * self.block <= ALONE or native_count() is None:
            self.count_until(source, ends, halt)
            return
        second = Thread(target=self._help, args=(source, ends, halt), name="count-lines-too", daemon=True)
        try:
            second.start()
        except RuntimeError:  # there are no more threads to be had
            self.count_until(source, ends, halt)
            return
        try:
            self.count_until(source, ends, halt)
        finally:
            second.join()  # at most one piece; it uses the caller's descriptor

    def _count(self, source: Source, piece: int) -> None:
        found: Ends | None = None
        try:
            found = source.ends(piece * PIECE * self.block, PIECE, self.block)
        finally:
            self._bring(piece, found)

    def _help(self, source: Source, ends: int | None, halt: Halt) -> None:
        try:
            self.count_until(source, ends, halt)
        except Exception:  # noqa: BLE001  # the caller meets the same at the piece that is given back, and tells of it
            return

    def _take(self, source: Source, ends: int | None, halt: Halt) -> int | None:
        """The number of a piece that is to be counted; None: there is nothing left to do."""
        with self._changed:
            while not self.whole and (ends is None or not self._reached(ends)):
                halt.check()
                if self._returned:
                    return self._returned.pop()
                more = self._taken * PIECE * self.block <= source.size  # a piece that holds nothing tells of the end
                if more and self._taken - self._pieces < AHEAD:
                    self._taken += 1
                    return self._taken - 1
                self._changed.wait(_LOOK)  # for what others have taken
            return None

    def _bring(self, piece: int, found: Ends | None) -> None:
        with self._changed:
            if found is None:
                self._returned.append(piece)
            else:
                self._early[piece] = found
            while not self.whole and (next_one := self._early.pop(self._pieces, None)) is not None:
                self._append(next_one)
            self._changed.notify_all()

    @property
    def _pieces(self) -> int:
        """Complete ones."""
        return len(self.ends) // PIECE

    def _append(self, found: Ends) -> None:
        behind = self.ends[-1] if self.ends else 0
        for count in found.counts:
            behind += count
            self.ends.append(behind)
        self.whole = found.size < PIECE * self.block

    def _reached(self, ends: int) -> bool:
        return bool(self.ends) and self.ends[-1] >= ends

    # --- what is known ----------------------------------------------------------------------------------------------

    def total(self, source: Source) -> int:
        ends = self.ends[-1] if self.ends else 0
        return ends + (source.size > 0 and source.at(source.size - 1, 1) != b"\n")

    def about(self, source: Source) -> int:
        """How many lines there are, if the rest is like what was counted; at least as many as were."""
        seen = min(len(self.ends) * self.block, source.size)
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
        start = block * self.block
        found = start + _nth(source.at(start, self.block), line - before) + 1
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
