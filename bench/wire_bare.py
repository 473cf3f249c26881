"""The floor of bench/speed.py: the least that a loop around a model could be. asyncio, httptools, msgspec; one socket,
one growing body, a call, its result, again. It checks nothing, stores nothing and shows nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httptools
from msgspec import Struct
from msgspec.json import Decoder, encode


class Block(Struct):
    type: str = ""
    id: str = ""
    name: str = ""


class Delta(Struct):
    text: str = ""
    partial_json: str = ""


class Event(Struct):
    type: str
    content_block: Block | None = None
    delta: Delta | None = None


decode = Decoder(Event).decode


class BareClient(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def begin(self) -> asyncio.Future[None]:
        self.parser = httptools.HttpResponseParser(self)
        self.rest, self.text = b"", list[str]()
        self.calls: list[tuple[Block, list[str]]] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return self.ended

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        *records, self.rest = (self.rest + data).split(b"\n\n")
        for record in records:
            event = decode(record[record.index(b"data: ") + 6 :])
            if event.delta is not None:
                if event.delta.partial_json:
                    self.calls[-1][1].append(event.delta.partial_json)
                else:
                    self.text.append(event.delta.text)
            elif event.content_block is not None and event.content_block.type == "tool_use":
                self.calls.append((event.content_block, []))

    def on_message_complete(self) -> None:
        self.ended.set_result(None)


async def run(url: str, prompt: str, tools: dict[str, Callable[..., Any]]) -> str:
    """The text of the last reply."""
    address = urlsplit(url)
    given = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
    begin = encode({"model": "m", "max_tokens": 1_000, "stream": True, "tools": given})[:-1] + b',"messages":['
    parts = [encode({"role": "user", "content": prompt})]
    head = f"POST {address.path}/v1/messages HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-length: "
    loop, host, port = asyncio.get_running_loop(), address.hostname or "", address.port or 0
    _, client = await loop.create_connection(BareClient, host, port)
    while True:
        body = b"".join([begin, b",".join(parts), b"]}"])
        ended = client.begin()
        client.transport.write(b"%s%d\r\n\r\n%s" % (head.encode(), len(body), body))
        await ended
        if not client.calls:
            client.transport.close()
            return "".join(client.text)
        calls: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for block, pieces in client.calls:
            made = Decoder().decode("".join(pieces))
            calls.append({"type": "tool_use", "id": block.id, "name": block.name, "input": made})
            text = str(tools[block.name](**made))
            results.append({"type": "tool_result", "tool_use_id": block.id, "content": text})
        parts.append(encode({"role": "assistant", "content": [{"type": "text", "text": "".join(client.text)}, *calls]}))
        parts.append(encode({"role": "user", "content": results}))
