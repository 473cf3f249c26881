"""Hooks, MCP servers and tracing of an agent."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent, AgentHook, Answer, HookCall, ToolResult, UsageError
from mainspring.library import hooks
from mainspring.sdk.hooks import EVENTS
from mainspring.telemetry import uninstrument
from mainspring.testing import Scripted, ScriptedReply, call, says

PASS: list[ScriptedReply | str] = [says(call("add", a=1)), "Done."]


def add(a: int) -> int:
    """Add one."""
    return a + 1


def results(answer: Answer[Any]) -> list[str]:
    return [message.text for message in answer.messages if isinstance(message, ToolResult)]


class Database:
    frozen = True


def guard(call: HookCall[Database]) -> dict[str, Any] | None:
    return {"decision": "block", "reason": f"no {call.tool_input['a']} today"} if call.deps.frozen else None


async def guard_later(call: HookCall[Database]) -> dict[str, Any] | None:
    await asyncio.sleep(0)
    return guard(call)


@pytest.mark.parametrize(
    "hook", [guard, guard_later, AgentHook(guard, matcher="add")], ids=["plain", "async", "matcher"]
)
def test_a_hook_has_the_deps_and_blocks_a_call(hook: Any) -> None:
    agent = Agent(Scripted(PASS), tools=[add], deps=Database, hooks={"PreToolUse": [hook]})
    assert "no 1 today" in results(agent.run_sync("go", deps=Database()))[0]


def test_a_hook_for_another_tool_is_not_called() -> None:
    agent = Agent(Scripted(PASS), tools=[add], deps=Database, hooks={"PreToolUse": [AgentHook(guard, matcher="Bash")]})
    assert results(agent.run_sync("go", deps=Database())) == ["2"]


def test_hooks_see_the_run_and_get_copies() -> None:
    seen: list[tuple[str, str]] = []

    def watch(call: HookCall[None]) -> None:
        seen.append((call.event, call.tool_name))
        call.tool_input["a"] = 100

    given: Any = {key: [watch] for key in ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")}
    assert results(Agent(Scripted(PASS), tools=[add], hooks=given).run_sync("go")) == ["2"]
    assert seen == [("UserPromptSubmit", ""), ("PreToolUse", "add"), ("PostToolUse", "add"), ("Stop", "")]


def broken(call: HookCall[None]) -> None:
    raise ValueError("kaput")


def wrong(call: HookCall[None]) -> Any:
    return 5


@pytest.mark.parametrize("function", [broken, wrong])
def test_a_hook_that_fails_is_logged_and_blocks_only_if_it_should(
    function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        free = Agent(Scripted(PASS), tools=[add], hooks={"PreToolUse": [function]}).run_sync("go")
        blocks = AgentHook(function, on_failure="block")
        held = Agent(Scripted(PASS), tools=[add], hooks={"PreToolUse": [blocks]}).run_sync("go")
    assert results(free) == ["2"]
    assert results(held) != ["2"]
    logged = [record for record in caplog.records if record.name == "mainspring.library"]
    assert [record.getMessage() for record in logged] == [f"the hook '{function.__name__}' failed"] * 2
    assert all(record.exc_info for record in logged)


WRONG: list[tuple[Any, str]] = [
    ({"PreToolUs": [guard]}, "'hooks' has no event 'PreToolUs'. Did you mean 'PreToolUse'?"),
    ({"PreToolUse": guard}, "'hooks' has <function guard"),
    ({"PreToolUse": ["guard"]}, "'hooks' has 'guard' for 'PreToolUse': use functions, and 'AgentHook'"),
    ([guard], "'hooks' must be a dict of lists of functions, not [<function guard"),
]


@pytest.mark.parametrize(("given", "told"), WRONG, ids=[told[:40] for _, told in WRONG])
def test_a_wrong_table_is_told(given: Any, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        Agent(hooks=given)
    assert str(raised.value).startswith(told)


def test_the_events_are_those_of_the_sdk() -> None:
    assert hooks.EVENTS == EVENTS


# --- MCP servers ---

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("clock", log_level="ERROR")


@server.tool()
def now(city: str) -> str:
    return f"noon in {city}"


server.run()
"""


@pytest.mark.parametrize("allowed", [True, False])
def test_a_real_mcp_server(allowed: bool, tmp_path: Path) -> None:
    """It starts in the agent's folder; a call needs a rule or an approval."""
    folder = tmp_path / "servers"
    folder.mkdir()
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    name = "mcp__clock__now"
    agent = Agent(
        Scripted([says(call(name, city="Bonn")), "Noon."]),
        mcp_servers={"clock": {"command": sys.executable, "args": ["server.py"]}},
        allowed_tools=[name] if allowed else [],
        cwd=folder,
    )
    answer = agent.run_sync("What time is it?")
    assert ("noon in Bonn" in results(answer)[0]) is allowed


# --- tracing ---


def test_one_agent_is_traced_and_another_is_not() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    import mainspring

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    mainspring.instrument(tracer_provider=provider)
    try:
        Agent(Scripted(["Hi."]), tracing=False).run_sync("go")
        assert exporter.get_finished_spans() == ()
        Agent(Scripted(["Hi."]), tracing=True).run_sync("go")
        assert exporter.get_finished_spans()
    finally:
        uninstrument()
