"""Run a search program in a worker thread, and parse its output.

The output, memory and time of the program are limited, and cancelling the call kills it at once.

In the output, names begin with `./` and end in NUL, so they are unambiguous:

    names, files   name NUL, repeated
    count          name NUL number LF
    content        name NUL, then lines `12:text` (match) and `13-text` (context), `--` between separate parts;
                   an empty line before the next name

With `--crlf`, which lets `$` match before a carriage return, some of these lines end in one themselves.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from typing import NamedTuple

from mainspring.processes.confined import start_confined
from mainspring.processes.environment import find_program
from mainspring.processes.safe_open import open_folder
from mainspring.tools.base import Workspace
from mainspring.tools.files import HaltSignal

MOST_ERRORS = 4_000
SOME_UNREAD = 2  # the exit code, even if other files were searched
MOST_MEMORY = 1 << 29  # bytes; ripgrep keeps a whole line in memory, whatever its length
PIPE = 1 << 20  # bytes that it may print before it waits for us; the limit for users on Linux
_MANY = 20  # pieces; from then on we wait a little before each, to get more at once: ripgrep prints file by file
_LITTLE = 0.001  # seconds


class SearchOutput(NamedTuple):
    data: bytes
    errors: str
    code: int
    cut: bool = False  # there was more
    late: bool = False  # it ran out of time and was ended

    @property
    def some_unread(self) -> bool:
        """Whether it could not read some files or directories."""
        return self.code == SOME_UNREAD


class SearchLocation(NamedTuple):
    folder: int  # a descriptor: the search begins there, whatever has its name by now
    name: str  # for systems that cannot enter a descriptor
    file: int | None = None  # a descriptor: only this file, as standard input


def find_ripgrep(place: Workspace) -> str | None:
    """Look in the system's directories and on PATH, but never in a working directory; else next to our interpreter."""
    found = find_program("rg", path=place.environ.get("PATH", ""), outside=(place.root, *place.folders))
    beside = f"{sys.executable.rpartition('/')[0]}/rg"
    return found or (beside if beside.startswith("/") and os.access(beside, os.X_OK) else None)


def search_environment(place: Workspace) -> dict[str, str]:
    """Only where the user's own ignore file is."""
    kept = {name: place.environ[name] for name in ("XDG_CONFIG_HOME",) if name in place.environ}
    home = place.home or place.environ.get("HOME", "")
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **kept, **({"HOME": home} if home else {})}


class SearchJob(NamedTuple):
    """A search program to run."""

    command: list[str]  # begins with an absolute path
    env: dict[str, str]
    most: int  # bytes of its output that are kept, approximately
    passed: tuple[int, ...] = ()  # descriptors to pass on
    readable: tuple[int, ...] | None = None  # descriptors of all that it may read; None: not confined


def output_of(job: SearchJob, where: SearchLocation, halt: HaltSignal) -> SearchOutput:
    """Run the program and return its output."""
    child = _started(job, where)
    try:
        halt.also(child.kill)
        _limit_memory(child.pid)
        return _drained(child, job.most, halt)
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def _started(job: SearchJob, where: SearchLocation) -> subprocess.Popen[bytes]:
    entered = f"/proc/self/fd/{where.folder}"
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  # an absolute program, and a list
            job.command,
            stdin=nothing if where.file is None else where.file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=entered if sys.platform == "linux" else where.name,
            env=job.env,
            pass_fds=job.passed,
            process_group=0,  # keys typed at a terminal do not reach it
            bufsize=0,
            pipesize=PIPE,
        )

    try:
        return start() if job.readable is None else start_confined(start, job.readable)
    finally:
        os.close(nothing)


def output_alone(
    command: list[str], place: Workspace, most: int, halt: HaltSignal, *, stdin: int | None = None
) -> SearchOutput:
    """The output of a program that needs no working directory."""
    folder = open_folder("/")
    try:
        return output_of(SearchJob(command, search_environment(place), most), SearchLocation(folder, "/", stdin), halt)
    finally:
        os.close(folder)


def _limit_memory(pid: int) -> None:
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):  # it has already ended
            resource.prlimit(pid, resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def _drained(child: subprocess.Popen[bytes], most: int, halt: HaltSignal) -> SearchOutput:
    assert child.stdout is not None
    assert child.stderr is not None
    out, err = child.stdout.fileno(), child.stderr.fileno()
    kept: dict[int, list[bytes]] = {out: [], err: []}
    room = {out: most, err: MOST_ERRORS}
    poll = select.poll()
    open_ones = {out, err}
    for fd in open_ones:
        poll.register(fd, select.POLLIN)
    late = cut = False
    while open_ones and not cut:
        if len(kept[out]) > _MANY:
            time.sleep(_LITTLE)
        left = halt.left
        ready = poll.poll(None if left is None else left * 1_000)
        if halt.set or not ready:
            late = not halt.set
            break
        for fd, _ in ready:
            piece = os.read(fd, PIPE)
            if not piece:
                poll.unregister(fd)
                open_ones.discard(fd)
            elif room[fd] > 0:
                kept[fd].append(piece)
                room[fd] -= len(piece)
        cut = room[out] <= 0
    if cut or late or halt.set:
        child.kill()
    code = child.wait()
    if halt.set:
        halt.check()
    errors = b"".join(kept[err]).decode("utf-8", "replace")[:MOST_ERRORS]
    return SearchOutput(b"".join(kept[out]), errors, code, cut=cut, late=late)


def crashed_by_itself(output: SearchOutput) -> bool:
    """Whether it crashed without our signal: usually for lack of memory."""
    return not output.cut and not output.late and output.code in (-signal.SIGABRT, -signal.SIGKILL, -signal.SIGSEGV)


_LINE = re.compile(rb"(\d+)([:-])(.*)\Z", re.DOTALL)
# Lines that are not rows (rows begin with a number): a gap, and ripgrep's remarks about the file ('./f: binary file').
_NO_ROWS = (b"\n--", b"\n.", b"\n<")
_SIGNS = (b"\n--", b" binary file ")  # without these, all lines are rows


class SearchLine(NamedTuple):
    number: int  # 0: a gap
    found: bool
    text: str


class FileMatches(NamedTuple):
    """The lines of a file, not yet parsed: for most files only their number matters."""

    name: str
    body: bytes
    plain: bool = False  # each line is a row

    @property
    def size(self) -> int:
        """The number of rows, gaps not counted."""
        if self.plain:
            return self.body.count(b"\n")
        others = sum([self.body.count(mark) for mark in _NO_ROWS]) + self.body.startswith((b".", b"<"))
        return self.body.count(b"\n") - others

    @property
    def rows(self) -> list[SearchLine]:
        """Incomplete lines, and lines that are not rows, are left out."""
        rows: list[SearchLine] = []
        for line in self.body.split(b"\n")[:-1]:
            if line.removesuffix(b"\r") == b"--":
                rows.append(SearchLine(0, found=False, text=""))
            elif parts := _LINE.match(line):
                text = parts[3].removesuffix(b"\r").decode("utf-8", "replace")
                rows.append(SearchLine(int(parts[1]), found=parts[2] == b":", text=text))
        return rows


def parse_names(data: bytes) -> list[str]:
    """Without the last name, if it is incomplete."""
    whole = os.fsdecode(data[: data.rfind(b"\0") + 1])
    return whole[2:-1].split("\0./") if whole else []


def parse_counts(data: bytes) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    at = 0
    while (end := data.find(b"\0", at)) >= 0 and (stop := data.find(b"\n", end)) >= 0:
        number = data[end + 1 : stop].removesuffix(b"\r")
        if number.isdigit():
            found.append((_name(data[at:end]), int(number)))
        at = stop + 1
    return found


def parse_groups(data: bytes) -> list[FileMatches]:
    found: list[FileMatches] = []
    plain = not any(sign in data for sign in _SIGNS)
    at = 0
    while (end := data.find(b"\0", at)) >= 0:
        stop = data.find(b"\n\n", end)
        body = data[end + 1 :] if stop < 0 else data[end + 1 : stop + 1]
        found.append(FileMatches(_name(data[at:end]), body, plain))
        if stop < 0:
            break
        at = stop + 2
    return found


def _name(data: bytes) -> str:
    return os.fsdecode(data.removeprefix(b"./"))
