"""The model of bench/speed.py and bench/agent_peers.py, in a process of its own: Anthropic's Messages and OpenAI's
Responses, as a stream and whole, at once or paced.

The address says what the model does: `/PACE/PLAY/TURNS/KEY/v1/messages`. PACE is in tokens a second, 0 for at once.
PLAY: `add`, `read`, `bash` call that tool TURNS times, one a turn, then say "Done."; `reads` calls ten reads in one
reply; `words` says TURNS words. `/times/KEY` lists when each request with that key was complete and when its reply was
written, in nanoseconds of the clock that all processes of a machine share.

Replies are made of prepared parts, so that a request costs the server little beside what it costs the client.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from time import monotonic_ns
from typing import Any, NamedTuple

# anthropic's tool runner sends what is new only; the id of the message before it says how far the run is.
CONTINUED = re.compile(rb'"previous_message_id": ?"msg_\d+_(\d+)"')
ADD = re.compile(rb'"name": ?"((?:mcp__\w+?__)?add)"')
SAID = "Let me look at the next part of this, and see what it has to say."
CALLS = 10  # in the reply of `reads`
STREAM = re.compile(rb'"stream": ?true')
Events = list[tuple[str, dict[str, Any]]]


class Asked(NamedTuple):
    pace: float  # tokens a second; 0: at once
    play: str
    turns: int
    key: str

    @staticmethod
    def read(path: str) -> Asked:
        pace, play, turns, key = path.split("/")[1:5]
        return Asked(float(pace), play, int(turns), key)


def make_calls(asked: Asked, done: int, body: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Other input each time: the same call over and over ends a run of ours."""
    if done >= (CALLS if asked.play == "reads" else asked.turns) or asked.play == "words" or not works(body):
        return []
    match asked.play:
        case "add":
            found = ADD.search(body)
            return [(found[1].decode() if found else "add", {"a": done, "b": 3})]
        case "read":
            return [("Read", {"file_path": f"{FOLDER}/part-{done}.txt"})]
        case "reads":
            return [("Read", {"file_path": f"{FOLDER}/part-{n}.txt"}) for n in range(CALLS)]
        case _:
            return [("Bash", {"command": f"true {done}", "description": "Do nothing"})]


def works(body: bytes) -> bool:
    """Whether it is a turn of the run: else a title or the like."""
    return b'"tools"' in body or CONTINUED.search(body) is not None


def count_done(asked: Asked, path: str, body: bytes) -> int:
    """How many calls have a result. A command may leave old ones out, but has one session for each key."""
    if asked.play in ("read", "reads", "bash"):
        return len(TIMES.get(asked.key, ())) * (CALLS if asked.play == "reads" else 1)
    if before := CONTINUED.search(body):
        return int(before[1]) + 1
    return body.count(b'"tool_result"' if "/messages" in path else b'"function_call_output"')


def events_of(asked: Asked, path: str, body: bytes, done: int) -> Events:
    messages, calls = "/messages" in path, make_calls(asked, done, body)
    says = words(asked.turns) if asked.play == "words" else SAID if calls else "Done."
    if messages:
        return message_events(make_message(done, asked.turns, says, calls))
    return [("response.completed", {"sequence_number": 0, "response": make_response(done, calls)})]


@cache
def words(count: int) -> str:
    return "".join([f" word{number}" for number in range(count)])


# --- Messages ---


def make_message(done: int, turns: int, says: str, calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    content = [
        {"type": "tool_use", "id": f"toolu_{done}_{n}", "name": name, "input": given}
        for n, (name, given) in enumerate(calls)
    ]
    return {
        "id": f"msg_{turns}_{done}",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": says}, *content],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }


def message_events(made: dict[str, Any]) -> Events:
    found: Events = [("message_start", {"message": {**made, "content": [], "stop_reason": None}})]
    for index, block in enumerate(made["content"]):
        text = block["type"] == "text"
        empty = {**block, "text": ""} if text else {**block, "input": {}}
        found.append(("content_block_start", {"index": index, "content_block": empty}))
        whole = block["text"] if text else json.dumps(block["input"])
        for part in re.findall(r" ?[^ ]+" if text else r"(?s).{1,4}", whole):  # a token each
            delta = {"type": "text_delta", "text": part} if text else {"type": "input_json_delta", "partial_json": part}
            found.append(("content_block_delta", {"index": index, "delta": delta}))
        found.append(("content_block_stop", {"index": index}))
    ended = {"stop_reason": made["stop_reason"], "stop_sequence": None}
    return [*found, ("message_delta", {"delta": ended, "usage": made["usage"]}), ("message_stop", {})]


# --- Responses ---


def make_response(done: int, calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    text = {"type": "output_text", "text": "Done.", "annotations": []}
    said = {"type": "message", "id": f"msg_{done}", "role": "assistant", "status": "completed", "content": [text]}
    output = [
        {
            "type": "function_call",
            "id": f"fc_{done}_{n}",
            "call_id": f"call_{done}_{n}",
            "name": name,
            "arguments": json.dumps(given),
            "status": "completed",
        }
        for n, (name, given) in enumerate(calls)
    ]
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{done}",
        "object": "response",
        "created_at": 1_794_700_000,
        "model": "gpt-5-mini",
        "status": "completed",
        "output": output or [said],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, **details},
    }


# --- HTTP ---


class Sent(NamedTuple):
    token: bool  # whether the model needs its time for it
    data: bytes


def frame(kind: str, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (kind.encode(), len(body), body)


def render(events: Events) -> Iterator[Sent]:
    for kind, data in events:
        line = f"event: {kind}\ndata: {json.dumps({'type': kind, **data}, separators=(',', ':'))}\n\n"
        yield Sent(kind == "content_block_delta", line.encode())


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
TIMES: dict[str, list[tuple[int, int]]] = {}
PREPARED: dict[tuple[object, ...], bytes] = {}  # replies that were made before


def answer_at_once(asked: Asked, path: str, body: bytes) -> bytes:
    streamed, tool, done = STREAM.search(body) is not None, ADD.search(body), count_done(asked, path, body)
    name = (path[-9:], asked.play, asked.turns, done, tool and tool[1], works(body), streamed)
    if name not in PREPARED:
        events = events_of(asked, path, body, done)
        if streamed:
            PREPARED[name] = frame("text/event-stream", b"".join([sent.data for sent in render(events)]))
        else:
            made = events[0][1].get("response") or as_message(events)
            PREPARED[name] = frame("application/json", json.dumps(made).encode())
    return PREPARED[name]


def as_message(events: Events) -> dict[str, Any]:
    """The message of a stream, for clients that ask for it whole."""
    content: list[dict[str, Any]] = []
    parts: list[str] = []
    for kind, data in events:
        if kind == "content_block_start":
            content.append(dict(data["content_block"]))
            parts = []
        elif kind == "content_block_delta":
            parts.append(data["delta"].get("text") or data["delta"]["partial_json"])
        elif kind == "content_block_stop":
            whole, called = "".join(parts), "input" in content[-1]
            content[-1].update({"input": json.loads(whole)} if called else {"text": whole})
    return {**events[0][1]["message"], "content": content, "stop_reason": events[-2][1]["delta"]["stop_reason"]}


async def answer_paced(asked: Asked, path: str, body: bytes, writer: asyncio.StreamWriter) -> int:
    """Each token at its moment, whatever the writes take. Returns the moment of the last write."""
    loop = asyncio.get_running_loop()
    begun, tokens, pending = loop.time(), 0, HEAD
    for token, data in render(events_of(asked, path, body, count_done(asked, path, body))):
        pending += b"%x\r\n%s\r\n" % (len(data), data)
        if token:
            tokens += 1
            writer.write(pending)
            pending = b""
            await asyncio.sleep(max(0.0, begun + tokens / asked.pace - loop.time()))
    written = monotonic_ns()
    writer.write(pending + b"0\r\n\r\n")
    return written


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"(?i)^content-length: *(\d+)", head, re.MULTILINE)
            body = await reader.readexactly(int(length[1])) if length else b""
            path, received = head.split(" ", 2)[1].partition("?")[0], monotonic_ns()
            await answer(path, body, received, writer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def answer(path: str, body: bytes, received: int, writer: asyncio.StreamWriter) -> None:
    if path.startswith("/times/"):
        writer.write(frame("application/json", json.dumps(TIMES.pop(path.removeprefix("/times/"), [])).encode()))
        return
    if not path.endswith(("/messages", "/responses")):  # what Claude Code asks for besides
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        return
    asked = Asked.read(path)
    if asked.pace and STREAM.search(body) and path.endswith("/messages"):
        written = await answer_paced(asked, path, body, writer)
    else:
        data = answer_at_once(asked, path, body)
        written = monotonic_ns()  # before the write: a server that has to wait behind it would shorten the gap
        writer.write(data)
    if works(body) or asked.play == "words":
        TIMES.setdefault(asked.key, []).append((received, written))


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24, backlog=2_048)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


FOLDER = ""

if __name__ == "__main__":
    FOLDER = sys.argv[1]
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(0)
