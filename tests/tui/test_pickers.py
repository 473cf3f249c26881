"""Lists that the user asks for."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.tui.list_dialog import ListDialog
from mainspring.cli.tui.session_picker import make_session_picker
from mainspring.sessions.listing import SessionEntry
from tui.hands import Clock, Key, few, fits, heights, keys, marked, plain, press, read, widths, words

AT = 1_000_000.0
HOUR = 3_600


def entry(number: int, title: str, age: float, size: int = 34_000, cwd: str = "", branch: str = "") -> SessionEntry:
    id = f"{number:08x}-0000-4000-8000-000000000000"
    changed = int((AT - age) * 1_000)
    return SessionEntry(id, Path(f"{id}.jsonl"), changed, size, title, cwd, turns=number, branch=branch)


ENTRIES = [
    entry(1, "Fix the\x1b[2J parser", 30, cwd="/w/parser", branch="main"),
    entry(2, "Write the manual", 3 * HOUR, 2_400_000),
    entry(3, "修正する", 50 * HOUR, 12),
]
OTHER = entry(4, "Bake bread", 10, cwd="/w/kitchen")


def picker(here: list[SessionEntry], clock: Clock, everywhere: list[SessionEntry] | None = None) -> ListDialog:
    found = here if everywhere is None else everywhere
    return make_session_picker(
        here, found, at=AT, now=clock, preview=lambda file: ["❯ hello", f"● {file.name[:8]}\x1b[2J"]
    )


def test_sessions_are_shown_with_age_turns_branch_and_size_and_a_preview() -> None:
    sheet = picker(ENTRIES, Clock())
    assert read(sheet, Clock(), 80) == [
        "─" * 80,
        "Resume a session  this folder",
        "Filter:  ",
        "❯ Fix the[2J parser  30 seconds ago · 1 turn · main · 34 kB",
        "  Write the manual   3 hours ago · 2 turns · 2 MB",
        "  修正する           2 days ago · 3 turns · 12 bytes",
        "",
        "│ ❯ hello",
        "│ ● 00000001[2J",
        "",
        "tab all folders · ↑↓ move · type to filter · enter choose · esc cancel",
    ]
    press(sheet, "down")
    assert "│ ● 00000002[2J" in read(sheet, Clock(), 80)


def test_a_session_is_found_by_its_words_its_id_its_folder_or_its_branch() -> None:
    for typed, place in (("write", 1), ("MAN write", 1), ("00000003", 2), ("", 0), ("main", 0), ("/w/parser", 0)):
        clock = Clock()
        sheet = picker(ENTRIES, clock)
        read(sheet, clock)
        press(sheet, *typed, "enter")
        assert sheet.said == ENTRIES[place].session_id


def test_ages_are_not_searched() -> None:
    clock = Clock()
    sheet = picker(ENTRIES, clock)
    read(sheet, clock)
    press(sheet, "ago")
    assert read(sheet, clock)[2:4] == ["Filter: ago ", "no matches"]


def test_tab_shows_all_folders_and_keeps_the_filter() -> None:
    clock = Clock()
    sheet = picker(ENTRIES, clock, [OTHER, *ENTRIES])
    read(sheet, clock)
    press(sheet, "b", "tab")
    lines = [" ".join(line.split()) for line in read(sheet, clock)]
    assert lines[1:4] == [
        "Resume a session all folders",
        "Filter: b",
        "❯ Bake bread 10 seconds ago · 4 turns · /w/kitchen",
    ]
    press(sheet, "enter")
    assert sheet.said == OTHER.session_id


def test_all_folders_come_first_if_this_one_has_none() -> None:
    clock = Clock()
    sheet = picker([], clock, [OTHER])
    assert read(sheet, clock)[1] == "Resume a session  all folders"
    press(sheet, "tab")
    assert "No other sessions in this folder." in read(sheet, clock)
    press(sheet, "enter")
    assert not sheet.over


def test_an_enter_that_came_too_soon_does_not_count() -> None:
    clock = Clock()
    sheet = picker(ENTRIES, clock)
    sheet.draw(80, 24)
    press(sheet, "enter")
    assert not sheet.over
    clock.now += 1
    press(sheet, "escape")
    assert (sheet.over, sheet.said) == (True, None)


entries = st.lists(st.builds(entry, st.integers(0, 9), words, st.floats(0, 1e6), st.integers(0, 10**8)), max_size=8)


@few
@given(entries, st.lists(keys, max_size=8), widths, heights)
def test_a_picker_never_fails_and_picks_what_it_offers(
    found: list[SessionEntry], pressed: list[Key], width: int, height: int
) -> None:
    clock = Clock()
    sheet = picker(found, clock)
    for key in pressed:
        lines = sheet.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == (0 if not found or "no matches" in plain(lines) else 1)
        clock.now += 1
        sheet.press(*key)
    assert sheet.said is None or sheet.said in [one.session_id for one in found]
