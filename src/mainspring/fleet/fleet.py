"""`Fleet`: many agent sessions on one event loop, under one budget and one rate limit.

    fleet = Fleet(Agent("haiku", tools=["Read", "Grep"]), max_concurrent=200, max_budget_usd=20, out="out")
    async for result in fleet.run(tasks):
        print(result.id, result.text)

With `out`, everything is stored there: results, sessions, and the ledger. The same program again continues where it
stopped, whatever stopped it: tasks with a result are not run again, and sessions that broke off are resumed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import signal
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mainspring.core.errors import UsageError
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.value import Bundle
from mainspring.engine.shared_state import Ledger
from mainspring.engine.tasks import run_to_completion
from mainspring.fleet.checks import SECONDS
from mainspring.fleet.leases import LedgerFile, read_spending
from mainspring.fleet.results import ResultsFile, TaskResult
from mainspring.fleet.runner import (
    AgentFactory,
    PlansSessions,
    TaskRunner,
    Unfinished,
    find_stored_sessions,
    make_agent,
)
from mainspring.fleet.scheduler import FleetLimits, ModelScheduler, check_limits
from mainspring.fleet.tasks import FleetTask, check_task, name_task, name_tasks
from mainspring.fleet.workers import WorkerPool, WorkerTerms
from mainspring.fleet.workspaces import name_of, remove_finished_workspaces
from mainspring.library.agent import Agent
from mainspring.library.options import AgentOptions

MAX_CONCURRENT = 50
FILES_OF_A_SESSION = 4  # its journal, its connection, and a little for what it reads
FILES_OF_A_TOOL = 6  # a child process and its pipes
FILES_OF_THE_PROCESS = 64


class FleetStats(Bundle, frozen=True):
    """How far a run is.

    Example:
        fleet = Fleet({"model": "haiku"})
        async for result in fleet.run(["What is 2 + 3?"]):
            stats: FleetStats = fleet.stats
            print(f"{stats.done} done, {stats.failed} failed, {stats.running} running, ${stats.cost_usd:.4f}")
    """

    done: int = 0
    """Tasks with a result, with those of earlier runs."""
    failed: int = 0
    """Of those: without an answer, or with a failed check."""
    running: int = 0
    unfinished: int = 0
    """Stopped before they had a result; another run continues them."""
    cost_usd: float = 0
    """In all, with earlier runs and with reservations whose outcome is unknown."""
    stopped: str = ""
    """Why no more tasks begin: `drain`, `budget_usd`; empty: they do."""


class Fleet:
    """Runs many tasks with one agent, as many at a time as `max_concurrent` and the limits allow.

    Example:
        fleet = Fleet(Agent("haiku"), max_concurrent=100, max_budget_usd=5)
        async for result in fleet.run(["What is 2 + 3?"]):
            print(result.id, result.text, result.cost_usd)
    """

    def __init__(  # noqa: PLR0913  # keywords, but for the first
        self,
        agent: Agent[Any, Any] | AgentOptions | Mapping[str, Any] | PlansSessions,
        *,
        max_concurrent: int = MAX_CONCURRENT,
        limits: FleetLimits | None = None,
        max_budget_usd: float | None = None,
        out: str | os.PathLike[str] | None = None,
        isolate: bool = False,
        check_seconds: float = SECONDS,
        processes: int = 1,
        factory: AgentFactory | None = None,
    ) -> None:
        """`agent`: an `Agent`, or the options of one, with `model`.
        `max_budget_usd`: of all tasks together, with those of earlier runs in `out`.
        `out`: where results, sessions and workspaces are stored; None: results are not stored.
        `isolate`: a task that names no directory works in an empty one.
        `check_seconds`: the longest time of a check.
        `processes`: more than one needs `out`, and options that are JSON in place of an agent, or a `factory`, which
        makes the agent in each of them."""
        if check_seconds <= 0:
            raise UsageError(f"'check_seconds' must be more than 0, not {check_seconds}")
        if max_concurrent < 1:
            raise UsageError(f"'max_concurrent' must be at least 1, not {max_concurrent}")
        if max_budget_usd is not None and max_budget_usd <= 0:
            raise UsageError(f"'max_budget_usd' must be more than 0, not {max_budget_usd}")
        if processes < 1:
            raise UsageError(f"'processes' must be at least 1, not {processes}")
        if factory is None and isinstance(agent, Mapping):
            factory = AgentFactory("mainspring.fleet.runner:make_agent", dict(agent))
        if processes > 1 and (out is None or factory is None):
            raise UsageError("'processes' needs 'out', and the options of an agent in place of the agent itself")
        self.agent = make_agent(agent)
        self.processes, self.factory = processes, factory
        self.limits = check_limits(limits or FleetLimits())
        self.max_concurrent = max_concurrent
        self.budget = round(max_budget_usd * NANOS_PER_USD) if max_budget_usd is not None else None
        self.isolate, self.check_seconds = isolate, check_seconds
        self._out = Path(os.path.realpath(out)) if out is not None else None
        self._run: FleetRun | None = None
        self._stats = FleetStats()
        self.results: dict[str, TaskResult] = {}
        """By task: the results so far, with those of earlier runs in `out`."""

    async def run(
        self,
        tasks: Iterable[FleetTask | str] | AsyncIterable[FleetTask | str],
        *,
        retry_failed: bool = False,
        handle_sigterm: bool = True,
    ) -> AsyncGenerator[TaskResult, None]:
        """Run the tasks, and yield each result when it is stored. A task is taken from `tasks` when there is room for
        it, and no more are taken while results are not read. A prompt is a task whose id is its position: 1, 2, 3.

        `retry_failed` runs tasks again that have a result without an answer. `handle_sigterm`: SIGTERM drains the
        fleet, if this is the main thread. Leaving the loop early stops all sessions; another run resumes them."""
        if self._run is not None:
            raise UsageError("this fleet is running: wait for its end, or make another one")
        folder = FleetFolder(self._out) if self._out is not None else None
        try:
            run = self._run = FleetRun(self, folder, retry_failed=retry_failed)
            async for result in run.results(tasks, handle_sigterm=handle_sigterm):
                yield result
        finally:
            if self._run is not None:
                await run_to_completion(self._run.close())
                self._stats = self._run.stats
            self._run = None
            if folder is not None:
                folder.close()

    def drain(self) -> None:
        """Begin no more tasks and no more turns. Turns that run end, then their sessions stop, and another run with the
        same `out` resumes them."""
        if self._run is not None:
            self._run.drain("drain")

    @property
    def stats(self) -> FleetStats:
        return self._run.stats if self._run is not None else self._stats


class FleetFolder:
    """The output directory, locked for this fleet: its results, its ledger and its sessions."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.lock = lock_folder(path)
        self.results = ResultsFile(path)
        self.ledger = LedgerFile(path)
        self.before: dict[str, int] = {}  # by unfinished session: what it has spent

    def read_spent(self) -> int:
        """Nano-dollars of all runs so far. Records the calls that were on their way when the last process ended."""
        self.before.clear()
        spent = self.results.spent
        for session_id, file in find_stored_sessions(self.path):
            if session_id not in self.results.session_ids:
                found = read_spending(file)
                self.ledger.note_unknown(session_id, found)
                spent += found.spent
                self.before[session_id] = found.spent
        return spent + self.ledger.unknown

    def close(self) -> None:
        self.results.close()
        self.ledger.close()
        os.close(self.lock)


def lock_folder(path: Path) -> int:
    """Workers have the lock, too. If only they live, their coordinator was killed, and they are about to end."""
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if is_alive(os.pread(lock, 20, 0)):
            os.close(lock)
            why = "is in use by another fleet: wait for its end, or use another directory"
            raise UsageError(f"'{path}' {why}") from None
        fcntl.flock(lock, fcntl.LOCK_EX)
    os.pwrite(lock, f"{os.getpid():<20}".encode(), 0)
    return lock


def is_alive(pid: bytes) -> bool:
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True  # of another user
    except (ValueError, ProcessLookupError):
        return False
    return True


class FleetRun:
    """One run of a fleet, from its first task to its last result."""

    def __init__(self, fleet: Fleet, folder: FleetFolder | None, *, retry_failed: bool) -> None:
        self._fleet, self._folder, self._retry_failed = fleet, folder, retry_failed
        spent = folder.read_spent() if folder is not None else 0
        self._runner = make_runner(fleet, folder, spent)
        if folder is not None:
            fleet.results.update(folder.results.latest)
        self._most = fit_open_files(fleet.max_concurrent, fleet.limits)
        self._slots = asyncio.Semaphore(self._most)
        self._ready: asyncio.Queue[TaskResult | BaseException | None] = asyncio.Queue(self._most)
        self._running: set[asyncio.Task[None]] = set()
        self._feeding: asyncio.Task[None] | None = None
        self._seen: set[str] = set()
        self._unfinished = 0
        self._stopped = ""

    @property
    def stats(self) -> FleetStats:
        results = self._fleet.results.values()
        return FleetStats(
            len(results),
            sum([result.failed for result in results]),
            len(self._running),
            self._unfinished,
            self._runner.spent / NANOS_PER_USD,
            self._stopped,
        )

    async def results(
        self, tasks: Iterable[FleetTask | str] | AsyncIterable[FleetTask | str], *, handle_sigterm: bool
    ) -> AsyncGenerator[TaskResult, None]:
        if isinstance(tasks, Sequence):  # all mistakes now, before anything costs money
            tasks = [self._check(task) for task in name_tasks(tasks)]
            self._seen.clear()
        if self._folder is not None:
            finished = {name_of(one.id, one.attempts) for one in self._folder.results.latest.values()}
            await asyncio.to_thread(remove_finished_workspaces, self._folder.path, finished)
        self._feeding = asyncio.ensure_future(self._feed(tasks))
        handled = handle_sigterm and threading.current_thread() is threading.main_thread()
        loop = asyncio.get_running_loop()
        if handled:
            loop.add_signal_handler(signal.SIGTERM, self.drain, "drain")
        try:
            while (item := await self._ready.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            if handled:
                loop.remove_signal_handler(signal.SIGTERM)

    # --- tasks ---

    async def _feed(self, tasks: Iterable[FleetTask | str] | AsyncIterable[FleetTask | str]) -> None:
        try:
            async for task in take_each(tasks):
                attempt = self._next_attempt(self._check(task))
                if attempt is None:
                    continue
                await self._slots.acquire()
                if self._stopped:
                    self._slots.release()
                    break
                running = asyncio.ensure_future(self._run_task(task, attempt))
                self._running.add(running)
                running.add_done_callback(self._running.discard)
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001  # of the caller's tasks: raised where the results are read
            self.drain("drain")
            await self._end(error)
        else:
            await self._end(None)

    async def _end(self, error: Exception | None) -> None:
        if self._running:
            await asyncio.wait(set(self._running))
        await self._ready.put(error)

    def _check(self, task: FleetTask) -> FleetTask:
        check_task(task)
        if task.id in self._seen:
            raise UsageError(f"two tasks have the id '{task.id}': give each its own")
        self._seen.add(task.id)
        if self._folder is not None:
            self._folder.results.find(task)
        return task

    def _next_attempt(self, task: FleetTask) -> int | None:
        """None: the task has a result, and is not run again."""
        before = self._folder.results.find(task) if self._folder is not None else None
        if before is None:
            return 1
        return before.attempts + 1 if self._retry_failed and before.failed else None

    async def _run_task(self, task: FleetTask, attempt: int) -> None:
        try:
            outcome = await self._runner.run(task, attempt)
            if isinstance(outcome, Unfinished):
                self._unfinished += 1
                self.drain(outcome.why)
                return
            if self._folder is not None:
                await self._folder.results.append(outcome)
                await self._runner.clean_up(task)
            self._fleet.results[task.id] = outcome
            await self._ready.put(outcome)
        except Exception as error:  # noqa: BLE001  # a full disk, or a bug: no more results can be trusted
            self.drain("error")
            await self._ready.put(error)
        finally:
            self._slots.release()

    # --- the end ---

    def drain(self, why: str) -> None:
        if not self._stopped:
            self._stopped = why
        if why != "budget_usd":  # then what runs may still have the money to end
            self._runner.drain()

    async def close(self) -> None:
        """Stops everything that still runs; its sessions can be resumed."""
        await self._stop()
        await self._runner.close()

    async def _stop(self) -> None:
        if not self._running and (self._feeding is None or self._feeding.done()):
            return
        self.drain("drain")
        if self._feeding is not None:
            self._feeding.cancel()
        self._runner.suspend()
        while self._running:
            while not self._ready.empty():
                self._ready.get_nowait()  # it is stored, and has no reader any more
            await asyncio.wait(set(self._running), timeout=0.05)


def make_runner(fleet: Fleet, folder: FleetFolder | None, spent: int) -> TaskRunner | WorkerPool:
    if folder is None or fleet.processes == 1 or fleet.factory is None:
        return TaskRunner(
            fleet.agent,
            ModelScheduler(fleet.limits),
            Ledger(fleet.budget, spent=spent),
            folder.path if folder is not None else None,
            isolate=fleet.isolate,
            check_seconds=fleet.check_seconds,
        )
    return WorkerPool(
        fleet.processes,
        WorkerTerms(fleet.factory, isolate=fleet.isolate, check_seconds=fleet.check_seconds),
        fleet.limits,
        folder.path,
        folder.ledger,
        budget=fleet.budget,
        spent=spent,
        before=folder.before,
        inherited=folder.lock,
    )


async def take_each(
    tasks: Iterable[FleetTask | str] | AsyncIterable[FleetTask | str],
) -> AsyncGenerator[FleetTask, None]:
    if isinstance(tasks, AsyncIterable):
        number = 0
        async for task in tasks:
            number += 1
            yield name_task(task, number)
    else:
        for task in name_tasks(tasks):
            yield task


def fit_open_files(max_concurrent: int, limits: FleetLimits) -> int:
    """How many sessions can run at once: each has files open. Raises the limit of this process, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    others = FILES_OF_THE_PROCESS + (limits.concurrent_tools or 0) * FILES_OF_A_TOOL
    wanted = others + max_concurrent * FILES_OF_A_SESSION
    if limits.open_files is None and soft < wanted:
        with suppress(OSError, ValueError):
            soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    allowed = soft if limits.open_files is None else min(limits.open_files, soft)
    most = min(max_concurrent, (allowed - others) // FILES_OF_A_SESSION)
    if most < 1:
        raise UsageError(f"{allowed} open files are too few: raise 'open_files', or the limit of the system")
    return most
