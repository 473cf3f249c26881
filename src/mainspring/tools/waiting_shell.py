"""A shell that waits in the sandbox while the model still writes the command (decision 0096).

Starting the sandbox takes longer than most commands, and nothing of it depends on the command: only whether it is the
usual sandbox does. So it is started with the first word of a call, and has nothing to do with the call after that: the
command is decided on, checked and journaled as always. Only then is the shell looked at: it gets the command if it is
in all respects the one that would be started now, and ends otherwise.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from mainspring.core.value import Bundle
from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.children import Children
from mainspring.processes.environment import find_program
from mainspring.processes.process_tree import new_mark
from mainspring.processes.waiting import WaitingChild
from mainspring.tools.base import Workspace
from mainspring.tools.shell import answer_pair, waiting_bash_arguments

DELAY = 0.005  # seconds: a call that is complete by then, as from a model on this machine, would only be held up
PATIENCE = 30.0  # seconds: after that, a user is being asked, or the call never came
LONGEST_COMMAND = 131_071  # bytes of one argument (Linux): a longer command is refused, whether a shell waits or not


class WaitingShell(Bundle):
    child: WaitingChild
    answer: tuple[int, int]  # descriptors: we read its last directory from the first; the second is also its own


class WaitingShells:
    """The one of a session, if there is one."""

    def __init__(self, children: Children, env: Mapping[str, str]) -> None:
        self._children, self._env = children, env
        self._timer: asyncio.TimerHandle | None = None
        self._shell: WaitingShell | None = None

    def prepare(self, place: Workspace) -> None:
        """The model has begun to write a call."""
        if self._timer is None and self._children.waiting is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self._prepare_now, place)

    def take(self, command: str, walls: SandboxAccess) -> WaitingShell | None:
        """The shell for a command. It is the caller's now, who closes its descriptors. One that cannot be used ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        shell, self._shell = self._shell, None
        if shell is None or shell.child is not self._children.waiting:
            return None
        if walls is not SandboxAccess.USUAL or len(os.fsencode(command)) >= LONGEST_COMMAND:
            self._children.discard(shell.child)
            return None
        shell.child.unused = _keep  # the caller closes the pair, also if a fresh shell writes to it
        return shell

    def _prepare_now(self, place: Workspace) -> None:
        self._timer = None
        with suppress(Exception):  # whatever is wrong, the call itself will report it
            self._start(place)

    def _start(self, place: Workspace) -> None:
        program = find_program("bash", path=self._env.get("PATH", ""), outside=(place.root, *place.folders))
        if program is None:
            return
        answer, mark, waiting = answer_pair(), new_mark(), None
        try:
            command = os.memfd_create("mainspring-command")
            job = ProcessSpec(
                argv=(program, *waiting_bash_arguments(command, mark, answer[1])),
                cwd=place.cwd,
                env=self._env,
                merged=True,
                passed=(answer[1], command),
                mark=mark,
                walls=SandboxAccess.USUAL,
            )
            waiting = self._children.start_waiting(job, command, PATIENCE)
        finally:
            if waiting is None:
                close_pair(answer)
        if waiting is not None:
            waiting.unused = partial(close_pair, answer)
            self._shell = WaitingShell(waiting, answer)


def _keep() -> None:
    """Nothing to close."""


def close_pair(answer: tuple[int, int]) -> None:
    for fd in answer:
        os.close(fd)
