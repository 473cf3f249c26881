"""What a prompt names by `@path` goes along, over each protocol and through each door; and whoever looks is told."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from cli.slash.sitting import Sitting, here, sat
from cli.stage import Serve, Stage
from cli.test_openai_runs import at
from mainspring.agent.slash_commands import lines_of_attached
from mainspring.simulator.replies import Say


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = b"\x89PNG\r\n\x1a\n" + b"".join(
    [
        chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0)),
        chunk(b"IDAT", zlib.compress(b"\0\xff\0\0\0\xff\0")),
        chunk(b"IEND", b""),
    ]
)
PDF = b"%PDF-1.4\n1 0 obj<</Type /Page>>endobj\n\0%%EOF"
NO_DOCUMENTS = "[A document stood here. This server takes no documents.]"  # not OpenAI's own
DATA = {"picture.png": b64encode(PNG).decode(), "paper.pdf": b64encode(PDF).decode()}


def put(folder: Path) -> None:
    (folder / "picture.png").write_bytes(PNG)
    (folder / "paper.pdf").write_bytes(PDF)
    (folder / "notes.md").write_text("one\ntwo\n")


def blocks(stage: Stage, number: int = -1) -> list[dict[str, Any]]:
    """Of all that the user said in a request."""
    body = stage.requests[number].body
    said = [one for one in body.get("messages") or body["input"] if one.get("role") == "user"]
    return [block for one in said for block in one["content"] if isinstance(block, dict)]


SHOWN: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA["picture.png"]}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DATA["paper.pdf"]}},
    ],
    "chat": [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA['picture.png']}"}},
        {"type": "text", "text": NO_DOCUMENTS},
    ],
    "responses": [
        {"type": "input_image", "image_url": f"data:image/png;base64,{DATA['picture.png']}"},
        {"type": "input_text", "text": NO_DOCUMENTS},
    ],
}


@pytest.mark.covers("O-05")
@pytest.mark.parametrize("protocol", SHOWN)
def test_an_image_that_is_named_is_sent_over_each_protocol(serve: Serve, protocol: str) -> None:
    """The server holds each request to the rules of its API. After a resume it is still there, and once."""
    stage = serve(Say.of("I see."), Say.of("Still."))
    put(stage.folder)
    done = stage.run("-p", "compare @picture.png and @paper.pdf", *at(stage, protocol))
    assert (done.returncode, done.stdout) == (0, b"I see.\n")
    stage.run("-p", "again: @picture.png", "--continue", *at(stage, protocol))
    for number in (0, 1):
        found = [{k: v for k, v in one.items() if k != "cache_control"} for one in blocks(stage, number)]
        for part in SHOWN[protocol]:
            assert found.count(part) == 1
    assert "PNG image, 2 x 1" in json.dumps(stage.requests[0].body)


def test_who_looks_is_told_of_each_name(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("I see."), Say.of("Nothing."))
    put(stage.folder)
    (stage.folder / "odd\x1b[2J.md").write_text("x")
    (stage.folder.parent / "secret.png").write_bytes(PNG)
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        names = '@notes.md @picture.png @paper.pdf @../secret.png @"odd\x1b[2J.md" @nobody'
        [expanded] = await sitting.expanded(f"look at {names}")
        assert lines_of_attached(expanded.attached) == [
            "+ notes.md, 2 lines",
            "+ picture.png, PNG image, 2 x 1",
            "+ paper.pdf, PDF, 1 page",
            "not attached: ../secret.png (reading it needs your consent)",
            "+ odd[2J.md, 1 line",
        ]
        assert await sitting.expanded("no names") == []

    sat(play)


def test_over_the_pipe_too(serve: Serve) -> None:
    stage = serve(Say.of("I see."))
    put(stage.folder)
    line = {"type": "user", "message": {"role": "user", "content": "what is in @picture.png?"}}
    flags = ("--input-format=stream-json", "--output-format=stream-json", "--verbose")
    done = stage.run("-p", *flags, input=json.dumps(line).encode() + b"\n")
    assert done.returncode == 0
    [image] = [one for one in blocks(stage) if one["type"] == "image"]
    assert image["source"] == SHOWN["anthropic"][0]["source"]
    assert DATA["picture.png"].encode() not in done.stdout  # it is for the model: no frame repeats it
