"""Where a session is written down."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mainspring.cli.plain_journal import PlainJournal, home, project_key, session_file
from mainspring.core.history import History
from mainspring.core.state import State, checkpoint
from mainspring.sessions.records import CheckpointRecord, NoteRecord


def test_the_home_is_ours_then_theirs_then_the_default() -> None:
    assert home({"MAINSPRING_HOME": "/a", "CLAUDE_CONFIG_DIR": "/b"}) == "/a"
    assert home({"CLAUDE_CONFIG_DIR": "/b"}) == "/b"
    assert home({}).endswith("/.mainspring")


def test_the_folder_has_the_name_that_readers_look_for(tmp_path: Path) -> None:
    plain = tmp_path / "My Project.2"
    plain.mkdir()
    assert project_key(str(plain)).endswith("-My-Project-2")
    (tmp_path / "link").symlink_to(plain)
    assert project_key(str(tmp_path / "link")) == project_key(str(plain))
    assert project_key("/nai\u0308ve") == project_key("/na\u00efve") == "-na-ve"


def test_a_long_name_is_cut_and_gets_a_hash() -> None:
    """The hash as claude-agent-sdk 0.2.182 computes it: `_simple_hash` of these paths."""
    assert project_key("/" + "a" * 199) == "-" + "a" * 199
    assert project_key("/" + "a" * 200) == "-" + "a" * 199 + "-b6ymvl"
    assert project_key("/" + "\u00fc" * 300) == "-" * 200 + "-1aryhd"


def test_a_session_begins_with_a_file_of_its_own(tmp_path: Path) -> None:
    path = session_file({"MAINSPRING_HOME": str(tmp_path)}, "/", "s1")
    assert path == f"{tmp_path}/projects/-/s1.jsonl"
    PlainJournal(path)
    with pytest.raises(FileExistsError):
        PlainJournal(path)


def test_a_record_is_a_line_whatever_is_in_it(tmp_path: Path) -> None:
    async def write() -> None:
        journal = PlainJournal(str(tmp_path / "x/s.jsonl"))
        await journal.append(NoteRecord("half", "a\ud800\nb", 1))
        await journal.append(CheckpointRecord(checkpoint(State(History()))))
        await journal.sync()

    asyncio.run(write())
    first, second = [json.loads(line) for line in (tmp_path / "x/s.jsonl").read_text().splitlines()]
    assert first == {"type": "NoteRecord", "kind": "half", "text": "a?\nb", "at": 1}
    assert second["type"] == "CheckpointRecord"
