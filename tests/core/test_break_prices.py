"""The price of a prefix break: what the prompt cost, minus its cost with an unbroken cache."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.money import Price, Usage, cost, price_prefix_break

PRICE = Price(input=1_000, cache_write=1_250, cache_write_1h=2_000, cache_read=100, output=5_000)
LAST = Usage(input=10, cache_write=500, cache_read=9_500, output=77)  # 10,000 tokens are cached

TOKENS = st.integers(0, 10**6)
USAGES = st.builds(Usage, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS)


def test_a_request_that_reads_all_that_was_cached_lost_nothing() -> None:
    assert price_prefix_break(LAST, Usage(cache_write=700, cache_read=10_000), PRICE) == (0, 0)


def test_what_was_cached_and_is_written_again_is_lost() -> None:
    now = Usage(cache_write=6_000, cache_read=4_500, output=9)  # 500 of them are new
    assert price_prefix_break(LAST, now, PRICE) == (5_500, 5_500 * (1_250 - 100))


def test_a_shorter_request_loses_no_more_than_it_has() -> None:
    now = Usage(input=3, cache_write=800, cache_read=1_000)
    assert price_prefix_break(LAST, now, PRICE) == (800, 800 * (1_250 - 100))


def test_an_hour_is_written_before_five_minutes() -> None:
    now = Usage(cache_write=9_000, cache_write_1h=2_000)
    assert price_prefix_break(LAST, now, PRICE) == (10_000, 2_000 * (2_000 - 100) + 8_000 * (1_250 - 100))


def test_without_a_cache_nothing_is_lost() -> None:
    assert price_prefix_break(Usage(input=10_000), Usage(input=11_000), PRICE) == (0, 0)


def test_the_rates_are_those_of_the_prompt_now() -> None:
    dear = Price(cache_write=10, cache_read=1)
    price = Price(cache_write=5, cache_read=1, above_tokens=1_000, above=dear)
    assert price_prefix_break(Usage(cache_write=600), Usage(cache_write=2_000), price) == (600, 600 * 9)


def test_a_server_that_caches_by_itself_is_believed_once_it_has_read_from_its_cache() -> None:
    last, now = Usage(input=3_000, cache_read=1_000), Usage(input=4_000, cache_read=500)
    assert price_prefix_break(last, now, PRICE, automatic=True) == (3_500, 3_500 * (1_000 - 100))
    assert price_prefix_break(Usage(input=4_000), Usage(input=4_500), PRICE, automatic=True) == (0, 0)


@given(USAGES, USAGES)
def test_it_is_never_more_than_the_prompt_cost(last: Usage, now: Usage) -> None:
    tokens, price = price_prefix_break(last, now, PRICE)
    assert 0 <= tokens <= now.prompt
    assert 0 <= price <= cost(now, PRICE)
