"""Writes files atomically (security F4), and remembers what was read, by content.

The new content goes into a nameless file, is synced, gets a name and is moved over the old one. A reader sees the old
bytes or the new ones. A crash leaves nothing, with two exceptions: `kill -9` between the last three system calls
(name, check, move) leaves one complete `.mainspring-*.tmp`; and on file systems without nameless files (NFS, FAT) one
of them stays if the kill comes at any time during the write. A new file is never preceded by such a name.

Mode and owner are kept as far as we may; set-uid and set-gid are not, as with any write by another user, and neither
are access lists and extended attributes. A file with several names (hard links) is written under this one only: the
others keep the old bytes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import NamedTuple

from mainspring.processes import read_log
from mainspring.processes.paths import PathRefused, Resolved
from mainspring.processes.safe_open import (
    descriptor_path,
    open_child,
    open_folder,
    open_read,
    read_all,
    refuse_if_moved,
)

MOST_REMEMBERED = 10_000  # files; the oldest is forgotten, and must then be read again before it is written
KEPT_BITS = 0o1777

_BLOCK = 1 << 20
_DRAFT = ".mainspring-"
_NAMELESS = getattr(os, "O_TMPFILE", 0)
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)  # errors where they do not exist
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP)


class FileChanged(PathRefused):
    """The file is not the one that was read. Read it again."""


CHANGED = "changed"  # instead of an unknown digest; no file has it
SLACK = 2  # milliseconds: the times of files and of messages are rounded


class ReadSet:
    """The files that were read, by content: a write is based on that, or fails."""

    def __init__(self, log: str = "") -> None:
        """`log`: stores it for a later process, and has the entries of an earlier one."""
        self._log = log
        self._seen: dict[str, str] = read_log.load_read_log(log) if log else {}
        self._shown: dict[str, int] = {}

    def remember(self, path: Resolved, data: bytes) -> None:
        self.keep(path, digest(data))

    def keep(self, path: Resolved, written: str) -> None:
        if self._log and self._seen.get(path.real) != written:
            read_log.append_to_read_log(self._log, path.real, written)
        self._put(path.real, written)

    def _put(self, real: str, written: str) -> None:
        self._seen.pop(real, None)
        self._seen[real] = written
        if len(self._seen) > MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]

    def was_shown(self, path: Resolved, at: int) -> None:
        """Another program has shown it to the model, at this time in milliseconds."""
        if path.real not in self._seen:
            self._shown[path.real] = at

    def of(self, path: Resolved) -> str | None:
        """The digest of the content that was read; None: it was not read."""
        at = self._shown.pop(path.real, None)
        if at is not None and path.real not in self._seen:
            self._put(path.real, _digest_at(path, at))
        return self._seen.get(path.real)

    def newest(self) -> list[str]:
        """The paths, the last read first."""
        return list(reversed(self._seen))


def _digest_at(path: Resolved, at: int) -> str:
    """Of a file as it was at a time; only if it has not been touched since. `st_ctime` cannot be set back."""
    try:
        fd = open_read(path)
        try:
            found = os.fstat(fd)
            touched = max(found.st_mtime_ns, found.st_ctime_ns) // 1_000_000
            return digest(read_all(fd, path.real, found.st_size)) if touched <= at + SLACK else CHANGED
        finally:
            os.close(fd)
    except OSError:
        return CHANGED


def digest(data: bytes) -> str:
    import hashlib  # 3 ms, and not before the first file is read

    return hashlib.blake2b(data, digest_size=32).hexdigest()


def write_atomically(path: Resolved, data: bytes, *, before: str | None, mode: int | None = None) -> str:
    """Replaces the content with the digest `before` by `data`; None: the file must not exist. Returns the digest of
    `data`.

    Creates missing folders. `mode` is for a new file and for one that must not keep its own; else the old one is kept,
    and a new file gets what the umask leaves. Raises `FileChanged` if the file is not the one that was read.
    """
    _refuse_unless_writable(path)
    folder_name, _, name = path.real.rpartition("/")
    folder = open_folder(folder_name, make=True)
    try:
        _write(_OpenTarget(folder, folder_name, name), data, before, mode)
    finally:
        os.close(folder)
    return digest(data)


class _OpenTarget(NamedTuple):
    folder: int  # a descriptor
    folder_name: str
    name: str

    @property
    def real(self) -> str:
        return f"{self.folder_name}/{self.name}"


class _ComparedFile(NamedTuple):
    """The file as it was when its bytes were compared."""

    digest: str
    stat: os.stat_result

    def is_still(self, now: os.stat_result | None) -> bool:
        return now is not None and _mark(now) == _mark(self.stat)


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _refuse_unless_writable(path: Resolved) -> None:
    if path.kind == "special":
        raise PathRefused(f"'{path.asked}' is no regular file: devices, pipes, sockets, /proc and /sys are not written")
    if path.kind == "folder" or path.asked.endswith("/"):
        raise PathRefused(f"'{path.asked}' is a folder, or ends like one")


def _write(place: _OpenTarget, data: bytes, before: str | None, mode: int | None) -> None:
    old = _old(place)
    if before != (old.digest if old else None):
        raise FileChanged(_why(place, before, old))
    fd, name = _new_file(place.folder, 0o600 if old or mode is not None else 0o666)
    try:
        _write_all(fd, data)
        _dress(fd, old, mode)
        os.fsync(fd)
        refuse_if_moved(place.folder, place.folder_name)
        if old is None:
            name = _appear(fd, name, place)
        else:
            name = name or _named(fd, place.folder)
            if not old.is_still(_stat(place)):
                raise FileChanged(_why(place, before, old))
            os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            name = ""
    finally:
        os.close(fd)
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=place.folder)


def _old(place: _OpenTarget) -> _ComparedFile | None:
    try:
        fd = open_child(place.folder, place.name, place.real)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(fd)
        return _ComparedFile(_digest_of(fd), found)
    finally:
        os.close(fd)


def _digest_of(fd: int) -> str:
    import hashlib

    so_far = hashlib.blake2b(digest_size=32)
    while piece := os.read(fd, _BLOCK):
        so_far.update(piece)
    return so_far.hexdigest()


def _why(place: _OpenTarget, before: str | None, old: _ComparedFile | None) -> str:
    if old is None:
        return f"'{place.real}' was removed since it was read"
    if before is None:
        return f"'{place.real}' already exists and was not read: read it first"
    return f"'{place.real}' changed since it was read: read it again"


def _new_file(folder: int, mode: int) -> tuple[int, str]:
    """A descriptor for writing, and the file's name: empty if it has none yet."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    if _NAMELESS and descriptor_path(folder) is not None:  # it gets its name through /proc
        try:
            return os.open(".", flags | _NAMELESS, mode, dir_fd=folder), ""
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
    name = make_draft_name()
    return os.open(name, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder), name


def make_draft_name() -> str:
    return f"{_DRAFT}{os.urandom(8).hex()}.tmp"


def is_draft(name: str) -> bool:
    """Whether it may be a file of ours that a crash has left."""
    middle = name.removeprefix(_DRAFT).removesuffix(".tmp")
    return name == f"{_DRAFT}{middle}.tmp" and len(middle) == 16 and not middle.strip("0123456789abcdef")


def _named(fd: int, folder: int) -> str:
    name = make_draft_name()
    os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder, follow_symlinks=True)
    return name


def _appear(fd: int, name: str, place: _OpenTarget) -> str:
    """Gives a new file its name, unless another process has taken it. Returns the path that is left to remove."""
    try:
        if name:
            os.link(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder, follow_symlinks=False)
        else:
            os.link(f"/proc/self/fd/{fd}", place.name, dst_dir_fd=place.folder, follow_symlinks=True)
    except FileExistsError:
        raise FileChanged(f"'{place.real}' was created by another process meanwhile: read it first") from None
    except OSError as error:
        if not name or error.errno not in _NO_LINKS:  # FAT has no hard links
            raise
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        return ""
    return name


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _dress(fd: int, old: _ComparedFile | None, mode: int | None) -> None:
    """Owner, group and mode, as far as we may. Never opens the file to more users than before."""
    if old is None:
        if mode is not None:
            os.fchmod(fd, mode)
        return
    kept = stat.S_IMODE(old.stat.st_mode) & KEPT_BITS if mode is None else mode
    if not _give(fd, old.stat.st_uid, old.stat.st_gid):
        everyone = kept & 0o007
        kept &= ~0o070 | everyone << 3  # another group now: it gets no more than everyone
    os.fchmod(fd, kept)


def _give(fd: int, user: int, group: int) -> bool:
    """Only root can change the owner, but the group may be one of ours. Returns whether the group is right."""
    now = os.fstat(fd)
    for owner in (user, -1):
        if now.st_gid == group and owner in (now.st_uid, -1):
            return True
        with contextlib.suppress(PermissionError):
            os.fchown(fd, owner, group)
            return True
    return now.st_gid == group


def _stat(place: _OpenTarget) -> os.stat_result | None:
    try:
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
