"""The sandbox of a session (security X3 to X5): wraps a job so that it runs in the sandbox.

    with sandbox.around(job) as inner:
        ended = await children.run(inner)

The status is decided and reported at the start (`decide_status`), and does not change silently: a command whose
sandbox cannot be set up is not run. The sandbox does not replace permissions, which are decided elsewhere. The profile
is in `bubblewrap.py`, read-only paths in `paths.py`, the work before and after a command in `run.py`.

A probe at the start tests whether the sandbox works on this machine, by running `true` in it. A success is stored in
our folder, for this bubblewrap, this kernel, this user and this version of the sandbox: the next start only compares.
A failure is tested again, since installing a package or changing a setting may fix it. If a stored success is wrong,
commands fail with a message; none runs without a sandbox. A home that is not writable is no failure: the probe uses
another folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

import msgspec

from mainspring import sandbox
from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.environment import find_program
from mainspring.processes.paths import is_within
from mainspring.sandbox import bubblewrap, run
from mainspring.sandbox.bubblewrap import (
    TEMPORARY,
    BubblewrapProfile,
    SandboxError,
    SandboxPath,
    SandboxPathAccess,
    bubblewrap_arguments,
    check_workspace,
)
from mainspring.sandbox.run import SandboxRun, SandboxRunState

MOST_HELD = 256  # files that are kept open for a sandbox that waits
TEMP_NAMES = ("TMPDIR", "TMP", "TEMP")


class SandboxLevel(StrEnum):
    """The level that the user chose."""

    REQUIRED = "required"  # or nothing starts
    ON = "on"  # where available; otherwise a warning says so
    OFF = "off"


class SandboxBackend(StrEnum):
    """The program that makes the sandbox."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"  # weaker: see `landlock.py`


class ProbeResult(NamedTuple):
    """Of the probe: whether the sandbox works on this machine."""

    program: str | None  # the sandbox program, if it works
    reason: str = ""  # why not, or why only the weaker one, and what to do
    kind: SandboxBackend = SandboxBackend.BUBBLEWRAP


class SandboxStatus(NamedTuple):
    """The current status: for the status display, the first frame and the journal."""

    wanted: SandboxLevel
    program: str | None  # None: commands run without a sandbox
    reason: str = ""  # why not, or why only that
    kind: SandboxBackend = SandboxBackend.BUBBLEWRAP

    @property
    def level(self) -> Literal["bubblewrap", "landlock", "none"]:
        return self.kind.value if self.program else "none"

    @property
    def words(self) -> str:
        if self.program:
            return f"sandbox: on ({self.kind}; {self.reason})" if self.reason else f"sandbox: on ({self.kind})"
        return f"sandbox: off ({self.reason})"


def decide_status(wanted: SandboxLevel, answer: ProbeResult) -> SandboxStatus:
    """Raises if it is required and not available."""
    if wanted is SandboxLevel.OFF:
        return SandboxStatus(wanted, None, "switched off by the user's settings")
    if answer.program is None and wanted is SandboxLevel.REQUIRED:
        raise SandboxError(f"a sandbox is required, but {answer.reason}")
    return SandboxStatus(wanted, answer.program, answer.reason, answer.kind)


@contextmanager
def make_scratch_folders(home: str) -> Generator[tuple[str, str]]:
    """Two new folders for a probe: in our home or, if that is not writable, in the system's temporary folder. Raises
    `OSError` if neither is.
    """
    import tempfile

    try:
        folder = tempfile.mkdtemp(dir=home)
    except OSError:
        folder = tempfile.mkdtemp()
    try:
        for name in ("temp", "state"):
            os.mkdir(f"{folder}/{name}", 0o700)  # noqa: PTH102  # pathlib takes 8 ms to load
        yield f"{folder}/temp", f"{folder}/state"
    finally:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


class SandboxLayout(NamedTuple):
    """What a command sees inside. All paths are absolute; links on the way to them are followed."""

    folders: tuple[str, ...]  # the workspace: writable, except its protected paths
    temp: str  # an existing folder of this session alone: `/tmp` inside; under its own name it is read-only
    state: str  # a folder of ours, for locks
    writable: tuple[str, ...] = ()  # additional: caches, say; nothing is protected in there
    denied: tuple[str, ...] = ()  # neither read nor written, nor listed
    kept: tuple[str, ...] = ()  # never written, also where the real temporary folders can be: our home, say, and where
    # all sessions have their private folders. They must exist as long as the sandbox.
    read_only: tuple[str, ...] = ()  # not written, nor created where they are missing


class NetworkAccess(NamedTuple):
    """Access to the network, through our proxy (`proxy.py`)."""

    words: tuple[str, ...] = ()  # the words before a command that start it in the sandbox's network namespace
    env: Mapping[str, str] = {}  # never changed


class SandboxRunner(Protocol):
    """Both kinds."""

    def around(self, job: ProcessSpec) -> AbstractContextManager[ProcessSpec]: ...

    def around_waiting(self, job: ProcessSpec, held: ExitStack) -> ProcessSpec | None: ...

    def close(self) -> None: ...


def build_sandbox(
    standing: SandboxStatus | ProbeResult, rooms: SandboxLayout, *, way: NetworkAccess | None = None
) -> SandboxRunner:
    """Landlock supports no proxy, so it gets none."""
    if standing.program is None:
        raise SandboxError(f"there is no sandbox: {standing.reason}")
    if standing.kind is SandboxBackend.BUBBLEWRAP:
        return Sandbox(standing.program, rooms, way=way)
    return sandbox.LandlockSandbox(standing.program, rooms)


class Sandbox:
    """One for a session. Start programs from a thread that lives on: they end with the thread that started them."""

    def __init__(self, program: str, rooms: SandboxLayout, *, way: NetworkAccess | None = None) -> None:
        """`way`: None: no network."""
        machine = bubblewrap.detect_machine()
        if machine is None:
            raise SandboxError("there is no filter of system calls for this architecture: switch the sandbox off")
        self._filter = bubblewrap.filter_for(machine)
        rooms = rooms._replace(
            folders=tuple([os.path.realpath(folder) for folder in rooms.folders]),
            writable=tuple([os.path.realpath(folder) for folder in rooms.writable]),
            temp=os.path.realpath(rooms.temp),
        )
        for folder in (*rooms.folders, *rooms.writable):
            check_workspace(folder)
        # Our own folder, too: a command could lock its files from inside, and then we would wait.
        self._denied = tuple([os.path.realpath(path) for path in (*rooms.denied, rooms.state)])
        self._read_only = tuple([os.path.realpath(path) for path in rooms.read_only])
        self._shared = SandboxRunState(rooms.folders, rooms.writable, rooms.denied, rooms.state)
        self._profile = BubblewrapProfile(program, rooms.temp, _nothing_in(rooms.state), net=way is not None)
        self._way = way or NetworkAccess()
        self._temp = _identity(rooms.temp)
        self._kept = (os.path.dirname(rooms.temp), *[os.path.realpath(path) for path in rooms.kept])  # noqa: PTH120
        shell = find_program("sh", outside=rooms.folders)
        if shell is None:
            raise SandboxError("'sh' was not found outside the working folders: install it")
        self._shell = shell

    @contextmanager
    def around(self, job: ProcessSpec) -> Generator[ProcessSpec]:
        """The same job in the sandbox. Leave the context when it has ended: then its placeholders are released.

        Reports for the person are added to its `notes`; they are complete when the context is left.
        """
        notes: list[str] = [] if job.notes is None else job.notes
        with ExitStack() as stack:
            visit = SandboxRun(self._shared, job.walls, stack, notes)
            yield self._wrap(job._replace(notes=notes), visit, stack)

    def around_waiting(self, job: ProcessSpec, held: ExitStack) -> ProcessSpec | None:
        """The same for a job that waits at its gate, in the usual sandbox. Nothing is created for it, so it gets
        through only in the place of a job that `around` has prepared.

        Bubblewrap mounts by name before the gate, so the job that takes its place must find the same files under these
        names. `held` keeps them open: no other file gets the number of one of them.
        """
        if job.walls is not SandboxAccess.USUAL or self._way.words:
            return None
        unused = ExitStack()  # never closed: there is nothing to release, and no command to look after
        visit = SandboxRun(self._shared.assume_placeholders(), job.walls, unused, [])
        wrapped = self._wrap(job, visit, held)
        assert isinstance(wrapped.built_from, BuiltFrom)
        if len(wrapped.built_from.files) > MOST_HELD:
            return None
        for path in wrapped.built_from.files:
            held.callback(os.close, os.open(path, os.O_PATH | os.O_CLOEXEC))
        return wrapped

    def _wrap(self, job: ProcessSpec, visit: SandboxRun, stack: ExitStack) -> ProcessSpec:
        if self._temp is not None and _identity(self._profile.temp) != self._temp:
            raise SandboxError(f"'{self._profile.temp}', the sandbox's own '/tmp', was replaced: restart mainspring")
        real = real_temps() if job.walls is SandboxAccess.OWN else ()
        found = [*visit.places(), *[SandboxPath(folder, SandboxPathAccess.WRITE) for folder in real]]
        masks = [*_masks(self._denied), *visit.read_only(self._read_only), *_kept_in(real, self._kept)]
        places = (*found, *masks, *_on_the_way(masks, found))
        # One for each start, since it is read to its end.
        descriptor = os.memfd_create("mainspring-seccomp")
        stack.callback(os.close, descriptor)
        os.write(descriptor, self._filter)
        os.lseek(descriptor, 0, os.SEEK_SET)
        profile = self._profile._replace(places=places)
        mounting = bubblewrap_arguments(profile, cwd=job.cwd, seccomp=descriptor, gate=job.gate)
        check = self._check(places)
        env = {**job.env, **self._way.env, **temp_env(job, "/tmp"), **visit.environment(job.env)}  # noqa: S108
        passed = (*job.passed, descriptor, *([job.gate] if job.gate is not None else ()))
        argv = (*self._way.words, *mounting, *check, *job.argv)
        usual = job.walls is SandboxAccess.USUAL and (job.handed or job.gate is not None)
        built = BuiltFrom(profile, check, env, job.cwd, _looks(profile, job.cwd), _mounts()) if usual else None
        return job._replace(argv=argv, passed=passed, env=env, keeper=True, built_from=built)

    def _check(self, places: Iterable[SandboxPath]) -> tuple[str, ...]:
        """Needed where a path in a working folder is mounted by name and writable: another command could swap that
        name.
        """
        folders = self._shared.folders
        inner = [
            place.path for place in places if place.access is SandboxPathAccess.WRITE and place.path not in folders
        ]
        if not any(is_within(path, folder) for path in inner for folder in folders):
            return ()
        return run.check_before(self._shell, folders, _mounts())

    def close(self) -> None:
        """When nothing runs in it any more."""
        self._shared.close()


class BuiltFrom(NamedTuple):
    """All that a sandbox depends on. Where two are equal, the sandboxes are the same."""

    profile: BubblewrapProfile
    check: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    files: Mapping[str, tuple[int, ...]]  # what the mounted paths are
    mounts: str  # of the system


def _looks(profile: BubblewrapProfile, cwd: str) -> dict[str, tuple[int, ...]]:
    """Device and number; of a file, also when its names changed: unlinked and linked again, it has lost its mount."""
    mounted = [place for place in profile.places if place.access is not SandboxPathAccess.EMPTY]
    sources = [place.source for place in mounted if place.source]
    looks: dict[str, tuple[int, ...]] = {}
    for path in (cwd, profile.temp, profile.nothing, *[place.path for place in mounted], *sources):
        with suppress(OSError):  # it was removed meanwhile: then the sandbox cannot be made
            found = os.stat(path, follow_symlinks=path == cwd)  # noqa: PTH116
            is_folder = stat.S_ISDIR(found.st_mode)
            looks[path] = (found.st_dev, found.st_ino) if is_folder else (found.st_dev, found.st_ino, found.st_ctime_ns)
    return looks


def _mounts() -> str:
    with open(run.TABLE, encoding="utf-8", errors="surrogateescape") as table:  # noqa: PTH123
        return table.read()


def real_temps() -> tuple[str, ...]:
    """The existing ones of the system. A link leads to one that has its own name."""
    return tuple([folder for folder in TEMPORARY if os.path.isdir(folder) and not os.path.islink(folder)])  # noqa: PTH112, PTH114


def temp_env(job: ProcessSpec, private: str) -> dict[str, str]:
    """The variables for temporary files. With the real folders the job's own choice counts, if it is one of them."""
    named = {name: job.env[name] for name in TEMP_NAMES if name in job.env} if job.walls is SandboxAccess.OWN else {}
    good = {name: path for name, path in named.items() if any(is_within(path, folder) for folder in real_temps())}
    return {**dict.fromkeys(TEMP_NAMES, TEMPORARY[0] if job.walls is SandboxAccess.OWN else private), **good}


def _kept_in(real: tuple[str, ...], kept: Iterable[str]) -> Generator[SandboxPath]:
    """Paths in a real temporary folder that must stay: renamed, they could be replaced where we look for them."""
    for folder in real:
        for path in dict.fromkeys(kept):
            if is_within(path, folder) and path != folder and os.path.isdir(path):  # noqa: PTH112  # as above
                yield SandboxPath(path, SandboxPathAccess.READ)


def _identity(folder: str) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.lstat(folder)
        return found.st_dev, found.st_ino
    return None


def _masks(denied: Iterable[str]) -> Generator[SandboxPath]:
    """For existing paths: others cannot be read."""
    for path in denied:
        if os.path.isdir(path):  # noqa: PTH112  # pathlib takes 8 ms to load
            yield SandboxPath(path, SandboxPathAccess.NO_FOLDER)
        elif os.path.lexists(path):
            yield SandboxPath(path, SandboxPathAccess.NO_FILE)


def _on_the_way(masks: list[SandboxPath], places: list[SandboxPath]) -> Generator[SandboxPath]:
    """The writable parent folders of denied paths: renamed, they would move the denied path to where the next command
    can read it.
    """
    known = sorted([*places, *masks], key=lambda place: (len(place.path), place.access is not SandboxPathAccess.WRITE))
    done = {"/"}
    for mask in masks:
        parent = os.path.dirname(mask.path)  # noqa: PTH120  # pathlib takes 8 ms to load
        while parent not in done:
            done.add(parent)
            around = [place for place in known if is_within(parent, place.path)]  # the innermost is the last
            if around and around[-1].access is SandboxPathAccess.WRITE and around[-1].path != parent:
                yield SandboxPath(parent, SandboxPathAccess.WRITE)
            parent = os.path.dirname(parent)  # noqa: PTH120


def _nothing_in(state: str) -> str:
    """An empty file that no user may open."""
    path = f"{os.path.realpath(state)}/nothing"
    if not os.path.lexists(path):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o000))
    return path


FILE = "sandbox.json"
SECONDS = 10.0  # for something that takes 10 ms


class ProbeNotRunError(Exception):
    """No folder is writable, so the result is unknown. Building the sandbox then fails as well, and nothing runs."""


class ProbeCacheEntry(msgspec.Struct, frozen=True):
    """The conditions of a stored success."""

    program: str
    changed: int  # of the program, nanoseconds
    kernel: str
    user: int
    walls: int


def probe_sandbox(
    home: str,
    *,
    path: str = "",
    outside: Iterable[str] = (),
    kinds: tuple[SandboxBackend, ...] = (SandboxBackend.BUBBLEWRAP,),
    stores: bool = True,
) -> ProbeResult:
    """`home` is our folder, where the result is stored; with `stores` False, this process remembers it instead.
    `outside` are the working folders, whose programs are not trusted. `kinds`: with landlock among them, it is used
    without bubblewrap, and the result still says why.
    """
    answer = (
        _bubblewrap(home, path, outside, stores=stores)
        if SandboxBackend.BUBBLEWRAP in kinds
        else ProbeResult(None, "bubblewrap is not requested")
    )
    if answer.program is not None or SandboxBackend.LANDLOCK not in kinds or sys.platform != "linux":
        return answer
    wrong = sandbox.find_landlock_problem(home)
    if wrong:
        return ProbeResult(None, f"{answer.reason}; and {wrong}")
    return ProbeResult(sys.executable, answer.reason, SandboxBackend.LANDLOCK)


_remembered: set[ProbeCacheEntry] = set()  # that worked; of probes that store nothing


def _bubblewrap(home: str, path: str, outside: Iterable[str], *, stores: bool) -> ProbeResult:
    if sys.platform != "linux":
        return ProbeResult(None, "it needs Linux: on this system commands run with permissions only")
    program = find_program("bwrap", path=path, outside=outside)
    if program is None:
        return ProbeResult(None, "bubblewrap is not installed: install the package 'bubblewrap'")
    now = ProbeCacheEntry(program, os.stat(program).st_mtime_ns, os.uname().release, os.getuid(), bubblewrap.VERSION)  # noqa: PTH116
    if _kept(home) == now or (not stores and now in _remembered):
        return ProbeResult(program)
    try:
        wrong = _try(program, home)
    except ProbeNotRunError:
        return ProbeResult(program)
    if wrong:
        return ProbeResult(None, wrong)
    if stores:
        _keep(home, now)
    else:
        _remembered.add(now)
    return ProbeResult(program)


def _try(program: str, home: str) -> str:
    """The problem; empty: it works."""
    true = find_program("true")
    if true is None:
        return "'true' was not found for the test: install the package 'coreutils'"
    try:
        with contextlib.ExitStack() as stack:
            try:
                temp, state = stack.enter_context(make_scratch_folders(home))
            except OSError as error:
                raise ProbeNotRunError from error
            with Sandbox(program, SandboxLayout((), temp, state)).around(ProcessSpec((true,), "/", {})) as job:
                ended = subprocess.run(  # noqa: S603  # our own words
                    list(job.argv), pass_fds=job.passed, env={}, stdin=subprocess.DEVNULL, capture_output=True,
                    timeout=SECONDS, check=False, start_new_session=True,
                )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, bubblewrap.SandboxError) as error:
        return f"'{program}' does not work here: {error}"
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip().removeprefix("bwrap: ")
        return _explained(program, said or f"exit code {ended.returncode}")
    return ""


# Messages of bubblewrap, and their meaning. The first that matches counts.
MEANINGS: tuple[tuple[str, str], ...] = (
    ("unknown option", "it is too old: version 0.8 or later is needed"),
    ("max_user_namespaces", "user namespaces are switched off: set 'user.max_user_namespaces' (sysctl) above 0"),
    ("no space left", "user namespaces are switched off: set 'user.max_user_namespaces' (sysctl) above 0"),
    ("namespace", "user namespaces cannot be created, as in many containers: allow them, or run outside the container"),
    ("uid map", "user namespaces are restricted (AppArmor, or a container): allow them for bubblewrap"),
    ("mount", "the file system cannot be remounted, as in many containers: run outside the container"),
    ("seccomp", "the kernel accepts no filter of system calls"),
)


def _explained(program: str, said: str) -> str:
    meaning = next((meaning for word, meaning in MEANINGS if word in said.lower()), "")
    line = said.splitlines()[0][:200]
    return f"'{program}' does not work here: {meaning} ('{line}')" if meaning else f"'{program}' says: '{line}'"


def _kept(home: str) -> ProbeCacheEntry | None:
    try:
        descriptor = os.open(f"{home}/{FILE}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            return msgspec.json.decode(file.read(4_096), type=ProbeCacheEntry)
        except (OSError, msgspec.DecodeError):  # not a valid entry
            return None


def _keep(home: str, kept: ProbeCacheEntry) -> None:
    """If it cannot be written, the next start probes again."""
    new = f"{home}/{FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(kept))
        os.replace(new, f"{home}/{FILE}")  # noqa: PTH105
