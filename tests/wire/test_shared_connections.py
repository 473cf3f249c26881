"""Connections that sessions of one process take over from each other, and the borders that none crosses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from mainspring.providers.http.client import Transport
from mainspring.providers.http.proxy import ProxySettings
from wire.servers import NO_PROXIES, OK, QUICK, answering, run, serving

OURS: Mapping[str, str] = {"x-api-key": "ours", "content-type": "application/json"}


def quick(**more: object) -> Transport:
    given: dict[str, object] = {"deadlines": QUICK, "proxies": NO_PROXIES, "environ": {}, **more}
    return Transport(**given)  # type: ignore[arg-type]  # by name


async def ask(transport: Transport, url: str, headers: Mapping[str, str] = OURS) -> None:
    async with transport.post(url, headers, b"{}") as response:
        assert (response.status, await response.read(100)) == (200, b"ok")


def test_sessions_with_one_key_share_what_is_idle() -> None:
    async def main() -> None:
        async with serving(answering(OK)) as served, quick() as first, quick() as second:
            for transport in (first, second, first, second, second):
                await ask(transport, served.url)
            assert served.connections == 1
            await asyncio.gather(ask(first, served.url), ask(second, served.url))
            assert served.connections == 2

    run(main())


def test_a_session_that_ends_leaves_its_connections_to_one_that_goes_on() -> None:
    async def main() -> None:
        async with serving(answering(OK)) as served, quick() as lasting:
            await ask(lasting, served.url)
            for _ in range(3):
                async with quick() as short:
                    await asyncio.gather(ask(short, served.url), ask(lasting, served.url))
            assert served.connections == 2
            assert len(lasting._idle) == len(lasting._open) == 2
        assert (lasting._idle, lasting._open) == ({}, set())

    run(main())


@pytest.mark.parametrize(
    "headers",
    [{**OURS, "x-api-key": "theirs"}, {"content-type": "application/json"}, {**OURS, "anthropic-beta": "more"}],
    ids=["another key", "no key", "other settings"],
)
def test_nothing_crosses_from_one_tenant_to_another(headers: Mapping[str, str]) -> None:
    async def main() -> None:
        async with serving(answering(OK)) as served, quick() as mine, quick() as theirs:
            await ask(mine, served.url)
            await ask(theirs, served.url, headers)
            await ask(mine, served.url)
            await ask(theirs, served.url, headers)
            assert served.connections == 2
            await mine.close()
            await ask(theirs, served.url, headers)
            assert len(theirs._open) == 1  # and inherited none

    run(main())


def test_providers_with_two_keys_on_one_transport_share_nothing() -> None:
    """But other settings do not matter within a session, nor does the signature of a request."""
    signed = {"authorization": "AWS4-HMAC-SHA256 Credential=AKID/20261119/us-east-1, Signature=1"}

    async def main() -> None:
        async with serving(answering(OK)) as served, quick() as transport:
            for headers in (OURS, {**OURS, "anthropic-beta": "more"}, {**OURS, "x-api-key": "theirs"}, OURS):
                await ask(transport, served.url, headers)
            assert served.connections == 2
            for number in (1, 2):
                await ask(transport, served.url, {"authorization": signed["authorization"].replace("=1", f"={number}")})
            assert served.connections == 3
            await ask(transport, served.url, {"authorization": signed["authorization"].replace("AKID", "OTHER")})
            assert served.connections == 4

    run(main())


def test_other_certificates_and_other_proxies_are_borders(tmp_path: object) -> None:
    async def main() -> None:
        async with (
            serving(answering(OK)) as served,
            serving(answering(OK)) as proxy,
            quick() as plain,
            quick(ca_file=f"{tmp_path}/certificates.pem") as trusting,
            quick(proxies=ProxySettings({"http": ("http_proxy", f"http://127.0.0.1:{proxy.port}")})) as indirect,
        ):
            for transport in (plain, trusting, indirect):
                await ask(transport, served.url)
            assert (served.connections, proxy.connections) == (2, 1)

    run(main())


def test_loops_share_nothing() -> None:
    lasting = quick()

    async def main() -> None:
        async with serving(answering(OK)) as served, quick() as short:
            await ask(lasting, served.url)
            await ask(short, served.url)
            assert served.connections == 1
            await lasting.close()

    run(main())
