"""Read: what a model sees of a file, and that nothing it can be pointed at blocks or floods."""

from __future__ import annotations

import base64
import codecs
import json
import os
import socket
import struct
import time
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.errors import ToolError
from mainspring.core.messages import Document, Image, Text
from mainspring.processes.atomic_write import digest
from mainspring.processes.paths import resolve_path
from mainspring.testing.world import FakeToolContext
from mainspring.tools import read_lines
from mainspring.tools.base import MOST_SHOWN
from mainspring.tools.files import WHOLE, HaltSignal
from mainspring.tools.read import MOST_LINES, READ
from mainspring.tools.read_lines import (
    SETTLED,
    DescriptorBytes,
    LineIndex,
    LineRequest,
    MemoryBytes,
    index_of,
    read_line_window,
)


def read(folder: Path, name: str = "f", **input: int) -> str:
    return FakeToolContext(str(folder)).now(READ, file_path=name, **input).text


def refused(folder: Path, name: str = "f", **input: int) -> str:
    with pytest.raises(ToolError) as error:
        read(folder, name, **input)
    return str(error.value)


# --- text -------------------------------------------------------------------------------------------


@pytest.mark.covers("F-25", "N-01", "N-08")
def test_lines_come_with_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n\ttwo\n\nfour")
    assert read(tmp_path) == "1\tone\n2\t\ttwo\n3\t\n4\tfour\n"


def test_a_window(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    assert read(tmp_path, offset=3, limit=2) == (
        "3\tline 3\n4\tline 4\n[Lines 3-4 of 10. Go on with offset=5, or search with Grep.]\n"
    )
    assert read(tmp_path, offset=9) == "9\tline 9\n10\tline 10\n"
    assert "has 10 lines, none from 11 on" in refused(tmp_path, offset=11)
    assert read(tmp_path, offset=0, limit=1) == read(tmp_path, offset=1, limit=1)


def test_no_more_than_two_thousand_lines_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\n" * 5_000)
    assert read(tmp_path).count("\tx\n") == MOST_LINES
    assert read(tmp_path).endswith("[Lines 1-2000 of 5,000. Go on with offset=2001, or search with Grep.]\n")
    assert read(tmp_path, limit=4_000).count("\tx\n") == 4_000


def test_a_result_never_has_more_than_is_shown_and_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "f").write_text((("y" * 1_000) + "\n") * 500)
    seen, offset = 0, 1
    while offset <= 500:
        text = read(tmp_path, offset=offset)
        assert len(text) <= MOST_SHOWN
        rows = text.count("\n") - (1 if "[Lines" in text else 0)
        seen, offset = seen + rows, offset + rows
    assert seen == 500


def test_long_lines_are_cut_and_say_so(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a" * 2_000 + "\n" + "b" * 2_001 + "\n" + "é" * 30_000 + "\nend\n")
    rows = read(tmp_path).split("\n")
    assert rows[0] == "1\t" + "a" * 2_000
    assert rows[1] == "2\t" + "b" * 2_000 + " [... cut: this line has 2,001 bytes]"
    assert rows[2] == "3\t" + "é" * 2_000 + " [... cut: this line has 60,000 bytes]"
    assert rows[3:] == ["4\tend", "[2 lines cut at 2,000 characters.]", ""]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "['f' is empty.]"),
        (codecs.BOM_UTF8, "['f' is empty.]"),
        (codecs.BOM_UTF8 + b"a\r\nb\r\n", "1\ta\n2\tb\n"),
        (b"a\rb\n", "1\ta\rb\n"),
        (b"a\x0bb\x0cc\xc2\x85d\xe2\x80\xa8e\n", "1\ta\x0bb\x0cc\x85d\u2028e\n"),
        (codecs.BOM_UTF16_LE + "añ\r\n\u4e2d".encode("utf-16-le"), "1\tañ\n2\t\u4e2d\n"),
        (codecs.BOM_UTF16_BE + "a\n".encode("utf-16-be"), "1\ta\n"),
        (b"a\xffb\n", "1\ta\ufffdb\n[Some bytes are not text in the file's encoding; they are shown as \ufffd.]\n"),
        (b"\n", "1\t\n"),
    ],
)
def test_marks_line_ends_and_encodings(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "f").write_bytes(data)
    assert read(tmp_path) == text


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"), max_size=30), min_size=1, max_size=40)
)
def test_windows_put_together_are_the_file(tmp_path_factory: pytest.TempPathFactory, rows: list[str]) -> None:
    folder = tmp_path_factory.getbasetemp()
    text = "\n".join(rows)
    (folder / "windows").write_bytes(text.encode())
    if not text or text.startswith(("\x89PNG", "GIF8", "%PDF-", "\ufeff")):
        return
    calling = FakeToolContext(str(folder))
    found: list[str] = []
    while len(found) < len(text.removesuffix("\n").split("\n")):
        data = calling.now(READ, file_path="windows", offset=len(found) + 1, limit=7).data["file"]
        found += data["content"].split("\n")
    assert found == text.removesuffix("\n").split("\n")
    assert data["totalLines"] == len(found)


@given(st.binary(max_size=600), st.integers(0, 40), st.integers(1, 20), st.integers(1, 30))
def test_any_window_of_any_bytes(data: bytes, first: int, limit: int, block: int) -> None:
    """Against the plain way, with blocks so small that every line goes over their edges."""
    plain = data.split(b"\n")
    if plain[-1] == b"":
        plain.pop()
    step, read_lines._STEP = read_lines._STEP, block
    try:
        seen = read_line_window(
            MemoryBytes(data), LineIndex(block), LineRequest(first, limit, longest=5, most=1_000_000), HaltSignal()
        )
    finally:
        read_lines._STEP = step
    assert [line.data for line in seen.lines] == [line[:5] for line in plain[first : first + limit]]
    assert [line.size for line in seen.lines] == [len(line) for line in plain[first : first + limit]]
    assert seen.total == len(plain)
    assert seen.more == (len(plain) > first + limit and bool(seen.lines))


def test_numbers_cost_as_little_as_they_can(tmp_path: Path) -> None:
    """Against the padded form of `cat -n`: on this very file, by more than a twentieth."""
    source = Path(__file__).read_text()
    (tmp_path / "f").write_text(source)
    padded = "".join(f"{number:>6}\t{line}\n" for number, line in enumerate(source.splitlines(), 1))
    assert len(read(tmp_path)) < len(padded) * 0.95


# --- what was read ----------------------------------------------------------------------------------


def test_what_was_read_is_remembered_whole_even_from_a_window(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\nc\n")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f", offset=2, limit=1)
    assert calling.place.read.of(resolve_path("f", str(tmp_path))) == digest(b"a\nb\nc\n")


def test_what_is_too_big_to_be_edited_is_not_remembered(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 99 + b"\n" * (WHOLE - 98))
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    assert calling.place.read.of(resolve_path("f", str(tmp_path))) is None


# --- big files --------------------------------------------------------------------------------------


def test_the_middle_of_a_big_file_takes_little_memory(tmp_path: Path) -> None:
    row = b"r" * 99 + b"\n"
    (tmp_path / "f").write_bytes(row * 400_000)  # 40 MB
    calling = FakeToolContext(str(tmp_path))
    tracemalloc.start()
    try:
        data = calling.now(READ, file_path="f", offset=200_000, limit=10).data["file"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (data["startLine"], data["numLines"], data["totalLines"]) == (200_000, 10, None)
    assert peak < 2_000_000


def test_an_index_is_kept_for_as_long_as_the_file_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\n" * 10)
    fd = os.open(file, os.O_RDONLY)
    try:
        os.utime(file, ns=(0, 0))
        past = time.time_ns() - os.fstat(fd).st_ctime_ns
        with index_of(fd) as index:
            index.count_until(DescriptorBytes(fd), None, HaltSignal())
        with index_of(fd) as again:
            assert (again is index) == (past > SETTLED), "one that changed just now may change again unseen"
        deadline = time.monotonic() + 10
        while time.time_ns() - os.fstat(fd).st_ctime_ns <= SETTLED:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with index_of(fd) as index:
            index.count_until(DescriptorBytes(fd), None, HaltSignal())
        with index_of(fd) as again:
            assert again is index
        file.write_bytes(b"b\n" * 5)
        with index_of(fd) as other:
            assert other is not index
    finally:
        os.close(fd)


def test_a_line_that_never_ends(tmp_path: Path) -> None:
    """A gigabyte of nothing, but sparse: the disk is not needed for it."""
    with (tmp_path / "f").open("wb") as file:
        file.write(b"begin" + b"x" * 10_000)
        file.truncate(300_000_000)
    tracemalloc.start()
    try:
        text = read(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert text.startswith("1\tbeginxxx")
    assert "cut: this line has 300,000,000 bytes" in text
    assert text.endswith("\n[1 line cut at 2,000 characters.]\n")
    assert peak < 2_000_000


# --- what is no text --------------------------------------------------------------------------------


def png(width: int = 1, height: int = 1, more: int = 0) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"tEXt", b"x" * more) + chunk(b"IEND", b"")


JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + b"\0" * 10 + b"\xff\xc0\x00\x11\x08\x00\x20\x00\x40" + b"\0" * 20
GIF = b"GIF89a" + struct.pack("<HH", 3, 2) + b"\0" * 10
WEBP = b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\x09\0\0" + b"\x04\0\0" + b"\0" * 10


@pytest.mark.parametrize(
    ("data", "kind", "size"),
    [
        (png(3, 2), "image/png", "3 x 2"),
        (JPEG, "image/jpeg", "64 x 32"),
        (GIF, "image/gif", "3 x 2"),
        (WEBP, "image/webp", "10 x 5"),
    ],
)
def test_images_by_their_first_bytes(tmp_path: Path, data: bytes, kind: str, size: str) -> None:
    (tmp_path / "picture.txt").write_bytes(data)
    answer = FakeToolContext(str(tmp_path)).now(READ, file_path="picture.txt")
    assert answer.content == (Image(kind, base64.b64encode(data).decode()),)
    assert answer.shown is not None
    assert size in answer.shown.summary


def test_images_that_no_model_takes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(png(more=4_000_000))
    assert "bytes; 3,932,160 is the model's limit" in refused(tmp_path)
    (tmp_path / "f").write_bytes(png(8_001, 10))
    assert "8001 x 10 pixels; 8000 on a side is the limit" in refused(tmp_path)
    with (tmp_path / "f").open("r+b") as file:
        file.truncate(10_000_000_000)  # sparse: it is refused before anything is read
    assert "10,000,000,000 bytes" in refused(tmp_path)


def test_a_document(tmp_path: Path) -> None:
    data = b"%PDF-1.4\n1 0 obj<</Type/Pages/Count 2>>endobj 2 0 obj<</Type /Page>>endobj 3 0 obj<</Type/Page>>endobj"
    (tmp_path / "f").write_bytes(data)
    answer = FakeToolContext(str(tmp_path)).now(READ, file_path="f")
    assert answer.content == (Document("application/pdf", base64.b64encode(data).decode()),)
    assert answer.data["file"]["pages"] == 2
    (tmp_path / "f").write_bytes(b"%PDF-1.7 everything in it is compressed")
    assert FakeToolContext(str(tmp_path)).now(READ, file_path="f").data["file"]["pages"] is None


def test_documents_that_no_model_takes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"%PDF-1.4 /Type/Pages /Count 101")
    assert "has 101 pages; 100 is the limit at once. Choose some with 'pages', such as '1-20'" in refused(tmp_path)
    with (tmp_path / "f").open("r+b") as file:
        file.truncate(33_000_000)
    assert "33,000,000 bytes" in refused(tmp_path)


def notebook(*cells: dict[str, Any]) -> str:
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_a_notebook(tmp_path: Path) -> None:
    picture = base64.b64encode(png()).decode()
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["one\n", "two"]},
        {"output_type": "display_data", "data": {"image/png": picture, "text/plain": "<Figure>"}},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mE\x1b[0m: v"]},
        {"output_type": "execute_result", "data": {"application/json": {"a": [1]}, "text/plain": ["{'a'", ": [1]}"]}},
    ]
    (tmp_path / "n.ipynb").write_text(
        notebook(
            {"cell_type": "markdown", "id": "m", "source": ["# Title\n", "words"]},
            {"cell_type": "code", "id": "c", "source": "print()", "outputs": outputs},
            {"cell_type": "code", "source": []},
        )
    )
    answer = FakeToolContext(str(tmp_path)).now(READ, file_path="n.ipynb")
    assert answer.content == (
        Text(
            '<cell id="m" type="markdown">\n# Title\nwords\n</cell>\n'
            '<cell id="c" type="code">\nprint()\n</cell>\n'
            "<output>\none\ntwo\n<Figure>\nE: v\n{'a': [1]}\n</output>\n[image 1 is below]\n"
            '<cell id="cell-2" type="code">\n\n</cell>\n'
        ),
        Image("image/png", picture),
    )


def test_a_notebook_is_bounded(tmp_path: Path) -> None:
    flood = {"output_type": "stream", "text": "z" * 1_000_000}
    cells = [{"cell_type": "code", "source": "x" * 1_000, "outputs": [flood]} for _ in range(9)]
    (tmp_path / "n.ipynb").write_text(notebook(*cells))
    text = read(tmp_path, "n.ipynb")
    assert len(text) <= MOST_SHOWN
    assert "[... 990,001 characters left out ...]" in text
    assert "1 more cell left out" in text


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3}', '{"cells": [3]}', "[" * 100_000, '{"cells": [{}]}'])
def test_what_is_no_notebook(tmp_path: Path, text: str) -> None:
    (tmp_path / "n.ipynb").write_text(text)
    assert "'n.ipynb' is not a version 4 notebook" in refused(tmp_path, "n.ipynb")


# --- what cannot be read ----------------------------------------------------------------------------


def test_what_blocks_or_never_ends_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name in ("pipe", "socket", "/dev/zero", "/dev/tty", "/proc/self/environ", "/sys/kernel/uevent_seqnum"):
            assert "is no regular file" in refused(tmp_path, name), name
    assert refused(tmp_path, "folder") == "'folder' is a folder: list it with Glob, or with ls in Bash."


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"ELF\0\1\2", "is a binary file"),
        (codecs.BOM_UTF32_LE + b"a\0\0\0", "is UTF-32"),
        ("wide".encode("utf-16-le"), "is a binary file"),
    ],
)
def test_what_is_binary_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "f").write_bytes(data)
    assert said in refused(tmp_path)


def test_a_big_file_of_wide_characters_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(codecs.BOM_UTF16_LE + b"a\0" * WHOLE)
    assert "convert it with iconv" in refused(tmp_path)


def test_a_stray_nul_is_shown_as_a_sign(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\n" * 5_000 + b"b\0c\n")
    assert read(tmp_path, offset=5_001) == "5001\tb\u2400c\n"


def test_a_missing_file_has_near_names(tmp_path: Path) -> None:
    for name in ("Reader.py", "readers.py", "other.txt"):
        (tmp_path / name).touch()
    said = refused(tmp_path, "reader.py")
    assert said == (
        f"'reader.py' does not exist. The working folder is '{tmp_path}'. "
        f"Did you mean '{tmp_path}/Reader.py' or '{tmp_path}/readers.py'?"
    )
    assert refused(tmp_path, f"{tmp_path}/zzz") == f"'{tmp_path}/zzz' does not exist."


def test_near_names_obey_the_rules(tmp_path: Path) -> None:
    (tmp_path / "secrets.env").touch()
    calling = FakeToolContext(str(tmp_path), may_read=lambda path: not path.endswith(".env"))
    with pytest.raises(ToolError) as error:
        calling.now(READ, file_path="secret.env")
    assert "secrets" not in str(error.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "f").touch(mode=0)
    assert refused(tmp_path) == "'f' cannot be read: Permission denied."
