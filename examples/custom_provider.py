"""A provider of your own: it answers in capital letters, after a first attempt that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from mainspring import open_run
from mainspring.providers.custom import (
    Batch,
    BlockDelta,
    BlockFinished,
    BlockKind,
    BlockOpened,
    Conversation,
    Failure,
    Model,
    ProviderError,
    Request,
    RetryingProvider,
    RetryLimits,
    StreamEnded,
    StreamStarted,
    Text,
    Trouble,
    Usage,
    User,
    per_million,
)

SHOUT = Model("shout-1", window=8_000, max_output=1_000, price=per_million(0.10, 0.40))


class Shouting:
    models = (SHOUT,)  # its window and price
    attempts = 0

    async def stream(self, _: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        self.attempts += 1
        if self.attempts == 1:
            raise ProviderError(Failure(Trouble.OVERLOADED, "try again"))
        prompt = [message.text for message in conversation.history if isinstance(message, User)][-1]
        yield (StreamStarted(Usage(input=len(prompt))), BlockOpened(BlockKind.TEXT))
        for word in prompt.upper().split():
            yield (BlockDelta(BlockKind.TEXT, f"{word} "),)  # as they arrive
        yield (BlockFinished(Text(prompt.upper())), StreamEnded(usage=Usage(input=len(prompt), output=3)))


async def main() -> None:
    provider = RetryingProvider(Shouting(), RetryLimits(tries=3, base=1, cap=10, longest_asked=1_000))
    async with open_run("hello from here", provider=provider) as run:
        async for _ in run:
            pass
    print(run.result.text, run.result.cost, "nano-dollars")


asyncio.run(main())
