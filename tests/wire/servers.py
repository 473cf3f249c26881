"""Real servers on loopback for the transport's tests, written by hand so that they can misbehave.

`serving` runs a coroutine for each connection, in the test's own loop. `Listener` is a thread with blocking sockets: it
has a clock of its own, for tests that ask when the server sees something. `run` is asyncio.run that leaves nothing.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import pytest
from programs import need

from mainspring.core.errors import ProviderError
from mainspring.core.reasons import Failure, Trouble
from mainspring.providers.http.client import Deadlines, Transport
from mainspring.providers.http.proxy import ProxySettings

T = TypeVar("T")

QUICK = Deadlines(connect=5, headers=5, idle=5)  # far more than loopback needs: only a bug meets them
NO_PROXIES = ProxySettings({})
ENVIRONMENT = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine says about proxies and certificates does not reach the tests."""
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in CERTIFICATES:
        monkeypatch.delenv(name, raising=False)


def run(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, after which no task, no error in a callback and (pytest warns of it) no open transport is left."""
    complaints: list[dict[str, Any]] = []

    async def watched() -> T:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        result = await main
        async with asyncio.timeout(10):  # the server's side of a broken handshake needs some rounds of the loop to end
            await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
        return result

    result = asyncio.run(watched())
    gc.collect()
    assert complaints == []
    return result


# Seconds from a cancellation until the server has seen it. A bug would wait for a deadline, which is twice as far away;
# how fast it is on an idle machine is measured in `test_anthropic.py`.
AT_ONCE = 2.5


def quickest(play: Callable[[], float], enough: float) -> float:
    """The least of up to five: what a busy machine does to one of them is not ours."""
    taken = [play()]
    while min(taken) >= enough and len(taken) < 5:
        taken.append(play())
    return min(taken)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Got(NamedTuple):
    """A request as the server read it."""

    line: str
    headers: dict[str, str]
    body: bytes


class Peer:
    """One connection, seen from the server."""

    def __init__(self, served: Served, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.served = served
        self.reader = reader
        self.writer = writer
        self.over = asyncio.Event()  # the handler has ended: the client closed, where it waits for that

    async def request(self) -> Got:
        """Raises IncompleteReadError when the client has no more."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.rstrip("\r\n").split("\r\n")
        pairs = [each.partition(": ") for each in rest]
        headers = {name.lower(): value for name, _, value in pairs}
        assert len(headers) == len(pairs), f"a header came twice: {rest}"
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        got = Got(line, headers, body)
        self.served.requests.append(got)
        return got

    async def send(self, *pieces: bytes, pause: float = 0) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(pause)

    async def closed(self) -> None:
        """Waits until the client has closed."""
        with suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass

    @property
    def socket(self) -> socket.socket:
        found: socket.socket = self.writer.get_extra_info("socket")
        return found


Handler = Callable[[Peer], Awaitable[None]]


class Served:
    """A server, and what it has seen."""

    port = 0

    def __init__(self, scheme: str = "http") -> None:
        self.scheme = scheme
        self.peers: list[Peer] = []
        self.requests: list[Got] = []

    @property
    def connections(self) -> int:
        return len(self.peers)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/v1/messages"


@asynccontextmanager
async def serving(
    handler: Handler, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Served]:
    served = Served("https" if tls else "http")
    tasks: list[asyncio.Task[None]] = []

    async def serve(peer: Peer) -> None:
        try:
            await handler(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        finally:
            peer.writer.transport.abort()
            peer.over.set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(served, reader, writer)
        served.peers.append(peer)
        tasks.append(asyncio.create_task(serve(peer)))

    server = await asyncio.start_server(connected, host, 0, ssl=tls, backlog=2_000)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        failures = await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
    for failure in failures:
        if isinstance(failure, Exception):
            raise failure


async def until(state: Callable[[], bool]) -> None:
    """Waits for a state; the test's own timeout is the limit."""
    while not state():  # noqa: ASYNC110  # the state may be a kernel's or another thread's
        await asyncio.sleep(0.001)


def answering(*answers: bytes) -> Handler:
    """Sends one answer for each request, on any number of connections; the last one again and again."""
    left = list(answers)

    async def handle(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(left.pop(0) if len(left) > 1 else left[0])

    return handle


async def fetch(transport: Transport, url: str, body: bytes = b"{}") -> tuple[int, bytes]:
    async with transport.post(url, {}, body) as response:
        return response.status, b"".join([chunk async for chunk in response])


async def failure_of(transport: Transport, url: str) -> Failure:
    with pytest.raises(ProviderError) as caught:
        await fetch(transport, url)
    return caught.value.failure


async def network_failure(transport: Transport, url: str) -> str:
    failure = await failure_of(transport, url)
    assert failure.kind is Trouble.NETWORK
    return failure.detail


# --- with a clock of its own ------------------------------------------------------------------------


class Listener:
    """A thread that accepts one connection, plays a script on it, then waits for the client to close."""

    def __init__(self, script: Callable[[socket.socket], None] = lambda _: None) -> None:
        self._script = script
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.reached = threading.Event()  # the script has ended
        self.saw_close = 0.0
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        peer, _ = self._socket.accept()
        with peer:
            self._script(peer)
            self.reached.set()
            with suppress(ConnectionError):
                while peer.recv(65_536):
                    pass
            self.saw_close = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.join(10)
        self._socket.close()
        assert not self._thread.is_alive(), "the server never saw the client close"


def read_request(peer: socket.socket) -> None:
    got = b""
    while not got.endswith(b"{}" if got.startswith(b"POST") else b"\r\n\r\n"):
        got += peer.recv(65_536)


# --- certificates -----------------------------------------------------------------------------------


class Certificates(NamedTuple):
    """Made with openssl: an authority, what it signed for 127.0.0.1 and for another host, one that nobody signed."""

    authority: Path
    good: ssl.SSLContext
    other_host: ssl.SSLContext
    self_signed: ssl.SSLContext
    hashed: Path  # a directory with the authority under its hash


def openssl(*arguments: str) -> str:
    made = subprocess.run([need("openssl"), *arguments], check=True, capture_output=True, text=True)
    return made.stdout


def make_certificates(folder: Path) -> Certificates:
    authority, key = folder / "ca.pem", folder / "ca.key"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", str(key), "-out", str(authority), "-days", "2", "-subj", "/CN=test CA")

    def server(name: str, alternatives: str, *signed: str) -> ssl.SSLContext:
        made, own = folder / f"{name}.pem", folder / f"{name}.key"
        extension = ("-addext", f"subjectAltName={alternatives}", "-addext", "basicConstraints=critical,CA:FALSE")
        to = ("-keyout", str(own), "-out", str(made), "-days", "2", "-subj", f"/CN={name}")
        openssl("req", "-x509", *curve, *to, *extension, *signed)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made, own)
        return context

    by_us = ("-CA", str(authority), "-CAkey", str(key))
    hashed = folder / "hashed"
    hashed.mkdir()
    digest = openssl("x509", "-hash", "-noout", "-in", str(authority)).strip()
    (hashed / f"{digest}.0").symlink_to(authority)
    return Certificates(
        authority,
        server("good", "IP:127.0.0.1,DNS:localhost", *by_us),
        server("other", "DNS:other.example", *by_us),
        server("alone", "IP:127.0.0.1,DNS:localhost"),
        hashed,
    )
