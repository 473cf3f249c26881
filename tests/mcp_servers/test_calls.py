"""Tools of a real server over stdio: what the model is told of them, and what calls come to."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from mainspring.agent.mcp import taken_away
from mainspring.core.messages import Image, ToolCall
from mainspring.engine.shared_state import EnginePolicy
from mainspring.mcp.base import McpTimeouts
from mcp_servers.shop import PIXEL
from mcp_servers.stage import as_users_do, counter, stdio, until

TOOLS = ("add", "meet", "picture", "paper", "fail", "count", "hang", "die", "environment", "much", "grow")
READERS = ("ListMcpResourcesTool", "ReadMcpResourceTool")  # the official package says that all its servers have some


@pytest.mark.covers("N-09")
def test_what_a_server_brings(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [stdio()], start=as_users_do) as shop:
            assert await shop.settle() == (*[f"mcp__shop__{name}" for name in TOOLS], *READERS)
            add = shop.hands.specs[0]
            assert (add.name, add.description) == ("mcp__shop__add", "Add two numbers.")
            assert add.schema["properties"]["a"] == {"title": "A", "type": "integer"}
            assert shop.warned == []
            (status,) = shop.servers.status()
            assert status["name"] == "shop"
            assert status["status"] == "connected"
            assert status["serverInfo"] == {"name": "shop", "version": "1.2.3"}
            about = {"description": "Add two numbers.", "annotations": {"readOnly": True}}
            assert status["tools"][0] == {"name": "add", **about}
            # A second turn adds nothing.
            assert await shop.settle() == ()
            done = await shop.call("mcp__shop__add", a=2, b=3)
            assert (done.answer.text, done.answer.data, done.answer.is_error) == ("5", {"result": 5}, False)

    asyncio.run(main())


def test_calls_run_side_by_side(tmp_path: Path) -> None:
    """Each of them waits for the others, so one after the other they would never end."""

    async def main() -> None:
        async with counter(tmp_path, [stdio()]) as shop:
            await shop.settle()
            texts = await asyncio.gather(*[shop.text("mcp__shop__meet", others=10) for _ in range(10)])
            assert texts == ["10 met"] * 10

    asyncio.run(main())


def test_what_calls_come_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [stdio()]) as shop:
            await shop.settle()
            seen = await shop.call("mcp__shop__picture")
            assert seen.answer.content == (Image("image/png", base64.b64encode(PIXEL).decode()),)
            assert await shop.text("mcp__shop__paper") == "[The resource shop://list]\nbread\N{SYMBOL FOR NULL}milk"
            failed = await shop.call("mcp__shop__fail")
            assert failed.answer.is_error
            assert "the till is stuck" in failed.answer.text
            assert await shop.text("mcp__shop__count", upto=3) == "counted"
            assert shop.shown == ["1/3 at 1", "2/3 at 2", "3/3 at 3"]
            unfit = await shop.call("mcp__shop__add", a="two")
            assert unfit.answer.is_error
            assert unfit.answer.text == (
                "The input of 'mcp__shop__add' is invalid: `$.a` must be of type integer, not string; `$.b` is "
                "missing. Nothing was done: call it again."
            )

    asyncio.run(main())


def test_a_long_result_is_stored_and_its_ends_are_shown(tmp_path: Path) -> None:
    """The server asked for room for 200,000 characters; all others have 100,000."""

    async def main() -> None:
        async with counter(tmp_path, [stdio()]) as shop:
            await shop.settle()
            assert len(await shop.text("mcp__shop__much", size=199_000)) == 199_000
            long = await shop.text("mcp__shop__much", size=300_000)
            assert 200_000 < len(long) < 201_000
            assert "100,000 of 300,000 characters left out" in long
            (stored,) = (tmp_path / "spill").iterdir()
            assert stored.stat().st_size == 300_000

    asyncio.run(main())


def test_who_cancels_a_call_cancels_it_at_the_server(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [stdio()]) as shop:
            await shop.settle()
            calling = asyncio.create_task(shop.call("mcp__shop__hang", folder=str(tmp_path)))
            await until((tmp_path / "begun").exists)
            calling.cancel()
            await asyncio.wait([calling])
            assert calling.cancelled()
            await until((tmp_path / "cancelled").exists)
            assert await shop.text("mcp__shop__add", a=1, b=1) == "2"  # and it goes on

    asyncio.run(main())


def test_a_call_without_an_end_is_left(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [stdio()]) as shop:
            await shop.settle()
            shop.servers.host.limits = McpTimeouts(call=0.2)
            late = await shop.call("mcp__shop__hang", folder=str(tmp_path))
            assert late.answer.is_error
            assert "did not answer within 0.2 s" in late.answer.text
            assert "MCP_TOOL_TIMEOUT" in late.answer.text
            await until((tmp_path / "cancelled").exists)

    asyncio.run(main())


def test_a_servers_word_about_itself_grants_nothing(tmp_path: Path) -> None:
    """`add` says that it only reads: it may run beside others, but a person is asked, also in mode plan."""

    async def main() -> None:
        async with counter(tmp_path, [stdio()], rules=()) as shop:
            await shop.settle()
            add = ToolCall("1", "mcp__shop__add", {"a": 1, "b": 2})
            assert shop.hands.is_concurrent(add)
            assert not shop.hands.is_concurrent(ToolCall("2", "mcp__shop__picture", {}))
            assert not shop.hands.is_repeatable(add)
            for mode in ("default", "plan"):
                shop.policy = EnginePolicy(mode)
                done = await shop.call("mcp__shop__add", a=1, b=2)
                assert done.denied
            assert len(shop.asked) == 2

    asyncio.run(main())


def test_a_rule_for_a_server_covers_its_tools(tmp_path: Path) -> None:
    async def main() -> None:
        deny_one = ("allow mcp__shop", "deny mcp__shop__fail")
        async with counter(tmp_path, [stdio()], rules=deny_one) as shop:
            await shop.settle()
            assert await shop.text("mcp__shop__add", a=1, b=2) == "3"
            assert (await shop.call("mcp__shop__fail")).denied
            assert shop.asked == []

    asyncio.run(main())


def test_tools_that_come_and_go_count_from_the_next_turn(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [stdio()]) as shop:
            await shop.settle()
            assert await shop.text("mcp__shop__grow") == "grown"
            unknown = await shop.text("mcp__shop__fresh", word="milk")
            assert unknown.startswith("There is no tool 'mcp__shop__fresh'")
            assert await shop.settle() == ("mcp__shop__fresh",)
            assert shop.hands.specs[-1].name == "mcp__shop__fresh"
            assert await shop.text("mcp__shop__fresh", word="milk") == "fresh milk"
            assert "has no tool 'paper' any more" in await shop.text("mcp__shop__paper")

    asyncio.run(main())


def test_a_program_finds_nothing_of_ours_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Security K2: what it was given, the usual, and no key."""
    for name in ("ANTHROPIC_API_KEY", "MAINSPRING_HOME", "GITHUB_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "secret")

    async def main() -> None:
        async with counter(tmp_path, [stdio(SHOP_TOKEN="given")]) as shop:
            await shop.settle()
            found = (await shop.call("mcp__shop__environment")).answer.data
            assert "secret" not in found.values()
            assert (found["SHOP_TOKEN"], found["CLAUDE_PROJECT_DIR"]) == ("given", str(tmp_path))

    asyncio.run(main())


def test_instructions_are_told_once_and_marked(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [stdio()]) as shop:
            assert shop.servers.instructions() == ""
            await shop.settle()
            told = shop.servers.instructions()
            assert told.count("</mcp-server>") == 1  # its own, and not the one that the server wrote
            assert '<mcp-server name="shop">\nCount the change.\n' in told
            assert shop.servers.instructions() == ""

    asyncio.run(main())


def test_a_tool_that_a_rule_takes_away_is_not_told(tmp_path: Path) -> None:
    async def main() -> None:
        is_away = taken_away(["mcp__shop__fail", "mcp__other", "Bash", "ReadMcpResourceTool"])
        rules = ("allow ListMcpResourcesTool",)
        async with counter(tmp_path, [stdio("other"), stdio()], is_away=is_away, rules=rules) as shop:
            tools = [f"mcp__shop__{name}" for name in TOOLS if name != "fail"]
            assert await shop.settle() == (*tools, "ListMcpResourcesTool")
            alone = await shop.call("ListMcpResourcesTool", server="other")
            assert "There is no MCP server 'other' that has resources; there are: shop." in alone.answer.text

    asyncio.run(main())
