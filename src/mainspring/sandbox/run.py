"""Runs one command in the sandbox: its profile, its placeholders, and the checks after its end.

All reports about a command go into its own notes: several commands run beside each other. They share a
`SandboxRunState`.

Git ignores the placeholders (`placeholders.py`). It does not see empty folders, but `git clean -d` and `git stash -u`
remove them, fail at ours, and leave their work half done. So with the git profile `info/exclude` shows a file of ours:
the repository's own lines, and then these folders.

A check verifies that the sandbox was built from the paths that were decided on (security X3). Bubblewrap mounts by
name, and a command that still runs in another sandbox can replace folders of the workspace with links meanwhile: then
a folder from outside would be mounted writable in the workspace. Bubblewrap 0.8 accepts no descriptor instead of a
name. So the first thing that runs inside is our check: every writable mount in a working folder has to come from that
working folder, wherever in it that is by now. The kernel reports the source of a mount, whatever its name was.
"""

# ruff: noqa: PTH102, PTH105, PTH106, PTH112, PTH114, PTH208  # pathlib takes 8 ms to load

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import NamedTuple

from mainspring.processes.child import SandboxAccess
from mainspring.processes.paths import is_within
from mainspring.sandbox import git, git_quarantine
from mainspring.sandbox.bubblewrap import SandboxPath, SandboxPathAccess
from mainspring.sandbox.git import GitProfile, iter_working_trees, read_small_file
from mainspring.sandbox.paths import BARE, Seen, WorkspacePaths, first_missing, scan_workspace
from mainspring.sandbox.placeholders import AssumedPlaceholders, Placeholders, is_our_file, is_ours

NAME = "info/exclude"
SPECIAL = re.compile(rb"([\\*?\[\]!# ])")


def hide_placeholders_from_git(repository: str, held: Iterable[str], state: str) -> SandboxPath | None:
    """`state`: a folder of ours. None: no placeholder is in the repository, or nothing can be shown there."""
    path = f"{repository}/{NAME}"
    paths = sorted(held)
    found = {
        _line(top, one)
        for top, _ in iter_working_trees(repository)
        for one in paths
        if is_within(one, top) and one != top
    }
    if not found or os.path.islink(path) or os.path.islink(f"{repository}/info") or not os.path.isfile(path):  # noqa: PTH113
        return None
    text = b"\n".join([read_small_file(path).rstrip(b"\n"), *sorted(found), b""])
    return SandboxPath(path, SandboxPathAccess.READ, _stored(text, state))


def _line(top: str, path: str) -> bytes:
    return b"/" + SPECIAL.sub(rb"\\\1", os.fsencode(path[len(top) :].strip("/"))) + b"/"


def _stored(text: bytes, state: str) -> str:
    """Named after its content: it mostly exists already, and concurrent commands may see another one."""
    path = f"{state}/ignored-{hashlib.sha256(text).hexdigest()[:16]}"
    if read_small_file(path) != text:
        new = f"{path}.{os.urandom(4).hex()}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with contextlib.closing(os.fdopen(descriptor, "wb")) as file:
            file.write(text)
        os.replace(new, path)
    return path


class SandboxRunState:
    """The state that the commands of a session share. All paths are real ones."""

    def __init__(self, folders: tuple[str, ...], more: tuple[str, ...], denied: tuple[str, ...], state: str) -> None:
        """`more`: writable besides the working folders, with nothing protected in it. `state`: a folder of ours."""
        self.folders, self.more, self.denied, self.state = folders, more, denied, state
        self.writable = (*folders, *more)
        self.aside = f"{os.path.realpath(state)}/aside"
        self.held = {folder: Placeholders(folder, state) for folder in folders}  # repositories come later
        self.bare = {folder for folder in folders if git.is_repository(folder)}  # a person's own
        self.seen: Seen = {}
        self.at_work: Counter[str] = Counter()  # open repositories, with the number of commands in each
        self.remade: set[str] = set()  # those whose configuration is writable: for one command alone

    def held_in(self, repository: str) -> Placeholders:
        """By its own name: another session may work in it from another folder."""
        if repository not in self.held:
            self.held[repository] = Placeholders(repository, self.state, self.folders)
        return self.held[repository]

    def assume_placeholders(self) -> SandboxRunState:
        """The same, but it only assumes that each placeholder can be created."""
        return _AssumingState(self)

    def close(self) -> None:
        for held in self.held.values():
            held.close()


class _AssumingState(SandboxRunState):
    def __init__(self, real: SandboxRunState) -> None:  # shares what the real one knows
        self.__dict__.update(real.__dict__)

    def held_in(self, repository: str) -> Placeholders:  # noqa: ARG002  # one is like the other
        return AssumedPlaceholders()


class SandboxRun:
    """`stack` is closed when the command has ended: the last callback runs first."""

    def __init__(self, shared: SandboxRunState, walls: SandboxAccess, stack: ExitStack, notes: list[str]) -> None:
        self._shared, self._walls, self._stack, self._notes = shared, walls, stack, notes
        self._is_git = walls in (SandboxAccess.GIT, SandboxAccess.INIT)

    def places(self) -> list[SandboxPath]:
        shared = self._shared
        places = [SandboxPath(folder, SandboxPathAccess.WRITE) for folder in shared.more]
        found = {
            folder: scan_workspace(folder, shared.writable, shared.seen, shared.denied) for folder in shared.folders
        }
        room = self._open_room(found) if self._is_git else GitProfile()
        kept = set[str]()
        for folder, seen in found.items():
            held = self._hold(folder, seen, room)
            shut = {*seen.missing, *seen.unborn, *room.opened} - held
            places += [place for place in seen.places if place.path not in shut]
            kept |= held
        places += [*self._ignored(room, kept), *room.places]
        self._stack.callback(self._look_for_gaps, _looks(places))
        return places

    def read_only(self, paths: Iterable[str]) -> list[SandboxPath]:
        """Paths that the settings protect from writing. A missing one gets a placeholder, as a protected one does."""
        places: list[SandboxPath] = []
        for path in paths:
            top = next((folder for folder in self._shared.writable if is_within(path, folder)), None)
            if top is None:
                continue  # nothing outside of these can be written
            missing, exists = first_missing(path)
            if exists:
                places.append(SandboxPath(path, SandboxPathAccess.READ))
            elif self._shared.held_in(top).hold([missing]):
                self._stack.callback(self._shared.held_in(top).release)
                places.append(SandboxPath(missing, SandboxPathAccess.EMPTY))
            else:
                self._stack.callback(self._shared.held_in(top).release)
        return places

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Variables for git."""
        if not self._is_git:
            return {}
        added = git.git_environment(env)
        if self._walls is SandboxAccess.INIT:
            added["PATH"] = git_quarantine.path_of(env, self._shared.writable)
        return added

    # --- before ---------------------------------------------------------------------------------------------------

    def _hold(self, folder: str, seen: WorkspacePaths, room: GitProfile) -> set[str]:
        """Placeholders in a working folder, except what git may create there; that is checked afterwards."""
        shared, stack = self._shared, self._stack
        is_new = self._may_be_new(folder, seen)
        is_empty = self._is_git and not os.listdir(folder)  # `git clone URL .` requires that
        free = {*seen.unborn} if self._is_git else set[str]()
        free |= {f"{folder}/.git", f"{folder}/{BARE}"} if is_new or is_empty else set()
        free |= {*seen.missing} if is_empty else set()
        held = shared.held_in(folder).hold([path for path in (*seen.missing, *seen.unborn) if path not in free])
        stack.callback(shared.held_in(folder).release)
        self._notes += seen.notes
        stack.callback(self._keep_from_posing, folder)
        if is_new or is_empty:
            stack.callback(self._look_at_new, folder, alone=not room.opened)
        elif self._is_git and not seen.repositories and seen.outer is None:
            self._notes.append(f"'{folder}' contains no repository that can be written from there")
        if is_empty:
            stack.callback(self._look_at_made, [path for path in seen.missing if not path.endswith(("/.git", BARE))])
        return held

    def _may_be_new(self, folder: str, seen: WorkspacePaths) -> bool:
        """Whether git may create a repository there. `git init` does so within another one, too."""
        if not self._is_git or folder in self._shared.bare:
            return False
        own = f"{folder}/.git"
        return seen.no_repository or (self._walls is SandboxAccess.INIT and (not os.path.lexists(own) or is_ours(own)))

    def _open_room(self, found: Mapping[str, WorkspacePaths]) -> GitProfile:
        """For repositories in the working folders, and for those that contain these folders."""
        around = {seen.outer for seen in found.values() if seen.outer is not None}
        inside = {path: None for seen in found.values() for path in seen.repositories}  # in order
        open_ = {one.repository: None for one in around if not one.why and one.repository not in inside}
        self._notes += [
            f"'{one.repository}' can only be read: {one.why}; run git outside the sandbox"
            for one in sorted(around)
            if one.why and one.repository not in inside
        ]
        repositories = [*open_, *inside]
        if self._walls is SandboxAccess.INIT and self._is_alone_in(repositories):
            return self._open_whole(repositories)
        room = self._open_safely(repositories)
        if room.opened:
            # The last callback runs first: it must be a repository again before it is checked.
            self._stack.callback(self._look_after, room, git_quarantine.snapshot_repositories(room))
            self._stack.callback(self._put_back, git_quarantine.read_heads(room.opened))
        return room

    def _open_safely(self, repositories: list[str]) -> GitProfile:
        """Without what leads to code."""
        shared = self._shared
        busy = [path for path in repositories if path in shared.remade]
        self._notes += [f"'{path}' can only be read while 'git init' runs in it: try again" for path in busy]
        free = [path for path in repositories if path not in busy]
        room = git.open_room(free)
        self._notes += room.notes
        files = {**room.files, **self._no_excludes(room.opened)}
        held = set[str]()
        for repository in free:
            mine = [path for path in room.folders if is_within(path, repository)]
            texts = {path: data for path, data in files.items() if is_within(path, repository)}
            if mine or texts:
                held |= shared.held_in(repository).hold(mine, texts)
                self._stack.callback(shared.held_in(repository).release)
        self._count(free)
        missing = {*room.folders, *room.files} - held
        return room._replace(places=tuple([place for place in room.places if place.path not in missing]))

    def _is_alone_in(self, repositories: list[str]) -> bool:
        """Git replaces the configuration: the mounts of other commands would be lost with the old one."""
        shared = self._shared
        held = [shared.held_in(path) for path in repositories]
        busy = [path for path in repositories if shared.at_work[path]]
        if not busy:
            for one in held:
                one.hold(())
                self._stack.callback(one.release)
            busy = [path for path, one in zip(repositories, held, strict=True) if not one.alone()]
        self._notes += [f"'{path}/config' stays read-only: other commands work in the repository" for path in busy]
        return not busy

    def _open_whole(self, repositories: list[str]) -> GitProfile:
        """Including what leads to code: only for git itself (`git_quarantine.py`)."""
        shared = self._shared
        room = git.open_whole(repositories)
        self._notes += room.notes
        self._count(room.opened)
        shared.remade.update(room.opened)
        self._stack.callback(shared.remade.difference_update, room.opened)
        self._stack.callback(self._compare, git_quarantine.snapshot_configs(room.opened))
        return room

    def _no_excludes(self, repositories: Iterable[str]) -> dict[str, bytes]:
        """Without a file in whose place ours could be shown."""
        found: dict[str, bytes] = {}
        for folder in repositories:
            path = f"{folder}/{NAME}"
            if not os.path.lexists(path) or is_our_file(path):
                with contextlib.suppress(OSError):
                    os.mkdir(f"{folder}/info")
                    self._stack.callback(_remove, f"{folder}/info")
                found[path] = b""
        return found

    def _count(self, repositories: Iterable[str]) -> None:
        counted = Counter(repositories)
        self._shared.at_work.update(counted)
        self._stack.callback(self._shared.at_work.subtract, counted)

    def _ignored(self, room: GitProfile, held: set[str]) -> list[SandboxPath]:
        state = os.path.realpath(self._shared.state)
        found = [hide_placeholders_from_git(path, held, state) for path in room.opened]
        return [place for place in found if place is not None]

    # --- after ----------------------------------------------------------------------------------------------------

    def _keep_from_posing(self, folder: str) -> None:
        """With `HEAD`, `objects` and `refs` a folder is a repository for git as soon as its `.git` is not."""
        shared, head = self._shared, f"{folder}/HEAD"  # a folder of that name is our placeholder
        if folder not in shared.bare and not os.path.isdir(head) and git.is_repository(folder):
            words = f"'{head}' makes the folder a repository for git"
            self._notes.append(git_quarantine.move_aside(head, words, shared.aside))

    def _look_after(self, room: GitProfile, before: git_quarantine.RepositoryBefore) -> None:
        self._notes += git_quarantine.take_away(room, before, self._shared.aside, self._shared.writable)

    def _look_at_new(self, folder: str, *, alone: bool) -> None:
        """There was no repository. `alone`: nor in any other working folder."""
        made = git_quarantine.look_at_new(f"{folder}/.git", self._shared.aside, self._shared.writable)
        if made is not None:
            self._notes += made
        elif alone:
            self._notes.append(f"there is no repository in '{folder}' or above it, so none could be written")

    def _look_at_made(self, paths: list[str]) -> None:
        """Checks what a clone brought into an empty folder and could not have created otherwise."""
        for path in paths:
            if os.path.lexists(path) and not is_ours(path):
                words = f"'{path}' is new, and programs that start here obey it"
                self._notes.append(git_quarantine.move_aside(path, words, self._shared.aside))

    def _put_back(self, heads: Mapping[str, bytes]) -> None:
        self._notes += git_quarantine.put_back(heads)

    def _compare(self, was: Mapping[str, git_quarantine.RepositoryConfig]) -> None:
        self._notes += git_quarantine.restore_changed_configs(was, self._shared.aside)

    def _look_for_gaps(self, was: Mapping[str, tuple[int, int]]) -> None:
        """A mount belongs to its mount point: replacing that outside removes it here, too."""
        for path in [path for path, looks in was.items() if _identity(path) not in (looks, None)]:
            self._notes.append(
                f"'{path}' was replaced from outside while a command ran, which could write it from then on: check "
                "it before you start anything there"
            )


def _remove(folder: str) -> None:
    with contextlib.suppress(OSError):  # git put something into it
        os.rmdir(folder)


def _looks(places: Iterable[SandboxPath]) -> dict[str, tuple[int, int]]:
    """Of mount points that should not be written."""
    shut = [place.path for place in places if place.access is not SandboxPathAccess.WRITE]
    return {path: found for path in shut if (found := _identity(path)) is not None}


def _identity(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        return found.st_dev, found.st_ino
    return None


TABLE = "/proc/self/mountinfo"
REFUSED = 126  # the exit code, as for a command that cannot be run
# Its arguments: allowed sources of mounts, the file systems that are known outside, the working folders, the command.
SCRIPT = """
allowed=$1 known=$2 folders=$3; shift 3
set -f
while IFS=' ' read -r _ _ device root point options _; do
    case $options in rw | rw,*) ;; *) continue ;; esac
    case " $known " in *" $device "*) ;; *) continue ;; esac
    IFS='
'
    for folder in $folders; do
        case $point in "$folder" | "$folder"/*) ;; *) continue ;; esac
        found=
        for one in $allowed; do
            case "$device $root" in "$one" | "$one"/*) found=1; break ;; esac
        done
        if [ -z "$found" ]; then
            echo "mainspring: '$point' was swapped while the sandbox was set up. Nothing was run: try again." >&2
            exit REFUSED
        fi
    done
    unset IFS
done </proc/self/mountinfo
unset IFS
set +f
exec "$@"
""".replace("REFUSED", str(REFUSED))


class Mount(NamedTuple):
    device: str
    root: str  # the mounted part of its file system, as the table spells it
    point: str


def check_before(shell: str, folders: Iterable[str], table: str) -> tuple[str, ...]:
    """The words before the command, inside. `table`: the mounts outside."""
    mounts = read_table(table)
    spelled = [escape_mount_path(folder) for folder in folders]
    allowed = [f"{one.device} {one.root}" for folder in spelled for one in find_mount_sources(folder, mounts)]
    known = dict.fromkeys([mount.device for mount in mounts])
    return shell, "-c", SCRIPT, "mainspring", "\n".join(allowed), " ".join(known), "\n".join(spelled)


def read_table(table: str) -> list[Mount]:
    rows = [line.split(" ", 5) for line in table.splitlines()]
    return [Mount(row[2], row[3], row[4]) for row in rows if len(row) > 5]


def find_mount_sources(folder: str, mounts: list[Mount]) -> list[Mount]:
    """The sources of a working folder, and of the mounts in it."""
    around = [mount for mount in mounts if is_within(folder, mount.point)]
    inner = [mount for mount in mounts if is_within(mount.point, folder) and mount.point != folder]
    if not around:
        return inner
    last = max(around, key=lambda mount: len(mount.point.rstrip("/")))  # of two on one path, the later one
    last = [mount for mount in around if mount.point == last.point][-1]
    rest = folder[len(last.point.rstrip("/")) :]
    return [last._replace(root=last.root.rstrip("/") + rest), *inner]


def escape_mount_path(path: str) -> str:
    """As the table does."""
    for letter in "\\ \t\n":
        path = path.replace(letter, f"\\{ord(letter):03o}")
    return path
