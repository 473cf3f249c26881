"""Lists to choose from, and the sheet on which they stand."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from mainspring.cli.repl.menus import Choice, Choices, Field, Picked
from mainspring.cli.repl.page import Page, clean
from mainspring.cli.repl.sheet import READ, Sheet, shares
from repl.hands import Clock, Key, few, fits, heights, keys, marked, plain, press, read, widths, words

ABC = (Choice("Ant"), Choice("Bee"), Choice("Cat"))
WITH_WORDS = (Choice("Yes"), Choice("No, and why", words="No"))


def picked(choices: Choices, *pressed: str) -> Picked | None:
    """What the last key picks; none before it may."""
    *others, last = pressed
    for key in others:
        assert choices.press(*named(key)) is None
    return choices.press(*named(last))


def named(key: str) -> Key:
    return (key, " " if key == "space" else "") if len(key) > 1 else ("text", key)


# --- choosing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pressed", "place"),
    [
        (("enter",), 0),
        (("down", "enter"), 1),
        (("c-n", "c-n", "c-p", "enter"), 1),
        (("up", "enter"), 2),
        (("down", "down", "down", "enter"), 0),
        (("j", "j", "k", "enter"), 1),
        (("end", "enter"), 2),
        (("end", "home", "enter"), 0),
        (("3",), 2),
        (("9", "0", "x", "2"), 1),
    ],
)
def test_one_of_them(pressed: tuple[str, ...], place: int) -> None:
    assert picked(Choices(ABC), *pressed) == Picked((place,))


def test_a_paste_is_no_choice() -> None:
    choices = Choices(ABC)
    assert choices.press("text", "12") is None
    assert choices.press("text", "2\n") is None
    assert picked(choices, "enter") == Picked((0,))


def test_several_of_them() -> None:
    assert picked(Choices(ABC, many=True), "space", "down", "down", "space", "enter") == Picked((0, 2))
    assert picked(Choices(ABC, many=True), "3", "1", "3", "enter") == Picked((0,))
    assert picked(Choices(ABC, many=True), "down", "enter") == Picked((1,))  # none is selected: the marked one


def test_several_are_shown_with_boxes() -> None:
    choices = Choices(ABC, many=True)
    press(choices, "down", "space")
    assert plain(choices.draw(30, 9)) == ["  1. ☐ Ant", "❯ 2. ☒ Bee", "  3. ☐ Cat"]


def test_a_choice_with_words_takes_all_that_is_typed() -> None:
    assert picked(Choices(WITH_WORDS), "down", "1", "j", " ", "k", "enter") == Picked((1,), "1j k")
    assert picked(Choices(WITH_WORDS), "2", "enter") == Picked((1,))  # its number opens it
    choices = Choices(WITH_WORDS)
    press(choices, "2", "not that")
    assert plain(choices.draw(40, 9)) == ["  1. Yes", "❯ 2. No: not that "]
    press(choices, "up")
    assert plain(choices.draw(40, 9)) == ["❯ 1. Yes", "  2. No: not that "]
    assert picked(choices, "enter") == Picked((0,))  # its words are not for this one


def test_words_are_typed_only_where_they_are_wanted() -> None:
    assert picked(Choices(WITH_WORDS), "x", "j", "enter") == Picked((0,))


def test_a_choice_that_needs_words_is_nothing_without_them() -> None:
    choices = Choices([Choice("A"), Choice("Other", words="Other", bare=False)])
    assert picked(choices, "2", "enter") is None
    assert picked(choices, " ", "enter") is None
    assert picked(choices, "x", "enter") == Picked((1,), "x")


def test_words_and_several() -> None:
    choices = Choices([Choice("A"), Choice("B"), Choice("Other", words="Other", bare=False)], many=True)
    assert picked(choices, "1", "3", "C", " ", "D", "enter") == Picked((0, 2), "C D")


def test_typing_narrows_a_list() -> None:
    choices = Choices([Choice("claude-opus"), Choice("gpt-5"), Choice("Gpt-4", also="old")], narrowed=True)
    press(choices, "GPT")
    assert plain(choices.draw(40, 9)) == ["Filter: GPT ", "❯ gpt-5", "  Gpt-4"]
    press(choices, " o l d")
    assert plain(choices.draw(40, 9)) == ["Filter: GPT o l d ", "❯ Gpt-4"]
    press(choices, "zzz")
    assert plain(choices.draw(40, 9)) == ["Filter: GPT o l dzzz ", "nothing matches"]
    assert picked(choices, "enter") is None
    assert picked(choices, "c-u", "down", "enter") is not None


def test_the_marked_one_stays_marked_while_the_list_grows_and_shrinks() -> None:
    choices = Choices([Choice("aa"), Choice("ab"), Choice("b")], narrowed=True)
    press(choices, "down", "a")
    assert picked(choices, "backspace", "enter") == Picked((1,))


# --- drawing --------------------------------------------------------------------------------------------------------


def test_a_description_stands_beside_or_below() -> None:
    choices = [Choice("Red", "warm"), Choice("Blue", "as the sea in the evening, when it is cold")]
    assert plain(Choices(choices).draw(30, 9)) == [
        "❯ 1. Red  warm",
        "  2. Blue",
        "     as the sea in the ",
        "     evening, when it is cold",
    ]


def test_a_list_that_does_not_fit_says_how_many_more_there_are() -> None:
    choices = Choices([Choice(f"c{place}") for place in range(12)])
    assert plain(choices.draw(30, 4)) == ["❯ 1. c0", "  2. c1", "  3. c2", "  ↓ 9 more"]
    press(choices, *["down"] * 5)
    assert plain(choices.draw(30, 4)) == ["  5. c4", "❯ 6. c5", "  7. c6", "  ↑ 4 more · ↓ 5 more"]
    press(choices, "end")
    assert plain(choices.draw(30, 4)) == ["     c9", "     c10", "❯    c11", "  ↑ 9 more"]
    press(choices, "pageup")
    assert "❯    c9" in plain(choices.draw(30, 4))


def test_in_a_picker_the_description_keeps_its_place() -> None:
    choices = Choices([Choice("t" * 50, "2 days"), Choice("short", "1 day")], narrowed=True)
    assert plain(choices.draw(30, 9))[1:] == [
        "❯ " + "t" * 19 + "…  2 days",
        "  short                 1 day",
    ]


def test_a_choice_too_long_for_its_lines_says_so() -> None:
    lines = plain(Choices([Choice("A"), Choice("word " * 30)]).draw(30, 9))
    assert len(lines) == 4
    assert lines[-1].endswith("word…")


choice_lists = st.lists(st.tuples(words, words), min_size=1, max_size=8).map(
    lambda pairs: [Choice(clean(label), clean(about)) for label, about in pairs]
)


@few
@given(choice_lists, st.booleans(), st.booleans(), st.lists(keys, max_size=8), widths, st.integers(1, 30))
def test_one_line_is_marked_whatever_is_pressed(
    given_: list[Choice], many: bool, words: bool, pressed: list[Key], width: int, height: int
) -> None:
    choices = Choices([*given_, *WITH_WORDS[1:]] if words else given_, many=many)
    for key in pressed:
        found = choices.press(*key)
        assert found is None or (found.places and set(found.places) <= set(range(len(given_) + words)))
        lines = choices.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == 1


@few
@given(choice_lists, st.lists(keys, max_size=8), widths, st.integers(2, 30))
def test_one_line_of_what_is_left_is_marked(given_: list[Choice], pressed: list[Key], width: int, height: int) -> None:
    choices = Choices(given_, narrowed=True)
    for key in pressed:
        choices.press(*key)
        lines = choices.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == ("nothing matches" not in plain(lines))


# --- the sheet ------------------------------------------------------------------------------------------------------


def sheet(clock: Clock, below: Choices | Field | None = None, lines: int = 1) -> Sheet[Picked | None]:
    page = Page.of(*[Text(f"line {number}") for number in range(lines)])
    return Sheet("Title", page, below or Choices(ABC), lambda found: found, now=clock)


def test_what_it_looks_like() -> None:
    assert plain(sheet(Clock()).draw(60, 20)) == [
        "─" * 60,
        "Title",
        "  line 0",
        "",
        "❯ 1. Ant",
        "  2. Bee",
        "  3. Cat",
        "",
        "↑↓ move · enter choose · esc cancel",
    ]


def test_what_does_not_fit_is_told_and_scrolled() -> None:
    asked = sheet(Clock(), lines=30)
    lines = plain(asked.draw(60, 12))
    assert lines[2:7] == ["  line 0", "  line 1", "  line 2", "  line 3", "  line 4"]
    assert lines[7] == "  ↓ 25 more lines"
    assert lines[-1] == "pgup/pgdn scroll · ↑↓ move · enter choose · esc cancel"
    press(asked, "pagedown")
    assert plain(asked.draw(60, 12))[2] == "  line 4"
    press(asked, "pageup")
    assert plain(asked.draw(60, 12))[2] == "  line 0"


@few
@given(st.integers(1, 60), st.integers(0, 100), st.integers(1, 30))
def test_all_lines_are_given_out_where_they_are_wanted(height: int, page: int, below: int) -> None:
    got = shares(height, page, below)
    assert sum(got.values()) == min(height, 3 + page + below)
    assert got["below"] >= 1
    if height >= 3:
        assert got["page"] >= min(page, 2)  # a line, and one that says how many more there are


def test_nobody_answers_what_they_have_not_read() -> None:
    clock = Clock()
    asked = sheet(clock)
    press(asked, "enter", "2")  # before it is there
    asked.draw(60, 20)
    clock.now += READ - 0.01
    press(asked, "enter")
    assert not asked.over
    clock.now += 0.02
    press(asked, "enter")
    assert asked.said == Picked((0,))


def test_whoever_goes_on_typing_has_not_read_it_either() -> None:
    clock = Clock()
    asked = sheet(clock)
    asked.draw(60, 20)
    for letter in "see chapter 2":
        clock.now += READ / 2
        press(asked, letter)
    press(asked, "enter")
    assert not asked.over
    clock.now += READ
    press(asked, "2")
    assert asked.said == Picked((1,))


def test_arrows_move_at_once_and_escape_counts_at_once() -> None:
    clock = Clock()
    asked = sheet(clock)
    asked.draw(60, 20)
    press(asked, "down")
    assert "❯ 2. Bee" in plain(asked.draw(60, 20))
    press(asked, "escape")
    assert asked.over
    assert asked.said is None
    assert not asked.broken_off


def test_a_list_can_be_narrowed_at_once() -> None:
    clock = Clock()
    asked = sheet(clock, Choices(ABC, narrowed=True))
    asked.draw(60, 20)
    press(asked, "b", "enter")
    assert not asked.over
    clock.now += READ
    press(asked, "enter")
    assert asked.said == Picked((1,))


def test_ctrl_c_is_told_from_escape() -> None:
    asked = sheet(Clock())
    press(asked, "c-c")
    assert asked.over
    assert asked.broken_off


def test_closing_ends_the_wait() -> None:
    async def main() -> Picked | None:
        asked = sheet(Clock())
        asyncio.get_running_loop().call_soon(asked.close)
        return await asked.answer()

    assert asyncio.run(main()) is None


def test_the_first_answer_stands() -> None:
    clock = Clock()
    asked = sheet(clock)
    read(asked, clock)
    press(asked, "2", "3", "escape", "c-c")
    assert asked.said == Picked((1,))
    assert not asked.broken_off


def test_words_alone() -> None:
    clock = Clock()
    asked = sheet(clock, Field())
    read(asked, clock)
    press(asked, "some", "space", "words\nof mine")
    assert "❯ some words¶of mine " in plain(asked.draw(60, 20))
    press(asked, "enter")
    assert asked.said == Picked((), "some words\nof mine")


@few
@given(st.lists(keys, max_size=8), st.integers(0, 40), widths, st.integers(1, 5) | heights)
def test_a_sheet_never_fails_and_never_exceeds_its_place(
    pressed: list[Key], lines: int, width: int, height: int
) -> None:
    clock = Clock()
    asked = sheet(clock, Choices([*ABC, *WITH_WORDS]), lines)
    asked.note = "(1 more question waits)"
    for key in pressed:
        drawn = asked.draw(width, height)
        fits(drawn, width, height)
        assert marked(drawn) == 1
        clock.now += 1
        asked.press(*key)
