"""A started program: in its own session, without our descriptors, its output read as it comes (security X1).

`UserProgram` is for the user and not for the model: an editor, a browser, the shell of `!COMMAND`.

The start itself does not wait, so it cannot be cancelled halfway. It is `subprocess.Popen` without `preexec_fn`, which
is `vfork` on Linux: our memory is not copied. `asyncio`'s own subprocesses wait for every holder of the output, on
Python 3.11 take a thread for each child, and a caller that is cancelled while one starts may never return, if the
program has ended before its pipes are connected (CPython gh-119710).

The event loop always reads the pipes of a child, so that the child never blocks, and in small slices. It watches the
end of a child without reaping it: a zombie keeps its number, so its group can still be ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from mainspring.processes.output import OutputSizes, ProcessOutput
from mainspring.processes.process_tree import NAME, ProcessTag, ProcessTree, new_mark, put_limit

SLICE = 65_536  # bytes at a time: the size of a pipe. Other tasks run between two of them
LAST = 64  # slices that are read at the end, if another process still writes
LAST_WORDS = 1.0  # seconds for a user's program to end when its terminal hangs up


class PipeReader:
    def __init__(self, fd: int, feed: Callable[[bytes], object]) -> None:
        self.closed = asyncio.Event()
        self.feed = feed
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def finish(self) -> None:
        """Reads the rest, and closes, even if another process still holds the other end."""
        for _ in range(LAST):
            if self.closed.is_set() or not self._read():
                break
        self._close()

    def _read(self) -> bool:
        """Returns whether there was data."""
        try:
            data = os.read(self._fd, SLICE)
        except BlockingIOError:
            return False
        except OSError:  # it broke: that is its end
            data = b""
        if data:
            self.feed(data)
        else:
            self._close()
        return bool(data)

    def _close(self) -> None:
        if not self.closed.is_set():
            self.closed.set()
            with contextlib.suppress(RuntimeError):  # the loop is already closed
                self._loop.remove_reader(self._fd)
            os.close(self._fd)


def input_of(data: bytes) -> int:
    """A descriptor from which a child reads these bytes: a file in memory, so that no task has to write to a pipe."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fd = os.memfd_create("input", os.MFD_CLOEXEC)
    except AttributeError:  # macOS
        import tempfile

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


Stop = Callable[[], None]


def watch_process(popen: subprocess.Popen[bytes], ended: Callable[[], object]) -> Stop:
    """Calls `ended` once, in the event loop. The result stops the watch."""
    try:
        fd = os.pidfd_open(popen.pid)
    except (OSError, AttributeError):  # an old kernel, a filter, macOS; or no descriptor is left
        return watch_in_thread(popen, ended)
    loop = asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            with contextlib.suppress(RuntimeError):  # the loop is already closed
                loop.remove_reader(fd)
            os.close(fd)

    def hear() -> None:
        stop()
        ended()

    loop.add_reader(fd, hear)
    return stop


def watch_in_thread(popen: subprocess.Popen[bytes], ended: Callable[[], object]) -> Stop:
    loop = asyncio.get_running_loop()

    def wait() -> None:
        _wait(popen)
        with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits any more
            loop.call_soon_threadsafe(ended)

    threading.Thread(target=wait, name=f"child {popen.pid}", daemon=True).start()
    return lambda: None


def _wait(popen: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
    else:  # macOS before Python 3.13: its number may be reused a moment too early
        popen.wait()


class ProcessLimits(NamedTuple):
    """None: no limit. The last two are the system's own, and apply to all descendants."""

    seconds: float | None = None
    output: OutputSizes = OutputSizes()
    file_size: int | None = None  # bytes
    processes: int | None = None  # of this user, as the system counts them


class SandboxAccess(StrEnum):
    """What a job may access (`sandbox/sandbox.py`), if there is a sandbox."""

    NONE = "none"  # everything that we may: our own programs, and commands that a person let run outside
    USUAL = "usual"
    OWN = "own"  # the same, but with the real temporary folders: for hooks and the like, which are the user's programs
    GIT = "git"  # the same, but `.git` can be written: for commands that run only git
    INIT = "init"  # and its configuration, too: for those that run only `git init` and set a name


class ProcessSpec(NamedTuple):
    """What to start, and how."""

    argv: Sequence[str]  # an absolute program first
    cwd: str
    env: Mapping[str, str]  # the whole environment: only a mark is added
    limits: ProcessLimits = ProcessLimits()
    stdin: bytes = b""
    merged: bool = False  # both outputs in one, in the order in which they came
    store_all: bool = False  # the output's file begins with its first byte
    on_output: Callable[[bytes], object] | None = None
    passed: tuple[int, ...] = ()  # descriptors that it inherits under their own numbers
    readable: tuple[int, ...] | None = None  # descriptors of all that it can read; None: it is not confined
    mark: ProcessTag | None = None  # None: a new one
    walls: SandboxAccess = SandboxAccess.NONE
    keeper: bool = False  # its first process only keeps the sandbox, and ends all inside with it: it gets no TERM
    notes: list[str] | None = None  # for the person; the sandbox adds to it, also at the end
    gate: int | None = None  # a descriptor: its sandbox waits there before it touches a workspace (`waiting.py`)
    handed: bytes = b""  # what a waiting program is given instead of `argv`; empty: it needs one of its own
    built_from: object = None  # what its sandbox is made of; of equal ones, one can take the other's place


class Child:
    """Use `Children`, which ends it."""

    def __init__(self, job: ProcessSpec) -> None:
        """Raises `OSError` if it cannot be started, and `ValueError` for a NUL in a word."""
        self.job = job
        self.exited = asyncio.Event()  # of the child itself; its descendants may go on
        self.closed = False  # ended, reaped, and without open descriptors
        self.mark = job.mark or new_mark()
        self.stdout = ProcessOutput(job.limits.output, store_all=job.store_all)
        self.stderr = self.stdout if job.merged else ProcessOutput(job.limits.output, store_all=job.store_all)
        self.started = self._working_since = time.monotonic()
        self._readers: list[PipeReader] = []
        self._popen = self._start()
        self.pid = self._popen.pid
        self.line = ProcessTree(self.pid, self.mark)
        try:
            _limit(self.pid, job.limits)
            put_limit(self.pid, self.mark)
            self._stop_watch = watch_process(self._popen, self.exited.set)
        except BaseException:  # no thread, no memory: an unwatched child must not run
            self._popen.kill()
            self._popen.wait()
            self._silence_now()
            raise

    @property
    def age(self) -> float:
        """Seconds since its processes were started."""
        return time.monotonic() - self.started

    @property
    def seconds(self) -> float:
        """How long it has worked: without the time in which it waited for what to do."""
        return time.monotonic() - self._working_since

    def take_job(self, job: ProcessSpec) -> None:
        """Of one that waited: from now on it works for this job. Both merge their outputs."""
        self.job = job
        self.stdout.close()
        self.stdout = self.stderr = ProcessOutput(job.limits.output, store_all=job.store_all)
        for reader in self._readers:
            reader.feed = self._feed(self.stdout)
        self._working_since = time.monotonic()

    @property
    def code(self) -> int | None:
        """As in `subprocess`: negative for a signal. None until it is closed."""
        return self._popen.returncode

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of its sandbox. Complete when it is closed."""
        return tuple(self.job.notes or ())

    @property
    def silent(self) -> bool:
        """No process holds its output any more."""
        return all(reader.closed.is_set() for reader in self._readers)

    async def silence(self) -> None:
        for reader in self._readers:
            await reader.closed.wait()

    def is_reaped(self) -> bool:
        """Whether it is reaped. From then on its number may be reused."""
        return self._popen.poll() is not None

    def close(self) -> None:
        """When all of its processes have ended."""
        if self.closed:
            return
        self.closed = True
        self._stop_watch()
        self._silence_now()
        self.stdout.close()
        self.stderr.close()
        if self._popen.returncode is None:  # a process that KILL does not end: the kernel holds it
            self._popen.returncode = -9
        self.exited.set()

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            with contextlib.ExitStack() as stack:
                return self._popen_with(stack)
        except BaseException:
            self._silence_now()
            raise

    def _popen_with(self, stack: contextlib.ExitStack) -> subprocess.Popen[bytes]:
        job = self.job
        given = input_of(job.stdin)
        stack.callback(os.close, given)
        outputs = [self.stdout] if job.merged else [self.stdout, self.stderr]
        ends = [self._pipe(output, stack) for output in outputs]

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(  # noqa: S603  # whether it may run was decided before
                list(job.argv),
                stdin=given,
                stdout=ends[0],
                stderr=ends[-1],
                cwd=job.cwd,
                env={**job.env, NAME: self.mark.text},
                pass_fds=job.passed,
                start_new_session=True,
            )

        if job.readable is None:
            return start()
        from mainspring.processes.confined import start_confined

        return start_confined(start, job.readable)

    def _pipe(self, output: ProcessOutput, stack: contextlib.ExitStack) -> int:
        """The end for the child, which `stack` closes here once the child has it."""
        ours, its = os.pipe()
        stack.callback(os.close, its)
        self._readers.append(PipeReader(ours, self._feed(output)))
        return its

    def _silence_now(self) -> None:
        for reader in self._readers:
            reader.finish()

    def _feed(self, output: ProcessOutput) -> Callable[[bytes], object]:
        on_output = self.job.on_output
        if on_output is None:
            return output.feed

        def feed(data: bytes) -> None:
            output.feed(data)
            on_output(data)

        return feed


def _limit(pid: int, limits: ProcessLimits) -> None:
    """From outside, right after the start: doing it in between would need a slow `fork`."""
    wanted = ((resource.RLIMIT_FSIZE, limits.file_size), (resource.RLIMIT_NPROC, limits.processes))
    if sys.platform == "linux":
        for kind, most in wanted:
            if most is not None:
                with contextlib.suppress(OSError, ValueError):  # it has already ended, or its limit is lower
                    resource.prlimit(pid, kind, (most, most))


class UserProgram:
    """In our session and, unless told otherwise, with our terminal. It has no mark and no limits."""

    def __init__(  # noqa: PLR0913  # as of `subprocess.Popen`
        self,
        argv: Sequence[str],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        on_output: Callable[[bytes], object] | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        own_session: bool = False,
    ) -> None:
        """`on_output` is called with what it writes to stdout. Raises `OSError`, and `ValueError` for a NUL."""
        self._ended = asyncio.Event()
        self._output: PipeReader | None = None
        with contextlib.ExitStack() as stack:
            if on_output is not None:
                ours, stdout = os.pipe()
                stack.callback(os.close, stdout)
                self._output = PipeReader(ours, on_output)
            try:
                self._popen = subprocess.Popen(  # noqa: S603  # the user's own
                    list(argv),
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=cwd,
                    env=env,
                    start_new_session=own_session,
                )
            except BaseException:
                self.close_output()
                raise
        try:
            watch_process(self._popen, self._reap)
        except BaseException:  # no thread: nothing would notice its end
            self._popen.kill()
            self._popen.wait()
            self.close_output()
            raise

    async def wait(self) -> int:
        """Until it ends, and no longer: a program in its background may hold its output open. As in `subprocess`."""
        await self._ended.wait()
        return self._popen.returncode

    async def wait_for_output(self) -> None:
        """Until no process can write to its output any more."""
        if self._output is not None:
            await self._output.closed.wait()

    async def wait_or_end(self) -> int:
        """The same as `wait`; a cancelled caller ends it, as a terminal that is closed does."""
        try:
            return await self.wait()
        except BaseException:
            await self.end()
            raise

    async def end(self) -> None:
        for number in (signal.SIGHUP, signal.SIGKILL):
            if not self._ended.is_set():
                self._popen.send_signal(number)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), LAST_WORDS)
        self.close_output()

    def close_output(self) -> None:
        """Read what is there, and no more."""
        if self._output is not None:
            self._output.finish()

    def _reap(self) -> None:
        self._popen.wait()
        self._ended.set()
