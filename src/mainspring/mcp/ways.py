"""Ways to a server, as the official client takes them: two streams of messages. Loaded with it (`client.py`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import mcp_types as types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from mainspring.mcp.base import UNAUTHORIZED
from mainspring.secrets.redaction import redact
from mainspring.settings.values import McpServer
from mainspring.version import __version__

if TYPE_CHECKING:
    import asyncio

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import ReadStream, WriteStream

    from mainspring.mcp.server_process import McpServerProcess

    Streams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]

SLICE = 65_536
LONGEST_STRAY = 200  # characters of a line that are told
LONGEST_LINE = 32_000_000  # bytes of one message: an image of the largest size, and room


class StrayOutput:
    """What a program printed beside its messages: the last of it, for the case that it never sends one."""

    def __init__(self) -> None:
        self.count = 0
        self.last = b""

    def add(self, line: bytes) -> None:
        self.count += 1
        self.last = line[: 10 * LONGEST_STRAY]

    @property
    def words(self) -> str:
        shown = redact(self.last.decode(errors="replace"))[:LONGEST_STRAY]  # in this order: half a secret would be told
        return f"; it printed {self.count} lines that are no messages, such as '{shown}'" if self.count else ""


@asynccontextmanager
async def connect_over_pipes(program: McpServerProcess, strays: StrayOutput) -> AsyncGenerator[Streams, None]:
    reader, writer = await program.pipes()
    to_us, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_from_server, reader, to_us, strays)
            tasks.start_soon(write_to_server, writer, from_us, to_us)
            yield read, write
            tasks.cancel_scope.cancel()
    finally:
        writer.close()
        for stream in (to_us, read, write, from_us):
            stream.close()


async def read_from_server(
    reader: asyncio.StreamReader, to_us: MemoryObjectSendStream[SessionMessage | Exception], strays: StrayOutput
) -> None:
    """Until its output ends, which is the end of the session. It waits while a message waits to be taken."""
    kept = bytearray()
    async with to_us:
        while data := await reader.read(SLICE):
            kept += data
            if b"\n" in data:
                *lines, rest = bytes(kept).split(b"\n")
                kept = bytearray(rest)
                for line in lines:
                    if not await forward_line(line, to_us, strays):
                        return
            if len(kept) > LONGEST_LINE:
                strays.add(b"a message of more than 32 MB")
                return


async def forward_line(
    line: bytes, to_us: MemoryObjectSendStream[SessionMessage | Exception], strays: StrayOutput
) -> bool:
    """Many a server prints what it thinks: that is passed over."""
    if not line.strip():
        return True
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        strays.add(line)
        return True
    try:
        await to_us.send(SessionMessage(message))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return False
    return True


async def write_to_server(
    writer: asyncio.StreamWriter,
    from_us: MemoryObjectReceiveStream[SessionMessage],
    to_us: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    try:
        async with from_us:
            async for message in from_us:
                json = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(json.encode(errors="replace") + b"\n")
                await writer.drain()
    except OSError:  # it does not listen any more
        to_us.close()


class LastHttpStatus:
    """The status of the last answer to what we said over HTTP: the session itself does not tell."""

    def __init__(self) -> None:
        self.status = 0

    async def note(self, response: httpx2.Response) -> None:
        """That of a stream in the background matters only if nobody is let in."""
        if response.request.method == "POST" or response.status_code in UNAUTHORIZED:
            self.status = response.status_code


def connect_over_http(server: McpServer, heard: LastHttpStatus, seconds: float) -> AbstractAsyncContextManager[Streams]:
    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:  # noqa: ARG001
        return httpx2.AsyncClient(
            headers={"User-Agent": f"mainspring/{__version__}", **server.headers},
            timeout=httpx2.Timeout(30.0, read=seconds),
            event_hooks={"response": [heard.note]},
        )

    if server.kind == "sse":
        return sse_client(server.url, sse_read_timeout=seconds, httpx_client_factory=client)
    return _streamable(server.url, client)


@asynccontextmanager
async def _streamable(url: str, client: Callable[[], httpx2.AsyncClient]) -> AsyncGenerator[Streams, None]:
    async with client() as one, streamable_http_client(url, http_client=one) as streams:
        yield streams
