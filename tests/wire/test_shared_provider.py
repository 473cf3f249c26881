"""One provider object for many sessions: each session's requests extend its own, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import mainspring
from mainspring.core.models import model_named
from mainspring.core.updates import PrefixBroken, Result
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.http.client import Transport
from mainspring.providers.openai.provider import OpenAIChat, OpenAIResponses
from mainspring.providers.projection import RequestProjection
from mainspring.providers.router import ToollessProvider
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.simulator.server import ModelServer

TURNS = 6
KINDS: dict[str, tuple[Any, str]] = {
    "adaptive thinking": (Anthropic, "claude-sonnet-5"),
    "budgeted thinking": (Anthropic, "claude-sonnet-4-5"),
    "chat": (OpenAIChat, "gpt-5"),
    "responses": (OpenAIResponses, "gpt-5"),
}


@mainspring.tool
async def look(part: int) -> str:
    """Look at a part."""
    return f"Part {part} is fine."


def goes_on(received: ReceivedRequest) -> Reply:
    turn = received.talk.turns()
    call = {"type": "tool_use", "id": f"toolu_{received.connection}_{turn}", "name": "look", "input": {"part": turn}}
    return Say.of("All are fine.") if turn >= TURNS else Say.of("The next one.", call)


@asynccontextmanager
async def provided(kind: Any, server: ModelServer) -> AsyncIterator[Any]:
    address = server.url if kind is Anthropic else f"{server.url}/v1"
    async with Transport() as transport:
        yield kind("key", base_url=address, transport=transport)


@pytest.mark.parametrize("kind", KINDS)
def test_sessions_that_share_a_provider_break_no_prefix(kind: str) -> None:
    made, model = KINDS[kind]
    server = ModelServer(choose=goes_on)

    async def session(provider: Any, name: str) -> list[Any]:
        async with mainspring.open_run(
            f"Look at all parts, {name}.", provider=provider, tools=[look], model=model_named(model)
        ) as run:
            return [update async for update in run]

    async def main() -> list[list[Any]]:
        async with server, provided(made, server) as provider:
            return await asyncio.gather(*[session(provider, f"number {n}") for n in range(5)])

    for updates in asyncio.run(main()):
        broken = [update.why for update in updates if isinstance(update, PrefixBroken)]
        assert broken == (["thinking was switched"] if kind == "budgeted thinking" else [])  # it did not think
        result = updates[-1]
        assert isinstance(result, Result)
        assert (result.text, result.model_calls) == ("All are fine.", TURNS + 1)
    assert server.violations == []


def projections() -> int:
    gc.collect()
    return sum([isinstance(one, RequestProjection) for one in gc.get_objects()])


@pytest.mark.parametrize("around", [lambda provider: provider, ToollessProvider], ids=["plain", "toolless"])
def test_a_provider_keeps_nothing_of_a_session_that_is_gone(around: Any) -> None:
    server, before = ModelServer(choose=lambda _: Say.of("Hello.")), projections()

    async def main() -> None:
        async with server, provided(Anthropic, server) as made:
            provider = around(made)
            async with mainspring.open_run("hi", provider=provider, model=model_named("claude-sonnet-5")) as run:
                async for _ in run:
                    pass
            assert projections() == before + 1
            del run
            assert projections() == before

    asyncio.run(main())
