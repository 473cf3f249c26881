"""Edit: exactly there, exactly that, and every other byte as it was."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from processes.steps import names_in

from mainspring.core.errors import ToolError
from mainspring.testing.world import FakeToolContext
from mainspring.tools.edit import EDIT, found_in, replace_text
from mainspring.tools.files import WHOLE, decode_text, encode_text, normalize_newlines
from mainspring.tools.read import READ
from tools.patching import applied


def edited(folder: Path, data: bytes, old: str, new: str, **more: bool) -> bytes:
    file = folder / "f"
    file.write_bytes(data)
    calling = FakeToolContext(str(folder))
    calling.now(READ, file_path="f")
    calling.now(EDIT, file_path="f", old_string=old, new_string=new, **more)
    return file.read_bytes()


def refused(folder: Path, data: bytes, old: str, new: str, **more: bool) -> str:
    """Why, and the file is as it was."""
    with pytest.raises(ToolError) as error:
        edited(folder, data, old, new, **more)
    assert (folder / "f").read_bytes() == data
    return str(error.value)


@pytest.mark.covers("N-01", "N-08")
def test_one_place(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"line {number}\n" for number in range(1, 31)))
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    answer = calling.now(EDIT, file_path="f", old_string="line 12\nline 13\n", new_string="twelve\n")
    assert (tmp_path / "f").read_text().split("\n")[10:13] == ["line 11", "twelve", "line 14"]
    rows = "".join(f"{number}\tline {number}\n" for number in range(8, 12))
    after = "".join(f"{number}\tline {number + 1}\n" for number in range(13, 17))
    assert answer.text == f"'f' was changed. It is now:\n{rows}12\ttwelve\n{after}"
    assert answer.data["structuredPatch"] == [
        {
            "oldStart": 9,
            "oldLines": 8,
            "newStart": 9,
            "newLines": 7,
            "lines": [
                *(" line 9", " line 10", " line 11"),
                *("-line 12", "-line 13", "+twelve"),
                *(" line 14", " line 15", " line 16"),
            ],
        }
    ]
    assert (answer.data["filePath"], answer.data["replaceAll"]) == (str(tmp_path / "f"), False)
    assert answer.shown is not None
    assert (answer.shown.summary, answer.shown.kind) == ("Edited f (+1 -2)", "diff")


def test_every_place(tmp_path: Path) -> None:
    assert edited(tmp_path, b"a b a\nb a\n", "a", "xx", replace_all=True) == b"xx b xx\nb xx\n"
    assert edited(tmp_path, b"aaa", "aa", "b", replace_all=True) == b"ba"
    said = refused(tmp_path, b"a\nb\na\na\n", "a", "c")
    assert said == (
        "'old_string' is in 'f' 3 times: in lines 1, 3, 4. Nothing was done: add lines around it until it is unique, "
        "or set 'replace_all'."
    )


@pytest.mark.parametrize(
    ("data", "old", "new", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "a\nb\nc\n", "a\nB\nc\n", b"a\r\nB\nc\r\n"),
        (b"a\nb\r\nc\n", "b\n", "b\nnew\n", b"a\nb\r\nnew\r\nc\n"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"a\r\nb\r\n", "a\r\nb", "a\nb", b"a\nb\r\n"),
        (b"a\nb\n", "a\nb", "a\r\nb", b"a\r\nb\n"),
        (b"a\r\nb\r\n", "\nb", "", b"a\r\n"),
        (b"a\r\nb\r\n", "a\n", "", b"b\r\n"),
        (b"one\rtwo\n", "two", "2", b"one\r2\n"),
        (codecs.BOM_UTF8 + b"a\n", "a", "b", codecs.BOM_UTF8 + b"b\n"),
        (codecs.BOM_UTF16_LE + "a\r\nñ".encode("utf-16-le"), "ñ", "o\np",
         codecs.BOM_UTF16_LE + "a\r\no\r\np".encode("utf-16-le")),
        (codecs.BOM_UTF16_BE + "a".encode("utf-16-be"), "a", "\u4e2d", codecs.BOM_UTF16_BE + b"\x4e\x2d"),
        (b"a\xe9 caf\xe9\n", "caf", "CAF", b"a\xe9 CAF\xe9\n"),
        (b"no end", "end", "newline", b"no newline"),
        (b"a\\1\n", "a\\1", "\\g<0>", b"\\g<0>\n"),
    ],
)  # fmt: skip
def test_line_ends_marks_and_encodings_are_kept(
    tmp_path: Path, data: bytes, old: str, new: str, expected: bytes
) -> None:
    assert edited(tmp_path, data, old, new) == expected


PIECES = st.lists(
    st.sampled_from([b"a", b"b", b"\n", b"\r\n", b"\r", b"\xff", b"\xc3\xa9", b" ", b"\t", b"\xe2\x80"]), max_size=30
)


@given(
    st.sampled_from([b"", codecs.BOM_UTF8]), PIECES, st.integers(0, 30), st.integers(1, 8), st.text("ab\n", max_size=6)
)
def test_of_any_bytes_only_those_asked_for_change(
    mark: bytes, pieces: list[bytes], start: int, length: int, new: str
) -> None:
    """Some part of the file, as a model would see it, becomes something else."""
    data = mark + b"".join(pieces)
    text, coding = decode_text(data, "f")
    assert encode_text(text, coding) == data
    seen = normalize_newlines(text)
    old = seen[start : start + length]
    assume(old and not any("\ud800" <= sign <= "\udfff" for sign in old) and "\r" not in old)
    spans = found_in(text, old, 100)
    assert spans
    made = replace_text(text, old, spans[:1], new)
    first = spans[0]
    assert normalize_newlines(text[first.start : first.end]) == old
    before, after = encode_text(text[: first.start], coding), text[first.end :].encode("utf-8", "surrogateescape")
    result = encode_text(made.text, coding)
    assert result.startswith(before)
    assert result.endswith(after)
    middle = result[len(before) : len(result) - len(after)].decode()
    assert normalize_newlines(middle) == new
    assert "\r\n" in text or "\r" not in middle


@given(
    st.text("ab\n\r", min_size=1, max_size=40), st.text("ab\n", min_size=1, max_size=3), st.text("xa\n\r", max_size=4)
)
def test_the_patch_of_an_edit_leads_to_the_new_text(
    tmp_path_factory: pytest.TempPathFactory, text: str, old: str, new: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "patched").write_bytes(text.encode())
    calling = FakeToolContext(str(folder))
    calling.now(READ, file_path="patched")
    try:
        answer = calling.now(EDIT, file_path="patched", old_string=old, new_string=new, replace_all=True)
    except ToolError:
        assert old not in normalize_newlines(text) or old == new
        return
    after = normalize_newlines((folder / "patched").read_bytes().decode())
    assert applied(normalize_newlines(text), answer.data["structuredPatch"]) == after


# --- only what was read -----------------------------------------------------------------------------


def test_a_file_must_be_read_first(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    with pytest.raises(ToolError, match=r"'f' was not read yet\. Nothing was done: use Read on it first\."):
        FakeToolContext(str(tmp_path)).now(EDIT, file_path="f", old_string="a", new_string="b")
    assert (tmp_path / "f").read_text() == "a"


def test_a_file_that_changed_since_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("a")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    found = file.stat()
    file.write_text("A")  # of the same size, and made to look as old
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(ToolError, match="'f' changed since it was read"):
        calling.now(EDIT, file_path="f", old_string="A", new_string="b")
    assert file.read_text() == "A"


def test_one_edit_after_the_other_needs_no_reading_between(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    calling.now(EDIT, file_path="f", old_string="a", new_string="b")
    calling.now(EDIT, file_path="f", old_string="b", new_string="c")
    assert (tmp_path / "f").read_text() == "c"


def test_the_mode_is_kept(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    (tmp_path / "f").chmod(0o750)
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    calling.now(EDIT, file_path="f", old_string="a", new_string="b")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o750


def test_through_a_link_the_file_changes_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    (tmp_path / "link").symlink_to("f")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="link")
    calling.now(EDIT, file_path="f", old_string="a", new_string="b")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_text() == "b"


# --- new files --------------------------------------------------------------------------------------


def test_an_empty_text_makes_a_new_file(tmp_path: Path) -> None:
    calling = FakeToolContext(str(tmp_path))
    calling.now(EDIT, file_path="made/new", old_string="", new_string="a\nb\n")
    assert (tmp_path / "made/new").read_bytes() == b"a\nb\n"
    with pytest.raises(ToolError, match="is not empty: say in 'old_string' what to replace"):
        calling.now(EDIT, file_path="made/new", old_string="", new_string="c")
    (tmp_path / "empty").touch()
    calling.now(READ, file_path="empty")
    calling.now(EDIT, file_path="empty", old_string="", new_string="c")
    assert (tmp_path / "empty").read_bytes() == b"c"


def test_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "name.py").touch()
    with pytest.raises(ToolError, match=r"'nam.py' does not exist.*Did you mean '.*/name.py'"):
        FakeToolContext(str(tmp_path)).now(EDIT, file_path="nam.py", old_string="a", new_string="b")


# --- near misses ------------------------------------------------------------------------------------

PYTHON = "def one():\n\treturn 1\n\ndef two():\n\treturn 'two'  \n\n# caf\u00e9 \u201cquoted\u201d\nprint('a\\n')\n"


@pytest.mark.parametrize(
    ("old", "said", "shown"),
    [
        ("def one():\n    return 1", "only in indentation", "1\tdef one():\n2\t\treturn 1\n"),
        ("\treturn 'two'\n\n#", "only in blanks at the ends of lines", "5\t\treturn 'two'  \n6\t\n7\t#"),
        ("def  two ( ):", "only in blanks and tabs within lines", "4\tdef two():\n"),
        ('"quoted"', "only in curly quotes", "7\t# caf\u00e9 \u201cquoted\u201d\n"),
        ("cafe\u0301", "only in accents", "7\t# caf\u00e9"),
        ("DEF ONE", "only in upper and lower case", "1\tdef one():\n"),
        ("print('a\\\\n')", "only in backslashes", "8\tprint('a\\n')\n"),
        ("4\tdef two():\n5\t\treturn 'two'", "It contains line numbers as Read shows them", ""),
        ("     4→def two():", "It contains line numbers as Read shows them", ""),
        ("def two():\n\treturn 'three'\n", "The nearest lines are:", "4\tdef two():\n"),
        ("def three():", "The nearest lines are:", "4\tdef two():\n"),
        ("quite something else, of which nothing is here", "No line is like it", ""),
        ("caf\ufffd", "which replaces bytes that are not text", ""),
    ],
)
def test_a_near_miss_says_what_differs(tmp_path: Path, old: str, said: str, shown: str) -> None:
    text = refused(tmp_path, PYTHON.encode(), old, "x")
    assert text.startswith("The text to replace ('old_string') was not found in 'f'. Nothing was done. ")
    assert said in text
    assert shown in text


def test_a_near_miss_beside_bytes_that_are_no_text_can_be_told(tmp_path: Path) -> None:
    said = refused(tmp_path, b"one  \xff\ntwo\n", "one two", "x")
    said.encode()  # no half characters


def test_a_near_miss_in_a_big_file_takes_no_time(tmp_path: Path) -> None:
    said = refused(tmp_path, b"some line of it\n" * 300_000, "some other line", "x")
    assert said.endswith("Read the lines in question again, and copy them as they are.")


# --- what is refused --------------------------------------------------------------------------------


def test_nothing_to_do(tmp_path: Path) -> None:
    assert "are the same" in refused(tmp_path, b"a", "a", "a")


def test_half_characters_never_become_bytes(tmp_path: Path) -> None:
    assert "'new_string' contains half a character" in refused(tmp_path, b"a\xff", "a", "\udcff")
    assert "'old_string' contains half a character" in refused(tmp_path, b"a\xff", "\udcff", "a")


def test_what_is_no_text_is_not_edited(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xff\xfea")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    with pytest.raises(ToolError, match="begins like UTF-16 but is not valid"):
        calling.now(EDIT, file_path="f", old_string="a", new_string="b")


def test_sizes_are_bounded(tmp_path: Path) -> None:
    big = "b" * 1_000_000
    assert "is the limit. Nothing was done" in refused(tmp_path, b"a" * 20, "a", big, replace_all=True)
    assert "more than 100,000 times" in refused(tmp_path, b"a" * 200_000, "a", "b", replace_all=True)
    with (tmp_path / "big").open("wb") as file:
        file.truncate(WHOLE + 1)
    with pytest.raises(ToolError, match="is the limit for edits: use Bash for it"):
        FakeToolContext(str(tmp_path)).now(EDIT, file_path="big", old_string="a", new_string="b")


def test_what_blocks_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, old in (("pipe", "a"), ("folder", "a"), ("/dev/null", "a"), ("folder", ""), ("new/", "")):
        with pytest.raises(ToolError, match=r"is a folder|is no regular file"):
            FakeToolContext(str(tmp_path)).now(EDIT, file_path=name, old_string=old, new_string="b")
    assert names_in(tmp_path) == ["folder", "pipe"]
