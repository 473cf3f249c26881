"""Prompts and resources of servers at every door: with `-p`, in a conversation, over the pipe."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import serve  # noqa: F401  # a fixture
from cli.nursery import begun
from cli.stage import Serve, frames
from cli.terminal import SitAt, sit_at, without_notes
from cli.test_commands import said
from pipe.stage import staged

from mainspring.simulator.replies import Say
from mcp_servers.by_hand import by_hand
from mcp_servers.stage import LIBRARY

__all__ = ["sit_at"]  # a fixture

HERE: dict[str, Any] = {"library": {"command": sys.executable, "args": [LIBRARY]}}
WITH = ("--mcp-config", json.dumps({"mcpServers": HERE}))
GREETED = "Say hello to Ann, kindly."


HAND = """
def get(params):
    text = f"Greet {params['arguments']['whom']}."
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
def listed(params):
    return {"prompts": [{"name": "greet", "arguments": [{"name": "whom", "required": True}]}]}
serve(has=("tools", "resources", "prompts"), more={"prompts/list": listed, "prompts/get": get})
"""


def quickly() -> tuple[str, str]:
    """The same as `WITH`; the server is begun by a fork."""
    command, *args = begun(LIBRARY)
    return "--mcp-config", json.dumps({"mcpServers": {"library": {"command": command, "args": args}}})


def call(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": input}


@pytest.mark.covers("N-09")
def test_a_prompt_with_p(serve: Serve) -> None:  # noqa: F811
    stage = serve(Say.of("Hi."))
    servers = {"mcpServers": {"hand": {"command": sys.executable, "args": ["-c", by_hand(HAND)]}}}
    flags = ("--mcp-config", json.dumps(servers), "--output-format", "stream-json", "--verbose")
    done = stage.run("-p", "/mcp__hand__greet Ann", *flags)
    assert (done.returncode, done.stderr) == (0, b"")
    init, *_ = frames(done.stdout)
    assert "mcp__hand__greet" in init["slash_commands"]
    assert "mcp__hand__greet" not in init["skills"]
    assert init["tools"][-3:] == ["mcp__hand__hello", "ListMcpResourcesTool", "ReadMcpResourceTool"]
    first, second = [text for text in said(stage) if "greet" in text]
    assert first == "/mcp__hand__greet Ann"
    assert "\nGreet Ann.\n" in second


def test_one_that_cannot_be_had_costs_nothing(serve: Serve) -> None:  # noqa: F811
    stage = serve()
    done = stage.run("-p", "/mcp__library__broken", *quickly())
    assert done.stdout.startswith(b"The MCP server 'library' refused the call: ")
    assert stage.requests == []


def test_a_resource_is_named_and_another_is_read(serve: Serve) -> None:  # noqa: F811
    wish = call("ReadMcpResourceTool", server="library", uri="book://Emma/page/7")
    stage = serve(Say.of("Let me see.", call("ListMcpResourcesTool"), wish), Say.of("I see."))
    rule = ("--allowedTools", "ReadMcpResourceTool(library)")
    done = stage.run("-p", "What is in @library:shelf://all, then?", *quickly(), *rule)
    assert done.stdout == b"I see.\n"
    (shelf,) = [text for text in said(stage, 0) if text.startswith("<mcp-resource ")]
    assert "Moby Dick" in shelf
    listed, read = [part for part in stage.requests[1].body["messages"][-1]["content"] if part["type"] == "tool_result"]
    assert "shelf://cover" in json.dumps(listed["content"])  # to list needs no rule
    assert "Page 7 of Emma." in json.dumps(read["content"])


def test_a_rule_against_it_holds_for_names_too(serve: Serve) -> None:  # noqa: F811
    stage = serve(Say.of("Well."))
    settings = '{"permissions": {"ask": ["ReadMcpResourceTool"]}}'
    stage.run("-p", "What is in @library:shelf://all, then?", *quickly(), "--settings", settings)
    (shelf,) = [text for text in said(stage, 0) if text.startswith("<mcp-resource ")]
    assert "[Not attached: a rule keeps it from being read.]" in shelf
    assert "Moby Dick" not in shelf


def test_in_a_conversation(serve: Serve, sit_at: SitAt) -> None:  # noqa: F811
    """The first thing that is said may be a prompt of a server that is not there yet."""
    stage = serve(Say.of("Hi, Ann."), Say.of("Let me see.", call("mcp__library__join")), Say.of("Joined."))
    without_notes(stage)  # or the last request may be the one for them
    seat = sit_at(stage, *WITH, "--allowedTools", "mcp__library")
    seat.say("/mcp__library__greet Ann")
    seat.see("Hi, Ann.")
    assert any(GREETED in text for text in said(stage))
    seat.say("/mcp__library__greet")
    seat.see("'/mcp__library__greet' needs 'whom': write '/mcp__library__greet whom [how]'")
    seat.say("/help")
    seat.see("/mcp__library__greet whom [how]")
    seat.say("join")
    seat.see("The MCP server 'library' asks: Who are you?")
    for answer, then in (("y", "name: "), ("Ann", "age: "), ("30", "sort: "), ("1", "news: "), ("", "Joined.")):
        seat.say(answer)
        seat.see(then)
    (result,) = [part for part in stage.requests[-1].body["messages"][-1]["content"] if part["type"] == "tool_result"]
    assert '"sort":"child"' in str(result["content"])
    seat.say("/exit")
    assert seat.end() == 0


def test_over_the_pipe(tmp_path: Path) -> None:
    """A server's question has no words there: it is declined."""
    made = tmp_path / "work"
    made.mkdir()
    with staged((Say.of("Let me see.", call("mcp__library__join")), Say.of("No.")), made) as stage:
        told = stage.ask("/mcp__library__greet Ann", mcp_servers=HERE, allowed_tools=["mcp__library"])
        assert told.error is None
        assert "mcp__library__greet" in told.init["slash_commands"]
        assert GREETED in json.dumps(stage.requests[0].body["messages"])
        (joined,) = told.outcomes
        assert (joined.content, joined.is_error) == ("decline", False)
