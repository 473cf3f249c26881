"""What files were: the lines and contents that a session keeps of them, and how they are read back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import get_session_messages

from mainspring.core.messages import Origin, Text, User
from mainspring.processes.atomic_write import digest
from mainspring.sessions.file_history import FileVersion, files_changed_since, is_kept, kept_size, read_version
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.line_format import SNAPSHOT
from mainspring.sessions.paths import folder_of
from mainspring.sessions.records import FileRecord, Record, SaidRecord
from mainspring.sessions.resume import load_session
from mainspring.testing import says, virtually
from sessions.stage import ENVELOPE, ID, CheckedWorld, Remembering, Wrote, consume, options, stored, take_up


def prompt(id: str) -> SaidRecord:
    return SaidRecord(User((Text("go"),), id=id, at=1))


def was(path: str, data: bytes, **more: Any) -> FileRecord:
    return FileRecord(path, 2, there=True, mode=0o644, digest=digest(data), data=data, **more)


def written(file: Path, *records: Record, disk: Remembering | None = None, keep: bool = True) -> str:
    journal = FileJournal.create(file, ENVELOPE, options(disk))
    if keep:
        journal.keep_files()

    async def append() -> None:
        for record in records:
            await journal.append(record)

    asyncio.run(append())
    journal.close()
    return str(file)


def snapshots(file: str) -> list[dict[str, Any]]:
    lines = Path(file).read_bytes().split(b"\n")
    return [json.loads(line) for line in lines if line.startswith(SNAPSHOT)]


# --- written ----------------------------------------------------------------------------------------


def test_the_lines(tmp_path: Path) -> None:
    """One with each prompt, and one for each file; contents are beside the session, before the line that names them."""
    disk = Remembering()
    report = SaidRecord(User((Text("an agent is done"),), Origin.REPORT, id="r", at=1))
    gone = FileRecord("/w/b", 3, why="it was closed", there=True)
    file = written(
        tmp_path / f"{ID}.jsonl", prompt("p"), report, was("/w/a", b"A"), FileRecord("/w/c", 3), gone, disk=disk
    )
    common = {"type": "file-history-snapshot", "v": 1, "sessionId": ID}
    at = "1970-01-01T00:00:00.00{}Z".format
    assert snapshots(file) == [
        {**common, "timestamp": at(1), "messageId": "p"},
        {**common, "timestamp": at(2), "file": {"path": "/w/a", "there": True, "mode": 0o644, "digest": digest(b"A")}},
        {**common, "timestamp": at(3), "file": {"path": "/w/c", "there": False}},
        {
            **common,
            "timestamp": at(3),
            "file": {"path": "/w/b", "there": True, "mode": 0, "digest": "", "why": "it was closed"},
        },
    ]
    wrote = [one.data for one in disk.log if isinstance(one, Wrote)]
    assert [line.count(b"\n") for line in wrote] == [2, 1, 0, 1, 1, 1]  # prompt and mark in one; the content; the rest
    assert wrote[2] == b"A"


def test_nothing_where_nobody_asked(tmp_path: Path) -> None:
    file = written(tmp_path / f"{ID}.jsonl", prompt("p"), keep=False)
    assert snapshots(file) == []
    assert files_changed_since(file, "p") is None


def test_which_files_stand_there(tmp_path: Path) -> None:
    """Those since the last prompt: whoever changes one of them need not tell of it again."""
    journal = FileJournal.create(tmp_path / f"{ID}.jsonl", ENVELOPE, options())
    kept = journal.keep_files()

    async def main() -> None:
        await journal.append(prompt("p"))
        await journal.append(was("/w/a", b"A"))
        assert kept == {"/w/a"}
        await journal.append(prompt("q"))
        assert kept == set()

    asyncio.run(main())
    journal.close()


def test_a_session_with_such_lines_is_read_as_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By us, over two processes, and by the client."""
    home, cwd = tmp_path / "home", tmp_path / "work"
    cwd.mkdir()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    file = Path(folder_of(home, cwd)) / f"{ID}.jsonl"

    async def first() -> None:
        journal = FileJournal.create(file, ENVELOPE, options())
        journal.keep_files()
        await consume(stored(CheckedWorld([says("One.")]), journal), "first")
        await journal.append(was("/w/a", b"A"))
        journal.close()

    async def second() -> None:
        world = CheckedWorld([says("Two.")])
        world.offset = 1_000
        _, session, journal = take_up(file, world)
        journal.keep_files()
        await consume(session, "second")
        journal.close()

    virtually(first())
    virtually(second())
    loaded = load_session(file)
    assert loaded.warnings == ()
    assert [getattr(message, "text", "") for message in loaded.state.history] == ["first", "One.", "second", "Two."]
    read = get_session_messages(ID, directory=str(cwd))
    assert [message.uuid for message in read] == [message.id for message in loaded.state.history]
    marks = [one["messageId"] for one in snapshots(str(file)) if "messageId" in one]
    assert marks == [message.id for message in loaded.state.history if isinstance(message, User)]
    assert files_changed_since(str(file), marks[0]) == {"/w/a": FileVersion("/w/a", True, 0o644, digest(b"A"))}
    assert files_changed_since(str(file), marks[1]) == {}


# --- read -------------------------------------------------------------------------------------------


def test_the_first_word_after_a_prompt_counts(tmp_path: Path) -> None:
    file = written(
        tmp_path / f"{ID}.jsonl",
        was("/w/a", b"before all"),
        prompt("p"),
        was("/w/a", b"1"),
        prompt("q"),
        was("/w/a", b"2"),
        was("/w/b", b"3"),
        was("/w/a", b"4", rewound="q"),
    )
    found = {
        name: {path: read_version(file, one) for path, one in (files_changed_since(file, name) or {}).items()}
        for name in "pq"
    }
    assert found == {"p": {"/w/a": b"1", "/w/b": b"3"}, "q": {"/w/a": b"2", "/w/b": b"3"}}
    assert files_changed_since(file, "r") is None
    assert files_changed_since(file, "") is None


def test_lines_of_others_and_torn_ones(tmp_path: Path) -> None:
    """Another program writes lines of the same type; a crash tears some. Neither is taken for one of ours."""
    file = written(tmp_path / f"{ID}.jsonl", prompt("p"), was("/w/a", b"A"))
    theirs = {"type": "file-history-snapshot", "messageId": "theirs", "snapshot": {"trackedFileBackups": {}}}
    whole = Path(file).read_bytes()
    mark = next(line for line in whole.split(b"\n") if line.startswith(SNAPSHOT))
    for cut in range(len(SNAPSHOT), len(mark)):
        Path(file).write_bytes(
            whole
            + mark.replace(b'"p"', b'"q"')[:cut]
            + b"\n"
            + json.dumps(theirs, separators=(",", ":")).encode()
            + b"\n"
        )
        assert files_changed_since(file, "q") is None
        assert files_changed_since(file, "theirs") is None
        assert list(files_changed_since(file, "p") or {}) == ["/w/a"]


def test_contents_that_are_gone_or_not_what_they_were(tmp_path: Path) -> None:
    file = written(tmp_path / f"{ID}.jsonl", prompt("p"), was("/w/a", b"A"), was("/w/b", b"B"), was("/w/e", b""))
    a, b, empty = (files_changed_since(file, "p") or {}).values()
    (tmp_path / ID / "payloads" / f"file-{digest(b'A')}").write_bytes(b"X")
    (tmp_path / ID / "payloads" / f"file-{digest(b'B')}").unlink()
    assert (read_version(file, a), read_version(file, b), read_version(file, empty)) == (None, None, b"")
    assert read_version(file, FileVersion("/w/a", True, 0, "/../../../etc/passwd")) is None


def test_how_much_is_kept(tmp_path: Path) -> None:
    """Of files: contents of the conversation are not counted. The same content counts once."""
    large = SaidRecord(User((Text("x" * 300_000),), id="l", at=1))
    file = written(tmp_path / f"{ID}.jsonl", large, was("/w/a", b"12345"), was("/w/b", b"12345"), was("/w/c", b"123"))
    assert kept_size(file) == 8
    assert len(list((tmp_path / ID / "payloads").iterdir())) == 3
    assert (is_kept(file, digest(b"123")), is_kept(file, digest(b"1"))) == (True, False)
    assert kept_size(str(tmp_path / "nothing.jsonl")) == 0
