"""Opening the files of a session for writing: through no link that leads out of the state folder.

The state folder itself may be a link, and links within it may lead to other places within it. Everything below it is
opened step by step from a descriptor, following no link: whatever is swapped meanwhile, nothing outside is written.
"""
# ruff: noqa: PTH120  # see paths.py

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress

from mainspring.sessions.paths import FILE, FOLDER, make_folder

PROJECTS = "/projects/"  # in the state folder, and not in any name below it
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # a file system that has none
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TOP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


def state_folder(file: str) -> str:
    """The one that a session's file is in; of a file somewhere else, its own folder."""
    absolute = os.path.abspath(file)  # noqa: PTH100
    home, projects, _ = absolute.rpartition(PROJECTS)
    return home if projects and home else os.path.dirname(absolute)


def open_file(file: str, flags: int) -> int:
    """It, with the folders above it as far as they are missing. Raises `OSError`."""
    with folder_of(file) as (fd, name):
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE, dir_fd=fd)


def rename_session_file(draft: str, file: str) -> None:
    """Both are in one folder."""
    with folder_of(file) as (fd, name):
        os.rename(os.path.basename(draft), name, src_dir_fd=fd, dst_dir_fd=fd)  # noqa: PTH119


def place_new(draft: str, file: str) -> None:
    """The same, but what is there by that name stays: then it raises `FileExistsError`."""
    with folder_of(file) as (fd, name):
        draft = os.path.basename(draft)  # noqa: PTH119
        try:
            os.link(draft, name, src_dir_fd=fd, dst_dir_fd=fd)
            os.unlink(draft, dir_fd=fd)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE, dir_fd=fd))
            os.rename(draft, name, src_dir_fd=fd, dst_dir_fd=fd)


@contextmanager
def folder_of(file: str) -> Generator[tuple[int, str]]:
    """A descriptor of the real folder of a file, and the real name in it."""
    state = state_folder(file)
    make_folder(state)
    top, real = os.path.realpath(state), os.path.realpath(file)
    inner = real.removeprefix(f"{top.rstrip('/')}/")
    if inner == real:
        way_out = f"a link leads out of '{state}', to '{real}': remove it, or set MAINSPRING_HOME to that place"
        raise OSError(errno.ELOOP, way_out, file)
    *folders, name = inner.split("/")
    fd = os.open(top, _TOP)
    try:
        for folder in folders:
            inside = _step(fd, folder)
            os.close(fd)
            fd = inside
        yield fd, name
    finally:
        os.close(fd)


def _step(fd: int, folder: str) -> int:
    try:
        return os.open(folder, _STEP, dir_fd=fd)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(folder, FOLDER, dir_fd=fd)
        return os.open(folder, _STEP, dir_fd=fd)
