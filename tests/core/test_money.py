"""Money: reserved before it is spent (law 5), and the sums of a tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from core.play import CONFIG, MODEL, Play, failure, reply
from mainspring.core.config import Config
from mainspring.core.events import Aborted, CallFailed, Compacted, ContextReady, Replied
from mainspring.core.messages import Stop
from mainspring.core.models import MODELS, UNKNOWN, model_named, per_million
from mainspring.core.money import Account, Grant, Lineage, Price, Usage, cost, funds, grant, least, reserve, settle
from mainspring.core.reasons import AbortReason, Trouble

PRICE = Price(1_000, 1_250, 2_000, 100, 5_000)


@pytest.mark.covers("H-14")
def test_cost_by_disjoint_classes() -> None:
    usage = Usage(input=1, cache_write=10, cache_write_1h=100, cache_read=1_000, output=10_000)
    assert (usage.prompt, usage.total) == (1_111, 11_111)
    assert cost(usage, PRICE) == 1_000 + 12_500 + 200_000 + 100_000 + 50_000_000
    assert usage + usage == Usage(2, 20, 200, 2_000, 20_000)


def test_a_long_prompt_may_have_its_own_price() -> None:
    haiku = MODELS["claude-haiku-5-5"].price
    assert cost(Usage(input=100_000, output=1), haiku) == 100_000 * 100 + 500
    assert cost(Usage(input=100_001, output=1), haiku) == 100_001 * 500 + 2_500
    assert haiku.at(100_000) is haiku
    assert haiku.at(100_001) is haiku.above


def test_published_prices_become_nano_dollars() -> None:
    assert per_million(3, 15) == Price(3_000, 3_750, 6_000, 300, 15_000)
    assert per_million(0.1, 0.5).cache_read == 10
    assert isinstance(per_million(3, 15).cache_write, int)
    assert all(isinstance(rate, int) for model in MODELS.values() for rate in astuple(model.price)[:5])
    assert MODELS["claude-opus-5-5"].price == Price(4_000, 5_000, 8_000, 200, 20_000)


def test_a_model_on_this_machine_costs_nothing_whatever_its_name() -> None:
    local, hosted = model_named("ollama/claude-haiku-4-5"), model_named("claude-haiku-4-5")
    assert (local.price, local.window) == (Price(), 32_768)
    assert hosted.price != Price()


@pytest.mark.covers("K-06")
def test_models_are_found_by_name_also_with_a_date() -> None:
    assert model_named("claude-haiku-4-5").thinking_budget == 8_000
    assert model_named("claude-sonnet-4-5").thinking_budget == 16_000
    assert model_named("claude-opus-4-5").thinking_budget == 32_000
    dated = model_named("claude-haiku-4-5-20251001")
    assert dated == replace(MODELS["claude-haiku-4-5"], name="claude-haiku-4-5-20251001")
    assert model_named("claude-haiku-4-5x") == replace(UNKNOWN, name="claude-haiku-4-5x")
    assert model_named("llama") == replace(UNKNOWN, name="llama")
    assert all(name == model.name for name, model in MODELS.items())
    assert UNKNOWN.price.output == max(model.price.output for model in MODELS.values())


# --- before a call ----------------------------------------------------------------------------------


@pytest.mark.covers("H-09", "H-12")
@pytest.mark.parametrize(
    ("available", "granted"),
    [
        (10**9, Grant(64_000, 100 * 1_250 + 64_000 * 5_000)),  # enough for all that was wanted
        (100 * 1_250 + 10_000 * 5_000, Grant(10_000, 100 * 1_250 + 10_000 * 5_000)),  # lowered to what is paid for
        (100 * 1_250 + 256 * 5_000, Grant(256, 100 * 1_250 + 256 * 5_000)),
        (100 * 1_250 + 256 * 5_000 - 1, None),  # below 256 tokens it is not worth starting
        (0, None),
        (-1, None),
    ],
)
def test_a_grant_is_what_can_be_paid_for_at_the_dearest(available: int, granted: Grant | None) -> None:
    assert grant(available, 100, 64_000, PRICE) == granted


@given(
    available=st.integers(0, 10**12),
    classes=st.tuples(*[st.integers(0, 200_000)] * 3),
    wanted=st.integers(1, 128_000),
    model=st.sampled_from(sorted(MODELS)),
    written=st.floats(0, 1),
)
def test_a_granted_call_stays_within_the_limit_however_its_prompt_is_cached(
    available: int, classes: tuple[int, int, int], wanted: int, model: str, written: float
) -> None:
    """Law 5: plain, written for five minutes, or read, in any proportion."""
    plain, wrote, read = classes
    price = MODELS[model].price
    granted = grant(available, sum(classes), wanted, price)
    if granted is not None:
        usage = Usage(plain, wrote, 0, read, round(granted.max_output * written))
        assert cost(usage, price) <= granted.reserve <= available


def test_a_small_limit_can_be_spent() -> None:
    """Of three cents, what the first call of a session may use: 4,000 tokens of tools and instructions, and a reply."""
    price = MODELS["claude-sonnet-4-5"].price
    granted = grant(30_000_000, 4_000, 64_000, price)
    assert granted == Grant(1_000, 4_000 * 3_750 + 1_000 * 15_000)  # at the rate of an hour it was refused
    assert grant(30_000_000, 6_976, 64_000, price) == Grant(256, 30_000_000)  # and a larger one may write a short reply


@given(
    available=st.integers(0, 10**11),
    tokens=st.integers(0, 200_000),
    wanted=st.integers(256, 128_000),
    model=st.sampled_from(sorted(MODELS)),
    floor=st.sampled_from([256, 1_024]),
)
def test_what_is_refused_could_not_be_paid_for(
    available: int, tokens: int, wanted: int, model: str, floor: int
) -> None:
    """A call is refused only if its prompt and the shortest reply may cost more than what is left."""
    price = MODELS[model].price
    refused = grant(available, tokens, wanted, price, floor=floor) is None
    assert refused == (available < least(tokens, min(floor, wanted), price))


@given(plain=st.integers(0, 200_000), wanted=st.integers(1, 2_000), model=st.sampled_from(sorted(MODELS)))
def test_a_request_without_a_mark_pays_for_no_cache(plain: int, wanted: int, model: str) -> None:
    """Law 5 for a title, a collapse, a classifier: nothing is written to the cache, so nothing is reserved for that."""
    price = MODELS[model].price
    exact = cost(Usage(plain, output=wanted), price)
    assert grant(exact, plain, wanted, price, marked=False, floor=wanted) == Grant(wanted, exact)
    assert grant(exact - 1, plain, wanted, price, marked=False, floor=wanted) is None


@pytest.mark.parametrize(
    ("model", "thinking", "floor"),
    [
        ("claude-sonnet-4-5", False, 256),
        ("claude-sonnet-4-5", True, 256),  # it goes on without its thinking budget
        ("claude-sonnet-5", False, 256),
        ("claude-sonnet-5", True, 1_024),
        ("gpt-5", True, 256),
    ],
)
def test_the_shortest_reply_depends_on_thinking(model: str, thinking: bool, floor: int) -> None:
    named = MODELS[model]
    config = Config(model=named, thinking=thinking)
    for left, calls in ((least(100, floor, named.price), 1), (least(100, floor, named.price) - 1, 0)):
        play = Play([reply("done")] * calls, contexts=[ContextReady(100, funds=left)], config=config)
        assert [(call.request.max_output, call.request.thinking) for call in play.requests] == [(floor, None)] * calls
        assert play.result.model_calls == calls


def test_a_short_reply_that_was_asked_for_is_granted() -> None:
    assert grant(10**9, 0, 10, PRICE) == Grant(10, 50_000)
    assert grant(49_999, 0, 10, PRICE) is None
    assert grant(0, 100, 1, Price(input=1)) is None


def test_a_grant_is_a_whole_number_of_tokens_at_the_price_of_that_prompt() -> None:
    assert grant(10_003_333, 0, 64_000, PRICE) == Grant(2_000, 10_000_000)
    haiku = MODELS["claude-haiku-5-5"].price
    assert grant(10**12, 100_001, 1_000, haiku) == Grant(1_000, 100_001 * 625 + 1_000 * 2_500)


def test_a_free_model_costs_nothing() -> None:
    assert grant(0, 100, 64_000, Price()) == Grant(64_000, 0)
    assert grant(0, 100, 64_000, Price(input=1)) is None
    assert grant(100, 100, 64_000, Price(input=1)) == Grant(64_000, 100)


@pytest.mark.covers("H-09")
def test_the_request_carries_what_to_reserve() -> None:
    play = Play([reply("done")], contexts=[ContextReady(100, funds=100 * 1_250 + 2_000 * 5_000)])
    request = play.requests[0].request
    assert (request.max_output, request.reserve) == (2_000, 10_125_000)
    free = Play([reply("done")]).requests[0].request
    assert (free.max_output, free.reserve) == (64_000, 0)


def test_a_retry_is_granted_from_the_newest_balance() -> None:
    rich, poor = 10**9, 100 * 1_250 + 5_000 * 5_000
    cut = CallFailed(failure(Trouble.SERVER), kept=reply("x"), funds=poor)
    play = Play([cut, reply("done")], contexts=[ContextReady(100, funds=rich)])
    assert [call.request.max_output for call in play.requests] == [64_000, 5_000]


def test_a_balance_that_is_not_reported_stays_as_it_was() -> None:
    """A driver that leaves the balance out must not lift the limit."""
    limited = ContextReady(100, funds=10**9)
    refused = Play([reply("no", stop=Stop.REFUSAL), reply("done")], contexts=[limited])
    cut = Play([CallFailed(failure(Trouble.SERVER), kept=reply("x")), reply("done")], contexts=[limited])
    silent = [ContextReady(170_000, funds=10**9)]
    full = Play([reply("done")], contexts=silent, compactions=[False, False])
    for play in (refused, cut, full):
        assert all(call.request.reserve > 0 for call in play.requests)
        assert play.state.funds == 10**9


def test_a_compaction_can_use_up_the_rest() -> None:
    spent = Compacted(before=170_000, after=1_000, usage=Usage(input=9), cost=77, funds=1)
    play = Play([], contexts=[ContextReady(170_000, funds=10**9), ContextReady(1_000, funds=1)], compactions=[spent])
    assert play.ending == ("completed", "budget_usd")
    assert (play.result.usage, play.result.cost) == (Usage(input=9), 77)


def test_a_failed_compaction_can_use_up_the_rest_too() -> None:
    spent = Compacted(before=170_000, failed="no", cost=77, funds=1)
    play = Play([], contexts=[ContextReady(170_000, funds=10**9)], compactions=[spent, spent])
    assert play.ending == ("completed", "budget_usd")


def test_a_failed_compaction_is_paid_for_too() -> None:
    spent = Compacted(before=170_000, failed="no", usage=Usage(input=9), cost=77)
    play = Play([reply("done")], contexts=[170_000], compactions=[spent, True])
    assert play.result.cost == 77 + cost(Usage(input=100, output=10), MODEL.price)


def test_the_price_of_the_model_in_force_counts() -> None:
    cheap = replace(MODEL, name="cheap", price=Price(1, 1, 1, 1, 1))
    config = replace(CONFIG, fallbacks=(cheap,))
    failed = CallFailed(failure(Trouble.OVERLOADED), usage=Usage(input=10))
    play = Play([failed, reply("done")], config=config)
    assert play.result.cost == 10 * 1_000 + 110


def test_an_interrupted_call_is_booked_by_estimate_and_leaves_the_balance() -> None:
    abort = Aborted(AbortReason.HARD, usage=Usage(output=2))
    play = Play([abort], contexts=[ContextReady(100, funds=10**9)])
    assert (play.result.cost, play.state.funds) == (10_000, 10**9)


def test_a_reply_reports_the_balance_and_the_size_of_the_context() -> None:
    play = Play([Replied(reply("done"), funds=5)], contexts=[ContextReady(100, funds=10**9)])
    assert (play.state.funds, play.state.tokens) == (5, 110)
    silent = replace(reply("done"), usage=Usage())
    assert Play([silent], contexts=[123]).state.tokens == 123  # a server that reports no usage


# --- the accounts of a tree -------------------------------------------------------------------------


@pytest.mark.covers("H-09")
def test_a_child_draws_on_what_its_parents_have_left() -> None:
    root, child, grandchild = Account(100), Account(None), Account(30)
    assert funds((grandchild, child, root)) == 30
    assert funds((child, root)) == 100
    assert funds((Account(), Account())) is None
    assert funds(()) is None
    assert Account(100, spent=60, reserved=30).left == 10


def test_a_reservation_stands_in_every_account_or_in_none() -> None:
    line: Lineage = (Account(30), Account(100))
    held = reserve(line, 30)
    assert held == (Account(30, 0, 30), Account(100, 0, 30))
    assert reserve(held, 1) is None
    assert settle(held, 30, 12) == (Account(30, 12, 0), Account(100, 12, 0))
    assert reserve((Account(),), 10**15) == (Account(None, 0, 10**15),)


@given(
    limit=st.integers(0, 1_000),
    limits=st.lists(st.none() | st.integers(0, 1_000), min_size=3, max_size=3),
    moves=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400), st.integers(0, 100)), max_size=40),
)
def test_a_tree_never_spends_more_than_its_limit(
    limit: int, limits: list[int | None], moves: list[tuple[int, int, int]]
) -> None:
    """A parent and three children reserve and settle in any order; a call never costs more than it reserved."""
    root = Account(limit)
    children = [Account(own) for own in limits]
    held: list[tuple[int, int]] = []
    spent = 0
    for who, amount, share in moves:
        if held and amount % 2:
            payer, reserved = held.pop()
            real = reserved * share // 100
            spent += real
            line = settle(lineage(payer, children, root), reserved, real)
        else:
            payer = who
            booked = reserve(lineage(payer, children, root), amount)
            if booked is None:
                continue
            held.append((payer, amount))
            line = booked
        root = line[-1]
        if payer < 3:
            children[payer] = line[0]
        assert root.spent == spent
        assert root.reserved == sum(reserved for _, reserved in held)
        assert root.spent + root.reserved <= limit
        for child in children:
            assert child.left is None or child.left >= 0


def lineage(who: int, children: list[Account], root: Account) -> Lineage:
    return (children[who], root) if who < 3 else (root,)
