"""Agents in the background: how long they work, and what they report."""

from __future__ import annotations

import pytest

from mainspring.core.messages import Origin, ToolCall, user
from mainspring.core.updates import AgentDone, AgentStarted, AgentUpdate, CallStarted, Injected
from mainspring.engine.subagents import REPORT
from tui.seeing import Watching
from tui.test_shown import ENDED


def sent(width: int = 80) -> Watching:
    seen = Watching(width).reply().calls("Agent", description="look")
    return seen.see(AgentStarted("c", "a", "Explore", "look", user("go"), background=True)).done("It works.")


def report(text: str, status: str = "completed", agent: str = "a") -> Injected:
    return Injected(user(REPORT.format(id=agent, status=status, text=text), Origin.REPORT))


CALLED = AgentUpdate("c", "a", CallStarted(ToolCall("1", "Grep", {}), "Grep x"))


@pytest.mark.parametrize(
    ("text", "status", "line"),
    [
        ("It is\x1b here.\nAnd there.", "completed", "● Agent(Explore: look) reported: It is here."),
        ("", "completed", "● Agent(Explore: look) reported: nothing"),
        ("No money.", "failed", "● Agent(Explore: look) failed: No money."),
    ],
)
def test_the_first_line_of_a_report_is_told(text: str, status: str, line: str) -> None:
    seen = sent().see(AgentDone("c", "a", ENDED), report(text, status))
    assert seen.paper.said[-1] == line


def test_a_long_line_stands_below() -> None:
    seen = sent(40).see(report("It is in the file that you have just looked at."))
    assert seen.paper.said[-2:] == ["● Agent(Explore: look) reported:", "  ⎿  It is in the file that you have ju…"]


def test_an_agent_that_ended_between_two_runs_is_not_drawn_for_ever() -> None:
    seen = sent()
    seen.shown.ends()
    seen.shown.begins()
    assert seen.drawn()[0] == "● Agent(Explore: look) 0 s"
    assert len(seen.see(report("Here.")).drawn()) == 1


def test_who_it_was_may_not_be_known() -> None:
    """Of a session that is taken up again."""
    assert Watching().reply().see(report("Here.", agent="z")).paper.said == ["● Agent reported: Here."]


@pytest.mark.parametrize("text", ["Here.", REPORT.format(id="a", status="completed", text="Not one.")])
def test_what_a_person_says_is_no_report(text: str) -> None:
    assert Watching().reply().see(Injected(user(text))).paper.said == []


def test_calls_are_counted_only_while_they_are_seen() -> None:
    seen = sent()
    seen.time = 7.0
    assert seen.drawn()[0] == "● Agent(Explore: look) 7 s"
    assert seen.see(CALLED).drawn()[:2] == ["● Agent(Explore: look) 1 call · 7 s", "  ⎿  Grep(x)"]
    seen.shown.ends()
    seen.shown.begins()
    assert seen.see(CALLED).drawn()[0] == "● Agent(Explore: look) 7 s"
    before = list(seen.paper.said)
    assert seen.see(AgentDone("c", "a", ENDED)).paper.said == before  # its report follows
