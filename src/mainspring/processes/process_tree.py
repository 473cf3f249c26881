"""Finding what a child left behind, and ending it (security X2), also when it went into a session of its own.

A process belongs to a child if it is in the child's group or session, or bears its mark, or was started by one of
those. They are looked for among the processes that are younger than the child. Linux tells the youngest number in
`/proc/loadavg`, so after a short command that is a handful of numbers, or none at all, and costs 10 us.

Where there is no `/proc` (macOS), nothing is found, and the group alone is ended.

How a process is known as one of a call's, wherever it went: two marks that every descendant inherits.

The first is a variable of the environment. A program may clear it (`env -i`), overwrite it (servers that change their
title), or be another user's (`sudo`); a zombie has none. So there is a second one that nobody thinks of changing: an
odd limit on the bytes of message queues. It survives `fork`, `exec`, `setsid` and closed descriptors, and anybody may
read it. Where a system has no such limit, the first one must do.
"""

# ruff: noqa: PTH123, PTH208  # pathlib takes 8 ms to load

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Iterable
from typing import NamedTuple

NAME = "MAINSPRING_CALL"  # of the variable; an agent within an agent adds its own to the value, so both are found

_USUAL = 819_200  # what Linux gives; taken where there is no limit at all
_SPREAD = 8  # the mark takes away an eighth of the limit at most: enough room for 100,000 different ones
_LEAST = 8_000  # below, there is no room for marks


class ProcessTag(NamedTuple):
    text: str
    limit: int  # 0: this system has none

    @property
    def token(self) -> bytes:
        return self.text.rpartition("/")[2].encode()


def new_mark() -> ProcessTag:
    """The text of one who was marked himself, as an agent's agent is, begins with his own."""
    mine = os.urandom(8).hex()
    outer = os.environ.get(NAME, "")
    return ProcessTag(f"{outer}/{mine}" if outer else mine, _odd_limit())


def put_limit(pid: int, mark: ProcessTag) -> None:
    """On a process that was just started, and may have started others already: so it is only the second net."""
    if mark.limit and sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):  # it is gone, or another user's by now
            resource.prlimit(pid, resource.RLIMIT_MSGQUEUE, (mark.limit, mark.limit))


def first_words(mark: ProcessTag) -> str:
    """The same, for a script of bash: there it is in force before anything else can be started."""
    return f"ulimit -q {mark.limit} 2>/dev/null; " if mark.limit else ""


def _odd_limit() -> int:
    if sys.platform != "linux":
        return 0
    top = resource.getrlimit(resource.RLIMIT_MSGQUEUE)[0]
    if top == resource.RLIM_INFINITY:
        top = _USUAL
    if top < _LEAST:
        return 0
    return top - 1 - int.from_bytes(os.urandom(4), "little") % (top // _SPREAD)


SHORT = 1.0  # seconds in which the numbers of processes cannot have gone round
FEW = 200  # numbers that are tried one by one; reading the whole table costs as much

_VARIABLE = f"{NAME}=".encode()
_ZOMBIE, _DEAD = b"Z", b"X"


class ProcessInfo(NamedTuple):
    pid: int
    parent: int
    group: int
    session: int
    started: int  # in ticks since the machine was; with the number, it names a process for good
    zombie: bool

    @property
    def named(self) -> tuple[int, int, bytes]:
        """With the program that it is at this moment."""
        return self.pid, self.started, _read(self.pid, "cmdline")


class ProcessTree(NamedTuple):
    """What descends from one child: its number is also that of its group and its session."""

    pid: int
    mark: ProcessTag


def left_of(line: ProcessTree, seconds: float) -> list[ProcessInfo]:
    """Everything that belongs to a child which was started so long ago, except the child itself."""
    first = read_process(line.pid)
    since = first.started if first is not None else 0  # whoever is older, is no descendant
    seen = [read_process(pid) for pid in _younger(line.pid, seconds) if pid != line.pid]
    others = [found for found in seen if found is not None and found.started >= since]
    mine = {found.pid: found for found in others if _belongs(found, line)}
    if mine:  # whoever lost both marks may still be the child of one that did not
        grown = -1
        while grown != len(mine):
            grown = len(mine)
            mine |= {found.pid: found for found in others if found.parent in mine}
    return list(mine.values())


def read_process(pid: int) -> ProcessInfo | None:
    """None: there is no such process, or no `/proc`."""
    text = _read(pid, "stat")
    _, _, rest = text.rpartition(b") ")  # a program's name may hold anything
    fields = rest.split()
    if len(fields) < 20 or fields[0] == _DEAD:
        return None
    parent, group, session = map(int, fields[1:4])
    return ProcessInfo(pid, parent, group, session, int(fields[19]), fields[0] == _ZOMBIE)


def is_alive(found: ProcessInfo) -> bool:
    now = read_process(found.pid)
    return now is not None and now.started == found.started and not now.zombie


def send_signal(founds: Iterable[ProcessInfo], number: signal.Signals) -> list[ProcessInfo]:
    """To each, if it still is who it was: numbers are given anew. Without zombies and another user's."""
    return [found for found in founds if not found.zombie and _send(found, number)]


def send_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone; the second is macOS for that
        os.killpg(group, number)


def kill_tree(line: ProcessTree, seconds: float) -> list[ProcessInfo]:
    """KILL to the group and to whatever else belongs to it. What was still there; call it until that is nothing.

    A process needs a moment to die, and one that starts others may be quicker than we are, but not often.
    """
    send_group(line.pid, signal.SIGKILL)
    left = left_of(line, seconds)
    reap_orphans(left)
    return send_signal(left, signal.SIGKILL)


def reap_orphans(founds: Iterable[ProcessInfo]) -> None:
    """Those that came to us because their parents are gone (`own_process.py`)."""
    me = os.getpid()
    for found in founds:
        if found.zombie and found.parent == me:
            _reap(found.pid)


def list_own_children() -> list[ProcessInfo]:
    """Our own ones, whoever started them."""
    found: list[ProcessInfo] = []
    for task in _names("/proc/self/task"):
        pids = _read_file(f"/proc/self/task/{task}/children").split()
        found += [seen for pid in pids if (seen := read_process(int(pid))) is not None]
    return found


def belongs_to_tree(found: ProcessInfo, line: ProcessTree) -> bool:
    return found.pid != line.pid and _belongs(found, line)


def _belongs(found: ProcessInfo, line: ProcessTree) -> bool:
    if line.pid in (found.group, found.session):
        return True
    environment = _read(found.pid, "environ")
    if line.mark.token in environment:
        return True
    if _VARIABLE in environment:  # the mark of another call
        return False
    return bool(line.mark.limit) and _limit(found.pid) == line.mark.limit


def _limit(pid: int) -> int:
    _, _, after = _read(pid, "limits").partition(b"Max msgqueue size")
    soft = after.split(None, 1)[0] if after else b""
    return int(soft) if soft.isdigit() else 0


def _younger(pid: int, seconds: float) -> Iterable[int]:
    last = _youngest()
    if seconds < SHORT and pid <= last <= pid + FEW:
        return range(pid + 1, last + 1)
    every = [int(name) for name in _names("/proc") if name.isdigit()]
    if seconds < SHORT and pid <= last:
        return [number for number in every if number > pid]
    me = os.getpid()
    return [number for number in every if number != me]


def _youngest() -> int:
    """The number that was given last; 0 where nobody tells."""
    number = _read_file("/proc/loadavg").rpartition(b" ")[2].strip()
    return int(number) if number.isdigit() else 0


def _send(found: ProcessInfo, number: signal.Signals) -> bool:
    """Whether it may hear us. One that went away meanwhile counts: it may have left a zombie, so one looks again."""
    try:
        _send_safely(found, number)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def _send_safely(found: ProcessInfo, number: signal.Signals) -> None:
    """While the descriptor is open, the number is nobody else's."""
    try:
        fd = os.pidfd_open(found.pid)
    except ProcessLookupError:
        raise
    except (OSError, AttributeError):  # no such call here, or no descriptor left: by number then
        fd = -1
    try:
        if not is_alive(found):
            raise ProcessLookupError
        if fd >= 0:
            signal.pidfd_send_signal(fd, number)
        else:
            os.kill(found.pid, number)
    finally:
        if fd >= 0:
            os.close(fd)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _read(pid: int, name: str) -> bytes:
    return _read_file(f"/proc/{pid}/{name}")


def _read_file(path: str) -> bytes:
    """Whole; empty if it is gone or not ours to read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""
