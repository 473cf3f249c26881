"""The git room (security X3): `.git` can be written by a command that runs nothing but git, except what leads to code.

Hooks of the repository run in there as well, and they run the project's own scripts, so whoever is in the room is not
trusted: what git runs or obeys later stays as it is. What exists is mounted on itself, read-only. What is missing is
made for as long as the command runs, in a form that git reads as nothing: an empty folder, an empty file, or a
`commondir` that says "here" (`placeholders.py`). What a command may make anew, worktrees, submodules, a rebase that is
not done yet, is looked at when it has ended (`git_quarantine.py`). Which places lead to code, and how, is in
docs/decisions/0016.
"""

# ruff: noqa: PTH112, PTH113, PTH114, PTH118, PTH119, PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from mainspring.sandbox.bubblewrap import SandboxPath, SandboxPathAccess
from mainspring.sandbox.placeholders import is_our_file, is_ours

# What leads to code in the folder of a repository, and what stands in for it when it is missing.
FOLDERS = ("hooks", "branches", "remotes")
FILES: dict[str, bytes] = {"commondir": b".\n", "config.worktree": b"", "objects/info/alternates": b""}
OF_WORKTREE: dict[str, bytes] = {"config.worktree": b""}
NEEDED_OF_WORKTREE = ("commondir", "gitdir")

# What git writes at the top. Anything else that is there may be a file that the configuration includes or runs.
WRITTEN = re.compile(
    r"[A-Z_]+|index|sharedindex\..*|objects|refs|logs|info|packed-refs|shallow|rr-cache|worktrees|modules|lfs|"
    r"rebase-merge|rebase-apply|sequencer|description|gc\.(log|pid)|.*\.lock|fsmonitor--daemon.*|reftable"
)
MOST_REPOSITORIES = 8  # of one session; each costs some 10 mounts
MOST_INNER = 12  # worktrees or submodules of one repository; with more, none of them can be written
MOST_READ = 40  # things at the top that git does not know
DEPTH = 4  # of submodules' names, which may have slashes
LONGEST = 1_000_000  # bytes of a configuration that is read
POINTER = b"gitdir: "
# What the configuration names by a path; only those within the repository's folder are of interest here.
NAMED = re.compile(rb"^[ \t]*(?:path|hookspath)[ \t]*=[ \t]*\"?([^\"\r\n#;]+)", re.IGNORECASE | re.MULTILINE)

# Git would write these into the configuration, which is read-only, or go on after the command's end.
SETTINGS = {"branch.autoSetupMerge": "false", "gc.autoDetach": "false", "maintenance.autoDetach": "false"}


class GitProfile(NamedTuple):
    """`places` hold for what exists and for what is made: see `Placeholders`."""

    opened: tuple[str, ...] = ()  # folders of repositories, submodules included
    places: tuple[SandboxPath, ...] = ()
    folders: tuple[str, ...] = ()  # missing; to be made before the mounts
    files: Mapping[str, bytes] = {}  # the same; nobody changes it
    notes: tuple[str, ...] = ()


def open_room(repositories: Iterable[str]) -> GitProfile:
    """`repositories`: real paths of their folders, `.git` mostly."""
    room = GitProfile()
    for folder in tuple(repositories)[:MOST_REPOSITORIES]:
        if why := _closed(folder):
            room = room._replace(notes=(*room.notes, f"'{folder}' can only be read: {why}"))
        else:
            room = _with(room, folder)
    return room


def open_whole(repositories: Iterable[str]) -> GitProfile:
    """All of them, with what leads to code: see `sandbox_git_again.py` for whom."""
    reasons = {folder: _closed(folder) for folder in repositories}
    opened = tuple([folder for folder, why in reasons.items() if not why])
    return GitProfile(
        opened,
        tuple([SandboxPath(folder, SandboxPathAccess.WRITE) for folder in opened]),
        notes=tuple([f"'{folder}' can only be read: {why}" for folder, why in reasons.items() if why]),
    )


def git_environment(env: Mapping[str, str]) -> dict[str, str]:
    """With our settings after those that are given in the same way."""
    text = env.get("GIT_CONFIG_COUNT", "0")
    first = int(text) if text.isdigit() else 0
    added = {"GIT_CONFIG_COUNT": str(first + len(SETTINGS))}
    for at, (key, value) in enumerate(SETTINGS.items(), first):
        added |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    return added


def is_repository(folder: str) -> bool:
    """As git sees it."""
    return all(os.path.lexists(f"{folder}/{name}") for name in ("HEAD", "objects", "refs"))


def resolve_git_file(path: str) -> str | None:
    """Where a `.git` that is a file leads to: the folder that all of the repository's worktrees share."""
    folder = read_git_pointer(path, POINTER)
    if folder is None:
        return None
    common = read_git_pointer(f"{folder}/commondir", b"")
    return common or folder


def find_submodules(folder: str) -> list[str]:
    """Their folders in `modules`, also those in others."""
    return list(_modules(f"{folder}/modules", DEPTH))


def find_worktrees(folder: str) -> list[str]:
    return [path for path in _entries(f"{folder}/worktrees") if os.path.isdir(path) and not os.path.islink(path)]


def _closed(folder: str) -> str:
    """Why it cannot be opened, if so."""
    if not is_repository(folder):
        return "it is no whole repository"
    if not os.path.isfile(f"{folder}/config"):
        return "it has no file 'config'"  # and nothing can stand in for one
    with contextlib.suppress(OSError):
        os.mkdir(f"{folder}/objects/info")  # noqa: PTH102  # git does, when it needs it
    if not os.path.isdir(f"{folder}/objects/info"):
        return "it has no folder 'objects/info'"
    return _linked(folder, ("config", *FOLDERS, *FILES, "objects", "objects/info", "modules", "worktrees"))


def _linked(folder: str, names: Iterable[str]) -> str:
    for name in names:
        if os.path.islink(f"{folder}/{name}"):
            return f"its '{name}' is a link, on which nothing can be mounted; run git outside of the sandbox"
    return ""


def _with(room: GitProfile, folder: str) -> GitProfile:
    room = _one(room, folder)
    inner, trees = find_submodules(folder), find_worktrees(folder)
    for name, found, add in (("modules", inner, _submodule), ("worktrees", trees, _worktree)):
        if len(found) > MOST_INNER:
            room = _shut(room, f"{folder}/{name}", f"there are more than {MOST_INNER} in it")
            continue
        between = [SandboxPath(path, SandboxPathAccess.WRITE) for path in _between(folder, found)]
        room = room._replace(places=(*room.places, *between))
        for path in found:
            room = add(room, path)
    return room


def _shut(room: GitProfile, path: str, why: str) -> GitProfile:
    note = f"'{path}' can only be read: {why}"
    return room._replace(places=(*room.places, SandboxPath(path, SandboxPathAccess.READ)), notes=(*room.notes, note))


def _one(room: GitProfile, folder: str) -> GitProfile:
    folders = [f"{folder}/{name}" for name in FOLDERS]
    files = {f"{folder}/{name}": data for name, data in FILES.items()}
    no_folders = tuple([path for path in folders if not os.path.lexists(path) or is_ours(path)])
    no_files = {path: data for path, data in files.items() if not os.path.lexists(path) or is_our_file(path)}
    read = [f"{folder}/config", *[path for path in folders if path not in no_folders], *files, *_unknown(folder)]
    return room._replace(
        opened=(*room.opened, folder),
        places=(
            *room.places,
            *[
                SandboxPath(path, SandboxPathAccess.WRITE)
                for path in (folder, f"{folder}/objects", f"{folder}/objects/info")
            ],
            *[SandboxPath(path, SandboxPathAccess.READ) for path in read],
            *[SandboxPath(path, SandboxPathAccess.EMPTY) for path in no_folders],
        ),
        folders=(*room.folders, *no_folders),
        files={**room.files, **no_files},
    )


def _submodule(room: GitProfile, folder: str) -> GitProfile:
    why = _closed(folder)
    return _shut(room, folder, why) if why else _one(room, folder)


def _worktree(room: GitProfile, tree: str) -> GitProfile:
    if why := _linked(tree, (*NEEDED_OF_WORKTREE, *OF_WORKTREE)):
        return _shut(room, tree, why)
    files = {f"{tree}/{name}": data for name, data in OF_WORKTREE.items()}
    missing = {path: data for path, data in files.items() if not os.path.lexists(path) or is_our_file(path)}
    there = [path for name in NEEDED_OF_WORKTREE if os.path.lexists(path := f"{tree}/{name}")]
    return room._replace(
        places=(
            *room.places,
            SandboxPath(tree, SandboxPathAccess.WRITE),
            *[SandboxPath(path, SandboxPathAccess.READ) for path in (*there, *files)],
        ),
        files={**room.files, **missing},
    )


def _unknown(folder: str) -> list[str]:
    """What is there and git does not write, and what the configuration names."""
    known = {"config", *FOLDERS, *FILES}
    strange = [
        path
        for path in _entries(folder)
        if not WRITTEN.fullmatch(name := os.path.basename(path)) and name not in known and not os.path.islink(path)
    ]
    return [*strange[:MOST_READ], *[path for path in named_in(folder) if os.path.lexists(path)]]


def named_in(folder: str) -> list[str]:
    """Paths within it that its configuration includes or takes hooks from."""
    data = read_small_file(f"{folder}/config")
    texts = [os.fsdecode(found.strip()) for found in NAMED.findall(data)]
    around = (folder, os.path.dirname(folder))
    paths = {os.path.normpath(os.path.join(start, text)) for text in texts for start in around}
    return sorted([path for path in paths if path.startswith(f"{folder}/")])


def _modules(folder: str, depth: int) -> Iterator[str]:
    for path in _entries(folder):
        if os.path.islink(path) or not os.path.isdir(path):
            continue
        if any(os.path.lexists(f"{path}/{name}") for name in ("HEAD", "config", "hooks")):  # or what is left of one
            yield path
            yield from _modules(f"{path}/modules", DEPTH)
        elif depth:
            yield from _modules(path, depth - 1)


def _between(folder: str, paths: Iterable[str]) -> list[str]:
    """The folders on the way to each, without both ends: mounted on, they cannot be renamed."""
    found: dict[str, None] = {}
    for path in paths:
        at = os.path.dirname(path)
        while at != folder:
            found[at] = None
            at = os.path.dirname(at)
    return list(found)


def read_git_pointer(path: str, start: bytes) -> str | None:
    """The folder that a file names after `start`, if there is one."""
    text = read_small_file(path)
    if not text.startswith(start) or not (rest := text[len(start) :].strip()):
        return None
    folder = os.path.realpath(os.path.join(os.path.dirname(path), os.fsdecode(rest)))
    return folder if os.path.isdir(folder) else None


def read_small_file(path: str, most: int = LONGEST) -> bytes:
    """Empty for what is no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, most)
    except OSError:  # a folder
        return b""
    finally:
        os.close(descriptor)


def _entries(folder: str) -> list[str]:
    try:
        return sorted([entry.path for entry in os.scandir(folder)])
    except OSError:
        return []
