"""On a pty: random typing, early keys, bursts and pastes at the questions that grant something. No explicit choice, no
grant; with one, a grant. `tests/long/test_typing_at_questions.py` does more of the same."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from cli.stage import Serve, Stage, until
from cli.terminal import Terminal, without_notes
from tiers import long

from mainspring.settings.trust import is_trusted
from mainspring.simulator.replies import Say
from tui.person import DOWN, ENTER, ESCAPE, Person, SitAt
from tui.test_terminal import tool_use
from tui.typist import PLANNED, at_a_call, at_a_plain_prompt, at_a_plan, at_trust, folder_with_hooks

CALL = Say.of(tool_use("Bash", command="touch made"))
PLAN = Say.of(tool_use("ExitPlanMode", plan=PLANNED))
ANSWERS = [Say.of("I see.")] * 40


@pytest.mark.parametrize("seed", [0, long(1), long(2)])
def test_typing_at_the_question_about_trust(serve: Serve, sit_at: SitAt, seed: int) -> None:
    at_trust(serve(*ANSWERS), sit_at, seed)


@pytest.mark.parametrize("early", [False, True])
def test_typing_at_the_question_about_a_call(serve: Serve, sit_at: SitAt, early: bool) -> None:
    at_a_call(serve(CALL, *ANSWERS), sit_at, 7, early=early)


@pytest.mark.parametrize("seed", [0, long(1)])
def test_typing_at_the_question_about_a_plan(serve: Serve, sit_at: SitAt, seed: int) -> None:
    at_a_plan(serve(PLAN, *ANSWERS), sit_at, seed)


@pytest.mark.parametrize("seed", [0, 1, long(2), long(3)])
def test_typing_at_the_question_about_a_call_line_by_line(serve: Serve, seed: int) -> None:
    at_a_plain_prompt(serve(CALL, *ANSWERS), seed)


def test_a_key_from_before_the_prompt_is_no_part_of_the_answer(serve: Serve) -> None:
    stage = serve(CALL, *ANSWERS)
    without_notes(stage)
    with closing(Terminal(stage)) as terminal:
        terminal.say("go")
        until(lambda: bool(stage.requests))
        terminal.type("y")
        terminal.see("Allow? [")
        terminal.type(ENTER)
        terminal.see("> ")
    assert not (stage.folder / "made").exists()


def test_a_word_that_matches_is_no_consent(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(*ANSWERS)
    ran = folder_with_hooks(stage)
    person = sit_at(stage)
    person.see("❯ 1. No, continue without them")
    assert "ilter" not in person.text
    person.type("hi" + ENTER)
    person.see("Input: hi")
    time.sleep(1)  # longer than any guard: a grant would come now
    person.type(ENTER)
    person.see_no("Do you trust this folder?")
    assert not is_trusted(str(stage.home), str(stage.folder))
    assert not ran.exists()
    person.see("❯ hi")


@pytest.mark.parametrize("keys", ["2", "2" + ENTER, DOWN + ENTER])
def test_an_explicit_choice_is_consent(serve: Serve, sit_at: SitAt, keys: str) -> None:
    stage = serve(*ANSWERS)
    folder_with_hooks(stage)
    person = sit_at(stage)
    person.see("2. Yes, trust this folder")
    time.sleep(0.6)  # the guard
    person.type(keys)
    person.see("Now enabled: hooks.")
    assert is_trusted(str(stage.home), str(stage.folder))


def held_down(serve: Serve, sit_at: SitAt) -> tuple[Stage, Person]:
    """At the first of two questions, Enter is held down. On a busy machine the key may come too late to count as held:
    then once more."""
    calls = [tool_use("Bash", f"toolu_{number}", command=f"touch made{number}") for number in range(2)]
    for _ in range(10):
        stage = serve(Say.of(*calls), Say.of("Done."))
        without_notes(stage)
        person = sit_at(stage)
        person.say("make them")
        person.see("touch made0", "❯ 1. Yes")
        time.sleep(0.6)  # the guard
        longest, last = 0.0, time.monotonic()
        for _ in range(41):
            person.type(ENTER)
            time.sleep(0.03)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        if longest < 0.2:  # half of the guard
            return stage, person
    raise AssertionError("the machine is too busy to hold a key down")


def test_the_enter_for_the_first_question_does_not_answer_the_second(serve: Serve, sit_at: SitAt) -> None:
    stage, person = held_down(serve, sit_at)
    person.see("touch made1", "❯ 1. Yes")
    person.until((stage.folder / "made0").exists)
    assert not (stage.folder / "made1").exists()
    person.type(ESCAPE)
    person.see("Declined")
    person.say("and now?")
    person.see("Done.")
    assert len(stage.requests) == 2, "a no ends the run"
    assert not (stage.folder / "made1").exists()


@pytest.mark.parametrize("keys", [ESCAPE, "3" + ENTER])
def test_no_ends_the_run_and_denies_what_waits(serve: Serve, sit_at: SitAt, keys: str) -> None:
    calls = [tool_use("Bash", f"toolu_{number}", command=f"touch made{number}") for number in range(3)]
    stage = serve(Say.of(*calls), Say.of("Here."))
    without_notes(stage)
    person = sit_at(stage)
    person.say("make them")
    person.see("touch made0", "❯ 1. Yes")
    time.sleep(0.6)  # the guard
    person.type(keys)
    person.see("Declined", "1 turn ·")
    assert len(stage.requests) == 1
    person.say("and now?")
    person.see("Here.")
    assert not list(stage.folder.glob("made*"))
