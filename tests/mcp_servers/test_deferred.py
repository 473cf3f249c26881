"""Many tools are offered by name only (N-19)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainspring.core.models import MODELS
from mainspring.mcp.base import McpStatus, McpTimeouts
from mainspring.mcp.servers import SchemaPolicy, ToolSearchUse
from mcp_servers.by_hand import by_hand
from mcp_servers.stage import SHOP, Counter, counter, program, stdio, until

RULES = ("allow mcp__shop", "allow mcp__odd")


def specs(shop: Counter) -> list[str]:
    return [spec.name for spec in shop.hands.specs]


@pytest.mark.covers("N-19", "D-40")
def test_three_hundred_tools_are_offered_by_name(tmp_path: Path) -> None:
    """Whole they would take 20,000 tokens of each request, and their names take 2,200: a ninth."""

    async def main() -> None:
        async with counter(tmp_path, [stdio("shop", SHOP, "stdio", "--tools", "300")]) as shop:
            assert len(await shop.settle()) == 313
            assert specs(shop) == ["ToolSearch"]
            (search,) = shop.hands.specs
            assert "mcp__shop__tool_123" in search.description
            whole = sum(len(str(offer.spec)) for offer in shop.hands.offers.values())
            assert len(search.description) < 7_000 < 60_000 < whole
            assert await shop.text("mcp__shop__tool_123", a=1, b=2) == "3"
            unseen = await shop.text("mcp__shop__tool_124", one=1)
            assert "The input of 'mcp__shop__tool_124' is invalid" in unseen
            assert '"name":"mcp__shop__tool_124"' in unseen
            found = await shop.text("ToolSearch", query="number 123")
            assert '"name":"mcp__shop__tool_123"' in found
            assert await shop.text("mcp__shop__tool_123", a=1, b=2) == "3"

    asyncio.run(main())


@pytest.mark.covers("N-19")
@pytest.mark.parametrize(("window", "whole"), [(200_000, True), (4_000, False)])
def test_how_many_are_many_depends_on_the_window(tmp_path: Path, window: int, whole: bool) -> None:
    """Eleven tools, and two for resources, have some 650 tokens: little of a large window, more than a tenth of a small
    one."""

    async def main() -> None:
        async with counter(tmp_path, [stdio()], schemas=SchemaPolicy(window)) as shop:
            names = await shop.settle()
            assert len(names) == 13
            assert specs(shop) == (list(names) if whole else ["ToolSearch"])

    asyncio.run(main())


ORDINARY = [
    {
        "name": f"tool_{number}",
        "description": "What it does, in a sentence or two, and when to use it instead of another one. " * 3,
        "inputSchema": {
            "type": "object",
            "properties": {name: {"type": "string", "description": "What to give here."} for name in ("a", "b", "c")},
            "required": ["a"],
        },
    }
    for number in range(15)
]
USES = [
    (SchemaPolicy(price=MODELS["claude-sonnet-5-5"].price), True),
    (SchemaPolicy(price=MODELS["claude-fable-5-1"].price), False),  # reading its cache is cheap, so are searches
    (SchemaPolicy(), False),  # without a price, 4,000 tokens are the most
    (SchemaPolicy(40_000, MODELS["claude-sonnet-5-5"].price), False),  # and a tenth of the window
    (SchemaPolicy(price=MODELS["claude-sonnet-5-5"].price, use=ToolSearchUse.ALWAYS), False),
    (SchemaPolicy(40_000, use=ToolSearchUse.NEVER), True),
    (SchemaPolicy(use=ToolSearchUse.BY_SIZE, share=3), True),
    (SchemaPolicy(use=ToolSearchUse.BY_SIZE, share=1), False),
]


@pytest.mark.covers("N-19")
@pytest.mark.parametrize(("schemas", "whole"), USES)
def test_two_ordinary_servers_are_sent_whole_unless_that_costs_more(
    tmp_path: Path, schemas: SchemaPolicy, whole: bool
) -> None:
    """30 tools of 150 tokens: more than the 4,000 that were the limit for every model, less than two searches cost."""
    tools = f"serve(tools={ORDINARY!r})"

    async def main() -> None:
        servers = [program("one", by_hand(tools)), program("two", by_hand(tools))]
        async with counter(tmp_path, servers, schemas=schemas) as shop:
            names = await shop.settle()
            assert len(names) == 30
            assert specs(shop) == (list(names) if whole else ["ToolSearch"])
            assert 4_000 < sum(len(str(shop.hands.offers[name].spec)) for name in names) // 3 < 5_500

    asyncio.run(main())


def test_what_comes_later_is_told_by_name_when_the_room_is_full(tmp_path: Path) -> None:
    """Those that were told whole stay so: nothing moves in what the model has seen."""
    go = tmp_path / "go"
    tools = '[{"name": f"t{n}", "description": "x" * 1000, "inputSchema": {"type": "object"}} for n in range(20)]'
    slow = by_hand(f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\nserve(tools={tools})")

    async def main() -> None:
        async with counter(tmp_path, [stdio(), program("odd", slow)], rules=RULES) as shop:
            shop.servers.host.limits = McpTimeouts(first_turn=0.01)
            await until(lambda: shop.servers.servers["shop"].status is McpStatus.CONNECTED)
            first = await shop.settle()
            assert specs(shop) == list(first)
            assert len(first) == 13
            go.touch()
            await until(lambda: shop.servers.servers["odd"].status is McpStatus.CONNECTED)
            assert len(await shop.settle()) == 20
            assert specs(shop) == [*first, "ToolSearch"]

    asyncio.run(main())
