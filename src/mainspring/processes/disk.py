"""Questions about the disk for a permission decision: what is below a folder, what git tracks in it, aliases of git.

All are bounded, because a decision must not wait for a large disk. Reaching a bound is a separate answer, never an
empty one.

Aliases come from the repository's configuration and the user's: `git x` may be any command. Only certain results are
returned. A configuration that includes other files, or is somewhere unusual, is not certain.
"""

# ruff: noqa: PTH112, PTH113, PTH120, PTH123  # pathlib takes 8 ms to load

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

MOST_ENTRIES = 20_000
LARGEST_INDEX = 20_000_000  # bytes
FIRST_ENTRY = 12  # where the entries of a git index begin
HEAD = 62  # bytes before a name, with SHA-1
EXTENDED = 2  # more of them, for some entries
PLAIN_VERSIONS = (2, 3)  # in version 4 a name is stored as its difference to the previous one


IGNORE_FILES = ("/.gitignore", "/.ignore", "/.rgignore")


class DiskEntry(NamedTuple):
    path: str
    is_link: bool
    is_folder: bool


class TooManyError(Exception):
    """There is more below the folder than a decision examines."""


class Disk:
    """The real disk. Tests need no other: they create files."""

    def list_folder(self, folder: str) -> list[DiskEntry]:
        """Empty if it is not a folder, or cannot be read: then a command cannot read it, either."""
        found: list[DiskEntry] = []
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    found.append(DiskEntry(entry.path, entry.is_symlink(), entry.is_dir(follow_symlinks=False)))
        return found

    def walk(self, folder: str, most: int = MOST_ENTRIES, skipped: str = "") -> Iterator[DiskEntry]:
        """Everything below a folder, without following links, and without the content of folders named `skipped`."""
        left = most
        folders = [folder]
        for one in folders:  # it grows during the loop
            for entry in self.list_folder(one):
                left -= 1
                if left < 0:
                    raise TooManyError(folder)
                yield entry
                if entry.is_folder and not (skipped and entry.path.endswith(f"/{skipped}")):
                    folders.append(entry.path)

    def repository(self, folder: str) -> str | None:
        """The top of the working tree that git finds from a folder."""
        while not os.path.lexists(f"{folder}/.git"):
            if folder in ("/", ""):
                return None
            folder = os.path.dirname(folder)
        return folder

    def tracked(self, top: str) -> list[str] | None:
        """The names in the index of a repository, from its top; None: unknown."""
        try:
            with open(f"{top}/.git/index", "rb") as file:
                data = file.read(LARGEST_INDEX + 1)
        except FileNotFoundError:
            return [] if os.path.isdir(f"{top}/.git/objects") else None  # nothing was added yet
        except OSError:
            return None  # a worktree or a submodule: its index is elsewhere
        return _names(data) if len(data) <= LARGEST_INDEX else None

    def unhides(self, folder: str) -> bool:
        """Whether an ignore file may make ripgrep search hidden files: with a line that begins with `!`."""
        above = [folder]
        while above[-1] not in ("/", ""):
            above.append(os.path.dirname(above[-1]))
        try:
            found = [entry.path for entry in self.walk(folder) if entry.path.endswith(IGNORE_FILES)]
        except TooManyError:
            return True
        found += [one + name for one in above for name in IGNORE_FILES]
        return any(_has_exceptions(path) for path in found)

    def is_branch(self, top: str, name: str) -> bool:
        """Whether git takes a name for that of a branch, and so for a commit. A tag of that name would come first."""
        packed: set[str] = set()
        with suppress(OSError), open(f"{top}/.git/packed-refs", encoding="utf-8", errors="replace") as file:
            packed = {line.rpartition(" ")[2].rstrip("\n") for line in file}

        def is_there(ref: str) -> bool:
            return ref in packed or os.path.isfile(f"{top}/.git/{ref}")

        first = (name, f"refs/{name}", f"refs/tags/{name}")  # git's own order
        plain = ".." not in name.split("/") and not any(is_there(ref) for ref in first)
        return plain and (is_there(f"refs/heads/{name}") or is_there(f"refs/remotes/{name}"))

    def git_aliases(self, folder: str, home: str) -> dict[str, str] | None:
        """What `git NAME` may mean in a folder; None: unknown."""
        return git_aliases(self.repository(folder), home)


def _has_exceptions(path: str) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        return any(line.startswith(b"!") for line in file)
    return False


def _names(data: bytes) -> list[str] | None:
    if data[:4] != b"DIRC" or int.from_bytes(data[4:8], "big") not in PLAIN_VERSIONS or b"link" in data[-2_000:]:
        return None  # `link`: most names are in another, shared index
    at, found = FIRST_ENTRY, list[str]()
    for _ in range(int.from_bytes(data[8:FIRST_ENTRY], "big")):
        flags = data[at + HEAD - 2 : at + HEAD]
        begins = at + HEAD + (EXTENDED if flags and flags[0] & 0x40 else 0)
        end = data.find(b"\0", begins)
        if end <= begins or min(end - begins, 0xFFF) != int.from_bytes(flags, "big") & 0xFFF:
            return None  # no index with hashes of this size
        found.append(os.fsdecode(data[begins:end]))
        at += (end - at + 8) & ~7  # each entry is followed by one to eight zeros
    return found


DISK = Disk()


LARGEST = 256_000  # characters of a configuration
AUTOCORRECT = "help.autocorrect"  # with this git replaces a name with a similar one
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*("(?:[^"\\\n]|\\.)*")?\s*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=(.*))?\Z")
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|(\\.)|([#;].*)|([^"\\#;]+)|(.)')
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


def git_aliases(top: str | None, home: str) -> dict[str, str] | None:
    """By name, in lower case; `help.autocorrect` among them if it is on. `top`: of the working tree that git finds.
    None: unknown.
    """
    files = ["/etc/gitconfig", f"{home}/.config/git/config", f"{home}/.gitconfig"]
    if top is not None:
        if not os.path.isdir(f"{top}/.git"):
            return None  # a worktree or a submodule
        files += [f"{top}/.git/config", f"{top}/.git/config.worktree"]
    found: dict[str, str] = {}
    for file in files:
        text = _text(file)
        aliases = None if text is None else _aliases(text)
        if aliases is None:
            return None
        found.update(aliases)
    return found


def _text(file: str) -> str | None:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(LARGEST + 1)
    except FileNotFoundError:
        return ""
    except OSError:
        return None
    return text if len(text) <= LARGEST else None


def _aliases(text: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    section = ""
    for written in text.replace("\\\r\n", "").replace("\\\n", "").splitlines():
        line = written.strip()
        head = _SECTION.match(line)
        if head is not None:
            section = head[1].lower()
            if section.startswith(("include", "alias.")) or (section == "alias" and head[2]):
                return None
            line = line[head.end() :].strip()
        key = _KEY.match(line) if section in ("alias", "help") else None
        if key is None:
            continue
        name, value = key[1].lower(), _value(key[2] or "")
        if section == "alias":
            found[name] = value
        elif name == "autocorrect" and value not in ("0", "never", "prompt", "show", "false", "no", "off"):
            found[AUTOCORRECT] = value
    return found


def _value(written: str) -> str:
    pieces: list[str] = []
    for quoted, escape, comment, plain, odd in _PIECE.findall(written.strip()):
        if comment:
            break
        text = quoted or escape
        pieces.append(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text) if text else plain or odd)
    return "".join(pieces).strip()
