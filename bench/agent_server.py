"""The model for bench/agent_peers.py, in a process of its own: Anthropic's Messages and OpenAI's Responses, as a stream
and whole. A prompt such as "turns=20." gets twenty calls of `add`, one at a time, then "Done."

Replies are made of prepared parts, so that a request costs the server little beside what it costs the client.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

TURNS = re.compile(rb"turns=(\d+)\.")
# anthropic's tool runner sends what is new only; the id of the message before it says how far the run is.
CONTINUED = re.compile(rb'"previous_message_id": ?"msg_(\d+)_(\d+)"')
Events = list[tuple[str, dict[str, Any]]]


def reply_to(path: str, body: bytes) -> bytes:
    found = TURNS.search(body)
    wanted = int(found[1]) if found else -1
    messages = path.endswith("/messages")
    done = body.count(b'"tool_result"' if messages else b'"function_call_output"')
    if before := CONTINUED.search(body):
        wanted, done = int(before[1]), int(before[2]) + 1
    if wanted < 0:
        raise SystemExit(f"a request without its prompt: {body[:2_000]!r}")  # it would look like a quick run
    streamed = re.search(rb'"stream": ?true', body) is not None
    made = make_message(done, wanted) if messages else make_response(done, done < wanted)
    if not streamed:
        return frame("application/json", json.dumps(made).encode())
    events = message_events(made) if messages else response_events(made)
    sent = "".join([f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n" for kind, data in events])
    return frame("text/event-stream", sent.encode())


def frame(kind: str, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (kind.encode(), len(body), body)


def make_input(done: int) -> dict[str, int]:
    """Another one each time: the same call over and over ends a run of ours."""
    return {"a": done, "b": 3}


# --- Messages ---


def make_message(done: int, wanted: int) -> dict[str, Any]:
    calls = done < wanted
    call = {"type": "tool_use", "id": f"toolu_{done}", "name": "add", "input": make_input(done)}
    return {
        "id": f"msg_{wanted}_{done}",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [call if calls else {"type": "text", "text": "Done."}],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }


def message_events(made: dict[str, Any]) -> Events:
    [block] = made["content"]
    text = block["type"] == "text"
    empty = {**block, "text": ""} if text else {**block, "input": {}}
    delta = (
        {"type": "text_delta", "text": "Done."}
        if text
        else {"type": "input_json_delta", "partial_json": json.dumps(block.get("input"))}
    )
    return [
        ("message_start", {"message": {**made, "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": empty}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        (
            "message_delta",
            {"delta": {"stop_reason": made["stop_reason"], "stop_sequence": None}, "usage": made["usage"]},
        ),
        ("message_stop", {}),
    ]


# --- Responses ---


def make_response(done: int, calls: bool) -> dict[str, Any]:
    text = {"type": "output_text", "text": "Done.", "annotations": []}
    said = {"type": "message", "id": f"msg_{done}", "role": "assistant", "status": "completed", "content": [text]}
    call = {
        "type": "function_call",
        "id": f"fc_{done}",
        "call_id": f"call_{done}",
        "name": "add",
        "arguments": json.dumps(make_input(done)),
    }
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{done}",
        "object": "response",
        "created_at": 1_794_700_000,
        "model": "gpt-5-mini",
        "status": "completed",
        "output": [{**call, "status": "completed"} if calls else said],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, **details},
    }


def response_events(made: dict[str, Any]) -> Events:
    return [("response.completed", {"sequence_number": 0, "response": made})]


# --- HTTP ---


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"(?i)^content-length: *(\d+)", head, re.MULTILINE)
            body = await reader.readexactly(int(length[1])) if length else b""
            writer.write(reply_to(head.split(" ", 2)[1].partition("?")[0], body))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(0)
