"""Hunks say what changed: applied to the old text, they give the new one."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from mainspring.tools import patch
from mainspring.tools.patch import ChangedRange
from tools.patching import applied

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "d d"]), max_size=25).map("\n".join)


@given(TEXTS, TEXTS)
def test_a_patch_leads_from_one_text_to_the_other(old: str, new: str) -> None:
    before, after = patch.lines_of(old), patch.lines_of(new)
    assert applied(old, patch.make_hunks(before, after, patch.ranges_between(before, after))) == new


@given(TEXTS)
def test_the_same_text_has_no_hunks(text: str) -> None:
    lines = patch.lines_of(text)
    assert patch.ranges_between(lines, lines) == []


def test_a_patch_is_as_short_as_can_be() -> None:
    old = [f"{number}\n" for number in range(20)]
    new = [*old[:3], "x\n", *old[4:12], *old[13:], "end\n"]
    assert patch.ranges_between(old, new) == [
        ChangedRange(3, 4, 3, 4),
        ChangedRange(12, 13, 12, 12),
        ChangedRange(20, 20, 19, 20),
    ]


def test_the_form() -> None:
    old, new = patch.lines_of("1\n2\n3\n4\n5\n6\n7"), patch.lines_of("1\n2\n3\n4\nfive\n6\n7\n")
    hunks = patch.make_hunks(old, new, patch.ranges_between(old, new))
    assert hunks == [
        {
            "oldStart": 2,
            "oldLines": 6,
            "newStart": 2,
            "newLines": 6,
            "lines": [" 2", " 3", " 4", "-5", "+five", " 6", "-7", patch.NO_NEWLINE, "+7"],
        }
    ]
    assert patch.count_changes(hunks) == (2, 2)
    assert patch.format_patch(hunks, "f", 5) == "--- f\n+++ f\n@@ -2,6 +2,6 @@\n 2\n 3\n[7 more lines]\n"


def test_texts_with_nothing_in_common_take_no_time() -> None:
    old = [f"old {number}\n" for number in range(20_000)]
    new = [f"new {number}\n" for number in range(20_000)]
    start = time.process_time()
    assert patch.ranges_between(old, new) == [ChangedRange(0, 20_000, 0, 20_000)]
    assert time.process_time() - start < 2  # 0.05 here; the search by steps alone would take hours
