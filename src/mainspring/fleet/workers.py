"""Worker processes of a fleet: a pool of them in the coordinator, and what runs in each.

Coordinator and worker talk over a socket pair, a JSON message per line. The coordinator gives out tasks, money and its
rate, and writes all files but the sessions' own. A worker that loses the coordinator ends at once: its journals say how
far it came. A task whose worker died continues in another one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.engine.shared_state import Ledger
from mainspring.fleet.checks import SECONDS
from mainspring.fleet.leases import Lease, LeaseBook, LeaseReturned, LedgerFile, read_spending
from mainspring.fleet.results import TaskResult
from mainspring.fleet.runner import (
    AgentFactory,
    TaskRunner,
    Unfinished,
    find_stored_sessions,
    make_failure,
    make_session_id,
)
from mainspring.fleet.scheduler import FleetLimits, ModelScheduler
from mainspring.fleet.tasks import FleetTask

LONGEST_MESSAGE = 64 * 1024 * 1024  # bytes: a result holds the last text of a model, and perhaps a diff
MOST_DEATHS = 3  # of workers while they ran a task, before the task counts as failed
LEAST_SHIFT = 0.05  # of the rate limits; smaller changes of a worker's share are not worth a message


class WorkerTerms(Bundle):
    """How tasks run, in all workers."""

    factory: AgentFactory
    isolate: bool = False
    check_seconds: float = SECONDS


class WorkerSetup(Bundle):
    """What a worker is started with."""

    name: str
    terms: WorkerTerms
    limits: FleetLimits
    folder: str
    share: float
    budget: int | None  # what may be spent, in nano-dollars


class WorkerMessage(Bundle, omit_defaults=True):
    """In both directions; fields that do not belong to its kind are empty."""

    kind: str
    task: FleetTask | None = None
    attempt: int = 0
    result: TaskResult | None = None
    unfinished: str = ""  # why
    cost: int = 0
    amount: int = 0
    spent: int = 0
    denied: bool = False
    beyond: int = 0
    share: float = 0
    model: str = ""
    seconds: float = 0
    setup: WorkerSetup | None = None


class MessageLine:
    """One end of the socket pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoder = msgspec.json.Decoder(WorkerMessage)

    @classmethod
    async def open(cls, end: socket.socket) -> MessageLine:
        end.setblocking(False)
        return cls(*await asyncio.open_connection(sock=end, limit=LONGEST_MESSAGE))

    def send(self, message: WorkerMessage) -> None:
        if not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(message) + b"\n")

    async def receive(self) -> WorkerMessage | None:
        """None: the other process has ended."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        return self._decoder.decode(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        self._writer.close()


# --- in the coordinator -----------------------------------------------------------------------------------


class RunningTask(Bundle):
    task: FleetTask
    attempt: int
    spent_before: int  # by its session, before this worker ran it
    ended: asyncio.Future[TaskResult | Unfinished | None]  # None: the worker died


class Worker:
    """A worker process, as the coordinator sees it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], line: MessageLine) -> None:
        self.name, self.process, self.line = name, process, line
        self.running: dict[str, RunningTask] = {}  # by task
        self.spent = 0  # by the tasks that have ended, as their results say
        self.share = 0.0
        self.has_ended = False  # it gets no more tasks


class WorkerPool:
    """Runs tasks in worker processes, as `TaskRunner` does in this one."""

    def __init__(  # noqa: PLR0913  # what it is made of
        self,
        processes: int,
        terms: WorkerTerms,
        limits: FleetLimits,
        folder: Path,
        ledger: LedgerFile,
        *,
        budget: int | None,
        spent: int,
        before: Mapping[str, int],
        inherited: int,
    ) -> None:
        """`spent`: by earlier runs; `before`: by each of their unfinished sessions. `inherited`: a descriptor that is
        open as long as any worker lives. Raises `UsageError` if the options are not JSON."""
        try:
            json.dumps(terms.factory.argument)
        except TypeError as error:
            raise UsageError(f"a fleet with several processes needs options that are JSON: {error}") from None
        self._processes, self._terms, self._limits = processes, terms, limits
        self._folder, self._ledger = folder, ledger
        self._book = LeaseBook(budget, spent, slices=2 * processes) if budget is not None else None
        self._spent = spent  # without a budget, where there is no book
        self._before, self._inherited = dict(before), inherited
        self._workers: dict[str, Worker] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._ran: dict[str, str] = {}  # by task: the worker that still has its workspace
        self._number = 0
        self._starting = asyncio.Lock()
        self._closing = self._draining = False

    @property
    def spent(self) -> int:
        """In nano-dollars, with earlier runs and with calls whose outcome is unknown."""
        return self._book.spent + self._book.unknown if self._book is not None else self._spent

    async def run(self, task: FleetTask, attempt: int = 1) -> TaskResult | Unfinished:
        for _ in range(MOST_DEATHS):
            worker = await self._choose_worker()
            ended = await self._give(worker, task, attempt)
            if ended is not None:
                return ended
            if self._closing or self._draining:
                return Unfinished(task, "drain")
        return make_failure(task, attempt, f"{MOST_DEATHS} worker processes died while they ran this task")

    async def _give(self, worker: Worker, task: FleetTask, attempt: int) -> TaskResult | Unfinished | None:
        before = self._before.get(make_session_id(task, attempt), 0)
        running = RunningTask(task, attempt, before, asyncio.get_running_loop().create_future())
        worker.running[task.id] = running
        worker.line.send(WorkerMessage("task", task=task, attempt=attempt))
        self._share_rates()
        return await running.ended

    async def clean_up(self, task: FleetTask) -> None:
        """The worker that ran it removes its workspace. If that died, the next run does (`FleetRun.results`)."""
        worker = self._workers.get(self._ran.pop(task.id, ""))
        if worker is not None:
            worker.line.send(WorkerMessage("clean", task=task))

    def drain(self) -> None:
        self._draining = True
        self._tell_all(WorkerMessage("drain"))

    def suspend(self) -> None:
        self._closing = True
        self._tell_all(WorkerMessage("suspend"))

    def _tell_all(self, message: WorkerMessage, but: str = "") -> None:
        for worker in self._workers.values():
            if worker.name != but:
                worker.line.send(message)

    async def close(self) -> None:
        """Ends the workers. Call it when no task runs any more."""
        self._closing = True
        workers = list(self._workers.values())
        for worker in workers:
            worker.line.close()
        for worker in workers:
            await asyncio.to_thread(worker.process.wait)
        if self._reading:
            await asyncio.wait(set(self._reading))

    # --- workers ---

    async def _choose_worker(self) -> Worker:
        """The one with the fewest tasks. Starts as many as there should be."""
        async with self._starting:
            if len([one for one in self._workers.values() if not one.has_ended]) < self._processes:
                await self._start()
            alive = [one for one in self._workers.values() if not one.has_ended]
            return min(alive, key=lambda worker: len(worker.running))

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._number += 1
        name = f"{os.getpid()}-{self._number}"
        with theirs:
            command = (sys.executable, "-m", "mainspring.fleet.workers", str(theirs.fileno()))
            fds = (theirs.fileno(), self._inherited)
            process = await asyncio.to_thread(start_worker, command, fds)
        worker = self._workers[name] = Worker(name, process, await MessageLine.open(ours))
        worker.share = 1 / self._processes
        budget = None
        if self._book is not None:
            self._book.open(name)
            budget = self._book.beyond(name)
        setup = WorkerSetup(name, self._terms, self._limits, str(self._folder), worker.share, budget)
        worker.line.send(WorkerMessage("setup", setup=setup))
        if self._draining:
            worker.line.send(WorkerMessage("drain"))
        reading = asyncio.ensure_future(self._read(worker))
        self._reading.add(reading)
        reading.add_done_callback(self._reading.discard)

    async def _read(self, worker: Worker) -> None:
        while (message := await worker.line.receive()) is not None:
            self._take(worker, message)
        await self._bury(worker)

    def _take(self, worker: Worker, message: WorkerMessage) -> None:
        book = self._book
        if book is not None and message.spent:
            book.report(worker.name, message.spent)
        match message.kind:
            case "ended":
                self._end_task(worker, message)
            case "ask" if book is not None:
                book.ask(worker.name, message.amount)
            case "back" if book is not None:
                book.give_back(worker.name, message.amount)
            case "pause":
                self._tell_all(message, but=worker.name)
            case _:
                pass
        self._lease()

    def _end_task(self, worker: Worker, message: WorkerMessage) -> None:
        assert message.task is not None
        running = worker.running.pop(message.task.id)
        if message.result is not None:
            self._ran[message.task.id] = worker.name
        cost = message.result.cost if message.result is not None else message.cost
        worker.spent += cost - running.spent_before
        if self._book is None:
            self._spent += cost - running.spent_before
        if not running.ended.done():
            running.ended.set_result(message.result or Unfinished(running.task, message.unfinished, message.cost))
        self._share_rates()

    def _lease(self) -> None:
        """The record of a lease is on the disk before the worker learns of it."""
        if self._book is None or not (answers := self._book.answers()):
            return
        if leases := [Lease(answer.worker, answer.amount) for answer in answers if answer.amount]:
            self._ledger.note(*leases)
        for answer in answers:
            kind = "recall" if answer.recall else "lease"
            message = WorkerMessage(kind, amount=answer.amount, denied=answer.denied, beyond=answer.beyond)
            self._workers[answer.worker].line.send(message)

    def _share_rates(self) -> None:
        """Each worker gets a share of the rate limits, by the tasks that it runs. Those that get less first."""
        total = sum([len(worker.running) for worker in self._workers.values()])
        wanted = {
            worker.name: len(worker.running) / total if total else 1 / self._processes
            for worker in self._workers.values()
        }
        if all(abs(worker.share - wanted[worker.name]) < LEAST_SHIFT for worker in self._workers.values()):
            return
        for worker in sorted(self._workers.values(), key=lambda one: wanted[one.name] - one.share):
            worker.share = max(wanted[worker.name], LEAST_SHIFT / 10)
            worker.line.send(WorkerMessage("share", share=worker.share))

    async def _bury(self, worker: Worker) -> None:
        """The worker has ended: its money returns, but for what its journals show as spent, or as on its way."""
        worker.has_ended = True
        await asyncio.to_thread(worker.process.wait)
        spent, unknown = worker.spent, 0
        stored = dict(find_stored_sessions(self._folder)) if worker.running else {}
        for running in worker.running.values():
            session_id = make_session_id(running.task, running.attempt)
            if file := stored.get(session_id):
                found = await asyncio.to_thread(read_spending, file)
                spent += found.spent - running.spent_before
                unknown += self._ledger.note_unknown(session_id, found)
                self._before[session_id] = found.spent
        if self._book is not None:
            self._ledger.note(LeaseReturned(worker.name, spent, unknown))
            self._book.close(worker.name, spent, unknown)
        else:
            self._spent += spent - worker.spent + unknown
        del self._workers[worker.name]
        worker.line.close()
        for running in worker.running.values():
            if not running.ended.done():
                running.ended.set_result(None)
        self._lease()


def start_worker(command: tuple[str, ...], fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, pass_fds=fds, stdin=subprocess.DEVNULL)  # noqa: S603  # our own program


# --- in a worker --------------------------------------------------------------------------------------------


class LeasedLedger(Ledger):
    """The money of a worker: what was leased to it. It borrows more when a call needs it."""

    def __init__(self, send: Callable[[WorkerMessage], object], beyond: int) -> None:
        super().__init__(0)
        self.lender = self
        self.beyond = beyond  # as the coordinator last said
        self._send = send
        self._answer: asyncio.Future[None] | None = None
        self._denied = self._recalled = False
        self._told: int = 0  # what was spent, as last reported
        self._wanted = 0  # by the call that waits for an answer

    async def borrow(self, wanted: int) -> bool:
        """Waits for the coordinator's answer, or for calls of this worker to release what they did not need."""
        before = self.account.left or 0
        self._wanted, self._denied = wanted, False  # other workers may have returned something since
        while (left := self.account.left or 0) <= before and left < wanted:
            if self._denied:
                self._wanted = 0
                return False
            if self._answer is None:
                self._answer = asyncio.get_running_loop().create_future()
                self._send(WorkerMessage("ask", amount=wanted - left, spent=self.account.spent))
            changed = asyncio.ensure_future(self._change())
            try:
                await asyncio.wait((self._answer, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        self._wanted = 0
        return not self._denied  # then this is all that there is

    def lend(self, amount: int, beyond: int, *, denied: bool) -> None:
        """The coordinator's answer, or its notice that there is money again."""
        self.beyond = beyond
        answer, self._answer = self._answer, None
        self._denied, self._recalled = denied, False
        if answer is not None and not answer.done():
            answer.set_result(None)
        limit = (self.account.limit or 0) + amount
        left = limit - self.account.spent - self.account.reserved
        if self._wanted and (denied or left >= self._wanted):
            self._secured = min(self._wanted, left)  # another worker's request may come before the call is reserved
        self._wanted = 0
        self.set_limit(limit)

    def recall(self) -> None:
        """Other workers need money: return what no call needs, now and when calls end."""
        self._recalled = True
        self._return_idle()

    def _wake(self) -> None:
        super()._wake()
        if self._recalled:
            self._return_idle()

    def _return_idle(self) -> None:
        left, limit = max(0, (self.account.left or 0) - self._secured), self.account.limit or 0
        if left or self.account.spent != self._told:
            self._told = self.account.spent
            self.account = replace(self.account, limit=limit - left)
            self.beyond += left
            self._send(WorkerMessage("back", amount=left, spent=self.account.spent))


class WorkerProcess:
    def __init__(self, line: MessageLine, setup: WorkerSetup) -> None:
        self._line = line
        self._ledger: Ledger = Ledger() if setup.budget is None else LeasedLedger(line.send, setup.budget)

        def paused(model: str, seconds: float) -> None:
            line.send(WorkerMessage("pause", model=model, seconds=seconds))

        self._scheduler = ModelScheduler(setup.limits, share=setup.share, on_pause=paused)
        self._runner = TaskRunner(
            setup.terms.factory.make(),
            self._scheduler,
            self._ledger,
            Path(setup.folder),
            isolate=setup.terms.isolate,
            check_seconds=setup.terms.check_seconds,
        )
        self._running: set[asyncio.Task[None]] = set()

    def take(self, message: WorkerMessage) -> None:
        match message.kind:
            case "task" if message.task is not None:
                self._start(self._run(message.task, message.attempt))
            case "clean" if message.task is not None:
                self._start(self._runner.clean_up(message.task))
            case "lease" if isinstance(self._ledger, LeasedLedger):
                self._ledger.lend(message.amount, message.beyond, denied=message.denied)
            case "recall" if isinstance(self._ledger, LeasedLedger):
                self._ledger.recall()
            case "share":
                self._scheduler.set_share(message.share)
            case "pause":
                self._scheduler.pause(message.model, message.seconds)
            case "drain":
                self._scheduler.drain()
            case "suspend":
                self._scheduler.drain()
                self._runner.suspend()
            case _:
                raise ValueError(f"unknown message '{message.kind}'")

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, task: FleetTask, attempt: int) -> None:
        try:
            outcome = await self._runner.run(task, attempt)
        except Exception as error:  # noqa: BLE001  # a bug: without an answer, the fleet would wait for ever
            traceback.print_exc()
            outcome = make_failure(task, attempt, f"internal error: {error!r}")
        spent = self._ledger.account.spent
        if isinstance(outcome, Unfinished):
            ended = WorkerMessage("ended", task=task, unfinished=outcome.why, cost=outcome.cost, spent=spent)
        else:
            ended = WorkerMessage("ended", task=task, result=outcome, spent=spent)
        self._line.send(ended)

    async def end(self) -> None:
        """The coordinator needs no more, or is gone: then the commands that sessions run end, too."""
        for chat in self._runner.chats.values():
            chat.opened.kill()
        if not self._runner.chats and self._running:
            await asyncio.wait(set(self._running))  # workspaces that are being removed


async def serve(fd: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the coordinator decides when we end
    line = await MessageLine.open(socket.socket(fileno=fd))
    first = await line.receive()
    if first is None or first.setup is None:
        return
    worker = WorkerProcess(line, first.setup)
    while (message := await line.receive()) is not None:
        worker.take(message)
    await worker.end()
    os._exit(0)  # sessions that run are continued elsewhere: nothing more may be written to their journals


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
