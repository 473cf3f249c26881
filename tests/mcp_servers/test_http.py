"""Servers over HTTP on this machine: the official ones, one that wants a key, and none at all."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cli.nursery import begun
from cli.stage import until as wait_until

from mainspring.mcp.base import McpStatus
from mainspring.settings.values import McpServer
from mcp_servers.stage import HERE, LIBRARY, SHOP, counter, until

PATHS = {"http": "/mcp", "sse": "/sse"}


PORTS = random.Random(os.getpid())  # below those that the system gives out, which other tests are given meanwhile


def free_port() -> int:
    while True:
        port = PORTS.randrange(20_000, 32_000)
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) != 0:
                return port


def is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serving_beside(kind: str, port: int, script: str = SHOP) -> Iterator[subprocess.Popen[bytes]]:
    """While it starts, others go on. Afterwards the port is free."""
    server = subprocess.Popen(begun(script, kind, str(port)), stderr=subprocess.DEVNULL)
    try:
        yield server
    finally:
        server.kill()
        server.wait()
        wait_until(lambda: not is_open(port))


@contextmanager
def serving(kind: str, port: int, script: str = SHOP) -> Iterator[subprocess.Popen[bytes]]:
    with serving_beside(kind, port, script) as server:
        wait_until(lambda: is_open(port))
        yield server


def at(port: int, kind: str = "http", **headers: str) -> McpServer:
    return McpServer("shop", kind, HERE, url=f"http://127.0.0.1:{port}{PATHS[kind]}", headers=headers)


def test_what_a_server_asks_and_brings_beside_tools(tmp_path: Path) -> None:
    async def main() -> None:
        rules = ("allow mcp__shop", "allow ReadMcpResourceTool")
        async with counter(tmp_path, [at(port)], rules=rules) as desk:
            assert (await desk.settle())[-1] == "ReadMcpResourceTool"
            read = await desk.text("ReadMcpResourceTool", server="shop", uri="book://Emma/page/7")
            assert read == "[The resource book://Emma/page/7]\nPage 7 of Emma."
            desk.answer("y", "Ann", "30", "", "")
            assert '"name":"Ann"' in await desk.text("mcp__shop__join")
            assert (await desk.call("mcp__shop__folders")).answer.data["result"] == [
                f"{tmp_path.name} {tmp_path.as_uri()}"
            ]
            assert await desk.text("mcp__shop__grow") == "grown"  # its news come on another connection
            await until(lambda: desk.servers.servers["shop"]._stale)
            assert await desk.settle() == ("mcp__shop__fresh",)
            assert "mcp__shop__newest" in desk.servers.prompts()

    port = free_port()
    with serving("http", port, LIBRARY):
        asyncio.run(main())


@pytest.mark.covers("N-09")
@pytest.mark.parametrize("kind", ["http", "sse"])
def test_list_call_and_cancel(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        async with counter(tmp_path, [at(port, kind)]) as shop:
            names = await shop.settle()
            assert shop.warned == []
            assert names[0] == "mcp__shop__add"
            assert await shop.text("mcp__shop__add", a=2, b=3) == "5"
            assert await shop.text("mcp__shop__count", upto=2) == "counted"
            assert shop.shown == ["1/2 at 1", "2/2 at 2"]
            assert await asyncio.gather(*[shop.text("mcp__shop__meet", others=5) for _ in range(5)]) == ["5 met"] * 5
            calling = asyncio.create_task(shop.call("mcp__shop__hang", folder=str(tmp_path)))
            await until((tmp_path / "begun").exists)
            calling.cancel()
            await asyncio.wait([calling])
            await until((tmp_path / "cancelled").exists)
            assert await shop.text("mcp__shop__add", a=1, b=1) == "2"

    port = free_port()
    with serving(kind, port):
        asyncio.run(main())


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_one_that_dies_in_mid_call_and_is_back_later(tmp_path: Path, kind: str) -> None:
    port = free_port()

    async def main() -> None:
        async with counter(tmp_path, [at(port, kind)]) as shop:
            with serving_beside(kind, port) as server:
                await until(lambda: is_open(port))
                await shop.servers.reconnect("shop")
                await shop.settle()
                calling = asyncio.create_task(shop.call("mcp__shop__hang", folder=str(tmp_path)))
                await until((tmp_path / "begun").exists)
                server.kill()
                lost = (await calling).answer
                assert lost.is_error
                assert "The MCP server 'shop'" in lost.text
            with serving_beside(kind, port):
                await until(lambda: is_open(port))
                assert await shop.text("mcp__shop__add", a=1, b=1) == "2"

    asyncio.run(main())


def test_one_that_was_started_anew_between_calls_is_asked_again(tmp_path: Path) -> None:
    """It knows nothing of our session and did nothing, so the call is made once more, on a new one."""
    port = free_port()

    async def main() -> None:
        async with counter(tmp_path, [at(port)]) as shop:
            for _ in range(2):
                with serving_beside("http", port):
                    await until(lambda: is_open(port))
                    if not shop.hands.offers:
                        await shop.servers.reconnect("shop")
                        await shop.settle()
                    assert await shop.text("mcp__shop__add", a=1, b=1) == "2"
            gone = await shop.text("mcp__shop__add", a=1, b=1)
            assert "The MCP server 'shop' was lost during the call" in gone
            assert "it cannot be reached: ConnectError" in gone

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_nobody_is_there(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        async with counter(tmp_path, [at(free_port(), kind)]) as shop:
            assert await shop.settle() == ()
            (told,) = shop.warned
            assert told.startswith("the MCP server 'shop' cannot be used: it cannot be reached: ")

    asyncio.run(main())


HEARD: list[str] = []


class Guarded(BaseHTTPRequestHandler):
    """Wants a key that nobody has. What it hears is kept."""

    def do_POST(self) -> None:
        HEARD.append(self.headers.get("Authorization", ""))
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_one_that_wants_to_know_who_we_are(tmp_path: Path, kind: str) -> None:
    guarded = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    threading.Thread(target=guarded.serve_forever, daemon=True).start()
    HEARD.clear()

    async def main() -> None:
        async with counter(tmp_path, [at(guarded.server_port, kind, Authorization="Bearer mine")]) as shop:
            assert await shop.settle() == ()
            server = shop.servers.servers["shop"]
            assert server.status is McpStatus.NEEDS_AUTH
            assert server.error.startswith("it requires authentication (HTTP 401 or 403)")
            assert set(HEARD) == {"Bearer mine"}

    try:
        asyncio.run(main())
    finally:
        guarded.shutdown()
        guarded.server_close()
