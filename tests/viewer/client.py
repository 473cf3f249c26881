"""A small HTTP client, as polite or as rude as a test wants it, and a server for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from mainspring.viewer.server import ViewServer


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def read(reader: asyncio.StreamReader, *, body: bool = True) -> Got:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *rows = head.split("\r\n")[:-2]
    headers = {name.lower(): value for name, _, value in [row.partition(": ") for row in rows]}
    length = int(headers["content-length"]) if body else 0
    return Got(int(first.split()[1]), headers, await reader.readexactly(length))


async def ask(
    server: ViewServer, path: str, *, method: str = "GET", token: str | None = None, headers: str = "", host: str = ""
) -> Got:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    named = host or f"127.0.0.1:{server.port}"
    whole = f"/{server.token if token is None else token}/{path}"
    writer.write(f"{method} {whole} HTTP/1.1\r\nHost: {named}\r\n{headers}Connection: close\r\n\r\n".encode("latin-1"))
    try:
        return await read(reader, body=method != "HEAD")
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def served(file: Path, test: Callable[[ViewServer], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), ViewServer(file, **options) as server:
            await test(server)
            assert server.failures == []
        assert server.connections == 0

    asyncio.run(main())
