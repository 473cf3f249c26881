"""Ctrl-V: an image of the clipboard becomes an attachment."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from cli.slash.sitting import Sitting, here, sat
from cli.stage import Serve
from mainspring.cli.tui.completion import PastedTexts
from mainspring.cli.tui.image_paste import save_clipboard_image
from mainspring.simulator.replies import Say


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PIXEL = b"\x89PNG\r\n\x1a\n" + b"".join(
    [
        chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")),
        chunk(b"IEND", b""),
    ]
)


def clipboard_with(folder: Path, content: bytes) -> str:
    folder.mkdir()
    (folder / "content").write_bytes(content)
    program = folder / "wl-paste"
    program.write_text(f"#!/bin/sh\nexec cat '{folder}/content'\n")
    program.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


@pytest.mark.parametrize("stored", [True, False])
def test_an_image_of_the_clipboard_is_sent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, stored: bool
) -> None:
    stage = serve(Say.of("A red dot."))
    here(stage, monkeypatch, WAYLAND_DISPLAY="w", PATH=clipboard_with(tmp_path / "bin", PIXEL))

    def check(path: Path) -> None:
        assert path.read_bytes() == PIXEL
        assert path.stat().st_mode & 0o077 == 0

    async def play(sitting: Sitting) -> None:
        path, why_not = await save_clipboard_image(sitting.talk)
        assert not why_not
        check(Path(path))
        assert (await save_clipboard_image(sitting.talk))[0] != path
        pastes = PastedTexts(str(stage.folder))
        typed = "what is " + pastes.put_image(path)
        assert typed == "what is [Pasted\u00a0image #1] "
        await sitting.asked(pastes.expand(typed))

    sat(play, *(() if stored else ("--no-session-persistence",)))
    blocks = [block for message in stage.requests[0].body["messages"] for block in message["content"]]
    assert [block["source"]["media_type"] for block in blocks if block["type"] == "image"] == ["image/png"]


def test_a_clipboard_without_an_image_says_so(serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here(serve(), monkeypatch, WAYLAND_DISPLAY="w", PATH=clipboard_with(tmp_path / "bin", b"text"))

    async def play(sitting: Sitting) -> None:
        assert await save_clipboard_image(sitting.talk) == ("", "There is no image in the clipboard.")

    sat(play)
