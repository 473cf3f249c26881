"""An HTTP/1.1 client for model calls: it sends a request and yields the response as the bytes arrive.

    async with transport.post(url, headers, body) as response:
        async for chunk in response:
            ...

Leaving the block closes the socket at once, unless the response was read to its end: then the connection is kept for
the next request. Every failure is a `ProviderError`; mistakes of the caller are a `UsageError`, raised by `post`
itself.

Not supported: redirects (never followed), cookies, compression, HTTP/2. Retries are in providers/retry.py. connect.py
makes connections and loads certificates, connection.py parses responses, proxy.py parses addresses and proxy settings.
docs/decisions/0008 explains why this is our own code.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Self

from mainspring.core.errors import ProviderError, UsageError
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.value import Bundle
from mainspring.providers.http import connect as http_connect
from mainspring.providers.http.connect import Dialer, Route, lasting_error, wants_a_password
from mainspring.providers.http.connection import LIMITS, ClientConnection, ResponseLimits, network_error
from mainspring.providers.http.proxy import ProxySettings, is_local, read_proxy_settings, split_url
from mainspring.text import plural


class Deadlines(Bundle):
    """Time limits in seconds."""

    connect: float  # name, TCP, the proxy and TLS together
    headers: float  # from the request being sent to the end of the response's headers
    idle: float  # between two events of a stream, or two reads of any other body
    barren: float = 1_800  # of a stream whose events, such as pings, add nothing to a reply


# A hosted server sends headers as soon as it accepts a request, and events while it works. A local server sends no
# pings, and processes a long prompt for minutes before its first byte (docs/decisions/0046).
REMOTE = Deadlines(connect=15, headers=120, idle=90)
LOCAL = Deadlines(connect=5, headers=600, idle=600, barren=3_600)
PER_IDLE = 20  # `barren` as a multiple of `idle`, where `idle` is set

MOST_IDLE = 100  # connections kept, as in the official clients
KEYS = frozenset({"x-api-key", "api-key", "authorization"})  # headers in which providers send a key
MOST_WAYS = 64  # addresses whose route is remembered
IDLE_SECONDS = 55.0  # just below the 60 seconds after which common load balancers close
LAST_BYTES = 0.05  # seconds to wait for the end of a transfer whose content has ended
RACE = 2.0  # seconds within which a close after sending counts as a keep-alive race: some round trips


def deadlines_for(url: str) -> Deadlines:
    return LOCAL if is_local(split_url(url)[0].host) else REMOTE


class ConnectionPurpose(Bundle):
    """What a connection was used for. Where two are equal, sessions may use each other's connections: the same server
    by the same proxy, asked with the same key, for the same user. (The certificates are compared beside it.)
    """

    route: Route
    headers: Mapping[str, str]  # of requests: the key is in them, and whatever else tells one tenant from another

    def is_for_key_of(self, other: ConnectionPurpose) -> bool:
        """Within one transport, which may serve providers with several keys."""
        return self.route == other.route and (self.headers == other.headers or self.keys == other.keys)

    @property
    def keys(self) -> tuple[str, ...]:
        """A signature differs from request to request (AWS): of it, only the part that names the key."""
        return tuple([value.partition("/")[0] for name, value in self.headers.items() if name.lower() in KEYS])

    def __repr__(self) -> str:
        return f"ConnectionPurpose({self.route!r})"  # tracebacks and logs show this


class _Way(Bundle):
    proxies: ProxySettings  # with which it was found
    found: tuple[Route, str, Deadlines]


class Transport:
    """Connections to model servers, for one session or several. Belongs to one event loop. Transports with the same
    certificates use each other's idle connections, for requests with the same headers.
    """

    def __init__(  # noqa: PLR0913  # settings, by name
        self,
        *,
        deadlines: Deadlines | None = None,  # None: depends on the address
        limits: ResponseLimits = LIMITS,
        ca_file: str | None = None,
        proxies: ProxySettings | None = None,  # None: from the environment,
        environ: Mapping[str, str] | None = None,  # that of the process, if none is given
        most_idle: int = MOST_IDLE,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.limits = limits
        self._deadlines = deadlines
        environ = os.environ if environ is None else environ
        self._proxies = proxies if proxies is not None else read_proxy_settings(environ)
        self._dialer = Dialer(limits, http_connect.read_trusted_certificates(environ, ca_file))
        self._most_idle = most_idle
        self._idle_seconds = idle_seconds
        self._open: set[ClientConnection] = set()
        self._idle: dict[ClientConnection, ConnectionPurpose] = {}  # the oldest first
        self._last_purpose: ConnectionPurpose | None = None
        self._closed = False
        self._ways: dict[str, _Way] = {}  # by address
        self._last_head: tuple[Route, str, dict[str, str], bytes, bytes] | None = None  # what the last one consisted of

    def post(  # parts of a request body
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes | Sequence[bytes],
        size: int | None = None,
        sent: Callable[[], object] | None = None,
    ) -> HttpExchange:
        """`size`: bytes of the body, if known. `sent` is called when the request has been sent, to prepare for the
        response while the server works.
        """
        route, path, deadlines = self._way_to(url)
        pieces = (body,) if isinstance(body, bytes) else body
        size = sum(map(len, pieces)) if size is None else size
        begin = self._head_of(route, path, headers, size)
        return self._exchange(route, headers, (begin, *pieces), len(begin) + size, deadlines, sent)

    def get(self, url: str, headers: Mapping[str, str]) -> HttpExchange:
        route, path, deadlines = self._way_to(url)
        request = encode_request_head(route, path, headers)
        return self._exchange(route, headers, (request,), len(request), deadlines)

    def _exchange(  # noqa: PLR0913, PLR0917  # the parts of an exchange
        self,
        route: Route,
        headers: Mapping[str, str],
        request: Sequence[bytes],
        size: int,
        deadlines: Deadlines,
        sent: Callable[[], object] | None = None,
    ) -> HttpExchange:
        purpose = self._last_purpose
        if purpose is None or purpose.route != route or purpose.headers != headers:
            purpose = self._last_purpose = ConnectionPurpose(route, dict(headers))
        return HttpExchange(self, purpose, request, size, deadlines=deadlines, sent=sent)

    def _way_to(self, url: str) -> tuple[Route, str, Deadlines]:
        way = self._ways.get(url)
        if way is None or way.proxies is not self._proxies:
            origin, path = split_url(url)
            route = Route(origin, self._proxies.on_the_way_to(origin))
            way = _Way(self._proxies, (route, path, self._deadlines or deadlines_for(url)))
            if len(self._ways) >= MOST_WAYS:
                self._ways.clear()
            self._ways[url] = way
        return way.found

    def _head_of(self, route: Route, path: str, headers: Mapping[str, str], size: int) -> bytes:
        """Requests of one conversation differ only in their length."""
        last = self._last_head
        if last is None or last[:2] != (route, path) or last[2] != headers:
            front, _, back = encode_request_head(route, path, headers, 0).partition(b"content-length: 0")
            last = self._last_head = route, path, dict(headers), front + b"content-length: ", back
        return b"%b%d%b" % (last[3], size, last[4])

    async def close(self) -> None:
        """Close all connections, also active ones. Idle ones go to another session that serves the same purpose."""
        self._closed = True
        if self._idle:
            self._leave_idle_ones()
        gone = [connection.gone for connection in self._open]
        for connection in self._open:
            if connection.answer is not None:
                connection.answer.fail(Trouble.NETWORK, "was disconnected: the transport was closed")
            connection.abort()
        if gone:
            await asyncio.wait(gone)

    def _leave_idle_ones(self) -> None:
        others = self._others()
        for connection, purpose in tuple(self._idle.items()):
            if any(other.inherit(connection, purpose) for other in others):
                self._forget(connection)

    def inherit(self, connection: ClientConnection, purpose: ConnectionPurpose) -> bool:
        """Keep an idle connection of another transport, if we have use for it."""
        if self._closed or self._last_purpose != purpose or len(self._idle) >= self._most_idle:
            return False
        self._own(connection)
        self._idle[connection] = purpose
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    # --- the pool

    def take(self, purpose: ConnectionPurpose) -> ClientConnection | None:
        """The connection that was used last: it is the most likely to be alive. One of our own, or one of another
        session that serves the same purpose.
        """
        for connection in [each for each in reversed(self._idle) if self._idle[each].is_for_key_of(purpose)]:
            del self._idle[connection]
            if connection.rouse():
                return connection
            connection.abort()
        return self._take_from_others(purpose)

    def _take_from_others(self, purpose: ConnectionPurpose) -> ClientConnection | None:
        for other in self._others(idle=True):
            while (connection := other.hand_over(purpose)) is not None:
                if connection.rouse():
                    self._own(connection)
                    return connection
                connection.abort()
        return None

    def hand_over(self, purpose: ConnectionPurpose) -> ClientConnection | None:
        """An idle connection for another transport."""
        found = next((each for each in reversed(self._idle) if self._idle[each] == purpose), None)
        if found is not None:
            self._forget(found)
        return found

    def _others(self, *, idle: bool = False) -> list[Transport]:
        """The open transports of this loop, and so of this process, that connect as we do. `idle`: only those with idle
        connections: of a thousand sessions, few have one."""
        known = _transports.get(asyncio.get_running_loop(), ())
        found = [other for other in known if other is not self and (other.has_idle or not idle)]
        return [other for other in found if other.trust == self.trust]

    @property
    def has_idle(self) -> bool:
        return bool(self._idle)

    @property
    def trust(self) -> tuple[object, ...]:
        return self._dialer.trusted, self.limits

    def _own(self, connection: ClientConnection) -> None:
        self._open.add(connection)
        connection.gone.add_done_callback(lambda _: self._forget(connection))
        _transports.setdefault(asyncio.get_running_loop(), weakref.WeakSet()).add(self)

    def give_back(self, connection: ClientConnection, purpose: ConnectionPurpose) -> None:
        if self._closed or not connection.rest(self._idle_seconds):
            connection.abort()
            return
        self._idle[connection] = purpose
        if len(self._idle) > self._most_idle:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.abort()

    def _forget(self, connection: ClientConnection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)

    async def dial(self, route: Route, seconds: float) -> ClientConnection:
        connection = await self._dialer.dial(route, seconds)
        if self._closed:
            connection.abort()
            raise network_error(f"'{connection.place}' was not contacted: the transport was closed")
        self._own(connection)
        return connection


_transports: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakSet[Transport]] = (
    weakref.WeakKeyDictionary()
)


class HttpExchange:
    """One request and its response. `status` and `headers` (in lower case) are set once the block is entered."""

    status: int
    headers: Mapping[str, str]

    def __init__(  # noqa: PLR0913  # the parts of an exchange
        self,
        owner: Transport,
        purpose: ConnectionPurpose,
        request: Sequence[bytes],
        size: int,
        *,
        deadlines: Deadlines,
        sent: Callable[[], object] | None = None,
    ) -> None:
        self._owner = owner
        self._purpose, self._route = purpose, purpose.route
        self._request = request  # in pieces,
        self._size = size  # with this many bytes in total
        self._sent = sent
        self._deadlines = deadlines
        self._connection: ClientConnection | None = None
        self._by_event = False  # the reader decides what counts as a sign of life
        self._silent = 0.0  # seconds of waiting since the last one
        self._barren = 0.0  # the same, since a part of a reply arrived

    async def __aenter__(self) -> Self:
        return self if self._connection is not None else await self.begin()

    async def begin(self) -> Self:
        """Send the request and wait for the head of the response. Leave it like a block: `async with exchange`."""
        # The server may have closed a kept connection just as our request left. Only sending tells, so such a request
        # is sent once more, on a new connection. Could the server have processed it, so that it is paid for twice? A
        # server that closes an idle connection does not read on. One that took the request and then died looks the same
        # if it dies within `RACE` seconds and before its first byte: providers/retry.py takes that risk with every
        # reset, and here it is taken once.
        kept = self._owner.take(self._purpose)
        if kept is not None:
            try:
                return await self._ask(kept)
            except ProviderError:
                unheard = kept.lost and kept.answer is not None and not kept.answer.begun
                if not unheard or asyncio.get_running_loop().time() - kept.sent_at > RACE:
                    raise
        return await self._ask(await self._owner.dial(self._route, self._deadlines.connect))

    async def _ask(self, connection: ClientConnection) -> Self:
        try:
            connection.send(self._request, self._size)
            if self._sent is not None:
                self._sent()
            answer = await connection.head(self._deadlines.headers)
            self.status, self.headers = answer.status, answer.headers
            self._refuse()
        except BaseException:
            connection.abort()
            raise
        self._connection = connection
        return self

    def _refuse(self) -> None:
        """Raise for responses that we do not accept."""
        place = self._route.origin.place
        if 300 <= self.status < 400:
            detail = (
                f"'{place}' answered {self.status}, a redirect to {origin_in(self.headers.get('location', ''))}. It is "
                "not followed, so that your key goes nowhere else. If that is the right address, set it"
            )
            raise ProviderError(Failure(Trouble.INVALID_REQUEST, detail, self.status))
        if self.status == 407 and self._route.proxy:
            raise lasting_error(wants_a_password(self._route.proxy))
        for name, taken in (("content-encoding", "identity"), ("transfer-encoding", "chunked")):
            coded = self.headers.get(name, taken)
            if coded.lower() != taken:
                detail = f"'{place}' sent its answer with {name} {coded[:40]!r}, which we did not accept"
                raise ProviderError(Failure(Trouble.SERVER, detail, self.status))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The bytes of one read of the socket, or of several if the reader is slow."""
        connection = self._connection
        assert connection is not None, "the block was left"
        answer = connection.answer
        assert answer is not None
        while not answer.body:
            if answer.failure is not None:  # also if it has ended: the limit still applies
                raise ProviderError(answer.failure)
            if answer.ended:
                raise StopAsyncIteration
            began = self._owner.now()
            await connection.news(self._deadlines.idle, self._silent)
            waited = self._owner.now() - began
            self._silent, self._barren = self._silent + waited, self._barren + waited
        if self._by_event and self._barren >= self._deadlines.barren:
            detail = (
                f"timed out: nothing but signs of life for {plural(self._deadlines.barren, 'second')} within its answer"
            )
            raise ProviderError(Failure(Trouble.NETWORK, f"'{self._route.origin.place}' {detail}"))
        if not self._by_event:
            self._silent = 0.0
        return connection.take()

    def heard(self) -> None:
        """For a stream of events: after the first call, only this resets the idle timeout. Bytes alone are no sign of
        life: a gateway may send comments without end to keep the connection open.
        """
        self._by_event, self._silent = True, 0.0

    def note_progress(self) -> None:
        """A part of a reply arrived. This limits the wait for a server that only sends pings."""
        self._barren = 0.0

    async def read(self, limit: int | None = None) -> bytes:
        """The body, or its beginning: for errors, which are short."""
        limit = self._owner.limits.error if limit is None else limit
        body = b""
        async for chunk in self:
            body += chunk
            if len(body) >= limit:
                break
        return body[:limit]

    async def finish(self) -> None:
        """For a reply that is complete by its own account: wait a moment for the end of the transfer, so that the
        connection can be kept. Never fails.
        """
        answer = self._connection.answer if self._connection is not None else None
        if answer is not None and answer.ended and not answer.body:
            return
        with suppress(ProviderError, TimeoutError):
            async with asyncio.timeout(LAST_BYTES):
                async for _ in self:
                    pass

    async def __aexit__(self, *exc: object) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._owner.give_back(connection, self._purpose)


# --- requests ---------------------------------------------------------------------------------------

OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "proxy-authorization"}
)


def encode_request_head(route: Route, path: str, headers: Mapping[str, str], length: int | None = None) -> bytes:
    """The head of a request with a body of this length, or without a body."""
    origin, proxy = route.origin, route.proxy
    through = proxy is not None and origin.scheme == "http"  # otherwise the proxy sees only the tunnel
    verb, counted = ("GET", []) if length is None else ("POST", [f"content-length: {length}"])
    lines = [f"{verb} {origin if through else ''}{path} HTTP/1.1", f"host: {origin.authority}"]
    lines += [*counted, "accept-encoding: identity"]
    if through and proxy is not None and proxy.credentials:
        lines.append(f"proxy-authorization: {proxy.credentials}")
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum() or name.lower() in OURS:
            raise UsageError(f"{name!r} cannot be set as a header")
        if not value.isascii() or not value.isprintable():  # the value is never shown: it may be the key
            raise UsageError(
                f"the header '{name}' has a line break or another character that is not allowed in headers"
            )
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode()


def origin_in(location: str) -> str:
    """The target of a redirect, without its path, which may contain anything."""
    if not location.strip():
        return "nowhere (its 'location' header is missing or empty)"
    if location.startswith("/") and not location.startswith("//"):
        return "another path of the same server"
    try:
        return f"'{split_url(location)[0]}'"
    except UsageError:
        return "an invalid address"
