"""The model is changed in the middle of a run, between servers of three protocols and back, through the real loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import cycle
from typing import Any

from faults.stage import ALONE, PATIENT, QUICK, Hands
from msgspec.structs import replace

from mainspring.core.messages import Assistant, Thinking
from mainspring.core.models import model_named
from mainspring.core.reasons import Cause
from mainspring.engine.session import EngineSession
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Provider
from mainspring.providers.http.client import Transport
from mainspring.providers.openai.provider import OPENAI, OpenAIChat, OpenAIResponses
from mainspring.providers.router import ProviderRouter
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.simulator.server import ModelServer
from mainspring.tools.custom import tool

TURNS = 9
NAMES = ("claude-sonnet-5-5", "gpt-5.5", "other/gpt-6")
PATHS = ("/v1/messages", "/v1/responses", "/v1/chat/completions")


def choose(received: ReceivedRequest) -> Reply:
    """Says how far it is, with thoughts; at the end, that this is all."""
    seen = len(received.talk.results("Look"))
    thought = {"type": "thinking", "thinking": f"thought {seen}"}
    if seen == TURNS:
        return Say.of(thought, "That is all.")
    call = {"type": "tool_use", "id": f"toolu_{seen}", "name": "Look", "input": {"part": seen}}
    return Say.of(thought, f"Looking at {seen}.", call)


def router(url: str, transport: Transport) -> ProviderRouter:
    how: Any = {"base_url": url, "transport": transport, "patience": QUICK}
    makers: dict[str, Callable[[], Provider]] = {
        "claude-sonnet-5-5": lambda: Anthropic("key", **how),
        "gpt-5.5": lambda: OpenAIResponses("key", manners=OPENAI, **how),
        "other/gpt-6": lambda: OpenAIChat("key", manners=OPENAI, prefix="other/", **how),
    }
    return ProviderRouter(lambda model: (model, makers[model]))


def test_every_turn_of_a_run_at_another_server() -> None:
    async def main() -> tuple[list[ReceivedRequest], EngineSession, Cause]:
        async with (
            ModelServer(choose=choose, odd=("reasoning_content",)) as server,
            Transport(deadlines=PATIENT) as transport,
        ):
            following = cycle(NAMES[1:] + NAMES[:1])

            @tool(name="Look", about="Looks at a part.")
            async def look(part: int) -> str:
                now = session.shared.policy
                await session.change(replace(now, model=model_named(next(following))))
                return f"Part {part} is fine."

            hands = Hands(router(server.url, transport), [look], system=("You look.",))
            config = replace(ALONE, model=model_named(NAMES[0]), max_turns=20)
            session = EngineSession(hands, config)
            async with session.run("go") as run:
                async for _ in run:
                    pass
            assert server.violations == []
            assert run.result is not None
            return server.requests, session, run.result.cause

    requests, session, cause = asyncio.run(main())
    assert cause is Cause.END_TURN
    assert [request.path for request in requests] == [PATHS[n % 3] for n in range(TURNS + 1)]
    assert [request.body["model"] for request in requests[:3]] == ["claude-sonnet-5-5", "gpt-5.5", "gpt-6"]
    for n, request in enumerate(requests):
        told = json.dumps(request.body)
        for before in range(n):
            assert all(part in told for part in (f"Looking at {before}.", f"toolu_{before}", f"Part {before} is fine."))
        # What was thought goes back to the model that thought it, where its protocol takes it; to no other.
        own = {before for before in range(n) if n % 3 != 2 and before % 3 == n % 3}
        assert {before for before in range(n) if f"thought {before}" in told} == own, n
    replies = [message for message in session.state.history if isinstance(message, Assistant)]
    assert [isinstance(reply.blocks[0], Thinking) for reply in replies] == [True] * (TURNS + 1)
