"""All programs that we start, and their ends: nothing outlives a call, nor us (security P7).

The owner of a session makes one `Children` and passes it to everything that starts programs: tools, hooks, searches.
Whatever ends a call, a limit, a cancelled task, the end of the session or a signal, ends its processes, too.

A child and all its descendants end with TERM, two seconds, KILL until nothing is left, then reaping (security X2).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

from mainspring.processes import own_process, process_tree
from mainspring.processes.child import Child, ProcessSpec, SandboxAccess
from mainspring.processes.output import ProcessOutput
from mainspring.processes.waiting import WaitingChild, gate_pair

GRACE = 2.0  # seconds between TERM and KILL
MOMENT = 0.1  # seconds for processes that start after TERM, such as the programs of a trap
LINGER = 0.1  # seconds for the rest of the output when the child has ended: `>(tee log)` ends after its shell
TICK = 0.02  # seconds between two checks, at most, unless they take long
SELDOM = 0.5  # seconds between two checks of what may run for hours
ROUNDS, LAST_ROUNDS = 500, 100  # checks after KILL, and when we cannot wait; the kernel holds the survivors
PAUSE = 0.002  # seconds between these


async def end_child(child: Child) -> None:
    """However often this is cancelled, the child has ended when it returns or raises."""
    if child.closed:
        return
    if child.exited.is_set() and not _left(child):
        process_tree.send_group(child.pid, signal.SIGKILL)  # without a process table (macOS), that is all there is
        child.is_reaped()  # not before: from now on its number may be reused
        child.close()
        return
    ending = asyncio.get_running_loop().create_task(_end(child))
    cancelled = False
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:  # of the caller, or of everything, when the loop closes
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def wait_for_leftovers(child: Child) -> None:
    """After its own end: its descendants may be about to finish."""
    if not child.silent and _left(child):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                await child.silence()


async def wait_for_descendants(child: Child) -> None:
    """Until none of its processes runs any more, for a command that may leave others running."""
    await child.exited.wait()
    while left := _left(child):
        while any(process_tree.is_alive(found) for found in left):  # noqa: ASYNC110  # nobody tells us of their end
            await asyncio.sleep(SELDOM)


def kill_child_now(child: Child) -> None:
    """At once, without an event loop: for the last moment, and for signal handlers."""
    if child.closed:
        return
    for _ in range(LAST_ROUNDS):
        if not process_tree.kill_tree(child.line, child.age) and child.is_reaped():
            break
        time.sleep(PAUSE)
    child.close()


async def _end(child: Child) -> None:
    try:
        await _ask(child)
        await _insist(child)
    finally:  # if the loop itself is closing, there is no grace period
        kill_child_now(child)


async def _ask(child: Child) -> None:
    """Sends TERM to each, once. Again to one that has become another program since: it has lost the signal.

    A shell that has just forked gets TERM as a shell, and then becomes the program that it should run. Processes that
    start after that get a moment: they may be cleaning up.
    """
    first = _left(child)
    there = {(one.pid, one.started) for one in first}
    told: set[tuple[int, int, bytes]] = set()
    if not child.job.keeper:
        told = {one.named for one in first if one.group == child.pid}
        process_tree.send_group(child.pid, signal.SIGTERM)
        process_tree.send_group(child.pid, signal.SIGCONT)  # a stopped process receives nothing
    since: dict[tuple[int, int], float] = {}  # when the others were first seen
    began = time.monotonic()
    delay = 0.001
    while (now := time.monotonic()) < began + GRACE:
        left = _left(child)
        if child.exited.is_set() and not left:
            return
        due = {named: one for one in left if (named := one.named) not in told}
        new = {n: one for n, one in due.items() if n[:2] in there or now - since.setdefault(n[:2], now) >= MOMENT}
        process_tree.send_signal(list(new.values()), signal.SIGTERM)
        process_tree.send_signal(list(new.values()), signal.SIGCONT)
        told.update(new)
        await _moment(child, max(delay, 4 * (time.monotonic() - now)))  # checks take a fifth of the time at most
        delay = min(2 * delay, TICK)


async def _moment(child: Child, seconds: float) -> None:
    if child.exited.is_set():
        await asyncio.sleep(seconds)
    else:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await child.exited.wait()


async def _insist(child: Child) -> None:
    for _ in range(ROUNDS):
        if not process_tree.kill_tree(child.line, child.age) and child.exited.is_set():
            return
        await asyncio.sleep(PAUSE)


def _left(child: Child) -> list[process_tree.ProcessInfo]:
    """Its processes that still run. Reaps dead ones that we adopted."""
    found = process_tree.left_of(child.line, child.age)
    process_tree.reap_orphans(found)
    return [one for one in found if not one.zombie]


SWEEP = 5.0  # seconds between two sweeps for adopted zombies while their child still runs

Around = Callable[[ProcessSpec], AbstractContextManager[ProcessSpec]]  # the same job in a sandbox, until it has ended
# The same for a job that waits at its gate. Changes nothing outside; `held` is closed when the wait is over. None: not
# in this sandbox.
AroundWaiting = Callable[[ProcessSpec, ExitStack], ProcessSpec | None]


class ProcessResult(NamedTuple):
    code: int  # negative: the number of the signal that ended it
    stdout: ProcessOutput
    stderr: ProcessOutput  # the same one if they were merged
    timed_out: bool
    seconds: float
    notes: tuple[str, ...] = ()  # of this one: for the person


def result_of(child: Child, *, timed_out: bool) -> ProcessResult:
    assert child.code is not None  # it is closed
    return ProcessResult(child.code, child.stdout, child.stderr, timed_out, child.seconds, child.notes)


class Children:
    def __init__(
        self,
        *,
        adopt: bool = False,
        hide: bool = False,
        around: Around | None = None,
        around_waiting: AroundWaiting | None = None,
    ) -> None:
        """`adopt` and `hide` apply to the whole process, and take effect at the first start (`own_process.py`).
        `around` is the sandbox, for jobs that want one; `around_waiting` the same for one that waits.
        """
        self._adopt, self._hide, self._adopting = adopt, hide, False
        self.around, self._around_waiting = around, around_waiting
        self.waiting: WaitingChild | None = None  # at most one
        self._ending: set[asyncio.Task[None]] = set()  # of waiting ones that were not needed
        self._closed = False
        self._alive: dict[Child, ExitStack] = {}  # with the resources of each
        self._sweeping: asyncio.TimerHandle | None = None

    async def run(self, job: ProcessSpec) -> ProcessResult:
        """Runs it to its end, and that of all its descendants. Raises `OSError` if it cannot be started."""
        return await self.finish(self.start(job))

    async def finish(self, child: Child) -> ProcessResult:
        timed_out = False
        try:
            async with asyncio.timeout(child.job.limits.seconds):
                await child.exited.wait()
            await wait_for_leftovers(child)
        except TimeoutError:
            timed_out = True
        finally:  # also if we were cancelled
            await self.end(child)
        return result_of(child, timed_out=timed_out)

    async def finish_unless(self, child: Child, left: asyncio.Future[None]) -> ProcessResult | None:
        """As `finish`, but once `left` is done the command goes on (None), and the caller must end it."""
        ended = asyncio.ensure_future(child.exited.wait())
        either: tuple[asyncio.Future[Any], ...] = (ended, left)
        timed_out = goes_on = False
        try:
            async with asyncio.timeout(child.job.limits.seconds):
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            goes_on = not ended.done()
            if not goes_on:
                await wait_for_leftovers(child)
        except TimeoutError:
            timed_out = True
        finally:  # also if we were cancelled
            ended.cancel()
            if not goes_on:
                await self.end(child)
        return None if goes_on else result_of(child, timed_out=timed_out)

    def start(self, job: ProcessSpec, waiting: WaitingChild | None = None) -> Child:
        """The caller must end it. `waiting` does the job if its sandbox is exactly the one that the job would get now;
        otherwise it ends, and another program is started."""
        self._prepare()
        with ExitStack() as held:
            try:
                if self.around is not None and job.walls is not SandboxAccess.NONE:
                    job = held.enter_context(self.around(job))
            except BaseException:
                self.discard(waiting)
                raise
            child = self._release(waiting, job) or Child(job)
            self._alive[child] = held.pop_all()
        self._sweep_later()
        return child

    def start_waiting(self, job: ProcessSpec, command: int, seconds: float) -> WaitingChild | None:
        """Starts a program that waits for its command, for so many seconds at most. None: there is one already, or none
        can wait in this sandbox. Start it from a thread that lives on. `command`: a descriptor that it inherits, of an
        empty file in memory; closed at the end of the wait."""
        with ExitStack() as held:
            held.callback(os.close, command)
            if self.waiting is not None or self._around_waiting is None or self._closed:
                return None
            self._prepare()
            ours, its = gate_pair()
            held.callback(ours.close)
            with its, ExitStack() as starting:
                wrapped = self._around_waiting(job._replace(gate=its.fileno()), starting)
                if wrapped is None:
                    return None
                child = Child(wrapped)
                held.push(starting.pop_all())
            self.waiting = waiting = WaitingChild(child, ours, command)
            timer = asyncio.get_running_loop().call_later(seconds, self.discard, waiting)
            held.callback(timer.cancel)
            held.callback(lambda: waiting.unused())  # noqa: PLW0108  # whoever takes it changes that
            self._alive[child] = held.pop_all()
        self._sweep_later()
        return waiting

    def discard(self, waiting: WaitingChild | None) -> None:
        """End one that is not needed, in the background."""
        if waiting is None or waiting is not self.waiting:
            return
        self.waiting = None
        waiting.close()
        ending = asyncio.get_running_loop().create_task(self.end(waiting.child))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _release(self, waiting: WaitingChild | None, job: ProcessSpec) -> Child | None:
        if waiting is None or waiting is not self.waiting:
            return None
        if not waiting.fits(job):
            self.discard(waiting)
            return None
        self.waiting = None
        held = self._alive.pop(waiting.child)
        waiting.release(job)
        held.close()
        return waiting.child

    async def end(self, child: Child) -> None:
        try:
            await end_child(child)
        finally:
            self._forget(child)

    async def close(self) -> None:
        """Ends all that are left. The caller starts nothing while this runs, and none waits for a command after it."""
        self._closed = True
        self.discard(self.waiting)
        await asyncio.gather(*self._ending)
        await asyncio.gather(*[self.end(child) for child in self._alive])

    def kill(self) -> None:
        """Ends everything now, from anywhere: also from a signal handler."""
        self.waiting = None
        for child in tuple(self._alive):
            self.kill_one(child)

    def kill_one(self, child: Child) -> None:
        kill_child_now(child)
        self._forget(child)

    def sweep(self) -> None:
        """Reaps adopted zombies that no other code waits for."""
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

    def _sweep_later(self) -> None:
        if self._adopting and self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP, self.sweep)

    def _prepare(self) -> None:
        if self._hide:
            self._hide = False
            own_process.hide_process()
        if self._adopt:
            self._adopt = False
            self._adopting = own_process.become_subreaper()
