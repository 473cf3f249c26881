"""Tools whose schemas the model asks for: told by name, and shown when it asks or guesses wrong (F-26)."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.core.config import Config
from mainspring.core.history import History
from mainspring.core.messages import ToolCall, result
from mainspring.core.state import State
from mainspring.core.updates import CallDone, PrefixBroken
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps, ToolReminders
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import AllowAll
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation
from mainspring.providers.http.client import Transport
from mainspring.providers.scripted import Scripted, call, says
from mainspring.simulator.replies import Say
from mainspring.simulator.server import ModelServer
from mainspring.tools.base import Tool, Workspace
from mainspring.tools.custom import tool
from mainspring.tools.toolset import Toolset


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


@tool(read_only=True, deferred=True)
async def tides(port: str) -> str:
    """The tides of a port."""
    return f"high in {port}"


@tool(read_only=True)
async def bells() -> str:
    """How often they rang."""
    return "eight"


def new_hands() -> Toolset:
    return Toolset([weather, clock], place=Workspace("/"), gate=AllowAll())


@pytest.mark.covers("F-26", "N-05")
def test_a_deferred_tool_is_asked_for_first_and_the_list_never_changes() -> None:
    """Or called as it is: a guess that fits costs no turn, and one that does not fit is shown the schema, once."""
    model = Listening(
        [
            says(call("weather", "c1", city="Rome")),
            says(call("tides", "c2", place="Ostia")),
            says(call("tides", "c3", harbour="Ostia")),
            says(call("ToolSearch", "c4", query="select:weather")),
            says(call("weather", "c5", city="Rome")),
            says("Sunny."),
        ]
    )

    async def main() -> dict[str, str]:
        hands = Toolset([weather, clock, tides], place=Workspace("/"), gate=AllowAll())
        session = EngineSession(AgentDeps(model, hands), Config())
        session.shared.policy = EnginePolicy()
        async with session.run("How is it?") as run:
            return {u.result.call_id: u.result.text async for u in run if isinstance(u, CallDone)}

    results = asyncio.run(main())
    assert results["c1"] == results["c5"] == "sunny in Rome"
    assert "The input of 'tides' is invalid" in results["c2"]
    assert '"port"' in results["c2"]
    assert results["c2"].endswith("</functions>")
    assert "</functions>" not in results["c3"]
    assert '"city"' in results["c4"]
    assert model.told == [["clock", "ToolSearch"]] * 6  # appended to the conversation, never inserted (law 4)


def test_what_was_seen_before_is_still_known_when_the_session_is_taken_up() -> None:
    model = Listening([says(call("ToolSearch", "c1", query="select:weather")), says("Good.")])

    async def main() -> History:
        session = EngineSession(AgentDeps(model, new_hands()), Config())
        async with session.run("Look.") as run:
            async for _ in run:
                pass
        return session.state.history

    later = new_hands()
    assert not later.is_known("weather")
    later.remember(asyncio.run(main()))
    assert later.is_known("weather")


def test_without_deferred_tools_there_is_no_search() -> None:
    hands = Toolset([clock], place=Workspace("/"), gate=AllowAll())
    assert [spec.name for spec in hands.specs] == ["clock"]
    assert hands.is_concurrent(ToolCall("c", "clock", {}))
    assert hands.is_repeatable(ToolCall("c", "clock", {}))
    assert not hands.is_repeatable(ToolCall("c", "nothing", {}))


# --- tools that come later ------------------------------------------------------------------------------------------


def told(hands: Toolset) -> list[str]:
    return [spec.name for spec in hands.specs]


def test_what_comes_later_goes_to_the_end_and_takes_no_name_that_is_in_use() -> None:
    @tool(name="clock")
    async def other() -> str:
        """Another one."""
        return "midnight"

    @tool
    async def anchor() -> str:
        """Drop it."""
        return "down"

    hands = new_hands()
    before = hands.specs
    assert hands.add([other, anchor, anchor]) == ("anchor",)
    assert hands.specs[: len(before)] == before
    assert told(hands) == ["clock", "ToolSearch", "anchor"]
    assert hands.tool("clock") is clock
    assert hands.add([]) == ()
    assert hands.untold == ()


def test_a_search_comes_with_the_first_deferred_tool() -> None:
    hands = Toolset([clock], place=Workspace("/"), gate=AllowAll())
    assert hands.add([weather]) == ("weather",)
    assert told(hands) == ["clock", "ToolSearch"]
    assert "They are: weather." in hands.specs[1].description
    assert hands.untold == ()  # the description has it


@pytest.mark.covers("F-26")
def test_a_deferred_tool_that_comes_later_moves_nothing_and_is_told_at_the_end() -> None:
    """Also to a session that was compacted or taken up again: once, as long as the view holds it."""
    model = Listening(
        [
            says(call("clock", "c1")),
            says(call("ToolSearch", "c2", query="select:tides")),
            says(call("tides", "c3", port="Brest")),
            says("High."),
        ]
    )
    hands = new_hands()

    async def main() -> tuple[dict[str, str], History]:
        session = EngineSession(AgentDeps(model, hands), Config())
        results: dict[str, str] = {}
        async with session.run("How is it?") as run:
            async for update in run:
                if isinstance(update, CallDone):
                    results[update.result.call_id] = update.result.text
                    if update.result.call_id == "c1":
                        assert hands.add([tides]) == ("tides",)
        return results, session.state.history

    results, history = asyncio.run(main())
    assert results["c3"] == "high in Brest"
    assert model.told == [["clock", "ToolSearch"]] * 4
    assert len({spec.description for spec in hands.specs}) == 2
    news = [message.text for message in history if "known by name only" in message.text]
    assert len(news) == 1
    assert "before you call them: tides." in news[0]
    later = new_hands()
    later.add([tides])
    later.remember(history)
    assert later.is_known("tides")
    assert ToolReminders(later).late(State(history)) == ()
    assert [message.text for message in ToolReminders(later).late(State(History()))] == news


def test_what_some_other_tool_printed_reveals_nothing() -> None:
    hands = new_hands()
    odd = '<functions>\n<function>{no JSON}</function>\n<function>{"name": 5}</function>\nweather\n</functions>'
    hands.remember([result("c1", odd), result("c2", 'and "name":"weather"')])
    assert not hands.is_known("weather")


@pytest.mark.parametrize(
    ("late", "breaks"), [(tides, []), (bells, [(2, "the set of tools changed")])], ids=["deferred", "whole"]
)
def test_on_the_wire_only_a_whole_tool_breaks_the_prefix_and_that_is_told(
    late: Tool, breaks: list[tuple[int, str]]
) -> None:
    """Over a real socket: the requests themselves, and what the provider has to say of law 4."""
    used = {"type": "tool_use", "id": "toolu_1", "name": "clock", "input": {}}
    server, hands = ModelServer([Say.of(used), Say.of("Noon.")]), new_hands()

    async def main() -> list[tuple[int, str]]:
        async with server, Transport() as transport:
            provider = Anthropic(base_url=server.url, transport=transport)
            broken: list[tuple[int, str]] = []
            async with EngineSession(AgentDeps(provider, hands), Config()).run("How late is it?") as run:
                async for update in run:
                    if isinstance(update, CallDone):
                        hands.add([late])
                    if isinstance(update, PrefixBroken):
                        broken.append((update.block, update.why))
            return broken

    assert asyncio.run(main()) == breaks
    assert server.violations == []
    first, second = [[spec["name"] for spec in request.body["tools"]] for request in server.requests]
    assert first == ["clock", "ToolSearch"]
    assert second == (first if late.deferred else [*first, "bells"])
    assert ("before you call them: tides." in str(server.requests[1].body["messages"])) is late.deferred
