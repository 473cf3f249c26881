"""The line that says what is being done."""

from __future__ import annotations

import pytest

from mainspring.cli.tui.status import THINKING, ProgressLine, format_thousands
from mainspring.text import format_elapsed


def test_it_says_what_how_long_how_much_and_the_way_out() -> None:
    live = ProgressLine(100.0)
    live.does(THINKING)
    live.reply_is_done(1_200)
    live.hears(80)
    assert live.line(112.4, 80).plain == "✻ Thinking… (12 s · ↓ 1.2k tokens · esc to interrupt)"
    live.reply_is_lost()
    assert live.line(112.4, 20).plain == "✻ Thinking… (esc to…"


def test_the_glyph_turns_with_the_time() -> None:
    live = ProgressLine(0.0)
    assert "".join([live.line(at / 10 + 0.05, 80).plain[0] for at in range(10)]) == "··**✻✻**··"


def test_a_wait_is_counted_down_until_something_else_is_done() -> None:
    live = ProgressLine(0.0)
    live.tries_again(4.0, "Overloaded: attempt 2")
    assert [live.line(at, 80).plain[2:].partition("…")[0] for at in (0.0, 0.9, 3.5, 9.0)] == [
        *[f"Overloaded: attempt 2, retrying in {left} s" for left in (4, 4, 1)], "Overloaded: attempt 2, retrying now",
    ]  # fmt: skip
    live.does("Writing")
    assert live.line(1.0, 80).plain.startswith("* Writing…")


def test_calls_that_run_are_told_in_the_place_of_all_else() -> None:
    assert ProgressLine(0.0).line(0.0, 80, "Running Bash").plain == "· Running Bash… (0 s · esc to interrupt)"


def test_esc_is_no_way_out_while_it_answers_a_question() -> None:
    assert ProgressLine(0.0).line(0.0, 80, "Waiting", asks=True).plain == "· Waiting… (0 s)"


@pytest.mark.parametrize(
    ("took", "words"), [(0.4, "0 s"), (59.9, "59 s"), (65, "1 min 5 s"), (3_600, "1 h 0 min"), (-1, "0 s")]
)
def test_times_are_told_in_words(took: float, words: str) -> None:
    assert format_elapsed(took) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0"), (999, "999"), (1_234, "1.2k"), (100_000, "100.0k")])
def test_many_tokens_are_told_in_thousands(number: int, words: str) -> None:
    assert format_thousands(number) == words


def test_a_narrow_line_keeps_the_way_out() -> None:
    live = ProgressLine(0.0)
    live.tries_again(15.0, "The rate limit is reached: attempt 2 of 10")
    assert live.line(0.0, 90).plain.endswith("retrying in 15 s… (0 s · esc to interrupt)")
    assert live.line(0.0, 84).plain.endswith("retrying in 15 s… (esc to interrupt)")
