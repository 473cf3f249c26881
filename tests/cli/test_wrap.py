"""Words wrap while they arrive, however they are cut into pieces."""

from __future__ import annotations

import pytest

from mainspring.cli.output import LineWrap


def wrapped(text: str, size: int, width: int = 10) -> str:
    wrap = LineWrap(width)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return "".join([*map(wrap.add, pieces), wrap.end()])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("one", "one\n"),
        ("one two three four", "one two\nthree four\n"),  # the second line is exactly full
        ("one two\nthree\n", "one two\nthree\n"),
        ("one\n\n  two", "one\n\n  two\n"),
        ("nine char ", "nine char\n"),
        ("ninechars      on", "ninechars\non\n"),
        ("tenletters tenletters", "tenletters\ntenletters\n"),
        ("a word_that_is_too_long for it", "a\nword_that_\nis_too_lon\ng for it\n"),
    ],
)
def test_the_pieces_make_no_difference(text: str, shown: str, size: int) -> None:
    assert wrapped(text, size) == shown


def test_a_word_is_shown_when_it_is_complete() -> None:
    wrap = LineWrap(10)
    assert [wrap.add("on"), wrap.add("e tw"), wrap.add("o "), wrap.add("thr"), wrap.end()] == [
        "",
        "one",
        " two",
        "",
        "\nthr\n",
    ]


def test_it_begins_anew_after_the_end() -> None:
    wrap = LineWrap(10)
    first = wrap.add("one two ") + wrap.end()
    assert (first, wrap.add("three four ") + wrap.end()) == ("one two\n", "three four\n")
