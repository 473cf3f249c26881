"""One page over the network: GET, no cookies, no credentials, no scripts (security N1, N3).

Each name is resolved once, all its addresses are checked, and one of these is connected to. http becomes https, unless
a rule names a host that is near. A redirect to the same host is followed and checked like the first address; one to
another host is handed back, so that somebody decides about that host first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from mainspring.core.errors import MainspringError, ProviderError, ToolError, UsageError
from mainspring.core.value import Bundle
from mainspring.processes.addresses import LocalAddressError, check_addresses, is_public
from mainspring.providers.http import connect as http_connect
from mainspring.providers.http import connection as wire
from mainspring.providers.http.connect import explain_os_error, first_to_answer
from mainspring.providers.http.connection import ClientConnection, HttpResponse
from mainspring.providers.http.proxy import ProxySettings, read_proxy_settings
from mainspring.secrets.held import SHORTEST
from mainspring.version import __version__
from mainspring.web import line
from mainspring.web.body import BodyDecoder
from mainspring.web.target import FetchTarget, parse_target, resolve_redirect

MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ACCEPTED = "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.5"

Near = Callable[[str], bool]  # whether a rule names this host, so that it may be near


class FetchLimits(Bundle):
    """Bytes and seconds."""

    sent: int = 5_000_000  # by the server, as it sends it
    expanded: int = 10_000_000
    connect: float = 10  # name, TCP and TLS
    first_byte: float = 30
    idle: float = 15
    whole: float = 60  # with all redirects


LIMITS = FetchLimits()


class FetchedPage(Bundle):
    url: str  # in the end
    status: int
    content_type: str = ""
    body: bytes = b""
    moved: str = ""  # another host, where the page is said to be


class WebFetcher:
    """For a session, or for a process. Belongs to one event loop."""

    def __init__(  # noqa: PLR0913  # settings, by name
        self,
        *,
        limits: FetchLimits = LIMITS,
        proxies: ProxySettings | None = None,  # None: from the environment,
        environ: Mapping[str, str] | None = None,  # which is that of the process, if none is given
        ca_file: str | None = None,
        known: Sequence[str] = (),  # keys: no address may hold one (security K3)
        resolve: line.Resolve = line.resolve_host,
        connect: line.Connect = first_to_answer,
    ) -> None:
        self.limits = limits
        self._known = [key for key in known if len(key) >= SHORTEST]
        self._resolve = resolve
        environ = os.environ if environ is None else environ
        self._proxies = proxies if proxies is not None else read_proxy_settings(environ)
        self._line = line.CheckedDialer(
            wire.ResponseLimits(message=limits.sent), http_connect.read_trusted_certificates(environ, ca_file), connect
        )

    async def fetch(self, url: str, near: Near) -> FetchedPage:
        """Raises `ToolError`, with words for the model."""
        try:
            async with asyncio.timeout(self.limits.whole):
                return await self._follow(parse_target(url), near)
        except ToolError:
            raise
        except TimeoutError:
            raise ToolError(f"'{url[:200]}' did not come within {self.limits.whole:g} seconds.") from None
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
        raise ToolError(f"The page was moved more than {MOST_REDIRECTS} times: '{target.url[:200]}' is the last place.")

    def _refuse_keys(self, target: FetchTarget) -> None:
        from urllib.parse import unquote

        if any(key in text for key in self._known for text in (target.url, unquote(target.url))):
            raise ToolError("Not fetched: the address holds a key. Keys go to nobody but their own service.")

    async def _once(self, target: FetchTarget, near: bool) -> tuple[FetchTarget, FetchedPage, str | None]:
        """The address that was asked in the end, the answer, and where it leads on."""
        origin = target.origin
        addresses = check_addresses(target.host, await self._look_up(origin.host), near=near)
        public = all(map(is_public, addresses))
        if public and origin.scheme == "http":
            target = target.over_tls()
            origin = target.origin
        proxy = self._proxies.on_the_way_to(origin) if public else None  # what is near is not behind it
        way = line.CheckedRoute(origin, proxy, tuple(addresses))
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
            raise ToolError("The page is packed in its transfer, and we asked for it as it is.")
        expanding, pieces = BodyDecoder(headers, self.limits.expanded), list[bytes]()
        answer = connection.answer
        assert answer is not None
        while answer.body or not answer.ended:
            _refuse_failed(answer)
            if answer.body:
                for piece in expanding.feed(connection.take()):
                    pieces.append(piece)
                    await asyncio.sleep(0)  # others have their turn, also while a little expands to very much
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
    """Also if all of it is here: what breaks a limit may end in the same read."""
    if answer.failure is not None:
        raise ProviderError(answer.failure)


def _request(target: FetchTarget) -> bytes:
    lines = [f"GET {target.path} HTTP/1.1", f"host: {target.origin.authority}", f"user-agent: mainspring/{__version__}"]
    lines += [f"accept: {_ACCEPTED}", "accept-encoding: gzip", "connection: close", "", ""]
    return "\r\n".join(lines).encode("ascii")


def _told(error: MainspringError | OSError) -> str:
    return (explain_os_error(error) if isinstance(error, OSError) else str(error)).rstrip(".")
