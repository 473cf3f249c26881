"""Resolves paths (security F1, F2, F3). Nothing is opened here.

`resolve_path` follows every link by itself and keeps each name that the file has on the way, so that a rule can be
checked against all of them: deny if any matches, allow only if all do. The tool later opens `real`, which has no links
and no `..` left, without following links (`safe_open.py`): there is no second resolution that could end elsewhere.

A name is used as it is: nothing is decoded, folded or expanded, except a leading `~/`.
"""

# ruff: noqa: PTH111, PTH115  # pathlib takes 8 ms to load, and drops the trailing slash

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Literal

from msgspec.structs import replace

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Value

MOST_LINKS = 40  # as many as Linux follows
LONGEST = 4_096  # bytes; the limit of Linux
NO_FILES = ("/proc", "/sys")  # look like files, but reading them asks the kernel, and may block
_NO_FILES = tuple([f"{place}/" for place in NO_FILES])

Kind = Literal["file", "folder", "missing", "special"]


class PathRefused(ToolError):  # noqa: N818  # it reads as what it says
    """This path must not be opened. The message says why, for the model."""


class Resolved(Value):
    """A requested path, and every name of its target."""

    asked: str
    real: str  # absolute, without links and `..`
    via: tuple[str, ...] = ()  # its names before each link was followed, in order; a rule may be about any of them
    kind: Kind = "missing"

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.via, self.real)


def resolve_path(path: str, cwd: str, *, home: str | None = None) -> Resolved:
    """`home` replaces a leading `~/`; None: this user's."""
    if not cwd.startswith("/"):
        raise UsageError(f"the working folder '{cwd}' is not an absolute path")
    _check_spelling(path)
    full = _from_home(path, home) if path.startswith("~/") else path
    walk = _Walk(asked=path)
    walk.along(full if full.startswith("/") else f"{cwd}/{full}")
    return Resolved(path, walk.here, tuple(dict.fromkeys(walk.via)), walk.kind())


def names_of_path(path: str) -> tuple[str, ...]:
    """Every name of an absolute path; none if it leads nowhere."""
    try:
        return resolve_path(path, "/").names
    except PathRefused:
        return ()


class Resolutions:
    """The paths of one tool call, each resolved once: the rules decide on exactly what the tool then opens."""

    def __init__(self, home: str | None = None) -> None:
        self._home = home
        self._known: dict[str, Resolved] = {}

    def __call__(self, path: str, cwd: str) -> Resolved:
        key = path if path.startswith(("/", "~/")) or not path else f"{cwd}/{path}"
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = resolve_path(path, cwd, home=self._home)
        return found


def look_again(path: Resolved) -> Resolved:
    """The current target of the name that was decided on. Hooks and people may take hours to decide, so a file may have
    appeared or disappeared since. A new link is refused: the decision did not cover its target.
    """
    now = resolve_path(path.real, "/")
    if now.real != path.real:
        raise PathRefused(
            f"'{path.asked}' changed after the permission check: it led to '{path.real}', and leads to '{now.real}' "
            "now. Nothing was done: call the tool again"
        )
    return replace(path, kind=now.kind)


def is_within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or in it. Both are absolute; a path with a `..` is in nothing."""
    parts, outer = _parts(path), _parts(folder)
    return ".." not in parts and ".." not in outer and parts[: len(outer)] == outer


def is_inside_all(path: Resolved, folders: Iterable[Resolved]) -> bool:
    """Whether every name of `path` is in one of the folders, each of which may have several names, too."""
    outer = [name for folder in folders for name in folder.names]
    return all(any(is_within(name, folder) for folder in outer) for name in path.names)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _check_spelling(path: str) -> None:
    if not path:
        raise PathRefused("the path is empty")
    if "\0" in path:
        raise PathRefused("the path contains a NUL character, which no file name can")
    try:
        size = len(path) if path.isascii() else len(os.fsencode(path))
    except UnicodeEncodeError:
        raise PathRefused("the path holds half a character, which no file name can") from None
    if size > LONGEST:
        raise PathRefused(f"the path has {size:,} bytes; the limit is {LONGEST:,}")


def _from_home(path: str, home: str | None) -> str:
    home = os.path.expanduser("~") if home is None else home
    if not home.startswith("/"):
        raise PathRefused(f"'{path}' needs a home folder, and there is none: use an absolute path")
    return home + path[1:]


class _Walk:
    """Walks one component after the other, as the kernel does."""

    def __init__(self, asked: str) -> None:
        self.asked = asked
        self.done = ""  # the real path so far; empty at the root
        self.mode = stat.S_IFDIR  # of what it leads to
        self.missing_from: str | None = None  # the last existing folder, if a name after it is missing
        self.via: list[str] = []
        self.links = 0

    @property
    def here(self) -> str:
        return self.done or "/"

    def along(self, path: str) -> None:
        rest = path.split("/")[::-1]
        while rest:
            part = rest.pop()
            self.must_be_folder()
            if part in ("", "."):
                continue
            if part == "..":
                self.up()
            elif target := self.down(part):
                self.follow(part, target, rest)

    def must_be_folder(self) -> None:
        if self.missing_from is None and not stat.S_ISDIR(self.mode):
            raise PathRefused(f"'{self.asked}' goes through '{self.here}', which is no folder")

    def up(self) -> None:
        """After a missing name `..` can only mean its parent: nothing else is ever looked up or opened."""
        self.done = self.done.rpartition("/")[0]
        if self.missing_from is not None and len(self.done) <= len(self.missing_from):
            self.missing_from = None
        self.mode = stat.S_IFDIR

    def down(self, part: str) -> str:
        """One step; the link's text if it is one."""
        place = f"{self.done}/{part}"
        if self.missing_from is None:
            try:
                self.mode = os.lstat(place).st_mode
                if stat.S_ISLNK(self.mode):
                    return os.readlink(place)
            except FileNotFoundError:
                self.missing_from = self.done
            except OSError as error:
                raise PathRefused(f"'{place}' cannot be looked up: {error.strerror}") from None
        self.done = place
        return ""

    def follow(self, part: str, target: str, rest: list[str]) -> None:
        self.links += 1
        if self.links > MOST_LINKS:
            raise PathRefused(f"'{self.asked}' leads through more than {MOST_LINKS} links")
        behind = [] if ".." in rest else [name for name in rest[::-1] if name not in ("", ".")]
        self.via.append("/".join([self.done, part, *behind]))
        self.mode = stat.S_IFDIR  # a link is in a folder, and so is its text
        if target.startswith("/"):
            self.done = ""
        rest.extend(target.split("/")[::-1])

    def kind(self) -> Kind:
        if any(f"{name}/".startswith(_NO_FILES) for name in (*self.via, self.here)):
            return "special"
        if self.missing_from is not None:
            return "missing"
        if stat.S_ISDIR(self.mode):
            return "folder"
        return "file" if stat.S_ISREG(self.mode) else "special"
