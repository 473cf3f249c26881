"""The sandbox of a session (X3 to X5): a command goes in as a job and comes out as a job behind walls.

    with sandbox.around(job) as inner:
        ended = await children.run(inner)

Whether there is one is settled at the start (`settle`), said, and not changed behind anybody's back: a command that
cannot get its walls is not run. Permissions are not decided here; the sandbox does not replace them. What the walls are
is in `bubblewrap.py`, what is read-only in `sandbox_places.py`, whether they stand in `sandbox_probe.py`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from mainspring.processes import sandbox_git, sandbox_git_left, sandbox_git_whole, seccomp
from mainspring.processes.bubblewrap import Access, Place, Profile, SandboxError, arguments, check_workspace
from mainspring.processes.child import Job, Walls
from mainspring.processes.paths import within
from mainspring.processes.sandbox_held import Held
from mainspring.processes.sandbox_places import BARE, Seen, Workspace, look

TEMP_NAMES = ("TMPDIR", "TMP", "TEMP")


class Level(StrEnum):
    """What a person wants."""

    REQUIRED = "required"  # or nothing is started
    ON = "on"  # where it can be had; where not, it is said
    OFF = "off"


class Kind(StrEnum):
    """Who makes the walls."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"  # lower ones: see `landlock.py`


class Answer(NamedTuple):
    """Of the probe: whether the walls stand on this machine."""

    program: str | None  # what makes them, if they do
    reason: str = ""  # if not, or if they are lower than they could be: why, and what to do
    kind: Kind = Kind.BUBBLEWRAP


class Standing(NamedTuple):
    """What is in force: for the status, the first frame and the journal."""

    wanted: Level
    program: str | None  # None: commands run without a sandbox
    reason: str = ""  # why not, or why only that
    kind: Kind = Kind.BUBBLEWRAP

    @property
    def level(self) -> Literal["bubblewrap", "landlock", "none"]:
        return self.kind.value if self.program else "none"

    @property
    def words(self) -> str:
        if self.program:
            return f"sandbox: on ({self.kind}; {self.reason})" if self.reason else f"sandbox: on ({self.kind})"
        return f"sandbox: off ({self.reason})"


def settle(wanted: Level, answer: Answer) -> Standing:
    """Raises if it is required and cannot be had."""
    if wanted is Level.OFF:
        return Standing(wanted, None, "switched off by the user's settings")
    if answer.program is None and wanted is Level.REQUIRED:
        raise SandboxError(f"a sandbox is required, but {answer.reason}")
    return Standing(wanted, answer.program, answer.reason, answer.kind)


class Rooms(NamedTuple):
    """What a command finds inside. All are absolute; links on the way to them are followed."""

    folders: tuple[str, ...]  # the workspace: writable, without its protected places
    temp: str  # an existing folder of this session alone: `/tmp` inside; under its own name it can only be read
    state: str  # a folder of ours, for locks
    writable: tuple[str, ...] = ()  # beyond: caches, say; nothing is protected in there
    denied: tuple[str, ...] = ()  # neither read nor written, nor listed


class Way(NamedTuple):
    """To the network: through our proxy (`proxy_namespace.py`)."""

    words: tuple[str, ...] = ()  # they put what follows into the sandbox's network namespace
    env: Mapping[str, str] = {}  # nobody changes it


class Walled(Protocol):
    """Both kinds."""

    notes: tuple[str, ...]  # of the last command: what a person should know

    def around(self, job: Job) -> AbstractContextManager[Job]: ...

    def close(self) -> None: ...


def build(standing: Standing | Answer, rooms: Rooms, *, way: Way | None = None) -> Walled:
    """With landlock there is no way to the network, so none is taken."""
    if standing.program is None:
        raise SandboxError(f"there is no sandbox: {standing.reason}")
    if standing.kind is Kind.BUBBLEWRAP:
        return Sandbox(standing.program, rooms, way=way)
    from mainspring.processes.landlock import Landlocked

    return Landlocked(standing.program, rooms)


class Sandbox:
    """One for a session. Start programs from a thread that lives on: they end with the thread that started them."""

    def __init__(self, program: str, rooms: Rooms, *, way: Way | None = None) -> None:
        """`way`: None: nothing can be reached."""
        machine = seccomp.machine()
        if machine is None:
            raise SandboxError("there is no filter of system calls for this kind of machine: switch the sandbox off")
        self._filter = seccomp.filter_for(machine)
        self._rooms = rooms._replace(
            folders=tuple([os.path.realpath(folder) for folder in rooms.folders]),
            writable=tuple([os.path.realpath(folder) for folder in rooms.writable]),
            temp=os.path.realpath(rooms.temp),
        )
        for folder in (*self._rooms.folders, *self._rooms.writable):
            check_workspace(folder)
        self._aside = f"{os.path.realpath(rooms.state)}/aside"
        self._nothing = _nothing_in(rooms.state)
        self._profile = Profile(program, self._rooms.temp, self._nothing, net=way is not None)
        self._way = way or Way()
        self._env = {**self._way.env, **dict.fromkeys(TEMP_NAMES, "/tmp")}  # noqa: S108  # it is private in there
        self._held = {folder: Held(folder, rooms.state) for folder in self._rooms.folders}  # repositories come later
        self._bare = {folder for folder in self._rooms.folders if sandbox_git.is_repository(folder)}  # a person's own
        self._seen: Seen = {}
        self.notes: tuple[str, ...] = ()  # of the last command: what a person should know

    @contextmanager
    def around(self, job: Job) -> Generator[Job]:
        """The same job behind walls. To be left when it has ended: what is held for it is let go then."""
        with ExitStack() as stack:
            profile = self._profile._replace(places=tuple(self._places(stack, job.walls)))
            # One for each start, since it is read to its end.
            descriptor = os.memfd_create("mainspring-seccomp")
            stack.callback(os.close, descriptor)
            os.write(descriptor, self._filter)
            os.lseek(descriptor, 0, os.SEEK_SET)
            words = (*self._way.words, *arguments(profile, cwd=job.cwd, seccomp=descriptor))
            env = {**job.env, **self._env}
            if job.walls is Walls.GIT:
                env |= sandbox_git.environment(job.env)
            passed = (*job.passed, descriptor)
            yield job._replace(argv=(*words, *job.argv), passed=passed, env=env, keeper=True)

    def close(self) -> None:
        """When nothing runs in it any more."""
        for held in self._held.values():
            held.close()

    def _places(self, stack: ExitStack, walls: Walls) -> list[Place]:
        rooms = self._rooms
        places = [Place(folder, Access.WRITE) for folder in rooms.writable]
        found = {folder: look(folder, self._writable, self._seen, rooms.denied) for folder in rooms.folders}
        self.notes = ()
        room = self._open_room(found, stack) if walls is Walls.GIT else sandbox_git.Room()
        for folder, seen in found.items():
            # Git may make some of what is missing, and it is looked at then.
            is_new = walls is Walls.GIT and seen.no_repository and folder not in self._bare
            free = {*seen.unborn} if walls is Walls.GIT else set[str]()
            free |= {f"{folder}/.git", f"{folder}/{BARE}"} if is_new else set()
            missing = [path for path in (*seen.missing, *seen.unborn) if path not in free]
            held = self._held[folder].hold(missing)
            stack.callback(self._held[folder].release)
            shut = {*seen.missing, *seen.unborn, *room.opened} - held
            places += [place for place in seen.places if place.path not in shut]
            self.notes += seen.notes
            stack.callback(self._keep_from_posing, folder)
            if is_new:
                stack.callback(self._look_at_new, folder, alone=not room.opened)
            elif walls is Walls.GIT and not seen.repositories and seen.outer is None:
                self.notes += (f"no repository lies in '{folder}' that can be written from there",)
        return [*places, *room.places, *_masks(rooms.denied)]

    @property
    def _writable(self) -> tuple[str, ...]:
        return (*self._rooms.folders, *self._rooms.writable)

    def _open_room(self, found: Mapping[str, Workspace], stack: ExitStack) -> sandbox_git.Room:
        """For the repositories that lie in the working folders, and for those that these folders lie in."""
        around = {seen.outer for seen in found.values() if seen.outer is not None}
        inside = {path: None for seen in found.values() for path in seen.repositories}  # in order
        open_ = {one.repository: None for one in around if not one.why and one.repository not in inside}
        self.notes += tuple(
            f"'{one.repository}' can only be read: {one.why}; run git outside of the sandbox"
            for one in sorted(around)
            if one.why and one.repository not in inside
        )
        room = sandbox_git.open_room([*open_, *inside])
        self.notes += room.notes
        held = set[str]()
        for repository in [*open_, *inside]:
            mine = [path for path in room.folders if within(path, repository)]
            files = {path: data for path, data in room.files.items() if within(path, repository)}
            if mine or files:
                held |= self._held_in(repository).hold(mine, files)
                stack.callback(self._held_in(repository).release)
        if room.opened:
            # What is called last is done first: it must be a repository again before it is looked at.
            stack.callback(self._look_after, room, sandbox_git_left.before(room))
            stack.callback(self._put_back, sandbox_git_whole.heads(room.opened))
        missing = {*room.folders, *room.files} - held
        return room._replace(places=tuple([place for place in room.places if place.path not in missing]))

    def _held_in(self, repository: str) -> Held:
        """By its own name: another session may be at work in it from another folder."""
        if repository not in self._held:
            self._held[repository] = Held(repository, self._rooms.state, self._rooms.folders)
        return self._held[repository]

    def _keep_from_posing(self, folder: str) -> None:
        """With `HEAD`, `objects` and `refs` a folder is a repository for git as soon as its `.git` is none."""
        head = f"{folder}/HEAD"  # a folder of that name is ours, and held
        if folder not in self._bare and not os.path.isdir(head) and sandbox_git.is_repository(folder):  # noqa: PTH112
            words = f"'{head}' makes the folder a repository in git's eyes"
            self.notes += (sandbox_git_left.move_aside(head, words, self._aside),)

    def _look_after(self, room: sandbox_git.Room, before: sandbox_git_left.Before) -> None:
        self.notes += tuple(sandbox_git_left.take_away(room, before, self._aside, self._writable))

    def _look_at_new(self, folder: str, *, alone: bool) -> None:
        """There was no repository. `alone`: nor in any other working folder."""
        made = sandbox_git_left.look_at_new(f"{folder}/.git", self._aside, self._writable)
        if made is not None:
            self.notes += tuple(made)
        elif alone:
            self.notes += (f"no repository lies in '{folder}' or above it, so none could be written",)

    def _put_back(self, heads: Mapping[str, bytes]) -> None:
        self.notes += tuple(sandbox_git_whole.put_back(heads))


def _masks(denied: Iterable[str]) -> Generator[Place]:
    """For what is there now: what is not cannot be read."""
    for path in denied:
        real = os.path.realpath(path)
        if os.path.isdir(real):  # noqa: PTH112  # pathlib takes 8 ms to load
            yield Place(real, Access.NO_FOLDER)
        elif os.path.lexists(real):
            yield Place(real, Access.NO_FILE)


def _nothing_in(state: str) -> str:
    """An empty file that nobody may open."""
    path = f"{os.path.realpath(state)}/nothing"
    if not os.path.lexists(path):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o000))
    return path
