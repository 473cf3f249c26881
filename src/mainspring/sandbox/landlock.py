"""The weaker sandbox, without bubblewrap (security X4): Landlock and a filter of system calls, set up by a small helper
program.

Landlock rules only allow, and always a whole tree. So a protected path can be kept only if nothing is allowed on its
parent folders: they are closed, so nothing can be created, removed or renamed directly in them, while everything else
in them can be changed. A workspace without any protected path is open as a whole; protected files that a command
creates there are quarantined when it has ended.

It cannot hide processes and folder listings, protect modes, times and attributes of files outside, end processes that
a command left behind (`Children` does), let a command reach the proxy, or open `.git` for git alone.
"""

# ruff: noqa: PTH118, PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from enum import IntFlag
from typing import NamedTuple

from mainspring import processes
from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.paths import is_within
from mainspring.sandbox import bubblewrap
from mainspring.sandbox.bubblewrap import SandboxError, check_workspace
from mainspring.sandbox.git_quarantine import move_aside
from mainspring.sandbox.paths import Seen, WorkspacePaths, scan_workspace
from mainspring.sandbox.sandbox import SandboxLayout, make_scratch_folders, real_temps, temp_env

HELPER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "processes", "landlock_helper.py")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
MOST_RULES = 20_000  # some 5 us each


class Right(IntFlag):
    """With the kernel's numbers."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_FOLDER = 1 << 3
    REMOVE_FOLDER = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHARACTER_DEVICE = 1 << 6
    MAKE_FOLDER = 1 << 7
    MAKE_FILE = 1 << 8
    MAKE_SOCKET = 1 << 9
    MAKE_PIPE = 1 << 10
    MAKE_BLOCK_DEVICE = 1 << 11
    MAKE_LINK = 1 << 12
    MOVE = 1 << 13
    TRUNCATE = 1 << 14
    DEVICE_REQUESTS = 1 << 15


READ = Right.READ_FILE  # folders can be listed: a right to list the root of a tree covers all of it
CHANGE = Right.WRITE_FILE | Right.TRUNCATE
TREE = (
    CHANGE | Right.REMOVE_FOLDER | Right.REMOVE_FILE | Right.MAKE_FOLDER | Right.MAKE_FILE | Right.MAKE_SOCKET
    | Right.MAKE_PIPE | Right.MAKE_LINK | Right.MOVE
)  # fmt: skip
# Refused unless a rule allows them.
HANDLED = TREE | Right.MAKE_CHARACTER_DEVICE | Right.MAKE_BLOCK_DEVICE | Right.DEVICE_REQUESTS


class LandlockRule(NamedTuple):
    rights: Right
    path: str  # and everything in it; a link is not followed


class LandlockSandbox:
    """Like `Sandbox`: one for a session. `program` is a Python."""

    def __init__(self, program: str, rooms: SandboxLayout) -> None:
        machine = bubblewrap.detect_machine()
        if machine is None:
            raise SandboxError("there is no filter of system calls for this architecture: switch the sandbox off")
        self._filter = bubblewrap.filter_for(machine, families=())  # landlock covers TCP only, of many protocols
        self._program = program
        self._rooms = rooms._replace(
            folders=tuple([os.path.realpath(folder) for folder in rooms.folders]),
            writable=tuple([os.path.realpath(folder) for folder in rooms.writable]),
            temp=os.path.realpath(rooms.temp),
            denied=tuple([os.path.realpath(path) for path in rooms.denied]),
            read_only=tuple([os.path.realpath(path) for path in rooms.read_only]),
        )
        for folder in (*self._rooms.folders, *self._rooms.writable):
            check_workspace(folder)
        self._aside = f"{os.path.realpath(rooms.state)}/aside"
        self._seen: Seen = {}

    @contextmanager
    def around(self, job: ProcessSpec) -> Generator[ProcessSpec]:
        """The same job in the sandbox. Leave the context when it has ended."""
        rooms = self._rooms
        notes = [] if job.notes is None else job.notes
        if job.walls in (SandboxAccess.GIT, SandboxAccess.INIT):
            notes.append("landlock cannot open '.git' for git alone: install the package 'bubblewrap'")
        writable = (*rooms.folders, *rooms.writable)
        found = {folder: scan_workspace(folder, writable, self._seen) for folder in rooms.folders}
        rules = [*_always(rooms), *_of_workspaces(found, (*rooms.denied, *rooms.read_only)), *_readable(rooms.denied)]
        rules += [LandlockRule(TREE, folder) for folder in self._temps(job)]
        if len(rules) > MOST_RULES:
            raise SandboxError(f"landlock would need {len(rules):,} rules: deny fewer paths, or install bubblewrap")
        with ExitStack() as stack:
            for folder, seen in found.items():
                stack.callback(self._look_after, folder, seen, notes)
            descriptor = os.memfd_create("mainspring-landlock")
            stack.callback(os.close, descriptor)
            with open(os.dup(descriptor), "wb") as file:  # noqa: PTH123
                file.write(pack_rules(rules, self._filter, reading=bool(rooms.denied)))
            os.lseek(descriptor, 0, os.SEEK_SET)
            language = job.env.get("LC_CTYPE", "")
            words = (self._program, "-I", "-S", HELPER, str(descriptor), str(os.getpid()), language)
            passed = (*job.passed, descriptor)
            env = {**job.env, **temp_env(job, rooms.temp)}
            yield job._replace(argv=(*words, *job.argv), passed=passed, env=env, notes=notes)

    def around_waiting(self, job: ProcessSpec, held: ExitStack) -> ProcessSpec | None:  # noqa: ARG002
        """None: its helper reads the rules at once."""
        return None

    def close(self) -> None:
        """Nothing to release."""

    def _temps(self, job: ProcessSpec) -> list[str]:
        """Landlock cannot protect a part of a folder, so one that contains something of ours stays closed."""
        rooms = self._rooms
        kept = (*rooms.kept, *rooms.folders, *rooms.denied, rooms.state)
        real = real_temps() if job.walls is SandboxAccess.OWN else ()
        return [folder for folder in real if not any(is_within(os.path.realpath(path), folder) for path in kept)]

    def _look_after(self, folder: str, found: WorkspacePaths, notes: list[str]) -> None:
        for path in found.missing:
            if is_within(path, folder) and os.path.lexists(path):
                words = f"'{path}' was created by a command, and programs that start here obey it"
                notes.append(move_aside(path, words, self._aside))


def pack_rules(rules: Iterable[LandlockRule], program: bytes, *, reading: bool) -> bytes:
    """As the helper reads it."""
    handled = HANDLED | READ if reading else HANDLED
    lines = [b"%d %s" % (rule.rights, os.fsencode(rule.path)) for rule in rules]
    return struct.pack("=QI", handled, len(program)) + program + b"\0".join(lines)


def _always(rooms: SandboxLayout) -> Iterator[LandlockRule]:
    yield LandlockRule(TREE, rooms.temp)
    kept = {*rooms.denied, *rooms.read_only}
    for folder in rooms.writable:
        closed = {parent for path in kept for parent in _around(path, folder)}
        for path in _open_parts(folder, kept, closed):
            yield LandlockRule(TREE if os.path.isdir(path) else CHANGE, path)  # noqa: PTH112
    for device in DEVICES:
        yield LandlockRule(Right.WRITE_FILE | Right.DEVICE_REQUESTS, device)


def _of_workspaces(found: dict[str, WorkspacePaths], denied: tuple[str, ...]) -> Iterator[LandlockRule]:
    """A workspace may be inside another one, so paths that are protected in one are protected in all."""
    kept = {path for workspace in found.values() for path in workspace.protected} | set(denied)
    closed = {folder for workspace in found.values() for folder in workspace.frozen}
    closed |= {parent for path in kept for top in found for parent in _around(path, top)}
    for folder in found:
        for path in _open_parts(folder, kept, closed):
            yield LandlockRule(TREE if os.path.isdir(path) else CHANGE, path)  # noqa: PTH112


def _readable(denied: tuple[str, ...]) -> Iterator[LandlockRule]:
    """Everything but the denied paths."""
    kept = set(denied)
    closed = {parent for path in denied for parent in _around(path, "/")}
    for path in _open_parts("/", kept, closed) if denied else ():
        yield LandlockRule(READ, path)


def _open_parts(path: str, kept: set[str], closed: set[str]) -> Iterator[str]:
    """The largest trees without any path of `kept`. For closed folders, their current content."""
    if path in kept:
        return
    if path not in closed:
        yield path
        return
    try:
        entries = [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
    except OSError:  # a folder that we cannot list needs no rules
        return
    for entry in entries:
        yield from _open_parts(entry, kept, closed)


def _around(path: str, top: str) -> Iterator[str]:
    """Its parent folders, up to `top`, if it is in there."""
    while path != top and is_within(path, top):
        path = os.path.dirname(path)
        yield path


def find_landlock_problem(home: str) -> str:
    """Why landlock does not work here, if so: tries it with `true`."""
    true = processes.find_program("true")
    if true is None:
        return "'true' was not found for the test: install the package 'coreutils'"
    try:
        with make_scratch_folders(home) as (temp, state):
            walls = LandlockSandbox(sys.executable, SandboxLayout((), temp, state))
            with walls.around(ProcessSpec((true,), "/", {})) as job:
                ended = subprocess.run(  # noqa: S603  # our own words
                    list(job.argv), pass_fds=job.passed, env={}, stdin=subprocess.DEVNULL, capture_output=True,
                    timeout=10, check=False, start_new_session=True,
                )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, SandboxError) as error:
        return f"landlock does not work here: {error}"
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {ended.returncode}"]
        return f"landlock does not work here: {said[-1].removeprefix('mainspring-landlock: ')[:200]}"
    return ""
