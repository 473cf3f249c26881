"""Ways to keep the context small, as a program uses them: each is visible in the requests that the server gets."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from mainspring.sdk import AgentDefinition, HookMatcher, create_sdk_mcp_server
from mainspring.sdk import tool as sdk_tool
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from sdk.stage import Stage, call, outcomes, play, texts

FREE: dict[str, Any] = {"permission_mode": "bypassPermissions", "setting_sources": []}
MODEL = "claude-opus-5"
LOOKUP = "find the port"


def tool_names(request: ReceivedRequest) -> list[str]:
    return [tool["name"] for tool in request.body["tools"]]


def effort_of(request: ReceivedRequest) -> str | None:
    found: str | None = request.body.get("output_config", {}).get("effort")
    return found


@pytest.mark.covers("D-40")
def test_a_subagent_has_a_fresh_context_few_tools_and_low_effort(tmp_path: Path) -> None:
    """The session works with high effort and all tools; the routine work does not."""

    def choose(received: ReceivedRequest) -> Reply:
        if LOOKUP in str(received.talk.messages[0]):
            return Say.of("8080") if received.talk.results() else Say.of(call("Read", file_path="port.txt"))
        if received.talk.results():
            return Say.of("It is 8080.")
        return Say.of("A long plan. " * 50, call("Agent", prompt=LOOKUP, description="look", subagent_type="finder"))

    async def main(stage: Stage) -> None:
        (stage.folder / "port.txt").write_text("8080")
        finder = AgentDefinition("Finds things.", "You find things.", tools=["Read"], effort="low")
        told = await stage.ask("which port?", model=MODEL, effort="high", agents={"finder": finder}, **FREE)
        assert texts(told)[-1] == "It is 8080."
        plan, lookup, after, last = stage.server.requests
        assert [effort_of(each) for each in (plan, lookup, after, last)] == ["high", "low", "low", "high"]
        assert [tool_names(each) for each in (lookup, after)] == [["Read"]] * 2
        assert len(tool_names(plan)) > 5
        assert tool_names(last) == tool_names(plan)
        assert "A long plan." not in str(lookup.body)
        assert "which port?" not in str(lookup.body)
        assert [outcome["content"] for outcome in last.talk.results()] != []
        assert "port.txt" not in json.dumps(last.body["messages"]), "the session keeps the answer, not the work"

    play(main, tmp_path, choose=choose)


@pytest.mark.covers("D-40")
def test_effort_of_a_session_reaches_every_request(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        await stage.ask("go", model=MODEL, effort="low", tools=["Glob"], **FREE)
        assert [(effort_of(each), tool_names(each)) for each in stage.server.requests] == [("low", ["Glob"])] * 2

    play(main, tmp_path, Say.of(call("Glob", pattern="*")), Say.of("Done."))


@pytest.mark.covers("D-40", "N-19")
def test_schemas_of_many_mcp_tools_are_sent_when_the_model_searches(tmp_path: Path) -> None:
    """300 tools: the model sees names, finds one, calls it. Their schemas are in no request, but for that one."""

    def add_tool(number: int) -> Any:
        @sdk_tool(f"add_{number}", f"Adds {number} to an amount. " + "It is exact. " * 20, {f"amount_{number}": int})
        async def add(given: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": str(given[f"amount_{number}"] + number)}]}

        return add

    async def main(stage: Stage) -> None:
        server = create_sdk_mcp_server("sums", tools=[add_tool(number) for number in range(300)])
        told = await stage.ask("add 123 to 1", mcp_servers={"sums": server}, tools=[], **FREE)
        assert texts(told) == ["It is 124."]
        assert [outcome.content for outcome in outcomes(told)][1:] == ["124"]
        first, found, last = stage.server.requests
        assert tool_names(first) == ["ToolSearch"] == tool_names(last)
        assert "mcp__sums__add_123" in str(first.body["tools"])
        assert "amount_" not in str(first.body)
        schemas = str(found.talk.results())
        assert ("amount_123" in schemas, "amount_200" in schemas) == (True, False)
        assert len(first.raw) < 40_000, "whole they would take more than 100,000 bytes"

    search = call("ToolSearch", query="select:mcp__sums__add_123")
    play(main, tmp_path, Say.of(search), Say.of(call("mcp__sums__add_123", amount_123=1)), Say.of("It is 124."))


@pytest.mark.covers("I-02")
def test_hooks_run_in_the_program_and_cost_no_context(tmp_path: Path) -> None:
    """With hooks for every event of the turn, the requests are the same, but for the ids of the session."""
    heard: list[tuple[str, int, int]] = []

    async def hear(payload: Any, _: str | None, __: Any) -> dict[str, Any]:
        heard.append((payload["hook_event_name"], os.getpid(), threading.get_ident()))
        return {}

    events = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop")
    replies = [Say.of(call("Glob", pattern="*")), Say.of(call("Read", file_path="none.txt")), Say.of("Done.")]

    async def main(stage: Stage) -> None:
        for hooks in (None, {event: [HookMatcher(hooks=[hear])] for event in events}):
            told = await stage.ask("go", hooks=hooks, **FREE)
            assert texts(told) == ["Done."]
        without, with_hooks = stage.server.requests[:3], stage.server.requests[3:]
        assert [content_of(each) for each in with_hooks] == [content_of(each) for each in without]
        assert [event for event, *_ in heard] == [
            "UserPromptSubmit",
            *("PreToolUse", "PostToolUse", "PreToolUse", "PostToolUseFailure"),
            "Stop",
        ]
        assert {(process, thread) for _, process, thread in heard} == {(os.getpid(), threading.get_ident())}

    play(main, tmp_path, *replies, *replies)


def content_of(request: ReceivedRequest) -> str:
    """All that the model sees, without the nonce of the session's reminders."""
    seen = {name: value for name, value in request.body.items() if name != "metadata"}
    return re.sub(r'nonce=\\"[0-9a-f]{8}', "nonce", json.dumps(seen))
