"""Whether the sandbox's walls stand on this machine: asked at the start, by building them once around `true`.

A yes is kept in our folder, for this bubblewrap, this kernel, this user and these walls: the next start only compares.
A no is asked again, since it goes away when somebody installs a package or changes a setting. If a kept yes is wrong,
commands fail and say so; none runs without walls. A home that cannot be written is no reason for a no: the walls are
tried in another folder.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable

import msgspec

from mainspring.processes.child import ProcessSpec
from mainspring.processes.environment import find_program
from mainspring.sandbox import bubblewrap
from mainspring.sandbox.sandbox import ProbeResult, Sandbox, SandboxBackend, SandboxLayout, make_scratch_folders

FILE = "sandbox.json"
SECONDS = 10.0  # for something that takes 10 ms


class ProbeNotRunError(Exception):
    """No folder can be written, so nothing is known. Whoever builds the walls then fails as well, and runs nothing."""


class ProbeCacheEntry(msgspec.Struct, frozen=True):
    """For what a yes holds."""

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
) -> ProbeResult:
    """`home` is our folder and exists; `outside` are the working folders, whose programs are not trusted. `kinds`: with
    landlock among them, it is taken where there is no bubblewrap, and the answer still says why."""
    answer = (
        _bubblewrap(home, path, outside)
        if SandboxBackend.BUBBLEWRAP in kinds
        else ProbeResult(None, "bubblewrap is not wanted")
    )
    if answer.program is not None or SandboxBackend.LANDLOCK not in kinds or sys.platform != "linux":
        return answer
    from mainspring.sandbox.landlock import find_landlock_problem

    wrong = find_landlock_problem(home)
    if wrong:
        return ProbeResult(None, f"{answer.reason}; and {wrong}")
    return ProbeResult(sys.executable, answer.reason, SandboxBackend.LANDLOCK)


def _bubblewrap(home: str, path: str, outside: Iterable[str]) -> ProbeResult:
    if sys.platform != "linux":
        return ProbeResult(None, "it needs Linux: on this system commands run with permissions only")
    program = find_program("bwrap", path=path, outside=outside)
    if program is None:
        return ProbeResult(None, "bubblewrap is not installed: install the package 'bubblewrap'")
    now = ProbeCacheEntry(program, os.stat(program).st_mtime_ns, os.uname().release, os.getuid(), bubblewrap.VERSION)  # noqa: PTH116
    if _kept(home) == now:
        return ProbeResult(program)
    try:
        wrong = _try(program, home)
    except ProbeNotRunError:
        return ProbeResult(program)
    if wrong:
        return ProbeResult(None, wrong)
    _keep(home, now)
    return ProbeResult(program)


def _try(program: str, home: str) -> str:
    """What is wrong, if something is."""
    true = find_program("true")
    if true is None:
        return "there is no 'true' to try it with: install the package 'coreutils'"
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
        return _explained(program, said or f"it ended with {ended.returncode}")
    return ""


# What bubblewrap says, and what that means. The first that is found counts.
MEANINGS: tuple[tuple[str, str], ...] = (
    ("unknown option", "it is too old: version 0.8 or later is needed"),
    ("max_user_namespaces", "user namespaces are switched off: set 'user.max_user_namespaces' (sysctl) above 0"),
    ("no space left", "user namespaces are switched off: set 'user.max_user_namespaces' (sysctl) above 0"),
    ("namespace", "user namespaces cannot be made, as in many containers: allow them, or run outside of the container"),
    ("uid map", "user namespaces are restricted (AppArmor, or a container): allow them for bubblewrap"),
    ("mount", "the file system cannot be mounted anew, as in many containers: run outside of the container"),
    ("seccomp", "the kernel takes no filter of system calls"),
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
        except (OSError, msgspec.DecodeError):  # nobody's answer
            return None


def _keep(home: str, kept: ProbeCacheEntry) -> None:
    """If it cannot be written, the next start asks again."""
    new = f"{home}/{FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(kept))
        os.replace(new, f"{home}/{FILE}")  # noqa: PTH105
