"""Putting a file back to what it was: written, or removed, whatever somebody has made of it since.

No link is followed: a file whose name leads elsewhere by now is left alone, and so is what is no regular file.
"""

from __future__ import annotations

import os

from mainspring.core.errors import ToolError
from mainspring.core.value import Bundle
from mainspring.processes.atomic_write import FileChanged, write_atomically
from mainspring.processes.paths import Resolved, resolve_path
from mainspring.processes.safe_open import open_folder, refuse_if_moved
from mainspring.tools import patch
from mainspring.tools.checkpoints import FileState, read_file_state


class LineCounts(Bundle):
    """Lines that came and lines that went."""

    plus: int = 0
    minus: int = 0


def resolve_for_restore(real: str) -> Resolved:
    """Raises `ToolError` if this name leads elsewhere, or to what is no file."""
    path = resolve_path(real, "/")
    if path.real != real or path.via:
        raise ToolError("there is a link on the way to it now")
    if path.kind in ("folder", "special"):
        raise ToolError("it is no regular file now")
    return path


def is_same(now: FileState, was: FileState) -> bool:
    return (now.there, now.mode, now.digest) == (was.there, was.mode, was.digest)


def put_back(path: Resolved, now: FileState, was: FileState) -> None:
    """Raises `FileChanged` if it is not what `now` says. `was.data` is there if the file was."""
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
            raise FileChanged(f"'{path.real}' changed in this moment")
        os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)


def count_changed_lines(now: FileState, was: FileState) -> LineCounts:
    """What the way back adds and takes, in lines; nothing for what is no text, or too large."""
    sides = [look.data if look.there else b"" for look in (now, was)]
    if any(side is None or b"\0" in side for side in sides):
        return LineCounts()
    old, new = [patch.lines_of((side or b"").decode(errors="replace")) for side in sides]
    ranges = patch.ranges_between(old, new)
    return LineCounts(sum([one.new_end - one.new for one in ranges]), sum([one.old_end - one.old for one in ranges]))
