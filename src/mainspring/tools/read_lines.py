"""Read some lines of a file of any size, without reading it whole.

`LineIndex` counts line ends block by block and keeps the counts: the first read of a big file counts as far as it must,
later ones go straight to the block. A line ends at a line feed and nowhere else. Threads that need more counts share
the work: each takes the next free piece, and the index joins the results in order. A thread that gives up returns its
piece.

`bytes.count` is the fastest that Python has: 50 MB take 15 ms, on top of the 7 that it takes to read them. So there is
a little native code for this (`_newlines.c`), which takes none on top and lets other threads run, so that two share the
work. It is built where a package is built and there is a compiler; without it, lines are counted in Python.

`count_ahead` counts the rest in the background, because the middle of a file is usually read after its beginning, or
after a search in it. The thread is a daemon: a process that ends does not wait for it. It ends by itself after
`SECONDS`, at the end of the file, or when its session is gone. Between two blocks it lets other threads run, so none
waits longer than one block takes (a quarter of a millisecond, and not at all where the count is native).
"""

from __future__ import annotations

import os
import time
import weakref
from _thread import start_new_thread
from array import array
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from threading import Condition, Lock, Thread
from typing import NamedTuple, Protocol

from mainspring.core.errors import ToolError
from mainspring.tools.base import Workspace
from mainspring.tools.files import HaltSignal


class LineEnds(NamedTuple):
    """The line ends in consecutive blocks."""

    counts: Sequence[int]
    size: int  # bytes,
    blocks: int  # and how many blocks were requested; if there are fewer, the file ends there


class ByteSource(Protocol):
    size: int

    def at(self, start: int, length: int) -> bytes: ...

    def ends(self, start: int, blocks: int, block: int) -> LineEnds: ...


class MemoryBytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def at(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]

    def ends(self, start: int, blocks: int, block: int) -> LineEnds:
        return counted_in_python(self, start, blocks, block)


class DescriptorBytes:
    """An open file. `skip` is the length of a mark at its beginning; data that is appended meanwhile is ignored."""

    def __init__(self, fd: int, skip: int = 0) -> None:
        self.fd, self.skip = fd, skip
        self.size = os.fstat(fd).st_size - skip

    def at(self, start: int, length: int) -> bytes:
        return os.pread(self.fd, max(0, min(length, self.size - start)), self.skip + start)

    def ends(self, start: int, blocks: int, block: int) -> LineEnds:
        count = native_count()
        full = min(blocks, (self.size - start) // block) if count is not None else 0
        if count is None or full < 1:
            return counted_in_python(self, start, blocks, block)
        data, size = count(self.fd, self.skip + start, full, block)
        counts = array("Q", data)
        if full < blocks and size == full * block:  # the last block may have grown; `at` cuts it
            rest = counted_in_python(self, start + size, blocks - full, block)
            counts.extend(rest.counts)
            size += rest.size
        return LineEnds(counts, size, blocks)


def counted_in_python(source: ByteSource, start: int, blocks: int, block: int) -> LineEnds:
    counts: list[int] = []
    size = 0
    while len(counts) < blocks and (data := source.at(start + size, block)):
        counts.append(data.count(b"\n"))
        size += len(data)
        if len(data) < block:
            break
    return LineEnds(counts, size, blocks)


def native_count() -> Callable[[int, int, int, int], tuple[bytes, int]] | None:
    try:
        from mainspring.tools import _newlines  # most files are small
    except ImportError:
        return None
    return _newlines.count


BLOCK = 1 << 18  # bytes; counts as fast as any larger one; 64 KB takes half as long again in Python,
NATIVE_BLOCK = 1 << 16  # and no longer in native code; where a line begins in its block is found sooner
PIECE = 8  # blocks; what a thread takes at a time
MOST = 1 << 9  # blocks, for a caller that waits: two threads share the estimated work
FAR = 10_000  # lines; a line further on needs more than one piece
AHEAD = 8  # pieces; how far one thread may run beyond the estimate while another is late
MOST_KEPT = 16  # indexes
SETTLED = 1_000_000_000  # nanoseconds; a file that changed just now may change again with the same timestamp
ALONE = 1 << 23  # bytes; a smaller count is done before a second thread would help
_NARROW = 1 << 10
_LOOK = 0.05  # seconds; how often a waiting thread checks whether it must end


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
        self._early: dict[int, LineEnds] = {}  # pieces that wait for an earlier one, by their first block

    # --- counting ---------------------------------------------------------------------------------------------------

    def count_until(self, source: ByteSource, ends: int | None, halt: HaltSignal, most: int = 4 * PIECE) -> None:
        """Count until `ends` line ends are known, or to the end of the file. Other threads may do the same. `most`:
        blocks in one piece, which others may have to wait for."""
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
        """The same for a caller that waits: on two processors, if there is much to count."""
        near = self.whole or (ends is not None and (ends <= FAR or self._reached(ends)))
        if near or source.size - len(self.ends) * self.block <= ALONE or native_count() is None:
            self.count_until(source, ends, halt)
            return
        busy = Lock()
        busy.acquire()
        self._come(2)  # both from the start: the first must not take the share of the second
        try:
            start_new_thread(self._help, (source, ends, halt, busy))  # `Thread` would wait until it runs
        except RuntimeError:  # no more threads available
            self._come(-1)
            self._work(source, ends, halt, MOST)
            return
        try:
            self._work(source, ends, halt, MOST)
        finally:
            busy.acquire()  # takes one piece at most; the thread uses the caller's descriptor

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
        """The next piece to count; None: nothing is left to do."""
        with self._changed:
            while not self.whole and (ends is None or not self._reached(ends)):
                halt.check()
                piece = self._returned.pop() if self._returned else self._next(source, ends, most)
                if piece is not None:
                    return piece
                self._changed.wait(_LOOK)  # for the pieces of other threads
            return None

    def _next(self, source: ByteSource, ends: int | None, most: int) -> LineIndexChunk | None:
        """A fair share of the estimated rest. None: other threads have all of it, and some more."""
        last = source.size // self.block  # an empty last block marks the end
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
        """Estimate, rather low, how many blocks contain this many line ends, if all are like the counted ones."""
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
        """Estimate how many lines there are, if the rest is like the counted part; at least as many as were counted."""
        seen = min(len(self.ends) * self.block, source.size)
        return self.ends[-1] * source.size // seen + 1 if seen else 0

    def start_of(self, source: ByteSource, line: int) -> int | None:
        """The offset of a line, counted from 0; None: there are fewer lines."""
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
    """The position of the line feed with this number, counted from 1. It must exist."""
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
    """The existing index, as long as the file is unchanged."""
    key = _key(fd)
    if time.time_ns() - key[-1] <= SETTLED:
        yield LineIndex()
        return
    index = _kept.pop(key, None) or LineIndex()
    _kept[key] = index  # as the newest, and at once: other threads may continue it
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


COUNTED = 1 << 24  # bytes: 3 ms, 12 without native code; a larger file is counted only as far as needed
_STEP = 1 << 16


class FileLine(NamedTuple):
    data: bytes  # its beginning, if it is long
    size: int

    @property
    def cut(self) -> bool:
        return len(self.data) < self.size


class LineRequest(NamedTuple):
    first: int  # counted from 0
    limit: int  # lines
    longest: int  # bytes of a line that are kept
    most: int  # bytes in all, about


class LineWindow(NamedTuple):
    lines: list[FileLine]
    total: int | None  # of the file; None: not counted
    more: bool  # lines follow
    about: int = 0  # the estimated number of lines, where they are not counted


def read_line_window(source: ByteSource, index: LineIndex, wanted: LineRequest, halt: HaltSignal) -> LineWindow:
    index.count_at_once(source, None if source.size <= COUNTED else wanted.first, halt)
    total = index.total(source) if index.whole else None
    about = 0 if index.whole else index.about(source)
    start = index.start_of(source, wanted.first)
    if start is None:
        return LineWindow([], total, more=False)
    lines, end = _take(source, start, wanted, halt)
    if total is None and end >= source.size:
        total = wanted.first + len(lines)
    return LineWindow(lines, total, more=end < source.size, about=about)


def _take(source: ByteSource, start: int, wanted: LineRequest, halt: HaltSignal) -> tuple[list[FileLine], int]:
    """The lines, and the offset of the next one."""
    lines: list[FileLine] = []
    longest, room = wanted.longest, wanted.most
    begun, size = b"", 0  # of a line that continues in the next piece
    while len(lines) < wanted.limit and room > 0:
        halt.check()
        piece = source.at(start, _STEP)
        if not piece:
            if size:
                lines.append(FileLine(begun, size))
            break
        at = 0
        while len(lines) < wanted.limit and room > 0 and (end := piece.find(b"\n", at)) >= 0:
            kept = begun + piece[at : min(end, at + longest - len(begun))]
            lines.append(FileLine(kept, size + end - at))
            room -= len(kept) + 1
            begun, size, at = b"", 0, end + 1
        if at < len(piece) and len(lines) < wanted.limit and room > 0:
            begun += piece[at : at + longest - len(begun)]
            size += len(piece) - at
            at = len(piece)
        start += at
    return lines, start


LARGEST = 1 << 29  # bytes: half a second of one processor; more would be wasted if no read follows
MOST_AT_ONCE = 2  # threads; further files are counted when they are read
SECONDS = 20

_under_way: set[LineIndex] = set()
_lock = Lock()


def count_ahead(source: DescriptorBytes, place: Workspace) -> Thread | None:
    """Start to count the lines of a file, unless they are counted or it would not pay. Never fails: it is only an
    optimization."""
    if not COUNTED < source.size <= LARGEST:
        return None
    with index_of(source.fd) as index, _lock:
        if index.whole or index in _under_way or len(_under_way) >= MOST_AT_ONCE:
            return None
        _under_way.add(index)
    try:
        return _begun(source, index, place)
    except (OSError, RuntimeError):  # no more descriptors or threads available
        _done(index)
        return None


def _begun(source: DescriptorBytes, index: LineIndex, place: Workspace) -> Thread:
    own = os.dup(source.fd)  # the caller closes the other one
    halt = HaltSignal(SECONDS)
    gone = weakref.finalize(place, halt.now)  # the thread itself must not keep the session alive
    thread = Thread(target=_count, args=(own, source.skip, index, halt, gone), name="count-lines", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        gone.detach()
        os.close(own)
        raise
    return thread


def _count(fd: int, skip: int, index: LineIndex, halt: HaltSignal, gone: weakref.finalize[..., Workspace]) -> None:
    try:
        with suppress(ToolError, OSError), index_of(fd) as current:
            if current is index:  # otherwise the file has changed, or is too new for its timestamp to show a change
                index.count_until(DescriptorBytes(fd, skip), None, halt)
    finally:
        os.close(fd)
        gone.detach()
        _done(index)


def _done(index: LineIndex) -> None:
    with _lock:
        _under_way.discard(index)
