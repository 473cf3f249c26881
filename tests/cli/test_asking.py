"""A question of a running call, put to whoever sits in front of the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from cli.stage import Serve, Stage
from cli.terminal import CTRL_C, SitAt, sit_at, without_notes
from mainspring.simulator.replies import Say

__all__ = ["sit_at"]  # a fixture


def bash(command: str, number: int = 1) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}


def told(stage: Stage, request: int) -> str:
    return str(stage.requests[request].body["messages"][-1]["content"])


@pytest.mark.covers("N-11")
def test_yes_is_for_once(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(bash("touch made")), Say.of(bash("touch made", 2)), Say.of("Done."))
    terminal = sit_at(stage)
    terminal.say("go")
    shown = terminal.see("Allow? [y/a/p/n] ")
    assert "Tool: Bash touch made\n" in shown
    assert "Question: allow Bash: touch made\n1 or y: yes\n2 or a: " in shown
    assert not (stage.folder / "made").exists()
    terminal.type("y\r")
    terminal.see("Allow? [y/a/p/n] ")
    assert (stage.folder / "made").exists()
    terminal.type("n\r")
    terminal.say("and now?")  # a plain no ends the run
    terminal.see("Done.")
    assert "The user declined this call and stopped the run" in told(stage, 2)


def test_always_covers_what_was_shown_and_nothing_else(serve: Serve, sit_at: SitAt) -> None:
    calls = [Say.of(bash(command, number)) for number, command in enumerate(["touch a", "touch a", "touch b"])]
    stage = serve(*calls, Say.of("Done."))
    terminal = sit_at(stage)
    terminal.say("go")
    assert "a: don't ask again this session for `touch a`" in terminal.see("[y/a/p/n] ")
    terminal.type("a\r")
    shown = terminal.see("[y/a/p/n] ")  # the second one is not asked
    assert "touch b" in shown
    terminal.type("go and ask somebody else\r")
    terminal.see("Done.")
    assert "The user said no: go and ask somebody else" in told(stage, 3)
    assert (stage.folder / "a").exists()
    assert not (stage.folder / "b").exists()


@pytest.mark.needs("bwrap")
def test_an_answer_leaves_no_empty_line(serve: Serve, sit_at: SitAt) -> None:
    """Whoever answers has pressed Enter, and the terminal has begun a line."""
    terminal = sit_at(serve(Say.of(bash("touch made")), Say.of("Done.")))
    terminal.say("go")
    terminal.see("Allow? [y/a/p/n] ")
    terminal.type("y\r")
    assert terminal.see("Done.").startswith("y\nResult: ")


def test_what_is_neither_is_asked_again(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(bash("touch made")), Say.of("Done."))
    terminal = sit_at(stage)
    terminal.say("go")
    terminal.see("Allow? [y/a/p/n] ")
    terminal.type("x\r")
    terminal.see("Allow? [y/a/p/n] ")
    terminal.type("Yes\r")
    terminal.see("Done.")
    assert (stage.folder / "made").exists()


def test_ctrl_c_at_the_question_ends_the_turn_and_nothing_runs(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(bash("touch made")), Say.of("Still here."))
    terminal = sit_at(stage)
    terminal.say("go")
    terminal.see("Allow? [y/a/p/n] ")
    terminal.type("half an answer")
    terminal.see("half an answer")
    terminal.type(CTRL_C)
    terminal.see("(interrupted)")
    terminal.say("and now?")
    terminal.see("Still here.")
    assert "half an answer" not in str(stage.requests[1].body["messages"])
    assert not (stage.folder / "made").exists()
    assert "interrupted before it ran. It had no effect." in str(stage.requests[1].body["messages"])


def test_what_was_typed_before_the_question_was_there_is_no_answer(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Let me see what there is.", bash("touch made"), pace_ms=70), Say.of("Done."))
    terminal = sit_at(stage)
    terminal.say("go")
    terminal.see("Let me")
    terminal.type("y\ry\ry\r")
    terminal.see("Allow? [y/a/p/n] ")
    terminal.type("n\r")
    terminal.see("> ")
    terminal.see("y y y")  # it was meant for the next prompt
    terminal.type("\r")
    terminal.see("Done.")
    assert not (stage.folder / "made").exists()
    assert "The user declined this call and stopped the run" in told(stage, 1)


def test_an_answer_that_is_pasted_is_one_answer(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(bash("touch made")), Say.of("Done."))
    without_notes(stage)
    terminal = sit_at(stage)
    terminal.say("go")
    terminal.see("Allow? [y/a/p/n] ")
    terminal.type("y\rno, wait:\rlook at the folder first\r")
    terminal.see("Done.")
    assert "The user said no: y\\nno, wait:\\nlook at the folder first" in told(stage, 1)
    assert len(stage.requests) == 2
    assert not (stage.folder / "made").exists()


def test_what_could_mislead_is_shown_as_it_is(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(bash("touch \x1b[2Jmade \u202etxt")), Say.of("Done."))
    terminal = sit_at(stage)
    terminal.say("go")
    shown = terminal.see("Allow? [y/")
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown
    assert "202e" in shown.lower()


def test_an_edit_is_shown_before_it_is_made(serve: Serve, sit_at: SitAt) -> None:
    read = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.txt"}}
    edit = {"file_path": "a.txt", "old_string": "old", "new_string": "new"}
    stage = serve(Say.of(read, {"type": "tool_use", "id": "toolu_2", "name": "Edit", "input": edit}), Say.of("Done."))
    (stage.folder / "a.txt").write_text("old\n")
    terminal = sit_at(stage)
    terminal.say("go")
    shown = terminal.see("Allow? [y/a/p/n] ")
    assert "  1 line removed, 1 line added\n  removed: old\n  added: new\n" in shown
    terminal.type("y\r")
    terminal.see("Done.")
    assert (stage.folder / "a.txt").read_text() == "new\n"


def test_a_question_of_the_model(serve: Serve, sit_at: SitAt) -> None:
    options = [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]
    question = {"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": False}
    ask = {"type": "tool_use", "id": "toolu_1", "name": "AskUserQuestion", "input": {"questions": [question]}}
    stage = serve(Say.of(ask), Say.of("Blue it is."))
    terminal = sit_at(stage)
    terminal.say("go")
    terminal.see("Which colour?")
    terminal.see("> ")
    terminal.type("2\r")
    terminal.see("Blue it is.")
    assert "blue" in told(stage, 1)


def test_a_number_answers_too_and_the_question_says_what_enter_does(serve: Serve, sit_at: SitAt) -> None:
    calls = [Say.of(bash(command, number)) for number, command in enumerate(["touch a", "touch a", "touch b"])]
    stage = serve(*calls, Say.of("Done."))
    terminal = sit_at(stage)
    terminal.say("go")
    shown = terminal.see("[y/a/p/n] ")
    assert "\n1 or y: yes\n2 or a: " in shown
    assert "\n4 or n: no. Enter alone means no; other text is a no with your reason\n" in shown
    assert "\x1b" not in shown
    terminal.type("2\r")
    assert "touch b" in terminal.see("[y/a/p/n] ")
    terminal.type("4\r")
    terminal.see("> ")
    assert (stage.folder / "a").exists()
    assert not (stage.folder / "b").exists()
