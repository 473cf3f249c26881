"""Prefix breaks are priced when a reply begins, by the server's own figures."""

from __future__ import annotations

from mainspring.core.config import Config
from mainspring.core.messages import Text, User
from mainspring.core.money import CACHE_LIFETIME, Price, Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import PrefixBroken, ReplyStarted, RequestStarted, Update
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import PrefixMeter
from mainspring.providers.base import PrefixBreak
from mainspring.testing import Break, World, says, virtually

PRICE = Price(cache_write=125, cache_read=10)
TOOLS = PrefixBreak(2, "tool 2", "the set of tools changed", 7, 70, "tools_changed")
EDIT = PrefixBreak(9, "block 6 of the messages", "the context was edited", 8, 80, "context_edited")


def test_it_is_priced_by_what_the_server_read() -> None:
    meter = PrefixMeter()
    assert meter.read(Usage(cache_write=1_000), PRICE, at=0) == []
    meter.edited("snip")
    meter.found(EDIT)
    [broken] = meter.read(Usage(cache_write=900, cache_read=200), PRICE, at=1)
    assert broken == PrefixBroken(9, EDIT.what, EDIT.why, 800, 800 * 115, "context_edited", ("snip",))
    assert meter.read(Usage(cache_write=10, cache_read=1_100), PRICE, at=2) == []


def test_a_layer_that_broke_no_prefix_is_not_named_later() -> None:
    meter = PrefixMeter()
    meter.edited("tool_results")
    meter.read(Usage(cache_write=1_000), PRICE, at=0)
    meter.found(EDIT)
    [broken] = meter.read(Usage(cache_write=1_000), PRICE, at=1)
    assert broken.layers == ()


def test_of_two_breaks_the_first_block_bears_the_price() -> None:
    meter = PrefixMeter()
    meter.read(Usage(cache_write=1_000), PRICE, at=0)
    meter.found(EDIT)
    meter.found(TOOLS)
    paid = [(broken.reason, broken.price) for broken in meter.read(Usage(cache_write=1_000), PRICE, at=1)]
    assert paid == [("context_edited", 0), ("tools_changed", 1_000 * 115)]


def test_a_cache_that_had_expired_was_not_lost_by_the_break() -> None:
    meter = PrefixMeter()
    meter.read(Usage(cache_write=1_000), PRICE, at=0)
    meter.found(TOOLS)
    [broken] = meter.read(Usage(cache_write=1_000), PRICE, at=CACHE_LIFETIME + 1)
    assert (broken.tokens, broken.price) == (0, 0)


def test_without_figures_the_estimate_stands_and_says_so() -> None:
    meter = PrefixMeter()
    meter.found(TOOLS)
    [broken] = meter.read(Usage(), PRICE, at=0)
    assert (broken.tokens, broken.price, broken.estimated) == (7, 70, True)
    meter.read(Usage(cache_write=1_000), PRICE, at=0)
    meter.found(TOOLS)
    [broken] = meter.read(Usage(input=1_000, estimated=True), PRICE, at=1)
    assert (broken.tokens, broken.estimated) == (7, True)


def test_a_break_before_a_reply_that_never_began_is_paid_for_by_the_next() -> None:
    """The server has cached nothing of it."""
    down = Break(Failure(Trouble.NETWORK, "down"))
    world = World([says("One."), says(TOOLS, down), says("Two.")])

    async def main() -> list[Update]:
        seen: list[Update] = []
        session = EngineSession(world, Config())
        for prompt in ("a", "b", "c"):
            async with session.run((User((Text(prompt),), id=world.new_id()),)) as run:
                seen += [update async for update in run]
        return seen

    seen = virtually(main())
    kept = [type(update) for update in seen if isinstance(update, RequestStarted | ReplyStarted | PrefixBroken)]
    assert kept.count(PrefixBroken) == 1
    assert kept.index(PrefixBroken) > max(at for at, kind in enumerate(kept) if kind is RequestStarted)
