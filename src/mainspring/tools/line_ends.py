"""How many lines end in each block of a file.

`bytes.count` is the fastest that Python has: 50 MB take 15 ms, on top of the 7 that it takes to read them. So there is
a little native code for this (`_newlines.c`), which takes none on top and lets other threads run, so that two share
the work. It is built where a package is built and there is a compiler; without it, lines are counted in Python.
"""

import os
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class LineEnds(NamedTuple):
    """Of blocks that follow each other."""

    counts: Sequence[int]
    size: int  # bytes,
    blocks: int  # and how many blocks were wanted; if there is less, the file ends there


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
    """A file that is open. `skip` is for a mark at its beginning; what is appended meanwhile is not looked at."""

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
        if full < blocks and size == full * block:  # the last block may have grown, and is cut by `at`
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
