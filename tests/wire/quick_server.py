"""A model server that answers at once, whatever it is asked: for tests that measure the client.

It decodes nothing, so it costs the same for a request of a kilobyte and of a megabyte. `ModelServer` would judge each
request, which takes longer than the turn that is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Self

from mainspring.simulator.openai_chat import ChatStreamWriter
from mainspring.simulator.openai_responses import ResponsesStreamWriter
from mainspring.simulator.replies import Json, ReplyStamp, Say, frame_event, stream_events

PLACE = "QZJX"  # of the number of a request, in the templates; longer ones would be cut in pieces
ASKED: Json = {"stream_options": {"include_usage": True}, "include": ["reasoning.encrypted_content"]}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"


def template(path: str, *blocks: str | Json) -> bytes:
    say, stamp = Say.of(*blocks), ReplyStamp("some-model", f"msg_{PLACE}", lambda: "c2lnbmF0dXJl")
    told: Iterator[Json] = stream_events(say, stamp)
    if path == "/messages":
        return b"".join(map(frame_event, told))
    teller: Any = ChatStreamWriter if path == "/chat/completions" else ResponsesStreamWriter
    tell = teller(say, stamp, ASKED)
    return b"".join([tell(event) for event in told]) + (b"data: [DONE]\n\n" if teller is ChatStreamWriter else b"")


PATHS = ("/messages", "/chat/completions", "/responses")
CALL: Json = {"type": "tool_use", "id": f"toolu_{PLACE}", "name": "Look", "input": {"n": PLACE}}
READ: Json = {"type": "tool_use", "id": f"toolu_{PLACE}", "name": "Read", "input": {"file_path": PLACE}}
THOUGHT: Json = {"type": "thinking", "thinking": "There is more."}
MODES: dict[str, tuple[str | Json, ...]] = {
    "call": ("On.", CALL),
    "read": ("On.", READ),
    "think": (THOUGHT, "On.", CALL),
    "talk": ("Done.",),
}
REPLIES: dict[tuple[str, str], bytes] = {
    (f"/{mode}", path): template(path, *blocks) for path in PATHS for mode, blocks in MODES.items()
}


class QuickServer(asyncio.Protocol):
    """The first part of an address says what the model does: `/call` a tool, `/read` a file, `/think` before a call, or
    just `/talk`. A request without tools, such as one for a summary, is answered with words."""

    url = ""
    requests = 0
    _server: asyncio.Server

    def __init__(self, home: QuickServer | None = None) -> None:
        self._home = home or self
        self._transport: Any = None
        self._got: list[bytes] = []
        self._missing = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: QuickServer(self), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got.append(data)
        if not self._missing:
            data = b"".join(self._got)
            self._got = [data]
            head, end, _ = data.partition(b"\r\n\r\n")
            if not end:
                return
            self._missing = len(head) + len(end) + int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if sum(map(len, self._got)) >= self._missing:
            self._answer(b"".join(self._got))
            self._got, self._missing = [], 0

    def _answer(self, data: bytes) -> None:
        self._home.requests += 1
        asked = data[: data.index(b"\r\n")].split()[1].decode()
        mode, path = asked[: asked.index("/", 1)], next(path for path in PATHS if path in asked)
        tools = b'"tools":[' in data
        reply = REPLIES[mode if tools else "/talk", path].replace(PLACE.encode(), b"%04x" % self._home.requests)
        self._transport.write(HEAD % len(reply) + reply)
