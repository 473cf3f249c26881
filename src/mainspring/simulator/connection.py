"""One client's connection: HTTP/1.1 requests in, responses out, kept alive. The server decides the answers."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

LARGEST_BODY = 33 * 1024 * 1024  # a little more than the API accepts, to validate requests that are too large

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Request Entity Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
    529: "Overloaded",
}


class IncomingRequest(NamedTuple):
    method: str
    path: str  # without the query
    headers: dict[str, str]  # names in lower case
    body: bytes
    keep_alive: bool
    query: str = ""


class ServerConnection(asyncio.Protocol):
    """Serves requests one after the other, however many the client sends at once.

    When the client disconnects, the current request is cancelled.
    """

    def __init__(
        self,
        number: int,
        serve: Callable[[ServerConnection, IncomingRequest], Awaitable[None]],
        ended: Callable[[ServerConnection], None],
    ) -> None:
        self.number = number
        self.client_left = False
        self.failure: BaseException | None = None  # errors of `serve`: a bug, never the client's fault
        self.transport: asyncio.Transport
        self._serve = serve
        self._ended = ended
        self._lost = False
        self._given_up = False
        self._parser = HttpRequestParser(self)
        self._waiting: deque[IncomingRequest] = deque()
        self._work: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    # --- from the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.respond(400, {"content-type": "text/plain", "connection": "close"}, b"this is no HTTP/1.1 request\n")
            self.transport.close()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the reason does not matter
        self._lost = True
        self.client_left = not self._given_up
        self._writable.set()
        if self._work is None:
            self._ended(self)
        else:
            self._work.cancel()

    # --- from the parser ---

    def on_message_begin(self) -> None:
        self._url, self._headers, self._body = b"", {}, bytearray()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        if len(self._body) <= LARGEST_BODY:
            self._body += body

    def on_message_complete(self) -> None:
        path, _, query = self._url.decode("latin-1").partition("?")
        method = self._parser.get_method().decode("latin-1")
        keep_alive = self._parser.should_keep_alive()
        self._waiting.append(IncomingRequest(method, path, self._headers, bytes(self._body), keep_alive, query))
        if self._work is None:
            self._next()

    def _next(self) -> None:
        self._work = asyncio.get_running_loop().create_task(self._serve_one(self._waiting.popleft()))
        self._work.add_done_callback(self._served)

    async def _serve_one(self, incoming: IncomingRequest) -> None:
        await self._serve(self, incoming)
        if not incoming.keep_alive:
            self.transport.close()

    def _served(self, work: asyncio.Task[None]) -> None:
        self._work = None
        if not work.cancelled() and work.exception() is not None:
            self.failure = work.exception()
            self.transport.abort()
        if self._lost:
            self._ended(self)
        elif self._waiting and not self.transport.is_closing():
            self._next()

    # --- to the client ---

    def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.begin(status, {**headers, "content-length": str(len(body))})
        self.transport.write(body)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}", *[f"{name}: {headers[name]}" for name in headers]]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def send(self, data: bytes) -> None:
        if not self.transport.is_closing():  # otherwise it is never retrieved, and asyncio would complain
            self.transport.write(data)
        await self._writable.wait()

    async def send_chunk(self, data: bytes) -> None:
        """Empty data ends the body."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def reset(self) -> None:
        """Reset the connection: the client's next read fails, instead of finding the end."""
        self._given_up = True
        held: socket.socket = self.transport.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def close(self) -> None:
        """Close from our side: the current request is cancelled."""
        work = self._work
        self._given_up = True
        self.transport.abort()
        if work is not None:
            work.cancel()
            await asyncio.wait([work])
