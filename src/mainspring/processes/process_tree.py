"""Finds and ends the processes that a child left behind (security X2), also in sessions of their own.

A process belongs to a child if it is in the child's group or session, or has its mark, or was started by one of those.
The search covers the processes that are younger than the child. Linux reports the youngest number in `/proc/loadavg`,
so after a short command that is a handful of numbers, or none at all, and costs 10 us. Without `/proc` (macOS) nothing
is found, and only the group is ended.

Every descendant inherits two marks. The first is an environment variable. A program may clear it (`env -i`), overwrite
it (servers that change their title), or run as another user (`sudo`); a zombie has none. So there is a second one that
programs do not change: an odd limit on the bytes of message queues. It survives `fork`, `exec`, `setsid` and closed
descriptors, and every user may read it. On a system without such a limit, there is only the first one.
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

NAME = "MAINSPRING_CALL"  # of the variable; an agent within an agent appends its own to the value, so both are found

_USUAL = 819_200  # the default of Linux; used without a limit
_SPREAD = 8  # the mark takes an eighth of the limit at most: enough for 100,000 different ones
_LEAST = 8_000  # below, there is no room for marks


class ProcessTag(NamedTuple):
    text: str
    limit: int  # 0: this system has none

    @property
    def token(self) -> bytes:
        return self.text.rpartition("/")[2].encode()


def new_mark() -> ProcessTag:
    """If we are marked ourselves, as an agent's agent is, the new mark begins with ours."""
    mine = os.urandom(8).hex()
    outer = os.environ.get(NAME, "")
    return ProcessTag(f"{outer}/{mine}" if outer else mine, _odd_limit())


def put_limit(pid: int, mark: ProcessTag) -> None:
    """On a process that was just started, and may have started others already: so it is only a fallback."""
    if mark.limit and sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):  # it is gone, or now runs as another user
            resource.prlimit(pid, resource.RLIMIT_MSGQUEUE, (mark.limit, mark.limit))


def first_words(mark: ProcessTag) -> str:
    """The same, for a bash script: there it applies before anything else can start."""
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


SHORT = 1.0  # seconds in which process numbers cannot have wrapped around
MOST_SCANS = 100  # for processes that are born during a search; on a busy machine two or three are usual
FEW = 200  # numbers that are tried one by one; reading the whole table costs as much

_VARIABLE = f"{NAME}=".encode()
_ZOMBIE, _DEAD = b"Z", b"X"


class ProcessInfo(NamedTuple):
    pid: int
    parent: int
    group: int
    session: int
    started: int  # in ticks since boot; with the number, it identifies a process
    zombie: bool

    @property
    def named(self) -> tuple[int, int, bytes]:
        """With its current program."""
        return self.pid, self.started, _read(self.pid, "cmdline")


class ProcessTree(NamedTuple):
    """The descendants of one child, whose number is also that of its group and its session."""

    pid: int
    mark: ProcessTag


def left_of(line: ProcessTree, seconds: float) -> list[ProcessInfo]:
    """Everything that belongs to a child which was started so long ago, except the child itself."""
    first = read_process(line.pid)
    since = first.started if first is not None else 0  # older processes are no descendants
    others: list[ProcessInfo] = []
    mine: dict[int, ProcessInfo] = {}
    last = _youngest()
    numbers = _younger(line.pid, seconds, last)
    for _ in range(MOST_SCANS):
        for pid in numbers:
            found = read_process(pid) if pid != line.pid else None
            if found is not None and found.started >= since:
                others.append(found)
                if _belongs(found, line):
                    mine[pid] = found
        # A process may have started another one and ended before its turn came. So look at those that were born
        # meanwhile, until none was: then each one that is alive now was looked at while it was alive.
        if (now := _youngest()) == last:
            break
        numbers, last = _born_since(last, now), now
    if mine:  # a process that lost both marks may still be the child of one that did not
        grown = -1
        while grown != len(mine):
            grown = len(mine)
            mine |= {found.pid: found for found in others if found.parent in mine}
    return list(mine.values())


def read_process(pid: int) -> ProcessInfo | None:
    """None: there is no such process, or no `/proc`."""
    text = _read(pid, "stat")
    _, _, rest = text.rpartition(b") ")  # a program's name may contain anything
    fields = rest.split()
    if len(fields) < 20 or fields[0] == _DEAD:
        return None
    parent, group, session = map(int, fields[1:4])
    return ProcessInfo(pid, parent, group, session, int(fields[19]), fields[0] == _ZOMBIE)


def is_alive(found: ProcessInfo) -> bool:
    now = read_process(found.pid)
    return now is not None and now.started == found.started and not now.zombie


def send_signal(founds: Iterable[ProcessInfo], number: signal.Signals) -> list[ProcessInfo]:
    """To each, if it is still the same process: numbers are reused. Without zombies and other users' processes."""
    return [found for found in founds if not found.zombie and _send(found, number)]


def send_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone; the second is how macOS reports that
        os.killpg(group, number)


def kill_tree(line: ProcessTree, seconds: float) -> list[ProcessInfo]:
    """Sends KILL to the group and to everything else that belongs to it. Returns what still existed; call it until that
    is empty.

    A process needs a moment to die, and one that starts others may be faster than we are, but not often.
    """
    send_group(line.pid, signal.SIGKILL)
    left = left_of(line, seconds)
    reap_orphans(left)
    return send_signal(left, signal.SIGKILL)


def reap_orphans(founds: Iterable[ProcessInfo]) -> None:
    """Those that we adopted because their parents are gone (`own_process.py`)."""
    me = os.getpid()
    for found in founds:
        if found.zombie and found.parent == me:
            _reap(found.pid)


def list_own_children() -> list[ProcessInfo]:
    """All our children."""
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


def _born_since(last: int, now: int) -> Iterable[int]:
    if last < now <= last + FEW:
        return range(last + 1, now + 1)
    every = [int(name) for name in _names("/proc") if name.isdigit()]  # the numbers may have begun anew
    return [number for number in every if number > last] if now > last else every


def _younger(pid: int, seconds: float, last: int) -> Iterable[int]:
    if seconds < SHORT and pid <= last <= pid + FEW:
        return range(pid + 1, last + 1)
    every = [int(name) for name in _names("/proc") if name.isdigit()]
    if seconds < SHORT and pid <= last:
        return [number for number in every if number > pid]
    me = os.getpid()
    return [number for number in every if number != me]


def _youngest() -> int:
    """The number that was given last; 0 if unknown."""
    number = _read_file("/proc/loadavg").rpartition(b" ")[2].strip()
    return int(number) if number.isdigit() else 0


def _send(found: ProcessInfo, number: signal.Signals) -> bool:
    """Returns whether the signal may have arrived. A process that has gone meanwhile counts: it may have left a zombie,
    so the caller checks again.
    """
    try:
        _send_safely(found, number)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def _send_safely(found: ProcessInfo, number: signal.Signals) -> None:
    """While the descriptor is open, the number is not reused."""
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
    """All of it; empty if it is gone or not readable for us."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""
