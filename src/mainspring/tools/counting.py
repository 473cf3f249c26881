"""Counting the lines of a big file while nobody waits: the middle of a file is read after its beginning, or after a
search in it.

The thread is a daemon: a process that ends does not wait for it. It ends by itself after `SECONDS`, at the end of the
file, or when the session that wanted it is gone. Between two blocks it lets others run, so nobody waits for it longer
than for the count of one (a quarter of a millisecond, and not at all where the count is native).
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from threading import Lock, Thread

from mainspring.core.errors import ToolError
from mainspring.tools.aside import HaltSignal
from mainspring.tools.base import Workspace
from mainspring.tools.line_ends import DescriptorBytes
from mainspring.tools.line_index import LineIndex, index_of
from mainspring.tools.read_lines import COUNTED

LARGEST = 1 << 29  # bytes: half a second of one processor; more would be too much for what nobody may ask for
MOST_AT_ONCE = 2  # threads; a file that finds no place is counted when it is read
SECONDS = 20

_under_way: set[LineIndex] = set()
_lock = Lock()


def count_ahead(source: DescriptorBytes, place: Workspace) -> Thread | None:
    """Begin to count the lines of a file, unless they are counted or it would not pay. Never fails: it only helps."""
    if not COUNTED < source.size <= LARGEST:
        return None
    with index_of(source.fd) as index, _lock:
        if index.whole or index in _under_way or len(_under_way) >= MOST_AT_ONCE:
            return None
        _under_way.add(index)
    try:
        return _begun(source, index, place)
    except (OSError, RuntimeError):  # there are no more descriptors or threads to be had
        _done(index)
        return None


def _begun(source: DescriptorBytes, index: LineIndex, place: Workspace) -> Thread:
    own = os.dup(source.fd)  # the caller closes the other one
    halt = HaltSignal(SECONDS)
    gone = weakref.finalize(place, halt.now)  # the thread itself must not hold the session
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
            if current is index:  # else the file has changed since, or has no time yet that would tell of a change
                index.count_until(DescriptorBytes(fd, skip), None, halt)
    finally:
        os.close(fd)
        gone.detach()
        _done(index)


def _done(index: LineIndex) -> None:
    with _lock:
        _under_way.discard(index)
