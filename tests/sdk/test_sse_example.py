"""`examples/fastapi_sse.py` streams an answer, and a client that disconnects ends the run."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mainspring.simulator.replies import Say
from sdk.stage import Stage, play

Frame = dict[str, Any]
SOON = 10  # seconds on a busy machine; the whole answer takes 40


class AsgiClient:
    """Drives the app as a server does: one request, and everything that it sends."""

    def __init__(self, app: Callable[..., Any], prompt: str) -> None:
        self.sent: list[Frame] = []
        self.heard, self.gone = asyncio.Event(), asyncio.Event()  # the first event of the answer; the client has left
        self._body: list[Frame] = [{"type": "http.request", "body": json.dumps({"prompt": prompt}).encode()}]
        scope = {"type": "http", "method": "POST", "path": "/ask", "headers": [], "query_string": b""}
        self.served = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> Frame:
        if self._body:
            return self._body.pop()
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, frame: Frame) -> None:
        self.sent.append(frame)
        if frame.get("body"):
            self.heard.set()

    @property
    def events(self) -> list[tuple[str, Any]]:
        text = b"".join([frame.get("body", b"") for frame in self.sent]).decode()
        rows = [event.split("\n") for event in text.split("\n\n") if event]
        return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in rows]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("starlette")
    file = Path(__file__).parents[2] / "examples" / "fastapi_sse.py"
    spec = importlib.util.spec_from_file_location("fastapi_sse", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fastapi_sse", module)
    spec.loader.exec_module(module)
    assert len(file.read_text().splitlines()) < 60
    return module


def serve_from(stage: Stage, example: Any) -> None:
    """The example asks the server of the tests."""
    given = stage.options()
    options = replace(example.OPTIONS, env=given.env, cwd=given.cwd)
    example.stream_answer.__defaults__ = (options,)


def test_it_streams_the_answer(tmp_path: Path, example: Any) -> None:
    async def main(stage: Stage) -> None:
        serve_from(stage, example)
        client = AsgiClient(example.app, "look at @.env")
        await client.served
        assert client.sent[0]["status"] == 200
        assert dict(client.sent[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
        assert "".join([data["text"] for name, data in client.events if name == "text"]) == "Hello, stranger."
        assert client.events[-1][0] == "end"
        assert client.events[-1][1]["is_error"] is False
        assert not stage.home.exists()

    play(main, tmp_path, Say.of("Hello, stranger."))


def test_a_client_that_disconnects_ends_the_run(tmp_path: Path, example: Any) -> None:
    async def main(stage: Stage) -> None:
        serve_from(stage, example)
        before = asyncio.all_tasks()
        client = AsgiClient(example.app, "hello")
        await client.heard.wait()
        begin = time.process_time()
        client.gone.set()
        async with asyncio.timeout(SOON):
            await client.served
        assert time.process_time() - begin < 1
        assert client.events[-1][0] == "text"  # it was cut off
        if left := asyncio.all_tasks() - before:  # the server of the tests sees the end of its connection
            _, pending = await asyncio.wait(left, timeout=SOON)
            assert not pending

    play(main, tmp_path, Say.of("word " * 2_000, pace_ms=20))
