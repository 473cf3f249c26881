"""A program that was started before it is known what it is to do, and waits in its sandbox for that (decision 0096).

It waits at its gate: a socket from which bubblewrap reads a file in the middle of its set-up. Three things can happen
there. We take back the byte that we left unread, and close: bubblewrap reads an empty file, and goes on. We close
without that, or die, also by `kill -9`: the kernel reports a broken connection, and bubblewrap ends. Or neither, and it
waits. So nothing but a deliberate act of ours lets it go on.

Before the gate, bubblewrap has mounted what exists; it has created nothing outside, and no program of the sandbox runs.
The placeholders, bash with whatever it reads at its start, and the command come after it.
"""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import Callable

from mainspring.processes.child import Child, ProcessSpec

UNREAD = b"."  # while it is unread, our end breaks the connection instead of ending it

_gates: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_gates() -> None:
    """In a copy of this process: it would keep them open when we are gone."""
    for gate in tuple(_gates):
        gate.close()


os.register_at_fork(after_in_child=_close_gates)


def gate_pair() -> tuple[socket.socket, socket.socket]:
    """Our end, and that of the program."""
    ours, its = socket.socketpair()
    its.send(UNREAD)
    _gates.add(ours)
    return ours, its


class WaitingChild:
    """Made by `Children`, which ends it."""

    def __init__(self, child: Child, gate: socket.socket, command: int) -> None:
        self.child = child
        self.unused: Callable[[], object] = lambda: None  # called when it has ended without a taker
        self._gate, self._command = gate, command

    def fits(self, job: ProcessSpec) -> bool:
        """Whether starting the job now would make the same program in the same sandbox."""
        mine = self.child.job
        return bool(
            job.handed
            and job.built_from is not None
            and job.built_from == mine.built_from
            and not self.child.exited.is_set()
            and job.limits[2:] == mine.limits[2:]  # those of the system
            and (job.merged, job.stdin, job.readable) == (mine.merged, mine.stdin, mine.readable)
        )

    def release(self, job: ProcessSpec) -> None:
        """Give it its command, and let it go on."""
        view, at = memoryview(job.handed), 0
        while at < len(view):  # not `write`: it would move the position from which the program reads
            at += os.pwrite(self._command, view[at:], at)
        self.child.take_job(job)
        self._gate.recv(len(UNREAD))
        self._gate.close()

    def close(self) -> None:
        """It ends by itself, having run nothing."""
        self._gate.close()
