"""How much memory each prompt of one long session leaves behind: run by tests, in a process of its own.

python tests/wire/memory.py URL FOLDER KIND FIRST LAST     # prints bytes between the two prompts: traced, resident
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tracemalloc
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import msgspec

from mainspring.core.config import Config
from mainspring.core.models import model_named
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import BasicDeps
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.http.client import Transport
from wire.turns import ADAPTIVE, sdk_options

Prompts = AsyncIterator[int]  # one more was answered, by the process of this id


async def library(url: str, folder: str) -> Prompts:  # it writes no files
    async with Transport() as transport:
        provider = Anthropic("key", base_url=f"{url}/talk", transport=transport)
        session = EngineSession(BasicDeps(provider), Config(model=model_named(ADAPTIVE)))
        for n in count():
            async with session.run(f"What about part {n}?") as run:
                async for _ in run:
                    pass
            yield os.getpid()


async def sdk(url: str, folder: str) -> Prompts:
    from mainspring.sdk import Client

    async with Client(sdk_options(url, folder, 0, "talk", ADAPTIVE, resume=None)) as client:
        for n in count():
            await client.query(f"What about part {n}?")
            async for _ in client.receive_response():
                pass
            yield os.getpid()


async def pipe(url: str, folder: str) -> Prompts:
    env = {"ANTHROPIC_BASE_URL": f"{url}/talk", "ANTHROPIC_API_KEY": "key", "CLAUDE_CONFIG_DIR": f"{folder}/home"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mainspring", "-p", "--input-format=stream-json", "--output-format=stream-json"),
        *("--verbose", f"--model={ADAPTIVE}", '--settings={"features": {"collapse": false}}'),
        stdin=PIPE,
        stdout=PIPE,
        cwd=folder,
        env={**os.environ, **env, "MAINSPRING_HOME": f"{folder}/home", "IS_SANDBOX": "1"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for n in count():
            said = {"role": "user", "content": f"What about part {n}?"}
            process.stdin.write(msgspec.json.encode({"type": "user", "message": said}) + b"\n")
            while b'"type":"result"' not in (line := await process.stdout.readline()):
                assert line, "the command has ended"
            yield process.pid
    finally:
        process.stdin.close()
        await process.wait()


async def main() -> None:
    url, folder, kind, first, last = sys.argv[1:]
    if kind.endswith(", traced"):
        tracemalloc.start(1)
    prompts = KINDS[kind.removesuffix(", traced")](url, folder)
    before, pid = (0, 0), 0
    for n in range(int(last) + 1):
        pid = await anext(prompts)
        if n == int(first):
            before = measured(pid)
    after = measured(pid)
    print(after[0] - before[0], after[1] - before[1])
    await prompts.aclose()  # type: ignore[attr-defined]


KINDS: dict[str, Callable[[str, str], Prompts]] = {"library": library, "sdk": sdk, "pipe": pipe}


def measured(pid: int) -> tuple[int, int]:
    gc.collect()
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return tracemalloc.get_traced_memory()[0], pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    asyncio.run(main())
