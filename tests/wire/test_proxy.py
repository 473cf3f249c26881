"""Proxies: which requests go through one, what it is told, and what it may not know or do."""

from __future__ import annotations

import asyncio
import base64
import socket
import time
from collections.abc import Callable

import pytest

from mainspring.core.errors import UsageError
from mainspring.core.reasons import Failure, Trouble
from mainspring.providers.http.client import Deadlines, Transport
from mainspring.providers.http.proxy import HttpOrigin, HttpProxy, ProxySettings, read_proxy_settings, split_url
from wire.servers import (
    AT_ONCE,
    OK,
    QUICK,
    Certificates,
    Handler,
    Listener,
    Peer,
    answering,
    clear,
    descriptors,
    failure_of,
    fetch,
    make_certificates,
    network_failure,
    read_request,
    run,
    serving,
    until,
)

PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def _clear(monkeypatch: pytest.MonkeyPatch) -> None:
    clear(monkeypatch)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


# --- which ------------------------------------------------------------------------------------------


def way(url: str, **env: str) -> str | None:
    proxy = read_proxy_settings(env).on_the_way_to(split_url(url)[0])
    return str(proxy.origin) if proxy else None


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        ("https://a.example/", {}, None),
        ("https://a.example/", {"https_proxy": "http://p:1"}, "http://p:1"),
        ("https://a.example/", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.example/", {"http_proxy": "http://p:1"}, None),
        ("http://a.example/", {"https_proxy": "http://p:1"}, None),
        ("http://a.example/", {"http_proxy": "http://p:1"}, "http://p:1"),
        ("http://a.example/", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.example/", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("http://a.example/", {"all_proxy": "http://p:1"}, "http://p:1"),
        ("https://a.example/", {"https_proxy": "http://small:1", "HTTPS_PROXY": "http://large:1"}, "http://small:1"),
        ("https://a.example/", {"HTTPS_PROXY": "http://own:1", "all_proxy": "http://all:1"}, "http://own:1"),
        ("https://a.example/", {"https_proxy": "", "ALL_PROXY": "http://all:1"}, "http://all:1"),
        ("https://a.example/", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("https://a.example/", {"https_proxy": "http://p:3128/"}, "http://p:3128"),
        ("https://a.example/", {"https_proxy": "http://p"}, "http://p"),
        ("https://a.example/", {"https_proxy": "https://p:443"}, "https://p"),
        ("https://a.example/", {"https_proxy": "http://[::1]:3128"}, "http://[::1]:3128"),
        # as curl has it: loopback is no exception
        ("http://127.0.0.1:8080/", {"http_proxy": "http://p:1"}, "http://p:1"),
        ("http://localhost:8080/", {"http_proxy": "http://p:1", "NO_PROXY": "localhost"}, None),
        # what cannot be used does not matter where it is not used
        ("https://a.example/", {"https_proxy": "http://p:1", "all_proxy": "socks5://s:1"}, "http://p:1"),
        ("https://a.example/", {"https_proxy": "socks5://s:1", "no_proxy": "a.example"}, None),
    ],
)
def test_which_proxy(url: str, env: dict[str, str], proxy: str | None) -> None:
    assert way(url, **env) == proxy


NO_PROXY: list[tuple[str, str, bool]] = [  # the variable, the target, whether it goes without the proxy
    ("*", "https://a.example/", True),
    ("a.example", "https://a.example/", True),
    ("a.example", "https://A.Example/", True),
    ("A.EXAMPLE", "https://a.example/", True),
    ("a.example", "https://b.a.example/", True),
    ("a.example", "https://ba.example/", False),
    ("a.example", "https://a.example.com/", False),
    (".a.example", "https://b.a.example/", True),
    (".a.example", "https://a.example/", True),
    (".a.example", "https://ba.example/", False),
    ("*.a.example", "https://b.a.example/", True),
    ("*.a.example", "https://ba.example/", False),
    ("a.example.", "https://a.example/", True),
    ("a.example", "https://a.example./", True),
    ("b.example, a.example", "https://a.example/", True),
    ("b.example a.example", "https://a.example/", True),
    ("b.example,,a.example,", "https://a.example/", True),
    (",", "https://a.example/", False),
    (".", "https://a.example/", False),
    ("a.example:443", "https://a.example/", True),
    ("a.example:8443", "https://a.example:8443/", True),
    ("a.example:8443", "https://a.example/", False),
    ("127.0.0.1", "http://127.0.0.1:8080/", True),
    ("127.0.0.1:8080", "http://127.0.0.1:8080/", True),
    ("127.0.0.1:8081", "http://127.0.0.1:8080/", False),
    ("27.0.0.1", "http://127.0.0.1/", False),
    ("0.0.1", "http://127.0.0.1/", False),
    ("10.0.0.0/8", "http://10.255.0.1/", True),
    ("10.0.0.0/8", "http://11.0.0.1/", False),
    ("192.168.1.128/25", "http://192.168.1.127/", False),
    ("192.168.1.128/25", "http://192.168.1.128/", True),
    ("192.168.1.1/32", "http://192.168.1.1/", True),
    ("0.0.0.0/0", "http://8.8.8.8/", True),
    ("0.0.0.0/0", "http://[::1]/", False),
    ("10.0.0.0/33", "http://10.0.0.1/", False),
    ("10.0.0.0/", "http://10.0.0.0/", False),
    ("10.0.0.0/x", "http://10.0.0.0/", False),
    ("10.0.0.0/8", "http://10.example/", False),
    ("::1", "http://[::1]/", True),
    ("0:0:0:0:0:0:0:1", "http://[::1]/", True),
    ("[::1]", "http://[::1]:8080/", True),
    ("[::1]:8080", "http://[::1]:8080/", True),
    ("[::1]:8081", "http://[::1]:8080/", False),
    ("fd00::/8", "http://[fd12::1]/", True),
    ("fd00::/8", "http://[fe80::1]/", False),
]


@pytest.mark.parametrize(("excepted", "url", "without"), NO_PROXY)
def test_no_proxy(excepted: str, url: str, without: bool) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        assert way(url, ALL_PROXY=PROXY, **{variable: excepted}) == (None if without else PROXY)


@pytest.mark.parametrize(
    "value",
    [
        "socks5://u:sesame@p:1",
        "http://u:sesame@p:x",
        "http://u:sesame@",
        "u:sesame@h h:1",
        "http://p:1/sesame",
        "ftp://p",
    ],
)
def test_a_proxy_that_cannot_be_used(value: str) -> None:
    with pytest.raises(UsageError, match="'HTTPS_PROXY' is not a supported proxy address") as caught:
        way("https://a.example/", HTTPS_PROXY=value)
    assert "sesame" not in str(caught.value)


def test_credentials_are_decoded_and_not_shown() -> None:
    proxies = read_proxy_settings({"https_proxy": "http://us%40er:se%3Asa%25me@p:3128"})
    proxy = proxies.on_the_way_to(HttpOrigin("https", "a.example", 443))
    assert proxy == HttpProxy(HttpOrigin("http", "p", 3128), "Basic " + base64.b64encode(b"us@er:se:sa%me").decode())
    assert repr(proxy) == str(proxy) == "Proxy(http://p:3128)"


# --- how --------------------------------------------------------------------------------------------


def proxy_server(answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> Handler:
    """Answers CONNECT and carries bytes; whatever else it is asked, it answers itself."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.transport.abort()

    async def handle(peer: Peer) -> None:
        got = await peer.request()
        if not got.line.startswith("CONNECT"):
            await peer.send(OK)
            return await handle(peer)
        await peer.send(answer)
        host, _, port = got.line.split()[1].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            await asyncio.gather(pipe(peer.reader, writer), pipe(reader, peer.writer))
        finally:
            writer.transport.abort()

    return handle


def through(scheme: str, port: int, user: str = "", proxy_scheme: str = "http") -> ProxySettings:
    return read_proxy_settings({f"{scheme}_proxy": f"{proxy_scheme}://{user}127.0.0.1:{port}"})


def test_https_goes_through_a_tunnel(certificates: Certificates) -> None:
    """The proxy sees the name of the server and its own password; the server sees neither proxy nor password."""

    async def main() -> None:
        async with serving(answering(OK), tls=certificates.good) as served, serving(proxy_server()) as proxy:
            proxies = through("https", proxy.port, "user:sesame@")
            async with Transport(ca_file=str(certificates.authority), proxies=proxies, deadlines=QUICK) as transport:
                for _ in range(3):
                    async with transport.post(served.url, {"x-api-key": "sk-1"}, b"{}") as response:
                        assert await response.read() == b"ok"
            place = f"127.0.0.1:{served.port}"
            (asked,) = proxy.requests
            assert asked.line == f"CONNECT {place} HTTP/1.1"
            assert asked.headers == {
                "host": place,
                "proxy-authorization": "Basic " + base64.b64encode(b"user:sesame").decode(),
            }
            assert [got.line for got in served.requests] == ["POST /v1/messages HTTP/1.1"] * 3
            assert "proxy-authorization" not in served.requests[0].headers
            assert (proxy.connections, served.connections) == (1, 1)

    run(main())


def test_http_is_asked_of_the_proxy() -> None:
    async def main() -> None:
        async with serving(proxy_server()) as proxy:
            proxies = through("http", proxy.port, "user:sesame@")
            async with Transport(proxies=proxies, deadlines=QUICK) as transport:
                for _ in range(2):
                    assert await fetch(transport, "http://models.example/v1?a=b") == (200, b"ok")
            assert proxy.connections == 1
            got = proxy.requests[0]
            assert got.line == "POST http://models.example/v1?a=b HTTP/1.1"
            assert got.headers["host"] == "models.example"
            assert got.headers["proxy-authorization"] == "Basic " + base64.b64encode(b"user:sesame").decode()

    run(main())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_under_tls(scheme: str, certificates: Certificates) -> None:
    async def main() -> None:
        async with (
            serving(answering(OK), tls=certificates.good) as served,
            serving(proxy_server(), tls=certificates.good) as proxy,
        ):
            proxies = through(scheme, proxy.port, proxy_scheme="https")
            async with Transport(ca_file=str(certificates.authority), proxies=proxies, deadlines=QUICK) as transport:
                url = served.url if scheme == "https" else "http://models.example/"
                assert await fetch(transport, url) == (200, b"ok")
                assert proxy.connections == 1

    run(main())


def test_the_environment_is_read_when_the_transport_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serving(proxy_server()) as proxy:
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
            monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
            async with Transport(deadlines=QUICK) as transport:
                monkeypatch.delenv("http_proxy")
                assert await fetch(transport, "http://models.example/") == (200, b"ok")
                assert len(proxy.requests) == 1

    run(main())


def test_a_kept_connection_is_used_for_its_own_proxy_only() -> None:
    async def main() -> None:
        async with (
            serving(answering(OK)) as served,
            serving(proxy_server()) as proxy,
            Transport(proxies=through("http", proxy.port), deadlines=QUICK) as transport,
        ):
            assert await fetch(transport, served.url) == (200, b"ok")
            transport._proxies = ProxySettings({})
            assert await fetch(transport, served.url) == (200, b"ok")
            assert (served.connections, proxy.connections) == (1, 1)

    run(main())


# --- what goes wrong --------------------------------------------------------------------------------

TUNNEL = "https://models.example/v1"


PASSWORD = "(407): set them in 'http://user:password@host:port'"


@pytest.mark.parametrize(
    ("user", "answer", "says"),
    [
        ("", b"HTTP/1.1 407 No\r\n\r\n", "the proxy '{}' requires a user and a password " + PASSWORD),
        ("u:sesame@", b"HTTP/1.1 407 No\r\n\r\n", "the proxy '{}' does not accept its user and password " + PASSWORD),
        ("", b"HTTP/1.1 403 No\r\n\r\n", "the proxy '{}' refuses to connect to 'models.example:443': it answered 403"),
        ("", b"HTTP/1.1 302 Go\r\n\r\n", "the proxy '{}' refuses to connect to 'models.example:443': it answered 302"),
        ("", b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "the proxy '{}' sent data of its own after connecting"),
        ("", b"nonsense\r\n\r\n", "'{}' sent an invalid HTTP/1.1 response"),
        ("", b"", "'{}' closed the connection without an answer"),
        ("", b"HTTP/1.1 200 OK\r\n", "'{}' closed the connection without an answer"),
    ],
)
def test_a_proxy_that_refuses(user: str, answer: bytes, says: str) -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer)

    async def main() -> None:
        async with serving(handle) as proxy:
            async with Transport(proxies=through("https", proxy.port, user), deadlines=QUICK) as transport:
                failure = await failure_of(transport, TUNNEL)
            detail = says.format(f"127.0.0.1:{proxy.port}")
            assert failure == Failure(Trouble.NETWORK, detail)
            assert len(proxy.requests) == 1

    run(main())


def test_a_proxy_that_wants_a_password_for_http() -> None:
    async def main() -> None:
        async with serving(answering(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n")) as proxy:
            async with Transport(proxies=through("http", proxy.port), deadlines=QUICK) as transport:
                detail = await network_failure(transport, "http://models.example/")
            assert detail.startswith(f"the proxy '127.0.0.1:{proxy.port}' requires a user and a password (407)")

    run(main())


def test_a_proxy_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    async def main() -> None:
        async with Transport(proxies=through("https", port, "user:sesame@"), deadlines=QUICK) as transport:
            detail = await network_failure(transport, TUNNEL)
            assert detail == f"connecting to '127.0.0.1:{port}': refused. Is a server running there?"

    run(main())


def test_a_proxy_cannot_pretend_to_be_the_server(certificates: Certificates) -> None:
    """It ends the tunnel at a server of its own, whose certificate is for another name."""

    async def main() -> None:
        async with serving(answering(OK), tls=certificates.other_host) as evil, serving(proxy_server()) as proxy:
            proxies = through("https", proxy.port)
            async with Transport(ca_file=str(certificates.authority), proxies=proxies, deadlines=QUICK) as transport:
                detail = await network_failure(transport, evil.url)
            assert "mismatch" in detail
            assert evil.requests == []

    run(main())


def test_a_proxy_that_says_nothing() -> None:
    async def handle(peer: Peer) -> None:
        await peer.closed()

    async def main() -> None:
        async with serving(handle) as proxy:
            deadlines = Deadlines(0.2, 5, 5)
            async with Transport(proxies=through("https", proxy.port), deadlines=deadlines) as transport:
                detail = await network_failure(transport, TUNNEL)
            place = f"127.0.0.1:{proxy.port}"
            assert detail == f"asking the proxy '{place}' for 'models.example:443': timed out after 0.2 seconds"
            await proxy.peers[0].over.wait()

    run(main())


def agree(peer: socket.socket) -> None:
    read_request(peer)
    peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    peer.recv(1)  # the first byte of TLS


@pytest.mark.parametrize(("stage", "script"), [("in CONNECT", read_request), ("in TLS behind CONNECT", agree)])
@pytest.mark.covers("J-07")
def test_the_proxy_sees_a_cancellation_at_once(stage: str, script: Callable[[socket.socket], None]) -> None:
    async def main(server: Listener) -> float:
        async with Transport(proxies=through("https", server.port), deadlines=QUICK) as transport:
            task = asyncio.create_task(fetch(transport, TUNNEL))
            await until(server.reached.is_set)
            cancelled = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: server.saw_close > 0)
            return cancelled

    def play() -> float:
        before = descriptors()
        with Listener(script) as server:
            cancelled = run(main(server))
        assert descriptors() == before
        return server.saw_close - cancelled

    assert play() < AT_ONCE
