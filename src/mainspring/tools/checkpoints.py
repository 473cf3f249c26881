"""A look at a file before it is changed, for whoever wants to go back (stream-json 4, `rewind_files`).

Tools that edit write through `Workspace.put`. Who keeps what, and where, is not known here; where nobody does, this is
not even loaded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from mainspring.core.value import Bundle
from mainspring.processes.atomic_write import KEPT_BITS
from mainspring.processes.paths import PathRefused, Resolved
from mainspring.processes.safe_open import open_read

_BLOCK = 1 << 20

Keep = Callable[[Resolved], None]


class FileState(Bundle):
    there: bool = False
    mode: int = 0
    digest: str = ""
    size: int = 0
    data: bytes | None = None  # None: it is not there, or larger than somebody wants it
    why: str = ""  # why it cannot be looked at: it is no regular file, or closed to us


NOTHING = FileState()


def read_file_state(real: str, most: int) -> FileState:
    """At what is there now, without following a link."""
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
    """The digest is that of the whole file, as `processes/atomic_write.py` makes it."""
    from hashlib import blake2b

    so_far, pieces, size = blake2b(digest_size=32), list[bytes](), 0
    while piece := os.read(fd, _BLOCK):
        so_far.update(piece)
        size += len(piece)
        if size <= most:
            pieces.append(piece)
    mode = stat.S_IMODE(os.fstat(fd).st_mode) & KEPT_BITS
    return FileState(True, mode, so_far.hexdigest(), size, b"".join(pieces) if size <= most else None)
