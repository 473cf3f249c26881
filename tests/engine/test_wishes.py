"""What a prompt asks of the loop itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.agent.prompt_expansion import parse_compact_command, parse_token_budget


@pytest.mark.covers("H-01")
@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("+500k mend the tests", 500_000),
        ("mend the tests +2M", 2_000_000),
        ("mend the tests, please: +1.5m.", 1_500_000),
        ("mend the tests\n\n+500k\n", 500_000),
        ("```\na = b\n```\nmend it +500k", 500_000),
        ("what does this do?\n```\nx = y +500k", None),  # in code
        ("~~~ sh\necho +500k", None),
        ("apply this:\n@@ -1 +1 @@\n-400k\n+500k", None),  # in a diff
        ("what is `+500k`", None),
        ("what is '+500k'", None),
        ("it says a+500k", None),
        ("+1.5m", 1_500_000),
        ("  +500K\nmend the tests", 500_000),
        ("+0k", None),
        ("+9999999m go", 1_000_000_000),
        ("500k", None),
        ("what is +500 k?", None),
        ("what is 2 +500k of these?", None),
        ("+k", None),
        ("+1.2.3k", None),
        ("+", None),
        ("", None),
        ("C++", None),
        ("+٣k", None),
    ],
)
def test_a_token_budget(prompt: str, tokens: int | None) -> None:
    assert parse_token_budget(prompt) == tokens


@pytest.mark.covers("D-36")
@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("/compact", ""),
        ("  /compact  ", ""),
        ("/compact keep the numbers ", "keep the numbers"),
        ("/compacted", None),
        ("please /compact", None),
        ("", None),
    ],
)
def test_a_compaction(prompt: str, words: str | None) -> None:
    assert parse_compact_command(prompt) == words


@given(st.text())
def test_any_text_is_taken(prompt: str) -> None:
    parse_compact_command(prompt)
    parse_token_budget(prompt)
