"""Read: some pages of a PDF document. The library that cuts them out is an extra; without it there are clear words."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.errors import ToolError
from mainspring.core.messages import Document, Text
from mainspring.testing.world import FakeToolContext
from mainspring.tools import media
from mainspring.tools.pdf_pages import NO_LIBRARY
from mainspring.tools.read import READ


@pytest.fixture
def pypdf() -> Any:
    return pytest.importorskip("pypdf", reason="of the extra 'pdf', which the development packages hold")


def document(pypdf: Any, pages: int, *, password: str = "") -> bytes:
    """Each page is wider than the one before it."""
    writer, made = pypdf.PdfWriter(), io.BytesIO()
    for number in range(1, pages + 1):
        writer.add_blank_page(100 + number, 100)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    writer.write(made)
    return made.getvalue()


def refused(folder: Path, pages: str, name: str = "f") -> str:
    with pytest.raises(ToolError) as error:
        FakeToolContext(str(folder)).now(READ, file_path=name, pages=pages)
    return str(error.value)


@pytest.mark.parametrize(
    ("pages", "shown", "numbers"),
    [("3", "3", [3]), ("1-5", "1-5", [1, 2, 3, 4, 5]), (" 10 - 29 ", "10-25", [*range(10, 26)]), ("25", "25", [25])],
)
def test_pages(tmp_path: Path, pypdf: Any, pages: str, shown: str, numbers: list[int]) -> None:
    (tmp_path / "f").write_bytes(document(pypdf, 25))
    answer = FakeToolContext(str(tmp_path)).now(READ, file_path="f", pages=pages)
    said, cut = answer.content
    assert said == Text(f"[Pages {shown} of 25 of 'f'.]")
    assert isinstance(cut, Document)
    found = pypdf.PdfReader(io.BytesIO(base64.b64decode(cut.data)))
    assert [int(page.mediabox.width) - 100 for page in found.pages] == numbers
    assert answer.data["file"]["pages"] == 25


def test_a_document_that_is_too_long_for_a_model_can_be_read_in_parts(tmp_path: Path, pypdf: Any) -> None:
    (tmp_path / "f").write_bytes(document(pypdf, media.MOST_PAGES + 1))
    with pytest.raises(ToolError, match=r"has 101 pages; 100 is the limit at once\. Choose some with 'pages'"):
        FakeToolContext(str(tmp_path)).now(READ, file_path="f")
    assert FakeToolContext(str(tmp_path)).now(READ, file_path="f", pages="101").text == "[Pages 101 of 101 of 'f'.]"


def test_pages_that_are_not_there(tmp_path: Path, pypdf: Any) -> None:
    (tmp_path / "f").write_bytes(document(pypdf, 2))
    assert refused(tmp_path, "3-4") == "'f' has 2 pages, none from 3 on: choose others with 'pages'."


def test_documents_that_cannot_be_cut(tmp_path: Path, pypdf: Any) -> None:
    (tmp_path / "f").write_bytes(document(pypdf, 2, password="secret"))
    assert refused(tmp_path, "1").startswith("Pages of 'f' cannot be cut out: FileNotDecryptedError: ")
    (tmp_path / "f").write_bytes(b"%PDF-1.4\nand then nothing that is known")
    assert refused(tmp_path, "1").startswith("Pages of 'f' cannot be cut out: ")


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ("x", "'pages' is 'x': give one page, such as '3', or some, such as '1-5'."),
        ("1,3", "'pages' is '1,3': give one page, such as '3', or some, such as '1-5'."),
        ("0", "'pages' is '0': pages are counted from 1, and the first page comes first."),
        ("5-3", "'pages' is '5-3': pages are counted from 1, and the first page comes first."),
        ("1-21", "'pages' is '1-21': 20 pages is the limit. Read the rest with another call."),
    ],
)
def test_pages_that_make_no_sense(tmp_path: Path, pages: str, said: str) -> None:
    (tmp_path / "f").write_bytes(b"%PDF-1.4")
    assert refused(tmp_path, pages) == said


def test_pages_of_what_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("text\n")
    assert refused(tmp_path, "1") == ("'f' is not a PDF document: leave 'pages' out, and use 'offset' and 'limit'.")
    assert FakeToolContext(str(tmp_path)).now(READ, file_path="f", pages="").text == "1\ttext\n"


def ends_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """The interpreter that is started for it is one that only ends."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def test_without_the_library_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; sys.modules['pypdf'] = None; from mainspring.tools.pdf_pages import main; sys.exit(main())"
    assert subprocess.run([sys.executable, "-c", code, "1", "1"], check=False).returncode == NO_LIBRARY
    (tmp_path / "f").write_bytes(b"%PDF-1.4")
    ends_with(tmp_path, monkeypatch, NO_LIBRARY)
    said = refused(tmp_path, "1")
    assert "'pypdf' is not installed ('pip install mainspring[pdf]')" in said
    assert "Leave 'pages' out to read all of 'f', or use 'pdftotext" in said


def test_a_program_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"%PDF-1.4")
    ends_with(tmp_path, monkeypatch, 99)
    assert "cannot be cut out: the program that cuts it ended with 99" in refused(tmp_path, "1")
