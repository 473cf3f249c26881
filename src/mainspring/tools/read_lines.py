"""Some lines of a file of any size, without reading it whole.

Lines are counted in blocks, and how many end in each block is kept (`line_index.py`): a look at a big file counts as
far as it must, the next ones go straight to the block. What was not counted yet is counted meanwhile (`counting.py`).
A line ends at a line feed and nowhere else.
"""

from typing import NamedTuple

from mainspring.tools.aside import HaltSignal
from mainspring.tools.line_ends import ByteSource
from mainspring.tools.line_index import LineIndex

COUNTED = 1 << 24  # bytes: 3 ms, 12 without native code; a larger file is counted only as far as it must be
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
    total: int | None  # of the file; None: nobody counted
    more: bool  # lines follow
    about: int = 0  # how many lines there may be, where nobody counted


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
    """The lines, and where the next one begins."""
    lines: list[FileLine] = []
    longest, room = wanted.longest, wanted.most
    begun, size = b"", 0  # of a line that goes on in the next piece
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
