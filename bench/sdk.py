"""A session inside a program, compared with one that a client starts as a process: our command, and Claude Code.

Each gets the same work: two turns, one command between, from a model server on loopback that replies at once. They
alternate in one run; times are the minimum of several, of the wall clock. The benchmark compares the library with what
its users had before, so the official client's own work is part of its figures.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple

import claude_agent_sdk

import mainspring.sdk
from mainspring.simulator.replies import ReceivedRequest, Say
from mainspring.simulator.server import ModelServer

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import Figure, show

REPEATS = 7
AT_ONCE = 20
MODEL = "claude-sonnet-4-5"
COMMAND = str(Path(sys.executable).parent / "mainspring")
BUNDLED = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
PLAIN: Any = {"thinking": {"type": "disabled"}, "allowed_tools": ["Bash"]}
SHELL = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "echo hello"}}


class Way(NamedTuple):
    name: str
    sdk: ModuleType
    program: str | None


WAYS = (
    Way("within the program", mainspring.sdk, None),
    Way("the client and our command", claude_agent_sdk, COMMAND),
    *([Way("the client and Claude Code", claude_agent_sdk, str(BUNDLED))] if BUNDLED.exists() else []),
)


def answer(request: ReceivedRequest) -> Say:
    return Say.of("Done.") if "tool_result" in str(request.body["messages"]) else Say.of(SHELL)


class Times(NamedTuple):
    first: float  # milliseconds to the first message
    whole: float


async def once(way: Way, server: ModelServer, folder: Path) -> Times:
    env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-x", "CLAUDE_CONFIG_DIR": str(folder / "home")}
    env |= {"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    options = way.sdk.ClaudeAgentOptions(cli_path=way.program, cwd=folder, env=env, model=MODEL, **PLAIN)
    began, first, last = perf_counter(), 0.0, None
    messages: AsyncIterator[Any] = way.sdk.query(prompt="go", options=options)
    async for message in messages:
        first = first or perf_counter() - began
        last = message
    assert getattr(last, "result", None) == "Done.", last
    return Times(1_000 * first, 1_000 * (perf_counter() - began))


def size(pid: str = "self") -> float:
    """Megabytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def figures() -> list[Figure]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        async with ModelServer([], choose=answer) as server:
            best: dict[str, Times] = {}
            for _ in range(REPEATS):
                for way in WAYS:
                    took, known = await once(way, server, folder), best.get(way.name)
                    best[way.name] = took if known is None else Times(*map(min, took, known))
            many = {way.name: await together(way, server, folder) for way in WAYS}
            before = size()
            await together(WAYS[0], server, folder)
            return [*listed(best, many), Figure("memory that 20 more sessions leave behind", size() - before, "MB", 5)]


async def together(way: Way, server: ModelServer, folder: Path) -> float:
    began = perf_counter()
    await asyncio.gather(*[once(way, server, folder) for _ in range(AT_ONCE)])
    return perf_counter() - began


def listed(best: dict[str, Times], many: dict[str, float]) -> list[Figure]:
    ours, *others = WAYS
    least = best[others[-1].name]
    found: list[Figure] = []
    for way in WAYS:
        aims = (least.first / 3, least.whole / 3, many[others[-1].name] / 3) if way is ours else (None, None, None)
        found += [
            Figure(f"{way.name}: to the first message", best[way.name].first, "ms", aims[0]),
            Figure(f"{way.name}: two turns and a command", best[way.name].whole, "ms", aims[1]),
            Figure(f"{way.name}: {AT_ONCE} of them at once", many[way.name], "s", aims[2]),
        ]
    return found


if __name__ == "__main__":
    sys.exit(0 if show(asyncio.run(figures())) else 1)
