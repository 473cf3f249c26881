"""A provider of a program's own: the retry wrapper, and prices that are not known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from mainspring import open_run
from mainspring.core.models import MODELS, model_named
from mainspring.core.updates import Result
from mainspring.providers.custom import (
    Batch,
    BlockFinished,
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
    per_million,
)

LIMITS = RetryLimits(tries=3, base=1, cap=2, longest_asked=10)


class Failing:
    """Fails so many times, and then answers."""

    def __init__(self, times: int) -> None:
        self.left, self.attempts = times, 0

    async def stream(self, _: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        self.attempts += 1
        if self.left:
            self.left -= 1
            raise ProviderError(Failure(Trouble.OVERLOADED, "busy"))
        yield (StreamStarted(), BlockFinished(Text("Hi.")), StreamEnded(usage=Usage(input=10, output=2)))


async def run(provider: Failing, model: Model) -> Result:
    async with open_run("go", provider=RetryingProvider(provider, LIMITS), model=model) as running:
        assert [update async for update in running]
    return running.result


def test_the_wrapper_retries() -> None:
    provider = Failing(2)
    assert asyncio.run(run(provider, MODELS["claude-haiku-4-5"])).text == "Hi."
    assert provider.attempts == 3


@pytest.mark.parametrize(
    ("model", "estimated"),
    [
        (model_named("mine-1"), True),
        (Model("mine-1", window=8_000, price=per_million(1, 2)), False),
        (MODELS["claude-haiku-4-5"], False),
    ],
)
def test_an_unknown_price_is_an_estimate(model: Model, estimated: bool) -> None:
    result = asyncio.run(run(Failing(0), model))
    assert result.estimated is estimated
    assert result.cost > 0
