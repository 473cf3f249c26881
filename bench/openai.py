"""What OpenAI's two protocols cost, compared with Anthropic's in the same run: processor time per event and per turn.

The three providers alternate, and each figure is the minimum of many. Target: at most 1.3 times Anthropic's. Chunks of
chat completions are more than twice as long as Anthropic's events (see `openai_server.py`), so per event a part of what
is over 1 is the price of reading them.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Stop, Text, ToolCall, ToolResult, User
from mainspring.engine.session_deps import default_cache_marks
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import BlockDelta, Conversation, ToolSpec
from mainspring.providers.http.client import Transport
from mainspring.providers.http_provider import HttpProvider
from mainspring.providers.openai.provider import OPENAI, PLAIN, OpenAIChat, OpenAIResponses

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import Figure, show
from bench.wire_clients import HERE, REQUEST, new_transport, now

AIM = 1.3
ROUNDS = 30  # bursts of each
SESSIONS = 15  # of each length
SHORT, LONG = 10, 1_000  # turns
PIECE = 2 * SHORT - 2  # turns of a session that are timed, as in bench/wire.py

TOOLS = (ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}}),)
SYSTEM = ("You work on a repository.",)

New = Callable[[str, Transport], HttpProvider]
PROVIDERS: dict[str, New] = {
    "anthropic": lambda url, transport: Anthropic("key", base_url=url, transport=transport),
    "chat": lambda url, transport: OpenAIChat("key", base_url=url, transport=transport, manners=OPENAI),
    "chat, looked through": lambda url, transport: OpenAIChat("key", base_url=url, transport=transport, manners=PLAIN),
    "responses": lambda url, transport: OpenAIResponses("key", base_url=url, transport=transport, manners=OPENAI),
}
MODELS = {"anthropic": REQUEST.model}


def request(name: str) -> Request:
    return replace(REQUEST, model=MODELS.get(name, "gpt-5.5"), adaptive=name == "anthropic")


class Server:
    """The server process. It ends when we do: it waits for its standard input to be closed."""

    def __enter__(self) -> Self:
        command = [sys.executable, str(HERE / "openai_server.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        return self

    def url(self, manner: str) -> str:
        return f"http://127.0.0.1:{self._port}/{manner}"

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()


async def least(works: Mapping[str, Callable[[], Awaitable[float]]], rounds: int) -> dict[str, float]:
    """The works alternate, so that a slow moment of the machine does not affect only one of them."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            gc.collect()
            best[name] = min(best[name], await work())
    return best


async def streamed(provider: HttpProvider, asked: Request, talk: Conversation) -> tuple[float, int]:
    """Microseconds, and pieces."""
    pieces, start = 0, now()
    async for batch in provider.stream(asked, talk):
        for item in batch:
            pieces += isinstance(item, BlockDelta)
    return now() - start, pieces


def beside(name: str, found: dict[str, float]) -> Iterator[Figure]:
    for provider, value in found.items():
        yield Figure(f"{name}: {provider}", value, "us")
    for provider, value in found.items():
        if provider != "anthropic":
            yield Figure(f"{name}: {provider} / anthropic", value / found["anthropic"], "x", AIM)


# --- events ---------------------------------------------------------------------------------------------

HELLO = Conversation(History([User((Text("Hello."),), id="hello")]), (), SYSTEM, TOOLS)


async def event_figures(server: Server) -> list[Figure]:
    async with new_transport() as transport:

        async def one(name: str, provider: HttpProvider) -> float:
            took, pieces = await streamed(provider, request(name), HELLO)
            return took / pieces

        asked = {name: new(server.url("burst"), transport) for name, new in PROVIDERS.items()}
        works = {name: partial(one, name, provider) for name, provider in asked.items()}
        return list(beside("event", await least(works, ROUNDS)))


# --- turns ----------------------------------------------------------------------------------------------


def talks(name: str, turns: int) -> list[Conversation]:
    """A session turn by turn: a line of text, one call, and its result of a kilobyte."""
    history, found = History([User((Text("Please look at the files."),), id="prompt")]), list[Conversation]()
    for number in range(turns):
        call = ToolCall(f"toolu_{number}", "Read", {"file_path": f"src/file_{number}.py"})
        model = request(name).model
        reply = Assistant((Text("Let me look."), call), model, Stop.TOOL_USE, id=f"reply-{number}")
        history = history.append(reply, ToolResult(call.id, (Text("x" * 1_000),), id=f"result-{number}"))
        found.append(Conversation(history, (), SYSTEM, TOOLS, default_cache_marks(history)))
    return found


async def made(name: str, turns: int) -> float:
    """A request, up to its pieces."""
    async with new_transport() as transport:
        provider, best = PROVIDERS[name]("http://127.0.0.1:1/v1", transport), float("inf")
        for number, talk in enumerate(talks(name, turns)):
            start = now()
            prepared = provider.prepare(request(name), talk)
            took = now() - start
            assert prepared.broken is None
            if number >= turns - PIECE:
                best = min(best, took)
        return best


async def sent(server: Server, name: str, turns: int) -> float:
    """A request, made and sent, and a reply of one word."""
    async with new_transport() as transport:
        provider, best = PROVIDERS[name](server.url("once"), transport), float("inf")
        for number, talk in enumerate(talks(name, turns)):
            if number < turns - PIECE:
                provider.prepare(request(name), talk)
            else:
                best = min(best, (await streamed(provider, request(name), talk))[0])
        return best


async def turn_figures(server: Server) -> list[Figure]:
    figures: list[Figure] = []
    for turns in (SHORT, LONG):
        length = turns + PIECE // 2
        making = {name: partial(made, name, length) for name in PROVIDERS}
        figures += beside(f"request made at turn {turns:,}", await least(making, SESSIONS))
        sending = {name: partial(sent, server, name, length) for name in PROVIDERS}
        figures += beside(f"turn over the wire at {turns:,}", await least(sending, SESSIONS))
    return figures


def all_figures() -> Iterator[Figure]:
    with Server() as server:
        yield from asyncio.run(event_figures(server))
        yield from asyncio.run(turn_figures(server))


if __name__ == "__main__":
    sys.exit(0 if show(all_figures()) else 1)
