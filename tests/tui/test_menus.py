"""Lists to choose from, and the sheet on which they stand."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from mainspring.agent.permission_updates import READ
from mainspring.cli.tui.dialog import BURST, OF_A_RUN, PageDialog, render_key_hints, share_height
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing
from mainspring.cli.tui.menu import FreeTextChoice, Menu, MenuHeights, MenuItem, MenuSelection
from tui.hands import Clock, Key, few, fits, heights, keys, marked, plain, press, read, widths, words

ABC = (MenuItem("Ant"), MenuItem("Bee"), MenuItem("Cat"))
WITH_WORDS = (MenuItem("Yes"), MenuItem("No, and why", words="No"))


def picked(choices: Menu, *pressed: str) -> MenuSelection | None:
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
        (("end", "enter"), 2),
        (("end", "home", "enter"), 0),
        (("3",), 2),
        (("9", "0", "x", "2"), 1),
    ],
)
def test_one_of_them(pressed: tuple[str, ...], place: int) -> None:
    assert picked(Menu(ABC), *pressed) == MenuSelection((place,))


def test_a_paste_is_no_choice() -> None:
    choices = Menu(ABC)
    assert choices.press("text", "12") is None
    assert choices.press("text", "2\n") is None
    assert choices.press("paste", "2") is None
    assert picked(choices, "enter") == MenuSelection((0,))


def test_several_of_them() -> None:
    assert picked(Menu(ABC, many=True), "space", "down", "down", "space", "enter") == MenuSelection((0, 2))
    assert picked(Menu(ABC, many=True), "3", "1", "3", "enter") == MenuSelection((0,))
    assert picked(Menu(ABC, many=True), "down", "enter") == MenuSelection((1,))  # none is selected: the marked one


def test_several_are_shown_with_boxes() -> None:
    choices = Menu(ABC, many=True)
    press(choices, "down", "space")
    assert plain(choices.draw(30, 9)) == ["  1. ☐ Ant", "❯ 2. ☒ Bee", "  3. ☐ Cat"]


def test_a_choice_with_words_takes_all_that_is_typed() -> None:
    assert picked(Menu(WITH_WORDS), "down", "1", "j", " ", "k", "enter") == MenuSelection((1,), "1j k")
    assert picked(Menu(WITH_WORDS), "2", "enter") == MenuSelection((1,))  # its number opens it
    choices = Menu(WITH_WORDS)
    press(choices, "2", "not that")
    assert plain(choices.draw(40, 9)) == ["  1. Yes", "❯ 2. No: not that "]
    press(choices, "up")
    assert plain(choices.draw(40, 9)) == ["❯ 1. Yes", "  2. No: not that "]
    assert picked(choices, "enter") == MenuSelection((0,))  # its words are not for this one


def test_enter_opens_the_field_of_a_choice_with_words_and_enter_again_answers_without() -> None:
    choices = Menu([MenuItem("Yes"), MenuItem("No, and why", words="No", hint="why, or Enter")])
    press(choices, "down")
    assert plain(choices.draw(40, 9)) == ["  1. Yes", "❯ 2. No, and why"]
    assert choices.press("enter") is None
    line = choices.draw(40, 9)[1]
    assert line.plain == "❯ 2. No:  why, or Enter"
    styles = {str(span.style): line.plain[span.start : span.end] for span in line.spans}
    assert (styles["reverse"], styles["detail"]) == (" ", "why, or Enter")
    assert choices.keys[-1] == ("enter", "send")
    assert choices.press("enter") == MenuSelection((1,))


def test_the_number_of_a_choice_with_words_opens_it_from_anywhere() -> None:
    for before in ((), ("down",)):
        choices = Menu(WITH_WORDS)
        press(choices, *before, "2")
        assert plain(choices.draw(40, 9))[1] == "❯ 2. No:  "
        assert picked(choices, "2", "enter") == MenuSelection((1,), "2")  # open: all that is typed is words


def test_a_field_that_was_left_empty_closes_and_one_with_words_keeps_them() -> None:
    choices = Menu(WITH_WORDS)
    press(choices, "2", "up")
    assert plain(choices.draw(40, 9)) == ["❯ 1. Yes", "  2. No, and why"]
    assert picked(choices, "down", "x", "backspace", "enter") == MenuSelection((1,)), "typing opens it, too"
    choices = Menu(WITH_WORDS)
    assert picked(choices, "2", "x", "up", "down", "enter") == MenuSelection((1,), "x")


def test_a_key_of_its_own_chooses_but_not_in_the_middle_of_words() -> None:
    choices = Menu([MenuItem("Yes"), MenuItem("All", key="s-tab", does="all"), MenuItem("No", words="No")])
    assert choices.keys[0] == ("shift-tab", "all")
    assert choices.press("s-tab") == MenuSelection((1,))
    press(choices, "up")
    assert choices.press("s-tab") == MenuSelection((1,))
    press(choices, "not")
    assert choices.press("s-tab") is None
    assert ("shift-tab", "all") not in choices.keys
    assert Menu(ABC).press("s-tab") is None


def test_words_are_typed_only_where_they_are_wanted() -> None:
    assert picked(Menu(WITH_WORDS), "x", "j", "enter") == MenuSelection((0,))


def test_a_choice_that_needs_words_is_nothing_without_them() -> None:
    choices = Menu([MenuItem("A"), MenuItem("Other", words="Other", bare=False)])
    assert picked(choices, "2", "enter", "enter") is None
    assert picked(choices, " ", "enter") is None
    assert picked(choices, "x", "enter") == MenuSelection((1,), "x")


def test_words_and_several() -> None:
    choices = Menu([MenuItem("A"), MenuItem("B"), MenuItem("Other", words="Other", bare=False)], many=True)
    assert picked(choices, "1", "3", "C", " ", "D", "enter") == MenuSelection((0, 2), "C D")


def test_where_several_are_picked_enter_opens_the_field_and_enter_again_confirms() -> None:
    choices = Menu([MenuItem("A"), MenuItem("B"), MenuItem("Other", words="Other", bare=False)], many=True)
    press(choices, "1", "up")
    assert choices.keys[-1] == ("enter", "choose")
    assert picked(choices, "enter", "enter") == MenuSelection((0,))


def test_typing_narrows_a_list() -> None:
    choices = Menu([MenuItem("claude-opus"), MenuItem("gpt-5"), MenuItem("Gpt-4", also="old")], narrowed=True)
    press(choices, "GPT")
    assert plain(choices.draw(40, 9)) == ["Filter: GPT ", "❯ gpt-5", "  Gpt-4"]
    press(choices, " o l d")
    assert plain(choices.draw(40, 9)) == ["Filter: GPT o l d ", "❯ Gpt-4"]
    press(choices, "zzz")
    assert plain(choices.draw(40, 9)) == ["Filter: GPT o l dzzz ", "no matches"]
    assert picked(choices, "enter") is None
    assert picked(choices, "c-u", "down", "enter") is not None


def test_the_marked_one_stays_marked_while_the_list_grows_and_shrinks() -> None:
    choices = Menu([MenuItem("aa"), MenuItem("ab"), MenuItem("b")], narrowed=True)
    press(choices, "down", "a")
    assert picked(choices, "backspace", "enter") == MenuSelection((1,))


# --- drawing --------------------------------------------------------------------------------------------------------


def test_a_description_stands_beside_or_below() -> None:
    choices = [MenuItem("Red", "warm"), MenuItem("Blue", "as the sea in the evening, when it is cold")]
    assert plain(Menu(choices).draw(30, 9)) == [
        "❯ 1. Red  warm",
        "  2. Blue",
        "     as the sea in the ",
        "     evening, when it is cold",
    ]


def test_a_list_that_does_not_fit_says_how_many_more_there_are() -> None:
    choices = Menu([MenuItem(f"c{place}") for place in range(12)])
    assert plain(choices.draw(30, 4)) == ["❯ 1. c0", "  2. c1", "  3. c2", "  ↓ 9 more"]
    press(choices, *["down"] * 5)
    assert plain(choices.draw(30, 4)) == ["  5. c4", "❯ 6. c5", "  7. c6", "  ↑ 4 more · ↓ 5 more"]
    press(choices, "end")
    assert plain(choices.draw(30, 4)) == ["     c9", "     c10", "❯    c11", "  ↑ 9 more"]
    press(choices, "pageup")
    assert "❯    c9" in plain(choices.draw(30, 4))


def test_in_a_picker_the_description_keeps_its_place() -> None:
    choices = Menu([MenuItem("t" * 50, "2 days"), MenuItem("short", "1 day")], narrowed=True)
    assert plain(choices.draw(30, 9))[1:] == [
        "❯ " + "t" * 19 + "…  2 days",
        "  short                 1 day",
    ]


def test_a_choice_too_long_for_its_lines_says_so() -> None:
    lines = plain(Menu([MenuItem("A"), MenuItem("word " * 30)]).draw(30, 9))
    assert len(lines) == 4
    assert lines[-1].endswith("word…")


SENTENCES = [MenuItem(f"{number} " + "word " * 8) for number in range(4)]


def test_a_list_in_a_small_place_has_a_line_for_each_and_the_marked_one_what_is_left() -> None:
    choices = Menu(SENTENCES)
    press(choices, "down")
    assert plain(choices.draw(25, 4)) == [
        "  1. 0 word word word …",
        "❯ 2. 1 word word word …",
        "  3. 2 word word word …",
        "  4. 3 word word word …",
    ]
    assert plain(choices.draw(25, 6))[1:4] == [
        "❯ 2. 1 word word word ",
        "     word word word word ",
        "     word ",
    ]
    assert choices.wants(25, 40) == MenuHeights(4, 6, 12)


def test_where_not_all_fit_the_marked_one_and_its_neighbours_are_shown() -> None:
    choices = Menu(SENTENCES)
    press(choices, "down")
    assert [line[:4] for line in plain(choices.draw(25, 4))] == ["  1.", "❯ 2.", "  3.", "  4."]
    assert [line[:6] for line in plain(choices.draw(25, 3))] == ["❯ 2. 1", "  3. 2", "  ↑ 1 "]
    assert [line[:4] for line in plain(choices.draw(25, 1))] == ["❯ 2."]


choice_lists = st.lists(st.tuples(words, words), min_size=1, max_size=8).map(
    lambda pairs: [MenuItem(clean_for_drawing(label), clean_for_drawing(about)) for label, about in pairs]
)


@few
@given(choice_lists, st.booleans(), st.booleans(), st.lists(keys, max_size=8), widths, st.integers(1, 30))
def test_one_line_is_marked_whatever_is_pressed(
    given_: list[MenuItem], many: bool, words: bool, pressed: list[Key], width: int, height: int
) -> None:
    choices = Menu([*given_, *WITH_WORDS[1:]] if words else given_, many=many)
    for key in pressed:
        found = choices.press(*key)
        assert found is None or (found.places and set(found.places) <= set(range(len(given_) + words)))
        lines = choices.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == 1
        if height >= len(given_) + words:  # then none is missing
            numbers = [line.plain[2:5] for line in lines if line.plain[3:5] == ". "]
            assert {f"{place}. " for place in range(1, len(given_) + words + 1)} <= set(numbers)


@few
@given(choice_lists, st.lists(keys, max_size=8), widths, st.integers(2, 30))
def test_one_line_of_what_is_left_is_marked(
    given_: list[MenuItem], pressed: list[Key], width: int, height: int
) -> None:
    choices = Menu(given_, narrowed=True)
    for key in pressed:
        choices.press(*key)
        lines = choices.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == ("no matches" not in plain(lines))


# --- the sheet ------------------------------------------------------------------------------------------------------


def sheet(clock: Clock, below: Menu | FreeTextChoice | None = None, lines: int = 1) -> PageDialog[MenuSelection | None]:
    page = ScrollPage.of(*[Text(f"line {number}") for number in range(lines)])
    return PageDialog("Title", page, below or Menu(ABC), lambda found: found, now=clock)


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


def test_the_keys_name_the_way_out_first_of_all() -> None:
    keys = (("↑↓", "move"), ("enter", "choose"))
    for width, told in (
        (80, "↑↓ move · enter choose · esc cancel · ctrl-c stop the run"),
        (50, "↑↓ move · esc cancel · ctrl-c stop the run"),
        (40, "esc cancel · ctrl-c stop the run"),
        (30, "esc cancel"),
        (5, "esc …"),
    ):
        assert render_key_hints(keys, OF_A_RUN, width).plain == told


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
@given(st.integers(1, 60), st.integers(0, 1), st.integers(0, 100), st.tuples(st.integers(1, 12), st.integers(0, 20)))
def test_all_lines_are_given_out_where_they_are_wanted(
    height: int, asks: int, page: int, choices: tuple[int, int]
) -> None:
    (first, rest), own = choices, choices[1] // 2
    below = MenuHeights(first, first + own, first + own + rest)
    got = share_height(height, asks, page, below)
    assert sum(got.values()) == min(height, 3 + asks + page + below.whole)
    assert got["below"] >= max(1, min(first, height - 1))  # but for the title's line
    if got["page"]:
        assert got["below"] >= first
    if height >= 1 + first + 2:
        assert got["page"] >= min(page, 2)  # a line, and one that says how many more there are
    if got["page"] > 2:
        assert got["below"] >= below.marked


def test_nobody_answers_what_they_have_not_read() -> None:
    clock = Clock()
    asked = sheet(clock)
    press(asked, "enter", "2")  # before it is there
    asked.draw(60, 20)
    clock.now += READ - 0.01
    press(asked, "enter")  # it ends the word that the number began
    assert not asked.over
    clock.now += READ + 2 * BURST
    press(asked, "enter")
    assert asked.said == MenuSelection((0,))


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
    assert asked.said == MenuSelection((1,))


def test_what_was_typed_too_soon_is_kept_for_the_input_line() -> None:
    clock = Clock()
    asked = sheet(clock)
    press(asked, "s", "ee")
    asked.draw(60, 20)
    press(asked, "space", "j", "2", "newline", "k", "enter", "backspace", "tab")
    assert (asked.unheard, asked.over) == ("see j2\nk", False)
    assert "❯ 1. Ant" in plain(asked.draw(60, 20)), "a letter of a word moves nothing"


def test_letters_that_mean_nothing_are_kept_and_begin_a_word() -> None:
    clock = Clock()
    asked = sheet(clock)
    read(asked, clock)
    press(asked, "x", "1", "enter", "a paste\r\nof \x1b[2J two lines")
    assert (asked.unheard, asked.over) == ("x1a paste\nof [2J two lines", False)
    clock.now += READ
    press(asked, "down", "3", "more")
    assert asked.said == MenuSelection((2,))
    assert asked.unheard.endswith("two linesmore"), "what comes after the answer is no part of it"


def test_what_answers_or_goes_into_a_field_is_not_unheard() -> None:
    for below, pressed in (
        (Menu(WITH_WORDS), ("2", "not", "space", "that", "escape")),
        (Menu(ABC, narrowed=True), ("b", "space", "enter")),
        (Menu(ABC, many=True), ("space", "down", "2", "enter")),
        (FreeTextChoice(), ("some", "newline", "words", "enter")),
    ):
        clock = Clock()
        asked = sheet(clock, below)
        read(asked, clock)
        press(asked, *pressed)
        assert (asked.unheard, asked.over) == ("", True)


@few
@given(st.lists(st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1, max_size=3), max_size=9))
def test_before_it_is_read_no_letter_is_lost(typed: list[str]) -> None:
    asked = sheet(Clock(), Menu([*ABC, *WITH_WORDS]))
    asked.draw(60, 20)
    for text in typed:
        asked.press("text", text)
    assert (asked.unheard, asked.over) == ("".join(typed), False)


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
    asked = sheet(clock, Menu(ABC, narrowed=True))
    asked.draw(60, 20)
    press(asked, "b", "enter")
    assert not asked.over
    clock.now += READ
    press(asked, "enter")
    assert asked.said == MenuSelection((1,))


def test_ctrl_c_is_told_from_escape() -> None:
    asked = sheet(Clock())
    press(asked, "c-c")
    assert asked.over
    assert asked.broken_off


def test_closing_ends_the_wait() -> None:
    async def main() -> MenuSelection | None:
        asked = sheet(Clock())
        asyncio.get_running_loop().call_soon(asked.close)
        return await asked.answer()

    assert asyncio.run(main()) is None


def test_the_first_answer_stands() -> None:
    clock = Clock()
    asked = sheet(clock)
    read(asked, clock)
    press(asked, "2", "3", "escape", "c-c")
    assert asked.said == MenuSelection((1,))
    assert not asked.broken_off


def test_words_alone() -> None:
    clock = Clock()
    asked = sheet(clock, FreeTextChoice())
    read(asked, clock)
    press(asked, "some", "space", "words\nof mine")
    assert "❯ some words¶of mine " in plain(asked.draw(60, 20))
    press(asked, "enter")
    assert asked.said == MenuSelection((), "some words\nof mine")


@few
@given(st.lists(keys, max_size=8), st.integers(0, 40), widths, st.integers(1, 5) | heights)
def test_a_sheet_never_fails_and_never_exceeds_its_place(
    pressed: list[Key], lines: int, width: int, height: int
) -> None:
    clock = Clock()
    asked = sheet(clock, Menu([*ABC, *WITH_WORDS]), lines)
    asked.note = "(1 more question waits)"
    for key in pressed:
        drawn = asked.draw(width, height)
        fits(drawn, width, height)
        assert marked(drawn) == 1
        clock.now += 1
        asked.press(*key)


def test_a_blank_line_stands_above_the_question_of_a_long_page() -> None:
    page = ScrollPage.of(*[Text(f"line {number}") for number in range(60)])
    asked = PageDialog("Title", page, Menu(ABC), lambda found: found, now=Clock(), asks="Sure?")
    for height, blank in ((35, True), (20, True), (19, False)):
        lines = plain(asked.draw(60, height))
        above = lines[lines.index("Sure?") - 2 : lines.index("Sure?")]
        assert (above[1] == "") == blank
        assert above[0 if blank else 1].endswith("more lines")
        assert len(lines) == height
