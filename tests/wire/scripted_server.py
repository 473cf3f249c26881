"""A real socket that answers with the replies of a script, in Anthropic's wire format: for the conformance suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from mainspring.core.effects import Request
from mainspring.core.messages import RedactedThinking, ServerBlock, Stop, Text, Thinking, ToolCall
from mainspring.core.reasons import Trouble
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Batch, Conversation, Retry
from mainspring.providers.http.client import Transport
from mainspring.providers.retry import PATIENCE, RetryProfile
from mainspring.providers.scripted import Break, Part, Pause, ScriptedReply

ERRORS = {Trouble.OVERLOADED: "overloaded_error", Trouble.RATE_LIMIT: "rate_limit_error"}
IMPATIENT = replace(PATIENCE[RetryProfile.FOREGROUND], base=1, cap=1)


class Served:
    """A provider whose server speaks the given replies."""

    def __init__(self, replies: list[ScriptedReply]) -> None:
        self._replies = replies

    async def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        async with ScriptedServer(self._replies) as server, Transport() as transport:
            provider = Anthropic(base_url=server.url, transport=transport, patience=IMPATIENT)
            async with aclosing(provider.stream(request, conversation)) as stream:
                async for batch in stream:
                    yield batch


class ScriptedServer:
    def __init__(self, replies: list[ScriptedReply]) -> None:
        self._replies = list(replies)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                await self._answer(writer)
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        reply = self._replies[0]
        if reply.parts and isinstance(reply.parts[0], Retry):
            self._replies[0] = msgspec.structs.replace(reply, parts=reply.parts[1:])
            body = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
            writer.write(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            return
        self._replies.pop(0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        usage = {"input_tokens": reply.usage.input, "output_tokens": 0}
        send(writer, {"type": "message_start", "message": {"usage": usage}})
        for index, part in enumerate(reply.parts):
            if await self._part(lambda event: send(writer, event), index, part):
                break
            await writer.drain()
        calls = any(isinstance(part, ToolCall) for part in reply.parts)
        stop = reply.stop or (Stop.TOOL_USE if calls else Stop.END_TURN)
        usage = {"output_tokens": reply.usage.output}
        send(writer, {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage})
        send(writer, {"type": "message_stop"})
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _part(self, send: Callable[[dict[str, Any]], None], index: int, part: Part) -> bool:
        """Whether the stream is over with it."""
        if isinstance(part, Pause):
            await asyncio.sleep(part.milliseconds / 1_000)
        elif isinstance(part, Break):
            error = {"type": ERRORS.get(part.failure.kind, "api_error"), "message": part.failure.detail}
            send({"type": "error", "error": error})
            return True
        else:
            block, deltas = wire_form(part)
            send({"type": "content_block_start", "index": index, "content_block": block})
            for delta in deltas:
                send({"type": "content_block_delta", "index": index, "delta": delta})
            send({"type": "content_block_stop", "index": index})
        return False


def send(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    data = b"event: %s\ndata: %s\n\n" % (event["type"].encode(), msgspec.json.encode(event))
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def wire_form(part: Part) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match part:
        case Text():
            halves = part.text[:5], part.text[5:]
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": half} for half in halves]
        case Thinking():
            deltas = [{"type": "thinking_delta", "thinking": part.text}]
            return {"type": "thinking", "thinking": "", "signature": ""}, [
                *deltas,
                {"type": "signature_delta", "signature": part.signature},
            ]
        case ToolCall():
            written = msgspec.json.encode(part.input).decode()
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}, [
                {"type": "input_json_delta", "partial_json": written}
            ]
        case RedactedThinking():
            return {"type": "redacted_thinking", "data": part.data}, []
        case ServerBlock():
            return msgspec.json.decode(part.json), []
        case _:
            raise AssertionError(f"{part} is not part of a conformance script")
