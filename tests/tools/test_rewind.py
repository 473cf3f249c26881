"""Going back to what files were when a prompt came: every file that a tool has changed since, and no other."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tiers import long

from mainspring.checkpoints.entries import FileEntry
from mainspring.checkpoints.scan import CheckpointLimits
from mainspring.checkpoints.store import digest_of
from mainspring.core.errors import UsageError
from mainspring.secrets import held
from tools.rewind_stage import OLD, Bench

NOTEBOOK = (
    '{"cells": [{"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "source": ["1"]}], "nbformat": 4}'
)


def play(folder: Path, main: Callable[[Bench], Awaitable[None]], limits: CheckpointLimits | None = None) -> None:
    async def staged() -> None:
        bench = Bench(folder, limits=limits)
        await main(bench)
        await bench.close()

    asyncio.run(staged())


def test_all_tools_that_edit(tmp_path: Path) -> None:
    """Content and mode; what was not there is removed; nothing else is touched. The answer counts lines."""

    async def main(bench: Bench) -> None:
        work = bench.work
        (work / "edited").write_text("1\n2\n3\n")
        (work / "edited").chmod(0o750)
        (work / "written").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
        (work / "book.ipynb").write_text(NOTEBOOK)
        (work / "other").write_text("o")
        await bench.prompt("p")
        for name in ("edited", "written", "book.ipynb"):
            await bench.call("Read", file_path=name)
        await bench.call("Edit", file_path="edited", old_string="2\n", new_string="two\nand\n")
        (work / "edited").chmod(0o600)
        await bench.call("Write", file_path="written", content="a\nc\n")
        await bench.call("NotebookEdit", notebook_path="book.ipynb", cell_id="a", new_source="2")
        await bench.call("Write", file_path="a/b/new", content="x\ny\n")
        await bench.end()
        (work / "other").write_text("somebody else's")
        answer = await bench.back("p")
        assert answer == {
            "canRewind": True,
            "filesChanged": [str(work / name) for name in ("a/b/new", "book.ipynb", "edited", "written")],
            "insertions": 3,  # '2', 'b', a line of the notebook,
            "deletions": 6,  # and 'two', 'and', 'c', a line of the notebook, 'x', 'y'
        }
        assert (work / "edited").read_text() == "1\n2\n3\n"
        assert (work / "edited").stat().st_mode & 0o777 == 0o750
        assert (work / "written").read_bytes() == b"\xef\xbb\xbfa\r\nb\r\n"
        assert (work / "book.ipynb").read_text() == NOTEBOOK
        assert not (work / "a").exists()
        assert (work / "other").read_text() == "somebody else's"
        again = await bench.back("p")
        assert again == {"canRewind": True, "filesChanged": [], "insertions": 0, "deletions": 0}

    play(tmp_path, main)


def test_whatever_somebody_made_of_it(tmp_path: Path) -> None:
    """Changed, removed, or made anew: a tool had changed it, so it is put back."""

    async def main(bench: Bench) -> None:
        for name in ("changed", "removed"):
            (bench.work / name).write_text("old")
        await bench.prompt("p")
        for name in ("changed", "removed", "made"):
            await bench.write(name, "new")
        await bench.end()
        (bench.work / "changed").write_text("by an editor")
        (bench.work / "removed").unlink()
        (bench.work / "made").write_text("by an editor")
        await bench.back("p")
        assert {file.name: file.read_text() for file in bench.work.iterdir()} == {"changed": "old", "removed": "old"}

    play(tmp_path, main)


def test_the_model_must_read_it_again(tmp_path: Path) -> None:
    """What was read is known by content: after the way back an edit is refused, until the file has been read."""

    async def main(bench: Bench) -> None:
        (bench.work / "f").write_text("old")
        await bench.prompt("p")
        await bench.write("f", "new")
        await bench.back("p")
        refused = await bench.desk.call("Edit", file_path="f", old_string="old", new_string="x")
        assert "changed since it was read" in refused.answer.text
        await bench.call("Read", file_path="f")
        await bench.call("Edit", file_path="f", old_string="old", new_string="x")

    play(tmp_path, main)


def test_an_unknown_prompt(tmp_path: Path) -> None:
    async def main(bench: Bench) -> None:
        await bench.prompt("p")
        with pytest.raises(UsageError, match=r"No file checkpoint found for message 'q'"):
            await bench.back("q")

    play(tmp_path, main)


# --- what is left alone -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["link", "folder link", "folder", "pipe"])
def test_no_link_is_followed(tmp_path: Path, kind: str) -> None:
    """A link or a folder in the place of a file, or of its folder, goes; nothing behind it is touched. What is neither
    is left alone and named; the rest is put back."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("of somebody")

    async def main(bench: Bench) -> None:
        folder = bench.work / "d"
        folder.mkdir()
        (folder / "f").write_text("old")
        (bench.work / "g").write_text("old")
        await bench.prompt("p")
        await bench.write("d/f", "new")
        await bench.write("g", "new")
        (folder / "f").unlink()
        if kind == "link":
            (folder / "f").symlink_to(outside / "f")
        elif kind == "folder":
            (folder / "f").mkdir()
        elif kind == "pipe":
            os.mkfifo(folder / "f")
        else:
            folder.rmdir()
            folder.symlink_to(outside)
        if kind == "pipe":
            with pytest.raises(UsageError, match=r"Restored 1 file, but not '.*d/f' \(it is not a regular file now"):
                await bench.back("p")
            assert stat.S_ISFIFO((folder / "f").lstat().st_mode)
        else:
            await bench.back("p")
            assert (folder / "f").read_text() == "old"
            assert not folder.is_symlink()
        assert (bench.work / "g").read_text() == "old"
        assert (outside / "f").read_text() == "of somebody"

    play(tmp_path, main)


@pytest.mark.parametrize("place", ["outside/f", "work/.git/config", "work/.mcp.json"])
def test_a_session_cannot_name_any_file(tmp_path: Path, place: str) -> None:
    """Another process puts back what a tool may change without asking, and no more: lines can be forged. The process
    whose tool was allowed to change it does put it back."""
    file = tmp_path / place

    async def first() -> None:
        bench = Bench(tmp_path)
        file.parent.mkdir(exist_ok=True)
        file.write_text("old")
        await bench.prompt("p")
        await bench.replace(file, b"old", b"new")
        await bench.back("p")
        assert file.read_text() == "old"
        await bench.replace(file, b"old", b"new")
        await bench.close()

    async def second() -> None:
        bench = Bench(tmp_path)
        with pytest.raises(UsageError, match="tools may not change it now"):
            await bench.back("p")
        assert file.read_text() == "new"
        await bench.close()

    asyncio.run(first())
    asyncio.run(second())


def test_a_rule_may_close_a_file(tmp_path: Path) -> None:
    async def first() -> None:
        bench = Bench(tmp_path)
        await bench.prompt("p")
        await bench.write("f", "new")
        await bench.close()

    async def second() -> None:
        bench = Bench(tmp_path, rules=("deny Edit(f)",))
        with pytest.raises(UsageError, match="a deny rule"):
            await bench.back("p")
        await bench.close()

    asyncio.run(first())
    asyncio.run(second())
    assert (tmp_path / "work" / "f").read_text() == "new"


# --- bounds -----------------------------------------------------------------------------------------


def test_the_same_content_is_stored_once(tmp_path: Path) -> None:
    """Thirty prompts, each of which changes two files to one of two contents: two contents are stored."""

    async def main(bench: Bench) -> None:
        for number in range(30):
            await bench.prompt(f"p{number}")
            for name in ("a", "b"):
                await bench.write(name, "xy"[number % 2] * 1_000)
        await bench.end()
        assert len(bench.history.store.contents) == 2
        assert bench.packed() < 100

    play(tmp_path, main)


def test_what_is_too_large_is_said_not_to_come_back(tmp_path: Path) -> None:
    async def main(bench: Bench) -> None:
        (bench.work / "large").write_text("x" * 101)
        (bench.work / "small").write_text("x")
        await bench.prompt("p")
        for name in ("large", "small", "new"):
            await bench.write(name, "changed")
        with pytest.raises(UsageError, match=r"Restored 2 files, but not '.*large' \(it had 101 bytes; at most 100 "):
            await bench.back("p")
        assert {file.name: file.read_text() for file in bench.work.iterdir()} == {"large": "changed", "small": "x"}

    play(tmp_path, main, CheckpointLimits(file=100))


def test_a_session_stores_so_much(tmp_path: Path) -> None:
    """What was stored before can still be had."""

    async def main(bench: Bench) -> None:
        (bench.work / "a").write_text(random_text())
        await bench.prompt("p")
        await bench.write("a", random_text())
        (bench.work / "b").write_text(random_text())
        await bench.prompt("q")
        await bench.write("b", "new")
        with pytest.raises(UsageError, match=r"Restored 0 files, but not '.*b' \(at most 300 bytes are stored per"):
            await bench.back("q")
        await bench.back("p")

    def random_text() -> str:
        return os.urandom(100).hex()

    play(tmp_path, main, CheckpointLimits(total=300))


def test_no_key_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that holds one of our own keys does not come back, and the session does not hold it (security K3)."""
    monkeypatch.setattr(held, "_held", held.HeldSecrets())
    held.hold_secrets("sk-our-own-key-0123456789")

    async def main(bench: Bench) -> None:
        (bench.work / "f").write_text("key = sk-our-own-key-0123456789\n")
        await bench.prompt("p")
        await bench.write("f", "key = none\n")
        with pytest.raises(UsageError, match="it contains a key of this session"):
            await bench.back("p")
        assert (bench.work / "f").read_text() == "key = none\n"
        entry = FileEntry("file", digest=digest_of(b"key = sk-our-own-key-0123456789\n"))
        assert not bench.history.store.has(entry.digest)

    play(tmp_path, main)


# --- killed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("which", "stride"), [long("write", 1), long("new", 1), long("back", 1), ("back", 23)])
def test_killed_at_every_system_call(tmp_path: Path, which: str, stride: int) -> None:
    """Of the checkpoint, of the tool and of the way back. Wherever the file is not what it was any more,
    another process puts it back; and whatever a way back had done, the way forth to a later prompt is open."""
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "tools.rewind_stage", str(tmp_path), which, str(stride)],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": tests, "PYTHONWARNINGS": "error"},
    )
    rounds = json.loads(done.stdout)
    old = None if which == "new" else OLD.hex()
    assert {one["end"] for one in rounds} == {old}
    assert {one["mode"] for one in rounds} == {None if which == "new" else 0o640}
    found = [one["found"] for one in rounds]
    assert old in found
    assert any(one != old for one in found)
    if which == "back":
        assert {one["forth"] for one in rounds} == {rounds[0]["found"]}  # what the tool had written
    else:
        assert all(one["changed"] for one in rounds if one["found"] != old)
        assert all(one["found"] == old for one in rounds if one["changed"] is None)
        assert rounds[0]["changed"] is None
    assert len(rounds) * stride > 100
