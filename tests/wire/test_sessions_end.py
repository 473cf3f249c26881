"""The memory of a session goes when the session ends: without the garbage collector where the engine is used directly,
and with it for whole agent sessions.

A collection looks at everything that is alive, so what it need not collect also makes fewer of them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mainspring.core.config import Config
from mainspring.core.models import model_named
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import BasicDeps
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.http.client import Transport
from wire.quick_server import QuickServer
from wire.turns import ADAPTIVE, Look, sdk_options

FIRST = 20  # sessions that fill caches
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


async def in_engine(number: int, url: str, folder: str) -> None:
    async with Transport() as transport:
        for _ in range(number):
            provider = Anthropic("key", base_url=f"{url}/call", transport=transport)
            session = EngineSession(BasicDeps(provider, [Look]), Config(model=model_named(ADAPTIVE), max_turns=3))
            async with session.run("Look at all parts.") as run:
                async for _ in run:
                    pass


async def in_sdk(number: int, url: str, folder: str) -> None:
    from mainspring.sdk import query

    for _ in range(number):
        options = sdk_options(url, folder, 0, "talk", ADAPTIVE, resume=None)
        async for _ in query(prompt="What about it?", options=options):
            pass


Sessions = Callable[[int, str, str], Awaitable[None]]


def objects_left(sessions: Sessions, number: int, folder: Path, *, collected: bool) -> float:
    """Objects per session that are there after `number` of them, beside those of the first ones."""

    async def main() -> float:
        async with QuickServer() as server:
            await sessions(FIRST, server.url, str(folder))
            gc.collect()
            if not collected:
                gc.disable()
            before = len(gc.get_objects())
            await sessions(number, server.url, str(folder))
            if collected:
                gc.collect()
            return (len(gc.get_objects()) - before) / number

    try:
        return asyncio.run(main())
    finally:
        gc.enable()


def test_a_session_of_the_engine_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    assert objects_left(in_engine, 50, tmp_path, collected=False) < 4  # it was 120


def test_an_agent_session_leaves_nothing_behind(tmp_path: Path) -> None:
    assert objects_left(in_sdk, 40, tmp_path, collected=True) < 3


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads '/proc'")
@pytest.mark.parametrize("sessions", [in_engine, in_sdk])
def test_a_thousand_sessions_in_one_process_take_no_more_memory_than_a_few(sessions: Sessions, tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
        async with QuickServer() as server:
            await sessions(200, server.url, str(tmp_path))
            gc.collect()
            before, memory = len(gc.get_objects()), resident()
            await sessions(1_000, server.url, str(tmp_path))
            gc.collect()
            return len(gc.get_objects()) - before, resident() - memory

    objects, memory = asyncio.run(main())
    print(f"{objects} objects and {memory / 1024:.0f} KB more after a thousand sessions")
    assert objects < 1_000
    assert memory < 4 * 1024 * 1024
