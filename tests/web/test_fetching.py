"""Fetching over real sockets: what is connected to, what is refused, and every limit (security N1, N3).

Servers stand on loopback behind public addresses (`net.py`). A test that must not reach one counts its connections.
"""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import socket
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tiers import examples
from wire.servers import Handler, Peer, Served, answering, clear, descriptors, run, serving, until

from mainspring.core.errors import ToolError
from mainspring.providers.http.proxy import ProxySettings
from mainspring.web.fetch import LIMITS, MOST_REDIRECTS, STEP, BodyDecoder, FetchedPage, FetchLimits, WebFetcher
from web.net import OTHER_PUBLIC, PUBLIC, Net, Paper, fetcher, make_paper, moved, nowhere, page
from web.test_addresses import NOT_PUBLIC

HELLO = page(b"hello")


@pytest.fixture(autouse=True)
def _clear(monkeypatch: pytest.MonkeyPatch) -> None:
    clear(monkeypatch)


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Paper:
    return make_paper(tmp_path_factory.mktemp("paper"))


class Seen:
    """One fetch, and what the world saw of it."""

    def __init__(self, fetched: FetchedPage | None, refused: str, net: Net, served: Served) -> None:
        self._fetched, self._refused = fetched, refused
        self.net, self.served = net, served

    @property
    def fetched(self) -> FetchedPage:
        assert self._fetched is not None, self._refused
        return self._fetched

    @property
    def refused(self) -> str:
        assert self._fetched is None
        return self._refused

    @property
    def lines(self) -> list[str]:
        return [request.line for request in self.served.requests]


def visit(
    url: str,
    handler: Handler,
    paper: Paper | None,
    *,
    limits: FetchLimits = LIMITS,
    known: tuple[str, ...] = (),
    near: Callable[[str], bool] = nowhere,
    **names: list[list[str]] | list[str] | str,
) -> Seen:
    """Without paper the server speaks no TLS. `{port}` in the address is the server's."""

    async def main() -> Seen:
        async with serving(handler, tls=paper.server if paper else None) as served:
            net = Net(served.port, **{"site_test": PUBLIC, "other_test": OTHER_PUBLIC, **names})
            try:
                got = await fetcher(net, paper, limits, known).fetch(url.replace("{port}", str(served.port)), near)
            except ToolError as error:
                return Seen(None, str(error), net, served)
            return Seen(got, "", net, served)

    return run(main())


# --- where it goes --------------------------------------------------------------------------------------------------


def test_a_page(paper: Paper) -> None:
    seen = visit("https://site.test/a?b#c", answering(HELLO), paper)
    assert seen.fetched == FetchedPage("https://site.test/a?b", 200, "text/plain", b"hello")
    assert (seen.net.asked, seen.net.connected) == (["site.test"], [PUBLIC])


def test_nothing_of_ours_is_sent(paper: Paper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine site.test login me password secret")
    monkeypatch.setenv("HOME", str(tmp_path))
    once = page(b"", "location: /again", "set-cookie: a=b", status="302 Found")
    seen = visit("https://site.test/", answering(once, HELLO), paper)
    assert seen.lines == ["GET / HTTP/1.1", "GET /again HTTP/1.1"]
    names = {"host", "user-agent", "accept", "accept-encoding", "connection"}
    assert [set(request.headers) for request in seen.served.requests] == [names, names]
    assert {request.headers["host"] for request in seen.served.requests} == {"site.test"}


def test_http_becomes_https(paper: Paper) -> None:
    seen = visit("http://site.test/", answering(HELLO), paper)
    assert seen.fetched.url == "https://site.test/"


def test_a_name_that_leads_near_is_refused() -> None:
    async def main() -> int:
        async with serving(answering(HELLO)) as served:
            for address in NOT_PUBLIC.split():
                net = Net(served.port, site_test=address)
                with pytest.raises(ToolError, match=r"the rule 'WebFetch\(domain:site\.test\)' would allow it"):
                    await fetcher(net).fetch("http://site.test/", nowhere)
                assert net.connected == []
            return served.connections

    assert run(main()) == 0


def test_one_address_of_several_is_enough_to_refuse() -> None:
    seen = visit("http://site.test/", answering(HELLO), None, site_test=[[PUBLIC, "127.0.0.1"]])
    assert "leads to '127.0.0.1'" in seen.refused
    assert seen.served.connections == 0


def numbers(value: int) -> list[str]:
    """How a number can be written so that some resolver takes it."""
    a, b, c, d = value.to_bytes(4)
    return [
        f"{value}",
        f"0x{value:x}",
        f"0{value:o}",
        f"{a}.{value & 0xFFFFFF}",
        f"{a}.{b}.{value & 0xFFFF}",
        f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a}.{b}.{c}.0x{d:x}",
        f"{a:03}.{b:03}.{c:03}.{d:03}",
        f"{a}.{b}.{c}.{d}",
        f"{a}.{b}.{c}.{d}.",
        f"[::ffff:{a}.{b}.{c}.{d}]",
        f"[::ffff:{a:x}{b:02x}:{c:x}{d:02x}]",
        f"[64:ff9b::{a:x}{b:02x}:{c:x}{d:02x}]",
        f"[2002:{a:x}{b:02x}:{c:x}{d:02x}::]",
        f"[::{a}.{b}.{c}.{d}]",
    ]


near_numbers = st.sampled_from(
    ["127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "0.0.0.0/8"]
).flatmap(lambda network: st.ip_addresses(v=4, network=network))


@given(near_numbers, st.integers(0, 15), st.sampled_from(["http", "HTTPS"]), st.sampled_from(["", ":80", ":6379"]))
def test_a_number_that_is_near_is_refused_however_it_is_written(
    number: ipaddress.IPv4Address, form: int, scheme: str, port: str
) -> None:
    net = Net(1)
    net.names = {}

    async def main() -> None:
        made = WebFetcher(proxies=ProxySettings({}), connect=net.connect)  # with the system's own resolver
        with pytest.raises(ToolError, match=r"^Not fetched: "):
            await made.fetch(f"{scheme}://{numbers(int(number))[form]}{port}/", nowhere)

    asyncio.run(main())
    assert net.connected == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "127.0.0.1", "[::1]", "0.0.0.0", "[::]", "ip6-localhost"])
def test_this_machine_by_its_own_names(host: str) -> None:
    """The system's resolver, and a real server that must not be reached."""

    async def main() -> tuple[str, int]:
        async with serving(answering(HELLO)) as served:
            with pytest.raises(ToolError) as caught:
                await WebFetcher(proxies=ProxySettings({})).fetch(f"http://{host}:{served.port}/", nowhere)
            return str(caught.value), served.connections

    said, connections = run(main())
    assert "not on the public internet" in said or "the name is not known" in said
    assert connections == 0


def test_what_is_checked_is_what_is_connected_to(paper: Paper) -> None:
    """Rebinding: the name leads elsewhere as soon as it was asked. It is asked once, and its first answer counts."""
    seen = visit("https://site.test/", answering(HELLO), paper, site_test=[[PUBLIC], ["127.0.0.1"]])
    assert seen.fetched.body == b"hello"
    assert (seen.net.asked, seen.net.connected) == (["site.test"], [PUBLIC])


def test_rebinding_between_redirects_is_seen(paper: Paper) -> None:
    """Each redirect is checked like a first address."""
    names = [[PUBLIC], ["127.0.0.1"]]
    seen = visit("https://site.test/", answering(moved("/next"), HELLO), paper, site_test=names)
    assert "leads to '127.0.0.1'" in seen.refused
    assert (seen.net.connected, seen.lines) == ([PUBLIC], ["GET / HTTP/1.1"])


def test_a_rule_that_names_the_host_lets_it_be_near() -> None:
    """And then http stays http: a server on one's own machine has no certificate."""
    seen = visit(
        "http://near.test:{port}/", answering(HELLO), None, near=lambda host: host == "near.test", near_test="127.0.0.1"
    )
    assert seen.fetched.body == b"hello"
    assert seen.net.connected == ["127.0.0.1"]
    seen = visit(
        "http://site.test/", answering(HELLO), None, near=lambda host: host == "near.test", site_test="10.0.0.1"
    )
    assert seen.served.connections == 0


def test_the_certificate_must_be_for_the_name(paper: Paper) -> None:
    seen = visit("https://wrong.test/", answering(HELLO), paper, wrong_test=PUBLIC)
    assert "the certificate of 'wrong.test' is not accepted" in seen.refused
    assert seen.served.requests == []


def test_a_name_that_nobody_knows() -> None:
    seen = visit("https://nobody.test/", answering(HELLO), None)
    assert seen.refused.startswith("'https://nobody.test/' could not be fetched: the name is not known")


def test_keys_are_in_no_address(paper: Paper) -> None:
    key = "sk-very/secret+key"
    for url in (f"https://site.test/?k={key}", "https://site.test/?k=sk-very%2Fsecret%2Bkey"):
        seen = visit(url, answering(HELLO), paper, known=(key, ""))
        assert seen.refused.startswith("Not fetched: the address contains a key.")
        assert (seen.net.asked, seen.served.connections) == ([], 0)
        assert key not in seen.refused


# --- redirects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Again", "308 For Good"])
@pytest.mark.parametrize("headers", [(), ("location:",), ("location:   ",)])
def test_without_a_location_it_is_an_error(status: str, headers: tuple[str, ...], paper: Paper) -> None:
    answer = page(b"<p>This is no page.</p>", *headers, status=status)
    seen = visit("https://site.test/a", answering(answer), paper)
    assert f"answered {status[:3]}: the page was moved, and the answer does not say where to" in seen.refused


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_to_the_same_host_it_is_followed(status: str, paper: Paper) -> None:
    seen = visit("https://site.test/a", answering(moved("http://SITE.test./b", status), HELLO), paper)
    assert (seen.fetched.url, seen.fetched.body) == ("https://site.test/b", b"hello")
    assert seen.net.asked == ["site.test", "site.test"]


@pytest.mark.parametrize(
    "location", ["https://other.test/x", "//other.test/x", "http://sub.site.test/", "https://127.0.0.1/", "//[::1]/"]
)
def test_to_another_host_it_is_told(location: str, paper: Paper) -> None:
    seen = visit("https://site.test/a", answering(moved(location), HELLO), paper)
    assert seen.fetched.status == 302
    assert seen.fetched.moved.partition("//")[2].rstrip("/x") == location.partition("//")[2].rstrip("/x")
    assert (seen.net.asked, seen.lines) == (["site.test"], ["GET /a HTTP/1.1"])


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "https://site.test@other.test/", "http://0x7f.1/", "\\\\x\\y"]
)
def test_to_what_is_no_page_it_is_refused(location: str, paper: Paper) -> None:
    seen = visit("https://site.test/a", answering(moved(location), HELLO), paper)
    assert seen.refused.startswith("Not fetched: ")
    assert len(seen.lines) == 1


def test_round_in_circles_it_ends(paper: Paper) -> None:
    seen = visit("https://site.test/", answering(moved("/")), paper)
    assert seen.refused.startswith("The page redirects more than 10 times")
    assert len(seen.lines) == MOST_REDIRECTS + 1


# --- limits ---------------------------------------------------------------------------------------------------------

SMALL = replace(LIMITS, sent=100_000, expanded=200_000)


def packed(body: bytes) -> bytes:
    return page(gzip.compress(body), "content-encoding: gzip")


def test_a_packed_page(paper: Paper) -> None:
    assert visit("https://site.test/", answering(packed(b"hello" * 9_999)), paper).fetched.body == b"hello" * 9_999


BODIES: dict[str, tuple[bytes, str]] = {
    "huge": (page(b"x" * 100_001), "sent more than 100,000 bytes"),
    "bomb": (packed(bytes(200_001)), "has more than 200,000 bytes"),
    "large bomb": (packed(bytes(50_000_000)), "has more than 200,000 bytes"),
    "nested": (page(gzip.compress(gzip.compress(b"x")), "content-encoding: gzip, gzip"), "compressed as 'gzip, gzip'"),
    "twice": (page(b"x", "content-encoding: gzip", "content-encoding: br"), "compressed as 'gzip, br'"),
    "brotli": (page(b"x", "content-encoding: br"), "compressed as 'br'"),
    "deflate": (page(zlib.compress(b"x"), "content-encoding: deflate"), "compressed as 'deflate'"),
    "broken": (page(b"\x1f\x8b\x08nonsense", "content-encoding: gzip"), "but damaged"),
    "cut": (page(gzip.compress(b"hello" * 99)[:-9], "content-encoding: gzip"), "but incomplete"),
    "more behind it": (page(gzip.compress(b"a") + gzip.compress(b"b"), "content-encoding: gzip"), "follows its end"),
    "one long header": (page(b"x", "a: " + "b" * 20_000), "in one header"),
    "many headers": (page(b"x", *[f"a{n}: {'b' * 100}" for n in range(1_000)]), "in headers"),
    "endless chunks": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"2710\r\n" + bytes(10_000) + b"\r\n"
        + (b"2710\r\n" + bytes(10_000) + b"\r\n") * 20, "sent more than 100,000 bytes",
    ),
    "packed transfer": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "has a transfer encoding",
    ),
    "no HTTP": (b"hello\r\n\r\n", "invalid HTTP/1.1 response"),
    "cut short": (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", "in the middle of its answer"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_that_are_refused(kind: str, paper: Paper) -> None:
    answer, said = BODIES[kind]

    async def once(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer)

    before = descriptors()
    assert said in visit("https://site.test/", once, paper, limits=SMALL).refused
    assert descriptors() == before


def test_a_bomb_takes_no_memory(paper: Paper) -> None:
    """50 KB that would expand to 50 MB."""
    bomb = packed(bytes(50_000_000))
    assert len(bomb) < 60_000
    tracemalloc.start()
    try:
        seen = visit("https://site.test/", answering(bomb), paper, limits=replace(SMALL, expanded=1_000_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "has more than 1,000,000 bytes" in seen.refused
    assert peak < 8_000_000


def test_others_have_their_turn_while_a_little_becomes_much(paper: Paper) -> None:
    """The whole of it comes in one read, and takes 200 steps: between any two of them the loop goes round."""
    size = 200 * STEP
    rounds = 0

    async def main() -> None:
        nonlocal rounds
        expanding = BodyDecoder({"content-encoding": "gzip"}, size)
        assert len(list(expanding.feed(gzip.compress(bytes(size))))) >= 200
        async with serving(answering(packed(bytes(size))), tls=paper.server) as served:
            net = Net(served.port, site_test=PUBLIC)
            made = fetcher(net, paper, replace(LIMITS, expanded=size))
            task = asyncio.create_task(made.fetch("https://site.test/", nowhere))
            while not task.done():
                rounds += 1
                await asyncio.sleep(0)
            assert len((await task).body) == size

    run(main())
    assert rounds >= 200


def test_a_slow_body_ends_with_the_whole_time(paper: Paper) -> None:
    """It never pauses for long, so only the limit for all of it ends it; the server sees the close."""

    async def drip(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while True:
            await peer.send(b"x", pause=0.01)

    began = time.monotonic()
    seen = visit("https://site.test/", drip, paper, limits=replace(LIMITS, whole=0.5))
    assert seen.refused == "'https://site.test/' did not arrive within 0.5 seconds."
    assert 0.5 <= time.monotonic() - began < 60  # all of it would take 1,000


@pytest.mark.parametrize(("sent", "said"), [(b"", "no answer within 0.2"), (HELLO[:-2], "silent for 0.2")])
def test_a_server_that_falls_silent(sent: bytes, said: str, paper: Paper) -> None:
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.send(sent)
        await peer.closed()

    assert said in visit("https://site.test/", silent, paper, limits=FetchLimits(first_byte=0.2, idle=0.2)).refused


def test_a_name_server_that_does_not_answer() -> None:
    async def never(_host: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    async def main() -> str:
        with pytest.raises(ToolError) as caught:
            await WebFetcher(limits=FetchLimits(connect=0.1), proxies=ProxySettings({}), resolve=never).fetch(
                "https://a.test/", nowhere
            )
        return str(caught.value)

    assert run(main()) == "Not fetched: the name 'a.test' was not found in 0.1 seconds."


def test_a_cancelled_fetch_closes_its_socket(paper: Paper) -> None:
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.closed()

    async def main() -> None:
        async with serving(silent, tls=paper.server) as served:
            net = Net(served.port, site_test=PUBLIC)
            task = asyncio.create_task(fetcher(net, paper).fetch("https://site.test/", nowhere))
            await until(lambda: len(served.requests) == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await served.peers[0].over.wait()  # the server saw the close

    run(main())


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])  # each is a server
@given(st.binary(max_size=3_000), st.lists(st.integers(1, 400), max_size=20), st.booleans())
def test_however_it_is_cut_it_is_the_same(body: bytes, cuts: list[int], squeeze: bool) -> None:
    answer = packed(body) if squeeze else page(body)
    pieces: list[bytes] = []
    for cut in cuts:
        pieces.append(answer[:cut])
        answer = answer[cut:]

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(*[piece for piece in (*pieces, answer) if piece])

    seen = visit("http://near.test/", handle, None, near=lambda _: True, near_test="127.0.0.1")
    assert seen.fetched.body == body


# --- through the user's proxy ---------------------------------------------------------------------------------------


def test_a_proxy_is_told_the_address_that_was_checked(paper: Paper) -> None:
    """It could resolve the name to something else. Near hosts are not asked of it."""
    asked: list[str] = []

    async def main() -> tuple[FetchedPage, FetchedPage]:
        async with serving(answering(HELLO), tls=paper.server) as far, serving(answering(HELLO)) as close:

            async def relay(peer: Peer) -> None:
                asked.append((await peer.request()).line)
                reader, writer = await asyncio.open_connection("127.0.0.1", far.port)
                await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")

                async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                    while data := await source.read(65_536):
                        target.write(data)

                try:
                    await asyncio.gather(pump(peer.reader, writer), pump(reader, peer.writer))
                finally:
                    writer.transport.abort()

            async with serving(relay) as proxy:
                net = Net(close.port, site_test=PUBLIC, near_test="127.0.0.1")
                by = (f"http://127.0.0.1:{proxy.port}",)
                proxies = ProxySettings({"https": ("https_proxy", *by), "http": ("http_proxy", *by)})
                made = WebFetcher(
                    proxies=proxies, ca_file=str(paper.authority), resolve=net.resolve, connect=net.connect
                )
                first = await made.fetch("https://site.test/x", nowhere)
                return first, await made.fetch("http://near.test/", lambda _: True)

    first, second = run(main())
    assert (first.body, second.body) == (b"hello", b"hello")
    assert asked == [f"CONNECT {PUBLIC}:443 HTTP/1.1"]


def test_sockets_of_version_6_are_asked_for_as_such() -> None:
    found: list[object] = []

    async def connect(addresses: object) -> socket.socket:
        found.append(addresses)
        raise ConnectionRefusedError

    async def main() -> str:
        net = Net(1, site_test=[[OTHER_PUBLIC, PUBLIC]])
        made = WebFetcher(proxies=ProxySettings({}), resolve=net.resolve, connect=connect)
        with pytest.raises(ToolError) as caught:
            await made.fetch("https://site.test:8443/", nowhere)
        return str(caught.value)

    assert "connecting to 'site.test:8443': refused" in run(main())
    assert found == [
        [(socket.AF_INET6, (OTHER_PUBLIC, 8443, 0, 0)), (socket.AF_INET, (PUBLIC, 8443))],
    ]
