"""A browser's connection to the viewer: parse small requests, write answers. The server computes the answers.

Everything has a timeout: an incomplete request, a client that does not read, an idle connection. Requests with a body
are refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from mainspring.core.value import Bundle

LARGEST_HEAD = 16 * 1024  # bytes of a request; browsers send a few hundred
PATIENCE = 30.0  # seconds to receive a request, to send an answer, and between two requests
MOST_WAITING = 10  # requests on one connection; a browser sends one at a time
CHUNK = 64 * 1024

REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HttpRequest(Bundle):
    method: str
    path: str  # without its query
    query: str
    headers: Mapping[str, str]  # names in lower case
    twice: bool  # a header occurs twice, so its value is ambiguous


class ServerResponse(Bundle):
    status: int
    body: bytes
    kind: str = "application/json"


Serve = Callable[[HttpRequest], Awaitable[ServerResponse]]

# Sent with every answer: no caching, sniffing, framing, or requests to other sites.
HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


class ViewerConnection(asyncio.Protocol):
    """Answers requests one after another. Cancels the current one when the browser disconnects."""

    transport: asyncio.Transport

    def __init__(self, serve: Serve, connected: set[ViewerConnection], patience: float = PATIENCE) -> None:
        """`connected` is the set of open connections."""
        self._serve = serve
        self._connected = connected
        self._patience = patience
        self._parser = HttpRequestParser(self)
        self._work: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._waiting: deque[tuple[HttpRequest, bool]] = (
            deque()
        )  # requests, and whether the connection is kept after them
        self._begin()

    def _begin(self) -> None:
        self._url, self._size, self._twice = b"", 0, False
        self._headers: dict[str, str] = {}

    # --- from the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._connected.add(self)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > LARGEST_HEAD:
            self._refuse(431, "the request is too long")
            return
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._refuse(400, "only HTTP/1.1 is supported")
        except HttpParserError:
            self._refuse(400, "not an HTTP/1.1 request")

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # how it went does not matter
        self._stop_waiting()
        self._writable.set()
        if self._work is None:
            self._connected.discard(self)
        else:
            self._work.cancel()

    # --- from the parser ---

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        word = name.decode("latin-1").lower()
        self._twice = self._twice or word in self._headers
        self._headers[word] = value.decode("latin-1")

    def on_message_complete(self) -> None:
        path, _, query = self._url.decode("latin-1").partition("?")
        method = self._parser.get_method().decode("latin-1")
        asked = HttpRequest(method, path, query, self._headers, self._twice)
        self._waiting.append((asked, self._parser.should_keep_alive() and not self._has_body()))
        self._begin()
        if len(self._waiting) > MOST_WAITING:
            self.transport.abort()
        elif self._work is None:
            self._next()

    def _next(self) -> None:
        self._stop_waiting()
        asked, keep = self._waiting.popleft()
        self._work = asyncio.get_running_loop().create_task(self._answer(asked, keep=keep))
        self._work.add_done_callback(self._answered)

    def _has_body(self) -> bool:
        return self._headers.get("content-length", "0") != "0" or "transfer-encoding" in self._headers

    # --- answers ---

    async def _answer(self, asked: HttpRequest, *, keep: bool) -> None:
        if not keep and (asked.headers.get("content-length", "0") != "0" or "transfer-encoding" in asked.headers):
            answer = make_problem_response(413, "requests must not have a body")
        else:
            answer = await self._serve(asked)
        self._head(answer, keep=keep)
        body = b"" if asked.method == "HEAD" else answer.body
        for begin in range(0, len(body), CHUNK):
            self.transport.write(body[begin : begin + CHUNK])
            await asyncio.wait_for(self._writable.wait(), self._patience)
        if not keep:
            self.transport.close()

    def _answered(self, work: asyncio.Task[None]) -> None:
        self._work = None
        if work.cancelled() or work.exception() is not None:  # a client that does not read; `_serve` reports bugs
            self.transport.abort()
            self._connected.discard(self)
        elif self.transport.is_closing():
            self._connected.discard(self)
        elif self._waiting:
            self._next()
        else:
            self._wait()

    def _head(self, answer: ServerResponse, *, keep: bool) -> None:
        headers = {
            **HEADERS,
            "content-type": f"{answer.kind}; charset=utf-8",
            "content-length": str(len(answer.body)),
            "connection": "keep-alive" if keep else "close",
        }
        lines = [
            f"HTTP/1.1 {answer.status} {REASONS[answer.status]}",
            *[f"{name}: {headers[name]}" for name in headers],
        ]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def _refuse(self, status: int, words: str) -> None:
        if self._work is not None:  # in the middle of another answer, no message can be sent
            self.transport.abort()
            return
        answer = make_problem_response(status, words)
        self._head(answer, keep=False)
        self.transport.write(answer.body)
        self.transport.close()

    # --- timeouts ---

    def _wait(self) -> None:
        self._stop_waiting()
        self._timer = asyncio.get_running_loop().call_later(self._patience, self._too_late)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self.transport.abort()

    async def close(self) -> None:
        work = self._work
        self.transport.abort()
        if work is not None:
            work.cancel()
            await asyncio.wait([work])


def make_problem_response(status: int, words: str) -> ServerResponse:
    return ServerResponse(status, f"{words}\n".encode(), "text/plain")
