"""Servers within the program, as several sessions use them, and when they end before their session does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer

from mainspring.core.errors import UsageError
from mainspring.sdk import Client, Message, create_sdk_mcp_server
from mainspring.sdk import tool as sdk_tool
from mainspring.sdk.mcp_server import SdkMcpServers
from mainspring.simulator.replies import Say
from sdk.stage import Stage, call, outcomes, play, texts

SOON = 10  # seconds; the limit for a server that does not answer is 30
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "1"},
}


async def response(client: Client) -> list[Message]:
    return [message async for message in client.receive_response()]


def asked(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


# --- one server, two sessions -----------------------------------------------------------------------------------


@pytest.mark.covers("N-09")
def test_an_interrupt_of_one_session_is_not_one_of_another(tmp_path: Path) -> None:
    """Both have one server, and count their calls from the same number."""
    running: dict[str, asyncio.Event] = {"first": asyncio.Event(), "second": asyncio.Event()}
    ended: list[str] = []
    open = asyncio.Event()

    @sdk_tool("slow", "Takes its time.", {"who": str})
    async def slow(given: dict[str, Any]) -> dict[str, Any]:
        running[given["who"]].set()
        try:
            await open.wait()
        except asyncio.CancelledError:
            ended.append(given["who"])
            raise
        return {"content": [{"type": "text", "text": f"for {given['who']}"}]}

    async def main(stage: Stage) -> None:
        server = create_sdk_mcp_server("s", tools=[slow])
        options = stage.options(mcp_servers={"s": server}, allowed_tools=["mcp__s"])
        async with Client(options) as first, Client(options) as second:
            await first.query("first")
            await running["first"].wait()
            await second.query("second")
            await running["second"].wait()
            await first.interrupt()
            stopped = await response(first)
            assert outcomes(stopped)[0].is_error
            assert ended == ["first"]
            open.set()
            [result] = outcomes(told := await response(second))
            assert (result.content, result.is_error) == ("for second", False)
            assert texts(told) == ["Done."]

    def choose(request: Any) -> Say:
        said = str(request.body["messages"][-1])
        who = "first" if "first" in said else "second"
        return Say.of("Done.") if "tool_result" in said else Say.of(call("mcp__s__slow", who, who=who))

    play(main, tmp_path, choose=choose)


# --- those of the official package ------------------------------------------------------------------------------


def official(failures: list[Exception]) -> MCPServer[Any]:
    """It fails to begin as often as there are failures."""

    @asynccontextmanager
    async def life(_: object) -> AsyncGenerator[None, None]:
        if failures:
            raise failures.pop()
        yield None

    server: MCPServer[Any] = MCPServer("theirs", lifespan=life)

    @server.tool()
    async def shout(word: str) -> str:
        """Shouts."""
        return word.upper()

    @server.tool()
    async def end(word: str) -> str:
        """Takes the server with it."""
        raise asyncio.CancelledError

    return server


def named(instance: Any) -> dict[str, Any]:
    return {"theirs": {"type": "sdk", "name": "theirs", "instance": instance}}


async def status(client: Client) -> tuple[str, str]:
    [one] = (await client.get_mcp_status())["mcpServers"]
    return one["status"], str(one.get("error"))


def test_a_server_that_failed_is_made_anew(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        server = official([RuntimeError("no database")])
        async with Client(stage.options(mcp_servers=named(server), allowed_tools=["mcp__theirs"])) as client:
            state, why = await status(client)
            assert state == "failed"
            assert "no database" in why
            async with asyncio.timeout(SOON):
                await client.reconnect_mcp_server("theirs")
            assert (await status(client))[0] == "connected"
            await client.query("go")
            assert "HELLO" in str(outcomes(await response(client))[0].content)

    play(main, tmp_path, Say.of(call("mcp__theirs__shout", word="hello")), Say.of("Done."))


def test_a_server_that_works_may_be_connected_again(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options(mcp_servers=named(official([])), allowed_tools=["mcp__theirs"])) as client:
            for _ in range(3):
                async with asyncio.timeout(SOON):
                    await client.reconnect_mcp_server("theirs")
            await client.query("go")
            assert "HELLO" in str(outcomes(await response(client))[0].content)

    play(main, tmp_path, Say.of(call("mcp__theirs__shout", word="hello")), Say.of("Done."))


def test_a_server_that_has_ended_says_so_at_once() -> None:
    async def main() -> None:
        servers = SdkMcpServers(named(official([])))
        greeted = await servers.hear("theirs", asked(1, "initialize", **HELLO))
        assert greeted["result"]["serverInfo"]["name"] == "theirs"
        async with asyncio.timeout(SOON):
            with pytest.raises(ConnectionError, match="the server"):
                while True:  # the first of them may still be answered: by its own error
                    await servers.hear("theirs", asked(2, "tools/call", name="end", arguments={"word": "x"}))
            for method in ("tools/list", "tools/call"):
                with pytest.raises(ConnectionError, match="'reconnect_mcp_server' to restart it"):
                    await servers.hear("theirs", asked(3, method))
            again = await servers.hear("theirs", asked(1, "initialize", **HELLO))
            assert again["result"]["serverInfo"]["name"] == "theirs"
        await servers.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_server_that_cannot_begin_says_why_each_time() -> None:
    async def main() -> None:
        servers = SdkMcpServers(named(official([RuntimeError("second"), RuntimeError("first")])))
        async with asyncio.timeout(SOON):
            for why in ("first", "second"):
                with pytest.raises(ConnectionError, match=f"the server failed: {why}"):
                    await servers.hear("theirs", asked(1, "initialize", **HELLO))
            assert "result" in await servers.hear("theirs", asked(1, "initialize", **HELLO))
        await servers.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_server_that_is_not_here_is_named() -> None:
    with pytest.raises(UsageError, match="no MCP server 'other' in this program"):
        asyncio.run(SdkMcpServers({}).hear("other", asked(1, "ping")))
