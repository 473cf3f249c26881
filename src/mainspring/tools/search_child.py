"""A program that searches: started, drained, bounded, ended. Meant for a worker thread.

Its output is kept up to a limit, its memory and its time are limited, and whoever cancels the call kills it at once.

What a search printed, taken apart. Names begin with `./` and end in NUL, so none is mistaken for anything else.

names, files   name NUL, again and again
count          name NUL number LF
content        name NUL, then lines `12:text` (found) and `13-text` (around it), `--` between parts that are apart;
               an empty line before the next name

With `--crlf`, which makes `$` fit before a carriage return, some of these lines end in one themselves.
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
SOME_UNREAD = 2  # the exit code, if it also searched others
MOST_MEMORY = 1 << 29  # bytes; ripgrep keeps a whole line, whatever its length
PIPE = 1 << 20  # bytes that it may print before it waits for us; what a user may ask for on Linux
_MANY = 20  # pieces; from then on we wait a little before each, so that it brings more: ripgrep prints file by file
_LITTLE = 0.001  # seconds


class SearchOutput(NamedTuple):
    data: bytes
    errors: str
    code: int
    cut: bool = False  # there was more
    late: bool = False  # it was ended because of its time

    @property
    def some_unread(self) -> bool:
        """Whether there were files or folders that it could not read."""
        return self.code == SOME_UNREAD


class SearchLocation(NamedTuple):
    folder: int  # a descriptor: the search begins there, whatever has its name by now
    name: str  # for systems where a descriptor cannot be entered
    file: int | None = None  # a descriptor: only this file, as standard input


def find_ripgrep(place: Workspace) -> str | None:
    """Where the system has it or on PATH, but never from a folder that is worked on; else beside our interpreter."""
    found = find_program("rg", path=place.environ.get("PATH", ""), outside=(place.root, *place.folders))
    beside = f"{sys.executable.rpartition('/')[0]}/rg"
    return found or (beside if beside.startswith("/") and os.access(beside, os.X_OK) else None)


def search_environment(place: Workspace) -> dict[str, str]:
    """Where the user's own ignore file is, and no more."""
    kept = {name: place.environ[name] for name in ("XDG_CONFIG_HOME",) if name in place.environ}
    home = place.home or place.environ.get("HOME", "")
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **kept, **({"HOME": home} if home else {})}


class SearchJob(NamedTuple):
    """A program that searches."""

    command: list[str]  # an absolute program first
    env: dict[str, str]
    most: int  # bytes of its output that are kept, about
    passed: tuple[int, ...] = ()  # descriptors that it gets
    readable: tuple[int, ...] | None = None  # descriptors of all that it can read; None: it is not confined


def output_of(job: SearchJob, where: SearchLocation, halt: HaltSignal) -> SearchOutput:
    """What it prints."""
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
            process_group=0,  # what is typed at a terminal is not for it
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
    """Of a program that works in no folder."""
    folder = open_folder("/")
    try:
        return output_of(SearchJob(command, search_environment(place), most), SearchLocation(folder, "/", stdin), halt)
    finally:
        os.close(folder)


def _limit_memory(pid: int) -> None:
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):  # it has ended already
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
    """By itself, not by us: as a rule, for want of memory."""
    return not output.cut and not output.late and output.code in (-signal.SIGABRT, -signal.SIGKILL, -signal.SIGSEGV)


_LINE = re.compile(rb"(\d+)([:-])(.*)\Z", re.DOTALL)
# What is no row, which would begin with a number: a gap, and a remark of ripgrep about the file ('./f: binary file').
_NO_ROWS = (b"\n--", b"\n.", b"\n<")
_SIGNS = (b"\n--", b" binary file ")  # without these, there is none of them


class SearchLine(NamedTuple):
    number: int  # 0: a gap
    found: bool
    text: str


class FileMatches(NamedTuple):
    """The lines of a file, not yet taken apart: of most files only their number matters."""

    name: str
    body: bytes
    plain: bool = False  # each line is a row

    @property
    def size(self) -> int:
        """How many rows, gaps not counted."""
        if self.plain:
            return self.body.count(b"\n")
        others = sum([self.body.count(mark) for mark in _NO_ROWS]) + self.body.startswith((b".", b"<"))
        return self.body.count(b"\n") - others

    @property
    def rows(self) -> list[SearchLine]:
        """Lines that are cut, and what is no line, are left out."""
        rows: list[SearchLine] = []
        for line in self.body.split(b"\n")[:-1]:
            if line.removesuffix(b"\r") == b"--":
                rows.append(SearchLine(0, found=False, text=""))
            elif parts := _LINE.match(line):
                text = parts[3].removesuffix(b"\r").decode("utf-8", "replace")
                rows.append(SearchLine(int(parts[1]), found=parts[2] == b":", text=text))
        return rows


def parse_names(data: bytes) -> list[str]:
    """Without the last one, if it is cut."""
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
