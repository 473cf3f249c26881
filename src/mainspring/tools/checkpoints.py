"""File checkpoints: the state of a file before a change, and restoring it (stream-json 4, `rewind_files`).

Tools that edit write through `Workspace.put`. This module does not know where checkpoints are stored; sessions without
checkpoints do not load it.

Restoring writes or removes a file, whatever changed it since. No link is followed: a file whose name leads elsewhere by
now is left alone, and so is anything that is not a regular file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from hashlib import blake2b

from mainspring.core.errors import ToolError
from mainspring.core.value import Bundle
from mainspring.processes.atomic_write import KEPT_BITS, FileChanged, write_atomically
from mainspring.processes.paths import PathRefused, Resolved, resolve_path
from mainspring.processes.safe_open import open_folder, open_read, refuse_if_moved
from mainspring.tools import patch

_BLOCK = 1 << 20

Keep = Callable[[Resolved], None]


class FileState(Bundle):
    there: bool = False
    mode: int = 0
    digest: str = ""
    size: int = 0
    data: bytes | None = None  # None: it does not exist, or is larger than the caller's limit
    why: str = ""  # why it cannot be read: it is not a regular file, or access is denied


NOTHING = FileState()


def read_file_state(real: str, most: int) -> FileState:
    """Read the current state of a file, without following a link."""
    try:
        fd = open_read(Resolved(real, real, kind="file"))
    except FileNotFoundError:
        return NOTHING
    except PathRefused as error:
        return FileState(there=True, why=str(error))
    except OSError as error:
        return FileState(there=True, why=f"it cannot be read: {error.strerror}")
    try:
        return _look(fd, most)
    except OSError as error:
        return FileState(there=True, why=f"it cannot be read: {error.strerror}")
    finally:
        os.close(fd)


def _look(fd: int, most: int) -> FileState:
    """The digest covers the whole file, as in `processes/atomic_write.py`."""
    so_far, pieces, size = blake2b(digest_size=32), list[bytes](), 0
    while piece := os.read(fd, _BLOCK):
        so_far.update(piece)
        size += len(piece)
        if size <= most:
            pieces.append(piece)
    mode = stat.S_IMODE(os.fstat(fd).st_mode) & KEPT_BITS
    return FileState(True, mode, so_far.hexdigest(), size, b"".join(pieces) if size <= most else None)


class LineCounts(Bundle):
    """Numbers of added and removed lines."""

    plus: int = 0
    minus: int = 0


def resolve_for_restore(real: str) -> Resolved:
    """Raises `ToolError` if this name leads elsewhere, or is not a regular file."""
    path = resolve_path(real, "/")
    if path.real != real or path.via:
        raise ToolError("its path has a link now")
    if path.kind in ("folder", "special"):
        raise ToolError("it is not a regular file now")
    return path


def is_same(now: FileState, was: FileState) -> bool:
    return (now.there, now.mode, now.digest) == (was.there, was.mode, was.digest)


def put_back(path: Resolved, now: FileState, was: FileState) -> None:
    """Raises `FileChanged` if the file is not in the state `now`. `was.data` is set if the file existed."""
    try:
        if not was.there:
            _remove(path, now)
        else:
            assert was.data is not None
            write_atomically(path, was.data, before=now.digest if now.there else None, mode=was.mode)
    except OSError as error:
        raise ToolError(f"it cannot be written: {error.strerror}") from None


def _remove(path: Resolved, now: FileState) -> None:
    folder_name, _, name = path.real.rpartition("/")
    folder = open_folder(folder_name)
    try:
        refuse_if_moved(folder, folder_name)
        if not is_same(read_file_state(path.real, 0), now):
            raise FileChanged(f"'{path.real}' changed just now")
        os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)


def count_changed_lines(now: FileState, was: FileState) -> LineCounts:
    """Count the lines that a restore adds and removes; 0 for files that are not text, or too large."""
    sides = [look.data if look.there else b"" for look in (now, was)]
    if any(side is None or b"\0" in side for side in sides):
        return LineCounts()
    old, new = [patch.lines_of((side or b"").decode(errors="replace")) for side in sides]
    ranges = patch.ranges_between(old, new)
    return LineCounts(sum([one.new_end - one.new for one in ranges]), sum([one.old_end - one.old for one in ranges]))
