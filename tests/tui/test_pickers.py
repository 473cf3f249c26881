"""Lists that the user asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.tui.dialog import make_model_picker, make_session_picker
from mainspring.core.models import MODELS
from mainspring.sessions.listing import SessionEntry
from tui.hands import Clock, Key, few, fits, heights, keys, marked, plain, press, read, widths, words

AT = 1_000_000.0
HOUR = 3_600


def entry(number: int, title: str, age: float, size: int = 34_000) -> SessionEntry:
    id = f"{number:08x}-0000-4000-8000-000000000000"
    return SessionEntry(id, Path(f"{id}.jsonl"), int((AT - age) * 1_000), size, title, turns=number)


ENTRIES = [
    entry(1, "Fix the\x1b[2J parser", 30),
    entry(2, "Write the manual", 3 * HOUR, 2_400_000),
    entry(3, "修正する", 50 * HOUR, 12),
]


def test_sessions_are_shown_as_they_come_with_age_turns_and_size() -> None:
    sheet = make_session_picker(ENTRIES, at=AT, now=Clock())
    assert read(sheet, Clock(), 70)[1:6] == [
        "Resume a session",
        "Filter:  ",
        "❯ Fix the[2J parser  30 seconds ago · 1 turn · 34 kB",
        "  Write the manual   3 hours ago · 2 turns · 2 MB",
        "  修正する           2 days ago · 3 turns · 12 bytes",
    ]


def test_a_session_is_found_by_its_words_or_its_id() -> None:
    for typed, place in (("manual", 1), ("MAN write", 1), ("00000003", 2), ("", 0)):
        clock = Clock()
        sheet = make_session_picker(ENTRIES, at=AT, now=clock)
        read(sheet, clock)
        press(sheet, *typed, "enter")
        assert sheet.said == ENTRIES[place].session_id


def test_the_filter_stays_where_nothing_matches() -> None:
    clock = Clock()
    sheet = make_session_picker(ENTRIES, at=AT, now=clock)
    read(sheet, clock)
    press(sheet, "zzz")
    lines = read(sheet, clock)
    assert lines[2:4] == ["Filter: zzz ", "no matches"]
    assert lines[-1].endswith("esc cancel"), "there is no run to stop"


def test_nothing_is_chosen_by_escape_or_where_there_is_nothing() -> None:
    clock = Clock()
    sheet = make_session_picker([], at=AT, now=clock)
    assert "  No other sessions in this folder." in read(sheet, clock)
    press(sheet, "enter")
    assert not sheet.over
    press(sheet, "escape")
    assert sheet.said is None


@pytest.mark.parametrize("current", ["claude-haiku-4-5", "claude-haiku-4-5-20251001", "anthropic/claude-haiku-4-5"])
def test_the_model_in_use_is_marked(current: str) -> None:
    clock = Clock()
    sheet = make_model_picker(list(MODELS.values()), current, now=clock)
    lines = read(sheet, clock, 90)
    assert "❯ claude-haiku-4-5 (in use) 200k tokens · $1.00 in, $5.00 out" in [" ".join(line.split()) for line in lines]
    press(sheet, "enter")
    assert sheet.said == "claude-haiku-4-5"


def test_models_are_narrowed_with_digits_too() -> None:
    clock = Clock()
    sheet = make_model_picker(list(MODELS.values()), "another", now=clock)
    assert any("In use: another." in line for line in read(sheet, clock, 90))
    press(sheet, *"gpt-4.1-mini")
    assert [" ".join(line.split()) for line in read(sheet, clock, 90) if line.startswith("❯")] == [
        "❯ gpt-4.1-mini 1M tokens · $0.40 in, $1.60 out"
    ]
    press(sheet, "enter")
    assert sheet.said == "gpt-4.1-mini"


entries = st.lists(st.builds(entry, st.integers(0, 9), words, st.floats(0, 1e6), st.integers(0, 10**8)), max_size=8)


@few
@given(entries, st.lists(keys, max_size=8), widths, heights)
def test_a_picker_never_fails_and_picks_what_it_offers(
    found: list[SessionEntry], pressed: list[Key], width: int, height: int
) -> None:
    clock = Clock()
    sheet = make_session_picker(found, at=AT, now=clock)
    for key in pressed:
        lines = sheet.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == (0 if "no matches" in plain(lines) else 1)
        clock.now += 1
        sheet.press(*key)
    assert sheet.said is None or sheet.said in [one.session_id for one in found]
