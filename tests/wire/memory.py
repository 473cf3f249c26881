"""How much memory each prompt of one long session leaves behind: run by tests, in a process of its own.

python tests/wire/memory.py URL FOLDER KIND FIRST LAST     # prints bytes between the two prompts: traced, resident
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

from mainspring.core.config import Config
from mainspring.core.models import model_named
from mainspring.engine.plain import Plain
from mainspring.engine.session import Session
from mainspring.providers.anthropic import Anthropic
from mainspring.providers.transport import Transport
from wire.turns import ADAPTIVE, sdk_options


async def library(url: str, folder: str) -> AsyncIterator[None]:  # it writes no files
    async with Transport() as transport:
        provider = Anthropic("key", base_url=f"{url}/talk", transport=transport)
        session = Session(Plain(provider), Config(model=model_named(ADAPTIVE)))
        while True:
            async with session.run("What about this part?") as run:
                async for _ in run:
                    pass
            yield


async def sdk(url: str, folder: str) -> AsyncIterator[None]:
    from mainspring.sdk import Client

    async with Client(sdk_options(url, folder, 0, "talk", ADAPTIVE, resume=None)) as client:
        while True:
            await client.query("What about this part?")
            async for _ in client.receive_response():
                pass
            yield


async def main() -> None:
    url, folder, kind, first, last = sys.argv[1:]
    if kind.endswith("traced"):
        tracemalloc.start(1)
    prompts = (library if kind.startswith("library") else sdk)(url, folder)
    before = (0, 0)
    for n in range(int(last) + 1):
        await anext(prompts)
        if n == int(first):
            before = measured()
    after = measured()
    print(after[0] - before[0], after[1] - before[1])
    await prompts.aclose()  # type: ignore[attr-defined]


def measured() -> tuple[int, int]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return tracemalloc.get_traced_memory()[0], pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    asyncio.run(main())
