"""File checkpoints: whatever happens to a workspace, each of them can be gone back to."""

from __future__ import annotations

import os
import socket
import stat
import time
from pathlib import Path
from random import Random

import pytest
from tiers import parametrize_few

from checkpoints.stage import Bench, RandomChanges, shape_of
from mainspring.checkpoints.compare import describe_change
from mainspring.checkpoints.entries import FileEntry
from mainspring.checkpoints.history import FileHistory
from mainspring.checkpoints.scan import PLACEHOLDER
from mainspring.checkpoints.store import HistoryInUse
from mainspring.core.errors import UsageError
from mainspring.sandbox.placeholders import MODE


@parametrize_few("seed", range(60), keep=6)
def test_any_way_back(tmp_path: Path, seed: int) -> None:
    """Random changes, prompts and rewinds, over several processes: after a rewind the tree is what it was at the
    prompt, with modes and links; and each rewind can be undone."""
    chance = Random(seed)
    bench = Bench(tmp_path)
    changes = RandomChanges(bench.work, chance)
    shapes = {}
    for number in range(8):
        changes.some(chance.randrange(1, 12))
        shapes[f"p{number}"] = shape_of(bench.work)
        bench.prompt(f"p{number}")
        changes.some(chance.randrange(12))
        if chance.random() < 0.3:
            bench.reopen()
        if chance.random() < 0.6:
            aim, before = chance.choice(list(shapes)), shape_of(bench.work)
            report = bench.rewind(aim)
            assert report.failed == ()
            assert shape_of(bench.work) == shapes[aim], (seed, number, aim)
            if chance.random() < 0.5:
                assert bench.rewind(report.undo).failed == ()
                assert shape_of(bench.work) == before, (seed, number, aim, "undone")
            bench.prompt(f"after {number}")  # what comes now is the session's
    assert not [name for name in shape_of(bench.work) if b".mainspring" in name]


def test_what_is_left_out(tmp_path: Path) -> None:
    """With the reasons; and a rewind leaves it alone."""
    bench = Bench(tmp_path)
    work = bench.path
    (work / ".gitignore").write_text("*.log\nbuild/\n")
    for folder in (".git", "build", "node_modules", "sub"):
        (work / folder).mkdir()
        (work / folder / "x").write_text("1")
    (work / "a.log").write_text("1")
    (work / "sub" / "b.log").write_text("1")
    (work / "large").write_bytes(b"x" * 10_000_001)
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(work / "socket"))
        bench.prompt("p")
        for name in ("build/x", "node_modules/x", ".git/x", "a.log", "sub/b.log", "sub/x"):
            (work / name).write_text("2")
        report = bench.rewind("p")
    assert [(Path(one.path).relative_to(work).as_posix(), one.why.split(":")[0]) for one in report.left_out] == [
        (".git", "belongs to version control"),
        ("a.log", "ignored by .gitignore or a similar file"),
        ("build", "ignored by .gitignore or a similar file"),
        ("large", "it had 10,000,001 bytes; at most 10,000,000 are stored per file"),
        ("node_modules", "can be made again"),
        ("pipe", "a socket, a pipe or a device"),
        ("socket", "a socket, a pipe or a device"),
        ("sub/b.log", "ignored by .gitignore or a similar file"),
    ]
    assert [Path(one.path).name for one in report.files] == ["x"]
    assert {name: (work / name).read_text() for name in ("build/x", "a.log", "sub/b.log", "sub/x")} == {
        "build/x": "2", "a.log": "2", "sub/b.log": "2", "sub/x": "1",
    }  # fmt: skip


def test_what_comes_into_view_is_not_removed(tmp_path: Path) -> None:
    """It was ignored at the checkpoint, and is not any more: the checkpoint does not know it."""
    bench = Bench(tmp_path)
    (bench.path / ".gitignore").write_text("secret\n")
    (bench.path / "secret").write_text("1")
    bench.prompt("p")
    (bench.path / ".gitignore").write_text("")
    bench.rewind("p")
    assert (bench.path / "secret").read_text() == "1"
    assert (bench.path / ".gitignore").read_text() == "secret\n"


def test_a_file_that_cannot_be_stored_is_not_removed(tmp_path: Path) -> None:
    """A large one that the session made: its removal could not be undone."""
    bench = Bench(tmp_path)
    bench.prompt("p")
    (bench.path / "large").write_bytes(b"x" * 10_000_001)
    assert bench.rewind("p").files == ()
    assert (bench.path / "large").exists()


def test_an_unchanged_workspace_costs_little(tmp_path: Path) -> None:
    """No file is read again, and nothing is stored but a line."""
    bench = Bench(tmp_path)
    for number in range(200):
        (bench.path / f"f{number}").write_text(f"{number}\n" * 100)
        os.utime(bench.path / f"f{number}", (1, 1))
    bench.prompt("p")
    size = stored(bench)
    for number in range(20):
        bench.prompt(f"q{number}")
    assert stored(bench) - size < 20 * 250
    assert len(list((bench.store / "packs").iterdir())) == 1


def stored(bench: Bench) -> int:
    """Bytes, without the memory of the scan."""
    return sum([one.stat().st_size for one in bench.store.rglob("*") if one.is_file() and one.name != "cache"])


def test_only_we_can_read_it(tmp_path: Path) -> None:
    os.umask(0)
    bench = Bench(tmp_path)
    (bench.path / "f").write_text("secret")
    bench.prompt("p")
    modes = {stat.S_IMODE(one.stat().st_mode) for one in bench.store.rglob("*") if one.is_file()}
    folders = {stat.S_IMODE(one.stat().st_mode) for one in (bench.store.parent, bench.store, bench.store / "packs")}
    assert (modes, folders) == ({0o600}, {0o700})


def test_a_damaged_store(tmp_path: Path) -> None:
    """Cut at any byte, the log has the whole records before it; a damaged content is not written anywhere."""
    bench = Bench(tmp_path)
    (bench.path / "f").write_text("1")
    bench.prompt("p")
    (bench.path / "f").write_text("2")
    whole = len((bench.store / "log").read_bytes())
    bench.prompt("q")
    bench.history.close()
    log = (bench.store / "log").read_bytes()
    for cut in range(0, len(log), 7):
        (bench.store / "log").write_bytes(log[:cut])
        known = [one.prompt_id for one in FileHistory(str(bench.file)).prompts()]
        assert known == ([] if cut < whole else ["p"] if cut < len(log) else ["p", "q"])
    (bench.store / "log").write_bytes(log)
    for pack in (bench.store / "packs").iterdir():
        pack.write_bytes(b"x" * pack.stat().st_size)
    bench.reopen()
    [failed] = bench.rewind("p").failed
    assert "its content is not available" in failed.why
    assert (bench.path / "f").read_text() == "2"


def test_one_writer(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.prompt("p")
    other = FileHistory(str(bench.file))
    assert [one.prompt_id for one in other.prompts()] == ["p"]
    with pytest.raises(HistoryInUse, match="another process"):
        other.take(bench.roots, "prompt", 2, prompt="q")


def test_one_that_is_stopped_does_not_count(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.prompt("p")
    (bench.path / "f").write_text("1")
    bench.history.stop()
    with pytest.raises(UsageError, match="the session ends"):
        bench.prompt("q")
    assert list((bench.store / "packs").iterdir()) == []
    bench.reopen()
    assert [one.prompt_id for one in bench.history.prompts()] == ["p"]


def test_an_earlier_version_is_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file.parent.mkdir(parents=True)
    bench.file.write_text('{"type":"file-history-snapshot","v":1,"sessionId":"s","timestamp":"t","messageId":"old"}\n')
    with pytest.raises(UsageError, match="an earlier version of mainspring stored its checkpoint in another form"):
        bench.rewind("old")
    with pytest.raises(UsageError, match="No file checkpoint found"):
        bench.rewind("other")


def test_placeholders_of_the_sandbox_are_not_stored(tmp_path: Path) -> None:
    assert PLACEHOLDER == MODE
    bench = Bench(tmp_path)
    (bench.path / ".mcp.json").mkdir()
    (bench.path / ".mcp.json").chmod(MODE)
    bench.prompt("p")
    (bench.path / ".mcp.json").rmdir()
    assert bench.rewind("p").files == ()
    assert not (bench.path / ".mcp.json").exists()


def test_a_home_folder_is_no_workspace(tmp_path: Path) -> None:
    """Only what edit tools change is stored there."""
    bench = Bench(tmp_path)
    bench.history, mode = FileHistory(str(bench.file), home=str(bench.path)), stat.S_IMODE(bench.path.stat().st_mode)
    (bench.path / "f").write_text("1")
    (bench.path / "g").write_text("1")
    bench.prompt("p")
    bench.history.touch(str(bench.path / "f"))
    (bench.path / "f").write_text("2")
    (bench.path / "g").write_text("2")
    assert [Path(one.path).name for one in bench.rewind("p").files] == ["f"]
    assert ((bench.path / "f").read_text(), (bench.path / "g").read_text()) == ("1", "2")
    assert stat.S_IMODE(bench.path.stat().st_mode) == mode


def test_changes_are_described(tmp_path: Path) -> None:
    del tmp_path
    file, link = FileEntry("file", 0o644, b"1", 1), FileEntry("link", target=b"x")

    def read(_: str, entry: FileEntry) -> bytes:
        return b"a\nb\n" if entry.digest == b"1" else b"a\n\0"

    from mainspring.checkpoints.compare import EntryChange

    made = describe_change(EntryChange("/f", None, file), read)
    assert (made.kind, made.plus, made.minus, made.binary) == ("created", 2, 0, False)
    assert describe_change(EntryChange("/f", file, FileEntry("file", 0o600, b"1", 1)), read).kind == "mode"
    assert describe_change(EntryChange("/f", file, link), read).kind == "type"
    both = describe_change(EntryChange("/f", file, FileEntry("file", 0o755, b"3", 1)), read)
    assert (both.kind, both.mode) == ("changed", True)
    assert describe_change(EntryChange("/f", file, FileEntry("file", 0o644, b"2", 1)), read).binary


# --- between the end of a run and the look at the workspace --------------------------------------------------------


def later(file: Path, text: str, ended: int) -> None:
    """Writes it when the clock of the file system has passed that time."""
    while file.write_text(text) and file.stat().st_ctime_ns <= ended:
        pass


def test_what_is_saved_right_after_the_run_is_the_users(tmp_path: Path) -> None:
    """By the times of the files. What a tool had changed, too, is of both."""
    bench = Bench(tmp_path)
    work = bench.path
    for name in ("both", "mine", "theirs"):
        (work / name).write_text("0\n")
    bench.prompt("p")
    bench.history.touch(str(work / "both"))
    (work / "both").write_text("tool\n")
    (work / "theirs").write_text("command\n")
    (work / "made").mkdir()
    ended = time.time_ns()
    later(work / "both", "user\n", ended)
    later(work / "mine", "user\n", ended)
    later(work / "made" / "f", "user\n", ended)
    bench.history.take(bench.roots, "idle", 2, rests=True, ended=ended)
    [changed] = bench.history.changes_by_prompt(bench.roots)
    assert [Path(one.change.path).name for one in changed.files] == ["both", "theirs"]
    assert [one.changed for one in bench.history.prompts()] == [2]
    report = bench.rewind("p")
    assert [Path(one.path).name for one in report.files] == ["theirs"]
    assert [Path(one.path).name for one in report.kept] == ["both", "f", "mine"]
    over = bench.history.plan("p", bench.roots, over_user=True).report
    assert [Path(one.path).name for one in over.files] == ["both"], "only what the session changed, too"


def test_a_folder_that_the_user_moved_right_after_the_run(tmp_path: Path) -> None:
    """What is in it has its old times."""
    bench = Bench(tmp_path)
    (bench.path / "old").mkdir()
    (bench.path / "old" / "f").write_text("1")
    bench.prompt("p")
    ended = time.time_ns()
    later(bench.path / "clock", "1", ended)
    (bench.path / "old").rename(bench.path / "new")
    bench.history.take(bench.roots, "idle", 2, rests=True, ended=ended)
    report = bench.rewind("p")
    assert sorted(Path(one.path).name for one in report.kept) == ["clock", "f"]
    assert (bench.path / "new" / "f").read_text() == (bench.path / "old" / "f").read_text() == "1"


def test_a_clock_that_is_ahead_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file server, say: then all changes of the run are the session's, as far as anybody can tell."""
    bench = Bench(tmp_path)
    bench.prompt("p")
    (bench.path / "f").write_text("1")
    changed = (bench.path / "f").stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: changed - 1)
    bench.history.take(bench.roots, "idle", 2, rests=True, ended=changed - 1)
    monkeypatch.undo()
    assert [Path(one.path).name for one in bench.rewind("p").files] == ["f"]
