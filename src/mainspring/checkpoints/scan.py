"""Looks at a workspace: every name with its kind, mode and content, and what is left out with the reason.

Left out: the internals of version control, what ignore files name, folders that tools can make again (`HEAVY`), our own
home, files and workspaces beyond the limits, and everything that is neither file, link nor folder. Files that hold a
key of this session are left out, too: keys are never stored.

The scan walks from one descriptor to the next and follows no link. It remembers each file's size, times, inode and
mode, and reads a file only if one of them has changed, or if the file had been written just before it was read: within
the resolution of the clock a second write would not show (git calls such an entry racy).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from msgspec import Struct

from mainspring.checkpoints.entries import DIGEST, EntryKind, FileEntry, GitHead, Tree
from mainspring.core.value import Bundle
from mainspring.processes.atomic_write import KEPT_BITS
from mainspring.processes.paths import NO_FILES
from mainspring.processes.safe_open import open_listing
from mainspring.secrets.held import mask_secrets
from mainspring.tools.search_walk import NEVER, IgnoreRules, is_ignored, read_folder_rules, read_rules_above

HEAVY = frozenset({
    "node_modules", "bower_components", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".hypothesis", ".gradle", ".next", ".nuxt", ".terraform", ".direnv", ".parcel-cache", ".turbo",
})  # fmt: skip
RULES = frozenset({".gitignore", ".ignore", ".rgignore"})
LARGEST = 10_000_000  # bytes of a file: the limit of our edit tools
MOST_FILES = 100_000
TOTAL = 1_000_000_000  # bytes of all contents that a session stores, compressed
PLACEHOLDER = 0o1755  # mode of an empty folder that the sandbox makes for a time (`sandbox/placeholders.py`)
RACY = 20_000_000  # nanoseconds: the kernel's clock for files is that coarse
RACY_SECONDS = 2_000_000_000  # for file systems that store whole seconds
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 1 << 20
TRIES = 2  # further ones, if a file changes while it is read

IGNORED = "ignored by .gitignore or a similar file"
REBUILT = "can be made again"
VERSIONS = "belongs to version control"
OURS = "belongs to mainspring"
SPECIAL = "a socket, a pipe or a device"
NO_PROJECT = "a home folder, or the root of the system: only files that edit tools change are stored"
OUT_OF_SCOPE = frozenset({IGNORED, REBUILT, VERSIONS, OURS, NO_PROJECT})  # by their names, whatever they are
SECRET = "it contains a key of this session, and keys are never stored"  # no password


class CheckpointLimits(Bundle):
    file: int = LARGEST
    total: int = TOTAL
    files: int = MOST_FILES


class KnownFile(NamedTuple):
    """What a file looked like when it was read."""

    mark: tuple[int, int, int, int, int]  # size, mtime, ctime, inode, whole mode
    entry: FileEntry
    racy: bool  # it may have changed since without a trace


class CachedFile(Struct, frozen=True, array_like=True, gc=False):
    path: bytes
    mark: tuple[int, int, int, int, int]
    entry: FileEntry


Keep = Callable[[bytes, bytes], str]  # stores a content by its digest; a text: why it cannot be stored


class WorkspaceScan(NamedTuple):
    tree: Tree
    read: int  # files that were read


class _Folder(NamedTuple):
    """The ignore rules that applied in a folder, and what they said about its names."""

    below: str  # from the root to it; empty, or ends with a slash
    stack: list[IgnoreRules]
    ignored: dict[str, bool]


class ScanMemory:
    """What the last scan saw."""

    def __init__(self) -> None:
        self.files: dict[str, KnownFile] = {}
        self.folders: dict[str, _Folder] = {}
        self.rules: dict[str, tuple[tuple[int, int, int, int, int], ...]] = {}  # marks of the rule files of a folder


class WorkspaceScanner:
    """Its memory makes the next scan cheap."""

    def __init__(self, limits: CheckpointLimits | None = None, ours: str | None = None, home: str = "") -> None:
        """`ours`: our home, which is never looked at. `home`: the user's, which is no workspace of its own."""
        self._home = os.path.realpath(home) if home else "/"
        self._limits = limits or CheckpointLimits()
        self._ours = os.path.realpath(ours) if ours else ""
        self.memory = ScanMemory()

    def scan(self, roots: tuple[str, ...], keep: Keep) -> WorkspaceScan:
        """Raises `OSError` if a root cannot be listed at all."""
        walk = _Scan(self.memory, keep, self._limits, self._ours)
        for root in without_inner(roots):
            if root in (self._home, "/"):
                walk.tree[root] = FileEntry("folder", why=NO_PROJECT)
            else:
                walk.root(root)
        self.memory = walk.after
        return WorkspaceScan(walk.tree, walk.read)

    def would_take(self, path: str) -> bool:
        """Whether a new file with this name would be in the next checkpoint, as far as the last scan tells."""
        above, _, name = path.rpartition("/")
        folder = self.memory.folders.get(above)
        if folder is None or name in NEVER:
            return False
        return not is_ignored(f"{folder.below}{name}", folder.stack, folder=False)

    def learn(self, other: WorkspaceScanner) -> None:
        """Takes over the memory of another one, which stays as it is."""
        self.memory.files = dict(other.memory.files)

    # --- the memory, for a later process ---

    def dump(self) -> bytes:
        kept = [
            CachedFile(os.fsencode(path), one.mark, one.entry)
            for path, one in self.memory.files.items()
            if not one.racy
        ]
        return msgspec.msgpack.encode(kept)

    def load(self, data: bytes, has: Callable[[bytes], bool]) -> None:
        """`has`: whether a content is stored. A damaged memory is none."""
        with suppress(msgspec.MsgspecError):
            for one in msgspec.msgpack.decode(data, type=list[CachedFile]):
                if not one.entry.why and has(one.entry.digest):
                    self.memory.files[os.fsdecode(one.path)] = KnownFile(one.mark, one.entry, racy=False)


class _Scan:
    """One walk."""

    def __init__(self, before: ScanMemory, keep: Keep, limits: CheckpointLimits, ours: str) -> None:
        self._before, self._keep, self._limits, self._ours = before, keep, limits, ours
        self.after = ScanMemory()
        self.tree: Tree = {}
        self.read = 0
        self._files = 0

    def root(self, root: str) -> None:
        if root.startswith(NO_FILES):
            self.tree[root] = FileEntry("other", why=SPECIAL)
            return
        try:
            fd = open_listing(root)
        except OSError as error:
            self.tree[root] = FileEntry("folder", why=f"it cannot be read: {error.strerror}")
            return
        try:
            self._folder(fd, root, "", read_rules_above(root))
        finally:
            os.close(fd)

    def _folder(self, fd: int, path: str, below: str, above: list[IgnoreRules]) -> None:
        try:
            with os.scandir(fd) as entries:
                found = list(entries)
        except OSError as error:
            self.tree[path] = _without(self.tree.get(path), f"it cannot be read: {error.strerror}")
            return
        folder = self._rules(fd, path, below, above, found)
        for entry in found:
            name = entry.name
            full = f"{path}/{name}"
            try:
                look = entry.stat(follow_symlinks=False)
            except OSError:  # removed meanwhile
                continue
            kind = stat.S_IFMT(look.st_mode)
            is_folder = kind == stat.S_IFDIR
            why = self._why_not(name, full, kind)
            if not why:
                ignored = folder.ignored.get(name)
                if ignored is None:
                    ignored = folder.ignored[name] = is_ignored(f"{below}{name}", folder.stack, folder=is_folder)
                why = IGNORED if ignored else ""
            if why:
                self.tree[full] = FileEntry(_kind(kind), look.st_mode & KEPT_BITS, why=why)
            elif is_folder:
                self._inner(fd, full, below, folder.stack, look.st_mode & KEPT_BITS)
            elif kind == stat.S_IFREG:
                self.tree[full] = self._file(fd, name, full, look)
            else:
                self.tree[full] = _link(fd, name)

    def _rules(
        self, fd: int, path: str, below: str, above: list[IgnoreRules], found: list[os.DirEntry[str]]
    ) -> _Folder:
        """The rules in force here, and what they are known to say. Those of the last scan hold if no rule file has
        changed, here and above."""
        files = [entry for entry in found if entry.name in RULES or entry.name == ".git"]
        marks = tuple([_rule_mark(fd, entry) for entry in files])
        old = self._before.folders.get(path)
        if old is not None and self._before.rules.get(path) == marks and old.stack[: len(above)] == above:
            folder = _Folder(below, old.stack, old.ignored)
        else:
            folder = _Folder(below, [*above, *(read_folder_rules(fd, below) if files else [])], {})
        self.after.rules[path] = marks
        self.after.folders[path] = folder
        return folder

    def _why_not(self, name: str, full: str, kind: int) -> str:
        if name in NEVER:
            return VERSIONS
        if kind == stat.S_IFDIR:
            if name in HEAVY:
                return REBUILT
            return OURS if full == self._ours else ""
        if kind in (stat.S_IFREG, stat.S_IFLNK):
            self._files += 1
            return f"at most {self._limits.files:,} files are stored" if self._files > self._limits.files else ""
        return SPECIAL

    def _inner(self, fd: int, full: str, below: str, stack: list[IgnoreRules], mode: int) -> None:
        name = full.rpartition("/")[2]
        try:
            inner = os.open(name, _LIST, dir_fd=fd)
        except FileNotFoundError:
            return
        except OSError as error:
            self.tree[full] = FileEntry("folder", mode, why=f"it cannot be read: {error.strerror}")
            return
        try:
            if mode == PLACEHOLDER and not os.listdir(inner):  # noqa: PTH208  # of a descriptor
                return  # a command runs in the sandbox, and this is only there as long as it does
            self.tree[full] = FileEntry("folder", mode)
            self._folder(inner, full, f"{below}{name}/", stack)
        finally:
            os.close(inner)

    def _file(self, fd: int, name: str, full: str, look: os.stat_result) -> FileEntry:
        mark = (look.st_size, look.st_mtime_ns, look.st_ctime_ns, look.st_ino, look.st_mode)
        known = self._before.files.get(full)
        if known is not None and known.mark == mark and not known.racy:
            self.after.files[full] = known
            return known.entry
        entry, mark = self._read(fd, name, look, known)
        newest = max(mark[1], mark[2])
        slack = RACY_SECONDS if not newest % 1_000_000_000 else RACY
        self.after.files[full] = KnownFile(mark, entry, racy=newest + slack >= time.time_ns())
        return entry

    def _read(
        self, folder: int, name: str, look: os.stat_result, known: KnownFile | None
    ) -> tuple[FileEntry, tuple[int, int, int, int, int]]:
        mode, size = look.st_mode & KEPT_BITS, look.st_size
        mark = (size, look.st_mtime_ns, look.st_ctime_ns, look.st_ino, look.st_mode)
        if size > self._limits.file:
            why = f"it had {size:,} bytes; at most {self._limits.file:,} are stored per file"
            return FileEntry("file", mode, size=size, why=why), mark
        try:
            fd = os.open(name, _READ, dir_fd=folder)
        except OSError as error:
            if known is not None and not known.entry.why and (*known.mark[:2], known.mark[3]) == (*mark[:2], mark[3]):
                return msgspec.structs.replace(known.entry, mode=mode), mark  # only its mode has changed
            return FileEntry("file", mode, why=f"it cannot be read: {error.strerror}"), mark
        self.read += 1
        try:
            data, now = _all(fd, self._limits.file), os.fstat(fd)
            for _ in range(TRIES):
                if len(data) == now.st_size and (now.st_size, now.st_mtime_ns) == (look.st_size, look.st_mtime_ns):
                    break
                look = now  # it is being written: once more
                os.lseek(fd, 0, os.SEEK_SET)
                data, now = _all(fd, self._limits.file), os.fstat(fd)
        except OSError as error:
            return FileEntry("file", mode, why=f"it cannot be read: {error.strerror}"), mark
        finally:
            os.close(fd)
        mark = (now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_mode)
        return self._stored(data, now.st_mode & KEPT_BITS), mark

    def _stored(self, data: bytes, mode: int) -> FileEntry:
        digest = blake2b(data, digest_size=DIGEST).digest()
        if len(data) > self._limits.file:
            why = f"it has more than {self._limits.file:,} bytes"
        else:
            why = SECRET if mask_secrets(data) != data else self._keep(digest, data)
        return FileEntry("file", mode, digest, len(data), why=why)


def without_inner(roots: tuple[str, ...]) -> list[str]:
    """The folders without those that are in another one."""
    real = sorted({os.path.realpath(root) for root in roots})
    return [one for one in real if not any(one != other and one.startswith(f"{other.rstrip('/')}/") for other in real)]


def _rule_mark(fd: int, entry: os.DirEntry[str]) -> tuple[int, int, int, int, int]:
    name = ".git/info/exclude" if entry.name == ".git" else entry.name
    try:
        look = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return (0, 0, 0, 0, 0)
    return (look.st_size, look.st_mtime_ns, look.st_ctime_ns, look.st_ino, look.st_mode)


def _kind(kind: int) -> EntryKind:
    return _KINDS.get(kind, "other")


_KINDS: dict[int, EntryKind] = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "folder"}


def _without(entry: FileEntry | None, why: str) -> FileEntry:
    return FileEntry("folder", entry.mode if entry is not None else 0, why=why)


def _link(folder: int, name: str) -> FileEntry:
    try:
        return FileEntry("link", target=os.fsencode(os.readlink(name, dir_fd=folder)))
    except OSError as error:
        return FileEntry("link", why=f"it cannot be read: {error.strerror}")


def _all(fd: int, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size <= most and (piece := os.read(fd, min(_BLOCK, most + 1 - size))):
        pieces.append(piece)
        size += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# --- HEAD -----------------------------------------------------------------------------------------------------


def read_heads(roots: tuple[str, ...]) -> tuple[GitHead, ...]:
    """Of the repositories that the roots are in. Read from the files: git itself takes several milliseconds."""
    found: dict[str, GitHead] = {}
    for root in roots:
        folder = root
        while folder and not os.path.lexists(f"{folder}/.git"):  # pathlib takes 8 ms to load
            folder = folder.rpartition("/")[0]
        if folder and folder not in found:
            with suppress(OSError, ValueError):
                found[folder] = _head(folder)
    return tuple(found.values())


def _head(folder: str) -> GitHead:
    git = f"{folder}/.git"
    if not os.path.isdir(git):  # noqa: PTH112  # as above
        link = _text(git)
        git = os.path.join(folder, link.removeprefix("gitdir:").strip())  # noqa: PTH118  # as above
    said = _text(f"{git}/HEAD")
    if not said.startswith("ref: "):
        return GitHead(folder, commit=said)
    name = said.removeprefix("ref: ").strip()
    branch = name.removeprefix("refs/heads/")
    return GitHead(folder, branch if branch.isprintable() else "", _commit(git, name))


def _commit(git: str, name: str) -> str:
    common = git
    with suppress(OSError):
        common = os.path.join(git, _text(f"{git}/commondir"))  # noqa: PTH118  # as above
    for base in (git, common):
        with suppress(OSError):
            return _text(f"{base}/{name}")
    with suppress(OSError):
        for line in _text(f"{common}/packed-refs", most=10_000_000).split("\n"):
            commit, _, ref = line.partition(" ")
            if ref == name:
                return commit
    return ""


def _text(file: str, *, most: int = 4_096) -> str:
    fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be a pipe
    try:
        return _all(fd, most - 1).decode(errors="replace").strip()
    finally:
        os.close(fd)
