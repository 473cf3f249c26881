"""A relay between our client and the model's server. It changes requests in one way: a tool must be called.

Our providers do not support `tool_choice` so far, and a model of this size makes no call by itself; but the server can
be forced to accept nothing else. Checks that need a call go through the relay. `held` also narrows the schema of a
tool, so that the model's input is worth running. The relay changes nothing else of a request, and nothing of a reply.
Once a result is in the conversation, it leaves the request unchanged, or the model would never end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

CHOICES: dict[str, object] = {  # the parameter of each protocol
    "/chat/completions": "required",
    "/responses": "required",
    "/messages": {"type": "any"},
}
SCHEMAS = ("parameters", "input_schema")  # the field of a tool
MOST = 1 << 20  # bytes of the headers
CHUNK = 1 << 16

Held = Mapping[str, dict[str, Any]]  # tools by name, and the schema that each is restricted to


class Relay:
    def __init__(self, to: str, held: Held) -> None:
        self.url = ""
        self.forced = 0  # requests that were changed
        self._held = held
        address = urlsplit(to)
        self._host, self._port = address.hostname or "", address.port or 80

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Closes the connection after one request, so the relay need not parse the reply."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            path, length = read(head)
            body = await reader.readexactly(length)
            if (forced := force(path, body, self._held)) is not None:
                body = forced
                self.forced += 1
            there, back = await asyncio.open_connection(self._host, self._port)
            back.write(with_length(head, len(body)) + body)
            while got := await there.read(CHUNK):
                writer.write(got)
                await writer.drain()
            back.close()
        writer.close()


@asynccontextmanager
async def relaying(to: str, held: Held | None = None) -> AsyncGenerator[Relay, None]:
    relay = Relay(to, held or {})
    server = await asyncio.start_server(relay.take, "127.0.0.1", 0, limit=MOST)
    relay.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()


def force(path: str, body: bytes, held: Held) -> bytes | None:
    """None: it stays unchanged."""
    choice = next((choice for end, choice in CHOICES.items() if path.endswith(end)), None)
    if choice is None:
        return None
    asked: dict[str, Any] = json.loads(body)
    if not asked.get("tools") or "tool_choice" in asked or has_result(asked):
        return None
    for tool in asked["tools"]:
        narrow(tool.get("function", tool), held)
    return json.dumps(asked | {"tool_choice": choice}).encode()


def narrow(tool: dict[str, Any], held: Held) -> None:
    if tool["name"] in held:
        (field,) = [name for name in SCHEMAS if name in tool]
        tool[field] = held[tool["name"]]


def has_result(asked: dict[str, Any]) -> bool:
    """In any of the three protocols."""
    for message in (*asked.get("messages", ()), *asked.get("input", ())):
        if message.get("role") == "tool" or message.get("type") == "function_call_output":
            return True
        parts: list[dict[str, Any]] | str = message.get("content") or []
        if not isinstance(parts, str) and any(part.get("type") == "tool_result" for part in parts):
            return True
    return False


def read(head: bytes) -> tuple[str, int]:
    """The path of a request, and the length of its body."""
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    lengths = [line.partition(":")[2] for line in lines if line.lower().startswith("content-length:")]
    return first.split(" ")[1], int(lengths[0]) if lengths else 0


def with_length(head: bytes, length: int) -> bytes:
    """The server closes the connection after its reply."""
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    kept = [line for line in lines if not line.lower().startswith(("content-length:", "connection:"))]
    return "\r\n".join([first, *kept, f"Content-Length: {length}", "Connection: close", "", ""]).encode("latin-1")
