"""The panel of `/diff`."""

from __future__ import annotations

from mainspring.checkpoints.entries import FileChange, FileCheckpoint, FileDiff, PromptChanges
from mainspring.cli.tui.diff_panel import PRINT, make_diff_page, make_diff_picker
from tui.hands import Clock, fits, press, read

NOW = 1_000_000.0
ROOT = "/home/me/work"
EDIT = FileDiff(
    FileChange(f"{ROOT}/src/a.py", "changed", 1, 1),
    f"--- {ROOT}/src/a.py\n+++ {ROOT}/src/a.py\n@@ -7,2 +7,2 @@\n same\n-old\x1b[2J\n+new\n",
)
IMAGE = FileDiff(FileChange(f"{ROOT}/x.png", "created", binary=True))


def changes(number: int, text: str, *files: FileDiff) -> tuple[int, PromptChanges]:
    return number, PromptChanges(FileCheckpoint(f"c{number}", f"p{number}", text, int((NOW - 60) * 1_000)), files)


FOUND = [changes(1, "now the picture", IMAGE), changes(3, "fix it", EDIT, IMAGE)]


def test_prompts_are_listed_with_what_they_changed() -> None:
    clock = Clock()
    sheet = make_diff_picker(FOUND, at=NOW, now=clock)
    lines = [" ".join(line.split()) for line in read(sheet, clock)]
    assert lines[1] == "Changes of this session"
    assert "❯ now the picture 60 seconds ago · 1 file" in lines
    assert "fix it 60 seconds ago · 2 files, +1 -1" in lines
    press(sheet, "down", "enter")
    assert sheet.said == "3"


def test_a_page_has_the_numbered_diff_of_each_file() -> None:
    clock = Clock()
    sheet = make_diff_page(FOUND[1][1], ROOT, now=clock)
    fits(sheet.draw(40, 20), 40, 20)
    lines = [line.rstrip() for line in read(sheet, clock, 60, 24)]
    assert lines[1:9] == [
        "fix it",
        "  src/a.py  +1 -1",
        "  7   same",
        "  8 - old[2J",
        "  8 + new",
        "",
        "  x.png  created, binary",
        "",
    ]
    press(sheet, "enter")
    assert (sheet.over, sheet.said) == (True, None), "back to the list"


def test_it_can_be_printed() -> None:
    clock = Clock()
    sheet = make_diff_page(FOUND[0][1], ROOT, now=clock)
    read(sheet, clock)
    press(sheet, "down", "enter")
    assert sheet.said == PRINT
