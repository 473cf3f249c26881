"""The viewer's HTTP server: loopback only, read-only, and only for clients that know the token in its address.

    async with ViewServer(file) as server:
        print(server.url)

A thread reads the files, one read at a time. Answers are limited in size: the page asks for more when it needs more.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import parse_qs

import msgspec

from mainspring.sessions.paths import Place, size_of
from mainspring.viewer.connection import PATIENCE, HttpRequest, ServerResponse, ViewerConnection, make_problem_response
from mainspring.viewer.export import FILES, get_span_details, read_page_file
from mainspring.viewer.replay import StepReplay
from mainspring.viewer.spans import Span
from mainspring.viewer.trace import Trace

MOST_SPANS = 5_000  # per answer: about a megabyte
MOST_STEPS = 500
MOST_CONNECTIONS = 64
LONGEST_NUMBER = 16  # digits
ACCEPTING = 5  # rounds of the event loop from an accepted socket to its connection; asyncio needs three
GLANCE = 0.25  # seconds between two checks of a file's size while a page waits for news
WAIT = 25.0  # seconds until a request for news is answered without any

T = TypeVar("T")
encode = msgspec.json.Encoder().encode


class BadRequest(Exception):  # noqa: N818  # it reads as what it says
    """The request is invalid; the message says why."""


class ViewServer:
    def __init__(self, file: Place, *, port: int = 0, patience: float = PATIENCE, wait: float = WAIT) -> None:
        self.trace = Trace(file)
        self.replays: dict[int, StepReplay] = {}  # by the index of their file; created on the first request
        self.token = secrets.token_urlsafe(32)
        self.failures: list[BaseException] = []  # our own errors; the client got a 500
        self._port = port
        self._patience, self._wait = patience, wait
        self._size = -1  # total size of the files at the last read
        self._reading = asyncio.Lock()
        self._open: set[ViewerConnection] = set()
        self._server: asyncio.Server | None = None
        self._routes: dict[str, Callable[[QueryString], Awaitable[ServerResponse]]] = {
            "head": self._head,
            "spans": self._spans,
            "span": self._span,
            "steps": self._steps,
            "news": self._news,
        }

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/{self.token}/"

    @property
    def connections(self) -> int:
        return len(self._open)

    async def __aenter__(self) -> Self:
        """Raises OSError if the file cannot be read, or the port is taken."""
        await self._look()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(ACCEPTING):  # accepted sockets become connections first, else they would stay open
            await asyncio.sleep(0)
        self._server.close()
        for connection in list(self._open):
            await connection.close()
        await self._server.wait_closed()

    def _connected(self) -> ViewerConnection:
        crowded = len(self._open) >= MOST_CONNECTIONS
        return ViewerConnection(self._too_many if crowded else self._serve, self._open, self._patience)

    async def _too_many(self, _asked: HttpRequest) -> ServerResponse:
        return make_problem_response(503, f"too many connections (limit: {MOST_CONNECTIONS})")

    # --- access ---

    async def _serve(self, asked: HttpRequest) -> ServerResponse:
        refused = self._refusal(asked)
        if refused is not None:
            return refused
        _, _, rest = asked.path.removeprefix("/").partition("/")
        if rest in FILES:
            name, kind = FILES[rest]
            return ServerResponse(200, await asyncio.to_thread(read_page_file, name), kind)
        route = self._routes.get(rest.removeprefix("api/")) if rest.startswith("api/") else None
        if route is None:
            return make_problem_response(404, "not found")
        try:
            return await route(QueryString(asked.query))
        except BadRequest as wrong:
            return make_problem_response(400, str(wrong))
        except OSError as error:
            return make_problem_response(404, f"cannot read the session file: {error.strerror}")
        except Exception as error:  # noqa: BLE001  # a page that hangs tells nobody anything
            self.failures.append(error)
            return make_problem_response(500, f"the viewer failed: {type(error).__name__}")

    def _refusal(self, asked: HttpRequest) -> ServerResponse | None:
        """Another site in the same browser can send requests here, but not with our host name, and without the token. A
        name that an attacker points here (DNS rebinding) is not our host name."""
        hosts = (f"127.0.0.1:{self._port}", f"localhost:{self._port}")
        if asked.twice or asked.headers.get("host", "") not in hosts:
            return make_problem_response(403, "wrong host name: open the address that the terminal shows")
        if "origin" in asked.headers or asked.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return make_problem_response(403, "requests from other pages are denied")
        token = asked.path.removeprefix("/").partition("/")[0]
        if not hmac.compare_digest(token.encode("latin-1"), self.token.encode()):
            return make_problem_response(403, "wrong or missing token: copy the whole address from the terminal")
        if asked.method not in ("GET", "HEAD"):
            return make_problem_response(405, "read-only server: use GET")
        return None

    # --- data ---

    async def _look(self) -> None:
        async with self._reading:
            await asyncio.to_thread(self._look_now)

    def _look_now(self) -> None:
        """Stores the sizes from before the read: what is written meanwhile is news. Also reads new subagents."""
        before, known = self._sizes(), len(self.trace.files)
        self.trace.look()
        self._size = before + sum(size_of(traced.lines.file) for traced in self.trace.files[known:])

    def _sizes(self) -> int:
        """Of all files: while a subagent works, only its own file grows."""
        return sum(size_of(traced.lines.file) for traced in self.trace.files)

    async def _with_trace(self, work: Callable[[], T]) -> T:
        async with self._reading:
            return await asyncio.to_thread(work)

    async def _head(self, query: QueryString) -> ServerResponse:
        query.done()
        return ServerResponse(200, await self._with_trace(lambda: encode(self.trace.head())))

    async def _spans(self, query: QueryString) -> ServerResponse:
        """The spans that changed after `rev` and overlap the time from `begin` to `end`. `after`: how many to skip: an
        answer has a limited number."""
        rev, after, most = query.number("rev"), query.number("after"), query.number("most", MOST_SPANS)
        begin, end = query.number("begin"), query.number("end", 10**LONGEST_NUMBER)
        query.done()
        if begin > end:
            raise BadRequest("'begin' is after 'end'")
        return ServerResponse(
            200,
            await self._with_trace(
                lambda: encode_trace_piece(self.trace, rev, begin, end, after, min(most, MOST_SPANS))
            ),
        )

    async def _span(self, query: QueryString) -> ServerResponse:
        key = query.text("key")
        query.done()
        found = await self._with_trace(lambda: get_span_details(self.trace, key))
        return ServerResponse(200, encode(found)) if found is not None else make_problem_response(404, "no such span")

    async def _steps(self, query: QueryString) -> ServerResponse:
        place, first = query.number("place"), query.number("first", 1)
        most = min(query.number("most", MOST_STEPS), MOST_STEPS)
        query.done()
        return ServerResponse(200, await self._with_trace(lambda: self._replayed(place, first, most)))

    def _replayed(self, place: int, first: int, most: int) -> bytes:
        if place >= len(self.trace.files):
            raise BadRequest(f"no file {place}")
        if place not in self.replays:
            self.replays[place] = StepReplay(self.trace.files[place].lines.file, aside=place > 0)
        replay = self.replays[place]
        replay.look()
        return encode({"total": len(replay), "epoch": replay.epoch, "steps": replay.steps(first, most)})

    async def _news(self, query: QueryString) -> ServerResponse:
        """Answers when the files have grown since `rev`, or after a timeout."""
        rev = query.number("rev")
        query.done()
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait
        while self.trace.rev <= rev and loop.time() < until:
            if await asyncio.to_thread(self._sizes) != self._size:
                await self._look()
            else:
                await asyncio.sleep(min(GLANCE, max(0.0, until - loop.time())))
        return ServerResponse(200, encode({"rev": self.trace.rev}))


def encode_trace_piece(trace: Trace, rev: int, begin: int, end: int, after: int, most: int) -> bytes:  # noqa: PLR0913, PLR0917  # a query
    chosen = [span for span in trace.spans if span.rev > rev and span_touches(span, begin, end)]
    rest = len(chosen) - after - most
    return encode({"rev": trace.rev, "spans": chosen[after : after + most], "more": max(0, rest)})


def span_touches(span: Span, begin: int, end: int) -> bool:
    return span.begin <= end and (span.end is None or span.end >= begin)


class QueryString:
    """The query of an address. Every name must be known and occur once."""

    def __init__(self, text: str) -> None:
        try:
            self._given = parse_qs(text, keep_blank_values=True, max_num_fields=10)
        except ValueError:
            raise BadRequest("the query has too many fields") from None

    def text(self, name: str, usual: str = "") -> str:
        values = self._given.pop(name, [usual])
        if len(values) > 1:
            raise BadRequest(f"'{name}' is given twice")
        return values[0]

    def number(self, name: str, usual: int = 0) -> int:
        text = self.text(name, str(usual))
        if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER + 1):
            raise BadRequest(f"'{name}' must be a whole number")
        return int(text)

    def done(self) -> None:
        for name in self._given:
            raise BadRequest(f"unknown parameter '{name[:30]}'")
