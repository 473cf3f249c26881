"""The list of earlier prompts (Ctrl-R)."""

from __future__ import annotations

from pathlib import Path

from mainspring.cli.tui.history import HistoryEntry, StoredHistory
from mainspring.cli.tui.history_picker import make_history_picker
from tui.hands import Clock, press, read

AT = 1_000_000.0


def test_prompts_of_this_folder_and_of_all(tmp_path: Path) -> None:
    home, now = str(tmp_path / "home"), [AT]
    for number, (folder, text) in enumerate((("a", "one"), ("b", "two"), ("a", "three"), ("a", "one"))):
        now[0] = AT + number
        StoredHistory(home, str(tmp_path / folder), now=lambda: now[0]).add(text)
    history = StoredHistory(home, str(tmp_path / "a"))
    here = list(history.newest_entries(everywhere=False))
    assert [(one.text, one.time) for one in here] == [("one", (AT + 3) * 1_000), ("three", (AT + 2) * 1_000)]
    everywhere = list(history.newest_entries(everywhere=True))
    assert [(one.text, one.folder) for one in everywhere] == [
        ("one", str(tmp_path / "a")),
        ("three", str(tmp_path / "a")),
        ("two", str(tmp_path / "b")),
    ]


def test_the_list_has_ages_a_preview_and_the_whole_prompt_as_its_answer() -> None:
    clock = Clock()
    long = "Explain this:\n\n\x1b[2Jdef f():\n    return 1"
    here = [HistoryEntry(long, "/w", (AT - 30) * 1_000), HistoryEntry("short", "/w")]
    sheet = make_history_picker(here, [*here, HistoryEntry("other", "/v", (AT - 7_300) * 1_000)], at=AT, now=clock)
    lines = read(sheet, clock, 80)
    assert lines[1:5] == [
        "Earlier prompts  this project",
        "Filter:  ",
        "❯ Explain this: [2Jdef f(): return 1  30 seconds ago",
        "  short                               this session",
    ]
    assert [line for line in lines if line.startswith("│")] == [
        "│ Explain this:",
        "│ ",
        "│ [2Jdef f():",
        "│     return 1",
    ]
    press(sheet, "tab", "other")
    assert "❯ other 2 hours ago · /v" in [" ".join(line.split()) for line in read(sheet, clock, 80)]
    press(sheet, "backspace", "backspace", "backspace", "backspace", "backspace", "return", "enter")
    assert sheet.said == long
