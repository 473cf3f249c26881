"""Questions that grant something: what is no explicit choice grants nothing (settled 36)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.agent.permission_updates import READ
from mainspring.cli.tui.dialog import BURST, PageDialog
from mainspring.cli.tui.permission_dialog import (
    ApprovalScope,
    PermissionChoice,
    PermissionDialog,
    PlanAnswer,
    make_permission_dialog,
    make_plan_dialog,
)
from mainspring.cli.tui.session import make_trust_dialog
from mainspring.permissions.policy import Mode
from mainspring.tools.plan import format_plan_question
from tui.hands import Clock, Key, few, fits, heights, keys, plain, press, read, widths
from tui.test_permission import EDIT

Made = Callable[[Clock], PageDialog[Any] | PermissionDialog]


def of_folder(clock: Clock) -> PageDialog[Any]:
    return make_trust_dialog(["hooks", "commands (/review)"], "/work", now=clock)


def of_call(clock: Clock) -> PermissionDialog:
    return make_permission_dialog(EDIT, now=clock, mode=Mode.DEFAULT)


def of_rules(clock: Clock) -> PermissionDialog:
    """The second page, just opened."""
    sheet = make_permission_dialog(EDIT, now=clock, mode=Mode.DEFAULT)
    read(sheet, clock)
    press(sheet, "4", "enter")
    assert not sheet.over
    return sheet


def plan_in(mode: str) -> Made:
    def made(clock: Clock) -> PageDialog[Any]:
        sheet = make_plan_dialog(format_plan_question("# Do it", mode), clock)
        assert sheet is not None
        return sheet

    return made


def wide(said: object) -> bool:
    """More than one call."""
    if isinstance(said, PermissionChoice):
        return said.scope not in (ApprovalScope.NEVER, ApprovalScope.ONCE)
    if isinstance(said, PlanAnswer):
        return bool(said.mode)
    return said == "yes"


def grants(said: object) -> bool:
    if isinstance(said, PermissionChoice):
        return said.scope is not ApprovalScope.NEVER
    if isinstance(said, PlanAnswer):
        return said.words == "yes"
    return said == "yes"


ALL = {
    "folder": of_folder,
    "call": of_call,
    "rules": of_rules,
    "plan": plan_in("default"),
    "plan, bypass": plan_in("bypassPermissions"),
}
every = pytest.mark.parametrize("made", ALL.values(), ids=ALL)
settled = pytest.mark.parametrize("made", [of_folder, plan_in("bypassPermissions")], ids=["folder", "plan, bypass"])


def settle(sheet: PageDialog[Any] | PermissionDialog, clock: Clock) -> None:
    clock.now += 2 * BURST
    sheet.settle()


@every
def test_nothing_is_filtered(made: Made) -> None:
    clock = Clock()
    sheet = made(clock)
    assert not [line for line in read(sheet, clock) if "ilter" in line]


@settled
def test_enter_alone_takes_the_safe_choice(made: Made) -> None:
    clock = Clock()
    sheet = made(clock)
    read(sheet, clock)
    press(sheet, "enter")
    assert sheet.over
    assert not grants(sheet.said)


@pytest.mark.parametrize("keys", [("2",), ("2", "enter"), ("down", "enter"), ("up", "enter")])
def test_a_folder_is_trusted_by_its_number_or_its_line(keys: tuple[str, ...]) -> None:
    clock = Clock()
    sheet = of_folder(clock)
    read(sheet, clock)
    press(sheet, *keys)
    settle(sheet, clock)
    assert (sheet.over, sheet.said) == (True, "yes")


@pytest.mark.parametrize("typed", ["hi", "trust", "yes", "just do it", "j", "t", "2 files are missing", "12", "22"])
@every
def test_words_and_enter_are_no_choice(made: Made, typed: str) -> None:
    """At once, and with a pause before the Enter: it belongs to the words, which are kept for the input line."""
    for pause in (0.0, 2 * READ):
        clock = Clock()
        sheet = made(clock)
        read(sheet, clock)
        for letter in typed:
            press(sheet, "space" if letter == " " else letter)
        clock.now += pause
        if typed == "2":
            continue
        press(sheet, "enter")
        settle(sheet, clock)
        if not sheet.over:
            assert sheet.unheard == typed
        assert not grants(sheet.said) or not sheet.over


@every
def test_keys_from_before_it_was_drawn_do_nothing(made: Made) -> None:
    clock = Clock()
    sheet = made(clock)
    press(sheet, "down", "1", "2", "3", "s-tab", "enter", "end")
    lines = read(sheet, clock)
    settle(sheet, clock)
    assert not sheet.over
    fresh = made(Clock())
    assert lines == plain(fresh.draw(80, 24)), "an arrow from before moves nothing"
    assert sheet.unheard == "123"


@every
@pytest.mark.parametrize("drawn", [False, True])
def test_an_enter_belongs_to_the_word_that_was_begun_before(made: Made, drawn: bool) -> None:
    """A letter before the question is on the screen, and Enter long after it."""
    clock = Clock()
    sheet = made(clock)
    if drawn:  # the letter stands in the input line already
        sheet.expect_rest_of_word()
    else:
        press(sheet, "x")
    read(sheet, clock)
    press(sheet, "enter")
    settle(sheet, clock)
    assert not sheet.over
    clock.now += 2 * READ
    before = plain(sheet.draw(80, 24))
    press(sheet, "enter")
    assert sheet.over or plain(sheet.draw(80, 24)) != before, "the next one is an answer"


@every
def test_a_paste_is_no_choice(made: Made) -> None:
    clock = Clock()
    sheet = made(clock)
    read(sheet, clock)
    for text in ("1", "2", "3", "2\n", "yes\n"):
        sheet.press("paste", text)
        clock.now += 2 * READ
        sheet.settle()
    assert not sheet.over
    assert sheet.unheard == "1232\nyes\n"


@every
def test_a_held_enter_answers_nothing_that_came_while_it_was_held(made: Made) -> None:
    clock = Clock()
    sheet = made(clock)
    sheet.draw(80, 24)
    for _ in range(100):
        clock.now += 0.03
        press(sheet, "enter")
        sheet.settle()
    assert not sheet.over


@every
def test_arrows_that_come_too_soon_are_no_beginning_of_a_choice(made: Made) -> None:
    clock = Clock()
    sheet = made(clock)
    sheet.draw(80, 24)
    clock.now += READ - 0.1
    press(sheet, "down")
    clock.now += READ - 0.1
    press(sheet, "enter")
    assert not sheet.over


typists = st.lists(st.tuples(st.text("hi yes trust2 13jk", min_size=1, max_size=12), st.booleans()), max_size=6)


@few
@given(st.sampled_from(sorted(ALL)), typists, st.booleans())
def test_whoever_types_without_looking_grants_no_more_than_a_call(
    name: str, said: list[tuple[str, bool]], early: bool
) -> None:
    """Sentences, each ended by Enter, in the pace of somebody who types. A number alone is a choice: not tried."""
    clock = Clock()
    sheet = ALL[name](clock)
    if not early:
        read(sheet, clock)
    for words, pauses in said:
        if len(words) == 1 and words.isdecimal():
            continue
        for letter in words:
            press(sheet, "space" if letter == " " else letter)
            clock.now += BURST / 2
            sheet.draw(80, 24)
            sheet.settle()
        clock.now += READ * 2 if pauses else 0
        press(sheet, "enter")
        clock.now += READ * 2 if pauses else BURST / 2
    assert not (sheet.over and wide(sheet.said))


random_keys = st.lists(st.tuples(keys, st.sampled_from((0.0, BURST / 2, READ * 2)), widths, heights), max_size=12)


@few
@given(st.sampled_from(sorted(ALL)), random_keys)
def test_random_keys_and_sizes_lose_no_text_and_grant_only_by_an_answering_key(
    name: str, pressed: list[tuple[Key, float, int, int]]
) -> None:
    """A grant of more than one call needs its number, its own key, or Enter on its line; typed text is never lost."""
    clock = Clock()
    sheet = ALL[name](clock)
    typed, answered = "", False
    for (key, text), pause, width, height in pressed:
        lines = sheet.draw(width, height)
        fits(lines, width, height)
        clock.now += pause
        sheet.settle()
        if sheet.over:
            break
        answered = answered or key in ("enter", "s-tab") or (key == "text" and text in tuple("123456789"))
        typed += text if key == "text" and text.isalpha() and text.isascii() else ""
        sheet.press(key, text)
    clock.now += 2 * BURST
    sheet.settle()
    if sheet.over and wide(sheet.said):
        assert answered
    if not sheet.over and not any(
        key in ("enter", "up", "down", "c-p", "c-n", "home", "end", "pageup", "pagedown") or text[:1].isdigit()
        for (key, text), *_ in pressed
    ):
        assert all(letter in sheet.unheard for letter in typed)


@pytest.mark.parametrize("gap", [0.03, 0.12, 0.2])
def test_a_held_enter_that_arrives_unevenly_grants_nothing(gap: float) -> None:
    """A slow connection delays some of the keys."""
    clock = Clock()
    sheet = of_call(clock)
    plain(sheet.draw(80, 24))
    for _ in range(50):
        press(sheet, "enter")
        clock.now += gap
    assert not sheet.over
    clock.now += READ
    press(sheet, "enter")
    assert grants(sheet.said)
