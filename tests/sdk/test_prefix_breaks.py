"""What prefix breaks cost in a long session: as each front end reports it, and on the simulator's meter."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

import mainspring
from mainspring.agent.loop_notices import list_prefix_breaks
from mainspring.context.summary import INSTRUCTIONS
from mainspring.core.models import model_named
from mainspring.core.money import NANOS_PER_USD, cost
from mainspring.sdk import Client, Message, PrefixBreakMessage, ResultMessage, TurnMessage
from mainspring.simulator.cache import PromptCache, charge_usage
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.simulator.server import ModelServer
from mainspring.viewer.trace import Trace
from sdk.stage import Stage, call

TURNS = 25  # of a run
FIRST, SECOND = "claude-sonnet-5", "claude-opus-5"
SUMMARY = "\n".join(f"## {name}\nThe work continues as planned." for name in ("Task", "Decisions", "Files"))


@mainspring.tool
def look(part: int) -> str:
    """Look at a part."""
    return f"Part {part}.\n" + f"A line of part {part}, which nothing needs later.\n" * (120 if part <= 50 else 4)


class Worker:
    """Looks at one part after the other, in runs of `TURNS` turns; writes a summary if asked for one."""

    def __init__(self) -> None:
        self._turns = count(1)

    def __call__(self, received: ReceivedRequest) -> Reply:
        if not is_turn(received):
            return Say.of(SUMMARY)
        turn = next(self._turns)
        return Say.of("Done.") if turn % TURNS == 0 else Say.of("Next.", call("look", f"{turn}", part=turn))


def is_turn(received: ReceivedRequest) -> bool:
    """A request of the loop, not a side call."""
    return INSTRUCTIONS not in received.talk.prompt and received.body["model"] in {FIRST, SECOND}


def measure_breaks(server: ModelServer) -> int:
    """Meters all requests again, and adds up how much more they cost than with a cache that keeps what it had at the
    last request: over every request, not only those with a break."""
    cache, kept, difference = PromptCache(), 0, 0
    for now, answer in enumerate(server.answers):
        metered = cache.look(answer.request.heard, now)
        cache.keep(metered, now)
        charged = metered.usage
        assert charged.prompt == answer.usage.prompt
        assert charged.cache_read == answer.usage.cache_read
        if not is_turn(answer.request):
            continue
        cached = max([place.tokens for place in metered.written], default=0)
        read = max(charged.cache_read, min(kept, cached))
        unbroken = charge_usage(charged.prompt, read, list(metered.written))
        price = model_named(answer.request.body["model"]).price
        difference += cost(charged, price) - cost(unbroken, price)
        kept = cached
    return difference


@pytest.mark.covers("D-39")
def test_the_reported_prices_are_the_difference_on_the_meter(tmp_path: Path) -> None:
    """100 turns with context edits, a change of the model and a compaction."""
    seen: list[Message] = []
    lines: list[str] = []

    async def main(stage: Stage) -> None:
        async with Client(stage.options(tools=[look], model=FIRST)) as client:
            for prompt in ("Look at 25 parts.", "And 25 more.", "model", "And 25 more.", "/compact", "The last 25."):
                if prompt == "model":
                    await client.set_model(SECOND)
                    continue
                await client.query(prompt)
                seen.extend([message async for message in client.receive_response()])
            lines.extend(list_prefix_breaks(client._connected.session.usage))

    server = ModelServer(choose=Worker(), metered=True)

    async def bounded() -> None:
        async with asyncio.timeout(40), server:
            await main(Stage(server, tmp_path))

    asyncio.run(bounded())
    assert [message.subtype for message in seen if isinstance(message, ResultMessage)] == ["success"] * 5
    assert len([message for message in seen if isinstance(message, TurnMessage)]) == 4 * TURNS
    breaks = [message for message in seen if isinstance(message, PrefixBreakMessage)]
    kinds = Counter(["summary" if "summary" in broken.layers else broken.reason for broken in breaks])
    assert kinds.keys() == {"context_edited", "model_changed", "summary"}
    assert (kinds["model_changed"], kinds["summary"]) == (1, 1)
    assert 3 <= kinds["context_edited"] <= 50 // 5  # in the 50 turns with large results, not every turn
    assert not any(broken.estimated for broken in breaks)
    reported = sum([round(broken.cost_usd * NANOS_PER_USD) for broken in breaks])
    assert reported == measure_breaks(server) > 0

    # The same in `/cost` and in the trace.
    assert (
        lines[0] == f"Prefix breaks: {len(breaks)}, ${reported / NANOS_PER_USD:.4f} more than with an unbroken cache."
    )
    [file] = stage_files(tmp_path)
    trace = Trace(file)
    trace.look()
    totals = trace.head().totals
    assert (totals.breaks, totals.break_price) == (len(breaks), reported)


def stage_files(folder: Path) -> list[Path]:
    return list((folder / "home").glob("projects/*/*.jsonl"))
