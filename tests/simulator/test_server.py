"""The model server over real sockets, with a client that knows nothing of it."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import struct
import time
from collections.abc import Awaitable, Callable

import pytest

from mainspring.simulator.replies import RawReply, ReceivedRequest, Refuse, Reply, Say
from mainspring.simulator.server import ModelServer
from simulator.bodies import ADAPTIVE, Json, ask, assistant, call, user
from simulator.client import HEADERS, assembled, connected, request_bytes


def serving(server: ModelServer, talk: Callable[[ModelServer], Awaitable[None]]) -> ModelServer:
    async def main() -> None:
        async with asyncio.timeout(60), server:
            await talk(server)

    asyncio.run(main())
    assert server.open_connections == 0
    return server


def test_a_stream_on_the_wire_byte_by_byte() -> None:
    async def talk(server: ModelServer) -> None:
        raw = request_bytes(
            "POST", "/v1/messages?beta=true", {**HEADERS, "connection": "close"}, json.dumps(ask(stream=True)).encode()
        )
        wire = await asyncio.to_thread(plainly, server.url, raw)
        head, _, body = wire.partition(b"\r\n\r\n")
        assert head.split(b"\r\n") == [
            b"HTTP/1.1 200 OK",
            b"content-type: text/event-stream; charset=utf-8",
            b"cache-control: no-cache",
            b"transfer-encoding: chunked",
            b"request-id: req_000000000000000000000001",
        ]
        events: list[Json] = [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
            {"type": "content_block_stop", "index": 0},
        ]
        data = [(event["type"], json.dumps(event, separators=(",", ":"))) for event in events]
        frames = [f"event: {name}\ndata: {line}\n\n".encode() for name, line in data]
        assert b"".join([b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames]) in body
        assert body.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n\r\n0\r\n\r\n')

    serving(ModelServer([Say.of("Hello.")]), talk)


def plainly(url: str, raw: bytes) -> bytes:
    """A blocking socket that reads until the server closes."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        plain.sendall(raw)
        received = b""
        while data := plain.recv(65_536):
            received += data
    return received


def test_streamed_and_whole_are_the_same_message_on_one_connection() -> None:
    blocks: list[Json] = [
        {"type": "thinking", "thinking": "Where could it be?"},
        {"type": "text", "text": "Let me look."},
        call(),
    ]

    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask(stream=True))
            head, events = await client.streamed()
            client.send(ask())
            whole_head, whole = await client.answer()
        streamed = assembled(events)
        assert (head.status, whole_head.status) == (200, 200)
        assert whole_head.headers["content-type"] == "application/json"
        assert (streamed.pop("id"), whole.pop("id")) == (f"msg_{2:024}", f"msg_{4:024}")
        assert streamed["content"][0].pop("signature") == f"sig:{ADAPTIVE}:1"
        assert whole["content"][0].pop("signature") == f"sig:{ADAPTIVE}:2"
        assert streamed == whole
        assert whole["content"] == blocks
        assert (whole["model"], whole["stop_reason"]) == (ADAPTIVE, "tool_use")

    server = serving(ModelServer([Say.of(*blocks), Say.of(*blocks)]), talk)
    assert server.connections == 1
    assert [request.connection for request in server.requests] == [1, 1]
    assert [request.body.get("stream") for request in server.requests] == [True, None]
    assert server.requests[0].at <= server.requests[1].at
    assert server.requests[0].headers["anthropic-version"] == "2023-06-01"
    assert (server.violations, server.aborted) == ([], 0)


def test_requests_sent_at_once_are_answered_in_order() -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            for _ in range(3):
                client.send(ask())
            answers = [await client.answer() for _ in range(3)]
        assert [body["content"][0]["text"] for _, body in answers] == ["one", "two", "three"]

    serving(ModelServer([Say.of("one", pace_ms=20), Say.of("two"), Say.of("three")]), talk)


def test_a_body_in_many_pieces() -> None:
    async def talk(server: ModelServer) -> None:
        raw = request_bytes("POST", "/v1/messages", HEADERS, json.dumps(ask()).encode())
        async with connected(server.url) as client:
            for start in range(0, len(raw), 7):
                client.writer.write(raw[start : start + 7])
                await client.writer.drain()
                await asyncio.sleep(0)
            assert (await client.answer())[0].status == 200

    serving(ModelServer([Say.of("Hello.")]), talk)


def test_a_violation_is_answered_as_the_api_would_and_uses_up_no_reply() -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask(user("a"), assistant("b")))
            head, body = await client.answer()
            assert head.status == 400
            assert body == {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "This model does not support assistant message prefill. "
                    "The conversation must end with a user message.",
                },
                "request_id": head.headers["request-id"],
            }
            client.send(ask(), anthropic_version="")
            head, body = await client.answer()
            assert (head.status, body["error"]["message"]) == (400, "anthropic-version: header is required")
            client.send(b"{")
            assert (await client.answer())[0].status == 400
            client.send(ask())
            assert (await client.answer())[0].status == 200

    server = serving(ModelServer([Say.of("Hello.")]), talk)
    assert [violation.rule for violation in server.violations] == ["messages.user_last", "headers.version", "body.json"]
    assert [request.body is None for request in server.requests] == [False, False, True, False]


def test_a_request_that_is_too_large() -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(b'"' + b"x" * (34 * 1024 * 1024) + b'"')
            head, body = await client.answer()
            assert (head.status, body["error"]["type"]) == (413, "request_too_large")

    assert [violation.rule for violation in serving(ModelServer(), talk).violations] == ["body.size"]


def test_a_key_is_asked_for_only_where_there_is_one() -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask())
            head, body = await client.answer()
            assert (head.status, body["error"]) == (
                401,
                {"type": "authentication_error", "message": "invalid x-api-key"},
            )
            client.send(ask(), x_api_key="no")
            assert (await client.answer())[0].status == 401
            client.send(ask(), x_api_key="yes")
            assert (await client.answer())[0].status == 200
            client.send(ask(), authorization="Bearer yes")
            assert (await client.answer())[0].status == 200

    serving(ModelServer([Say.of("a"), Say.of("b")], api_key="yes"), talk)


def test_tokens_are_counted_and_no_reply_is_used_up() -> None:
    async def talk(server: ModelServer) -> None:
        question = {"model": ADAPTIVE, "messages": [user("x" * 4_000)]}
        async with connected(server.url) as client:
            client.send(question, "/v1/messages/count_tokens")
            head, body = await client.answer()
            assert head.status == 200
            assert 1_000 <= body["input_tokens"] < 1_050
            client.send(ask(), "/v1/messages/count_tokens")
            head, body = await client.answer()
            assert body["error"]["message"] == "max_tokens: Extra inputs are not permitted"
            client.send(ask())
            assert (await client.answer())[1]["content"][0]["text"] == "Hello."

    serving(ModelServer([Say.of("Hello.")]), talk)


def test_refusals_come_with_their_headers() -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            for _ in range(3):
                client.send(ask(stream=True))
            head, body = await client.answer()
            assert (head.status, head.headers["retry-after"]) == (429, "7")
            assert body["error"] == {"type": "rate_limit_error", "message": "Slow down"}
            head, body = await client.answer()
            assert (head.status, body["error"]["type"]) == (529, "overloaded_error")
            head, body = await client.answer()
            assert (head.status, body["error"]["message"]) == (400, "the script has no more replies")

    limited = Refuse(429, "rate_limit_error", "Slow down", {"retry-after": "7"})
    serving(ModelServer([limited, Refuse(529, "overloaded_error")]), talk)


def test_bytes_go_out_as_they_are() -> None:
    raw = RawReply((b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", b"event: mess"), pace_ms=1)

    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask(stream=True))
            client.send(ask(stream=True))  # nobody will answer this one
            assert await client.reader.read() == b"".join(raw.chunks)

    assert len(serving(ModelServer([raw, raw]), talk).requests) == 1


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("POST", "/v1/complete", 404, "not_found_error"),
        ("GET", "/v1/messages", 405, "invalid_request_error"),
    ],
)
def test_other_doors_are_closed(method: str, path: str, status: int, kind: str) -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.writer.write(request_bytes(method, path, HEADERS, b""))
            head, body = await client.answer()
            assert (head.status, body["error"]["type"]) == (status, kind)

    serving(ModelServer(), talk)


def test_what_is_no_http_is_sent_away() -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.writer.write(b"EHLO example.org\r\n\r\n")
            assert (await client.head()).status == 400
            assert (await client.reader.read()).endswith(b"no HTTP/1.1 request\n")

    assert serving(ModelServer(), talk).requests == []


@pytest.mark.parametrize("how", ["closes", "resets", "stops sending"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_is_noticed_at_once(how: str, stream: bool) -> None:
    noticed: list[float] = []

    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask(stream=stream))
            await server.until(lambda: len(server.requests) == 1)
            if stream:
                await client.head()
            left = time.perf_counter()
            if how == "resets":
                linger = struct.pack("ii", 1, 0)
                client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if how == "stops sending":
                client.writer.write_eof()
            else:
                client.writer.close()
            await server.until(lambda: server.aborted == 1 and server.open_connections == 0)
            noticed.append(time.perf_counter() - left)

    serving(ModelServer([Say.of("Hello.", pace_ms=600_000)]), talk)
    assert noticed[0] < 60  # it takes less than a millisecond; the next event would come in ten minutes


def test_a_client_that_leaves_after_its_answer_aborts_nothing() -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask(stream=True))
            await client.streamed()
        await server.until(lambda: server.open_connections == 0)

    assert serving(ModelServer([Say.of("Hello.")]), talk).aborted == 0


def test_the_server_may_leave_first() -> None:
    async def main() -> None:
        async with ModelServer([Say.of("Hello.", pace_ms=600_000)]) as server, connected(server.url) as client:
            client.send(ask(stream=True))
            await client.head()
            await server.__aexit__(None, None, None)
            assert server.aborted == 0
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await client.reader.readexactly(1)

    asyncio.run(main())


def test_replies_may_be_chosen_by_the_request() -> None:
    def choose(received: ReceivedRequest) -> Reply:
        return Say.of(received.body["messages"][-1]["content"].upper())

    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as first, connected(server.url) as second:
            first.send(ask(user("one")))
            second.send(ask(user("two")))
            assert (await second.answer())[1]["content"][0]["text"] == "TWO"
            assert (await first.answer())[1]["content"][0]["text"] == "ONE"

    assert serving(ModelServer(choose=choose), talk).connections == 2


def test_a_mistake_in_the_choice_is_not_swallowed() -> None:
    def choose(_: ReceivedRequest) -> Reply:
        raise LookupError("no such reply")

    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask())
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await client.head()

    with pytest.raises(LookupError, match="no such reply"):
        serving(ModelServer(choose=choose), talk)


def test_neighbours_of_one_role_pass_where_they_may() -> None:
    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask(user("a"), user("b")))
            assert (await client.answer())[0].status == 200

    assert serving(ModelServer([Say.of("Hello.")], alternate=False), talk).violations == []


def test_a_long_answer_waits_for_a_slow_reader() -> None:
    """The server holds a little of it, not all."""
    chunk = b"x" * 65_536
    raw = RawReply((chunk,) * 400)

    async def talk(server: ModelServer) -> None:
        async with connected(server.url) as client:
            client.send(ask(stream=True))
            await server.until(lambda: len(server.requests) == 1)
            [connection] = server._open
            while connection.transport.get_write_buffer_size() <= len(chunk):  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.001)
            for _ in range(100):
                await asyncio.sleep(0)
                assert connection.transport.get_write_buffer_size() <= 2 * len(chunk)
            assert len(await client.reader.read()) == 400 * len(chunk)

    serving(ModelServer([raw]), talk)


def test_many_streams_at_once() -> None:
    async def one(server: ModelServer, number: int) -> None:
        async with connected(server.url) as client:
            client.send(ask(user(f"stream {number}"), stream=True))
            _, events = await client.streamed()
            assert assembled(events)["content"][0]["text"] == f"stream {number}"

    async def talk(server: ModelServer) -> None:
        await asyncio.gather(*[one(server, number) for number in range(100)])

    def choose(received: ReceivedRequest) -> Reply:
        return Say.of(received.body["messages"][0]["content"], pace_ms=1)

    server = serving(ModelServer(choose=choose), talk)
    assert (server.connections, len(server.requests), server.aborted) == (100, 100, 0)


def test_waiting_for_what_does_not_come_ends() -> None:
    async def talk(server: ModelServer) -> None:
        with pytest.raises(TimeoutError):
            await server.until(lambda: server.aborted > 0, seconds=0.01)

    serving(ModelServer(), talk)


def test_whoever_knocks_while_the_server_leaves_is_let_go() -> None:
    """A socket that was accepted, and is no connection yet, must not outlive the server."""

    async def main() -> None:
        for rounds in range(6):
            async with ModelServer() as server:
                host, port = server.url.removeprefix("http://").split(":")
                late = socket.create_connection((host, int(port)))
                for _ in range(rounds):
                    await asyncio.sleep(0)
            assert server.open_connections == 0
            late.close()

    asyncio.run(main())
    gc.collect()  # a transport that nobody closed would complain now, and fail this test
