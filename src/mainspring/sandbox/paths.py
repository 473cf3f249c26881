"""Finds the read-only paths of a workspace: protected ones (security F5), also when missing or a link.

A mount point cannot be removed, renamed or replaced, so a protected path is mounted on itself, read-only. But its
parent folder can still be renamed, with everything in it, and replaced: so each folder on the way is mounted on
itself, too. A link cannot be a mount point; its parent folder is read-only instead, and each other entry in it is
writable by itself. A missing path gets a placeholder while the sandbox is open (`placeholders.py`).

The search goes a few folders deep and is bounded: it runs before every command. The whole table applies at the top of
a workspace; deeper only what makes a repository or configures us, since each path costs a mount.

The module also finds the repository that a working folder belongs to, if that is outside the folder: above it, or
behind a file. The git profile opens it as any other (`git.py`): everything else out there stays read-only. It is the
one that git itself would use, and only if it is certainly the person's own: it belongs to our user, and if a file
`.git` leads to it, as for worktrees and submodules, it points back. An archive with such a file opens nothing.
"""

# ruff: noqa: PTH113, PTH114, PTH116, PTH118, PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mainspring.processes.paths import Resolved, is_within
from mainspring.processes.protected_paths import TABLE, is_protected
from mainspring.sandbox.bubblewrap import TEMPORARY, SandboxPath, SandboxPathAccess
from mainspring.sandbox.git import (
    POINTER,
    WORKTREE,
    find_nested_repositories,
    is_repository,
    read_git_pointer,
    read_small_file,
    resolve_git_file,
)
from mainspring.sandbox.placeholders import is_ours

DEEPEST = 64  # parent folders


class OuterRepository(NamedTuple):
    """`why`: it stays read-only."""

    repository: str  # the folder that all of its worktrees share
    top: str  # the folder with its `.git`
    why: str = ""


def find_outer_repository(folder: str, denied: Iterable[str] = ()) -> OuterRepository | None:
    """None: there is none, or it is in the folder itself. All paths are real ones."""
    top = folder
    for _ in range(DEEPEST):
        entry = f"{top}/.git"
        if os.path.lexists(entry) and not is_ours(entry):
            if os.path.isfile(entry) and not os.path.islink(entry):
                return _behind(entry, folder, denied)
            if top == folder:
                return None
            if os.path.islink(entry):
                return OuterRepository(entry, top, "its '.git' is a link")
            if is_repository(entry):
                return OuterRepository(entry, top, _closed(entry, top, folder, denied))
        elif is_repository(top):
            return None  # bare for git: there is no working folder
        if top == "/":
            return None
        top = os.path.dirname(top)
    return None


def _behind(entry: str, folder: str, denied: Iterable[str]) -> OuterRepository | None:
    """The target of a file."""
    own, top = read_git_pointer(entry, POINTER), os.path.dirname(entry)
    if own is None:
        return None
    common = read_git_pointer(f"{own}/commondir", b"") or own
    if is_within(common, folder):
        return None
    if not _names_it(own, entry):
        return OuterRepository(common, top, f"'{entry}' leads to it, but it does not point back")
    return OuterRepository(common, top, _closed(common, top, folder, denied))


def _names_it(own: str, entry: str) -> bool:
    """A worktree's folder has the path of its `.git`; a submodule's configuration that of its working folder."""
    if os.path.lexists(f"{own}/commondir"):
        return os.path.realpath(os.path.join(own, os.fsdecode(read_small_file(f"{own}/gitdir").strip()))) == entry
    named = WORKTREE.search(read_small_file(f"{own}/config"))
    return named is not None and f"{os.path.realpath(os.path.join(own, os.fsdecode(named[1].strip())))}/.git" == entry


def _closed(repository: str, top: str, folder: str, denied: Iterable[str]) -> str:
    if any(is_within(repository, os.path.realpath(path)) for path in denied):
        return "its path is denied"
    if top != folder and any(is_within(top, hidden) for hidden in (*TEMPORARY, "/run")):
        return "its other files are hidden in the sandbox, so git would treat them as removed"
    with contextlib.suppress(OSError):
        if os.stat(repository).st_uid == os.geteuid():
            return ""
    return "it belongs to another user"


# Missing at the top of a workspace, these cannot be created: the next tool that starts there obeys them. Not the whole
# table: an empty folder in the place of `uv.toml` or `.npmrc` stops the programs that read it.
HELD = (".git", ".mainspring", ".claude", ".mcp.json", ".vscode", ".husky", ".envrc")
BARE = "HEAD"  # with one, a folder without `.git` can pose as a repository

DEEPER = frozenset([".git", ".hg", ".svn", ".jj", ".mainspring", ".claude", ".mcp.json"])
ENDS = frozenset([tuple(end.split("/")) for row in TABLE for end in row.ends.split()])
SKIPPED = frozenset(["node_modules", "__pycache__", "target", ".venv", "venv"])  # many folders, no repositories
DEPTH = 3  # folders below the top
MOST_FOLDERS = 300  # searched; some 20 us each at first, 3 us when nothing changed
SETTLED = 50_000_000  # nanoseconds; the clock of file systems ticks every 4 ms, and a change within a tick is not seen
MOST_PLACES = 60  # of one workspace; some 0.1 ms each
MOST_NESTED = 40  # repositories that an index names
MOST_PIECES = 200  # of a folder that is mounted entry by entry


class WorkspacePaths(NamedTuple):
    places: tuple[SandboxPath, ...]
    missing: tuple[str, ...]  # to be created before the mounts
    notes: tuple[str, ...]  # for the person
    repositories: tuple[str, ...] = ()  # their folders, `.git` mostly; read-only, unless the git profile opens them
    unborn: tuple[str, ...] = ()  # paths where git would obey a new repository: get a placeholder, but not for git
    protected: tuple[str, ...] = ()  # the existing ones
    frozen: tuple[str, ...] = ()  # folders in which a link must not be replaced
    outer: OuterRepository | None = None  # the repository that contains it
    no_repository: bool = False  # neither here nor above: git may create one


class DirectoryListing(NamedTuple):
    """A folder's content at some time."""

    changed: int  # nanoseconds
    protected: tuple[tuple[str, bool], ...]
    folders: tuple[str, ...]


Seen = dict[tuple[str, str], DirectoryListing]  # by workspace and folder; bounded by the size of one search


def scan_workspace(folder: str, writable: tuple[str, ...], seen: Seen, denied: tuple[str, ...] = ()) -> WorkspacePaths:
    """`folder` and all of `writable` are real paths. `seen` is kept from one search to the next."""
    if len(seen) > 10 * MOST_FOLDERS:
        seen.clear()
    protected: list[str] = []
    linked: list[str] = []
    for path, is_link in _found(folder, seen):
        (linked if is_link else protected).append(path)
    ends = [_end(path, writable) for path in linked]
    frozen = tuple(dict.fromkeys([os.path.dirname(path) for path in linked]))
    missing = [] if folder in frozen else _missing(folder)
    missing += [path for path, there in filter(None, ends) if not there]
    reached = [path for path, there in filter(None, ends) if there]
    protected = [path for path in protected[:MOST_PLACES] if path not in missing] + reached
    around = find_outer_repository(folder, denied)
    known = [*_repositories(protected, folder), *([around.repository] if around is not None else [])]
    inner, unborn = _nested(known, folder)
    protected += [path for path in inner if path not in protected]
    repositories = _repositories(protected, folder)
    protected += [path for path in repositories if path not in protected]
    places = [SandboxPath(folder, SandboxPathAccess.WRITE)]
    for path in (*protected, *missing, *unborn, *frozen):
        places += [SandboxPath(on_the_way, SandboxPathAccess.WRITE) for on_the_way in _between(folder, path)]
    places += [piece for path in frozen for piece in _pieces(path)]
    places += [SandboxPath(path, SandboxPathAccess.READ) for path in protected]
    places += [SandboxPath(path, SandboxPathAccess.EMPTY) for path in (*missing, *unborn)]
    notes = [f"'{path}' is a link, so nothing new can be created beside it" for path in linked]
    return WorkspacePaths(
        tuple(places), tuple(missing), tuple(notes), tuple(repositories), tuple(unborn), tuple(protected), frozen,
        around, not _in_repository(folder),
    )  # fmt: skip


def _repositories(protected: list[str], folder: str) -> list[str]:
    """Also those that a file `.git` leads to, if they are in the workspace; not those within another one."""
    found: list[str] = []
    for path in protected:
        if path.endswith("/.git"):
            real = path if os.path.isdir(path) else resolve_git_file(path)  # noqa: PTH112
            if real and is_within(real, folder) and real != folder and not any(is_within(real, one) for one in found):
                found.append(real)
    return found


def _nested(repositories: list[str], folder: str) -> tuple[list[str], list[str]]:
    """Repositories that `git status` enters, at any depth: each one's `.git`, or the first missing path on the way."""
    there: list[str] = []
    unborn: list[str] = []
    paths = [path for repository in repositories for path in find_nested_repositories(repository)]
    for path in [path for path in paths if is_within(path, folder) and path != folder][:MOST_NESTED]:
        if os.path.realpath(path) == path and not os.path.islink(f"{path}/.git"):  # git follows none
            place, exists = first_missing(f"{path}/.git")
            (there if exists and not is_ours(place) else unborn).append(place)
    return there, list(dict.fromkeys(unborn))


def _found(top: str, seen: Seen) -> Iterator[tuple[str, bool]]:
    """Existing protected paths, with whether they are links."""
    folders = [(top, 0)]
    for at, (folder, depth) in enumerate(folders):  # it grows during the loop
        if at >= MOST_FOLDERS:
            return
        listed = _listed(folder, top, depth, seen)
        yield from listed.protected
        if depth < DEPTH:
            folders += [(inner, depth + 1) for inner in listed.folders]


def _listed(folder: str, top: str, depth: int, seen: Seen) -> DirectoryListing:
    """From the last time, if nothing was created, removed or renamed in it since: this time cannot be set back."""
    try:
        changed = os.stat(folder, follow_symlinks=False).st_ctime_ns
        known = seen.get((top, folder))
        if known is not None and known.changed == changed:
            return known
        entries = list(os.scandir(folder))
    except OSError:
        return DirectoryListing(0, (), ())
    protected = [(entry.path, entry.is_symlink()) for entry in entries if _counts(entry.path, top, depth)]
    names = {path for path, _ in protected}
    inner = [
        entry.path
        for entry in entries
        if entry.path not in names and entry.name not in SKIPPED and entry.is_dir(follow_symlinks=False)
    ]
    listed = DirectoryListing(changed, tuple(protected), tuple(inner))
    if time.time_ns() - changed > SETTLED:
        seen[top, folder] = listed
    return listed


def _counts(path: str, top: str, depth: int) -> bool:
    inner = path[len(top) :].strip("/")
    if depth == 0:
        # Below a fictitious folder: the location of the workspace itself does not matter.
        return is_protected(Resolved(inner, f"/workspace/{inner}")) is not None
    parts = tuple(inner.split("/"))
    return parts[-1] in DEEPER or parts[-2:] in ENDS or parts[-3:] in ENDS


def _in_repository(folder: str) -> bool:
    """Also below the top of one: there git takes a file of that name for a revision, and is confused by it."""
    while True:
        repository = f"{folder}/.git"
        if os.path.lexists(repository) and not is_ours(repository):
            return True
        if folder == "/":
            return False
        folder = os.path.dirname(folder)


def _missing(folder: str) -> list[str]:
    """A placeholder of ours or of another session counts as missing, so that all sessions protect it."""
    names = HELD if _in_repository(folder) else (*HELD, BARE)
    paths = [f"{folder}/{name}" for name in names]
    return [path for path in paths if not os.path.lexists(path) or is_ours(path)]


def _end(link: str, writable: tuple[str, ...]) -> tuple[str, bool] | None:
    """The target of a link, if a command could write there, and whether it exists. If not: its first missing folder."""
    path = os.path.realpath(link)
    if not any(is_within(path, folder) and path != folder for folder in writable):
        return None
    return first_missing(path)


def first_missing(path: str) -> tuple[str, bool]:
    """The path itself, if it exists, or its first missing part."""
    there = os.path.lexists(path)
    while not there and not os.path.lexists(parent := os.path.dirname(path)):
        path = parent
    return path, there


def _between(folder: str, path: str) -> list[str]:
    """The folders on the way, without both ends; none if it is elsewhere."""
    if not is_within(path, folder):
        return []
    parts = path[len(folder) :].strip("/").split("/")[:-1]
    return ["/".join([folder, *parts[: at + 1]]) for at in range(len(parts))]


def _pieces(folder: str) -> list[SandboxPath]:
    """A folder in which nothing can be created or removed, though everything in it can be changed."""
    entries = [entry for entry in os.scandir(folder) if not entry.is_symlink()]
    entries.sort(key=lambda entry: not entry.is_dir(follow_symlinks=False))  # if there are too many: folders first
    return [
        SandboxPath(folder, SandboxPathAccess.READ),
        *[SandboxPath(entry.path, SandboxPathAccess.WRITE) for entry in entries[:MOST_PIECES]],
    ]
