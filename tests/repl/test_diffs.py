"""Changes, made and proposed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.repl.diffs import MOST_PROPOSED, made, proposed
from mainspring.tools import patch


def diff_of(old: str, new: str) -> str:
    a, b = patch.lines_of(old), patch.lines_of(new)
    return patch.diff(patch.hunks(a, b, patch.ranges_between(a, b)), "name", 400)


def test_lines_have_their_numbers_and_signs() -> None:
    old = "".join([f"line {at}\n" for at in range(1, 31)])
    new = old.replace("line 2\n", "two\n").replace("line 29\n", "")
    assert [line.plain for line in made(diff_of(old, new), 99)(40)] == [
        " 1   line 1", " 2 - line 2", " 2 + two", " 3   line 3", " 4   line 4", " 5   line 5",
        "   … ",
        "26   line 26", "27   line 27", "28   line 28", "29 - line 29", "29   line 30",
    ]  # fmt: skip


def test_a_long_change_is_cut_and_says_so() -> None:
    lines = made(diff_of("", "x\n" * 32))(40)
    assert len(lines) == 21
    assert lines[-1].plain == "… +12 lines (ctrl+o)"


def test_a_file_that_is_emptied_and_one_without_a_last_newline() -> None:
    assert [line.plain for line in made(diff_of("a\nb", ""))(40)] == ["1 - a", "2 - b", "    No newline at end of file"]


def test_a_long_line_is_folded_below_itself() -> None:
    assert [line.plain for line in made(diff_of("", "日本語 abc\tdef\x1b[0m\n"))(14)] == [
        "1 + 日本語 ",
        "    abc def[0m",
    ]


@given(st.text(alphabet="ab\n日\t", max_size=60), st.text(alphabet="ab\n日\t", max_size=60), st.integers(15, 40))
def test_a_diff_fits_and_holds_the_lines_of_both(old: str, new: str, width: int) -> None:
    lines = made(diff_of(old, new), 99)(width)
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
    assert [line.plain for line in proposed(tool, given)] == lines


def test_a_proposal_is_not_endless() -> None:
    lines = proposed("Write", {"content": "x\n" * (MOST_PROPOSED + 600)})
    assert len(lines) == MOST_PROPOSED + 1
    assert lines[-1].plain == "… +600 lines"
