"""Opens exactly what was decided on (security F1, F3).

It walks from `/` downwards, with a descriptor for each folder, and follows no link: whatever is replaced meanwhile,
the open ends at the name that was decided on, or fails. Then the descriptor itself is checked: a regular file, still
under that name.

It does not use `openat2`, which adds nothing to this walk. The walk is needed anyway where the kernel or a filter
lacks the call, and calling it costs 2.4 ms for `ctypes` where the walk costs 0.01 (docs/decisions/0013).
"""

# ruff: noqa: PTH115, PTH116  # pathlib knows no descriptors

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys

from mainspring.processes.paths import NO_FILES, PathRefused, Resolved

TRIES = 3  # a save by an editor may come between open and check; three in a row are no accident

_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SWAPPED = (errno.ELOOP, errno.ENOTDIR)
_BLOCK = 1 << 20


class FileMovedError(PathRefused):
    """The opened file has another name by now."""


def open_read(path: Resolved) -> int:
    """A descriptor of a regular file, for reading. The caller closes it."""
    refuse_unless_file(path)
    for _ in range(TRIES - 1):
        with contextlib.suppress(FileMovedError):
            return _open_once(path.real)
    return _open_once(path.real)


def read_resolved_file(path: Resolved, *, limit: int) -> bytes:
    """The bytes of a file, unchanged."""
    fd = open_read(path)
    try:
        return read_all(fd, path.real, limit)
    finally:
        os.close(fd)


def read_all(fd: int, name: str, limit: int) -> bytes:
    """To the end of the file, which may still be growing."""
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(fd, min(_BLOCK, limit + 1 - size)):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise PathRefused(f"'{name}' has more than {limit:,} bytes")
    return b"".join(pieces)


def open_folder(real: str, *, make: bool = False, mode: int = 0o777) -> int:
    """A descriptor of a folder, for `dir_fd` only. `make` creates missing folders. The caller closes it."""
    fd = os.open("/", _STEP)
    for part in real.split("/"):
        if part:
            fd = _step(fd, part, real, mode if make else None)
    return fd


def open_listing(real: str) -> int:
    """A descriptor of a folder whose names can be listed. The caller closes it."""
    folder = open_folder(real)
    try:
        return os.open(".", _LIST, dir_fd=folder)
    finally:
        os.close(folder)


def open_below(folder: int, name: str) -> int:
    """A regular file somewhere below an opened folder, for reading. The caller closes it."""
    folders, _, last = name.rpartition("/")
    if not folders:
        return open_child(folder, _part(last, name), name)
    fd = open_folder_below(folder, folders)
    try:
        return open_child(fd, _part(last, name), name)
    finally:
        os.close(fd)


def open_folder_below(folder: int, name: str) -> int:
    """A folder somewhere below an opened one, for `dir_fd` only. The caller closes it."""
    fd = os.dup(folder)
    for part in name.split("/"):
        try:
            _part(part, name)
        except BaseException:
            os.close(fd)
            raise
        fd = _step(fd, part, name, None)
    return fd


def _part(part: str, name: str) -> str:
    if part in ("", ".", ".."):
        raise PathRefused(f"'{name}' is no name below a folder")
    return part


def create_private(folder_name: str, name: str) -> int:
    """A new file that only we can read, for writing; missing folders are created in the same way. Follows no link, not
    even on the way: raises `OSError` if there is one, or if the name exists. The caller closes it.
    """
    try:
        folder = open_folder(folder_name, make=True, mode=0o700)
    except PathRefused as error:
        raise OSError(errno.ELOOP, str(error), folder_name) from None
    try:
        return os.open(name, _CREATE, 0o600, dir_fd=folder)
    finally:
        os.close(folder)


def open_child(folder: int, name: str, real: str) -> int:
    """A regular file of that folder, for reading; follows no link and does not block."""
    try:
        fd = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        if error.errno in (*_SWAPPED, errno.ENXIO):  # the last one: a socket, or a missing device
            raise PathRefused(f"'{real}' is no regular file: {error.strerror}") from None
        raise
    try:
        refuse_unless_regular(fd, real)
    except BaseException:
        os.close(fd)
        raise
    return fd


def refuse_unless_file(path: Resolved) -> None:
    """By the result of the resolution: nothing is touched."""
    if path.kind == "missing":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path.real)
    if path.kind == "folder":
        raise PathRefused(f"'{path.real}' is a folder")
    if path.kind == "special":
        raise PathRefused(f"'{path.asked}' is no regular file: devices, pipes, sockets, /proc and /sys are not opened")


def refuse_unless_regular(fd: int, real: str) -> None:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_dev in _kernel_devices():
        raise PathRefused(f"'{real}' is no regular file")


def refuse_if_moved(fd: int, real: str) -> None:
    """Names in another spelling fail here, too, where a file system does not distinguish them."""
    place = descriptor_path(fd)
    if place not in (None, real):
        raise FileMovedError(f"'{real}' is at '{place}': it was moved or replaced meanwhile, or that is its name")


def descriptor_path(fd: int) -> str | None:
    """The kernel's current name of a descriptor; None if it has none."""
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # no /proc here: the walk alone must do
        return None


def _open_once(real: str) -> int:
    folder_name, _, name = real.rpartition("/")
    folder = open_folder(folder_name)
    try:
        fd = open_child(folder, name, real)
    finally:
        os.close(folder)
    try:
        refuse_if_moved(fd, real)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _step(folder: int, part: str, real: str, make: int | None) -> int:
    """From a folder into the next one; closes the first descriptor in any case. `make`: the mode of a new one."""
    try:
        try:
            return os.open(part, _STEP, dir_fd=folder)
        except FileNotFoundError:
            if make is None:
                raise
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.mkdir(part, make, dir_fd=folder)
        return os.open(part, _STEP, dir_fd=folder)
    except OSError as error:
        if error.errno in _SWAPPED:
            raise PathRefused(f"'{part}' in '{real}' is no folder: it may have been replaced meanwhile") from None
        raise
    finally:
        os.close(folder)


def _kernel_devices() -> set[int]:
    """The devices of `/proc` and `/sys`, so that they are recognized under any other mount as well."""
    found: set[int] = set()
    for place in NO_FILES:
        try:
            device = os.stat(place).st_dev
        except OSError:
            continue
        if device != os.stat("/").st_dev:  # an empty folder in a container without them
            found.add(device)
    return found
