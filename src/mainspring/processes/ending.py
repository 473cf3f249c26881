"""The end of a child and of all that it started (security X2): TERM, two seconds, KILL until nothing is left, then
reap."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time

from mainspring.processes import process_tree
from mainspring.processes.child import Child

GRACE = 2.0  # seconds between TERM and KILL
MOMENT = 0.1  # seconds for what is begun after TERM, such as the programs of a trap
LINGER = 0.1  # seconds for the rest of the output when the child has ended: `>(tee log)` ends after its shell
TICK = 0.02  # seconds between two looks, at most, unless they take long
SELDOM = 0.5  # seconds between two looks at what may run for hours
ROUNDS, LAST_ROUNDS = 500, 100  # looks after KILL, and when nobody can wait; who survives them is held by the kernel
PAUSE = 0.002  # seconds between these


async def end_child(child: Child) -> None:
    """However often this is cancelled, the child is over when it returns or raises."""
    if child.closed:
        return
    if child.exited.is_set() and not _left(child):
        process_tree.send_group(child.pid, signal.SIGKILL)  # where nothing can be found (macOS), that is all there is
        child.is_reaped()  # not before: from now on its number may be another's
        child.close()
        return
    ending = asyncio.get_running_loop().create_task(_end(child))
    cancelled = False
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:  # of whoever waits, or of everything, when the loop closes
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def wait_for_leftovers(child: Child) -> None:
    """After its own end: what it started may be about to finish."""
    if not child.silent and _left(child):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                await child.silence()


async def wait_for_descendants(child: Child) -> None:
    """Until nothing of it runs any more, for a command that may leave others running."""
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
    finally:  # if the loop itself is closing, there is no grace
        kill_child_now(child)


async def _ask(child: Child) -> None:
    """TERM to each, once. Except to one that has become another program since: it has forgotten.

    A shell that has just forked hears TERM as the shell that it still is, and then becomes what it is to run. What is
    begun after that is given a moment: it may be what cleans up.
    """
    first = _left(child)
    there = {(one.pid, one.started) for one in first}
    told: set[tuple[int, int, bytes]] = set()
    if not child.job.keeper:
        told = {one.named for one in first if one.group == child.pid}
        process_tree.send_group(child.pid, signal.SIGTERM)
        process_tree.send_group(child.pid, signal.SIGCONT)  # one that was stopped hears nothing
    since: dict[tuple[int, int], float] = {}  # when the others were seen first
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
        await _moment(child, max(delay, 4 * (time.monotonic() - now)))  # looking takes a fifth of the time at most
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
    """What still runs of it. Those that are dead and came to us are buried on the way."""
    found = process_tree.left_of(child.line, child.age)
    process_tree.reap_orphans(found)
    return [one for one in found if not one.zombie]
