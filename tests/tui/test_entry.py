"""A field for text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.tui.menu import MOST_DRAWN, TextField
from tui.hands import Key, few, fits, keys, press, widths


def typed(*pressed: str) -> TextField:
    entry = TextField()
    press(entry, *pressed)
    return entry


@pytest.mark.parametrize(
    ("pressed", "text"),
    [
        (("abc",), "abc"),
        (("ac", "left", "b"), "abc"),
        (("bc", "home", "a", "end", "d"), "abcd"),
        (("bc", "c-a", "a", "c-e", "d"), "abcd"),
        (("abc", "backspace"), "ab"),
        (("abc", "left", "left", "delete"), "ac"),
        (("abc", "home", "c-d"), "bc"),
        (("abc", "left", "c-u"), "c"),
        (("abc", "left", "c-k"), "ab"),
        (("one two  ", "c-w"), "one "),
        (("one", "c-w", "c-w", "two"), "two"),
        (("a", "space", "b", "newline", "c"), "a b\nc"),
        (("a", "up", "down", "tab", "c-o"), "a"),
        (("left", "right", "backspace", "delete", "x"), "x"),
    ],
)
def test_keys(pressed: tuple[str, ...], text: str) -> None:
    assert typed(*pressed).text == text


def test_a_paste_of_several_lines_stays_several_lines() -> None:
    entry = typed("one\r\ntwo\r\tthree\n")
    assert entry.text == "one\ntwo\n\tthree\n"
    assert entry.draw(40).plain == "one¶two¶ three¶ "


def test_what_a_terminal_obeys_is_not_kept() -> None:
    assert typed("a\x1b[2J\x00b\u202e").text == "a[2Jb"


@pytest.mark.parametrize("one", ["漢", "e\u0301", "❤\ufe0f", "👨\u200d👩\u200d👧", "🇩🇪", "👍🏽"])
def test_what_the_eye_takes_for_one_moves_as_one(one: str) -> None:
    assert typed(f"a{one}b", "left", "left", "x").text == f"ax{one}b"
    assert typed(f"a{one}", "backspace").text == "a"
    assert typed(*one, "backspace").text == ""  # also if it came piece by piece


def test_a_mark_that_was_there_first_joins_what_comes_before_it() -> None:
    entry = typed("\ufe0f", "home", "❤", "home", "delete")
    assert entry.text == ""


def test_the_cursor_is_reversed() -> None:
    line = typed("abc", "left").draw(20)
    assert [(line.plain[span.start : span.end], span.style) for span in line.spans] == [("c", "reverse")]
    assert typed("abc").draw(20).plain == "abc "
    assert not typed("abc").draw(20, cursor=False).spans


def test_a_hint_stands_dimly_where_nothing_is() -> None:
    line = TextField().draw(20, hint="say why, or nothing at all")
    assert line.plain == " say why, or nothin…"
    assert [(span.start, span.end, span.style) for span in line.spans] == [(0, 1, "reverse"), (1, 19, "detail")]
    assert typed("x").draw(20, hint="say why").plain == "x "
    assert typed("x", "backspace").draw(20, hint="say why").plain == " say why"


def test_a_long_text_shows_what_is_around_the_cursor() -> None:
    digits = "".join(str(place % 10) for place in range(50))
    assert typed(digits).draw(12).plain == "…123456789 "
    assert typed(digits, "home").draw(12).plain == "0123456789…"
    middle = typed(digits, "home", *["right"] * 25).draw(12)
    assert middle.plain.startswith("…")
    assert middle.plain.endswith("…")
    assert [middle.plain[span.start : span.end] for span in middle.spans if span.style == "reverse"] == ["5"]


@few
@given(st.lists(keys, max_size=30), widths)
def test_no_key_fails_and_nothing_is_wider_than_its_place(pressed: list[Key], width: int) -> None:
    entry = TextField()
    for key in pressed:
        entry.press(*key)
        line = entry.draw(width)
        fits([line], width, 1)
        assert sum(span.style == "reverse" for span in line.spans) == 1
        assert entry.empty == (entry.text == "")


@few
@given(st.lists(keys.filter(lambda key: key[0] in ("text", "left", "right", "home", "end")), max_size=20))
def test_moving_changes_nothing(pressed: list[Key]) -> None:
    """What is typed is all there; only where it stands depends on the cursor."""
    entry = TextField()
    for key in pressed:
        before = sorted(entry.text)
        entry.press(*key)
        if key[0] != "text":
            assert sorted(entry.text) == before


def test_marks_upon_marks_do_not_flood_the_line() -> None:
    assert len(typed("a" + "\u0301" * 10_000).draw(20).plain) <= MOST_DRAWN + 1


def test_a_long_text_is_not_walked_through_to_draw_it() -> None:
    """Counted, not timed: what is asked of the text is as much as fits."""

    class Counted(list[str]):
        seen = 0

        def __reversed__(self):  # type: ignore[no-untyped-def]
            for one in super().__reversed__():
                Counted.seen += 1
                yield one

    entry = typed("x" * 100_000, *["left"] * 10)
    entry._before, entry._after = Counted(entry._before), Counted(entry._after)
    entry.draw(40)
    assert 0 < Counted.seen < 400
