"""Where the lines of a big file are: how many end before the end of each block, as far as anybody had to know.

Threads that want to know more share the work: each takes the next piece that nobody has, and what they bring is put
together in order. One that gives up gives its piece back.
"""

import os
import time
from _thread import start_new_thread
from array import array
from collections.abc import Generator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import NamedTuple

from mainspring.tools.aside import HaltSignal
from mainspring.tools.line_ends import ByteSource, LineEnds, native_count

BLOCK = 1 << 18  # bytes; counts as fast as any larger one; 64 KB takes half as long again in Python,
NATIVE_BLOCK = 1 << 16  # and no longer in native code; where a line begins in its block is found sooner
PIECE = 8  # blocks; what a thread takes at a time
MOST = 1 << 9  # blocks, for somebody who waits: two threads share what there seems to be to count
FAR = 10_000  # lines; who wants to know of one behind them has more to count than one piece
AHEAD = 8  # pieces; how far one may go on beyond what seems to be wanted, while another is late with its own
MOST_KEPT = 16  # indexes
SETTLED = 1_000_000_000  # nanoseconds; a file that changed just now may change again without another time on it
ALONE = 1 << 23  # bytes; who has no more to count than this is done before a second thread would help
_NARROW = 1 << 10
_LOOK = 0.05  # seconds; how soon one that waits for others sees that it is to end


class LineIndexChunk(NamedTuple):
    first: int  # block
    blocks: int


class LineIndex:
    def __init__(self, block: int = 0) -> None:
        self.block = block or (BLOCK if native_count() is None else NATIVE_BLOCK)
        self.ends = array("Q")
        self.whole = False
        self._changed = Condition()
        self._taken = 0  # blocks, from the first on
        self._workers = 0  # threads that count
        self._returned: list[LineIndexChunk] = []
        self._early: dict[int, LineEnds] = {}  # pieces that wait for one before them, by their first block

    # --- counting ---------------------------------------------------------------------------------------------------

    def count_until(self, source: ByteSource, ends: int | None, halt: HaltSignal, most: int = 4 * PIECE) -> None:
        """Until so many line ends are behind, or to the end of the file. Others may do the same meanwhile. `most`:
        blocks in one piece, for which others may have to wait."""
        self._come(1)
        self._work(source, ends, halt, most)

    def _come(self, workers: int) -> None:
        with self._changed:
            self._workers += workers

    def _work(self, source: ByteSource, ends: int | None, halt: HaltSignal, most: int) -> None:
        try:
            while (piece := self._take(source, ends, halt, most)) is not None:
                self._count(source, piece)
        finally:
            self._come(-1)

    def count_at_once(self, source: ByteSource, ends: int | None, halt: HaltSignal) -> None:
        """The same, for somebody who waits: on two processors, if there is much to count."""
        near = self.whole or (ends is not None and (ends <= FAR or self._reached(ends)))
        if near or source.size - len(self.ends) * self.block <= ALONE or native_count() is None:
            self.count_until(source, ends, halt)
            return
        busy = Lock()
        busy.acquire()
        self._come(2)  # both, from the beginning: the first must not take the share of the second
        try:
            start_new_thread(self._help, (source, ends, halt, busy))  # `Thread` would wait until it runs
        except RuntimeError:  # there are no more threads to be had
            self._come(-1)
            self._work(source, ends, halt, MOST)
            return
        try:
            self._work(source, ends, halt, MOST)
        finally:
            busy.acquire()  # at most one piece; it uses the caller's descriptor

    def _help(self, source: ByteSource, ends: int | None, halt: HaltSignal, busy: Lock) -> None:
        try:
            self._work(source, ends, halt, MOST)
        except Exception:  # noqa: BLE001  # the caller meets the same at the piece that is given back, and tells of it
            return
        finally:
            busy.release()

    def _count(self, source: ByteSource, piece: LineIndexChunk) -> None:
        found: LineEnds | None = None
        try:
            found = source.ends(piece.first * self.block, piece.blocks, self.block)
        finally:
            self._bring(piece, found)

    def _take(self, source: ByteSource, ends: int | None, halt: HaltSignal, most: int) -> LineIndexChunk | None:
        """One that is to be counted; None: there is nothing left to do."""
        with self._changed:
            while not self.whole and (ends is None or not self._reached(ends)):
                halt.check()
                piece = self._returned.pop() if self._returned else self._next(source, ends, most)
                if piece is not None:
                    return piece
                self._changed.wait(_LOOK)  # for what others have taken
            return None

    def _next(self, source: ByteSource, ends: int | None, most: int) -> LineIndexChunk | None:
        """A fair share of what there seems to be to count. None: others have all of that, and some more."""
        last = source.size // self.block  # one that holds nothing tells of the end
        if self._taken > last:
            return None
        target = last + 1 if ends is None else self._guess(ends)
        if self._taken >= max(target, len(self.ends)) + AHEAD * PIECE:
            return None
        share = (target - self._taken) // self._workers
        piece = LineIndexChunk(self._taken, min(max(PIECE, min(share, most)), last + 1 - self._taken))
        self._taken += piece.blocks
        return piece

    def _guess(self, ends: int) -> int:
        """How many blocks have so many line ends, if all are like those that were counted: rather less."""
        behind = self.ends[-1] if self.ends else 0
        return ends * len(self.ends) // behind * 31 // 32 if behind else 0

    def _bring(self, piece: LineIndexChunk, found: LineEnds | None) -> None:
        with self._changed:
            if found is None:
                self._returned.append(piece)
            else:
                self._early[piece.first] = found
            while not self.whole and (next_one := self._early.pop(len(self.ends), None)) is not None:
                self._append(next_one)
            self._changed.notify_all()

    def _append(self, found: LineEnds) -> None:
        behind = self.ends[-1] if self.ends else 0
        for count in found.counts:
            behind += count
            self.ends.append(behind)
        self.whole = found.size < found.blocks * self.block

    def _reached(self, ends: int) -> bool:
        return bool(self.ends) and self.ends[-1] >= ends

    # --- what is known ----------------------------------------------------------------------------------------------

    def total(self, source: ByteSource) -> int:
        ends = self.ends[-1] if self.ends else 0
        return ends + (source.size > 0 and source.at(source.size - 1, 1) != b"\n")

    def about(self, source: ByteSource) -> int:
        """How many lines there are, if the rest is like what was counted; at least as many as were."""
        seen = min(len(self.ends) * self.block, source.size)
        return self.ends[-1] * source.size // seen + 1 if seen else 0

    def start_of(self, source: ByteSource, line: int) -> int | None:
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


_kept: dict[tuple[int, ...], LineIndex] = {}


@contextmanager
def index_of(fd: int) -> Generator[LineIndex]:
    """The one that was made before, as long as the file is the same."""
    key = _key(fd)
    if time.time_ns() - key[-1] <= SETTLED:
        yield LineIndex()
        return
    index = _kept.pop(key, None) or LineIndex()
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
