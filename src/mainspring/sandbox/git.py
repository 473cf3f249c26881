"""The git profile of the sandbox (security X3): a command that runs only git can write `.git`, except what leads to
code.

Hooks of the repository run in it as well, and they run the project's own scripts, so the command is not trusted: files
that git runs or obeys later stay as they are. Existing ones are mounted on themselves, read-only. Missing ones get a
placeholder while the command runs, in a form that git reads as nothing: an empty folder, an empty file, or a
`commondir` that says "here" (`placeholders.py`). New worktrees, submodules and an unfinished rebase are checked when
the command has ended (`git_quarantine.py`). docs/decisions/0016 lists the paths that lead to code.

New links in a repository's folder are quarantined after the command: git follows most of them when it writes, also
later, outside the sandbox. A `COMMIT_EDITMSG` that links to a shell's start file is overwritten with the next commit,
a log grows at the link's target. Git itself makes no links but `HEAD`, in old repositories.

Nested repositories are those that an index names (`git submodule`, or `git add` of a folder with a `.git`). `git
status` enters each of them and obeys its configuration, so their `.git` leads to code at any depth. They are found in
the index: their entries have a mode that no other entry has.
"""

# ruff: noqa: PTH112, PTH113, PTH114, PTH115, PTH116, PTH118, PTH119, PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from mainspring.sandbox.bubblewrap import SandboxPath, SandboxPathAccess
from mainspring.sandbox.placeholders import is_our_file, is_ours

# Paths that lead to code in a repository's folder, and the placeholder for each when it is missing.
FOLDERS = ("hooks", "branches", "remotes")
FILES: dict[str, bytes] = {"commondir": b".\n", "config.worktree": b"", "objects/info/alternates": b""}
OF_WORKTREE: dict[str, bytes] = {"config.worktree": b""}
NEEDED_OF_WORKTREE = ("commondir", "gitdir")

# Files that git writes at the top. Any other file there may be one that the configuration includes or runs.
WRITTEN = re.compile(
    r"[A-Z_]+|index|sharedindex\..*|objects|refs|logs|info|packed-refs|shallow|rr-cache|worktrees|modules|lfs|"
    r"rebase-merge|rebase-apply|sequencer|description|gc\.(log|pid)|.*\.lock|fsmonitor--daemon.*|reftable"
)
MOST_REPOSITORIES = 8  # of one session; each costs some 10 mounts
MOST_INNER = 12  # worktrees or submodules of one repository; with more, none of them can be written
MOST_READ = 40  # unknown files at the top
DEPTH = 4  # of submodules' names, which may have slashes
LONGEST = 1_000_000  # bytes of a configuration that is read
POINTER = b"gitdir: "
# Settings with paths; only paths within the repository's folder matter here.
NAMED = re.compile(rb"^[ \t]*(?:path|hookspath)[ \t]*=[ \t]*\"?([^\"\r\n#;]+)", re.IGNORECASE | re.MULTILINE)

# Git would write these into the configuration, which is read-only, or go on after the command's end.
SETTINGS = {"branch.autoSetupMerge": "false", "gc.autoDetach": "false", "maintenance.autoDetach": "false"}


class GitProfile(NamedTuple):
    """`places` apply to existing paths and to placeholders: see `Placeholders`."""

    opened: tuple[str, ...] = ()  # folders of repositories, including submodules
    places: tuple[SandboxPath, ...] = ()
    folders: tuple[str, ...] = ()  # missing; to be created before the mounts
    files: Mapping[str, bytes] = {}  # the same; never changed
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
    """All of them, including what leads to code: see `git_quarantine.py` for when."""
    reasons = {folder: _closed(folder) for folder in repositories}
    opened = tuple([folder for folder, why in reasons.items() if not why])
    return GitProfile(
        opened,
        tuple([SandboxPath(folder, SandboxPathAccess.WRITE) for folder in opened]),
        notes=tuple([f"'{folder}' can only be read: {why}" for folder, why in reasons.items() if why]),
    )


def git_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Appends our settings to those that are given in the same way."""
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
    """The target of a `.git` that is a file: the folder that all of the repository's worktrees share."""
    folder = read_git_pointer(path, POINTER)
    if folder is None:
        return None
    common = read_git_pointer(f"{folder}/commondir", b"")
    return common or folder


def find_submodules(folder: str) -> list[str]:
    """Their folders in `modules`, also nested ones."""
    return list(_modules(f"{folder}/modules", DEPTH))


def find_worktrees(folder: str) -> list[str]:
    return [path for path in _entries(f"{folder}/worktrees") if os.path.isdir(path) and not os.path.islink(path)]


def _closed(folder: str) -> str:
    """Why it cannot be opened; empty: it can."""
    if not is_repository(folder):
        return "it is not a complete repository"
    if not os.path.isfile(f"{folder}/config"):
        return "it has no file 'config'"  # and there is no placeholder for one
    with contextlib.suppress(OSError):
        os.mkdir(f"{folder}/objects/info")  # noqa: PTH102  # git does, when it needs it
    if not os.path.isdir(f"{folder}/objects/info"):
        return "it has no folder 'objects/info'"
    return _linked(folder, ("config", *FOLDERS, *FILES, "objects", "objects/info", "modules", "worktrees"))


def _linked(folder: str, names: Iterable[str]) -> str:
    for name in names:
        if os.path.islink(f"{folder}/{name}"):
            return f"its '{name}' is a link, on which nothing can be mounted; run git outside the sandbox"
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
    """Existing files that git does not write, and those that the configuration names."""
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
        if any(os.path.lexists(f"{path}/{name}") for name in ("HEAD", "config", "hooks")):  # or remains of one
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
    """Empty if it is not a file."""
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


MOST = 20_000  # entries that are checked: all but the objects, some 400 in most repositories


def find_git_links(repository: str) -> frozenset[tuple[str, str]]:
    """Each with its target."""
    found: list[tuple[str, str]] = []
    folders, left = [repository], MOST
    for folder in folders:  # it grows during the loop
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                left -= 1
                if left < 0:
                    return frozenset(found)
                if entry.is_symlink():
                    found.append((entry.path, os.readlink(entry.path)))
                # A file among the objects is never written to; a folder of them may be a link.
                elif entry.is_dir(follow_symlinks=False) and not folder.endswith("/objects"):
                    folders.append(entry.path)
    return frozenset([one for one in found if not _is_head(*one)])


def _is_head(path: str, end: str) -> bool:
    return path.endswith("/HEAD") and end.startswith("refs/") and ".." not in end


MODE = b"\0\0\xe0\0"  # 160000, as the index stores it
FIRST = 12  # where the first entry begins
BEFORE_MODE = 24  # bytes of an entry
HEADS = (62, 74)  # bytes before the name: with SHA-1, with SHA-256
EXTENDED = 2  # more of them, for some entries
COMPRESSED = 4  # the version in which a name is stored as its difference to the previous one
MOST_TOLD = 0xFFF  # the maximum length in the flags before a name; the name may be longer
LONGEST_NAME = 4_096  # bytes of a name
LARGEST = 200_000_000  # bytes of an index
WORKTREE = re.compile(rb"^[ \t]*worktree[ \t]*=[ \t]*\"?([^\"\r\n]+)", re.IGNORECASE | re.MULTILINE)


def find_nested_repositories(repository: str) -> list[str]:
    """The paths where they are or should be. `repository` is the folder of one: `.git`, say."""
    found = [os.path.join(top, name) for top, index in iter_working_trees(repository) for name in _links(index)]
    return list(dict.fromkeys([os.path.normpath(path) for path in found]))


def iter_working_trees(repository: str) -> Iterator[tuple[str, str]]:
    """Each working tree with its index."""
    named = WORKTREE.search(read_small_file(f"{repository}/config"))
    if named:
        yield os.path.normpath(os.path.join(repository, os.fsdecode(named[1].strip()))), f"{repository}/index"
    elif os.path.basename(repository) == ".git":
        yield os.path.dirname(repository), f"{repository}/index"
    for tree in find_worktrees(repository):
        if pointer := read_small_file(f"{tree}/gitdir").strip():
            yield os.path.dirname(os.path.join(tree, os.fsdecode(pointer))), f"{tree}/index"


def _links(index: str) -> tuple[str, ...]:
    try:
        looks = os.stat(index)
    except OSError:
        return ()
    return _links_of(index, (looks.st_ino, looks.st_size, looks.st_mtime_ns, looks.st_ctime_ns))


@functools.lru_cache(maxsize=64)
def _links_of(index: str, _looks: tuple[int, ...]) -> tuple[str, ...]:
    data = read_small_file(index, LARGEST)
    if not data.startswith(b"DIRC") or MODE not in data:
        return ()
    names = _compressed(data) if data[7] == COMPRESSED else _plain(data)
    return tuple(dict.fromkeys([os.fsdecode(name) for name in names if name]))


def _plain(data: bytes) -> list[bytes]:
    """One entry after the other, with the hash size that fits. In an index that is damaged, or crafted so that we read
    it otherwise than git, everything that may be an entry: an extra name does no harm, since it does not exist.
    """
    whole = [found for head in HEADS if (found := _in_order(data, head)) is not None]
    return whole[0] if whole else list(_looks_like(data))


def _in_order(data: bytes, head: int) -> list[bytes] | None:
    """None: it is no index with hashes of this size."""
    at, found = FIRST, list[bytes]()
    for _ in range(int.from_bytes(data[8:FIRST], "big")):
        name, flags, begins = _named(data, at, head)
        if not _has_length(name, flags):
            return None
        if data[at + BEFORE_MODE : at + BEFORE_MODE + 4] == MODE:
            found.append(name)
        at += (begins - at + len(name) + 8) & ~7  # each entry is followed by one to eight zeros
    return found


def _looks_like(data: bytes) -> Iterator[bytes]:
    at = data.find(MODE)
    while at >= 0:
        for head in HEADS:
            for start in (at - BEFORE_MODE + head, at - BEFORE_MODE + head + EXTENDED):
                yield data[start : start + LONGEST_NAME].partition(b"\0")[0]
        at = data.find(MODE, at + 1)


def _named(data: bytes, at: int, head: int) -> tuple[bytes, bytes, int]:
    """The name of an entry, the flags before it, and where it begins."""
    flags = data[at + head - 2 : at + head]
    begins = at + head + (EXTENDED if flags and flags[0] & 0x40 else 0)
    return data[begins : begins + LONGEST_NAME].partition(b"\0")[0], flags, begins


def _has_length(name: bytes, flags: bytes) -> bool:
    return bool(name) and min(len(name), MOST_TOLD) == int.from_bytes(flags, "big") & MOST_TOLD


def _compressed(data: bytes) -> Iterator[bytes]:
    """All names, one after the other, for both hash sizes: the wrong one ends in nonsense."""
    for head in HEADS:
        at, name = FIRST, b""
        for _ in range(int.from_bytes(data[8:12], "big")):
            entry = data[at : at + head + EXTENDED]
            at += head + (EXTENDED if len(entry) > head and entry[head - 2] & 0x40 else 0)
            drop, at = _number(data, at)
            end = data.find(b"\0", at)
            if end < 0:
                break
            name = name[: len(name) - drop] + data[at:end]
            at = end + 1
            if entry[BEFORE_MODE : BEFORE_MODE + 4] == MODE:
                yield name


def _number(data: bytes, at: int) -> tuple[int, int]:
    """As git packs one, and where it ends."""
    value = 0
    for place in range(at, min(at + 9, len(data))):
        byte = data[place]
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            return value, place + 1
        value += 1
    return 0, len(data)
