"""Markdown as plain text: no mark that a screen reader would spell out, however the text is cut into pieces."""

from __future__ import annotations

import pytest

from mainspring.cli.plain_markdown import PlainMarkdown

CASES = [
    ("Plain text, 2 * 3 = 6 and a_b_c.\n", "Plain text, 2 * 3 = 6 and a_b_c.\n"),
    ("## The **plan**\n\nDo it.", "Heading: The plan\n\nDo it."),
    ("Use *this* and __that__, ~~not~~ `a * b`.\n", "Use this and that, not a * b.\n"),
    ("See [the docs](https://x.y/z) now\n", "See the docs (https://x.y/z) now\n"),
    ("![a cat](cat.png)\n", "Image: a cat\n"),
    ("- one **two**\n  1. three\n", "- one two\n  1. three\n"),
    ("> said\n", "Quote: said\n"),
    ("```python\nx = a**b\n# no heading\n```\nDone.", "Code (python):\nx = a**b\n# no heading\nEnd of code.\nDone."),
    ("| a | b |\n|---|:-:|\n| 1 | `2` |\n", "Row: a; b\nRow: 1; 2\n"),
    ("before\n\n---\n\nafter\n", "before\n\n\nafter\n"),
    ("an **unfinished", "an **unfinished"),
]


@pytest.mark.parametrize("size", [1, 3, 1_000])
@pytest.mark.parametrize(("text", "shown"), CASES)
def test_marks_become_words(text: str, shown: str, size: int) -> None:
    plain = PlainMarkdown()
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert "".join([*map(plain.add, pieces), plain.end()]) == shown


def test_text_without_marks_does_not_wait() -> None:
    plain = PlainMarkdown()
    assert plain.add("A reply that") == "A reply that"
    assert plain.add(" takes **its") == " takes "
    assert plain.add(" time**.\n") == "its time.\n"
