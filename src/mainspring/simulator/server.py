"""The model server: loopback only, one process, as many connections as come.

    async with ModelServer([Say.of("Hello."), Refuse(529, "overloaded_error", "Overloaded")]) as server:
        ...                                  # talk to server.url
    assert server.violations == [] and len(server.requests) == 2

Every request is judged by `validate.py`; one that breaks a rule is answered as the API would answer it, and uses up no
reply. Replies come in order, or from `choose`, which sees the request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple, Self, assert_never

import msgspec

from mainspring.simulator.connection import Connection, Incoming
from mainspring.simulator.replies import Raw, Refuse, Reply, Say, Stamp, events, framed, message
from mainspring.simulator.request import Endpoint
from mainspring.simulator.validate import violations
from mainspring.simulator.violation import Violation

MESSAGES: Endpoint = "/v1/messages"
COUNT: Endpoint = "/v1/messages/count_tokens"
JSON = {"content-type": "application/json"}
EVENTS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "transfer-encoding": "chunked",
}
BYTES_PER_TOKEN = 4  # roughly, for `count_tokens`
NO_MORE = Refuse(400, "invalid_request_error", "the script has no more replies")

# Violations that the API answers otherwise than with 400 and `invalid_request_error`.
ANSWERS = {"body.size": (413, "request_too_large")}


class Received(NamedTuple):
    """A request as it came, right or wrong."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: Any  # decoded; None where it is no JSON
    at: int  # milliseconds of the monotonic clock, when it was complete
    connection: int  # connections are numbered from 1


Choose = Callable[[Received], Reply]


def in_order(replies: Iterable[Reply]) -> Choose:
    left = iter(replies)
    return lambda _: next(left, NO_MORE)


class ModelServer:
    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        choose: Choose | None = None,
        api_key: str | None = None,
        port: int = 0,
        alternate: bool = True,
    ) -> None:
        """Without an `api_key` any will do. `alternate=False` lets neighbours of one role pass, as the API does."""
        self.requests: list[Received] = []
        self.violations: list[Violation] = []
        self.connections = 0  # since the start
        self.aborted = 0  # answers that the client did not wait for
        self._choose = choose or in_order(replies)
        self._api_key = api_key
        self._port = port
        self._alternate = alternate
        self._open: set[Connection] = set()
        self._failures: list[BaseException] = []
        self._server: asyncio.Server | None = None
        self._news = asyncio.Event()
        self._numbers = count(1)
        self._signatures = count(1)

    # --- for those who use it ---

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def open_connections(self) -> int:
        return len(self._open)

    async def until(self, condition: Callable[[], bool], *, seconds: float = 10) -> None:
        """Waits for a state of this server; it is looked at whenever something happened here."""
        async with asyncio.timeout(seconds):
            while not condition():
                await self._news.wait()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._open):
            await connection.close()
        await self.until(lambda: not self._open)
        await self._server.wait_closed()
        if self._failures and error is None:
            raise self._failures[0]

    # --- connections ---

    def _connected(self) -> Connection:
        self.connections += 1
        connection = Connection(self.connections, self._serve, self._disconnected)
        self._open.add(connection)
        self._tell()
        return connection

    def _disconnected(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection.failure is not None:
            self._failures.append(connection.failure)
        self._tell()

    def _tell(self) -> None:
        """Wakes all who wait now; those who come later wait for the next news."""
        self._news.set()
        self._news = asyncio.Event()

    # --- requests ---

    async def _serve(self, connection: Connection, incoming: Incoming) -> None:
        received = self._receive(connection, incoming)
        reply = self._refusal(incoming, received) or self._reply(received)
        try:
            await self._answer(connection, received, reply)
        except asyncio.CancelledError:
            if connection.client_left:
                self.aborted += 1
                self._tell()
            raise

    def _receive(self, connection: Connection, incoming: Incoming) -> Received:
        try:
            body = msgspec.json.decode(incoming.body)
        except ValueError:
            body = None
        at = round(time.monotonic() * 1_000)
        received = Received(incoming.path, incoming.headers, incoming.body, body, at, connection.number)
        self.requests.append(received)
        self._tell()
        return received

    def _refusal(self, incoming: Incoming, received: Received) -> Refuse | None:
        if incoming.path not in (MESSAGES, COUNT):
            return Refuse(404, "not_found_error", "Not found")
        if incoming.method != "POST":
            return Refuse(405, "invalid_request_error", "Method Not Allowed")
        if self._api_key is not None and self._api_key not in keys_in(incoming.headers):
            return Refuse(401, "authentication_error", "invalid x-api-key")
        endpoint = COUNT if incoming.path == COUNT else MESSAGES
        found = violations(received.raw, incoming.headers, endpoint=endpoint, alternate=self._alternate)
        if not found:
            return None
        self.violations.extend(found)
        status, kind = ANSWERS.get(found[0].rule, (400, "invalid_request_error"))
        return Refuse(status, kind, found[0].said)

    def _reply(self, received: Received) -> Reply | int:
        """A number of tokens where those are asked for: counting uses up no reply."""
        if received.path == COUNT:
            return len(received.raw) // BYTES_PER_TOKEN + 1
        return self._choose(received)

    # --- answers ---

    async def _answer(self, connection: Connection, received: Received, reply: Reply | int) -> None:
        request_id = f"req_{next(self._numbers):024}"
        headers = {"request-id": request_id}
        match reply:
            case Raw():
                await self._put(connection, reply)
            case Refuse():
                error = {"type": reply.type, "message": reply.message}
                body = msgspec.json.encode({"type": "error", "error": error, "request_id": request_id})
                connection.respond(reply.status, {**JSON, **headers, **reply.headers}, body)
            case Say() if received.body.get("stream"):
                await self._stream(connection, reply, headers, self._stamp(received))
            case Say():
                await asyncio.sleep(reply.pace_ms / 1_000)
                body = msgspec.json.encode(message(reply, self._stamp(received)))
                connection.respond(200, {**JSON, **headers}, body)
            case int():
                connection.respond(200, {**JSON, **headers}, msgspec.json.encode({"input_tokens": reply}))
            case _:
                assert_never(reply)

    def _stamp(self, received: Received) -> Stamp:
        model: str = received.body["model"]
        return Stamp(model, f"msg_{next(self._numbers):024}", lambda: f"sig:{model}:{next(self._signatures)}")

    async def _stream(self, connection: Connection, say: Say, headers: Mapping[str, str], stamp: Stamp) -> None:
        connection.begin(200, {**EVENTS, **headers})
        for event in events(say, stamp):
            if say.pace_ms:
                await asyncio.sleep(say.pace_ms / 1_000)
            await connection.send_chunk(framed(event))
        await connection.send_chunk(b"")

    async def _put(self, connection: Connection, raw: Raw) -> None:
        for chunk in raw.chunks:
            if raw.pace_ms:
                await asyncio.sleep(raw.pace_ms / 1_000)
            await connection.send(chunk)
        connection.transport.close()


def keys_in(headers: Mapping[str, str]) -> tuple[str, str]:
    return headers.get("x-api-key", ""), headers.get("authorization", "").removeprefix("Bearer ")
