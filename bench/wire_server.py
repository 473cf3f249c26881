"""A model server for bench/wire.py, in a separate process: replies are rendered before the first request, so that the
server is not what is measured. The first part of the path selects the manner of the reply.

It prints its port.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import cast

MANY = 20_000  # text deltas in a burst
FEW = 200  # text deltas that come one by one
PAUSE = 0.001  # seconds between those: three times what the slowest client needs for one
TICKS, TICK = 40, 0.1  # text deltas of each of many streams, and seconds from one to the next
BACKLOG = 2_048  # connections that may wait to be accepted

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


# --- replies, each event a separate chunk, as servers send them when they flush after each ----------------------


def event(name: str, **fields: object) -> bytes:
    framed = f"event: {name}\ndata: {json.dumps({'type': name, **fields}, separators=(',', ':'))}\n\n".encode()
    return f"{len(framed):x}\r\n".encode() + framed + b"\r\n"


def delta(number: int) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": f" word{number}"})


MESSAGE: dict[str, object] = {
    "id": "msg_bench",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5-5",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 400, "cache_read_input_tokens": 40_000, "output_tokens": 1},
}
OPENING = (
    HEAD
    + event("message_start", message=MESSAGE)
    + event("content_block_start", index=0, content_block={"type": "text", "text": ""})
)
ENDING = (
    event("content_block_stop", index=0)
    + event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 300})
    + event("message_stop")
    + LAST_CHUNK
)
DELTAS = [delta(number) for number in range(MANY)]
BURST = b"".join([OPENING, *DELTAS, ENDING])
ONCE = OPENING + DELTAS[0] + ENDING


# --- manners of answering ---------------------------------------------------------------------------------------


def burst(transport: asyncio.Transport) -> None:
    """Everything at once: the client reads as many events as its buffer takes."""
    transport.write(BURST)


def one_by_one(transport: asyncio.Transport) -> None:
    """One event per read. The loop's own timers are too coarse, so this blocks: no other client is served meanwhile."""
    transport.write(OPENING)
    for piece in DELTAS[:FEW]:
        time.sleep(PAUSE)
        transport.write(piece)
    time.sleep(PAUSE)
    transport.write(ENDING)


def ticking(transport: asyncio.Transport) -> None:
    """One of many streams: its end comes `TICKS` times `TICK` seconds after its request, on time."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    transport.write(OPENING)
    for number in range(1, TICKS):
        loop.call_at(now + number * TICK, transport.write, DELTAS[number])
    loop.call_at(now + TICKS * TICK, transport.write, DELTAS[TICKS] + ENDING)


def held(transport: asyncio.Transport) -> None:
    """A stream that has begun, and continues until the client leaves."""
    transport.write(OPENING + DELTAS[0])


def once(transport: asyncio.Transport) -> None:
    transport.write(ONCE)


Manner = Callable[[asyncio.Transport], None]

MANNERS: dict[str, Manner] = {
    "burst": burst,
    "one-by-one": one_by_one,
    "ticking": ticking,
    "held": held,
    "once": once,
}


# --- requests ---------------------------------------------------------------------------------------------------


class Request(asyncio.Protocol):
    """Waits for whole requests, one after the other, and reads only their path and length."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._begin()

    def _begin(self) -> None:
        self._got = bytearray()
        self._whole = 0  # bytes of head and body together; 0: unknown yet
        self._answer: Manner = once

    def data_received(self, data: bytes) -> None:
        self._got += data
        if not self._whole and (end := self._got.find(b"\r\n\r\n")) >= 0:
            self._read_head(bytes(self._got[:end]).decode("latin-1"), end + 4)
        if self._whole and len(self._got) >= self._whole:
            answer = self._answer
            self._begin()
            answer(self._transport)

    def _read_head(self, head: str, length: int) -> None:
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._whole = length + int(headers["content-length"])
        self._answer = MANNERS[first.split()[1].split("/")[1]]


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Request, "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    left = asyncio.Event()  # the parent process has closed its end of our standard input
    loop.add_reader(sys.stdin, left.set)
    await left.wait()


if __name__ == "__main__":
    asyncio.run(serve())
