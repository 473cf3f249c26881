"""Rude clients: the server has little patience, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from mainspring.viewer.connection import LARGEST_HEAD
from mainspring.viewer.server import MOST_CONNECTIONS, ViewServer
from viewer.client import ask, read, served
from viewer.stage import story


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return story(tmp_path_factory.mktemp("story"))


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def test_half_a_request_is_not_waited_for(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: ")
        assert await until_closed(reader) == b""
        assert (await ask(server, "")).status == 200
        writer.close()

    served(told, test, patience=0.2)


def test_who_does_not_read_is_left(told: Path) -> None:
    """One answer, larger than what the two sockets hold, is never read. Others are answered meanwhile."""

    async def test(server: ViewServer) -> None:
        loop = asyncio.get_running_loop()
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", server.port))
        while not server.connections:  # noqa: ASYNC110  # a state of the server, which has nobody to tell it
            await asyncio.sleep(0)
        (slow,) = server._open
        held: socket.socket = slow.transport.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_048)
        slow.transport.set_write_buffer_limits(high=1_000)
        request = f"GET /{server.token}/app.js HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
        await loop.sock_sendall(client, request.encode())
        began = loop.time()
        while slow in server._open:
            assert (await ask(server, "api/head")).status == 200
        assert loop.time() - began >= 0.2
        client.close()

    served(told, test, patience=0.2)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01", 400),  # TLS
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * LARGEST_HEAD, 431),
        (b"GET /" + b"a" * LARGEST_HEAD, 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
    ],
)
def test_what_is_no_request_of_ours_gets_a_clear_answer_and_an_end(told: Path, sent: bytes, status: int) -> None:
    async def test(server: ViewServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        got = await read(reader)
        assert (got.status, got.headers["connection"]) == (status, "close")
        assert await until_closed(reader) == b""
        writer.close()

    served(told, test)


def test_requests_that_are_sent_at_once_are_answered_in_turn(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        request = f"GET /{server.token}/api/head HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        writer.write(request * 3)
        assert [(await read(reader)).status for _ in range(3)] == [200] * 3
        writer.close()

    served(told, test)


def test_who_asks_without_waiting_for_answers_is_left(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        request = f"GET /{server.token}/api/head HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        writer.write(request * 60)
        await until_closed(reader)
        assert (await ask(server, "api/head")).status == 200
        writer.close()

    served(told, test)


def test_a_crowd_is_told_to_wait(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(MOST_CONNECTIONS)]
        assert (await ask(server, "")).status == 503
        for _, writer in opened:
            writer.close()
        while server.connections:  # noqa: ASYNC110  # a state of the server, which has nobody to tell it
            await asyncio.sleep(0.01)
        assert (await ask(server, "")).status == 200

    served(told, test)
