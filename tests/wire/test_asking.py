"""What every provider shares: a key that is refused, and answers that are none. Against a server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import user
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation
from mainspring.providers.http.client import Transport
from mainspring.providers.http_provider import ApiKey, HttpProvider
from mainspring.providers.openai.provider import OpenAIChat, OpenAIResponses
from mainspring.providers.retry import PATIENCE, RetryProfile
from mainspring.simulator.replies import Say
from mainspring.simulator.server import ModelServer

HELLO = Conversation(History([user("hi")]))
ONCE = replace(PATIENCE[RetryProfile.FOREGROUND], tries=1)


def asked(source: str) -> Request:
    return Request("claude-haiku-4-5", 1_000, 0, source, "", 0, overload_tries=0)


def test_three_requests_that_are_refused_at_once_share_the_new_key() -> None:
    async def main() -> list[int]:
        async with ModelServer([Say.of("Hi.")] * 3, api_key="new-key") as server, Transport() as transport:
            waiting = asyncio.Event()

            async def refresh() -> str:
                """As long as not all were refused, the helper has not answered."""
                if len(server.requests) == 3:
                    waiting.set()
                await waiting.wait()
                return "new-key"

            provider = Anthropic(ApiKey("old-key", refresh=refresh), base_url=server.url, transport=transport)

            async def ask(source: str) -> int:
                return sum([len(batch) async for batch in provider.stream(asked(source), HELLO)])

            async with asyncio.timeout(30):
                return await asyncio.gather(*[ask(source) for source in ("a", "b", "c")])

    assert all(asyncio.run(main()))


@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses])
@pytest.mark.parametrize("body", [b'{"error":{"message":"Slow down","code":429}}', b'{"choices":[]}', b"not json"])
def test_a_200_that_is_no_answer_is_a_failure(kind: Callable[..., HttpProvider], body: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Transport() as transport:
            provider = kind("key", base_url=f"http://127.0.0.1:{port}/v1", transport=transport, patience=ONCE)
            with pytest.raises(ProviderError):
                async for batch in provider.stream(asked("a"), HELLO):
                    assert batch, "nobody can do anything with an empty one"

    asyncio.run(main())
