"""The three providers themselves against the server: text as a stream, leaving in the middle, a call."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

from local.checks import CHAT, RESPONSES, Row, Servers

from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Text, ToolCall, result, user
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import BlockDelta, BlockFinished, Conversation, Item, Provider, StreamEnded, ToolSpec
from mainspring.providers.http.client import Transport
from mainspring.providers.openai.provider import OpenAIChat, OpenAIResponses
from mainspring.tools.json_schema import Schema

MODEL = "smollm2"


@asynccontextmanager
async def provider_at(url: str, protocol: str) -> AsyncGenerator[Provider, None]:
    transport: Transport
    async with Transport() as transport:
        if protocol == CHAT:
            yield OpenAIChat(base_url=url, transport=transport)
        elif protocol == RESPONSES:
            yield OpenAIResponses(base_url=url, transport=transport)
        else:
            yield Anthropic("", base_url=url, transport=transport)


class Said(NamedTuple):
    items: list[Item]
    first: float  # seconds to the first piece
    whole: float

    @property
    def blocks(self) -> list[Text | ToolCall]:
        found = [item.block for item in self.items if isinstance(item, BlockFinished)]
        assert all(isinstance(block, Text | ToolCall) for block in found), f"what is this: {found}"
        return [block for block in found if isinstance(block, Text | ToolCall)]


def request(most: int) -> Request:
    return Request(MODEL, most, 1, "sdk", "", 0, overload_tries=3)


async def ask(provider: Provider, talk: Conversation, most: int) -> Said:
    items: list[Item] = []
    begun, first = time.perf_counter(), 0.0
    async with aclosing(provider.stream(request(most), talk)) as stream:
        async for batch in stream:
            if not first and any(isinstance(item, BlockDelta) for item in batch):
                first = time.perf_counter() - begun
            items.extend(batch)
    return Said(items, first, time.perf_counter() - begun)


def ended(said: Said) -> str:
    """Check what must be true of every answer; returns the figures of this one."""
    (end,) = [item for item in said.items if isinstance(item, StreamEnded)]
    assert said.items[-1] is end, "something came after the end"
    assert end.usage.prompt > 0, "the prompt was not counted"
    assert end.usage.output > 0, "the answer was not counted"
    pieces = sum(isinstance(item, BlockDelta) for item in said.items)
    tokens = f"{end.usage.prompt} + {end.usage.output} tokens"
    return f"{pieces} pieces, {tokens}, first after {said.first:.2f} of {said.whole:.2f} s, {end.stop.value}"


async def text(servers: Servers, protocol: str) -> str:
    async with provider_at(servers.own, protocol) as provider:
        said = await ask(provider, Conversation(History([user("Name three colours.")]), system=("Be brief.",)), 40)
    pieces = [item.text for item in said.items if isinstance(item, BlockDelta)]
    assert said.blocks == [Text("".join(pieces))], f"the pieces do not add up: {said.blocks}"
    assert len(pieces) > 3, f"it came in {len(pieces)} pieces"
    assert said.first < said.whole * 0.8, "the first piece came with the last"
    return ended(said)


async def left_early(servers: Servers, protocol: str) -> str:
    long = Conversation(History([user("Tell me a long story.")]))
    async with provider_at(servers.own, protocol) as provider:
        async with aclosing(provider.stream(request(1_500), long)) as stream:
            async for batch in stream:
                if any(isinstance(item, BlockDelta) for item in batch):
                    break
            left = time.perf_counter()
        gone = time.perf_counter() - left
        said = await ask(provider, Conversation(History([user("Hello.")])), 10)
    assert gone < 1, f"leaving took {gone:.2f} s"
    assert said.first < 20, f"the server went on for {said.first:.1f} s"  # to the end of its story it takes 25
    return f"left in {gone * 1_000:.1f} ms, answered again after {said.first:.2f} s"


FORECAST = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Rome", "Oslo"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "wind": {"type": "boolean"},
    },
    "required": ["city", "days", "wind"],
    "additionalProperties": False,
}
TOOLS = (ToolSpec("forecast", "Tells the weather of a city.", FORECAST),)


async def call(servers: Servers, protocol: str) -> str:
    history: list[Message] = [user("How will the weather be in Oslo?")]
    async with provider_at(servers.tools, protocol) as provider:
        said = await ask(provider, Conversation(History(history), tools=TOOLS), 120)
        (made,) = said.blocks
        assert isinstance(made, ToolCall), f"not a call: {made}"
        assert made.id, "the call has no id"
        assert made.name == "forecast", f"it called '{made.name}'"
        assert made.defect is None, f"the call is defect: {made}"
        assert not (wrong := Schema(FORECAST).violations(made.input)), f"{made.input}: {wrong}"
        history += [Assistant((made,), MODEL, id="a1"), result(made.id, "sunny, 25 degrees")]
        answer = await ask(provider, Conversation(History(history), tools=TOOLS), 40)
    assert answer.blocks, "the result was not answered"
    assert isinstance(answer.blocks[0], Text), f"the result was not answered with text: {answer.blocks}"
    return f"{ended(said)}: {made.input}. Then {ended(answer)}"


ROWS = (
    Row(
        "text", text, "the provider, with the model's own template: the pieces come one by one, and add up to the text"
    ),
    Row("left early", left_early, "a client that leaves an answer does not wait, and the server is free for the next"),
    Row("call", call, "an enum, an integer and a boolean as the schema has them; then the result is answered"),
)
