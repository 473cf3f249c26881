"""What `Bash` costs over a plain subprocess, and how soon an abort is over. It fails when a target is missed.

Both commands alternate in one run, so that a slow moment of the machine affects both. `--flood` prints 10 GB through
the tool instead, and watches memory, disk and the event loop. `bench/README.md` explains the table.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, thread_time

from mainspring.processes.children import Children
from mainspring.processes.environment import child_environment
from mainspring.processes.output import DISK
from mainspring.testing.world import FakeToolContext
from mainspring.tools.background import BackgroundCommands
from mainspring.tools.bash import bash_tool

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import Figure, import_figures, show

ROUNDS = 300
ABORTS, DEAF_ABORTS = 200, 3
FLOOD = 10_000_000_000  # bytes
OBEYS = "echo ready; sleep 100; true"
DEAF = "trap '' TERM; echo ready; sleep 100; sleep 100"


class Hands(FakeToolContext):
    def __init__(self, folder: str, *, adopt: bool = True) -> None:
        super().__init__(folder)
        self.place.spill = f"{folder}/spill"
        children = Children(adopt=adopt)
        self.children = children
        self.tool = bash_tool(children, BackgroundCommands(children), child_environment(os.environ))

    async def bash(self, command: str) -> str:
        return (await self.use(self.tool, command=command, timeout=600_000)).text


def at(times: list[float], share: float) -> float:
    """In milliseconds."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] * 1_000


# --- the start ------------------------------------------------------------------------------------------------


async def start_figures(hands: Hands) -> list[Figure]:
    plain: list[float] = []
    ours: list[float] = []
    await hands.bash("true")  # loads what the first use loads
    for _ in range(ROUNDS):
        plain.append(await timed(plainly))
        ours.append(await timed(lambda: hands.bash("true")))
    over = [mine - its for mine, its in zip(sorted(ours), sorted(plain), strict=True)]
    return [
        Figure("bash -c true by subprocess.run, best", min(plain) * 1_000, "ms"),
        Figure("Bash of true, best", min(ours) * 1_000, "ms"),
        Figure("Bash over subprocess, best of each", over[0] * 1_000, "ms", 2),
        Figure("Bash over subprocess, half of each", over[len(over) // 2] * 1_000, "ms"),
        Figure("Bash over subprocess, 99 of 100 of each", over[len(over) * 99 // 100] * 1_000, "ms"),
    ]


async def plainly() -> None:
    subprocess.run(["bash", "-c", "true"], check=True, capture_output=True, stdin=subprocess.DEVNULL)  # noqa: ASYNC221


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    start = perf_counter()
    await work()
    return perf_counter() - start


# --- the abort ------------------------------------------------------------------------------------------------


async def abort_figures(hands: Hands) -> list[Figure]:
    obeying = [await aborted(hands, OBEYS) for _ in range(ABORTS)]
    deaf = [await aborted(hands, DEAF) for _ in range(DEAF_ABORTS)]
    return [
        Figure("abort, the child obeys TERM, half", at(obeying, 0.5), "ms", 200),
        Figure("abort, the child obeys TERM, 99 of 100", at(obeying, 0.99), "ms", 200),
        Figure("abort, the child does not, worst", max(deaf) * 1_000, "ms", 2_500),
    ]


async def aborted(hands: Hands, command: str) -> float:
    hands.shown.clear()
    task = asyncio.get_running_loop().create_task(hands.bash(command))
    while not hands.shown:  # noqa: ASYNC110  # nobody would tell
        await asyncio.sleep(0.001)
    start = monotonic()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return monotonic() - start


# --- the flood ------------------------------------------------------------------------------------------------


async def flood_figures(hands: Hands) -> list[Figure]:
    await hands.bash("echo warm")
    Path("/proc/self/clear_refs").write_text("5")  # noqa: ASYNC240  # the peak counts from here
    before, start = status("VmRSS"), monotonic()
    async with heart() as (waits, works):
        await hands.bash(f"yes 'a line of output' | head -c {FLOOD}")
    stored = sum(path.stat().st_size for path in Path(hands.place.spill).iterdir())  # noqa: ASYNC240
    return [
        Figure("10 GB of output: time", monotonic() - start, "s"),
        Figure("10 GB of output: extra memory at its peak", (status("VmHWM") - before) / 1e6, "MB", 16),
        Figure("10 GB of output: stored", stored / 1e6, "MB", DISK / 1e6),
        Figure("10 GB of output: our work between two beats, longest", at(works, 1), "ms", 50),
        Figure("10 GB of output: another task waits, 99 of 100", at(waits, 0.99), "ms", 50),
    ]


def status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


@asynccontextmanager
async def heart() -> AsyncGenerator[tuple[list[float], list[float]]]:
    """How long a task waits for its turn: on the clock, and in our own work, which no other process lengthens."""
    waits: list[float] = []
    works: list[float] = []

    async def beat() -> None:
        while True:
            start, work = monotonic(), thread_time()
            await asyncio.sleep(0.005)
            waits.append(monotonic() - start - 0.005)
            works.append(thread_time() - work)

    task = asyncio.get_running_loop().create_task(beat())
    try:
        yield waits, works
    finally:
        task.cancel()


async def main(folder: str, flood: bool) -> bool:
    hands = Hands(folder)
    if flood:
        return show(await flood_figures(hands))
    figures = [*import_figures("asyncio, mainspring.tools.base", "mainspring.tools.bash")]
    return show([*figures, *await start_figures(hands), *await abort_figures(hands)])


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        if not asyncio.run(main(name, "--flood" in sys.argv)):
            sys.exit(1)
