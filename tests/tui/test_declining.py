"""What a plain no ends, and what it leaves alone (settled 36)."""

from __future__ import annotations

import json
from typing import Any

from cli.stage import Serve, Stage
from cli.terminal import without_notes

from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from tui.person import ESCAPE, SitAt
from tui.test_terminal import tool_use


def results(received: ReceivedRequest) -> dict[str, str]:
    """By the id of the call."""
    messages: list[dict[str, Any]] = received.body["messages"]
    lists: list[list[dict[str, Any]]] = [one["content"] for one in messages if isinstance(one["content"], list)]
    found = [block for blocks in lists for block in blocks if block["type"] == "tool_result"]
    return {block["tool_use_id"]: json.dumps(block["content"]) for block in found}


def outside(stage: Stage) -> None:
    (stage.folder.parent / "outside.txt").write_text("not for everybody\n")


def test_a_no_to_a_call_of_an_agent(serve: Serve, sit_at: SitAt) -> None:
    """It ends the agent's run, which tells the session so; the session goes on."""
    given = {"description": "look", "prompt": "look below", "subagent_type": "general-purpose"}

    def choose(received: ReceivedRequest) -> Reply:
        if "look below" in json.dumps(received.body["messages"][0]):
            return Say.of(tool_use("Read", "toolu_3", file_path="../outside.txt"))
        if received.talk.results():
            return Say.of("The agent was stopped.")
        return Say.of(tool_use("Agent", "toolu_4", run_in_background=False, **given))

    stage = serve(choose=choose)
    outside(stage)
    without_notes(stage)
    person = sit_at(stage, rows=40, columns=120)
    person.say("go")
    person.see("outside.txt", "1. Yes")
    person.answer(ESCAPE, "1. Yes")
    person.see("The agent did not finish", "The agent was stopped.", "2 turns")
    asked = [request for request in stage.requests if "look below" not in json.dumps(request.body["messages"][0])]
    assert (len(asked), len(stage.requests)) == (2, 3)
    assert "The user declined this call" in results(asked[-1])["toolu_4"]


def test_a_no_lets_running_calls_finish(serve: Serve, sit_at: SitAt) -> None:
    """The command was under way when the question was put: its output is there, and it was not ended."""

    def choose(received: ReceivedRequest) -> Reply:
        if received.talk.results():
            return Say.of("I heard both.")
        reading = tool_use("Bash", "toolu_1", command="until test -e flag; do sleep 0.1; done; cat flag")
        return Say.of(reading, tool_use("Read", "toolu_2", file_path="../outside.txt"))

    stage = serve(choose=choose)
    outside(stage)
    without_notes(stage)
    person = sit_at(stage, rows=40, columns=120)
    person.say("go")
    person.see("outside.txt", "1. Yes")
    person.answer(ESCAPE, "1. Yes")
    (stage.folder / "flag.new").write_text("said after the no")
    (stage.folder / "flag.new").rename(stage.folder / "flag")
    person.see("said after the no")
    person.say("and?")
    person.see("I heard both.")
    found = results(stage.requests[-1])
    assert "said after the no" in found["toolu_1"]
    assert "not for everybody" not in found["toolu_2"]
    assert len(stage.requests) == 2
