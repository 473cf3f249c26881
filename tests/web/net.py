"""A web of our own: names that lead where a test says, and servers on loopback behind public addresses.

`Net` is both the resolver and the way to a socket, so it knows which address was connected to, and how often anybody
asked for a name. Everything above it is real: TLS, HTTP, the limits.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wire.servers import NO_PROXIES, openssl

from mainspring.providers.http.connect import Address, connect_socket
from mainspring.web.fetch import LIMITS, FetchLimits, WebFetcher

PUBLIC = "93.184.216.34"
OTHER_PUBLIC = "2606:2800:220:1::1"


class Net:
    """`names`: for each, the answers in their order; the last one again and again."""

    def __init__(self, port: int, **names: Sequence[Sequence[str]] | Sequence[str] | str) -> None:
        self.port = port
        self.names = {name.replace("_", "."): _answers(answers) for name, answers in names.items()}
        self.asked: list[str] = []
        self.connected: list[str] = []

    async def resolve(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answers = self.names.get(host)
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect(self, found: Sequence[Address]) -> socket.socket:
        self.connected.append(str(found[0][1][0]))
        return await connect_socket((socket.AF_INET, ("127.0.0.1", self.port)))


def _answers(given: Sequence[Sequence[str]] | Sequence[str] | str) -> list[Sequence[str]]:
    if isinstance(given, str):
        return [[given]]
    return [[one] if isinstance(one, str) else one for one in given]


class Paper(NamedTuple):
    authority: Path
    server: ssl.SSLContext


def make_paper(folder: Path) -> Paper:
    """An authority, and what it signed for `*.test`."""
    authority, key, own, made = (folder / name for name in ("ca.pem", "ca.key", "own.key", "own.pem"))
    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl(*new, "-keyout", str(key), "-out", str(authority), "-subj", "/CN=test CA")
    names = f"subjectAltName=DNS:site.test,DNS:other.test,DNS:near.test,IP:{PUBLIC}"
    openssl(
        *(*new, "-keyout", str(own), "-out", str(made), "-subj", "/CN=site.test", "-addext", names),
        *("-addext", "basicConstraints=critical,CA:FALSE", "-CA", str(authority), "-CAkey", str(key)),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, own)
    return Paper(authority, context)


def fetcher(
    net: Net, paper: Paper | None = None, limits: FetchLimits = LIMITS, known: Sequence[str] = ()
) -> WebFetcher:
    ca_file = str(paper.authority) if paper else None
    return WebFetcher(
        limits=limits, proxies=NO_PROXIES, ca_file=ca_file, known=known, resolve=net.resolve, connect=net.connect
    )


def nowhere(_host: str) -> bool:
    """No rule names anything."""
    return False


def page(body: bytes, *headers: str, status: str = "200 OK", kind: str = "text/plain") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def moved(location: str, status: str = "302 Found") -> bytes:
    return page(b"", f"location: {location}", status=status)
