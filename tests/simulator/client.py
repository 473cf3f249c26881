"""The least client that can talk to the server: one connection, HTTP/1.1 by hand, so that nothing of ours helps it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from simulator.bodies import Json

HEADERS = {"host": "localhost", "anthropic-version": "2023-06-01", "content-type": "application/json"}


class Head(NamedTuple):
    status: int
    headers: dict[str, str]


class Event(NamedTuple):
    name: str
    data: Json


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, body: Any, path: str = "/v1/messages", **headers: str) -> None:
        """Underscores in the names of headers become dashes; an empty value leaves a header out."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.writer.write(request_bytes("POST", path, given, raw))

    async def head(self) -> Head:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {line.partition(": ")[0]: line.partition(": ")[2] for line in lines[1:] if line}
        return Head(int(lines[0].split()[1]), headers)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            chunk = await self.reader.readexactly(size + 2)
            assert chunk.endswith(b"\r\n")
            yield chunk[:-2]
        assert await self.reader.readexactly(2) == b"\r\n"

    async def events(self) -> AsyncGenerator[Event, None]:
        """Each chunk is one whole event."""
        async for chunk in self.chunks():
            name, data, end = chunk.decode().split("\n", 2)
            assert name.startswith("event: ")
            assert data.startswith("data: ")
            assert end == "\n"
            yield Event(name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))

    async def answer(self) -> tuple[Head, Any]:
        """A whole response with a length."""
        head = await self.head()
        return head, json.loads(await self.reader.readexactly(int(head.headers["content-length"])))

    async def streamed(self) -> tuple[Head, list[Event]]:
        head = await self.head()
        return head, [event async for event in self.events()]

    async def closed(self) -> bool:
        return await self.reader.read() == b""


def request_bytes(method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    sent = {**headers, "content-length": str(len(body))}
    lines = [f"{method} {path} HTTP/1.1", *[f"{name}: {value}" for name, value in sent.items() if value]]
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[Client, None]:
    host, port = url.removeprefix("http://").split(":")
    client = Client(*await asyncio.open_connection(host, int(port)))
    try:
        yield client
    finally:
        client.writer.close()


def assembled(events: list[Event]) -> Json:
    """The message that a stream amounts to."""
    message: Json = {}
    written: dict[int, str] = {}
    for name, data in events:
        match name:
            case "message_start":
                message = data["message"]
            case "content_block_start":
                assert data["index"] == len(message["content"])
                message["content"].append(data["content_block"])
            case "content_block_delta":
                add(message["content"][data["index"]], data["delta"], written, data["index"])
            case "content_block_stop" if data["index"] in written:
                message["content"][data["index"]]["input"] = json.loads(written[data["index"]] or "{}")
            case "message_delta":
                message.update(data["delta"])
                message["usage"].update(data["usage"])
            case "message_stop" | "ping" | "content_block_stop":
                assert name == data["type"]
            case _:
                raise AssertionError(name)
    return message


def add(block: Json, delta: Json, written: dict[int, str], index: int) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "citations_delta":
            block["citations"].append(delta["citation"])
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "input_json_delta":
            written[index] = written.get(index, "") + delta["partial_json"]
        case other:
            raise AssertionError(other)
