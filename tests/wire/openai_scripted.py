"""A real socket that answers with the replies of a script, in OpenAI's two wire formats: for the conformance suite.

The script is told as Anthropic's events, and the simulator's tellers spell them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from mainspring.core.effects import Request
from mainspring.core.messages import Stop, ToolCall
from mainspring.providers.base import Batch, Conversation, Item, Retry
from mainspring.providers.http.client import Transport
from mainspring.providers.openai.provider import OPENAI, OpenAI, OpenAIChat
from mainspring.providers.scripted import Break, Pause, ScriptedReply
from mainspring.simulator.openai_chat import ChatStreamWriter
from mainspring.simulator.openai_responses import ResponsesStreamWriter
from mainspring.simulator.replies import Json, ReplyStamp, Say
from wire.scripted_server import IMPATIENT, ScriptedServer, wire_form

ASKED: Json = {
    "stream_options": {"include_usage": True},
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"summary": "auto"},
}
SLOW_DOWN = b'{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}'


class Served:
    """A provider whose server speaks the given replies."""

    def __init__(self, kind: type[OpenAI], replies: list[ScriptedReply]) -> None:
        self._kind = kind
        self._replies = replies

    async def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        speaks = Chatting if self._kind is OpenAIChat else Responding
        async with speaks(self._replies) as server, Transport() as transport:
            provider = self._kind(base_url=server.url, transport=transport, patience=IMPATIENT, manners=OPENAI)
            async with aclosing(provider.stream(request, conversation)) as stream:
                async for batch in stream:
                    yield batch


class Responding(ScriptedServer):
    teller: Any = ResponsesStreamWriter

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        reply = self._replies[0]
        if reply.parts and isinstance(reply.parts[0], Retry):
            self._replies[0] = msgspec.structs.replace(reply, parts=reply.parts[1:])
            head = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: %d\r\n\r\n"
            writer.write(head % len(SLOW_DOWN) + SLOW_DOWN)
            return
        self._replies.pop(0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        tell = self.teller(self._said(reply), ReplyStamp("some-model", "msg_1", lambda: "sig"), ASKED)

        def send(event: Json) -> None:
            if data := tell(event):
                writer.write(b"%x\r\n%s\r\n" % (len(data), data))

        send({"type": "message_start"})
        for index, part in enumerate(reply.parts):
            if await self._part(send, index, part):
                break
            await writer.drain()
        send({"type": "message_delta"})
        send({"type": "message_stop"})
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _said(self, reply: ScriptedReply) -> Say:
        spoken = [part for part in reply.parts if not isinstance(part, Pause | Break | Item)]
        calls = any(isinstance(part, ToolCall) for part in spoken)
        stop = reply.stop or (Stop.TOOL_USE if calls else Stop.END_TURN)
        return Say(tuple([wire_form(part)[0] for part in spoken]), stop, reply.usage, odd=("reasoning_content",))


class Chatting(Responding):
    teller = ChatStreamWriter
