"""Prompt caching against the worked examples of the documentation, and its rules one by one. The clock is ours."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.core.models import model_named
from mainspring.core.money import Usage, cost
from mainspring.simulator.cache import LOOK_BACK, MINUTE, PromptCache
from simulator.bodies import Json, ask, assistant, call, image, mark, result, text, tool, user

OPUS = "claude-opus-5"  # its minimum is 512 tokens


def tokens(block: Any) -> int:
    """A block says by itself how long it is: `1000 tokens of ...`."""
    words = str(block.get("text") or block.get("description") or block.get("content") or "")
    return int(words.split(" tokens", maxsplit=1)[0]) if " tokens" in words else 0


class Meter:
    """One cache, and requests to it, a minute apart unless said otherwise."""

    def __init__(self) -> None:
        self.cache = PromptCache(tokens)
        self.now = 0

    def ask(self, body: Json, later: int = MINUTE) -> Usage:
        self.now += later
        metered = self.cache.look(body, self.now)
        self.cache.keep(metered, self.now)
        return metered.usage


def words(count: int, about: str = "text", **more: Any) -> Json:
    return text(f"{count} tokens of {about}", **more)


def row(blocks: int, *marked: int, each: int = 100) -> Json:
    """A conversation of so many blocks, numbered from 1, with marks on some."""
    content = [
        words(each, f"block {number}", **(mark() if number in marked else {})) for number in range(1, blocks + 1)
    ]
    return ask(user(*content), model=OPUS)


# --- the documentation's own examples -------------------------------------------------------------------


def test_the_book_is_written_once_and_read_from_then_on() -> None:
    """The first example of the page: 188,086 tokens of a novel in the system text, 21 that are new each time."""
    meter = Meter()

    def question(about: str) -> Json:
        system = [words(188_086, "Pride and Prejudice", **mark())]
        return ask(user(words(21, about)), system=system, model=OPUS)

    assert meter.ask(question("themes")) == Usage(input=21, cache_write=188_086)
    assert meter.ask(question("characters")) == Usage(input=21, cache_read=188_086)


def test_twenty_blocks_are_looked_back_over() -> None:
    """The example of the three turns: 10 blocks, then 15, then 35, each marked at its end."""
    meter = Meter()
    assert meter.ask(row(10, 10)) == Usage(cache_write=1_000)
    assert meter.ask(row(15, 15)) == Usage(cache_write=500, cache_read=1_000)
    # Blocks 35 down to 16 are looked at; the entry at 15 is one too far.
    assert meter.ask(row(35, 35)) == Usage(cache_write=3_500)


def test_a_second_mark_brings_the_old_entry_into_reach() -> None:
    meter = Meter()
    meter.ask(row(10, 10))
    meter.ask(row(15, 15))
    assert meter.ask(row(35, 15, 35)) == Usage(cache_write=2_000, cache_read=1_500)


@pytest.mark.parametrize(
    ("hit", "hour", "short", "expected"),
    [
        (0, 2_000, 3_000, Usage(input=500, cache_write=1_000, cache_write_1h=2_000)),
        (1_000, 2_000, 3_000, Usage(input=500, cache_write=1_000, cache_write_1h=1_000, cache_read=1_000)),
        (2_000, 2_000, 3_000, Usage(input=500, cache_write=1_000, cache_read=2_000)),
        (3_000, 2_000, 3_000, Usage(input=500, cache_read=3_000)),
    ],
)
def test_three_places_decide_the_bill(hit: int, hour: int, short: int, expected: Usage) -> None:
    """Up to A it is read, from A to B written for an hour, from B to C for five minutes; the rest is plain."""
    meter = Meter()

    def request(*marks: tuple[int, str]) -> Json:
        lifetimes = dict(marks)
        ends = [1_000, 2_000, 3_000]
        parts = [words(1_000, f"part {end}", **(mark(lifetimes[end]) if end in lifetimes else {})) for end in ends]
        return ask(user(*parts, words(500, "the end")), model=OPUS)

    if hit:
        meter.ask(request((hit, "1h")))
    assert meter.ask(request((hour, "1h"), (short, "5m"))) == expected


# --- rule by rule ---------------------------------------------------------------------------------------


def test_the_order_is_tools_then_system_then_messages() -> None:
    meter = Meter()

    def request(last: str, system: str = "system", described: str = "1000 tokens of tool") -> Json:
        given = [tool(description=described, **mark())]
        return ask(
            user(words(1_000, "history", **mark()), words(10, last)),
            tools=given,
            system=[words(1_000, system, **mark())],
            model=OPUS,
        )

    assert meter.ask(request("a")) == Usage(input=10, cache_write=3_000)
    assert meter.ask(request("b")) == Usage(input=10, cache_read=3_000)
    # Another system text spares the tools, another tool spares nothing.
    assert meter.ask(request("c", system="another")) == Usage(input=10, cache_write=2_000, cache_read=1_000)
    assert meter.ask(request("d", described="1000 tokens of another")) == Usage(input=10, cache_write=3_000)


@pytest.mark.parametrize("setting", [{"tool_choice": {"type": "none"}}, {"thinking": {"type": "adaptive"}}])
def test_another_setting_spares_tools_and_system(setting: Json) -> None:
    meter = Meter()

    def request(**more: Any) -> Json:
        system = [words(1_000, "system", **mark())]
        return ask(user(words(1_000, "history", **mark())), system=system, model=OPUS, **more)

    meter.ask(request())
    assert meter.ask(request(**setting)) == Usage(cache_write=1_000, cache_read=1_000)


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("claude-opus-5", 512),
        ("claude-sonnet-5", 1_024),
        ("claude-haiku-4-5", 4_096),
        ("claude-haiku-4-5-20251001", 4_096),
    ],
)
def test_a_short_prefix_is_not_cached(model: str, least: int) -> None:
    def twice(size: int) -> list[Usage]:
        meter = Meter()
        return [meter.ask(ask(user(words(size, **mark())), model=model)) for _ in range(2)]

    assert twice(least - 1) == [Usage(input=least - 1)] * 2
    assert twice(least) == [Usage(cache_write=least), Usage(cache_read=least)]


def test_an_entry_lives_as_long_as_it_is_used() -> None:
    meter = Meter()
    meter.ask(row(10, 10))
    for _ in range(3):
        assert meter.ask(row(10, 10), later=4 * MINUTE).cache_read == 1_000  # each time for five minutes more
    assert meter.ask(row(10, 10), later=5 * MINUTE) == Usage(cache_write=1_000)


def test_an_hour_is_an_hour() -> None:
    meter = Meter()
    body = ask(user(words(1_000, **mark("1h"))), model=OPUS)
    assert meter.ask(body) == Usage(cache_write_1h=1_000)
    assert meter.ask(body, later=59 * MINUTE) == Usage(cache_read=1_000)
    assert meter.ask(body, later=60 * MINUTE) == Usage(cache_write_1h=1_000)


def test_each_model_has_a_cache_of_its_own() -> None:
    meter = Meter()
    meter.ask(row(10, 10))
    assert meter.ask({**row(10, 10), "model": "claude-fable-5"}) == Usage(cache_write=1_000)
    assert meter.ask({**row(10, 10), "model": f"{OPUS}-20260401"}) == Usage(cache_read=1_000)


def test_what_is_not_marked_is_not_written() -> None:
    meter = Meter()
    assert [meter.ask(row(10)) for _ in range(2)] == [Usage(input=1_000)] * 2


def test_moving_a_mark_changes_nothing_that_is_compared() -> None:
    meter = Meter()
    meter.ask(row(10, 10))
    assert meter.ask(row(12, 12)) == Usage(cache_write=200, cache_read=1_000)
    assert meter.ask(row(12, 10)) == Usage(input=200, cache_read=1_000)


def test_the_automatic_mark_goes_to_the_last_block() -> None:
    meter = Meter()
    assert meter.ask({**row(10), **mark()}) == Usage(cache_write=1_000)
    assert meter.ask({**row(11), **mark()}) == Usage(cache_write=100, cache_read=1_000)


def test_a_mark_inside_a_result_ends_with_the_result() -> None:
    meter = Meter()
    inside = result(content=[words(1_000, **mark())])
    body = ask(
        user(words(1_000, "prompt")), assistant(call()), user({**inside, "content": inside["content"]}), model=OPUS
    )
    meter.cache = PromptCache(lambda block: 1_000)
    assert meter.ask(body) == Usage(cache_write=3_000)
    assert meter.ask(body) == Usage(cache_read=3_000)


def test_nothing_is_written_before_an_answer_begins() -> None:
    cache = PromptCache(tokens)
    first = cache.look(row(10, 10), 0)
    assert cache.look(row(10, 10), 1).usage == Usage(cache_write=1_000), "the first answer has not begun"
    cache.keep(first, 2)
    assert cache.look(row(10, 10), 3).usage == Usage(cache_read=1_000)


def test_the_mark_that_is_missing() -> None:
    """Ten parallel calls are twenty blocks and more. With a mark only at the end of each request the whole history is
    written anew; a second one where the last request ended keeps it (measured in Claude Code: 327k against 123k)."""

    def session(*, second: bool) -> Usage:
        meter, messages, spent = Meter(), [user(words(20_000, "prompt"))], Usage()
        for turn in range(6):
            body: list[Json] = [*messages]
            marked = [len(body) - 1, *([len(body) - 3] if second and turn else [])]
            for place in marked:
                last = {**body[place]["content"][-1], **mark()}
                body[place] = {**body[place], "content": [*body[place]["content"][:-1], last]}
            spent += meter.ask(ask(*body, model=OPUS))
            ids = [f"toolu_{turn}_{number}" for number in range(10)]
            results = [result(id, f"300 tokens of result {id}") for id in ids]
            messages += [assistant(*[call(id) for id in ids]), user(*results)]
        return spent

    alone, both = session(second=False), session(second=True)
    assert alone.cache_read == 0
    assert both.cache_write == 20_000 + 5 * 3_000
    assert both.cache_read == sum(20_000 + turn * 3_000 for turn in range(5))
    assert LOOK_BACK == 20
    price = model_named(OPUS).price
    assert cost(both, price) * 3 < cost(alone, price)


def test_tokens_are_a_quarter_of_the_bytes_and_media_a_lump() -> None:
    cache = PromptCache()
    plain = cache.look(ask(user("x" * 4_000)), 0).usage.input
    assert 1_000 < plain < 1_020
    with_image = cache.look(ask(user(text("x" * 4_000), image())), 0).usage.input
    assert with_image - plain == 1_600
    in_result = cache.look(ask(user("x"), assistant(call()), user(result(content=[image()]))), 0).usage.input
    assert in_result > 1_600
