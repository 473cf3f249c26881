"""What the context costs, and what costs less."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.core.context_cost import (
    CompactionChoice,
    CompactionOffer,
    HeldResult,
    ToolSchemas,
    choose_compaction,
    count_stale_results,
    expected_turns,
    price_for_turns,
    price_of_deferral,
    send_schemas_whole,
)
from mainspring.core.models import MODELS
from mainspring.core.money import Price, Usage, cost

PRICED = st.sampled_from(sorted(MODELS)).map(lambda name: MODELS[name].price)


@given(tokens=st.integers(0, 100_000), turns=st.integers(1, 500), rates=PRICED)
def test_tokens_are_written_once_and_read_by_each_later_request(tokens: int, turns: int, rates: Price) -> None:
    written = tokens if rates.cache_write >= rates.input else 0
    usage = Usage(input=tokens - written, cache_write=written, cache_read=tokens * (turns - 1))
    assert price_for_turns(tokens, turns, rates) == cost(usage, rates.at(0)) or rates.above is not None


# --- compaction -----------------------------------------------------------------------------------------

AMOUNTS = st.integers(0, 10**6)
OFFERS = st.builds(CompactionOffer, AMOUNTS, AMOUNTS, st.integers(0, 10**12), st.integers(0, 10**9))
RATES = Price(1_000, 1_250, 2_000, 100, 5_000)


def test_a_session_is_expected_to_go_on_for_as_long_as_it_has() -> None:
    assert [expected_turns(turns) for turns in (0, 10, 11, 500)] == [10, 10, 11, 500]


def test_clearing_waits_until_the_rent_has_reached_the_price() -> None:
    """12,000 tokens are written again at 1,150 nano-dollars more than they are read for."""
    price = 12_000 * 1_150
    due = CompactionOffer(20_000, 12_000, price)
    assert choose_compaction(RATES, 10, clear=due) is CompactionChoice.CLEAR
    assert choose_compaction(RATES, 10, clear=replace(due, rent=price - 1)) is CompactionChoice.NOTHING
    assert choose_compaction(RATES, 6, clear=due) is CompactionChoice.NOTHING  # it would not save as much any more
    assert choose_compaction(RATES, 10, clear=due, collapse=due) is CompactionChoice.COLLAPSE
    assert choose_compaction(RATES, 10, collapse=due) is CompactionChoice.NOTHING  # alone it would break more


def test_a_summary_is_written_when_it_saves_more_than_its_call() -> None:
    offer = CompactionOffer(5_000, 0, 8_000_000, 8_000_000)
    assert choose_compaction(RATES, 17, summarize=offer) is CompactionChoice.SUMMARIZE
    assert choose_compaction(RATES, 16, summarize=offer) is CompactionChoice.NOTHING


@given(clear=OFFERS, collapse=OFFERS, summarize=OFFERS, turns=st.integers(1, 1_000), rates=PRICED)
def test_what_is_chosen_is_expected_to_cost_less_than_doing_nothing(
    clear: CompactionOffer, collapse: CompactionOffer, summarize: CompactionOffer, turns: int, rates: Price
) -> None:
    chosen = choose_compaction(rates, turns, clear=clear, collapse=collapse, summarize=summarize)
    offers = {
        CompactionChoice.NOTHING: (),
        CompactionChoice.CLEAR: (clear,),
        CompactionChoice.COLLAPSE: (clear, collapse),
        CompactionChoice.SUMMARIZE: (summarize,),
    }[chosen]
    for offer in offers:
        price = offer.rewritten * max(0, rates.cache_write - rates.cache_read) + offer.call
        assert price < offer.freed * rates.cache_read * turns
        assert price <= offer.rent


@given(clear=OFFERS, turns=st.integers(1, 1_000), rates=PRICED)
def test_without_a_cache_that_could_be_read_clearing_is_free(clear: CompactionOffer, turns: int, rates: Price) -> None:
    offer = replace(clear, call=0)
    cleared = choose_compaction(rates, turns, clear=offer, cold=True) is not CompactionChoice.NOTHING
    assert cleared == bool(offer.freed)


def test_a_model_that_costs_nothing_is_left_alone() -> None:
    offer = CompactionOffer(10**6, 0, 10**12)
    assert choose_compaction(Price(), 100, clear=offer, collapse=offer, summarize=offer) is CompactionChoice.NOTHING
    assert count_stale_results([HeldResult(10**6, 1_000, False)], 10**6, Price()) == 0


@pytest.mark.parametrize("each", [1, 3, 10])
@pytest.mark.parametrize("kept", [4_000, 20_000])
def test_a_steady_session_pays_at_most_twice_the_best_choice(each: int, kept: int) -> None:
    """Each turn some results become old. The best in hindsight clears every so many turns; all of them are tried."""
    turns, tokens = 400, each * 400

    def cost_of(clears: Callable[[int, int, int], bool]) -> int:
        old = rent = paid = since = 0
        for turn in range(turns):
            old, since = old + tokens, since + 1
            paid += old * RATES.cache_read
            rent += old * RATES.cache_read
            if clears(turn, since, rent if old else 0):
                paid += kept * 1_150
                old = rent = since = 0
        return paid

    def by_price(turn: int, since: int, rent: int) -> bool:
        offer = CompactionOffer(tokens * since, kept, rent)
        return choose_compaction(RATES, expected_turns(turn), clear=offer) is CompactionChoice.CLEAR

    def at(every: int, turn: int, since: int, rent: int) -> bool:  # as `by_price`
        return since == every

    best = min([cost_of(partial(at, every)) for every in range(1, turns + 1)])
    assert cost_of(by_price) <= 2 * best


# --- the results that are kept ------------------------------------------------------------------------

HELD = st.builds(HeldResult, st.integers(1, 30_000), st.integers(0, 100), st.booleans())


@given(held=st.lists(HELD, max_size=8), prompt=st.integers(0, 500_000), rates=PRICED)
def test_the_oldest_leave_that_save_the_most(held: list[HeldResult], prompt: int, rates: Price) -> None:
    def saved(number: int) -> int:
        again = prompt * rates.cache_read + 100 * rates.output
        write = max(rates.input, rates.cache_write)
        total = 0
        for result in held[:number]:
            chance = 200 if result.is_file else 100
            needed = chance * (result.tokens * write + again) // (1_000 * (result.idle + 1))
            total += result.tokens * rates.cache_read - needed
        return total

    count = count_stale_results(held, prompt, rates)
    assert saved(count) == max(saved(number) for number in range(len(held) + 1))


def test_how_long_a_result_is_kept() -> None:
    """A file longer than an output, a small result longer than a large one, and all of them where reading is cheap."""

    def turns(tokens: int, *, is_file: bool, rates: Price = RATES) -> int:
        stale = (
            idle for idle in range(1_000) if count_stale_results([HeldResult(tokens, idle, is_file)], 30_000, rates)
        )
        return next(stale)

    cheap = MODELS["claude-fable-5-1"].price
    assert (turns(5_000, is_file=True), turns(5_000, is_file=False)) == (3, 1)
    assert turns(1_000, is_file=True) == 9
    assert turns(5_000, is_file=True, rates=cheap) == 12


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
