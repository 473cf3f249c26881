"""Requests that are too large in bytes: one that is known to be refused is not sent; what is told names the sizes."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Text, user
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.view import Drop
from mainspring.providers.anthropic.provider import LARGEST, Anthropic
from mainspring.providers.base import Conversation, Item, PrefixBreak, StreamEnded
from mainspring.providers.http_provider import HttpProvider
from mainspring.providers.openai.provider import OpenAIChat
from mainspring.simulator.replies import Refuse, Say
from mainspring.simulator.server import ModelServer

REQUEST = Request(model="claude-haiku-4-5", max_output=1_000, turn=1, source="sdk", chain="", depth=0, overload_tries=3)
TOO_LARGE = Refuse(413, "", "Request Entity Too Large")


async def asked(provider: HttpProvider, conversation: Conversation) -> list[Item] | Failure:
    items: list[Item] = []
    try:
        async for batch in provider.stream(REQUEST, conversation):
            items += batch
    except ProviderError as error:
        return error.failure
    return items


def told(*messages: Message) -> Conversation:
    return Conversation(History(messages))


ONE = replace(user("one"), id="u1")
TWO = Assistant((Text("two"),), "claude-haiku-4-5", id="a1")


def filling(size: int) -> Message:
    return replace(user("x" * size), id="giant")


def test_what_is_known_to_be_refused_is_not_sent_and_does_not_count_as_sent() -> None:
    """The request behind it extends the one before it: nothing that is cached was lost (law 4)."""

    async def main() -> None:
        async with ModelServer([Say.of("two"), Say.of("four")]) as server:
            provider = Anthropic(base_url=server.url)
            assert isinstance(await asked(provider, told(ONE)), list)
            history = History([ONE, TWO, filling(LARGEST)])
            failure = await asked(provider, Conversation(history))
            size = Anthropic().prepare(REQUEST, Conversation(history)).body.size
            words = f"the request has {size:,} bytes, and the API accepts 33,554,432 (32.0 MB)"
            assert failure == Failure(Trouble.TOO_LARGE, words)
            assert len(server.requests) == 1
            without = Conversation(history.append(replace(user("three"), id="u2")), (Drop(("giant",)),))
            items = await asked(provider, without)
            assert isinstance(items, list)
            assert isinstance(items[-1], StreamEnded)
            assert [item for item in items if isinstance(item, PrefixBreak)] == []
            assert server.violations == []

    asyncio.run(main())


@pytest.mark.parametrize("over", [0, 1])
def test_the_limit_is_exact(over: int) -> None:
    """The judge of requests has the same one."""

    async def main() -> None:
        async with ModelServer([Say.of("fine")]) as server:
            around = Anthropic(base_url=server.url).prepare(REQUEST, told(filling(1))).body.size - 1
            heard = await asked(Anthropic(base_url=server.url), told(filling(LARGEST - around + over)))
            assert isinstance(heard, Failure if over else list)
            assert [len(request.raw) for request in server.requests] == ([] if over else [LARGEST])
            assert server.violations == []

    asyncio.run(main())


@pytest.mark.parametrize("kind", [Anthropic, OpenAIChat])
def test_a_servers_own_limit_is_told_with_the_size_of_the_request(kind: type[Anthropic | OpenAIChat]) -> None:
    async def main() -> None:
        async with ModelServer([TOO_LARGE]) as server:
            provider = kind("key", base_url=server.url)
            failure = await asked(provider, told(filling(2 * 1024 * 1024)))
            words = "413: Request Entity Too Large (the request has 2.0 MB)"
            assert failure == Failure(Trouble.TOO_LARGE, words, 413)
            assert len(server.requests) == 1

    asyncio.run(main())
