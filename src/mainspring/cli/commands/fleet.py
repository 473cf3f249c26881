"""`mainspring fleet`: run the tasks of a file, and show how far they are and what came out.

`fleet run` prints its progress on standard error: on a terminal as one line that changes, else as a line now and then.
Ctrl-C and SIGTERM end it in order: running turns end, and the same command continues. A second one stops at once.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import msgspec

from mainspring.agent.options import StartError
from mainspring.cli.flags import Arguments
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import MainspringError
from mainspring.core.value import Bundle
from mainspring.fleet.command_agent import CommandAgent
from mainspring.fleet.fleet import Fleet, FleetStats
from mainspring.fleet.report import (
    OK,
    describe_failure,
    export_report,
    format_report,
    format_seconds,
    format_usd,
    make_report,
    outcome_of,
)
from mainspring.fleet.results import RESULTS, TaskResult, parse_results
from mainspring.fleet.runner import AgentFactory
from mainspring.fleet.scheduler import FleetLimits
from mainspring.fleet.tasks import FleetTask, load_tasks
from mainspring.text import as_list, plural, truncate

PROGRESS = "progress.json"  # of the fleet that runs, for `fleet status`
EACH = 0.5  # seconds between two looks
LINE_EACH = 30.0  # seconds between two lines, without a terminal
BAR = 20  # columns
MOST_REASONS = 3  # failed tasks whose reason is printed at the end; 'fleet report' has them all
STOPPED = {
    "drain": "Stopped before all tasks were done.",
    "budget_usd": "The budget is spent: raise '--max-budget-usd' to continue.",
}


class FleetProgress(Bundle, frozen=True):
    """How far a fleet is."""

    total: int
    done: int = 0
    failed: tuple[tuple[str, int], ...] = ()  # by outcome
    running: int = 0
    cost_usd: float = 0
    budget_usd: float | None = None
    seconds: float = 0  # of this run
    done_before: int = 0  # in earlier runs
    cost_before: float = 0
    at: float = 0  # time of day
    stopped: str = ""

    @property
    def left(self) -> int:
        return max(0, self.total - self.done)

    @property
    def rate(self) -> float:
        """Tasks per second."""
        return (self.done - self.done_before) / self.seconds if self.seconds else 0

    @property
    def forecast_usd(self) -> float:
        """What all tasks will have cost, if the others cost as much as those that are done."""
        return self.cost_usd * self.total / self.done if self.done else 0


def fleet(args: Namespace) -> int:
    return {"run": run, "status": status, "report": report}[args.action](args)


# --- run ----------------------------------------------------------------------------------------------


def run(args: Namespace) -> int:
    """Exit code 1: a task failed, or has no result yet."""
    tasks = load_tasks(args.tasks)
    if not tasks:
        raise StartError(f"'{args.tasks}' has no tasks: write one JSON object per line")
    limits = FleetLimits(args.requests_per_minute, args.tokens_per_minute, args.concurrent_tools)
    made = Fleet(
        CommandAgent(args.session),
        max_concurrent=args.max_concurrent,
        limits=limits,
        max_budget_usd=args.fleet_budget,
        out=args.out,
        isolate=True,
        check_seconds=args.check_timeout,
        processes=args.processes,
        factory=AgentFactory(f"{__name__}:make_agent", getattr(args, "values", {})),
    )
    try:
        return asyncio.run(FleetCommand(made, tasks, Path(args.out), retry_failed=args.retry_failed).run())
    except OSError as error:
        raise StartError(f"cannot write to '{args.out}': {error.strerror}") from None
    except MainspringError as error:
        raise StartError(str(error)) from None


def make_agent(values: dict[str, Any]) -> CommandAgent:
    """In a worker process. `values`: of the flags, through JSON."""
    given: dict[str, Any] = {}
    for name, value in values.items():
        words = as_list(value)
        given[name] = tuple(words) if words or value == [] else value
    return CommandAgent(Arguments(values=given).session)


class FleetCommand:
    """One `fleet run`: its tasks, its progress and its signals."""

    def __init__(self, fleet: Fleet, tasks: list[FleetTask], out: Path, *, retry_failed: bool) -> None:
        self._fleet, self._tasks, self._out, self._retry_failed = fleet, tasks, out, retry_failed
        self._ids = {task.id for task in tasks}
        self._began = time.monotonic()
        self._before: FleetStats | None = None
        self._show = TerminalLine() if os.isatty(2) else PlainLines()
        self._signals = 0
        self._reading: asyncio.Task[None] | None = None

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        self._reading = asyncio.ensure_future(self._read())
        showing = asyncio.ensure_future(self._show_progress())
        try:
            await self._reading
        except asyncio.CancelledError:
            if self._signals < 2:  # not the user
                raise
        finally:
            showing.cancel()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
            self._show.end()
        self._write_progress()
        return self._conclude()

    async def _read(self) -> None:
        run = self._fleet.run(self._tasks, retry_failed=self._retry_failed, handle_sigterm=False)
        async with aclosing(run) as results:
            async for _ in results:
                pass

    def _on_signal(self) -> None:
        self._signals += 1
        if self._signals == 1:
            self._show.tell("Stopping: running turns end first. Press Ctrl-C again to stop at once.")
            self._fleet.drain()
        elif self._reading is not None:
            self._reading.cancel()

    # --- progress ---

    @property
    def _progress(self) -> FleetProgress:
        stats = self._fleet.stats
        before = self._before or stats
        results = [one for name, one in self._fleet.results.items() if name in self._ids]
        failed = Counter([outcome_of(one) for one in results if outcome_of(one) != OK])
        budget = self._fleet.budget
        return FleetProgress(
            len(self._tasks),
            len(results),
            tuple(failed.most_common()),
            stats.running,
            stats.cost_usd,
            budget / 1e9 if budget is not None else None,
            time.monotonic() - self._began,
            before.done,
            before.cost_usd,
            time.time(),
            stats.stopped,
        )

    async def _show_progress(self) -> None:
        while True:
            await asyncio.sleep(0 if self._before is None else EACH)
            if self._before is None:
                self._before = self._fleet.stats
            self._show.show(self._progress)
            self._write_progress()

    def _write_progress(self) -> None:
        unfinished = self._out / f".{PROGRESS}"
        with suppress(OSError):  # it is only shown
            unfinished.write_bytes(msgspec.json.encode(self._progress))
            unfinished.replace(self._out / PROGRESS)

    def _conclude(self) -> int:
        progress = self._progress
        failed = sum([count for _, count in progress.failed])
        words = f"{progress.done:,} of {plural(progress.total, 'task')} done, {format_usd(progress.cost_usd)}"
        print(f"{words}, {failed:,} failed." if failed else f"{words}.", f"Results: {self._out / RESULTS}")
        for name, count in progress.failed:
            print(f"  {name}: {count:,}")
        results = [one for name, one in self._fleet.results.items() if name in self._ids]
        for one in [one for one in results if outcome_of(one) != OK][:MOST_REASONS]:
            print(f"  task '{one.id}': {describe_failure(one)}")
        if failed:
            print("To run failed tasks again, add '--retry-failed'.")
        if progress.left:
            print(
                STOPPED.get(progress.stopped, ""), f"{plural(progress.left, 'task')} left: the same command continues."
            )
        return 1 if failed or progress.left else 0


class PlainLines:
    def __init__(self) -> None:
        self._shown_at = 0.0

    def show(self, progress: FleetProgress) -> None:
        if progress.seconds - self._shown_at >= LINE_EACH:
            self._shown_at = progress.seconds
            print(format_progress(progress), file=sys.stderr, flush=True)

    def tell(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    def end(self) -> None:
        pass


class TerminalLine:
    """One line at the bottom, drawn again and again."""

    def show(self, progress: FleetProgress) -> None:
        columns = shutil.get_terminal_size().columns
        self._write(f"\r\x1b[K{truncate(format_progress(progress, bar=True), columns - 1)}")

    def tell(self, words: str) -> None:
        self._write(f"\r\x1b[K{words}\r\n")

    def end(self) -> None:
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal is gone
            os.write(2, text.encode())  # standard error would remove the control characters


def format_progress(progress: FleetProgress, *, bar: bool = False) -> str:
    full = BAR * progress.done // max(1, progress.total)
    money = format_usd(progress.cost_usd)
    if progress.budget_usd is not None:
        money += f" of {format_usd(progress.budget_usd)}"
    if progress.done and progress.left:
        money += f" (about {format_usd(progress.forecast_usd)} in all)"
    parts = [f"{progress.done:,}/{progress.total:,} tasks", f"{progress.running:,} running", money]
    if progress.rate:
        parts.append(f"{progress.rate * 60:.0f}/min" if progress.rate < 1 else f"{progress.rate:.1f}/s")
        if progress.left:
            parts.append(f"{format_seconds(progress.left / progress.rate)} left")
    if progress.failed:
        failed = ", ".join([f"{name} {count:,}" for name, count in progress.failed[:3]])
        parts.append(f"{sum([count for _, count in progress.failed]):,} failed ({failed})")
    return (f"[{'#' * full}{'.' * (BAR - full)}] " if bar else "") + ", ".join(parts)


# --- status and report ----------------------------------------------------------------------------------


def status(args: Namespace) -> int:
    out = find_output(args.folder)
    progress = read_progress(out)
    latest, _ = read_results(out)
    if progress is None:
        progress = FleetProgress(len(latest), len(latest), cost_usd=sum([one.cost_usd for one in latest.values()]))
    running = is_running(out)
    if args.json:
        print(msgspec.json.encode({**msgspec.to_builtins(progress), "is_running": running}).decode())
        return 0
    if running:
        print(f"Running: {format_progress(progress)}")
    elif progress.left:
        print(f"Not running: {format_progress(progress)}. Run the same command again to continue.")
    else:
        print(f"Done: {format_progress(progress)}")
    return 0


def report(args: Namespace) -> int:
    out = find_output(args.folder)
    latest, spent = read_results(out)
    if not latest:
        raise StartError(f"'{out}' has no results yet. 'mainspring fleet status {args.folder}' tells how far it is")
    found = make_report(out, latest.values(), spent)
    if args.html:
        try:
            export_report(found, Path(args.html))
        except OSError as error:
            raise StartError(f"cannot write '{args.html}': {error.strerror}") from None
        print(f"Wrote '{args.html}'.")
    elif args.json:
        print(msgspec.json.encode(found.groups).decode())
    else:
        print("\n".join(format_report(found)))
    return 0


def find_output(folder: str) -> Path:
    out = Path(folder)
    if not (out / RESULTS).is_file():
        raise StartError(f"'{folder}' is not the output directory of a fleet: it has no '{RESULTS}'")
    return out.absolute()


def read_results(out: Path) -> tuple[dict[str, TaskResult], float]:
    """The latest of each task, and the cost of all attempts in dollars."""
    every = list(parse_results((out / RESULTS).read_bytes()))
    return {one.id: one for one in every}, sum([one.cost_usd for one in every])


def read_progress(out: Path) -> FleetProgress | None:
    try:
        return msgspec.json.decode((out / PROGRESS).read_bytes(), type=FleetProgress)
    except (OSError, msgspec.MsgspecError):
        return None


def is_running(out: Path) -> bool:
    """Whether a process holds the lock of the output directory."""
    try:
        fd = os.open(out / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
