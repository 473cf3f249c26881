"""Reading text files of a project safely, and finding its directories.

`read_text` reads a file that another user may have created: bounded, following no link, never blocking. `project_of`
returns the directories of a project, from its root down to the working directory; `ConfigFolders` those with skills,
commands and agents.
"""

# ruff: noqa: PTH110, PTH116, PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from mainspring import processes
from mainspring.core.value import Bundle
from mainspring.processes.paths import PathRefused, Resolved, is_within

LARGEST = 256 * 1024  # bytes that are read of a file, whatever its size
TICK = 100_000_000  # nanoseconds; file systems keep times in steps, of 4 ms or more


class FileStamp(Bundle):
    """Identifies an unchanged file without reading it."""

    inode: int
    size: int
    time: int


class FileText(Bundle):
    text: str
    size: int  # of the whole file, in bytes
    cut: bool  # the file is longer
    mark: FileStamp
    owner: int = -1  # of the opened file


def read_text(path: Resolved, most: int = LARGEST) -> FileText:
    """The beginning of a file. Replaces invalid UTF-8; raises `PathRefused` and `OSError`."""
    fd = processes.open_read(path)
    try:
        found = os.fstat(fd)
        data = _read(fd, most)
    finally:
        os.close(fd)
    if b"\0" in data:
        raise PathRefused(f"'{path.real}' is not a text file: it contains NUL bytes")
    cut = len(data) == most and found.st_size > most
    whole = data[: _whole(data)] if cut else data
    text = whole.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").replace("\r\n", "\n")
    return FileText(text, found.st_size, cut, settle_stamp(mark_of(found)), found.st_uid)


def mark_of(found: os.stat_result) -> FileStamp:
    return FileStamp(found.st_ino, found.st_size, found.st_mtime_ns)


def settle_stamp(mark: FileStamp) -> FileStamp:
    """For storing. A file that was just written may be written again without a new time: its stamp equals no other, so
    the file is read once more."""
    return replace(mark, time=-1) if time.time_ns() - mark.time < TICK else mark


def stat_file(real: str) -> FileStamp | None:
    """None: it is gone, or cannot be accessed."""
    try:
        return mark_of(os.lstat(real))
    except OSError:
        return None


def _read(fd: int, most: int) -> bytes:
    pieces: list[bytes] = []
    left = most
    while left and (piece := os.read(fd, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _whole(data: bytes) -> int:
    """Where the last complete character ends."""
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead < 0x80:
            return len(data)
        if lead >= 0xC0:
            width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return len(data) if width <= back else len(data) - back
    return len(data)


DEEPEST = 40  # directories that are checked above the working directory


class Project(Bundle):
    """All paths are real ones."""

    root: str  # of the repository; without one, the working directory
    folders: tuple[str, ...]  # the outermost first, the working directory last
    git: bool


def project_of(cwd: str, user: str) -> Project:
    """Up to the root of the repository; without one, up to the user's home directory, which is excluded."""
    upwards = _upwards(cwd)
    for count, folder in enumerate(upwards, 1):
        if is_repository(folder, cwd):
            return Project(folder, tuple(upwards[:count][::-1]), git=True)
    below_home = [folder for folder in upwards if user.strip("/") and folder != user and is_within(folder, user)]
    return Project(cwd, tuple((below_home or [cwd])[::-1]), git=False)


def is_repository(folder: str, cwd: str) -> bool:
    """Not if another user put it above us: in `/tmp`, every user can make a `.git`."""
    try:
        owner = os.lstat(f"{folder}/.git").st_uid
        return folder == cwd or owner in (os.geteuid(), 0, os.stat(cwd).st_uid)
    except OSError:
        return False


def _upwards(cwd: str) -> list[str]:
    found = [cwd]
    while found[-1] != "/" and len(found) < DEEPEST:
        found.append(os.path.dirname(found[-1]))
    return found


class ConfigFolders(Bundle):
    """Where the user and the project keep files of one sort, such as skills."""

    user: str = ""  # the user's home directory
    home: str | None = None  # our directory in it
    project: tuple[str, ...] = ()  # the working directory first, then the root of its repository
    trusted: bool = False  # those of the project are read
    sources: tuple[str, ...] | None = None
    sort: str = "skills"
    bounds: str = ""  # the directory that the project's links cannot leave; empty: no limit
    may_read: Callable[[str], bool] | None = None  # the rules, for links: deny applies here, too
    plugins: tuple[tuple[str, str, str], ...] = ()  # the plugin's name, a sort, and a folder or file of it

    def are_there(self) -> bool:
        return any(os.path.exists(place) for place, _ in self.folders())

    def folders(self) -> Iterator[tuple[str, bool]]:
        """All of them, and whether each is the project's. Of two entries with the same name, the first one counts."""
        if self.sources is None or "user" in self.sources:
            if self.home:
                yield f"{self.home}/{self.sort}", False
            if self.user and self.home != f"{self.user}/.claude":
                yield f"{self.user}/.claude/{self.sort}", False
        if self.trusted and (self.sources is None or "project" in self.sources):
            for folder in dict.fromkeys(self.project):
                yield f"{folder}/.mainspring/{self.sort}", True
                yield f"{folder}/.claude/{self.sort}", True
        for _, sort, place in self.plugins:
            if sort == self.sort:
                yield place, False

    def prefix_of(self, folder: str) -> str:
        """The prefix of all names in one of the folders: those of a plugin begin with its name."""
        return next((f"{name}:" for name, sort, place in self.plugins if (folder, self.sort) == (place, sort)), "")

    def check(self, path: Resolved, *, project: bool) -> None:
        """Raises `PathRefused` for a link that leads to a forbidden place (security T1)."""
        if project and self.bounds and not is_within(path.real, self.bounds):
            raise PathRefused(
                f"it leads to '{path.real}': run 'mainspring trust' to allow links that lead out of this folder"
            )
        if path.via and self.may_read is not None and not all(self.may_read(name) for name in path.names):
            raise PathRefused(f"a rule denies reading '{path.real}'")
