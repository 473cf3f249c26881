"""Tools whose schemas the model asks for: told by name, refused before it has seen them, callable after (F-26)."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.core.config import Config
from mainspring.core.history import History
from mainspring.core.messages import ToolCall
from mainspring.core.updates import CallDone
from mainspring.engine.equipped import Equipped
from mainspring.engine.session import Session
from mainspring.engine.shared import Policy
from mainspring.providers.base import Conversation
from mainspring.providers.scripted import Scripted, call, says
from mainspring.tools.base import Place
from mainspring.tools.custom import tool
from mainspring.tools.gate import Open
from mainspring.tools.pipeline import Hands


@tool(read_only=True, deferred=True)
async def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool(read_only=True)
async def clock() -> str:
    """The time."""
    return "noon"


class Listening(Scripted):
    """A model that remembers which tools it was told of."""

    def __init__(self, replies: list[object]) -> None:
        super().__init__(replies)  # type: ignore[arg-type]
        self.told: list[list[str]] = []

    def stream(self, request, conversation: Conversation):  # type: ignore[no-untyped-def]
        self.told.append([spec.name for spec in conversation.tools])
        return super().stream(request, conversation)


def new_hands() -> Hands:
    return Hands([weather, clock], place=Place("/"), gate=Open())


@pytest.mark.covers("F-26", "N-05")
def test_a_deferred_tool_is_asked_for_first_and_the_list_never_changes() -> None:
    model = Listening(
        [
            says(call("weather", "c1", city="Rome")),
            says(call("ToolSearch", "c2", query="select:weather")),
            says(call("weather", "c3", city="Rome")),
            says("Sunny."),
        ]
    )

    async def main() -> dict[str, str]:
        session = Session(Equipped(model, new_hands()), Config())
        session.shared.policy = Policy()
        async with session.run("How is it?") as run:
            return {u.result.call_id: u.result.text async for u in run if isinstance(u, CallDone)}

    results = asyncio.run(main())
    assert results["c1"] == "You have not seen what 'weather' takes: call ToolSearch with 'select:weather' first."
    assert '"city"' in results["c2"]
    assert results["c3"] == "sunny in Rome"
    assert model.told == [["clock", "ToolSearch"]] * 4  # appended to the conversation, never inserted (law 4)


def test_what_was_seen_before_is_still_known_when_the_session_is_taken_up() -> None:
    model = Listening([says(call("ToolSearch", "c1", query="select:weather")), says("Good.")])

    async def main() -> History:
        session = Session(Equipped(model, new_hands()), Config())
        async with session.run("Look.") as run:
            async for _ in run:
                pass
        return session.state.history

    later = new_hands()
    assert not later.is_known("weather")
    later.remember(asyncio.run(main()))
    assert later.is_known("weather")


def test_without_deferred_tools_there_is_no_search() -> None:
    hands = Hands([clock], place=Place("/"), gate=Open())
    assert [spec.name for spec in hands.specs] == ["clock"]
    assert hands.is_concurrent(ToolCall("c", "clock", {}))
    assert hands.is_repeatable(ToolCall("c", "clock", {}))
    assert not hands.is_repeatable(ToolCall("c", "nothing", {}))
