"""TLS with certificates made here: whom we trust, whom we refuse, and what we say then."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from mainspring.core.errors import UsageError
from mainspring.providers.http import connect
from mainspring.providers.http.client import Deadlines, Transport
from mainspring.providers.retry import RequestRefusedError
from wire.servers import (
    OK,
    QUICK,
    Certificates,
    Peer,
    answering,
    clear,
    fetch,
    make_certificates,
    network_failure,
    run,
    serving,
)

UNKNOWN = "unable to get local issuer certificate"


@pytest.fixture(autouse=True)
def _clear(monkeypatch: pytest.MonkeyPatch) -> None:
    clear(monkeypatch)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


async def reached(transport: Transport, server: ssl.SSLContext) -> None:
    async with serving(answering(OK), tls=server) as served, transport:
        assert await fetch(transport, served.url) == (200, b"ok")


async def refused(transport: Transport, server: ssl.SSLContext) -> str:
    async with serving(answering(OK), tls=server) as served, transport:
        detail = await network_failure(transport, served.url)
        assert served.requests == []  # the key did not go there
        return detail


def test_an_authority_of_our_own(certificates: Certificates) -> None:
    run(reached(Transport(ca_file=str(certificates.authority)), certificates.good))


@pytest.mark.parametrize(
    ("variable", "place"),
    [("SSL_CERT_FILE", "authority"), ("SSL_CERT_DIR", "hashed"), ("NODE_EXTRA_CA_CERTS", "authority")],
)
def test_the_environment_names_it(
    variable: str, place: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert UNKNOWN in run(refused(Transport(), certificates.good))
    monkeypatch.setenv(variable, str(getattr(certificates, place)))
    run(reached(Transport(), certificates.good))


def test_a_setting_wins_over_the_environment(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names an authority trusts that one and no other."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    other = certificates.authority.with_name("alone.pem")
    assert UNKNOWN in run(refused(Transport(ca_file=str(other)), certificates.good))


def test_a_file_in_the_environment_replaces_the_system_and_extra_adds(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = certificates.authority.with_name("alone.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    assert UNKNOWN in run(refused(Transport(), certificates.good))
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(certificates.authority))
    run(reached(Transport(), certificates.good))


def test_another_host_is_refused(certificates: Certificates) -> None:
    detail = run(refused(Transport(ca_file=str(certificates.authority)), certificates.other_host))
    assert detail == (
        "the certificate of '127.0.0.1' is not accepted: IP address mismatch, certificate is not valid for "
        "'127.0.0.1'. Check the address"
    )


def test_a_certificate_that_nobody_signed_is_refused(certificates: Certificates) -> None:
    detail = run(refused(Transport(ca_file=str(certificates.authority)), certificates.self_signed))
    assert detail == (
        "the certificate of '127.0.0.1' is not accepted: self-signed certificate. "
        "If your company's own authority signs it, set SSL_CERT_FILE to that authority's file"
    )


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("SSL_CERT_FILE", "missing.pem", "No such file"),
        ("SSL_CERT_FILE", "empty.pem", "no certificates"),
        ("NODE_EXTRA_CA_CERTS", "missing.pem", "No such file"),
        ("SSL_CERT_DIR", "missing", "is not a directory"),
    ],
)
def test_a_store_that_cannot_be_read(
    variable: str, value: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: Certificates
) -> None:
    (tmp_path / "empty.pem").write_text("nothing\n")
    monkeypatch.setenv(variable, str(tmp_path / value))

    async def main() -> None:
        async with serving(answering(OK), tls=certificates.good) as served, Transport() as transport:
            with pytest.raises(UsageError, match=says) as caught:
                await fetch(transport, served.url)
            assert str(caught.value).startswith(f"'{variable}' names '{tmp_path / value}'")

    run(main())


def test_a_hashed_directory_of_the_system_is_used(certificates: Certificates, tmp_path: Path) -> None:
    places = (str(tmp_path / "missing"), str(tmp_path), str(certificates.hashed))
    assert connect.hashed_directory(places) == str(certificates.hashed)

    async def main() -> None:
        context = await connect.get_ssl_context(connect.TrustedCertificates(system=places))
        assert context.cert_store_stats()["x509"] == 0  # nothing is read before it is needed
        async with serving(answering(OK), tls=certificates.good) as served:
            _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=context)
            writer.transport.abort()
            _, writer = await asyncio.open_connection("localhost", served.port, ssl=context)
            writer.transport.abort()
        async with serving(answering(OK), tls=certificates.self_signed) as served:
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.open_connection("127.0.0.1", served.port, ssl=context)

    run(main())


@pytest.mark.parametrize("system", [(), connect.HASHED])
def test_every_context_checks_certificate_and_host(system: tuple[str, ...]) -> None:
    context = run(connect.get_ssl_context(connect.TrustedCertificates(system=system)))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_connections_are_kept_and_say_what_they_speak(certificates: Certificates) -> None:
    spoken: list[str | None] = []

    async def handle(peer: Peer) -> None:
        spoken.append(peer.writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await answering(OK)(peer)

    async def main() -> None:
        certificates.good.set_alpn_protocols(["h2", "http/1.1"])
        async with (
            serving(handle, tls=certificates.good) as served,
            Transport(ca_file=str(certificates.authority)) as transport,
        ):
            for _ in range(3):
                assert await fetch(transport, served.url) == (200, b"ok")
            assert (served.connections, len(served.requests)) == (1, 3)

    run(main())
    assert spoken == ["http/1.1"]


def test_many_first_requests_at_once(certificates: Certificates) -> None:
    async def main() -> None:
        async with (
            serving(answering(OK), tls=certificates.good) as served,
            Transport(ca_file=str(certificates.authority), deadlines=Deadlines(60, 60, 60)) as transport,
        ):
            got = await asyncio.gather(*[fetch(transport, served.url) for _ in range(50)])
            assert got == [(200, b"ok")] * 50

    run(main())


def test_large_bodies_both_ways(certificates: Certificates) -> None:
    size = 5 * 1024 * 1024

    async def handle(peer: Peer) -> None:
        got = await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size, got.body)
        await peer.closed()

    async def main() -> None:
        body = bytes(range(256)) * (size // 256)
        async with (
            serving(handle, tls=certificates.good) as served,
            Transport(ca_file=str(certificates.authority), deadlines=QUICK) as transport,
        ):
            assert await fetch(transport, served.url, body) == (200, body)

    run(main())


@pytest.mark.parametrize("cut", [0, 10, -1])
def test_an_answer_cut_short_is_a_failure(cut: int, certificates: Certificates) -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK[:cut])

    async def main() -> None:
        async with (
            serving(handle, tls=certificates.good) as served,
            Transport(ca_file=str(certificates.authority)) as transport,
        ):
            assert "closed the connection" in await network_failure(transport, served.url)

    run(main())


def test_a_server_that_does_not_speak_tls() -> None:
    async def handle(peer: Peer) -> None:
        await peer.reader.read(1)
        await peer.send(b"HTTP/1.1 400 Bad\r\n\r\n")

    async def main() -> None:
        async with serving(handle) as served, Transport() as transport:
            served.scheme = "https"
            detail = await network_failure(transport, served.url)
            assert detail == "'127.0.0.1' does not use TLS at this port: try 'http://' instead of 'https://'"

    run(main())


def test_a_server_that_hangs_up_in_the_handshake() -> None:
    async def handle(peer: Peer) -> None:
        await peer.reader.read(1)

    async def main() -> None:
        async with serving(handle) as served, Transport() as transport:
            served.scheme = "https"
            detail = await network_failure(transport, served.url)
            assert detail == f"TLS with '127.0.0.1:{served.port}': the other side closed the connection"

    run(main())


def test_a_handshake_that_takes_too_long() -> None:
    async def handle(peer: Peer) -> None:
        await peer.closed()

    async def main() -> None:
        async with serving(handle) as served, Transport(deadlines=Deadlines(0.2, 5, 5)) as transport:
            served.scheme = "https"
            detail = await network_failure(transport, served.url)
            assert detail == f"TLS with '127.0.0.1:{served.port}': timed out after 0.2 seconds"
            await served.peers[0].over.wait()

    run(main())


def test_a_certificate_that_is_not_accepted_is_not_tried_again(certificates: Certificates) -> None:
    """The next try would end the same way, and the one after it."""

    async def main() -> bool:
        authority = str(certificates.authority)
        async with (
            serving(answering(OK), tls=certificates.self_signed) as served,
            Transport(ca_file=authority) as client,
        ):
            with pytest.raises(RequestRefusedError) as caught:
                await fetch(client, served.url)
        return caught.value.final

    assert run(main())
