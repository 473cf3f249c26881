"""The transport against real sockets: what is sent, what is read, what is kept, what is cut, what is late."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from mainspring.core.errors import ProviderError, UsageError
from mainspring.core.reasons import Failure, Trouble
from mainspring.providers.http.client import LOCAL, REMOTE, Deadlines, Transport, deadlines_for
from mainspring.providers.http.connect import first_to_answer
from mainspring.providers.http.connection import BATCH, LIMITS, UNREAD, HttpResponse, ResponseLimits, UnsentRequest
from mainspring.providers.http.proxy import HttpOrigin, split_url
from wire.servers import (
    AT_ONCE,
    OK,
    QUICK,
    Listener,
    Peer,
    answering,
    clear,
    descriptors,
    failure_of,
    fetch,
    network_failure,
    quickest,
    read_request,
    run,
    serving,
    until,
)


@pytest.fixture(autouse=True)
def _clear(monkeypatch: pytest.MonkeyPatch) -> None:
    clear(monkeypatch)


def quick(**changes: object) -> Transport:
    return Transport(**{"deadlines": QUICK, **changes})  # type: ignore[arg-type]  # each test names what it changes


# --- requests ---------------------------------------------------------------------------------------


def test_what_the_server_reads() -> None:
    async def main() -> None:
        async with serving(answering(OK)) as served, quick() as transport:
            headers = {"x-api-key": "sk-1", "content-type": "application/json"}
            async with transport.post(f"{served.url}?beta=true", headers, [b'{"a":', b"1}"]) as response:
                assert (response.status, await response.read()) == (200, b"ok")
            (got,) = served.requests
            assert got.line == "POST /v1/messages?beta=true HTTP/1.1"
            assert got.headers == {
                "host": f"127.0.0.1:{served.port}",
                "content-length": "7",
                "accept-encoding": "identity",
                "x-api-key": "sk-1",
                "content-type": "application/json",
            }
            assert got.body == b'{"a":1}'

    run(main())


@settings(max_examples=examples(50))
@given(
    st.lists(st.sampled_from([0, 1, 999, 70_000, 300_000]), max_size=4),
    st.integers(0, 2_000),
    st.lists(st.sampled_from([1, 1_000, 100_000, 400_000])),
)
def test_a_request_is_sent_once_and_in_order(sizes: list[int], tiny: int, batches: list[int]) -> None:
    """By turns what the kernel takes at once, and a batch."""
    pieces = [bytes([n % 251]) * size for n, size in enumerate([*sizes, *(tiny * [3]), *sizes])]
    whole, got = b"".join(pieces), bytearray()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        unsent = UnsentRequest(pieces, len(whole))
        for most in [*batches, *(len(whole) // BATCH + 1) * [BATCH]]:
            with suppress(BlockingIOError):
                unsent.write(ours.fileno())
            with suppress(BlockingIOError):
                while some := theirs.recv(1 << 20):
                    got += some
            assert len(got) + unsent.left == len(whole)
            batch = unsent.batch(most)
            assert len(batch) == min(most, len(whole) - len(got))
            got += batch
    assert (unsent.left, bytes(got)) == (0, whole)


@pytest.mark.parametrize("size", [3, 32])
def test_a_long_request_is_never_in_memory_as_a_whole(size: int) -> None:
    pieces = [b"%07d\n" % n * 500 for n in range(250 * size)]  # megabytes
    sent, got = crc32(b"".join(pieces)), 0

    async def handle(peer: Peer) -> None:
        nonlocal got
        left = int((await peer.reader.readuntil(b"\r\n\r\n")).split(b"content-length: ")[1].split(b"\r\n")[0])
        while left:
            some = await peer.reader.read(min(left, 65_536))
            left, got = left - len(some), crc32(some, got)
        await peer.send(OK)

    async def main() -> int:
        async with serving(handle) as served, quick() as transport:
            tracemalloc.start()
            try:
                async with transport.post(served.url, {}, pieces) as response:
                    assert response.status == 200
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    assert run(main()) < 1_000_000
    assert got == sent


def test_a_server_that_goes_away_in_the_middle_of_a_request() -> None:
    async def handle(peer: Peer) -> None:
        await peer.reader.readexactly(100_000)
        peer.writer.transport.abort()

    async def main() -> Failure:
        async with serving(handle) as served, quick() as transport:
            with pytest.raises(ProviderError) as caught:
                await fetch(transport, served.url, b"x" * 30_000_000)
            return caught.value.failure

    failure = run(main())
    assert failure.kind is Trouble.NETWORK
    assert failure.detail.endswith(" the connection"), failure.detail


def test_a_host_of_version_6() -> None:
    async def main() -> None:
        async with serving(answering(OK), host="::1") as served, quick() as transport:
            assert await fetch(transport, f"http://[::1]:{served.port}/") == (200, b"ok")
            assert served.requests[0].headers["host"] == f"[::1]:{served.port}"

    run(main())


def test_a_name_is_looked_up() -> None:
    async def main() -> None:
        async with serving(answering(OK), host="localhost") as served, quick() as transport:
            assert await fetch(transport, f"http://localhost:{served.port}/") == (200, b"ok")

    run(main())


ADDRESSES = {
    "https://api.example.com/v1": (HttpOrigin("https", "api.example.com", 443), "/v1"),
    "https://api.example.com": (HttpOrigin("https", "api.example.com", 443), "/"),
    "HTTPS://API.Example.Com:8443/": (HttpOrigin("https", "api.example.com", 8443), "/"),
    "http://localhost:11434/v1?a=b&c=%20": (HttpOrigin("http", "localhost", 11434), "/v1?a=b&c=%20"),
    "http://[::1]:80/x": (HttpOrigin("http", "::1", 80), "/x"),
    "http://[FE80::1]/": (HttpOrigin("http", "fe80::1", 80), "/"),
    "http://host.example./": (HttpOrigin("http", "host.example.", 80), "/"),
    "http://my_host-1/": (HttpOrigin("http", "my_host-1", 80), "/"),
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_addresses(url: str) -> None:
    assert split_url(url) == ADDRESSES[url]


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "localhost",
            "//host/",
            "ftp://host/",
            "http:/host/",
            "http:///path",
            "http://",
            "http://.",
            "https:host",
        ),
        *("http://user@host/", "http://user:sesame@host/", "http://a@b@host/", "http://host\\@evil/"),
        *(
            "http://host:/",
            "http://host:0/",
            "http://host:65536/",
            "http://host:080808/",
            "http://host:8a/",
            "http://h:-1/",
        ),
        *(
            "http://ho st/",
            "http://host/a b",
            "http://host/\r\nx: y",
            "http://host\n/",
            "http://host/\x00",
            "http://host/\t",
        ),
        *(
            "http://[::1/",
            "http://::1/",
            "http://[::1]x/",
            "http://[127.0.0.1]/",
            "http://[::g]/",
            "http://[]/",
            "http://[::1]:/",
        ),
        *(
            "http://höst/",
            "http://host/ü",
            "http://host/#fragment",
            "http://host?query",
            "http://host/\\x",
            " http://host/",
        ),
        *(
            "http://a..b/",
            "http://.a/",
            f"http://{'x' * 64}/",
            "http://host%00/",
            "http://ho%73t/",
            "http://host,other/",
            "http://host:٣٤/",
        ),
    ],
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        quick().post(url, {}, b"")
    assert "sesame" not in str(caught.value)


def test_a_refused_address_does_not_show_its_query() -> None:
    with pytest.raises(UsageError, match="'http://ho st/v1' is not an address") as caught:
        split_url("http://ho st/v1?key=sesame")
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "value", ["sesame\n", "sesame\r\nx: y", "ses\0ame", "sesäme", "ses\tame", "sesame\x7f", "ses\u2028ame"]
)
def test_no_header_can_be_smuggled_in_by_a_value(value: str) -> None:
    with pytest.raises(UsageError, match="'x-api-key'") as caught:
        quick().post("http://127.0.0.1/", {"x-api-key": value}, b"")
    assert "ame" not in str(caught.value).replace("'x-api-key'", "")


@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", "a\r\nb", "ä", "Host", "content-length", "Transfer-Encoding", "connection"]
)
def test_no_header_can_be_smuggled_in_by_a_name(name: str) -> None:
    with pytest.raises(UsageError):
        quick().post("http://127.0.0.1/", {name: "1"}, b"")


@pytest.mark.parametrize(
    ("host", "deadlines"),
    [
        *(
            (host, LOCAL)
            for host in ("localhost", "127.0.0.1", "127.9.9.9", "[::1]", "10.0.0.7", "192.168.1.2", "172.31.0.1")
        ),
        *(
            (host, LOCAL)
            for host in ("ollama", "a.localhost", "mac.local", "host.docker.internal", "[fd00::1]", "100.64.0.9")
        ),
        *(
            (host, REMOTE)
            for host in ("api.anthropic.com", "8.8.8.8", "172.32.0.1", "[2001:db8::1]", "localhost.example.com")
        ),
        *((host, REMOTE) for host in ("127.0.0.1.example.com", "notlocal.com")),
    ],
)
def test_deadlines_are_longer_for_a_server_nearby(host: str, deadlines: Deadlines) -> None:
    assert deadlines_for(f"http://{host}:8080/v1") == deadlines


# --- answers ----------------------------------------------------------------------------------------

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    b"X-Two: a \r\nx-none:\r\nx-two: b\r\n\r\n"
    b"5;note=x\r\nhello\r\n8\r\n, world!\r\n0\r\nx-trailer: 1\r\n\r\n"
)
UNENDED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
MEASURED = b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\nhello, world!"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello, world!"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"


@pytest.mark.parametrize("answer", [CHUNKED, MEASURED, UNTIL_CLOSE, INTERIM + CHUNKED])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_bodies_however_they_come(answer: bytes, step: int) -> None:
    """One byte, seven bytes and all at once, each in a write of its own."""

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(*[answer[at : at + step] for at in range(0, len(answer), step)])

    async def main() -> None:
        async with serving(handle) as served, quick() as transport:
            assert await fetch(transport, served.url) == (200, b"hello, world!")

    run(main())


def test_headers_are_in_small_letters_and_joined() -> None:
    async def main() -> None:
        async with (
            serving(answering(INTERIM + CHUNKED)) as served,
            quick() as transport,
            transport.post(served.url, {}, b"") as response,
        ):
            assert dict(response.headers) == {
                "content-type": "text/event-stream",
                "transfer-encoding": "chunked",
                "x-two": "a, b",
                "x-none": "",
            }

    run(main())


def parse(*pieces: bytes) -> HttpResponse:
    answer = HttpResponse("host:80", LIMITS, lambda: None)
    for piece in pieces:
        answer.feed(piece)
    return answer


@given(st.sampled_from([CHUNKED, MEASURED, INTERIM + CHUNKED]), st.lists(st.integers(0, 400), max_size=12))
def test_any_cuts_give_the_same_answer(stream: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cut for cut in cuts if cut <= len(stream)), len(stream)]
    answer = parse(*[stream[a:b] for a, b in pairwise(places) if a < b])
    assert (answer.ended, answer.clean, answer.failure) == (True, True, None)
    assert (answer.status, answer.take()) == (200, b"hello, world!")
    assert answer.headers == parse(stream).headers
    assert (answer.body, answer.unread) == ([], 0)


@given(st.lists(st.binary(max_size=40), max_size=6), st.booleans())
def test_any_bytes_end_in_an_answer_or_a_failure(pieces: list[bytes], close: bool) -> None:
    """Nothing else comes out, whatever is sent: no exception of the parser."""
    answer = parse(*(piece for piece in [b"HTTP/1.1 200 OK\r\n", *pieces] if piece))
    if close:
        answer.end()
    assert answer.ended or answer.failure is not None or not close
    assert not (answer.ended and answer.failure)


@pytest.mark.parametrize("answer", [CHUNKED, MEASURED])
def test_an_answer_cut_at_any_byte_is_a_failure_never_an_end(answer: bytes) -> None:
    """Cut before every single byte, by an orderly close and by a reset."""
    places = iter([(cut, reset) for cut in range(len(answer)) for reset in (False, True)])

    async def handle(peer: Peer) -> None:
        await peer.request()
        cut, reset = next(places)
        await peer.send(answer[:cut])
        if reset:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def main() -> None:
        async with serving(handle) as served, quick() as transport:
            for _ in range(2 * len(answer)):
                detail = await network_failure(transport, served.url)
                assert detail.startswith(f"'127.0.0.1:{served.port}' ")
                assert "closed the connection" in detail or "reset" in detail
            assert served.connections == 2 * len(answer)

    run(main())


def test_what_came_before_the_cut_is_handed_on_first() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(MEASURED[:-3])

    async def main() -> None:
        got: list[bytes] = []
        async with serving(handle) as served, quick() as transport:
            with pytest.raises(ProviderError, match="in the middle of its answer"):
                async with transport.post(served.url, {}, b"") as response:
                    async for chunk in response:
                        got.append(chunk)
        assert b"".join(got) == b"hello, wor"

    run(main())


def test_one_chunk_for_one_read() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        await peer.send(b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n")
        await peer.reader.read()

    async def main() -> None:
        async with serving(handle) as served, quick() as transport, transport.post(served.url, {}, b"") as response:
            assert await anext(response) == b"abc"

    run(main())


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", Trouble.NETWORK, "invalid HTTP/1.1 response"),
        (b"\x15\x03\x01\x00\x02\x02\x46", Trouble.NETWORK, "invalid HTTP/1.1 response"),
        (b"HTTP/1.1 101 Go\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", Trouble.NETWORK, "invalid HTTP/1.1 response"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            Trouble.NETWORK,
            "invalid HTTP/1.1 response",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
            Trouble.NETWORK,
            "invalid HTTP/1.1 response",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n", Trouble.SERVER, "content-encoding 'gzip'"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", Trouble.SERVER, "'gzip, chunked'"),
    ],
)
def test_answers_that_are_not_taken(answer: bytes, kind: Trouble, says: str) -> None:
    async def main() -> None:
        async with serving(answering(answer)) as served, quick() as transport:
            failure = await failure_of(transport, served.url)
            assert failure.kind is kind
            assert says in failure.detail

    run(main())


REDIRECTS = {
    "https://evil.example:8443/take?key=1": "'https://evil.example:8443'",
    "/elsewhere?key=1": "another path of the same server",
    "//evil.example/": "an invalid address",
    "https://user:pass@evil.example/": "an invalid address",
    "": "nowhere (its 'location' header is missing or empty)",
}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", REDIRECTS)
def test_a_redirect_is_not_followed(status: int, location: str) -> None:
    async def main() -> None:
        async with serving(answering(OK)) as evil:
            there = location.replace("https://evil.example:8443", f"http://127.0.0.1:{evil.port}")
            place = REDIRECTS[location].replace("https://evil.example:8443", f"http://127.0.0.1:{evil.port}")
            answer = f"HTTP/1.1 {status} Go\r\nlocation: {there}\r\ncontent-length: 0\r\n\r\n".encode()
            async with serving(answering(answer)) as served, quick() as transport:
                failure = await failure_of(transport, served.url)
                assert failure == Failure(
                    Trouble.INVALID_REQUEST,
                    f"'127.0.0.1:{served.port}' answered {status}, a redirect to {place}. It is not followed, so that "
                    "your key goes nowhere else. If that is the right address, set it",
                    status,
                )
                assert (len(served.requests), evil.connections) == (1, 0)

    run(main())


# --- limits -----------------------------------------------------------------------------------------

SMALL = ResponseLimits(line=200, head=1_000, error=50, message=2_000)


@pytest.mark.parametrize(
    ("head", "piece", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nx: ", b"y", "1,000 bytes in headers"),
        (b"HTTP/1.1 200 ", b"OK", "1,000 bytes in headers"),
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", "1,000 bytes in headers"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 201 + b"\r\n", b"x: y\r\n", "200 bytes in one header"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: yyyyyyyyyyyyyy\r\n" * 100 + b"\r\n", b"", "1,000 bytes in headers"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: yyyyyyyyyyyyyy\r\n" * 100 + b"\r\nhello", b"", "1,000 bytes in headers"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "1,000 bytes in headers"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;", b"note", "1,000 bytes in headers"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ", b"y", "1,000 bytes in headers"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"5\r\nhello\r\n", "2,000 bytes in one answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"hello", "2,000 bytes in one answer"),
    ],
)
def test_a_server_that_sends_too_much(head: bytes, piece: bytes, says: str) -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(head)
        while piece:
            await peer.send(piece)

    async def main() -> None:
        async with serving(handle) as served, quick(limits=SMALL) as transport:
            failure = await failure_of(transport, served.url)
            assert failure == Failure(Trouble.SERVER, f"'127.0.0.1:{served.port}' sent more than {says}")
            await served.peers[0].over.wait()

    run(main())


def test_a_server_that_sends_too_much_is_cut_off_also_if_nobody_reads() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 3_000)
        await peer.closed()

    async def main() -> None:
        async with (
            serving(handle) as served,
            quick(limits=SMALL) as transport,
            transport.post(served.url, {}, b"") as response,
        ):
            await served.peers[0].over.wait()
            assert response.status == 200

    run(main())


def test_a_long_error_is_read_up_to_the_limit() -> None:
    answer = b"HTTP/1.1 500 No\r\ncontent-length: 60\r\n\r\n" + b"words, " * 9

    async def main() -> None:
        async with serving(answering(answer)) as served, quick(limits=SMALL) as transport:
            async with transport.post(served.url, {}, b"") as response:
                assert response.status == 500
                assert await response.read() == (b"words, " * 9)[:50]
            async with transport.post(served.url, {}, b"") as response:
                assert await response.read(5) == b"words"

    run(main())


def test_a_reader_that_is_slow_holds_the_server_back() -> None:
    size = 40 * 1024 * 1024
    sent = 0

    async def handle(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // 65_536):
            await peer.send(b"x" * 65_536)
            sent += 65_536

    async def main() -> None:
        async with (
            serving(handle) as served,
            quick() as transport,
            transport.post(served.url, {}, b"") as response,
        ):
            connection, server = response._connection, served.peers[0].writer.transport
            assert connection is not None
            assert connection.answer is not None
            await until(lambda: connection._paused and server.get_write_buffer_size() > 0)
            assert UNREAD < connection.answer.unread <= UNREAD + 256 * 1024  # one read over the bound
            assert sent < size
            assert sum([len(chunk) async for chunk in response]) == size

    run(main())


# --- the pool ---------------------------------------------------------------------------------------


def test_a_connection_is_kept_and_used_again() -> None:
    async def main() -> None:
        async with serving(answering(CHUNKED, MEASURED, OK)) as served, quick() as transport:
            got = [await fetch(transport, served.url) for _ in range(5)]
            assert got == [(200, b"hello, world!")] * 2 + [(200, b"ok")] * 3
            assert (served.connections, len(served.requests)) == (1, 5)

    run(main())


@pytest.mark.parametrize(
    "answer",
    [
        UNTIL_CLOSE,
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\n",  # more than was asked for
        OK + OK,
        OK + b"junk",
    ],
)
def test_a_connection_that_cannot_be_trusted_is_not_kept(answer: bytes) -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer)
        if answer != UNTIL_CLOSE:
            await peer.reader.read()

    async def main() -> None:
        async with serving(handle) as served, quick() as transport:
            bodies = [await fetch(transport, served.url) for _ in range(3)]
            assert len(set(bodies)) == 1
            assert served.connections == 3

    run(main())


def test_an_answer_not_read_to_its_end_closes_the_connection() -> None:
    async def main() -> None:
        async with serving(answering(OK)) as served, quick() as transport:
            async with transport.post(served.url, {}, b"") as response:
                assert response.status == 200
            await served.peers[0].over.wait()
            assert await fetch(transport, served.url) == (200, b"ok")
            assert served.connections == 2

    run(main())


@pytest.mark.parametrize("ends", [True, False])
def test_a_reply_that_is_whole_may_wait_for_the_last_bytes(ends: bool) -> None:
    """`finish` keeps the connection if the end of the transfer follows, and costs a moment if it does not."""

    async def handle(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nall\r\n")
            await peer.send(b"0\r\n\r\n" if ends else b"")

    async def main() -> None:
        async with serving(handle) as served, quick() as transport:
            for _ in range(2):
                async with transport.post(served.url, {}, b"") as response:
                    assert await anext(response) == b"all"
                    before = time.monotonic()
                    await response.finish()
                    assert time.monotonic() - before < 30
            assert served.connections == (1 if ends else 2)

    run(main())


def close_half(peer: Peer) -> None:
    peer.socket.shutdown(socket.SHUT_WR)


def reset(peer: Peer) -> None:
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.writer.transport.abort()


def speak(peer: Peer) -> None:
    peer.writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("spoil", "seen"), [(close_half, True), (reset, True), (speak, True), (close_half, False), (speak, False)]
)
def test_a_connection_that_the_server_ended_while_idle_is_not_used(spoil: Callable[[Peer], None], seen: bool) -> None:
    """Also if our loop had no turn since: then the socket itself is asked."""

    async def main() -> None:
        async with serving(answering(OK)) as served, quick() as transport:
            await fetch(transport, served.url)
            spoil(served.peers[0])
            if seen:
                await until(lambda: not transport._idle)
            assert await fetch(transport, served.url) == (200, b"ok")
            assert (served.connections, len(served.requests)) == (2, 2)

    run(main())


def test_a_request_that_meets_a_closing_connection_is_sent_once_more() -> None:
    """The keep-alive race: the server closes a kept connection just as our request comes. It has not read it, or has
    and gave no answer: it looks the same."""

    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()  # and close without an answer, if this is the first connection
        if peer is not peer.served.peers[0]:
            await peer.send(OK)

    async def main() -> None:
        async with serving(handle) as served, quick() as transport:
            await fetch(transport, served.url)
            async with transport.post(served.url, {}, [b"again", b" and again"]) as response:
                assert await response.read() == b"ok"
            assert [got.body for got in served.requests] == [b"{}", b"again and again", b"again and again"]
            assert served.connections == 2

    run(main())


def test_a_request_is_not_sent_a_third_time() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        if peer is peer.served.peers[0]:
            await peer.send(OK)
            await peer.request()

    async def main() -> None:
        async with serving(handle) as served, quick() as transport:
            await fetch(transport, served.url)
            assert "closed the connection without an answer" in await network_failure(transport, served.url)
            assert (served.connections, len(served.requests)) == (2, 3)

    run(main())


@pytest.mark.parametrize("what", ["a byte came", "it took too long", "nothing came in time"])
def test_a_request_that_may_have_been_worked_on_is_not_sent_again(what: str) -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        match what:
            case "a byte came":
                await peer.send(b"H")
            case "it took too long":
                await asyncio.sleep(2.1)
            case _:
                await peer.closed()

    async def main() -> None:
        seconds = 0.1 if what == "nothing came in time" else 5
        async with serving(handle) as served, quick(deadlines=Deadlines(5, seconds, 5)) as transport:
            await fetch(transport, served.url)
            await network_failure(transport, served.url)
            assert (served.connections, len(served.requests)) == (1, 2)

    run(main())


def test_the_pool_is_bounded_and_connections_expire() -> None:
    async def main() -> None:
        async with serving(answering(OK)) as served, quick(most_idle=2, idle_seconds=0.1) as transport:
            await asyncio.gather(*[fetch(transport, served.url) for _ in range(5)])
            assert served.connections == 5
            assert len(transport._idle) == 2
            for peer in served.peers:
                await peer.over.wait()
            assert not transport._idle
            assert not transport._open

    run(main())


def test_connections_are_kept_by_server() -> None:
    async def main() -> None:
        async with serving(answering(OK)) as one, serving(answering(OK)) as two, quick() as transport:
            for url in (one.url, two.url, one.url, two.url):
                await fetch(transport, url)
            assert (one.connections, two.connections) == (1, 1)

    run(main())


def test_an_answer_that_comes_before_the_request_is_read_is_the_last_of_its_connection() -> None:
    """A refusal while we still send: it is heard, and the rest of the request does not reach the next one."""

    async def handle(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await asyncio.Event().wait()

    async def main() -> None:
        async with serving(handle) as served, quick() as transport:
            for _ in range(2):
                assert await fetch(transport, served.url, b"x" * 32 * 1024 * 1024) == (413, b"no")
            assert served.connections == 2

    run(main())


# --- deadlines --------------------------------------------------------------------------------------


def test_no_answer_in_time() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.closed()

    async def main() -> None:
        async with serving(handle) as served, quick(deadlines=Deadlines(60, 0.2, 600)) as transport:
            before = time.monotonic()
            detail = await network_failure(transport, served.url)
            assert detail == f"'127.0.0.1:{served.port}' timed out: no answer within 0.2 seconds"
            assert 0.2 <= time.monotonic() - before < 60
            await served.peers[0].over.wait()

    run(main())


def test_headers_that_drip_have_one_deadline_in_all() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(*[OK[at : at + 1] for at in range(len(OK))], pause=0.05)

    async def main() -> None:
        async with serving(handle) as served, quick(deadlines=Deadlines(5, 0.2, 5)) as transport:
            detail = await network_failure(transport, served.url)
            assert detail == f"'127.0.0.1:{served.port}' timed out: no answer within 0.2 seconds"

    run(main())


def test_a_stream_of_bytes_without_an_event_is_silence() -> None:
    """A gateway may keep a dead stream open with comments: only what the reader calls a sign of life is one."""

    async def handle(peer: Peer) -> None:
        await peer.request()
        comment = b"3\r\n:\n\n\r\n"
        await peer.send(UNENDED)
        for _ in range(1_000):  # one after the other has been read, however busy the machine is
            await peer.send(comment)
            await taken.wait()
            taken.clear()
            await asyncio.sleep(0.01)

    async def main() -> None:
        async with (
            serving(handle) as served,
            quick(deadlines=Deadlines(5, 5, 1)) as transport,
            transport.post(served.url, {}, b"") as response,
        ):
            response.heard()
            reads, failed = 0, ""
            try:
                async for _ in response:
                    reads += 1
                    taken.set()
                    if reads == 4:
                        response.heard()  # an event: all the time again
            except ProviderError as error:
                failed = error.failure.detail
            assert failed == f"'127.0.0.1:{served.port}' timed out: silent for 1 second within its answer"
            assert 4 <= reads < 1_000

    taken = asyncio.Event()
    run(main())


def test_a_body_that_stalls() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(MEASURED[:-5])
        await peer.closed()

    async def main() -> None:
        async with serving(handle) as served, quick(deadlines=Deadlines(60, 600, 0.2)) as transport:
            before = time.monotonic()
            detail = await network_failure(transport, served.url)
            assert detail == f"'127.0.0.1:{served.port}' timed out: silent for 0.2 seconds within its answer"
            assert 0.2 <= time.monotonic() - before < 60
            await served.peers[0].over.wait()

    run(main())


def test_a_body_that_drips_goes_on_for_longer_than_the_deadline() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        body = MEASURED[-13:]
        await peer.send(MEASURED[:-13], *[body[at : at + 1] for at in range(13)], pause=0.13)

    async def main() -> None:
        async with serving(handle) as served, quick(deadlines=Deadlines(5, 5, 1.5)) as transport:
            before = time.monotonic()
            assert await fetch(transport, served.url) == (200, b"hello, world!")
            assert time.monotonic() - before > 1.5

    run(main())


def test_time_in_which_nobody_reads_does_not_count() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(MEASURED[:-13], MEASURED[-13:-5], pause=0.05)  # so that the reader waits, and the clock runs
        await released.wait()
        await peer.send(MEASURED[-5:])

    async def main() -> None:
        async with (
            serving(handle) as served,
            quick(deadlines=Deadlines(5, 5, 0.8)) as transport,
            transport.post(served.url, {}, b"") as response,
        ):
            got = await anext(response)
            await asyncio.sleep(1.6)  # two deadlines
            asyncio.get_running_loop().call_later(0.1, released.set)
            async for chunk in response:
                got += chunk
            assert got == b"hello, world!"

    released = asyncio.Event()
    run(main())


def test_an_interim_answer_starts_the_clock_of_the_first_byte_again() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(INTERIM)
        await asyncio.sleep(0.6)
        await peer.send(OK)
        await peer.closed()

    async def main() -> None:
        async with serving(handle) as served, quick(deadlines=Deadlines(5, 5, 0.2)) as transport:
            assert await fetch(transport, served.url) == (200, b"ok")

    run(main())


def test_a_long_request_on_a_thin_line_is_not_late() -> None:
    """The server reads for longer than the deadline, then answers: its time begins when the request is sent."""

    async def handle(peer: Peer) -> None:
        for _ in range(20):
            await asyncio.sleep(0.09)
            await peer.reader.readexactly(1024 * 1024)
        while len(await peer.reader.read(1024 * 1024)) == 1024 * 1024:
            pass
        await peer.send(OK)

    async def main() -> None:
        async with serving(handle) as served, quick(deadlines=Deadlines(5, 1.5, 5)) as transport:
            before = time.monotonic()
            assert await fetch(transport, served.url, b"x" * 32 * 1024 * 1024) == (200, b"ok")
            assert time.monotonic() - before > 1.5

    run(main())


def test_a_server_that_takes_nothing_of_the_request() -> None:
    async def handle(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    async def main() -> None:
        async with serving(handle) as served, quick(deadlines=Deadlines(5, 0.3, 5)) as transport:
            with pytest.raises(ProviderError, match="took nothing of the request for 0"):
                await fetch(transport, served.url, b"x" * 32 * 1024 * 1024)

    run(main())


# --- connecting -------------------------------------------------------------------------------------


@pytest.fixture
def deaf() -> Iterator[int]:
    """The port of a server whose queue is full: the kernel drops whoever knocks."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        place = server.getsockname()
        waiting: list[socket.socket] = []
        while True:
            client = socket.socket()
            client.settimeout(0.1)
            waiting.append(client)
            try:
                client.connect(place)
            except TimeoutError:
                break
        yield place[1]
        for client in waiting:
            client.close()


def test_connecting_takes_too_long(deaf: int) -> None:
    async def main() -> None:
        async with quick(deadlines=Deadlines(0.2, 5, 5)) as transport:
            detail = await network_failure(transport, f"http://127.0.0.1:{deaf}/")
            assert detail == f"connecting to '127.0.0.1:{deaf}': timed out after 0.2 seconds"

    run(main())


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    async def main() -> None:
        async with quick() as transport:
            detail = await network_failure(transport, f"http://127.0.0.1:{port}/")
            assert detail == f"connecting to '127.0.0.1:{port}': refused. Is a server running there?"

    run(main())


def test_a_name_that_does_not_exist() -> None:
    async def main() -> None:
        async with quick() as transport:
            detail = await network_failure(transport, "http://nowhere.invalid/")
            assert detail.startswith("looking up 'nowhere.invalid': the name is not known (")

    run(main())


def test_an_address_that_does_not_answer_costs_a_moment(deaf: int) -> None:
    """The next one is tried beside it; no socket is left of the first."""

    async def main() -> None:
        before = descriptors()
        with socket.create_server(("127.0.0.1", 0)) as server:
            start = time.monotonic()
            good = (socket.AF_INET, server.getsockname())
            with await first_to_answer([(socket.AF_INET, ("127.0.0.1", deaf)), good]) as reached:
                assert reached.getpeername() == server.getsockname()
                assert 0.25 <= time.monotonic() - start < 60  # the kernel's limit is two minutes
        await until(lambda: descriptors() == before)

    run(main())


def test_an_address_that_refuses_costs_nothing() -> None:
    async def main() -> float:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            refusing = gone.getsockname()
        with socket.create_server(("127.0.0.1", 0)) as server:
            start = time.monotonic()
            with await first_to_answer([(socket.AF_INET, refusing), (socket.AF_INET, server.getsockname())]):
                return time.monotonic() - start

    assert quickest(lambda: run(main()), 0.25) < 0.25


def test_a_name_server_that_does_not_answer_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the deadline nor the end of the loop; and a thousand sessions ask it once."""
    answer = threading.Event()
    asked: list[bytes] = []

    def hang(host: bytes, *rest: object, **more: object) -> list[object]:
        asked.append(host)
        answer.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)

    async def main() -> None:
        async with quick(deadlines=Deadlines(0.2, 5, 5)) as transport:
            details = await asyncio.gather(*[network_failure(transport, "http://some.example/") for _ in range(1_000)])
            assert set(details) == {"looking up 'some.example': timed out after 0.2 seconds"}

    start = time.monotonic()
    run(main())
    assert time.monotonic() - start < 60
    assert asked == [b"some.example"]
    answer.set()


# --- cancellation -----------------------------------------------------------------------------------


def say_nothing(peer: socket.socket) -> None:
    peer.recv(1)  # the first byte of whatever comes


def begin_the_headers(peer: socket.socket) -> None:
    read_request(peer)
    peer.sendall(OK[:9])


def begin_the_body(peer: socket.socket) -> None:
    read_request(peer)
    peer.sendall(MEASURED[:-3])


STAGES: dict[str, tuple[str, Callable[[socket.socket], None]]] = {
    "waiting for headers": ("http", read_request),
    "in the headers": ("http", begin_the_headers),
    "in the body": ("http", begin_the_body),
    "in TLS": ("https", say_nothing),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.covers("J-07")
def test_the_server_sees_a_cancellation_at_once(stage: str) -> None:
    scheme, script = STAGES[stage]

    async def main(server: Listener) -> float:
        async with quick() as transport:
            task = asyncio.create_task(fetch(transport, f"{scheme}://127.0.0.1:{server.port}/"))
            await until(server.reached.is_set)
            await asyncio.sleep(0.01)  # what the server sent is read, and the task waits for more
            cancelled = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            ended = time.monotonic()
            await until(lambda: server.saw_close > 0)
            return max(ended, server.saw_close) - cancelled

    def play() -> float:
        before = descriptors()
        with Listener(script) as server:
            took = run(main(server))
        assert descriptors() == before
        return took

    assert play() < AT_ONCE


def test_cancelled_while_connecting(deaf: int) -> None:
    async def main() -> float:
        async with quick() as transport:
            before = descriptors()
            task = asyncio.create_task(fetch(transport, f"http://127.0.0.1:{deaf}/"))
            await until(lambda: descriptors() == before + 1)  # it knocks
            task.cancel()
            cancelled = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: descriptors() == before)
            return time.monotonic() - cancelled

    assert run(main()) < AT_ONCE


def test_leaving_the_block_early_closes_at_once() -> None:
    async def main(server: Listener) -> float:
        async with quick() as transport:
            async with transport.post(f"http://127.0.0.1:{server.port}/", {}, b"{}") as response:
                assert await anext(response) == b"hello, wor"
                left = time.monotonic()
            await until(lambda: server.saw_close > 0)
            return left

    def play() -> float:
        with Listener(begin_the_body) as server:
            left = run(main(server))
        return server.saw_close - left

    assert play() < AT_ONCE


def test_an_error_of_the_reader_closes_the_connection() -> None:
    async def main(server: Listener) -> None:
        async with quick() as transport:
            with pytest.raises(ZeroDivisionError):
                async with transport.post(f"http://127.0.0.1:{server.port}/", {}, b"{}") as response:
                    async for _ in response:
                        raise ZeroDivisionError
            await until(lambda: server.saw_close > 0)

    with Listener(begin_the_body) as server:
        run(main(server))


def test_closing_the_transport_ends_what_is_under_way() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        await peer.send(MEASURED[:-3])
        await peer.closed()

    async def main() -> None:
        async with serving(handle) as served:
            transport = quick()
            task = asyncio.create_task(network_failure(transport, served.url))
            await until(lambda: bool(transport._open))
            await transport.close()
            assert await task == (f"'127.0.0.1:{served.port}' was disconnected: the transport was closed")
            assert "the transport was closed" in await network_failure(transport, served.url)
            assert not transport._open

    run(main())


# --- many -------------------------------------------------------------------------------------------


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """An ordinary user may open 1,024 files, unless a program asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4_096:
        if hard < 4_096:
            pytest.skip(f"needs 4,096 descriptors, and this user may have {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (4_096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
def test_a_thousand_streams_at_once() -> None:
    everybody = 0

    async def handle(peer: Peer) -> None:
        nonlocal everybody
        got = await peer.request()
        everybody += 1
        await until(lambda: everybody == 1_000)  # so that all are open at once
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(5):
            await peer.send(b"%x\r\n%s\r\n" % (len(got.body), got.body))
        await peer.send(b"0\r\n\r\n")
        await peer.closed()

    async def main() -> None:
        async with serving(handle) as served, quick(deadlines=Deadlines(60, 60, 60)) as transport:
            names = [b"stream %d;" % number for number in range(1_000)]
            got = await asyncio.gather(*[fetch(transport, served.url, name) for name in names])
            assert got == [(200, name * 5) for name in names]
            assert served.connections == 1_000

    run(main())
