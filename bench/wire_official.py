"""The official client, measured in its own environment: bench/wire.py starts this with that environment's interpreter.

Each line of input requests one stream: `HOW URL`. Each line of output has its cost, in microseconds of the processor,
and the number of its text deltas. There are two ways of streaming: `create` hands on events as they come; `helper` also
assembles the message, as our provider does.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
import time
from typing import Any

PROMPT = {"model": "claude-sonnet-5-5", "max_tokens": 32_000, "messages": [{"role": "user", "content": "Hello."}]}

anthropic: Any = importlib.import_module("anthropic")  # not in the environment of the type checker


async def create(client: Any) -> int:
    deltas = 0
    async for event in await client.messages.create(**PROMPT, stream=True):
        deltas += event.type == "content_block_delta"
    return deltas


async def helper(client: Any) -> int:
    deltas = 0
    async with client.messages.stream(**PROMPT) as stream:
        async for _ in stream.text_stream:
            deltas += 1
    return deltas


WAYS = {"create": create, "helper": helper}


def main() -> None:
    clients: dict[str, Any] = {}
    with asyncio.Runner() as runner:  # one loop for all, so that connections can be kept
        for line in sys.stdin:
            how, url = line.split()
            client = clients.setdefault(url, anthropic.AsyncAnthropic(api_key="key", base_url=url, max_retries=0))
            gc.collect()
            start = time.process_time_ns()
            deltas = runner.run(WAYS[how](client))
            print((time.process_time_ns() - start) / 1_000, deltas, flush=True)


if __name__ == "__main__":
    main()
