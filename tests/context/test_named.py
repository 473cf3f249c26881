"""Files and folders that a prompt names: brought along by the rules for reading, and nothing else."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.agent.media import medium_in
from mainspring.context import mentions as limits
from mainspring.context.attachments import Attachment, AttachmentKind, render_attachment
from mainspring.context.mentions import (
    ASKS,
    DENIED,
    EMPTY,
    NO_TEXT,
    TOO_MANY,
    MentionAttachment,
    MentionScope,
    Verdict,
    lines_of,
    resolve_mentions,
)
from mainspring.core.messages import Document, Image
from mainspring.processes.atomic_write import ReadSet, digest
from mainspring.processes.paths import is_within, resolve_path
from mainspring.providers.projection import LARGEST_DOCUMENT
from mainspring.tools import media


class Desk:
    def __init__(self, cwd: Path, home: Path) -> None:
        self.cwd, self.home = cwd, home
        self.known = ReadSet()
        self.denied: set[Path] = set()
        self.asked: list[str] = []

    async def may(self, path: str) -> Verdict:
        """As the rules have it by default: what is in the folder may be read, the rest is asked for."""
        self.asked.append(path)
        if Path(path) in self.denied:
            return "deny"
        return "allow" if is_within(path, str(self.cwd)) else "ask"

    def bring(self, text: str) -> dict[str, str]:
        """By the path, as seen from the folder."""
        return {os.path.relpath(one.name, self.cwd): one.text for one in self.attachments(text)}

    def attachments(self, text: str) -> list[Attachment]:
        return [one.attachment for one in self.named(text)]

    def told(self, text: str) -> dict[str, tuple[str, str]]:
        """By the name as it was written: what was brought, or why it was not."""
        return {one.path.asked: (one.what, one.why_not) for one in self.named(text)}

    def named(self, text: str) -> tuple[MentionAttachment, ...]:
        def listed(path: str) -> bool:
            return Path(path) not in self.denied

        reach = MentionScope(str(self.cwd), str(self.home), self.may, listed, self.known, medium_in)
        return asyncio.run(resolve_mentions(text, reach))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    cwd = tmp_path / "work"
    (cwd / "src").mkdir(parents=True)
    (cwd / "a.py").write_text("one\ntwo\nthree\n")
    (cwd / "src" / "b c.txt").write_text("blank")
    (tmp_path / "secret.md").write_text("swordfish")
    return Desk(cwd, tmp_path)


@pytest.mark.covers("O-05")
def test_a_file_is_brought_with_its_lines_and_counts_as_read(desk: Desk) -> None:
    [found] = desk.attachments("What is in @a.py? And (@a.py), @./a.py.")
    assert found == Attachment(AttachmentKind.FILE, str(desk.cwd / "a.py"), "1\tone\n2\ttwo\n3\tthree")
    assert desk.known.of(resolve_path("a.py", str(desk.cwd))) == digest(b"one\ntwo\nthree\n")
    assert render_attachment(found).text.startswith(f'<system-reminder kind="file" name="{desk.cwd}/a.py">')


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("@a.py#L2", "2\ttwo"),
        ("@a.py#L2-3", "2\ttwo\n3\tthree"),
        ("@a.py#L2-L9.", "2\ttwo\n3\tthree"),
        ("@a.py#L3-1", "3\tthree"),
        ("@a.py#L0", "1\tone"),
        ("@a.py#L7", "[It has 3 lines, none from 7 on.]"),
        ('@"a.py"#L2', "2\ttwo"),
    ],
)
def test_some_lines_of_it(text: str, rows: str, desk: Desk) -> None:
    assert desk.bring(text) == {"a.py": rows}


@pytest.mark.parametrize("text", ['see @"src/b c.txt" now', "see @src/b\\ c.txt now", '(@"src/b c.txt")'])
def test_a_blank_in_a_name(text: str, desk: Desk) -> None:
    assert desk.bring(text) == {"src/b c.txt": "1\tblank"}


def test_a_name_that_looks_like_lines_is_a_name_where_it_is_one(desk: Desk) -> None:
    (desk.cwd / "a.py#L2").write_text("odd")
    assert desk.bring("@a.py#L2") == {"a.py#L2": "1\todd"}


@pytest.mark.parametrize(
    "text",
    [
        "write to me@a.py",
        "@pytest.fixture\ndef x(): ...",
        "@app.route('/x') @property @alice @types/node @org/team",
        "in code: `@a.py`\n```\n@a.py\n```",
        "@missing.py @src/missing @/nowhere/at-all @~/nowhere",
        "@ and @@a.py and @\0",
        f"@{'x' * 5_000}",
        "@a.py/deeper",
        "nothing at all",
    ],
)
def test_what_names_no_file_brings_nothing(text: str, desk: Desk) -> None:
    assert desk.attachments(text) == []
    assert desk.asked == []


# --- rules ------------------------------------------------------------------------------------------


@pytest.mark.covers("O-05")
def test_what_may_not_be_read_is_not_brought(desk: Desk) -> None:
    (desk.cwd / ".env").write_text("KEY=swordfish")
    desk.denied = {desk.cwd / ".env"}
    (desk.cwd / "link.md").symlink_to("../secret.md")
    (desk.cwd / "harmless.md").symlink_to(".env")
    brought = desk.bring("@.env @../secret.md @~/secret.md @link.md @harmless.md")
    assert brought == {".env": DENIED, "../secret.md": ASKS}
    assert "swordfish" not in str(brought)
    assert desk.known.newest() == []


def test_every_name_of_a_link_is_asked_for(desk: Desk) -> None:
    (desk.cwd / "link.py").symlink_to("a.py")
    desk.denied = {desk.cwd / "link.py"}
    assert desk.bring("@link.py") == {"a.py": DENIED}


def test_what_would_block_or_never_end_is_told_and_not_read(desk: Desk) -> None:
    os.mkfifo(desk.cwd / "pipe")
    (desk.cwd / "binary.bin").write_bytes(b"\x7fELF\0\0")
    (desk.cwd / "huge.log").write_text("x" * (limits.LARGEST + 1))
    (desk.cwd / "empty.txt").touch()
    (desk.cwd / "zero").symlink_to("/dev/zero")
    brought = desk.bring("@pipe @binary.bin @huge.log @empty.txt @zero @/proc/self/environ")
    assert brought["binary.bin"] == NO_TEXT
    assert brought["empty.txt"] == EMPTY
    told = {name: text for name, text in brought.items() if name not in ("binary.bin", "empty.txt")}
    assert len(told) == 4
    assert all(text.startswith("[Not attached: ") for text in told.values())
    assert "has more than 262,144 bytes" in told["huge.log"]
    assert [path.rpartition("/")[2] for path in desk.known.newest()] == ["empty.txt"]


# --- images and documents ---------------------------------------------------------------------------


def png(width: int, height: int, more: int = 0) -> bytes:
    """The beginning of one, which is all that is looked at, and some bytes."""
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size + b"\0" * (8 + more)


def pdf(pages: int) -> bytes:
    return b"%PDF-1.4\n" + b"\0/Type /Page\n" * pages


def test_an_image_goes_along_as_it_is_and_counts_as_read(desk: Desk) -> None:
    data = png(640, 480)
    (desk.cwd / "shot.txt").write_bytes(data)  # by its bytes, not by its name
    [found] = desk.attachments("What is wrong in @shot.txt?")
    assert found == Attachment(
        AttachmentKind.MEDIA,
        str(desk.cwd / "shot.txt"),
        "[PNG image, 640 x 480: it follows.]",
        (Image("image/png", b64encode(data).decode()),),
    )
    message = render_attachment(found)
    assert message.content[1:] == found.media
    assert message.text.startswith('<system-reminder kind="image or document"')
    assert desk.known.of(resolve_path("shot.txt", str(desk.cwd))) == digest(data)


def test_a_pdf_goes_along_as_a_document(desk: Desk) -> None:
    data = pdf(3)
    (desk.cwd / "a.pdf").write_bytes(data)
    [found] = desk.attachments("@a.pdf")
    assert found.media == (Document("application/pdf", b64encode(data).decode()),)
    assert desk.told("@a.pdf") == {"a.pdf": ("PDF, 3 pages", "")}


def test_what_no_model_takes_is_not_sent_and_why_is_said_to_both(desk: Desk) -> None:
    (desk.cwd / "huge.png").write_bytes(png(10, 10, media.MOST_IMAGE_BYTES))
    (desk.cwd / "wide.png").write_bytes(png(9_000, 10))
    (desk.cwd / "long.pdf").write_bytes(pdf(101))
    huge = desk.cwd / "huge.pdf"
    huge.write_bytes(pdf(1))
    os.truncate(huge, LARGEST_DOCUMENT)  # a hole: nothing of it is read
    names = "@huge.png @wide.png @long.pdf @huge.pdf"
    size = media.MOST_IMAGE_BYTES + len(png(10, 10))
    whys = {
        "huge.png": f"it has {size:,} bytes; {media.MOST_IMAGE_BYTES:,} is the model's limit",
        "wide.png": "it has 9000 x 10 pixels; 8000 on a side is the limit",
        "long.pdf": "it has 101 pages; 100 is the limit at once",
        "huge.pdf": f"it has {LARGEST_DOCUMENT:,} bytes; {LARGEST_DOCUMENT // 4 * 3:,} is the model's limit",
    }
    assert desk.told(names) == {name: ("", why) for name, why in whys.items()}
    found = desk.attachments(names)
    assert [one.media for one in found] == [()] * 4
    for one, why in zip(found, whys.values(), strict=True):
        assert one.text.startswith(f"[Not attached: {why}. ")
    assert desk.known.newest() == []


def test_rules_hold_for_images_too(desk: Desk) -> None:
    secret = desk.home / "secret.png"
    secret.write_bytes(png(1, 1))
    (desk.cwd / "key.png").write_bytes(png(1, 1))
    desk.denied = {desk.cwd / "key.png"}
    assert [one.media for one in desk.attachments("@../secret.png @key.png")] == [(), ()]


def test_the_images_of_one_prompt_have_a_limit_and_files_after_it_still_come(desk: Desk) -> None:
    each = media.MOST_IMAGE_BYTES - 100
    for number in range(4):
        (desk.cwd / f"{number}.png").write_bytes(png(10, 10, each))
    told = desk.told("@0.png @1.png @2.png @3.png @a.py")
    assert [what for what, _ in told.values()] == ["PNG image, 10 x 10"] * 2 + ["", "", "3 lines"]
    assert told["2.png"][1] == "the prompt names more than fits"


@given(st.binary(max_size=60).map(lambda rest: b"\x89PNG\r\n\x1a\n" + rest) | st.just(b"%PDF-"))
def test_a_broken_image_or_document_does_no_harm(data: bytes) -> None:
    """A model may say that it sees nothing in it; nothing here fails."""
    with TemporaryFile() as file:
        file.write(data)
        file.flush()
        file.seek(0)
        found = medium_in(file.fileno(), "it")
    assert found is not None
    assert (found.content is None) is bool(found.why_not)


# --- what the person is told ------------------------------------------------------------------------


def test_the_person_is_told_of_each_name(desk: Desk) -> None:
    (desk.cwd / "many.txt").write_text("x\n" * 3_000)
    (desk.cwd / "empty").touch()
    (desk.cwd / "binary").write_bytes(b"\x7fELF\0")
    (desk.cwd / ".env").touch()
    desk.denied = {desk.cwd / ".env"}
    told = desk.told('@a.py @many.txt @"src/b c.txt" @src @empty @binary @../secret.md @.env @nobody')
    assert told == {
        "a.py": ("3 lines", ""),
        "many.txt": ("lines 1-2000 of 3,000", ""),
        "src/b c.txt": ("1 line", ""),
        "src": ("folder, 1 name", ""),
        "empty": ("empty", ""),
        "binary": ("", "it is neither text nor an image nor a PDF"),
        "../secret.md": ("", "reading it needs your consent"),
        ".env": ("", "a rule keeps it from being read"),
    }
    assert desk.told("@a.py#L2-3") == {"a.py": ("lines 2-3 of 3", "")}
    assert desk.told("@a.py#L9") == {"a.py": ("", "It has 3 lines, none from 9 on")}


# --- sizes ------------------------------------------------------------------------------------------


def test_a_long_file_is_cut_and_the_model_told_where_to_go_on(desk: Desk) -> None:
    (desk.cwd / "many.txt").write_text("\n".join([str(n) for n in range(1, 5_001)]))
    (desk.cwd / "wide.txt").write_text("x" * 10_000 + "\n" + "y\n" * 50)
    (desk.cwd / "broad.txt").write_text(("z" * 1_000 + "\n") * 200)
    brought = desk.bring("@many.txt @wide.txt @broad.txt @many.txt#L4000-4002")
    assert brought["many.txt"] == "4000\t4000\n4001\t4001\n4002\t4002"  # the second: of one file, two parts
    [many, wide, broad, _] = desk.attachments("@many.txt @wide.txt @broad.txt @many.txt#L4000-4002")
    assert many.text.endswith("2000\t2000\n[Lines 1-2000 of 5,000. The Read tool goes on with offset=2001.]")
    assert wide.text.startswith(f"1\t{'x' * 2_000} [... cut]\n2\ty\n")
    assert wide.text.endswith("51\ty")
    assert broad.text.endswith("[Lines 1-39 of 200. The Read tool goes on with offset=40.]")
    assert len(broad.text) < limits.MOST_TEXT + 100


def test_one_prompt_brings_only_so_much(desk: Desk) -> None:
    for n in range(30):
        (desk.cwd / f"{n}.txt").write_text(f"{n}\n" if n < 25 else "x")
    brought = desk.bring(" ".join([f"@{n}.txt" for n in range(30)]))
    assert len([text for text in brought.values() if text != TOO_MANY]) == limits.MOST
    assert (len(brought), list(brought.values())[limits.MOST :]) == (30, [TOO_MANY] * 10)
    for n in range(10):
        (desk.cwd / f"{n}.txt").write_text("word " * 50_000)
    sizes = [len(one.text) for one in desk.attachments(" ".join([f"@{n}.txt" for n in range(10)]))]
    assert sum(sizes) < limits.TOTAL + 10 * 200


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfa\r\nb\r\n", b"a\nb", b"a\nb\n"])
def test_lines_are_those_that_read_counts(data: bytes, desk: Desk) -> None:
    (desk.cwd / "x").write_bytes(data)
    assert desk.bring("@x") == {"x": "1\ta\n2\tb"}


def test_only_line_ends_end_a_line(desk: Desk) -> None:
    (desk.cwd / "x").write_text("a\x0cb\u2028c\nd")
    assert desk.bring("@x") == {"x": "1\ta\x0cb\u2028c\n2\td"}


# --- folders ----------------------------------------------------------------------------------------


@pytest.mark.covers("O-05")
def test_a_folder_is_brought_as_its_list(desk: Desk) -> None:
    (desk.cwd / "src" / "deep").mkdir()
    (desk.cwd / "src" / "deep" / "x.py").touch()
    (desk.cwd / "src" / ".env").touch()
    desk.denied = {desk.cwd / "src" / ".env"}
    [found] = desk.attachments("@src/")
    assert found == Attachment(AttachmentKind.FOLDER, str(desk.cwd / "src"), "b c.txt\ndeep/")
    assert desk.bring("@../") == {"..": ASKS}


def test_a_large_folder_has_an_end(desk: Desk) -> None:
    for n in range(limits.MOST_ENTRIES + 5):
        (desk.cwd / "src" / f"{n:04}").touch()
    rows = desk.bring("@src")["src"].split("\n")
    assert len(rows) == limits.MOST_ENTRIES + 1
    assert rows[-1] == "[The first 500 of more.]"


@given(st.text(alphabet='@#L-123"\\ .a/~(\n`', max_size=80))
def test_any_prompt_is_looked_through_without_harm(text: str) -> None:
    async def never(path: str) -> Verdict:
        return "deny"

    reach = MentionScope("/nowhere", "/nowhere", never, lambda _: False)
    found = [one.attachment for one in asyncio.run(resolve_mentions(text, reach))]
    assert all(one.text == DENIED for one in found if one.name != "/nowhere")


@given(st.text(alphabet="a#L-0123", min_size=1, max_size=20))
def test_lines_are_in_order(name: str) -> None:
    path, span = lines_of(name)
    assert name.startswith(path)
    assert span.first >= 1
    assert span.last is None or span.last >= span.first
