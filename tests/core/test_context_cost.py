"""What the context costs, and what costs less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.context_cost import ToolSchemas, price_for_turns, price_of_deferral, send_schemas_whole
from mainspring.core.models import MODELS
from mainspring.core.money import Price, Usage, cost

PRICED = st.sampled_from(sorted(MODELS)).map(lambda name: MODELS[name].price)


@given(tokens=st.integers(0, 100_000), turns=st.integers(1, 500), rates=PRICED)
def test_tokens_are_written_once_and_read_by_each_later_request(tokens: int, turns: int, rates: Price) -> None:
    written = tokens if rates.cache_write >= rates.input else 0
    usage = Usage(input=tokens - written, cache_write=written, cache_read=tokens * (turns - 1))
    assert price_for_turns(tokens, turns, rates) == cost(usage, rates.at(0)) or rates.above is not None


# --- the schemas of tools -------------------------------------------------------------------------------


@pytest.mark.parametrize("model", sorted(MODELS))
def test_thirty_ordinary_tools_are_sent_whole_and_three_hundred_are_not(model: str) -> None:
    rates = MODELS[model].price
    assert send_schemas_whole(ToolSchemas(30, 4_400), rates)
    assert not send_schemas_whole(ToolSchemas(300, 20_000), rates)


def test_where_reading_is_cheap_so_is_a_search() -> None:
    """The search costs one more request, which is read from the cache, so fewer schemas are worth sending."""

    def most(name: str) -> int:
        return next(tools for tools in range(1, 300) if not send_schemas_whole(of(tools), MODELS[name].price)) - 1

    assert [most(name) for name in ("claude-fable-5-1", "claude-sonnet-5-5", "claude-sonnet-4-5", "gpt-5")] == [
        30,
        33,
        37,
        45,
    ]


def of(tools: int) -> ToolSchemas:
    return ToolSchemas(tools, 150 * tools)


@given(tools=st.integers(1, 500), each=st.integers(1, 2_000), rates=PRICED)
def test_the_choice_is_the_cheaper_one(tools: int, each: int, rates: Price) -> None:
    schemas = ToolSchemas(tools, tools * each)
    whole, deferred = price_for_turns(schemas.tokens, 10, rates), price_of_deferral(schemas, rates)
    assert send_schemas_whole(schemas, rates) == (whole <= deferred)
    assert deferred > 0
