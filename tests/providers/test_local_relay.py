"""The relay of `make local`: what it adds to a request, and that it leaves all else as it is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from local.relay import force, relaying

PATIENCE = 10  # seconds; only a hanging relay takes so long

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
NARROW = {"type": "object", "properties": {"command": {"const": "ls"}}}

CHAT = {"tools": [{"type": "function", "function": {"name": "Bash", "parameters": SCHEMA}}]}
RESPONSES = {"tools": [{"type": "function", "name": "Bash", "parameters": SCHEMA}]}
MESSAGES = {"tools": [{"name": "Bash", "input_schema": SCHEMA}]}

ASKED = [
    ("/v1/chat/completions", CHAT | {"messages": [{"role": "user", "content": "go"}]}, "required"),
    ("/v1/responses", RESPONSES | {"input": [{"role": "user", "content": "go"}]}, "required"),
    ("/v1/messages", MESSAGES | {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, {"type": "any"}),
]
ANSWERED = [
    ("/v1/chat/completions", CHAT | {"messages": [{"role": "tool", "tool_call_id": "1", "content": "ok"}]}),
    ("/v1/responses", RESPONSES | {"input": [{"type": "function_call_output", "call_id": "1", "output": "ok"}]}),
    ("/v1/messages", MESSAGES | {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}),
]


@pytest.mark.parametrize(("path", "asked", "choice"), ASKED)
def test_a_call_is_asked_for_and_nothing_else_is_changed(path: str, asked: dict[str, Any], choice: object) -> None:
    forced = force(path, json.dumps(asked).encode(), {})
    assert forced is not None
    assert json.loads(forced) == asked | {"tool_choice": choice}


@pytest.mark.parametrize(("path", "asked"), [row[:2] for row in ASKED])
def test_a_tool_is_held_to_another_schema(path: str, asked: dict[str, Any]) -> None:
    forced = force(path, json.dumps(asked).encode(), {"Bash": NARROW, "Read": SCHEMA})
    assert forced is not None
    changed = json.loads(forced)
    assert changed["tools"] == json.loads(json.dumps(asked["tools"]).replace(json.dumps(SCHEMA), json.dumps(NARROW)))


@pytest.mark.parametrize(("path", "asked"), ANSWERED)
def test_with_a_result_the_model_is_free(path: str, asked: dict[str, Any]) -> None:
    assert force(path, json.dumps(asked).encode(), {"Bash": NARROW}) is None


def test_without_tools_and_on_other_paths_nothing_is_done() -> None:
    assert force("/v1/chat/completions", b'{"messages": []}', {}) is None
    assert force("/v1/models", b"", {}) is None


def test_a_choice_that_is_there_stays() -> None:
    assert force("/v1/responses", json.dumps(RESPONSES | {"tool_choice": "auto"}).encode(), {"Bash": NARROW}) is None


REPLY = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab\n\r\n0\r\n\r\n"


def test_over_the_wire_a_reply_comes_back_byte_by_byte_as_it_was() -> None:
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")]
        received.extend([head, await reader.readexactly(length)])
        writer.write(REPLY)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server, relaying(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(relay.url.rpartition(":")[2]))
            body = json.dumps(CHAT).encode()
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n")
            writer.write(b"Connection: keep-alive\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert await asyncio.wait_for(reader.read(), PATIENCE) == REPLY
            writer.close()
            assert relay.forced == 1
            head, sent = received
            first, *lines = head.decode().strip().split("\r\n")
            assert first == "POST /v1/chat/completions HTTP/1.1"
            assert lines == ["Host: x", "Authorization: Bearer k", f"Content-Length: {len(sent)}", "Connection: close"]
            assert json.loads(sent) == CHAT | {"tool_choice": "required"}

    asyncio.run(main())
