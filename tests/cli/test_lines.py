"""A line of JSON is always valid and never too long."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.stream_json.outgoing import MOST, cut_to_size, encode_line, json_size

texts = st.text(st.characters(exclude_categories=()), max_size=40)  # halves of characters, too
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(texts, inner, max_size=8), max_leaves=40
)


@given(values)
def test_whatever_it_is_the_line_is_valid(value: Any) -> None:
    made = encode_line(value)
    assert made.endswith(b"\n")
    assert made.count(b"\n") == 1
    json.loads(made)


@given(values, st.integers(300, 2_000))
def test_whatever_it_is_the_line_fits(value: Any, most: int) -> None:
    """Also if it is much too long: each value many times over."""
    long = {"session_id": "s" * 36, "values": [value] * 40, "text": "\x00\u20ac\ud800" * 300}
    made = encode_line(long, most)
    assert len(made) <= most + 1
    assert json.loads(made)["session_id"] == "s" * 36


def test_what_fits_is_left_alone() -> None:
    exactly = {"text": "x" * (MOST - len('{"text":""}'))}
    assert json.loads(encode_line(exactly)) == exactly
    assert len(encode_line(exactly)) == MOST + 1


@pytest.mark.parametrize(
    "text",
    ["x" * 3_000_000, "\u20ac" * 3_000_000, "\x01" * 3_000_000, '"' * 3_000_000],
    ids=["x", "euro", "control", "quote"],
)
def test_a_long_text_is_cut_and_says_so(text: str) -> None:
    made = encode_line({"id": "abc", "content": [{"type": "text", "text": text}, {"n": 1}]})
    assert MOST * 0.95 < len(made) <= MOST + 1
    shown = json.loads(made)
    assert (shown["id"], shown["content"][1]) == ("abc", {"n": 1})
    assert shown["content"][0]["text"].endswith("... [3,000,000 characters, cut here]")


def test_two_long_texts_share_the_room() -> None:
    shown = json.loads(encode_line({"a": "x" * 2_000_000, "b": "y" * 2_000_000, "c": "z" * 1_000}))
    assert len(shown["a"]) == pytest.approx(len(shown["b"]), rel=0.01)
    assert len(shown["c"]) == 1_000


def test_of_far_too_many_the_first_are_kept() -> None:
    shown = json.loads(
        encode_line({"id": "abc", "list": list(range(1_000_000)), "dict": {str(n): n for n in range(100_000)}})
    )
    assert shown["id"] == "abc"
    assert shown["list"][:3] == [0, 1, 2]
    assert shown["dict"]["1"] == 1


def test_a_picture_is_left_out_whole() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 2_000_000}}
    [shown] = json.loads(encode_line({"content": [picture]}))["content"]
    assert shown == {"type": "text", "text": "[image left out: a line holds at most 1,048,576 bytes]"}


def test_half_a_character_does_not_stop_us() -> None:
    assert json.loads(encode_line({"a\ud800": ["\udfff", 1]})) == {"a?": ["?", 1]}


def test_the_size_is_that_of_the_json() -> None:
    assert json_size({"a": "\u20ac"}) == len('{"a":"\u20ac"}'.encode())
    assert cut_to_size("x" * 100, 1_000) == "x" * 100
