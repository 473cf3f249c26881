"""Parse addresses and proxy settings: which server a request goes to, and through which proxy.

An address that two programs could read in two ways is refused, not repaired. urllib.parse does neither, and importing
it takes 3 ms.
"""

from __future__ import annotations

import socket
from binascii import b2a_base64
from collections.abc import Mapping
from string import ascii_lowercase, digits

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle

PORTS = {"http": 80, "https": 443}
NAME = frozenset(ascii_lowercase + digits + "-._")  # of a host


class HttpOrigin(Bundle):
    scheme: str
    host: str  # lower case; an IPv6 number without its brackets
    port: int

    @property
    def place(self) -> str:
        """`host:port`, for CONNECT and for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """Without the default port: the Host header."""
        return self.place.removesuffix(f":{PORTS[self.scheme]}")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


class HttpProxy(Bundle):
    origin: HttpOrigin
    credentials: str = ""  # the value of Proxy-Authorization; for this proxy only

    def __repr__(self) -> str:
        return f"Proxy({self.origin})"  # tracebacks and logs show this


def split_url(url: str) -> tuple[HttpOrigin, str]:
    """The origin of an address, and its path with the query."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        raise UsageError("an address must not contain a user or a password: put keys into headers")
    origin = origin_of(scheme, authority)
    if origin is None or not path.isascii() or not path.isprintable() or set(path) & set(' #"<>\\'):
        said = url.partition("?")[0]  # a query may contain a key
        raise UsageError(f"{said[:200]!r} is not an address: write 'https://host/path' or 'http://host:port/path'")
    return origin, slash + path or "/"


def origin_of(scheme: str, authority: str) -> HttpOrigin | None:
    scheme, authority = scheme.lower(), authority.lower()
    if authority.startswith("["):
        host, bracket, rest = authority[1:].partition("]")
        between, colon, port = rest.partition(":")
        good = bool(bracket) and not between and ":" in host and parse_numeric_host(host) is not None
    else:
        host, colon, port = authority.partition(":")
        good = set(host) <= NAME and all(0 < len(label) < 64 for label in host.removesuffix(".").split("."))
    if not good or scheme not in PORTS or bool(colon) != bool(port) or not set(port) <= set(digits) or len(port) > 5:
        return None
    found = int(port) if port else PORTS[scheme]
    return HttpOrigin(scheme, host, found) if 0 < found < 65_536 else None


# --- hosts ------------------------------------------------------------------------------------------

# Loopback, private, link-local, carrier-grade (used by Tailscale), and the same for IPv6.
LOCAL_NETWORKS = (
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "0.0.0.0/32"),
    *("::1/128", "fc00::/7", "fe80::/10"),
)
LOCAL_NAMES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


def is_local(host: str) -> bool:
    """On this machine or in its network. A name without a dot is never on the internet."""
    if parse_numeric_host(host) is not None:
        return any(is_in_network(host, network) for network in LOCAL_NETWORKS)
    return "." not in host.rstrip(".") or host.rstrip(".").endswith(LOCAL_NAMES)


def parse_numeric_host(host: str) -> tuple[int, int] | None:
    """A numeric host as its width in bits and its value (ipaddress would work, but takes 2 ms to import)."""
    for family, bits in ((socket.AF_INET, 32), (socket.AF_INET6, 128)):
        try:
            return bits, int.from_bytes(socket.inet_pton(family, host))
        except OSError:
            continue
    return None


def is_in_network(host: str, network: str) -> bool:
    """Whether a numeric host is in a network such as `10.0.0.0/8`, or equals the single number."""
    base, slash, prefix = network.partition("/")
    ours, theirs = parse_numeric_host(host), parse_numeric_host(base)
    if ours is None or theirs is None or ours[0] != theirs[0] or (slash and not prefix.isdecimal()):
        return False
    dropped = ours[0] - int(prefix) if slash else 0
    return 0 <= dropped <= ours[0] and ours[1] >> dropped == theirs[1] >> dropped


# --- proxies ----------------------------------------------------------------------------------------


class ProxySettings(Bundle):
    """Proxy variables of the environment, parsed when needed: an ALL_PROXY with an unsupported scheme must not stop a
    run that does not use it.
    """

    named: Mapping[str, tuple[str, str]]  # by scheme of the target: the variable and its value
    excepted: tuple[str, ...] = ()

    def on_the_way_to(self, target: HttpOrigin) -> HttpProxy | None:
        """As in curl: loopback goes through the proxy like any other host, unless NO_PROXY names it."""
        found = self.named.get(target.scheme)
        if found is None or any(no_proxy_covers(entry, target) for entry in self.excepted):
            return None
        return read_proxy(*found)


def read_proxy_settings(env: Mapping[str, str]) -> ProxySettings:
    """Lower case wins, as in curl; an empty value is ignored."""
    named: dict[str, tuple[str, str]] = {}
    for scheme in PORTS:
        names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
        for variable in reversed([name for name in names if env.get(name)]):
            named[scheme] = (variable, env[variable])
    excepted = env.get("no_proxy") or env.get("NO_PROXY") or ""
    return ProxySettings(named, tuple(excepted.replace(",", " ").lower().split()))


def read_proxy(variable: str, value: str) -> HttpProxy:
    """`[http[s]://][user:password@]host[:port]`. Messages never contain the value: it may contain a password."""
    scheme, found, rest = value.strip().rpartition("://")
    user, at, authority = rest.rstrip("/").rpartition("@")
    origin = origin_of(scheme if found else "http", authority)
    if origin is None:
        raise UsageError(f"'{variable}' is not a supported proxy address: write 'http://host:port'")
    return HttpProxy(origin, basic_authorization(user) if at else "")


def basic_authorization(user: str) -> str:
    from urllib.parse import unquote_to_bytes  # 3 ms, only for a proxy with a password

    name, _, password = user.partition(":")
    pair = unquote_to_bytes(name) + b":" + unquote_to_bytes(password)
    return "Basic " + b2a_base64(pair, newline=False).decode()


def no_proxy_covers(entry: str, target: HttpOrigin) -> bool:
    """Whether an entry of NO_PROXY covers this host. `example.com` and `.example.com` cover it and its subdomains."""
    if entry == "*":
        return True
    if parse_numeric_host(entry.partition("/")[0]) is None:
        host, colon, port = entry.rpartition(":")
        if colon and port.isdecimal():
            if int(port) != target.port:
                return False
            entry = host
        entry = entry.strip("[]")
    if parse_numeric_host(target.host) is not None:
        return is_in_network(target.host, entry)
    suffix = entry.removeprefix("*").strip(".")
    return bool(suffix) and f".{target.host.rstrip('.')}".endswith(f".{suffix}")
