"""Long replies in small pieces: what is read again with every piece takes the square of the time, and blocks the loop.

Four times as many pieces may take some four times as long. Figures are the least of three in one run; a square would be
sixteen times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mainspring.providers.openai.blocks import ExpectedReply
from mainspring.providers.openai.chat_stream import ChatStreamReader
from mainspring.providers.text_tool_calls import JsonBalance, TextToolCallReader, is_whole
from providers.hostile import called, piece, said

FEW, MANY, MOST_TIMES = 2_000, 8_000, 9

Chunk = dict[str, Any]
HEADS: dict[str, tuple[Chunk, Chunk]] = {  # how the reply begins, and what follows again and again
    "a call": (called(piece('{"a":"', "Read", index=0, id="c")), called(piece("abcd", index=0))),
    "a call, its name with each piece": (
        called(piece('{"a":"', "Read", index=0, id="c")),
        called(piece("abc}", "Read", index=0, id="c")),
    ),
    "a call in the text": (said(content="<tool_call>"), said(content="abcd")),
    "a call in a fence": (said(content='```json\n{"name": "'), said(content="abcd")),
    "a fence of blanks": (said(content="```json\n"), said(content="    ")),
    "a call for an answer": (said(content='{"name": "'), said(content="abcd")),
    "thoughts in the text": (said(content="<think>"), said(content="a<b ")),
}


def taken(name: str, pieces: int) -> float:
    first, then = HEADS[name]
    begin, more = msgspec.json.encode(first), msgspec.json.encode(then)

    def once() -> float:
        reply = ChatStreamReader(ExpectedReply(written=TextToolCallReader({"Read": {"type": "object"}})))
        begun = time.process_time()
        reply.take([("", begin)])
        for _ in range(pieces):
            reply.take([("", more)])
        return time.process_time() - begun

    return least(once)


def least(once: Callable[[], float]) -> float:
    return min(once() for _ in range(3))


@pytest.mark.parametrize("name", HEADS)
def test_the_time_grows_with_the_reply_and_not_with_its_square(name: str) -> None:
    few, many = taken(name, FEW), taken(name, MANY)
    assert many < MOST_TIMES * few, f"{many / few:.1f} times as long for four times as much"


@pytest.mark.parametrize(
    "written",
    ['{"a":1}', '{"a":"}\\"{["}', '[{"a":"\\\\"}]', '"{\\"a\\":1}"', '{"a":"b', '{"a":[1}', "", "  ", '{"a":"\\'],
)
def test_what_is_whole_is_balanced_wherever_it_is_cut(written: str) -> None:
    """And it is not called balanced before: else it would be read again and again."""
    for at in range(len(written) + 1):
        balance = JsonBalance()
        balance.feed(written[:at])
        balance.feed(written[at:])
        assert balance.is_even or not is_whole(written)
    early = JsonBalance()
    early.feed(written[:-1])
    assert not (early.is_even and is_whole(written))
