"""Servers within a real program that drives us: the client, the pipe and the command itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKClient, create_sdk_mcp_server, tool
from pipe.stage import call, exchange, response, staged, words

from mainspring.simulator.replies import Say
from mcp_servers.stage import until
from mcp_servers.test_relayed import IMAGE, Hall, add, paint, stuck

HALF_A_MEGABYTE = 500_000


def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.mark.covers("N-09")
def test_a_query_with_two_servers(tmp_path: Path) -> None:
    calls = [call("mcp__calc__add", a=2, b=3), call("mcp__notes__paint"), call("mcp__calc__stuck")]
    servers = {
        "calc": create_sdk_mcp_server("calculator", "2.0.0", [add, stuck]),
        "notes": create_sdk_mcp_server("notes", tools=[paint]),
    }
    with staged((Say.of("Let me see.", *calls), Say.of("It is 5.")), folder(tmp_path)) as stage:
        told = stage.ask("2 and 3?", mcp_servers=servers, allowed_tools=["mcp__calc", "mcp__notes"])
        assert (told.error, told.stderr) == (None, [])
        assert told.init["mcp_servers"] == [
            {"name": "calc", "status": "connected", "source": "sdk"},
            {"name": "notes", "status": "connected", "source": "sdk"},
        ]
        assert {"mcp__calc__add", "mcp__calc__stuck", "mcp__notes__paint"} <= set(told.init["tools"]) & stage.tools(0)
        added, painted, failed = told.outcomes
        assert (added.content, added.is_error) == ("5", False)
        image = {"type": "base64", "media_type": "image/png", "data": IMAGE}
        assert painted.content == [{"type": "text", "text": "Look:"}, {"type": "image", "source": image}]
        assert (failed.content, failed.is_error) == ("the till is stuck", True)
        assert told.result.result == "It is 5."


def test_an_interrupt_reaches_the_tool(tmp_path: Path) -> None:
    with staged((Say.of("I wait.", call("mcp__calc__wait")), Say.of("Well.")), folder(tmp_path)) as stage:

        async def main(client: ClaudeSDKClient) -> None:
            await client.query("wait")
            reading = asyncio.create_task(response(client))
            await until(lambda: hall.here == 1)
            await client.interrupt()
            told = await reading
            assert told.result.subtype == "error_during_execution"
            (left,) = told.outcomes
            assert left.is_error
            await until(lambda: hall.cancelled == 1)
            assert (await exchange(client, "and now?")).result.result == "Well."

        hall = Hall(2)
        servers = {"calc": create_sdk_mcp_server("calc", tools=[hall.tool])}
        assert stage.talk(main, mcp_servers=servers, allowed_tools=["mcp__calc"]) == []


def test_a_long_result_stays_below_the_longest_line(tmp_path: Path) -> None:
    """Three of half a megabyte each: a line of more than one megabyte would end the session."""

    @tool("much", "A lot.", {})
    async def much(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "\N{SNOWMAN}" * HALF_A_MEGABYTE}] * 3}

    servers = {"calc": create_sdk_mcp_server("calc", tools=[much])}
    with staged((Say.of("Go.", call("mcp__calc__much")), Say.of("Long.")), folder(tmp_path)) as stage:
        told = stage.ask("go", mcp_servers=servers, allowed_tools=["mcp__calc"])
        assert told.error is None
        (long,) = told.outcomes
        assert len(words(long)) < 1_048_576
        assert "characters left out" in words(long)
        assert told.result.result == "Long."
