"""Servers within the program that drives us (stream-json 5.3 and 11): the real client's, behind its own dispatch."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server, tool
from mcp.server import Server
from mcp_types import ListToolsResult, ToolAnnotations

from mainspring.agent.mcp import SessionMcpServers
from mainspring.core.messages import Image, Text, ToolCall
from mainspring.mcp.base import McpStatus, McpTimeouts
from mainspring.version import __version__
from mcp_servers.by_hand import by_hand
from mcp_servers.driver import Driver, driving
from mcp_servers.shop import PIXEL
from mcp_servers.stage import PATIENCE, counter, program, until, within_driver

RULES = ("allow mcp__calc", "allow mcp__notes", "allow mcp__k_sse_2_0", "allow mcp__good")
IMAGE = base64.b64encode(PIXEL).decode()


class Sized(ToolAnnotations):
    """What the client turns into `_meta`."""

    maxResultSizeChars: int  # noqa: N815  # the client's name


def says(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


@tool("add", "Add two numbers.", {"a": float, "b": float}, annotations=ToolAnnotations(read_only_hint=True))
async def add(given: dict[str, Any]) -> dict[str, Any]:
    return says(f"{given['a'] + given['b']:g}")


@tool("paint", "A picture.", {})
async def paint(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "Look:"}, {"type": "image", "data": IMAGE, "mimeType": "image/png"}]}


@tool("stuck", "It fails, and says so.", {}, annotations=ToolAnnotations(destructive_hint=True))
async def stuck(given: dict[str, Any]) -> dict[str, Any]:
    return {**says("the till is stuck"), "is_error": True}


@tool("broken", "It raises.", {})
async def broken(given: dict[str, Any]) -> dict[str, Any]:
    raise RuntimeError("the roof came down")


@tool("much", "A lot.", {"size": int}, annotations=Sized(maxResultSizeChars=200_000))
async def much(given: dict[str, Any]) -> dict[str, Any]:
    return says("x" * given["size"])


def server(name: str, *tools: SdkMcpTool[Any], version: str = "2.0.0") -> Server[Any]:
    made: Server[Any] = create_sdk_mcp_server(name, version, tools=list(tools))["instance"]
    return made


class Hall:
    """A tool that waits: for as many as it is told, or until it is cancelled."""

    def __init__(self, others: int) -> None:
        self.here = 0
        self.all = asyncio.Event()
        self.cancelled = 0

        @tool("wait", "Wait for the others.", {}, annotations=ToolAnnotations(read_only_hint=True))
        async def wait(given: dict[str, Any]) -> dict[str, Any]:
            self.here += 1
            if self.here == others:
                self.all.set()
            try:
                await self.all.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return says("all here")

        self.tool = wait


@pytest.mark.covers("N-09")
def test_two_servers_of_the_client(tmp_path: Path) -> None:
    """Under the names that the driver gave them, which need not be their own."""

    async def main() -> None:
        calc, notes = server("calculator", add, stuck), server("notes", paint, version="1")
        async with (
            driving(calc=calc, notes=notes) as driver,
            counter(tmp_path, within_driver("calc", "notes"), rules=RULES, relay=driver.send) as both,
        ):
            assert await both.settle() == ("mcp__calc__add", "mcp__calc__stuck", "mcp__notes__paint")
            assert both.warned == []
            for name in ("calc", "notes"):
                assert driver.methods(name) == ["initialize", "notifications/initialized", "tools/list"]
            (_, greeting), *_ = driver.heard
            assert greeting["params"] == {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "mainspring", "version": __version__},
            }
            assert both.servers.status() == [
                {
                    "name": "calc",
                    "status": "connected",
                    "serverInfo": {"name": "calculator", "version": "2.0.0"},
                    "tools": [
                        {"name": "add", "description": "Add two numbers.", "annotations": {"readOnly": True}},
                        {
                            "name": "stuck",
                            "description": "It fails, and says so.",
                            "annotations": {"destructive": True},
                        },
                    ],
                    "config": {"type": "sdk", "name": "calc"},
                    "scope": "dynamic",
                },
                {
                    "name": "notes",
                    "status": "connected",
                    "serverInfo": {"name": "notes", "version": "1"},
                    "tools": [{"name": "paint", "description": "A picture.", "annotations": {}}],
                    "config": {"type": "sdk", "name": "notes"},
                    "scope": "dynamic",
                },
            ]
            assert SessionMcpServers(both.servers, both.hands).states() == [
                {"name": "calc", "status": "connected", "source": "sdk"},
                {"name": "notes", "status": "connected", "source": "sdk"},
            ]
            assert both.hands.specs[0].schema["properties"] == {"a": {"type": "number"}, "b": {"type": "number"}}
            assert await both.text("mcp__calc__add", a=2, b=3) == "5"
            numbered = [message["id"] for _, message in driver.heard if "id" in message]
            assert len(numbered) == len(set(numbered)) == 5

    asyncio.run(main())


def test_what_calls_come_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            driving(calc=server("calc", add, paint, stuck, broken, much)) as driver,
            counter(tmp_path, within_driver("calc"), rules=RULES, relay=driver.send) as calc,
        ):
            await calc.settle()
            seen = await calc.call("mcp__calc__paint")
            assert seen.answer.content == (Text("Look:"), Image("image/png", IMAGE))
            for name, why in (("stuck", "the till is stuck"), ("broken", "the roof came down")):
                failed = (await calc.call(f"mcp__calc__{name}")).answer
                assert (failed.is_error, failed.text) == (True, why)
            # Our own check comes first: nothing of it reaches the driver.
            before = len(driver.heard)
            assert "`$.a` must be of type number" in await calc.text("mcp__calc__add", a="two", b=1)
            assert len(driver.heard) == before
            # It asked for room for 200,000 characters.
            assert len(await calc.text("mcp__calc__much", size=199_000)) == 199_000
            assert "left out" in await calc.text("mcp__calc__much", size=300_000)

    asyncio.run(main())


def test_calls_run_side_by_side(tmp_path: Path) -> None:
    """Each waits for the others, so one after the other they would never end. What only reads may be called so."""

    async def main() -> None:
        hall = Hall(10)
        async with (
            driving(calc=server("calc", hall.tool, paint)) as driver,
            counter(tmp_path, within_driver("calc"), rules=RULES, relay=driver.send) as calc,
        ):
            await calc.settle()
            assert calc.hands.is_concurrent(ToolCall("1", "mcp__calc__wait", {}))
            assert not calc.hands.is_concurrent(ToolCall("2", "mcp__calc__paint", {}))
            texts = await asyncio.gather(*[calc.text("mcp__calc__wait") for _ in range(10)])
            assert texts == ["all here"] * 10

    asyncio.run(main())


def test_without_a_rule_somebody_is_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            driving(calc=server("calc", add)) as driver,
            counter(tmp_path, within_driver("calc"), rules=(), relay=driver.send) as calc,
        ):
            await calc.settle()
            assert (await calc.call("mcp__calc__add", a=1, b=2)).denied
            assert len(calc.asked) == 1
            assert driver.said("tools/call") == []

    asyncio.run(main())


# --- calls that are left --------------------------------------------------------------------------------------------


def was_told(driver: Driver) -> bool:
    """Of the one call that was left, and before the request itself was taken back."""
    (call,) = driver.said("tools/call")
    (gone,) = driver.said("notifications/cancelled")
    assert [methods[-1] for methods in driver.left] == ["notifications/cancelled"]
    return bool(gone["params"]["requestId"] == call["id"] and "id" not in gone)


def test_who_cancels_a_call_cancels_it_at_the_server(tmp_path: Path) -> None:
    async def main() -> None:
        hall = Hall(2)
        async with (
            driving(calc=server("calc", hall.tool, add)) as driver,
            counter(tmp_path, within_driver("calc"), rules=RULES, relay=driver.send) as calc,
        ):
            await calc.settle()
            calling = asyncio.create_task(calc.call("mcp__calc__wait"))
            await until(lambda: hall.here == 1)
            calling.cancel()
            await asyncio.wait([calling])
            assert calling.cancelled()
            await until(lambda: hall.cancelled == 1)
            assert was_told(driver)
            assert await calc.text("mcp__calc__add", a=1, b=1) == "2"

    asyncio.run(main())


def test_a_call_without_an_end_is_left(tmp_path: Path) -> None:
    async def main() -> None:
        hall = Hall(2)
        async with (
            driving(calc=server("calc", hall.tool)) as driver,
            counter(tmp_path, within_driver("calc"), rules=RULES, relay=driver.send) as calc,
        ):
            await calc.settle()
            calc.servers.host.limits = McpTimeouts(call=0.2)
            late = (await calc.call("mcp__calc__wait")).answer
            assert late.is_error
            assert "did not answer within 0.2 s" in late.text
            await until(lambda: hall.cancelled == 1)
            assert was_told(driver)

    asyncio.run(main())


def test_one_is_switched_off_in_mid_call_and_on_again(tmp_path: Path) -> None:
    """The call ends, at the server too; and its number is not used again while the client may keep it."""

    async def main() -> None:
        hall = Hall(2)
        async with (
            driving(calc=server("calc", hall.tool, add)) as driver,
            counter(tmp_path, within_driver("calc"), rules=RULES, relay=driver.send) as calc,
        ):
            await calc.settle()
            wired = SessionMcpServers(calc.servers, calc.hands)
            names = list(wired.tools)
            assert names == ["mcp__calc__wait", "mcp__calc__add"]
            calling = asyncio.create_task(calc.text("mcp__calc__wait"))
            await until(lambda: hall.here == 1)
            await calc.servers.switch_off("calc")
            assert "was lost during the call" in await calling
            await until(lambda: hall.cancelled == 1)
            assert was_told(driver)
            assert not wired.tools
            assert calc.servers.status() == [
                {
                    "name": "calc",
                    "status": "disabled",
                    "serverInfo": {"name": "calc", "version": "2.0.0"},
                    "config": {"type": "sdk", "name": "calc"},
                    "scope": "dynamic",
                }
            ]
            assert "cannot be reached: disabled" in await calc.text("mcp__calc__add", a=1, b=1)
            await calc.servers.reconnect("calc")
            assert await calc.text("mcp__calc__add", a=1, b=1) == "2"
            assert list(wired.tools) == names
            numbered = [message["id"] for _, message in driver.heard if "id" in message]
            assert len(numbered) == len(set(numbered))

    asyncio.run(main())


# --- servers that are not well --------------------------------------------------------------------------------------


def test_one_that_the_driver_does_not_have(tmp_path: Path) -> None:
    """The others go on: one of the same driver, and a program."""

    async def main() -> None:
        good = program("good", by_hand("serve()"))
        async with (
            driving(calc=server("calc", add)) as driver,
            counter(tmp_path, [*within_driver("nobody", "calc"), good], rules=RULES, relay=driver.send) as all_three,
        ):
            assert await all_three.settle() == ("mcp__calc__add", "mcp__good__hello")
            why = "it refused: Server 'nobody' not found"
            assert all_three.warned == [f"the MCP server 'nobody' cannot be used: {why}"]
            assert all_three.servers.status()[0] == {
                "name": "nobody",
                "status": "failed",
                "error": why,
                "config": {"type": "sdk", "name": "nobody"},
                "scope": "dynamic",
            }
            assert await all_three.text("mcp__calc__add", a=1, b=1) == "2"
            assert await all_three.text("mcp__good__hello") == "hello {}"

    asyncio.run(main())


def test_one_that_fails_at_first_can_be_had_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The client starts it again when it is greeted again."""
    starts = 0

    @asynccontextmanager
    async def lifespan(_: Server[None]) -> AsyncGenerator[None, None]:
        nonlocal starts
        starts += 1
        if starts == 1:
            raise RuntimeError("no paper")
        yield

    async def tools(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(tools=[])

    async def main() -> None:
        notes: Server[Any] = Server("notes", version="3", lifespan=lifespan, on_list_tools=tools)
        async with (
            driving(calc=server("calc", add), notes=notes) as driver,
            counter(tmp_path, within_driver("notes", "calc"), rules=RULES, relay=driver.send) as both,
        ):
            assert await both.settle() == ("mcp__calc__add",)
            assert both.servers.status()[0]["status"] == "failed"
            await both.servers.reconnect("notes")
            assert both.servers.status()[0]["status"] == "connected"
            assert both.servers.servers["notes"].info == {"name": "notes", "version": "3"}

    asyncio.run(main())
    assert "no paper" in caplog.text


def test_odd_names(tmp_path: Path) -> None:
    """The driver hears the name that it gave. One that could be mistaken for another's is shown, with why."""

    async def main() -> None:
        name = "kässe 2.0"
        async with (
            driving(**{name: server("x", add), "a__b": server("y", add)}) as driver,
            counter(tmp_path, within_driver(name, "a__b"), rules=RULES, relay=driver.send) as odd,
        ):
            assert await odd.settle() == ("mcp__k_sse_2_0__add",)
            assert await odd.text("mcp__k_sse_2_0__add", a=1, b=1) == "2"
            assert {whose for whose, _ in driver.heard} == {name}
            assert driver.methods(name)[-1] == "tools/call"
            first, second = odd.servers.status()
            assert (first["name"], first["status"]) == (name, "connected")
            assert (second["name"], second["status"], second["scope"]) == ("a__b", "failed", "dynamic")
            assert "'a__b', which could be mistaken for another" in second["error"]
            with pytest.raises(Exception, match="could be mistaken for another"):
                await odd.servers.reconnect("a__b")

    asyncio.run(main())


def test_they_can_be_waited_for_alone(tmp_path: Path) -> None:
    """Who is asked for their state before the first turn has them; a slow program holds nobody up."""

    async def main() -> None:
        slow = program("slow", "import sys; sys.stdin.read()")
        async with (
            driving(calc=server("calc", add)) as driver,
            counter(tmp_path, [slow, *within_driver("calc")], rules=RULES, relay=driver.send) as both,
        ):
            await both.servers.ready(PATIENCE, kind="sdk")
            assert [one["status"] for one in both.servers.status()] == ["pending", "connected"]

    asyncio.run(main())


def test_the_first_turn_waits_for_them(tmp_path: Path) -> None:
    """And no longer than for others."""

    async def main() -> None:
        async with driving(calc=server("calc", add)) as driver:
            go = asyncio.Event()

            async def slow(name: str, message: dict[str, Any]) -> dict[str, Any]:
                await go.wait()
                return await driver.send(name, message)

            limits = McpTimeouts(first_turn=0.2)
            async with counter(tmp_path, within_driver("calc"), limits=limits, rules=RULES, relay=slow) as calc:
                assert await calc.settle() == ()
                assert calc.servers.status()[0]["status"] == "pending"
                go.set()
                await until(lambda: calc.servers.servers["calc"].status is McpStatus.CONNECTED, seconds=PATIENCE)
                assert await calc.settle() == ("mcp__calc__add",)

    asyncio.run(main())
