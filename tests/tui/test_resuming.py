"""`--resume` without a value: the list of sessions before there is one."""

from __future__ import annotations

import pytest
from cli.stage import Serve
from cli.terminal import without_notes

from mainspring.cli.plain_session_list import ask_for_session
from mainspring.simulator.replies import Say
from tui.person import CTRL_D, ENTER, ESCAPE, TAB, SitAt


def test_a_session_of_another_folder_is_picked_and_goes_on(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Here."), Say.of("There."), Say.of("Still there."))
    without_notes(stage)
    assert stage.run("-p", "in this folder").returncode == 0
    here, stage.folder = stage.folder, stage.folder.parent / "elsewhere"
    stage.folder.mkdir()
    assert stage.run("-p", "in the other one").returncode == 0
    stage.folder = here
    person = sit_at(stage, "--resume")
    person.see("Resume a session  this folder", "❯ in this folder", "│ ● Here.")
    person.type(TAB)
    person.see("❯ in the other one", "│ ● There.")
    person.answer(ENTER, "Resume a session")
    person.see("● There.")
    person.say("more")
    person.see("Still there.")
    assert "in the other one" in str(stage.requests[-1].body)
    person.type(CTRL_D)
    assert person.end() == 0


@pytest.mark.long
def test_escape_starts_a_new_session(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Old."), Say.of("New."))
    without_notes(stage)
    stage.run("-p", "before")
    person = sit_at(stage, "--resume")
    person.see("Resume a session")
    person.type(ESCAPE)
    person.see("? for shortcuts")
    person.say("hello")
    person.see("New.")
    assert "before" not in str(stage.requests[-1].body["messages"])


@pytest.mark.long
def test_a_terminal_that_is_closed_meanwhile_ends_it(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Old."))
    without_notes(stage)
    stage.run("-p", "before")
    person = sit_at(stage, "--resume")
    person.see("Resume a session")
    person.hang_up()
    person.process.wait(30)


def test_without_a_terminal_it_needs_a_name(serve: Serve) -> None:
    done = serve().run("-p", "--resume")
    assert done.returncode == 1
    assert b"'--resume' needs a session here: '--resume ID'. Run 'mainspring sessions' to list them" in done.stderr


class Lines:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str = "", _: object = None) -> None:
        self.lines.append(text)


def test_a_plain_list_takes_a_number(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("One."), Say.of("Two."))
    without_notes(stage)
    stage.run("-p", "first")
    stage.run("-p", "second")
    monkeypatch.setenv("MAINSPRING_HOME", str(stage.home))
    monkeypatch.chdir(stage.folder)
    answers = iter(["3", "x", "2"])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    output = Lines()
    chosen = ask_for_session(output)
    assert chosen in {path.stem for path in stage.sessions()}
    assert [line.split()[-1] for line in output.lines[:2]] == ["second", "first"]
    assert output.lines[2:] == ["There is no session 3.", "There is no session x."]
    assert chosen is not None
    assert "first" in next(path for path in stage.sessions() if path.stem == chosen).read_text()


SLOW = Say.of("A reply that takes its time, and then some more of it, and more.", pace_ms=1_000)


def test_a_side_question_is_answered_during_a_run(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(SLOW, Say.of("It is on the side."))
    without_notes(stage)
    person = sit_at(stage)
    person.say("go")
    person.see("A reply")
    person.say("/btw what is it?")
    person.see("It is on the side.", "(beside the conversation, $")
    assert "1 turn" not in person.text, "the run goes on"
    person.type(ESCAPE)
    person.see("(interrupted)")
