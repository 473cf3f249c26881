"""The clients of bench/wire.py: ours, and the minimum that could be written instead.

`Raw` is asyncio, httptools, a split and msgspec. It has no limits, deadlines, retries or errors, keeps nothing and
hands nothing on. The benchmark gives our provider's cost in multiples of it, over the same kind of socket and the same
bytes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time_ns
from typing import NamedTuple, Self, cast

from httptools import HttpResponseParser
from msgspec import Struct
from msgspec.json import Decoder

from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import Text, User
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import BlockDelta, Conversation
from mainspring.providers.http.client import Transport
from mainspring.providers.http.proxy import ProxySettings

HERE = Path(__file__).parent
MODEL = "claude-sonnet-5-5"
REQUEST = Request(MODEL, 32_000, turn=1, source="main", chain="", depth=0, overload_tries=3, adaptive=True)
HELLO = Conversation(History([User((Text("Hello."),), id="hello")]))


def now() -> float:
    """The processor time of this process, in microseconds: without the server's and other programs'."""
    return process_time_ns() / 1_000


class Read(NamedTuple):
    """The figures of one stream."""

    took: float  # microseconds of the processor
    deltas: int
    reads: int  # how often it received something


class Server:
    """The server process. It ends when we do: it waits for its standard input to be closed."""

    def __enter__(self) -> Self:
        command = [sys.executable, str(HERE / "wire_server.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.line())
        return self

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def url(self, manner: str) -> str:
        return f"http://127.0.0.1:{self.port}/{manner}"

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()


# --- ours -------------------------------------------------------------------------------------------------------


def new_transport() -> Transport:
    return Transport(proxies=ProxySettings({}))


async def ours(provider: Anthropic, request: Request = REQUEST, conversation: Conversation = HELLO) -> Read:
    deltas = reads = 0
    start = now()
    async for batch in provider.stream(request, conversation):
        reads += 1
        for item in batch:
            deltas += isinstance(item, BlockDelta)
    return Read(now() - start, deltas, reads)


# --- the minimum ------------------------------------------------------------------------------------------------


class Delta(Struct):
    type: str = ""
    text: str = ""


class Event(Struct):
    type: str
    index: int = 0
    delta: Delta | None = None


decode = Decoder(Event).decode


class Raw(asyncio.Protocol):
    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self.deltas = self.reads = 0
        self._parser = HttpResponseParser(self)
        self._chunks: list[bytes] = []
        self._rest = b""
        self._whole = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def on_body(self, data: bytes) -> None:
        self._chunks.append(data)

    def on_message_complete(self) -> None:
        self._whole = True

    def data_received(self, data: bytes) -> None:
        self.reads += 1
        self._parser.feed_data(data)
        *records, self._rest = (self._rest + b"".join(self._chunks)).split(b"\n\n")
        self._chunks.clear()
        for record in records:
            event = decode(record[record.index(b"data: ") + 6 :])
            self.deltas += event.type == "content_block_delta"
        if self._whole:
            self._whole = False
            self.ended.set_result(None)


def request(manner: str, body: Sequence[bytes] = (b"{}",)) -> list[bytes]:
    """In pieces, the first of which is the head."""
    lines = [f"POST /{manner}/v1/messages HTTP/1.1", "host: 127.0.0.1", f"content-length: {sum(map(len, body))}"]
    return ["\r\n".join([*lines, "", ""]).encode(), *body]


async def connected(server: Server) -> Raw:
    _, client = await asyncio.get_running_loop().create_connection(Raw, "127.0.0.1", server.port)
    return client


async def raw(server: Server, manner: str, body: Sequence[bytes] = (b"{}",)) -> Read:
    """Excludes connecting (ours has kept its connection from the round before) and the head of the request."""
    client = await connected(server)
    read = await raw_again(client, manner, body)
    client.transport.close()
    return read


async def raw_again(client: Raw, manner: str, body: Sequence[bytes]) -> Read:
    """On a kept connection, like ours: the kernel does other work for a new one."""
    pieces, before = request(manner, body), (client.deltas, client.reads)
    client.ended = asyncio.get_running_loop().create_future()
    start = now()
    client.transport.writelines(pieces)
    await client.ended
    return Read(now() - start, client.deltas - before[0], client.reads - before[1])
