"""Windows and prices that a provider describes, as an argument or an attribute: every front end uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring import Agent, ask, open_run, query
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.custom import Model, RetryingProvider, per_million
from mainspring.providers.openai.provider import OpenAIChat
from mainspring.sdk import Options, ResultMessage
from mainspring.testing import Scripted
from mainspring.testing.plugin import LiveServer

HOUSE = Model("house-1", window=64_000, max_output=8_000, price=per_million(1_000, 5_000))
BARN = Model("barn-1", window=32_000, max_output=4_000, price=per_million(1, 2))


class Priced(Scripted):
    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__(["Hi.", "Hi."])
        self.models = tuple(models)


def cost_of(provider: Any, **given: Any) -> tuple[float, bool, str]:
    answer = asyncio.run(ask("go", provider=provider, **given))
    return answer.cost_usd, answer.result.estimated, provider.requests[0].model


def test_the_first_model_is_the_default_and_has_its_price() -> None:
    cost, estimated, name = cost_of(Priced([HOUSE, BARN]))
    assert (cost > 0.1, estimated, name) == (True, False, "house-1")


def test_a_model_is_found_by_its_name() -> None:
    cost, estimated, name = cost_of(Priced([HOUSE, BARN]), model="barn-1")
    assert (cost < 0.01, estimated, name) == (True, False, "barn-1")


def test_a_model_that_nobody_describes_has_a_price_on_the_safe_side_which_is_an_estimate() -> None:
    _, estimated, name = cost_of(Priced([HOUSE]), model="shed-1")
    assert (estimated, name) == (True, "shed-1")


def test_the_settings_of_the_user_have_precedence() -> None:
    free = {"models": {"house-1": {"input_usd": 0, "output_usd": 0}}}
    assert cost_of(Priced([HOUSE]), settings=free)[0] == 0


def test_the_sdk_and_the_low_level_loop_use_them() -> None:
    async def main() -> tuple[float, int]:
        options = Options(provider=Priced([HOUSE]), setting_sources=[])
        [*_, last] = [message async for message in query("go", options=options)]
        assert isinstance(last, ResultMessage)
        async with open_run("go", provider=RetryingProvider(Scripted(["Hi."]), models=[HOUSE])) as run:
            async for _ in run:
                pass
        assert not run.result.estimated
        return last.total_cost_usd or 0.0, run.result.cost

    sdk, low = asyncio.run(main())
    assert sdk > 0.1
    assert low > 100_000_000  # nano-dollars


def test_retries_keep_the_models_of_the_provider() -> None:
    assert RetryingProvider(Priced([BARN])).models == (BARN,)


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_our_own_providers_take_them(kind: str, model_server: LiveServer) -> None:
    model_server.answers("Hi.")
    provider = (
        Anthropic("k", base_url=model_server.url, models=[HOUSE])
        if kind == "anthropic"
        else OpenAIChat("k", base_url=f"{model_server.url}/v1", models=[HOUSE])
    )
    answer = Agent("house-1", provider=provider, persist=False).run_sync("go")
    usage = answer.usage
    assert answer.cost_usd == pytest.approx((usage.input * 1_000 + usage.output * 5_000) / 1_000_000)
    assert not answer.result.estimated
