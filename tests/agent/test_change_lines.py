"""Changed files in lines for people."""

from __future__ import annotations

import time

import pytest

from mainspring.agent.change_lines import (
    StyledLine,
    describe_change,
    describe_point,
    describe_totals,
    format_clock,
    format_diff,
    format_rewind,
    shorten_change_path,
)
from mainspring.agent.slash.lines import TextStyle
from mainspring.checkpoints.entries import (
    FileChange,
    FileCheckpoint,
    FileDiff,
    GitHead,
    HeadMove,
    LeftOut,
    RewindReport,
)

ROOT = "/home/me/work"
POINT = FileCheckpoint("checkpoint:1", "p", "fix it", int(time.time() * 1_000))
EDIT = FileChange(f"{ROOT}/src/a.py", "changed", 3, 1)
NEW = FileChange(f"{ROOT}/b.txt", "created", 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (EDIT, "+3 -1"),
        (NEW, "created, +2 -0"),
        (FileChange("/x", "deleted", 0, 9), "deleted, +0 -9"),
        (FileChange("/x", "changed", binary=True), "binary"),
        (FileChange("/x", "created", binary=True), "created, binary"),
        (FileChange("/x", "mode"), "permissions"),
        (FileChange("/x", "changed", 1, mode=True), "+1 -0, permissions"),
        (FileChange("/x", "type", 1, 1), "another type, +1 -1"),
        (FileChange("/x", "created", folder=True), "folder created"),
        (FileChange("/x", "changed"), "changed"),
    ],
)
def test_a_change_in_words(change: FileChange, words: str) -> None:
    assert describe_change(change) == words


def test_totals_are_of_all_files() -> None:
    assert describe_totals([]) == "no files"
    assert describe_totals([EDIT]) == "1 file, +3 -1"
    assert describe_totals([EDIT, NEW]) == "2 files, +5 -1"
    assert describe_totals([FileChange("/x", "mode")]) == "1 file"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (f"{ROOT}/a/b", "a/b"),
        ("/elsewhere/b", "/elsewhere/b"),
        (f"{ROOT}2/b", f"{ROOT}2/b"),
        (f"{ROOT}/a\x1b[2J\nb", "a[2J b"),
    ],
)
def test_a_path_is_relative_to_the_working_directory(path: str, shown: str) -> None:
    assert shorten_change_path(path, ROOT) == shown


def test_a_point_is_a_prompt_or_an_earlier_rewind() -> None:
    assert describe_point(POINT) == "fix it"
    rewind = FileCheckpoint("checkpoint:2", at=POINT.at, cause="rewind")
    assert describe_point(rewind) == f"before the rewind at {format_clock(POINT.at)}"
    assert format_clock(0).startswith(("1969-12-31 ", "1970-01-01 ")), "another day has its date"


def test_a_rewind_says_what_it_restored_kept_and_left_out() -> None:
    report = RewindReport(
        POINT,
        files=(EDIT, NEW),
        kept=(FileChange(f"{ROOT}/notes.md", "changed", 1, 0, by_user=True),),
        failed=(FileChange("/etc/x", "changed", why="tools may not change it now"),),
        left_out=(LeftOut(f"{ROOT}/.git", "belongs to version control"), *[
            LeftOut(f"{ROOT}/out{number}", "ignored") for number in range(7)
        ]),
        heads=(HeadMove(GitHead(ROOT, "main", "a" * 40), GitHead(ROOT, "", "b" * 40)),),
    )  # fmt: skip
    assert [line.text for line in format_rewind(report, ROOT)] == [
        "Restored 2 files, +5 -1:",
        "  src/a.py  +3 -1",
        "  b.txt     created, +2 -0",
        "1 file was kept, because you changed it since:",
        "  notes.md  +1 -0",
        "1 file could not be restored:",
        "  /etc/x: tools may not change it now",
        "HEAD of the git repository moved since, from main (aaaaaaaa) to bbbbbbbb. A rewind does not touch .git.",
        "Left out (ignored): out0, out1, out2, out3, out4 and 2 more",
    ]


def test_a_dry_run_says_what_it_would_do() -> None:
    report = RewindReport(POINT, dry_run=True, files=(EDIT,))
    assert next(iter(format_rewind(report, ROOT))).text == "Would restore 1 file, +3 -1:"
    none = RewindReport(POINT)
    assert [line.text for line in format_rewind(none, ROOT)] == ["No files to restore: none has changed since."]


def test_a_diff_has_relative_names_and_a_style_per_line() -> None:
    text = f"--- {ROOT}/src/a.py\n+++ {ROOT}/src/a.py\n@@ -1,1 +1,1 @@\n-old\n+new\x1b[2J\n"
    assert list(format_diff(FileDiff(EDIT, text), ROOT)) == [
        StyledLine("--- a/src/a.py", TextStyle.BOLD),
        StyledLine("+++ b/src/a.py", TextStyle.BOLD),
        StyledLine("@@ -1,1 +1,1 @@", TextStyle.CYAN),
        StyledLine("-old", TextStyle.RED),
        StyledLine("+new[2J", TextStyle.GREEN),
    ]
    assert next(iter(format_diff(FileDiff(NEW, text), ROOT))).text == "--- /dev/null"
    binary = FileDiff(FileChange(f"{ROOT}/x.png", "changed", binary=True))
    assert list(format_diff(binary, ROOT)) == [StyledLine("x.png: binary", TextStyle.BOLD)]
