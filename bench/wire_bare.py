"""A minimal client: asyncio, httptools, one POST and its answer. How soon does its request arrive?

bench/wire.py starts it as it starts `mainspring`, with the same interpreter: `wire_bare.py PORT PATH BODY`.
"""

import asyncio
import sys

import httptools


class Client(asyncio.Protocol):
    def __init__(self, request: bytes) -> None:
        self.request = request
        self.parser = httptools.HttpResponseParser(self)
        self.ended = asyncio.get_running_loop().create_future()
        self.body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.ended.set_result(None)


async def ask(port: int, path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(lambda: Client(head.encode() + body), "127.0.0.1", port)
    await client.ended
    return client.body


if __name__ == "__main__":
    print(len(asyncio.run(ask(int(sys.argv[1]), sys.argv[2], sys.argv[3].encode()))))
