"""Changes, made and proposed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.tui.diff_view import MOST_PROPOSED, render_change, render_new_file, render_proposed_change
from mainspring.cli.tui.layout import Painter
from mainspring.cli.tui.theme import ColourDepth
from mainspring.tools import patch


def diff_of(old: str, new: str) -> str:
    a, b = patch.lines_of(old), patch.lines_of(new)
    return patch.format_patch(patch.make_hunks(a, b, patch.ranges_between(a, b)), "name", 400)


def test_lines_have_their_numbers_and_signs() -> None:
    old = "".join([f"line {at}\n" for at in range(1, 31)])
    new = old.replace("line 2\n", "two\n").replace("line 29\n", "")
    assert [line.plain.rstrip() for line in render_change(diff_of(old, new), 40, 99).rows] == [
        " 1   line 1", " 2 - line 2", " 2 + two", " 3   line 3", " 4   line 4", " 5   line 5",
        "   …",
        "26   line 26", "27   line 27", "28   line 28", "29 - line 29", "29   line 30",
    ]  # fmt: skip


def test_a_long_change_is_cut_and_says_so() -> None:
    lines, cut = render_change(diff_of("", "x\n" * 32), 40)
    assert (len(lines), cut) == (21, True)
    assert lines[-1].plain == "… +12 lines (ctrl+o)"
    assert not render_change(diff_of("", "x\n" * 20), 40).cut


def test_a_change_of_endless_lines_is_cut_and_says_so() -> None:
    lines, cut = render_change(diff_of("", f"x\n{'y' * 9_000}\nz\n"), 40)
    assert (len(lines), cut) == (20 * 3 + 1, True)
    assert lines[-1].plain == "… +2 lines (ctrl+o)"


def test_without_colours_what_comes_goes_and_stays_look_different() -> None:
    raw = Painter(depth=ColourDepth.NONE).printed(render_change(diff_of("a\nb\n", "a\nc\n"), 40).rows, 40)
    assert [line.replace("\x1b[0m", "").rstrip() for line in raw.split("\r\n")[:3]] == [
        "\x1b[2m1 \x1b[2m  \x1b[2ma", "2 - b", "\x1b[1m2 \x1b[1m+ \x1b[1mc\x1b[1m",
    ]  # fmt: skip


def test_a_file_that_is_emptied_and_one_without_a_last_newline() -> None:
    assert [line.plain.rstrip() for line in render_change(diff_of("a\nb", ""), 40).rows] == [
        "1 - a",
        "2 - b",
        "    No newline at end of file",
    ]


def test_a_long_line_is_folded_below_itself() -> None:
    assert [line.plain.rstrip() for line in render_change(diff_of("", "日本語 abc\tdef\x1b[0m\n"), 14).rows] == [
        "1 + 日本語",
        "    abc def[0m",
    ]


@given(st.text(alphabet="ab\n日\t", max_size=60), st.text(alphabet="ab\n日\t", max_size=60), st.integers(15, 40))
def test_a_diff_fits_and_holds_the_lines_of_both(old: str, new: str, width: int) -> None:
    lines = render_change(diff_of(old, new), width, 99).rows
    assert all(line.cell_len <= width for line in lines)
    assert bool(lines) == (old != new)


@pytest.mark.parametrize(
    ("tool", "given", "lines"),
    [
        ("Edit", {"old_string": "a\nb\nc", "new_string": "a\nB\nc"}, ["  a", "- b", "+ B", "  c"]),
        ("Edit", {"old_string": "", "new_string": "x\x1b\n"}, ["+ x"]),
        ("Write", {"content": "one\ntwo\n"}, ["1 + one", "2 + two"]),
        ("NotebookEdit", {"new_source": "x = 1"}, ["+ x = 1"]),
        ("NotebookEdit", {"edit_mode": "delete", "cell_id": "c7"}, ["- cell 'c7'"]),
        ("Edit", {"old_string": 3}, []),
        ("Bash", {"command": "ls"}, []),
    ],
)
def test_what_would_change_is_proposed(tool: str, given: dict[str, Any], lines: list[str]) -> None:
    assert [line.plain.rstrip() for line in render_proposed_change(tool, given, 40)] == lines


def test_a_proposal_is_not_endless() -> None:
    lines = render_proposed_change("Write", {"content": "x\n" * (MOST_PROPOSED + 600)}, 40)
    assert len(lines) == MOST_PROPOSED + 1
    assert lines[-1].plain == "… +600 lines"


@given(st.text(alphabet="ab\n日\t", max_size=60), st.integers(20, 40), st.integers(1, 5))
def test_a_new_file_fits_and_begins_at_its_beginning(content: str, width: int, most: int) -> None:
    rows, cut = render_new_file(content, width, most)
    assert all(row.cell_len <= width for row in rows)
    assert len(rows) <= 3 * most + 1
    assert cut == bool(rows and rows[-1].plain.endswith("(ctrl+o)"))
