"""How a number of things is said, and how much of a text fits on a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.text import character_columns, plural, truncate


def test_one_is_not_many() -> None:
    assert [plural(number, "turn") for number in (0, 1, 2, 1_000)] == ["0 turns", "1 turn", "2 turns", "1,000 turns"]


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "lo..."),
        ("漢字漢字", 8, "漢字漢字"),
        ("漢字漢字x", 8, "漢字..."),
        ("e\u0301" * 5, 5, "e\u0301" * 5),
        ("abcdef", 2, ".."),
        ("abcdef", 0, ""),
        ("", 0, ""),
    ],
)
def test_what_fits(text: str, width: int, shown: str) -> None:
    assert truncate(text, width) == shown


@given(st.text(), st.integers(0, 30))
def test_no_line_is_wider_than_it_may_be(text: str, width: int) -> None:
    shown = truncate(text, width)
    assert sum(map(character_columns, shown)) <= width
    assert shown == text or shown.endswith("..."[:width])
