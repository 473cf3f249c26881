"""Fetch one page over the network: GET, no cookies, no credentials, no scripts (security N1, N3).

**Addresses.** Two parsers read an address and must agree about the host (security N2), or it is refused; so it is for
the target of a redirect. No user, no password; the fragment after '#' is dropped.

**Connections.** Each name is resolved once, all its addresses are checked, and the connection goes to one of these
(security N1). http becomes https, unless a rule names a local host. A redirect to the same host is followed and checked
like the first address; one to another host is returned, so that the permission rules decide about that host first. TLS,
its errors, deadlines and the proxy of the user's network are those of model calls (`providers/http/connect.py`). A
proxy gets the address and not the name, so that it cannot resolve the name to something else.

**Bodies** are decompressed within limits (security N3), and decoded. We ask for gzip and accept one layer of it or
none: other encodings, several layers, and data after the end of a compressed body are refused.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import socket
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from urllib.parse import unquote, urljoin

from msgspec.structs import replace

from mainspring.core.errors import MainspringError, ProviderError, ToolError, UsageError
from mainspring.core.value import Bundle
from mainspring.permissions.hosts import AddressError, host_of
from mainspring.processes.addresses import LocalAddressError, check_addresses, is_public
from mainspring.providers.http import connect as http_connect
from mainspring.providers.http import connection as wire
from mainspring.providers.http.connect import (
    Address,
    ConnectProgress,
    Dialer,
    Route,
    explain_os_error,
    first_to_answer,
    look_up,
    open_tunnel,
)
from mainspring.providers.http.connection import ClientConnection, HttpResponse, ResponseLimits
from mainspring.providers.http.proxy import (
    HttpOrigin,
    ProxySettings,
    parse_numeric_host,
    read_proxy_settings,
    split_url,
)
from mainspring.secrets.held import SHORTEST
from mainspring.version import __version__

Resolve = Callable[[str], Awaitable[Sequence[str]]]  # the addresses of a name; raises OSError
Connect = Callable[[Sequence[Address]], Awaitable[socket.socket]]


class CheckedRoute(Route, frozen=True):
    addresses: tuple[str, ...]  # of the origin, checked


class CheckedDialer(Dialer):
    def __init__(
        self, limits: ResponseLimits, trusted: http_connect.TrustedCertificates, connect: Connect = first_to_answer
    ) -> None:
        super().__init__(limits, trusted)
        self._reach = connect

    async def _dial(self, route: Route, step: ConnectProgress, seconds: float) -> ClientConnection:
        assert isinstance(route, CheckedRoute)
        connection = await (self._direct(route, step) if route.proxy is None else self._by_proxy(route, step, seconds))
        if route.origin.scheme == "https":
            await self._guarded(connection, self._secure(connection, route.origin, step))
        return connection

    async def _direct(self, way: CheckedRoute, step: ConnectProgress) -> ClientConnection:
        origin = way.origin
        step.now(f"connecting to '{origin.place}'", origin.host)
        reached = await self._reach([make_sockaddr(address, origin.port) for address in way.addresses])
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: ClientConnection(origin.place, self._limits), sock=reached)
        return connection

    async def _by_proxy(self, way: CheckedRoute, step: ConnectProgress, seconds: float) -> ClientConnection:
        assert way.proxy is not None
        first = way.proxy.origin
        connection = await self._connect(first, step)
        if first.scheme == "https":
            await self._guarded(connection, self._secure(connection, first, step))
        step.now(f"asking the proxy '{first.place}' for '{way.origin.place}'", first.host)
        far = replace(way.origin, host=way.addresses[0])
        await self._guarded(connection, open_tunnel(connection, far, way.proxy, seconds))
        return connection

    async def _guarded(self, connection: ClientConnection, work: Awaitable[None]) -> None:
        try:
            await work
        except BaseException:
            connection.abort()
            raise


def make_sockaddr(address: str, port: int) -> Address:
    return (socket.AF_INET6, (address, port, 0, 0)) if ":" in address else (socket.AF_INET, (address, port))


async def resolve_host(host: str) -> Sequence[str]:
    """Ask the system, once. A numeric host is its own address."""
    if parse_numeric_host(host) is not None:
        return (host,)
    found = await look_up(HttpOrigin("https", host, 443))
    if isinstance(found, OSError):
        raise found
    return [str(address[0]) for _, address in found]


_AUTHORITY_ENDS = re.compile(r"[/?]")
_QUOTED = str.maketrans({character: f"%{ord(character):02X}" for character in ' "<>'})  # not allowed in a path


class FetchTarget(Bundle):
    host: str  # as rules match it: IPv6 addresses in brackets
    origin: HttpOrigin
    path: str  # including the query

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}"

    def over_tls(self) -> FetchTarget:
        """The same page by https. A port of its own stays: no other is known."""
        port = 443 if self.origin.port == 80 else self.origin.port
        return replace(self, origin=replace(self.origin, scheme="https", port=port))


def parse_target(url: str) -> FetchTarget:
    host = host_of(url)
    scheme, _, rest = url.partition("#")[0].partition("://")
    end = _AUTHORITY_ENDS.search(rest)
    authority, path = (rest[: end.start()], rest[end.start() :]) if end else (rest, "")
    if "@" in authority:
        raise AddressError("the address contains a user or a password, which WebFetch does not send")
    path = path if path.startswith("/") else f"/{path}"
    origin, path = split_url(f"{scheme}://{authority}{path.translate(_QUOTED)}")
    origin = replace(origin, host=origin.host.removesuffix("."))
    if origin.host != host.strip("[]"):
        raise AddressError(f"the host of '{url[:100]}' can be read in more than one way")
    return FetchTarget(host, origin, path)


def resolve_redirect(before: FetchTarget, location: str) -> FetchTarget:
    """The target of a redirect. Raises `AddressError` for what cannot be the address of a page."""
    # Headers arrive as Latin-1. Characters that are not ASCII are usually bytes of a path; in a host '%' is refused.
    ascii_only = "".join([c if c < "\x80" else f"%{ord(c):02X}" for c in location.strip()])
    try:
        joined = urljoin(before.url, ascii_only.translate(_QUOTED))
    except ValueError:
        raise AddressError(f"'{location[:100]}' is not an address") from None
    return parse_target(joined)


STEP = 1 << 18  # bytes that are decompressed at once: less than a millisecond
_GZIP = 31  # for zlib: a 32 KB window, with the header and the checksum of gzip

# The character sets of web pages, by their names on the web. Python knows more codecs than there are character sets,
# such as `punycode` and `unicode_escape`: those are slow, or mean something else.
_CHARSETS = """
utf-8 utf8 us-ascii ascii utf-16 utf-16le utf-16be iso-8859-1 iso-8859-2 iso-8859-3 iso-8859-4 iso-8859-5
iso-8859-6 iso-8859-7 iso-8859-8 iso-8859-9 iso-8859-10 iso-8859-13 iso-8859-14 iso-8859-15 iso-8859-16 latin1
windows-1250 windows-1251 windows-1252 windows-1253 windows-1254 windows-1255 windows-1256 windows-1257 windows-1258
windows-874 koi8-r koi8-u macintosh gb2312 gbk gb18030 big5 euc-jp iso-2022-jp shift_jis shift-jis euc-kr
"""
_KNOWN = frozenset(_CHARSETS.split())
_AS_BROWSERS = dict.fromkeys(("iso-8859-1", "latin1", "us-ascii", "ascii"), "cp1252") | {
    "gb2312": "gbk", "macintosh": "mac_roman", "windows-874": "cp874"
}  # fmt: skip
_NAMED = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16le"), (codecs.BOM_UTF16_BE, "utf-16be"))
_HEAD = 2_048  # bytes in which a page may name its character set; browsers look at 1,024


class BodyDecoder:
    """Decompresses the server's bytes to those of the page."""

    def __init__(self, headers: Mapping[str, str], most: int) -> None:
        coding = headers.get("content-encoding", "").strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip"):
            raise ToolError(f"The page is compressed as '{coding[:60]}', and we asked for gzip or nothing.")
        self._gzip = zlib.decompressobj(_GZIP) if "gzip" in coding else None
        self._room = most
        self._most = most

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield pieces of at most `STEP`, so that the caller can yield to other tasks in between."""
        if self._gzip is None:
            yield self._counted(data)
            return
        while data:
            try:
                piece = self._gzip.decompress(data, STEP)
            except zlib.error:
                raise ToolError("The page is compressed with gzip, but damaged.") from None
            if self._gzip.unused_data:
                raise ToolError("The page is compressed with gzip, and more data follows its end.")
            yield self._counted(piece)
            data = self._gzip.unconsumed_tail

    def end(self) -> None:
        if self._gzip is not None and not self._gzip.eof:
            raise ToolError("The page is compressed with gzip, but incomplete.")

    def _counted(self, piece: bytes) -> bytes:
        self._room -= len(piece)
        if self._room < 0:
            raise ToolError(f"The page has more than {self._most:,} bytes: fetch a part of it, or use curl in Bash.")
        return piece


def decode_body(body: bytes, content_type: str) -> str:
    """By its byte order mark, else by the header, else by the page's own declaration, else UTF-8. Never fails."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    name = _named_in(content_type)
    if not name:
        name = _named_in(body[:_HEAD].decode("latin-1"))
        name = "utf-8" if not name or name.startswith("utf-16") else name  # it could not be read if it were UTF-16
    return body.decode(_AS_BROWSERS.get(name, name), "replace")


def _named_in(text: str) -> str:
    """A known character set named in the text."""
    found = _NAMED.search(text.lower())
    return found[1] if found and found[1] in _KNOWN else ""


MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ACCEPTED = "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.5"

Near = Callable[[str], bool]  # whether a rule names this host, so that it may be local


class FetchLimits(Bundle):
    """Bytes and seconds."""

    sent: int = 5_000_000  # by the server, before decompression
    expanded: int = 10_000_000
    connect: float = 10  # name resolution, TCP and TLS
    first_byte: float = 30
    idle: float = 15
    whole: float = 60  # including all redirects


LIMITS = FetchLimits()


class FetchedPage(Bundle):
    url: str  # after redirects
    status: int
    content_type: str = ""
    body: bytes = b""
    moved: str = ""  # the new address, if the page moved to another host


class WebFetcher:
    """For a session or a process. Belongs to one event loop."""

    def __init__(  # noqa: PLR0913  # settings, by name
        self,
        *,
        limits: FetchLimits = LIMITS,
        proxies: ProxySettings | None = None,  # None: from the environment,
        environ: Mapping[str, str] | None = None,  # which is that of the process, if not given
        ca_file: str | None = None,
        known: Sequence[str] = (),  # keys: no address may hold one (security K3)
        resolve: Resolve = resolve_host,
        connect: Connect = first_to_answer,
    ) -> None:
        self.limits = limits
        self._known = [key for key in known if len(key) >= SHORTEST]
        self._resolve = resolve
        environ = os.environ if environ is None else environ
        self._proxies = proxies if proxies is not None else read_proxy_settings(environ)
        self._line = CheckedDialer(
            wire.ResponseLimits(message=limits.sent), http_connect.read_trusted_certificates(environ, ca_file), connect
        )

    async def fetch(self, url: str, near: Near) -> FetchedPage:
        """Raises `ToolError` with a message for the model."""
        try:
            async with asyncio.timeout(self.limits.whole):
                return await self._follow(parse_target(url), near)
        except ToolError:
            raise
        except TimeoutError:
            raise ToolError(f"'{url[:200]}' did not arrive within {self.limits.whole:g} seconds.") from None
        except (LocalAddressError, UsageError) as error:
            raise ToolError(f"Not fetched: {error}.") from None
        except (ProviderError, OSError) as error:
            raise ToolError(f"'{url[:200]}' could not be fetched: {_told(error)}.") from None

    async def _follow(self, target: FetchTarget, near: Near) -> FetchedPage:
        host = target.host
        for _ in range(MOST_REDIRECTS + 1):
            self._refuse_keys(target)
            target, got, location = await self._once(target, near(host))
            if location is None:
                return got
            target = resolve_redirect(target, location)
            if target.host != host:
                self._refuse_keys(target)
                return replace(got, moved=target.url)
        raise ToolError(f"The page redirects more than {MOST_REDIRECTS} times: '{target.url[:200]}' is the last.")

    def _refuse_keys(self, target: FetchTarget) -> None:
        if any(key in text for key in self._known for text in (target.url, unquote(target.url))):
            raise ToolError("Not fetched: the address contains a key. Keys are sent only to their own service.")

    async def _once(self, target: FetchTarget, near: bool) -> tuple[FetchTarget, FetchedPage, str | None]:
        """The address that was finally used, the answer, and the redirect target."""
        origin = target.origin
        addresses = check_addresses(target.host, await self._look_up(origin.host), near=near)
        public = all(map(is_public, addresses))
        if public and origin.scheme == "http":
            target = target.over_tls()
            origin = target.origin
        proxy = self._proxies.on_the_way_to(origin) if public else None  # the proxy is not used for local hosts
        way = CheckedRoute(origin, proxy, tuple(addresses))
        connection = await self._line.dial(way, self.limits.connect)
        try:
            request = _request(target)
            connection.send((request,), len(request))
            answer = await connection.head(self.limits.first_byte)
            _refuse_failed(answer)
            got = FetchedPage(target.url, answer.status, answer.headers.get("content-type", ""))
            if answer.status in _REDIRECTS:
                return target, got, _where_to(target, answer)
            return target, replace(got, body=await self._body(connection, answer.headers)), None
        finally:
            connection.abort()

    async def _look_up(self, host: str) -> Sequence[str]:
        try:
            async with asyncio.timeout(self.limits.connect):
                return await self._resolve(host)
        except TimeoutError:
            raise ToolError(
                f"Not fetched: the name '{host}' was not found in {self.limits.connect:g} seconds."
            ) from None

    async def _body(self, connection: ClientConnection, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "chunked").lower() != "chunked":
            raise ToolError("The page has a transfer encoding, and we asked for none.")
        expanding, pieces = BodyDecoder(headers, self.limits.expanded), list[bytes]()
        answer = connection.answer
        assert answer is not None
        while answer.body or not answer.ended:
            _refuse_failed(answer)
            if answer.body:
                for piece in expanding.feed(connection.take()):
                    pieces.append(piece)
                    await asyncio.sleep(0)  # lets other tasks run, even while little data expands to very much
            else:
                await connection.news(self.limits.idle)
        expanding.end()
        return b"".join(pieces)


def _where_to(target: FetchTarget, answer: HttpResponse) -> str:
    location = answer.headers.get("location", "").strip()
    if not location:
        raise ToolError(
            f"'{target.url[:200]}' answered {answer.status}: the page was moved, and the answer does not say where to "
            "(its 'location' header is missing or empty). Look for another address."
        )
    return location


def _refuse_failed(answer: HttpResponse) -> None:
    """Raise also if the answer is complete: data beyond a limit may arrive in the same read as its end."""
    if answer.failure is not None:
        raise ProviderError(answer.failure)


def _request(target: FetchTarget) -> bytes:
    lines = [f"GET {target.path} HTTP/1.1", f"host: {target.origin.authority}", f"user-agent: mainspring/{__version__}"]
    lines += [f"accept: {_ACCEPTED}", "accept-encoding: gzip", "connection: close", "", ""]
    return "\r\n".join(lines).encode("ascii")


def _told(error: MainspringError | OSError) -> str:
    return (explain_os_error(error) if isinstance(error, OSError) else str(error)).rstrip(".")
