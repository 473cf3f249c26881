"""Write: a whole file, over nothing or over what was read."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes.steps import names_in

from mainspring.core.errors import ToolError
from mainspring.testing.world import FakeToolContext
from mainspring.tools.files import WHOLE, normalize_newlines
from mainspring.tools.read import READ
from mainspring.tools.write import WRITE
from tools.patching import applied


@pytest.mark.covers("N-01")
def test_a_new_file(tmp_path: Path) -> None:
    answer = FakeToolContext(str(tmp_path)).now(WRITE, file_path="a/b/f", content="one\r\ntwo\n\u4e2d")
    assert (tmp_path / "a/b/f").read_bytes() == "one\r\ntwo\n\u4e2d".encode()
    assert answer.text == "File created successfully at: a/b/f"
    assert (answer.data["type"], answer.data["originalFile"]) == ("create", None)


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\n", "b\n", b"b\n"),
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),  # all of its lines ended so
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n"),  # mixed: as it was sent
        (b"a\r\n", "x\ny\r\n", b"x\ny\r\n"),  # whoever sends a carriage return means it
        (codecs.BOM_UTF8 + b"a", "b", codecs.BOM_UTF8 + b"b"),
        (codecs.BOM_UTF8 + b"a", "\ufeffb", codecs.BOM_UTF8 + b"b"),
        (codecs.BOM_UTF16_LE + "a\r\n".encode("utf-16-le"), "b\n", codecs.BOM_UTF16_LE + "b\r\n".encode("utf-16-le")),
        (b"a\xff", "\u00e9", b"\xc3\xa9"),
        (b"", "", b""),
    ],
)
def test_over_a_file_that_was_read(tmp_path: Path, before: bytes, content: str, after: bytes) -> None:
    file = tmp_path / "f"
    file.write_bytes(before)
    file.chmod(0o640)
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    calling.now(WRITE, file_path="f", content=content)
    assert file.read_bytes() == after
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    calling.now(WRITE, file_path="f", content="again")  # what was written counts as read
    assert names_in(tmp_path) == ["f"]


def test_what_it_came_to(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("1\n2\n3\n")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    answer = calling.now(WRITE, file_path="f", content="1\n2\nthree\n4\n")
    assert answer.text == (
        "'f' was replaced: 3 lines before, 4 now. The first change is here:\n1\t1\n2\t2\n3\tthree\n4\t4\n"
    )
    assert answer.data["structuredPatch"][0]["lines"] == [" 1", " 2", "-3", "+three", "+4"]
    assert answer.shown is not None
    assert answer.shown.summary == "Wrote f (+2 -1)"


@given(st.text("ab\n\r", max_size=30), st.text("ab\n\r", max_size=30))
def test_the_patch_leads_to_the_new_text(tmp_path_factory: pytest.TempPathFactory, old: str, new: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "rewritten").write_bytes(old.encode())
    calling = FakeToolContext(str(folder))
    calling.now(READ, file_path="rewritten")
    answer = calling.now(WRITE, file_path="rewritten", content=new)
    assert applied(normalize_newlines(old), answer.data["structuredPatch"]) == normalize_newlines(new)


def test_a_file_that_was_not_read_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("precious")
    with pytest.raises(ToolError, match="'f' was not read yet"):
        FakeToolContext(str(tmp_path)).now(WRITE, file_path="f", content="x")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    file.write_text("changed by a person")
    with pytest.raises(ToolError, match="'f' changed since it was read"):
        calling.now(WRITE, file_path="f", content="x")
    assert file.read_text() == "changed by a person"


def test_what_is_no_file_is_not_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for name in ("pipe", "folder", "new/", "/dev/null", "/proc/self/comm"):
        with pytest.raises(ToolError, match=r"(is a folder|is no regular file).*\. Nothing was done: name a file\."):
            FakeToolContext(str(tmp_path)).now(WRITE, file_path=name, content="x")
    with pytest.raises(ToolError, match="which is no folder"):
        FakeToolContext(str(tmp_path)).now(WRITE, file_path="file/below", content="x")
    assert names_in(tmp_path) == ["file", "folder", "pipe"]


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="'content' contains half a character"):
        FakeToolContext(str(tmp_path)).now(WRITE, file_path="f", content="\ud800")
    with pytest.raises(ToolError, match=r"'content' has 10,000,001 bytes; 10,000,000 is the limit"):
        FakeToolContext(str(tmp_path)).now(WRITE, file_path="f", content="x" * (WHOLE + 1))
    assert names_in(tmp_path) == []
    with pytest.raises(ToolError, match="cannot be written: File name too long"):
        FakeToolContext(str(tmp_path)).now(WRITE, file_path="missing/" + "n" * 300, content="x")
