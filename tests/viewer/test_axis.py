"""The turns as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.providers.base import PrefixBreak
from mainspring.testing import Break, Pause, call, says
from mainspring.viewer.text_view import render_axis
from viewer.stage import ID, USAGE, Slow, looked, story, write


def test_a_turn_is_a_line_on_a_common_scale(tmp_path: Path) -> None:
    replies = [
        says("Look.", Pause(2_000), call("Bash", "b", ms=6_000), usage=USAGE),
        says(Pause(1_000), call("Edit", "e", ask="May I?")),
        says("Done.", Pause(500)),
    ]
    world = Slow(replies, takes=40, answers=["yes"])
    text = list(render_axis(looked(write(tmp_path / f"{ID}.jsonl", world, "Mend it")), 76))
    assert text == [
        "1 run, 3 turns, 11.66s, $0.0118",
        "model 3.50s, tools 6.00s, 0% while the model was streaming, person 2.00s",
        "20,700 tokens in (87% from the cache), 440 out",
        "= model   # tool   - context, hooks   . retry, queue   ? waiting for you",
        "",
        "❯ Mend it",
        "   1     0.00s    8.04s =====############### $0.0111   Bash: Look.",
        "   2     8.04s    3.04s ==??????             $0.0004   Edit",
        "   3    11.08s    0.58s =-                   $0.0004   Done.",
        "     completed, end_turn after 11.66s, $0.0118",
    ]


@pytest.mark.parametrize("width", [40, 53, 80, 120, 300])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    text = list(render_axis(looked(story(tmp_path)), width))
    assert max(cell_len(line) for line in text) <= width
    assert all(line.isprintable() for line in text)


def test_a_file_without_turns_has_none(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    file.write_bytes(b"{}\n")
    assert [line for line in render_axis(looked(file), 80) if line.startswith("❯")] == []


def test_a_recovery_and_a_prefix_break_are_explained_below_their_turn(tmp_path: Path) -> None:
    broken = PrefixBreak(3, "tool 3", "the set of tools changed", 12_000, 24_000_000, "tools_changed")
    cut = Break(Failure(Trouble.NETWORK, "gone"))
    replies = [
        says("Look.", call("Bash", "b"), usage=USAGE),
        says("Half of", cut, usage=USAGE),
        says(broken, "Done.", usage=Usage(cache_write=20_000)),  # 18,500 tokens were cached
    ]
    text = list(render_axis(looked(write(tmp_path / f"{ID}.jsonl", Slow(replies), "Mend it")), 200))
    assert text[3] == "1 prefix break, $0.0444 of the price"
    below = [line.strip() for line in text if "continue reason" in line or "at block" in line]
    assert below == [
        "continue reason: stream_retry",
        "prefix break at block 3 (tool 3): the set of tools changed; 18,500 tokens, $0.0444",
    ]
