"""Files that the model has read, and that are not what they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.context.attachments import MANNERS, AttachmentKind, render_attachment
from mainspring.context.file_changes import LINES, MOST_NAMED, MOST_SHOWN, FileChanges, diff_changed_lines
from mainspring.processes.atomic_write import ReadSet
from mainspring.processes.paths import resolve_path


class Desk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read = ReadSet()
        self.changes = FileChanges(self.read)

    def model_reads(self, name: str, text: str | None = None) -> Path:
        """As the tools do it: the bytes are remembered, then we hear of the call."""
        path = self.folder / name
        if text is not None:
            path.write_text(text)
        where = resolve_path(str(path), "/")
        self.read.remember(where, path.read_bytes())
        self.changes.saw(where)
        return path

    def news(self) -> str | None:
        found = self.changes.news()
        return found.text if found is not None else None


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.covers("B-28")
def test_a_change_by_others_is_shown_once(desk: Desk) -> None:
    path = desk.model_reads("a.py", "one\ntwo\nthree\nfour\n")
    other = desk.model_reads("b.py", "b")
    assert desk.news() is None
    path.write_text("one\nTWO\nmore\nthree\nfour\n")
    assert desk.news() == f"'{path}' changed:\n@@ -2,1 +2,2 @@\n-two\n+TWO\n+more"
    assert desk.news() is None
    other.unlink()
    assert desk.news() == f"'{other}' is gone, or is no longer a regular file."
    assert desk.news() is None


def test_the_models_own_edits_are_no_news(desk: Desk) -> None:
    path = desk.model_reads("a.py", "one\n")
    path.write_text("by the model\n")
    desk.read.remember(
        resolve_path(str(path), "/"), path.read_bytes()
    )  # as Edit does, before anybody hears of the call
    assert desk.news() is None
    os.utime(path, (1, 1))
    assert desk.news() is None  # only its time
    path.write_text("by a formatter\n")
    assert desk.news() == f"'{path}' changed:\n@@ -1,1 +1,1 @@\n-by the model\n+by a formatter"


def test_a_change_before_we_heard_of_the_call_is_news_too(desk: Desk) -> None:
    path = desk.folder / "a.py"
    path.write_text("as read\n")
    where = resolve_path(str(path), "/")
    desk.read.remember(where, b"as read\n")
    path.write_text("as it is\n")
    desk.changes.saw(where)
    assert desk.news() == f"'{path}' changed. Read it again before you rely on it."
    assert desk.news() is None


def test_a_link_in_its_place_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    path = desk.model_reads("a.py", "one\n")
    path.unlink()
    path.symlink_to(secret)
    assert desk.news() == f"'{path}' is gone, or is no longer a regular file."


def test_large_files_and_many_of_them_are_only_named(desk: Desk) -> None:
    large = desk.model_reads("large", "x" * 200_000)
    binary = desk.model_reads("binary", "a\0b")
    vast = desk.model_reads("vast", "x" * 3_000_000)
    for path in (large, binary, vast):
        path.write_text("other")
    news = desk.news()
    assert news is not None
    assert news.count("Read it again") == 3
    paths = [desk.model_reads(f"{n}.py", f"{n}\n" * 5_000) for n in range(40)]
    for path in paths:
        path.write_text("x" * 10_000 + "\n" + "other\n" * 5_000)
    attachment = desk.changes.news()
    assert attachment is not None
    assert attachment.text.count("@@ -") == MOST_SHOWN
    assert attachment.text.count(" changed, too.") == MOST_NAMED - MOST_SHOWN
    assert "So did 20 more." in attachment.text
    assert len(render_attachment(attachment).text) < MANNERS[AttachmentKind.CHANGED].most + 400


def test_unchanged_files_are_no_news(desk: Desk) -> None:
    for n in range(300):
        path = desk.folder / f"{n}.py"
        path.write_text("text\n")
        os.utime(path, (1_000_000, 1_000_000))  # what was written just now is read once more, to be sure
        desk.model_reads(path.name)
    assert desk.news() is None


@given(before=st.lists(st.sampled_from("abc")), now=st.lists(st.sampled_from("abc")))
def test_a_difference_leads_from_one_to_the_other(before: list[str], now: list[str]) -> None:
    head, *lines = diff_changed_lines(before, now).split("\n")
    old = [line[1:] for line in lines if line.startswith("-")]
    new = [line[1:] for line in lines if line.startswith("+")]
    if len(old) < LINES and len(new) < LINES:
        start = int(head.split(",")[0].removeprefix("@@ -")) - 1
        assert before[start : start + len(old)] == old
        assert before[:start] + new + before[start + len(old) :] == now
