"""The rewind panel: which prompt, which files, and what to restore."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.agent.change_lines import describe_point
from mainspring.checkpoints.entries import FileChange, FileCheckpoint, GitHead, HeadMove, LeftOut, RewindReport
from mainspring.cli.tui.menu import MenuItem, MenuSelection
from mainspring.cli.tui.rewind_panel import NEVER, RewindMenu, make_rewind_dialog, make_rewind_picker
from tui.hands import Clock, Key, few, fits, heights, keys, marked, plain, press, read, widths, words

ANSWERS = (MenuItem("Both"), MenuItem("Conversation"), MenuItem("Code"), MenuItem("Never mind"))
FILES = (MenuItem("a.py", "+1 -0"), MenuItem("b.py", "deleted"))


# --- files above the answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "selection"),
    [
        (("enter",), (0,)),
        (("2",), (1,)),
        (("down", "enter"), (1,)),
        (("up", "enter", "up", "space", "down", "down", "down", "down", "enter"), (2, 0, 1)),
        (("up", "space", "space", "down", "enter"), (0,)),
        (("home", "space", "4"), (3, 0)),
    ],
)
def test_space_selects_files_and_numbers_answer(keys: tuple[str, ...], selection: tuple[int, ...]) -> None:
    menu = RewindMenu(FILES, ANSWERS)
    *before, last = keys
    for key in before:
        assert menu.press(*named(key)) is None
    assert menu.press(*named(last)) == MenuSelection(selection)


def named(key: str) -> tuple[str, str]:
    return ("text", key) if key.isdigit() else (key, " " if key == "space" else "")


def test_files_have_boxes_and_answers_have_numbers() -> None:
    menu = RewindMenu(FILES, ANSWERS)
    press(menu, "up", "space")
    assert plain(menu.draw(60, 10)) == [
        "  ☐ a.py  +1 -0",
        "❯ ☒ b.py  deleted",
        "  1. Both",
        "  2. Conversation",
        "  3. Code",
        "  4. Never mind",
    ]


def test_space_is_not_heard_at_an_answer() -> None:
    menu = RewindMenu(FILES, ANSWERS)
    assert not menu.hears("space", " ")
    assert not menu.hears("text", "x")
    assert not menu.hears("text", "5")
    assert menu.hears("text", "4")
    press(menu, "up")
    assert menu.hears("space", " ")


# --- which prompt ---------------------------------------------------------------------------------------------------

NOW = 1_000_000.0
ROOT = "/home/me/work"


def point(number: int, text: str, age: float, changed: int = 0) -> FileCheckpoint:
    return FileCheckpoint(f"checkpoint:{number}", f"p{number}", text, int((NOW - age) * 1_000), changed=changed)


REWIND = FileCheckpoint("checkpoint:7", at=int((NOW - 600) * 1_000), cause="rewind")
POINTS = [point(9, "fix the\x1b[2J\nparser", 30, 3), REWIND, point(1, "begin", 7_200)]


def test_prompts_and_rewinds_are_listed_with_age_and_changes() -> None:
    sheet = make_rewind_picker(POINTS, at=NOW, now=Clock())
    lines = read(sheet, Clock(), 90)
    assert lines[1:3] == ["Rewind", "  Restore the code and the conversation to the point before a prompt."]
    assert [" ".join(line.split()) for line in lines[5:8]] == [
        "❯ fix the[2J parser 30 seconds ago · 3 files changed",
        f"{describe_point(REWIND)} 10 minutes ago · undoes that rewind",
        "begin 2 hours ago · no files changed",
    ]


def test_a_point_is_chosen_by_its_words() -> None:
    clock = Clock()
    sheet = make_rewind_picker(POINTS, at=NOW, now=clock)
    read(sheet, clock)
    press(sheet, *"begin", "enter")
    assert sheet.said == "checkpoint:1"


# --- what to restore ------------------------------------------------------------------------------------------------

EDIT = FileChange(f"{ROOT}/src/a.py", "changed", 3, 1)
NEW = FileChange(f"{ROOT}/b.txt", "deleted", 0, 2)
MINE = FileChange(f"{ROOT}/my notes.md", "changed", 1, by_user=True)
REPORT = RewindReport(POINTS[0], dry_run=True, files=(EDIT, NEW), kept=(MINE,), conversation=True)


def test_the_page_shows_the_prompt_the_files_and_the_ways() -> None:
    sheet = make_rewind_dialog(REPORT, ROOT, at=NOW, now=Clock())
    assert read(sheet, Clock(), 80, 24) == [
        "─" * 80,
        "Rewind",
        "  To the point before this prompt:",
        "  │ fix the[2J",
        "  │ parser",
        "  │ 30 seconds ago",
        "  ",
        "  The conversation is forked; the full one stays under its own id.",
        "  The code changes back in 2 files, +3 -3:",
        "    src/a.py  +3 -1",
        "    b.txt     deleted, +0 -2",
        "",
        "You changed 1 file since. Kept, unless you select it:",
        "  ☐ my notes.md  +1 -0",
        "❯ 1. Restore code and conversation",
        "  2. Restore conversation only",
        "  3. Restore code only",
        "  4. Never mind",
        "",
        "space restore it, too · ↑↓ move · enter choose · esc back",
    ]


@pytest.mark.parametrize(
    ("pressed", "said"),
    [
        (("enter",), ""),
        (("2", "enter"), "--conversation"),
        (("3", "enter"), "--files"),
        (("4", "enter"), NEVER),
        (("up", "space", "down", "enter"), f"--include '{MINE.path}'"),
        (("up", "enter", "down", "down", "down", "enter"), f"--files --include '{MINE.path}'"),
        (("escape",), None),
        (("up", "space", "escape"), None),
    ],
)
def test_an_answer_is_an_argument_of_the_command(pressed: tuple[str, ...], said: str | None) -> None:
    clock = Clock()
    sheet = make_rewind_dialog(REPORT, ROOT, at=NOW, now=clock)
    for key in pressed:
        read(sheet, clock)
        press(sheet, key)
    assert (sheet.over, sheet.said) == (True, said)


def test_only_what_exists_is_offered() -> None:
    def offered(report: RewindReport) -> list[str]:
        lines = read(make_rewind_dialog(report, ROOT, at=NOW, now=Clock()), Clock(), 80)
        return [line[5:] for line in lines if line[2:3].isdigit() and line[3:5] == ". "]

    assert offered(RewindReport(POINTS[0], conversation=True)) == ["Restore conversation", "Never mind"]
    assert offered(RewindReport(REWIND, files=(EDIT,))) == ["Restore code", "Never mind"]


def test_what_cannot_be_restored_is_said() -> None:
    report = RewindReport(
        POINTS[0],
        failed=(FileChange(f"{ROOT}/.env", "changed", why="tools may not change it now"),),
        left_out=(LeftOut(f"{ROOT}/dist", "ignored"),),
        heads=(HeadMove(GitHead(ROOT, "main", "a" * 40), GitHead(ROOT, "main", "b" * 40)),),
        conversation=True,
    )
    text = " ".join(" ".join(read(make_rewind_dialog(report, ROOT, at=NOW, now=Clock()), Clock(), 80)).split())
    assert ".env cannot be restored: tools may not change it now" in text
    assert "HEAD of the git repository moved since, from main (aaaaaaaa) to main (bbbbbbbb)" in text
    assert "Left out (ignored): dist" in text


changes = st.builds(FileChange, words, st.sampled_from(["created", "deleted", "changed", "mode"]), st.integers(0, 99))
reports = st.builds(
    RewindReport,
    st.just(POINTS[0]),
    files=st.lists(changes, max_size=40).map(tuple),
    kept=st.lists(changes, max_size=8).map(tuple),
    conversation=st.booleans(),
)


@few
@given(reports, st.lists(keys, max_size=8), widths, heights)
def test_the_dialog_never_fails(report: RewindReport, pressed: list[Key], width: int, height: int) -> None:
    clock = Clock()
    sheet = make_rewind_dialog(report, ROOT, at=NOW, now=clock)
    for key in pressed:
        lines = sheet.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == 1
        clock.now += 1
        sheet.press(*key)
