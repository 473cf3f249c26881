"""Runs many seeded sessions over real sockets, against a server that fails at random: every one ends, none sends an
invalid request, none makes more model calls than the computed bound, no call runs twice.

    .venv/bin/python scripts/soak.py                 # 2,000 sessions
    .venv/bin/python scripts/soak.py --sessions 100 --seed 7

The report names a session that breaks a law with its seed: the same command with that seed repeats it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple
from zlib import crc32

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.ladder import most_model_calls
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.updates import CallStarted, Result
from mainspring.providers.http.client import Deadlines, Transport
from mainspring.simulator.faults import FAULTS, FaultPlan
from mainspring.simulator.replies import Json, ReceivedRequest, Reply, Say
from mainspring.simulator.server import ModelServer

# run as a script, only this directory's files would be found
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from faults.stage import ALONE, SUMMARY, USAGE, WITH_FALLBACK, Stage, together, updates_of

SESSIONS = 2_000
ON_ONE_SERVER = 50  # sessions that share a server and its rates
AT_ONCE = 12
DEADLINES = Deadlines(connect=5, headers=0.15, idle=0.15)


class Figures(NamedTuple):
    sessions: int
    requests: int
    faults: Counter[str]
    endings: Counter[str]
    violations: int
    most: tuple[int, int]  # model calls of the session that had the most, and its bound
    broken: list[str]  # laws, with the session that broke them
    seconds: float


def wander(received: ReceivedRequest) -> Reply:
    """A model that calls up to three tools at once, until it has read as many parts as its prompt's hash says."""
    talk = received.talk
    seed = crc32(talk.key.encode())
    seen = sum([int(words.removeprefix(SUMMARY)) for _, words in talk.said() if words.startswith(SUMMARY)])
    seen += len([result for result in talk.results("Look") if not result.get("is_error")])
    wanted = 1 + seed % 7
    thought = {"type": "thinking", "thinking": f"I have seen {seen} of {wanted} parts, so there is more to do."}
    if seen >= wanted:
        return Say.of(thought, f"All {wanted} parts are fine.", usage=USAGE)
    parts = range(seen + 1, min(wanted, seen + 1 + (seed + seen) % 3) + 1)
    calls = [
        {"type": "tool_use", "id": f"toolu_{talk.turns()}_{part}", "name": "Look", "input": {"part": part}}
        for part in parts
    ]
    words = f"I will look at {len(calls)} more."
    blocks: list[str | Json] = [*calls, words] if seed % 5 == 0 else [words, *calls]
    return Say.of(thought, *blocks, usage=USAGE)


def rates(random: Random) -> dict[str, float]:
    """Some faults, each with a share of the failures: between a twentieth and half of all requests."""
    names = random.sample(list(FAULTS), random.randint(1, 12))
    whole = random.uniform(0.05, 0.5)
    weights = [random.random() for _ in names]
    return {name: whole * weight / sum(weights) for name, weight in zip(names, weights, strict=True)}


class One(NamedTuple):
    """How a session ended, how many model calls it made, and which laws it broke."""

    ending: str
    calls: int
    bound: int
    broken: list[str]


async def one(stage: Stage, number: int, config: Config) -> One:
    async with Transport(deadlines=DEADLINES) as transport:
        session = stage.session(transport, config, Counter())
        updates = await updates_of(session, f"session {number}")
    broken: list[str] = []
    result = updates[-1]
    if not isinstance(result, Result):
        return One("no end", 0, 0, [f"session {number} has no end"])
    if find_unpaired_ids(session.state.history):
        broken.append(f"session {number}: a call without exactly one result")
    bound = most_model_calls(config)
    if result.model_calls > bound:
        broken.append(f"session {number}: {result.model_calls} model calls, more than was computed")
    ran = Counter(update.call.id for update in updates if isinstance(update, CallStarted))
    if any(times > 1 for times in ran.values()):
        broken.append(f"session {number}: a call ran twice")
    return One(f"{result.terminal} {result.cause}", result.model_calls, bound, broken)


async def on_one_server(seed: int, numbers: range) -> tuple[ModelServer, list[One]]:
    random = Random(seed)
    faults = FaultPlan(seed=seed, rates=rates(random))
    configs = [replace(random.choice([ALONE, WITH_FALLBACK]), max_turns=random.randint(1, 12)) for _ in numbers]
    async with ModelServer(choose=wander, faults=faults) as server:
        stage = Stage(server)
        plays = [partial(one, stage, number, config) for number, config in zip(numbers, configs, strict=True)]
        return server, await together(plays, at_once=AT_ONCE)


async def soak(sessions: int, seed: int = 0) -> Figures:
    started = time.monotonic()
    requests, violations, broken = 0, 0, list[str]()
    faults, endings, most = Counter[str](), Counter[str](), (0, 0)
    for first in range(0, sessions, ON_ONE_SERVER):
        numbers = range(first, min(first + ON_ONE_SERVER, sessions))
        server, played = await on_one_server(seed + first, numbers)
        requests += len(server.requests)
        violations += len(server.violations)
        broken += [f"{wrong.request.talk.key}: {wrong.violation}" for wrong in server.wrong]
        faults.update(answer.fault for answer in server.answers if answer.fault)
        for session in played:
            endings[session.ending] += 1
            broken += session.broken
            most = max(most, (session.calls, session.bound))
    return Figures(sessions, requests, faults, endings, violations, most, broken, time.monotonic() - started)


def show(figures: Figures, seed: int) -> None:
    print(f"{figures.sessions:,} sessions, seed {seed}: {figures.requests:,} requests in {figures.seconds:.1f} s")
    print(f"faults: {figures.faults.total():,}, of {len(figures.faults)} kinds")
    for name, times in figures.faults.most_common():
        print(f"  {times:6,}  {name}")
    print("endings:")
    for ending, times in figures.endings.most_common():
        print(f"  {times:6,}  {ending}")
    print(f"requests that broke a rule: {figures.violations}")
    print(f"most model calls in a session: {figures.most[0]}, where {figures.most[1]} were possible")
    for law in figures.broken[:20]:
        print(f"BROKEN: {law}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Sessions over real sockets, against a server that fails at random.")
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    figures = asyncio.run(soak(options.sessions, options.seed))
    show(figures, options.seed)
    return 1 if figures.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
