"""What the wire costs, between a session and a model server on loopback, compared with its targets. It fails when a
target is missed, and when the official client, one of the baselines, cannot be installed.

The server is a separate process with prepared replies. Times are processor time, of the client alone, the minimum of
many repeats, unless said otherwise. Every target is a ratio of figures of the same run, measured alternately.
`bench/README.md` explains the table.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, process_time_ns
from typing import NamedTuple

from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Stop, Text, ToolCall, ToolResult, User
from mainspring.engine.session_deps import default_cache_marks
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation, ToolSpec

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import Figure, show
from bench.wire_clients import (
    HERE,
    MODEL,
    REQUEST,
    Read,
    Server,
    connected,
    new_transport,
    now,
    ours,
    raw,
    raw_again,
    request,
)  # fmt: skip
from bench.wire_server import TICK, TICKS

ROOT = HERE.parent
KEY = "key"


# --- the official client, in its own environment ----------------------------------------------------------------

OTHERS = ROOT / ".venv-bench"
PINNED = ("anthropic==2.8.0", "httpx2==2.16.0", "httpcore2==2.16.0", "h11==0.16.0", "pydantic==2.14.3")


def make_environment() -> None:
    """Once: the marker is written last, and says what was installed."""
    marker = OTHERS / "pinned"
    if marker.is_file() and marker.read_text() == "\n".join(PINNED):
        return
    shutil.rmtree(OTHERS, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(OTHERS)], check=True)
    (OTHERS / ".gitignore").write_text("*\n")
    subprocess.run([str(OTHERS / "bin/pip"), "install", "-qq", "--disable-pip-version-check", *PINNED], check=True)
    marker.write_text("\n".join(PINNED))


class Official:
    """The other process. It measures itself: one line for a stream, one line back."""

    def __enter__(self) -> Official:
        command = [str(OTHERS / "bin/python"), str(HERE / "wire_official.py")]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment())
        return self

    async def stream(self, how: str, url: str) -> Read:
        """Blocks, on purpose: nothing else may run meanwhile."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{how} {url}\n")
        self._process.stdin.flush()
        took, deltas = self._process.stdout.readline().split()
        return Read(float(took), int(deltas), 0)

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()


def environment() -> dict[str, str]:
    """Our environment, without what could come between a client and the loopback."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


# --- events -----------------------------------------------------------------------------------------------------

Job = Callable[[], Awaitable[Read]]

ROUNDS = 30  # of ours and raw
SLOW_ROUNDS = 5  # of the official client, which needs one to three seconds for a burst
CREATE, HELPER = "official, create", "official, helper"


class Best(NamedTuple):
    each: float  # microseconds for a delta
    per_read: float  # deltas in one read, in that round


async def best_of(jobs: dict[str, Job]) -> dict[str, Best]:
    """The jobs alternate. The official client has a share of the rounds, spread evenly over them."""
    best: dict[str, Best] = {}
    for number in range(ROUNDS):
        for name, job in jobs.items():
            if name in (CREATE, HELPER) and number % (ROUNDS // SLOW_ROUNDS):
                continue
            gc.collect()
            read = await job()
            found = Best(read.took / read.deltas, read.deltas / max(1, read.reads))
            best[name] = min(best.get(name, found), found)
    return best


async def event_figures(server: Server, official: Official, manner: str, *, aimed: bool) -> list[Figure]:
    async with new_transport() as transport:
        provider = Anthropic(KEY, base_url=server.url(manner), transport=transport)
        best = await best_of(
            {
                "ours": partial(ours, provider),
                "raw": partial(raw, server, manner),
                CREATE: partial(official.stream, "create", server.url(manner)),
                HELPER: partial(official.stream, "helper", server.url(manner)),
            }
        )
    own, least, create, helper = [best[name].each for name in ("ours", "raw", CREATE, HELPER)]
    name = f"event, {manner}"
    return [
        Figure(f"{name}: in one read of ours", best["ours"].per_read, ""),
        Figure(f"{name}: raw", least, "us"),
        Figure(f"{name}: ours", own, "us"),
        Figure(f"{name}: official client, create", create, "us"),
        Figure(f"{name}: official client, helper", helper, "us"),
        Figure(f"{name}: ours / raw", own / least, "x", 3.0 if aimed else None),
        Figure(f"{name}: ours / official, create", own / create, "x", 1 / 8 if aimed else None),
        Figure(f"{name}: official, create / ours", create / own, "x"),
        Figure(f"{name}: official, helper / ours", helper / own, "x"),
    ]


# --- turns ------------------------------------------------------------------------------------------------------

SHORT, LONG = 10, 1_000  # turns; the ratio compares these two
PIECE = 2 * SHORT - 2  # turns of a session that are timed: from the second on, so that the tenth is in the middle
SESSIONS = 15  # of each length

TOOLS = (ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}}),)
SYSTEM = ("You work on a repository.",)


def turn(number: int) -> tuple[Message, Message]:
    """A line of text, one call, and its result of a kilobyte."""
    call = ToolCall(f"toolu_{number}", "Read", {"file_path": f"src/file_{number}.py"})
    reply = Assistant((Text("Let me look."), call), MODEL, Stop.TOOL_USE, id=f"reply-{number}")
    return reply, ToolResult(call.id, (Text("x" * 1_000),), id=f"result-{number}")


class Pair(NamedTuple):
    """Microseconds for one turn: of what is measured, and of what may be subtracted."""

    cost: float = float("inf")
    copy: float = float("inf")

    def least(self, other: Pair) -> Pair:
        return Pair(min(self.cost, other.cost), min(self.copy, other.copy))


NOTHING_YET = Pair()


def last_turns(provider: Anthropic, turns: int) -> list[Conversation]:
    """Of a session of so many turns. The others are prepared, which counts as sent, but are not sent."""
    history, found = History([User((Text("Please look at the files."),), id="prompt")]), []
    for number in range(turns):
        history = history.append(*turn(number))
        found.append(Conversation(history, (), SYSTEM, TOOLS, default_cache_marks(history)))
    for conversation in found[:-PIECE]:
        provider.prepare(REQUEST, conversation)
    gc.collect()
    return found[-PIECE:]


async def made(provider: Anthropic, turns: int) -> Pair:
    """Projects the request, compares it with the last one and splits it into pieces; and joins these pieces."""
    found = NOTHING_YET
    bodies: list[list[bytes]] = []
    for conversation in last_turns(provider, turns):
        start = now()
        prepared = provider.prepare(REQUEST, conversation)
        found = found.least(Pair(now() - start))
        assert prepared.broken is None
        bodies.append(prepared.body)
    for body in bodies:
        start = now()
        b"".join(body)
        found = found.least(Pair(copy=now() - start))
    return found


async def sent(server: Server, provider: Anthropic, turns: int) -> Pair:
    """Makes and sends the request, and reads a reply of one word; and the same bytes and reply with the raw client."""
    again = Anthropic(KEY)  # makes the same pieces for the raw client, and is not part of what is timed
    last_turns(again, turns)
    found, client = NOTHING_YET, await connected(server)
    for conversation in last_turns(provider, turns):
        whole = await ours(provider, REQUEST, conversation)
        copy = await raw_again(client, "once", again.prepare(REQUEST, conversation).body)
        found = found.least(Pair(whole.took, copy.took))
    client.transport.close()
    return found


async def turn_pairs(work: Callable[[Anthropic, int], Awaitable[Pair]], url: str) -> tuple[Pair, Pair]:
    """Early and late. A short session follows each long one, so that a slow moment does not affect only one kind."""
    short = long = NOTHING_YET
    async with new_transport() as transport:
        for _ in range(SESSIONS):
            long = long.least(await work(Anthropic(KEY, base_url=url, transport=transport), LONG + PIECE // 2))
            short = short.least(await work(Anthropic(KEY, base_url=url, transport=transport), PIECE + 1))
    return short, long


async def turn_figures(server: Server) -> list[Figure]:
    url = server.url("once")
    short, long = await turn_pairs(made, url)
    early, late = await turn_pairs(partial(sent, server), url)
    copied = late.copy - early.copy
    return [
        Figure(f"request made at turn {SHORT:,}", short.cost, "us"),
        Figure(f"request made at turn {LONG:,}", long.cost, "us"),
        Figure(f"request at turn {LONG:,}: its pieces joined", long.copy, "us"),
        Figure(f"request made: {LONG:,} / {SHORT:,}", long.cost / short.cost, "x", 1.5),
        Figure(f"turn over the wire at {SHORT:,}", early.cost, "us"),
        Figure(f"turn over the wire at {LONG:,}", late.cost, "us"),
        Figure(f"turn over the wire at {LONG:,}: raw, more than at {SHORT:,}", copied, "us"),
        Figure(f"turn over the wire: ({LONG:,} - raw) / {SHORT:,}", (late.cost - copied) / early.cost, "x", 1.5),
    ]


# --- many streams at once ---------------------------------------------------------------------------------------

STREAMS = 1_000
STREAM_ROUNDS = 3
IDEAL = TICKS * TICK  # seconds from a stream's request to its end, by the server's clock


class Spent(NamedTuple):
    wall: float  # seconds
    processor: float


async def spent(all_of_them: Callable[[], Awaitable[int]]) -> Spent:
    gc.collect()
    wall, processor = perf_counter(), process_time_ns()
    deltas = await all_of_them()
    found = Spent(perf_counter() - wall, (process_time_ns() - processor) / 1e9)
    assert deltas == STREAMS * TICKS, f"{deltas} deltas came of {STREAMS * TICKS}"
    return found


async def all_ours(server: Server) -> int:
    """Each stream has its own provider, as each session does, and they share a transport."""
    async with new_transport() as transport:
        providers = [Anthropic(KEY, base_url=server.url("ticking"), transport=transport) for _ in range(STREAMS)]
        return sum([read.deltas for read in await asyncio.gather(*map(ours, providers))])


async def all_raw(server: Server) -> int:
    async def one() -> int:
        client = await connected(server)
        client.transport.writelines(request("ticking"))
        await client.ended
        client.transport.close()
        return client.deltas

    return sum(await asyncio.gather(*[one() for _ in range(STREAMS)]))


async def stream_figures(server: Server) -> list[Figure]:
    own, least = [], []
    for _ in range(STREAM_ROUNDS):
        own.append(await spent(partial(all_ours, server)))
        least.append(await spent(partial(all_raw, server)))
    best, floor = min(own), min(least)
    processor = [min([one.processor for one in found]) for found in (own, least)]
    name = f"{STREAMS:,} streams at once"
    return [
        Figure(f"{name}: ideal", IDEAL, "s"),
        Figure(f"{name}: raw", floor.wall, "s"),
        Figure(f"{name}: ours", best.wall, "s"),
        Figure(f"{name}: ours / ideal", best.wall / IDEAL, "x", 1.2),
        Figure(f"{name}: raw, processor", processor[1], "s"),
        Figure(f"{name}: ours, processor", processor[0], "s"),
        Figure(f"{name}: processor, ours / raw", processor[0] / processor[1], "x"),
    ]


# --- memory -----------------------------------------------------------------------------------------------------


def traced() -> float:
    """KB of Python objects. Uncollected cycles are not a stream's memory."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 1_024


async def held_by_ours(server: Server, count: int) -> float:
    """Started streams, each in a separate task, in the middle of their reply."""
    before, begun, all_begun = traced(), 0, asyncio.Event()

    async def one() -> None:
        nonlocal begun
        provider = Anthropic(KEY, base_url=server.url("held"), transport=transport)
        async for _ in provider.stream(REQUEST, Conversation(History([User((Text("Hello."),), id="hello")]))):
            begun += 1
            if begun == count:
                all_begun.set()

    async with new_transport() as transport:
        tasks = [asyncio.create_task(one()) for _ in range(count)]
        await all_begun.wait()
        held = traced() - before
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return held / count


async def held_by_raw(server: Server, count: int) -> float:
    before = traced()
    clients = await asyncio.gather(*[connected(server) for _ in range(count)])
    for client in clients:
        client.transport.writelines(request("held"))
    async with asyncio.timeout(60):
        while not all(client.deltas for client in clients):  # noqa: ASYNC110  # an event in each would be measured too
            await asyncio.sleep(0.01)
    held = traced() - before
    for client in clients:
        client.transport.close()
    return held / count


async def memory_figures(server: Server) -> list[Figure]:
    await held_by_ours(server, 1)  # what is created once for all streams
    await held_by_raw(server, 1)
    tracemalloc.start()
    try:
        own, least = await held_by_ours(server, STREAMS), await held_by_raw(server, STREAMS)
    finally:
        tracemalloc.stop()
    return [
        Figure(f"memory of a stream, one of {STREAMS:,}: raw", least, "KB"),
        Figure(f"memory of a stream, one of {STREAMS:,}: ours", own, "KB"),
    ]


# --- the table --------------------------------------------------------------------------------------------------


def all_figures() -> Iterator[Figure]:
    with Server() as server:
        with Official() as official:
            yield from asyncio.run(event_figures(server, official, "burst", aimed=True))
            yield from asyncio.run(event_figures(server, official, "one-by-one", aimed=False))
        yield from asyncio.run(turn_figures(server))
        yield from asyncio.run(stream_figures(server))
        yield from asyncio.run(memory_figures(server))


def main() -> int:
    try:
        make_environment()
    except subprocess.CalledProcessError as error:
        print(
            f"THE OFFICIAL CLIENT CANNOT BE INSTALLED, and this benchmark compares with it. {error}"
            "The output of pip is above; 'PIP_INDEX_URL' selects another package index.",
            file=sys.stderr,
        )
        return 1
    print(f"compared with {' '.join(PINNED)}; load {os.getloadavg()[0]:.1f} before the run")
    met = show(all_figures())
    print(f"load {os.getloadavg()[0]:.1f} after it")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
