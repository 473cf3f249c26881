"""An address to be fetched: read by two parsers that must agree about the host (security N2), or refused.

Where a redirect leads is read the same way. No user, no password, and the part behind '#' is nobody's but a browser's.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from mainspring.core.value import Bundle
from mainspring.permissions.hosts import AddressError, host_of
from mainspring.providers.http.proxy import HttpOrigin, split_url

_AUTHORITY_ENDS = re.compile(r"[/?]")
_QUOTED = str.maketrans({character: f"%{ord(character):02X}" for character in ' "<>'})  # a path cannot hold them


class FetchTarget(Bundle):
    host: str  # as rules are matched with it: numbers of version 6 in brackets
    origin: HttpOrigin
    path: str  # with the query

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}"

    def over_tls(self) -> FetchTarget:
        """The same page by https. A port of its own stays: nobody knows another."""
        port = 443 if self.origin.port == 80 else self.origin.port
        return replace(self, origin=replace(self.origin, scheme="https", port=port))


def parse_target(url: str) -> FetchTarget:
    host = host_of(url)
    scheme, _, rest = url.partition("#")[0].partition("://")
    end = _AUTHORITY_ENDS.search(rest)
    authority, path = (rest[: end.start()], rest[end.start() :]) if end else (rest, "")
    if "@" in authority:
        raise AddressError("the address holds a user or a password: pages are fetched without")
    path = path if path.startswith("/") else f"/{path}"
    origin, path = split_url(f"{scheme}://{authority}{path.translate(_QUOTED)}")
    origin = replace(origin, host=origin.host.removesuffix("."))
    if origin.host != host.strip("[]"):
        raise AddressError(f"the host of '{url[:100]}' can be read in more than one way")
    return FetchTarget(host, origin, path)


def resolve_redirect(before: FetchTarget, location: str) -> FetchTarget:
    """Where an answer sends us. Raises `AddressError` for what cannot be an address of a page."""
    from urllib.parse import urljoin  # 3 ms, only for a redirect

    # Headers arrive as Latin-1. What is no ASCII are bytes of a path, as a rule; in a host '%' is refused.
    ascii_only = "".join([c if c < "\x80" else f"%{ord(c):02X}" for c in location.strip()])
    try:
        joined = urljoin(before.url, ascii_only.translate(_QUOTED))
    except ValueError:
        raise AddressError(f"'{location[:100]}' is no address") from None
    return parse_target(joined)
