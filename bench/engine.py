"""What the engine costs between a provider and a consumer, compared with its targets. It fails when a target is missed.

The loop is asyncio's own. The provider yields prepared batches and never waits, the tools do nothing, ids and clock are
the real ones, the journal is in memory. Times are processor time, the minimum of many repeats; a target that must hold
on any machine is a ratio, or scaled by the yardstick. `bench/README.md` explains the table.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import process_time_ns
from typing import Any

from mainspring.context.attachments import PreparedContext
from mainspring.core.config import Config
from mainspring.core.effects import Request
from mainspring.core.messages import Stop, Text, ToolCall, User, result
from mainspring.core.money import Usage
from mainspring.core.state import State
from mainspring.core.updates import BlockKind, Delta, RequestStarted
from mainspring.engine.deps import EngineCallContext, ToolOutcome
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import BasicDeps
from mainspring.engine.tasks import CAPACITY, Channel
from mainspring.providers.base import (
    Batch,
    BlockDelta,
    BlockFinished,
    Conversation,
    Provider,
    StreamEnded,
    StreamStarted,
)

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import Figure, best_time, import_figures, scaled, show, yardstick

USAGE = Usage(input=400, cache_read=40_000, output=300)

Reply = list[Batch]
Job = Callable[[], Awaitable[float]]  # measures itself, in microseconds


# --- an environment that costs next to nothing -------------------------------------------------------------------


class Ready:
    """A provider with prepared replies. It forgets those it has returned."""

    def __init__(self, replies: Iterable[Reply], *, breathe: bool = False) -> None:
        self._replies = deque(replies)
        self._breathe = breathe

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:  # noqa: ARG002  # all is ready
        return self.next_reply()

    async def next_reply(self) -> AsyncGenerator[Batch, None]:
        for batch in self._replies.popleft():
            if self._breathe:
                await asyncio.sleep(0)  # as after a read of a socket: other tasks run
            yield batch


Act = Callable[..., Awaitable[str]]


async def nothing(**_: Any) -> str:
    return "ok"


class Roomy(BasicDeps):
    """A context that is never full, and tools that are functions: neither adds a cost. `bench/tools_files.py` measures
    the pipeline of a real tool."""

    def __init__(self, provider: Provider, act: Act) -> None:
        super().__init__(provider)
        self._act = act

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:  # noqa: ARG002  # it always fits
        return PreparedContext(100)

    async def run_tool(self, call: ToolCall, asking: EngineCallContext) -> ToolOutcome:  # noqa: ARG002  # it asks nothing
        return ToolOutcome(result(call.id, await self._act(**call.input)))

    def is_concurrent(self, call: ToolCall) -> bool:  # noqa: ARG002  # all of them
        return True


def session(replies: Iterable[Reply], *, breathe: bool = False, act: Act = nothing) -> EngineSession:
    deps = Roomy(Ready(replies, breathe=breathe), act)
    return EngineSession(deps, Config(max_turns=2 * LONG), describe=deps.describe)


def looks(turn: int) -> Reply:
    """A reply with one safe call, each with another input, so that the progress guard does not act."""
    call = ToolCall(f"call-{turn}", "Read", {"path": f"src/file_{turn}.py"})
    said = (BlockDelta(BlockKind.TEXT, "Let me look."), BlockFinished(Text("Let me look.")))
    return [(StreamStarted(USAGE), *said, BlockFinished(call), StreamEnded(Stop.TOOL_USE, USAGE))]


def says(text: str) -> Reply:
    return [
        (StreamStarted(USAGE), BlockDelta(BlockKind.TEXT, text), BlockFinished(Text(text)), StreamEnded(usage=USAGE))
    ]


# --- times ------------------------------------------------------------------------------------------------------


def now() -> float:
    """Processor time, in microseconds: without that of other programs."""
    return process_time_ns() / 1_000


async def best_of(jobs: dict[str, Job], repeats: int) -> dict[str, float]:
    """The jobs alternate, and each begins after a garbage collection."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(repeats):
        for name, job in jobs.items():
            gc.collect()
            best[name] = min(best[name], await job())
    return best


async def speed() -> float:
    """The yardstick, at the same moments as the rest: measured once at the start, a slow moment would loosen every
    target."""
    return best_time(yardstick, repeats=100)


# --- deltas -----------------------------------------------------------------------------------------------------

DELTAS = 20_000
DELTA_AIM = 2.0  # microseconds, where the yardstick takes `REFERENCE`


def long_reply(size: int) -> Reply:
    """In batches of `size`; a word each, as models send them."""
    pieces = tuple([BlockDelta(BlockKind.TEXT, f"word{number} ") for number in range(DELTAS)])
    batches: Reply = [pieces[start : start + size] for start in range(0, DELTAS, size)]
    text = "".join([piece.text for piece in pieces])
    return [(StreamStarted(USAGE),), *batches, (BlockFinished(Text(text)), StreamEnded(usage=USAGE))]


async def bare(reply: Reply, *, breathe: bool) -> float:
    """The baseline: the same generator, read with nothing in between."""
    stream, seen = Ready([reply], breathe=breathe).next_reply(), 0
    start = now()
    async for batch in stream:
        for item in batch:
            seen += isinstance(item, BlockDelta)
    took = now() - start
    assert seen == DELTAS
    return took / DELTAS


async def through_the_engine(reply: Reply, *, breathe: bool, deltas: bool) -> float:
    one, seen = session([reply], breathe=breathe), 0
    start = now()
    async with one.run("go", deltas=deltas) as run:
        async for update in run:
            seen += isinstance(update, Delta)
    took = now() - start
    assert seen == (DELTAS if deltas else 0)
    return took / DELTAS


SHAPES = {"one in a batch": (1, False), "8 in a batch": (8, False), "a loop round each": (1, True)}


def delta_jobs() -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    for name, (size, breathe) in SHAPES.items():
        reply = long_reply(size)
        jobs[f"{name}: bare"] = partial(bare, reply, breathe=breathe)
        jobs[f"{name}: shown"] = partial(through_the_engine, reply, breathe=breathe, deltas=True)
        jobs[f"{name}: headless"] = partial(through_the_engine, reply, breathe=breathe, deltas=False)
    return jobs


async def delta_figures() -> list[Figure]:
    best = await best_of({"yardstick": speed, **delta_jobs()}, repeats=30)
    figures = [Figure("yardstick, beside the deltas", best["yardstick"], "us")]
    for name, (_, breathe) in SHAPES.items():
        without, shown, headless = [best[f"{name}: {kind}"] for kind in ("bare", "shown", "headless")]
        aim = None if breathe else scaled(DELTA_AIM, best["yardstick"])
        figures += [
            Figure(f"delta, {name}: bare generator", without, "us"),
            Figure(f"delta, {name}", shown, "us", aim),
            Figure(f"delta, {name}, to the bare one", shown / without, "x"),
            Figure(f"delta, {name}, headless", headless, "us", aim),
            Figure(f"delta, {name}, headless, to the bare one", headless / without, "x"),
        ]
    return figures


# --- turns ------------------------------------------------------------------------------------------------------

SHORT, LONG = 10, 10_000  # turns; the ratio compares these two
PIECE = 2 * SHORT - 2  # turns timed together: from the second on, so that the tenth is in the middle
PIECES = 50  # as many early ones as late ones, or the more numerous would have the better chance of a low minimum
TURN_AIM = 250.0  # microseconds, where the yardstick takes `REFERENCE`


async def turn_times(count: int) -> list[float]:
    """How long each turn took, from one request to the next."""
    one = session([*map(looks, range(count)), says("Done.")])
    async with one.run("go") as run:
        at = [now() async for update in run if isinstance(update, RequestStarted)]
    assert len(at) == count + 1
    return [after - before for before, after in pairwise(at)]


def mean(times: list[float]) -> float:
    return sum(times) / len(times)


async def turn_figures() -> list[Figure]:
    """Short sessions follow each long one, so that a slow moment of the machine does not affect only one kind."""
    best, machine, short, long = [float("inf")] * LONG, float("inf"), float("inf"), float("inf")
    for _ in range(5):
        machine = min(machine, await speed())
        times = await turn_times(LONG)
        best = [min(pair) for pair in zip(best, times, strict=True)]
        for place in range(PIECES):
            end = LONG - place * PIECE
            long = min(long, mean(times[end - PIECE : end]))
            short = min(short, mean((await turn_times(PIECE + 1))[1:]))
    aim = scaled(TURN_AIM, machine)
    return [
        Figure("yardstick, beside the turns", machine, "us"),
        Figure(f"turn with one tool: around the {SHORT:,}th", short, "us", aim),
        Figure(f"turn with one tool: around the {LONG:,}th", long, "us", aim),
        Figure(f"turn with one tool: flatness, {LONG:,} / {SHORT:,}", long / short, "x", aim=1.3),
        Figure(f"turn with one tool: mean of {LONG:,}", mean(best), "us", aim),
    ]


# --- memory -----------------------------------------------------------------------------------------------------

SESSIONS = 1_000
IDLE_AIM = 30.0  # KB


def traced() -> float:
    """KB of Python objects. Uncollected cycles are not a session's memory."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 1_024


async def to_its_end(one: EngineSession, prompt: str) -> None:
    async with one.run(prompt) as run:
        async for _ in run:
            pass


def short_talk(number: int) -> list[Reply]:
    """A session's own texts: nothing that another session shares."""
    return [looks(number), says(f"That was file {number}.")]


async def idle_memory() -> float:
    sessions: list[EngineSession] = []
    before = traced()
    for number in range(SESSIONS):
        one = session(short_talk(number))
        await to_its_end(one, f"Look at file {number}.")
        sessions.append(one)
    return (traced() - before) / len(sessions)


async def busy_memory() -> float:
    """Each run with its consumer is a separate task, and its one call waits."""
    waiting, all_wait, go_on = 0, asyncio.Event(), asyncio.Event()

    async def wait(**_: Any) -> str:
        nonlocal waiting
        waiting += 1
        if waiting == SESSIONS:
            all_wait.set()
        await go_on.wait()
        return "ok"

    before = traced()
    async with asyncio.TaskGroup() as group:
        for number in range(SESSIONS):
            group.create_task(to_its_end(session(short_talk(number), act=wait), f"Look at file {number}."))
        await all_wait.wait()
        held = traced() - before
        go_on.set()
    return held / SESSIONS


async def memory_figures() -> list[Figure]:
    await to_its_end(session(short_talk(0)), "go")  # what is created once for all sessions
    tracemalloc.start()
    try:
        idle, busy = await idle_memory(), await busy_memory()
    finally:
        tracemalloc.stop()
    return [
        Figure(f"idle session, one of {SESSIONS:,}", idle, "KB", IDLE_AIM),
        Figure(f"run that waits in a tool, one of {SESSIONS:,}", busy, "KB"),
    ]


# --- the channel ------------------------------------------------------------------------------------------------

ITEMS = 20_000


async def through_channel() -> float:
    channel: Channel[int] = Channel()

    async def produce() -> None:
        for number in range(ITEMS):
            channel.push(number)
            await channel.room()
        channel.close()

    start = now()
    producer = asyncio.create_task(produce())
    async for _ in channel:
        pass
    await producer
    return (now() - start) / ITEMS


async def through_queue() -> float:
    queue: asyncio.Queue[int] = asyncio.Queue(CAPACITY)

    async def produce() -> None:
        for number in range(ITEMS):
            await queue.put(number)

    start = now()
    producer = asyncio.create_task(produce())
    for _ in range(ITEMS):
        await queue.get()
    await producer
    return (now() - start) / ITEMS


async def channel_figures() -> list[Figure]:
    best = await best_of({"channel": through_channel, "queue": through_queue}, repeats=20)
    return [
        Figure("item through the channel, waiting for room", best["channel"], "us"),
        Figure(f"item through asyncio.Queue({CAPACITY})", best["queue"], "us"),
    ]


# --- the table --------------------------------------------------------------------------------------------------


def all_figures() -> Iterator[Figure]:
    yield from asyncio.run(delta_figures())
    yield from asyncio.run(turn_figures())
    yield from asyncio.run(memory_figures())
    yield from asyncio.run(channel_figures())
    yield from import_figures("asyncio, msgspec", "mainspring.engine.session_deps")


if __name__ == "__main__":
    sys.exit(0 if show(all_figures()) else 1)
