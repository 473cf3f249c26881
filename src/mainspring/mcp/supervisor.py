"""Starts a server and supervises it: when mainspring ends in any way, the server and all its processes end, too.

This is a program by itself, started with `python -I -S`: it imports nothing of mainspring. Its arguments: two
descriptors that become the server's standard input and output, whether LC_CTYPE was set, and the command. It holds the
reading end of the input, which tells when no writer is left: a server whose input has ended gets a moment to end by
itself, then TERM, then KILL, with everything that it started. A parent-death signal would reach only the server, and
would already be sent when the thread that started it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

SET_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36
FAILED = 126
PATIENCE = (1.0, 1.0)  # seconds until TERM, and from there until KILL
PAUSE = 0.01
ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def become_server(given: int, taken: int, command: list[str]) -> None:
    """In the new process: from here on it runs the server."""
    try:
        prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
        os.dup2(given, 0)
        os.dup2(taken, 1)
        os.closerange(3, max(given, taken) + 1)
        for number in (*ASKED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606  # no shell on purpose
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="replace"))
    os._exit(FAILED)


def list_descendants(pid: int) -> list[int]:
    """All descendants of a process, as far as the system knows them."""
    found: list[int] = []
    left = [pid]
    while left:
        for one in list_children(left.pop()):
            found.append(one)
            left.append(one)
    return found


def list_children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # load no more modules
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123
                found += [int(word) for word in file.read().split()]
    except OSError:  # it is gone
        pass
    return found


def signal_processes(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):  # it is gone, or another user's
            os.kill(pid, number)


class Supervisor:
    def __init__(self, server: int, given: int) -> None:
        self.server, self.given = server, given
        self.code: int | None = None
        self.wanted = False  # another process sent a signal
        self.woken, waking = os.pipe()
        os.set_blocking(waking, False)
        os.set_blocking(self.woken, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def wake(self, *_: object) -> None:
        """Python writes to the pipe for us."""

    def ask(self, *_: object) -> None:
        self.wanted = True

    def reap(self) -> None:
        """Reap the server, and processes that were reparented to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.server:
                self.code = os.waitstatus_to_exitcode(status)

    def watch(self) -> None:
        """Wait until the server has ended, or should end."""
        poll = select.poll()
        poll.register(self.given, 0)  # no event but hang-up
        poll.register(self.woken, select.POLLIN)
        while True:
            self.reap()
            if self.code is not None or self.wanted:
                return
            for fd, what in poll.poll():
                if fd == self.given and what:
                    return
                if fd == self.woken:
                    os.read(self.woken, 4096)

    def wait(self, seconds: float) -> bool:
        """Whether all processes are gone."""
        deadline = time.monotonic() + seconds
        while True:
            self.reap()
            if self.code is not None and not list_descendants(os.getpid()):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE)

    def end(self) -> None:
        by_itself, when_asked = PATIENCE
        if self.code is None and not self.wanted and self.wait(by_itself):
            return
        signal_processes(list_descendants(os.getpid()) or [self.server], signal.SIGTERM)
        if self.wait(when_asked):
            return
        while not self.wait(PAUSE):
            signal_processes(list_descendants(os.getpid()) or [self.server], signal.SIGKILL)


def main(given: str, taken: str, language: str, *command: str) -> int:
    if not language:
        os.environ.pop("LC_CTYPE", None)  # Python sets it where it was not set
    prctl(SET_CHILD_SUBREAPER, 1)
    server = os.fork()
    if server == 0:
        become_server(int(given), int(taken), list(command))
    os.close(int(taken))  # only the server may hold it, so it closes with the server
    keeper = Supervisor(server, int(given))
    for number in ASKED:
        signal.signal(number, keeper.ask)
    signal.signal(signal.SIGCHLD, keeper.wake)
    keeper.watch()
    keeper.end()
    code = keeper.code or 0
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))
