"""All the programs that we start, and their ends: nothing outlives a call, nor us (security P7).

One of these is made by whoever owns a session and given to those who start programs: tools, hooks, searches. Whatever
ends a call, a limit, a cancelled task, the end of the session or a signal, its processes end with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple

from mainspring.processes import own_process, process_tree
from mainspring.processes.child import Child, ProcessSpec, SandboxAccess
from mainspring.processes.ending import end_child, kill_child_now, wait_for_leftovers
from mainspring.processes.output import ProcessOutput

SWEEP = 5.0  # seconds between two looks for the dead who came to us while their child still runs

Around = Callable[[ProcessSpec], AbstractContextManager[ProcessSpec]]  # the same job behind walls, until it has ended


class ProcessResult(NamedTuple):
    code: int  # negative: the number of the signal that ended it
    stdout: ProcessOutput
    stderr: ProcessOutput  # the same one if they were merged
    timed_out: bool
    seconds: float
    notes: tuple[str, ...] = ()  # of this one: what a person should know


class Children:
    def __init__(self, *, adopt: bool = False, hide: bool = False, around: Around | None = None) -> None:
        """`adopt` and `hide` are for the whole process, and take place at the first start (`own_process.py`). `around`
        is the sandbox, for jobs that want walls."""
        self._adopt, self._hide, self._adopting = adopt, hide, False
        self.around = around
        self._alive: dict[Child, ExitStack] = {}  # with what is held for each
        self._sweeping: asyncio.TimerHandle | None = None

    async def run(self, job: ProcessSpec) -> ProcessResult:
        """To its end, and that of everything it started. Raises `OSError` if it cannot be started."""
        child = self.start(job)
        timed_out = False
        try:
            async with asyncio.timeout(job.limits.seconds):
                await child.exited.wait()
            await wait_for_leftovers(child)
        except TimeoutError:
            timed_out = True
        finally:  # also if we were cancelled
            await self.end(child)
        assert child.code is not None  # it is closed
        return ProcessResult(child.code, child.stdout, child.stderr, timed_out, child.age, child.notes)

    def start(self, job: ProcessSpec) -> Child:
        """Whoever starts it, ends it."""
        self._prepare()
        with ExitStack() as held:
            if self.around is not None and job.walls is not SandboxAccess.NONE:
                job = held.enter_context(self.around(job))
            child = Child(job)
            self._alive[child] = held.pop_all()
        if self._adopting and self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP, self.sweep)
        return child

    async def end(self, child: Child) -> None:
        try:
            await end_child(child)
        finally:
            self._forget(child)

    async def close(self) -> None:
        """End all that is left. Nothing is started any more while this runs, or it is not its concern."""
        await asyncio.gather(*[self.end(child) for child in self._alive])

    def kill(self) -> None:
        """End everything now, from anywhere: also from a signal handler."""
        for child in tuple(self._alive):
            self.kill_one(child)

    def kill_one(self, child: Child) -> None:
        kill_child_now(child)
        self._forget(child)

    def sweep(self) -> None:
        """Bury the dead who came to us, and whom nobody else waits for."""
        lines = [child.line for child in self._alive]
        dead = [found for found in process_tree.list_own_children() if found.zombie]
        process_tree.reap_orphans(
            [found for found in dead if any(process_tree.belongs_to_tree(found, line) for line in lines)]
        )
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP, self.sweep)

    def _forget(self, child: Child) -> None:
        if (held := self._alive.pop(child, None)) is not None:
            held.close()
        if not self._alive and self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    def _prepare(self) -> None:
        if self._hide:
            self._hide = False
            own_process.hide_process()
        if self._adopt:
            self._adopt = False
            self._adopting = own_process.become_subreaper()
