"""A session with `persist=False` leaves nothing on disk, and `cleanupPeriodDays` limits what the others leave."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tiers import long

from mainspring.sdk import CLIConnectionError, Client, InMemorySessionStore, ResultMessage, UserMessage
from mainspring.simulator.replies import Say
from sdk.stage import PATIENCE, Stage, call, outcomes, play, texts

ID = "11111111-2222-4333-8444-555555555555"
DAY = 86_400
STORED = "needs a stored session, and 'persist=False' stores none"
FREE: dict[str, Any] = {"permission_mode": "bypassPermissions", "persist": False}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def everything_below(*folders: Path) -> list[str]:
    return sorted(str(path) for folder in folders for path in folder.rglob("*"))


def private_folders(temporary: Path) -> list[Path]:
    return list(temporary.glob("mainspring-session-*"))


@pytest.mark.parametrize("runs", [50, long(1_000)])
def test_runs_that_do_not_persist_leave_no_file(tmp_path: Path, temporary: Path, runs: int) -> None:
    async def main(stage: Stage) -> None:
        before = everything_below(tmp_path)
        for _ in range(runs):
            assert texts(await stage.ask("hello", persist=False)) == ["Hi."]
        assert everything_below(tmp_path) == before

    play(main, tmp_path, choose=lambda _: Say.of("Hi."), seconds=PATIENCE + runs)


def test_temporary_files_are_in_one_private_folder_until_the_session_ends(tmp_path: Path, temporary: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options(**FREE)) as client:
            [folder] = private_folders(temporary)
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            await client.query("go")
            told = [message async for message in client.receive_response()]
            [spilled] = [path for path in folder.rglob("*") if path.is_file()]
            assert str(spilled) in str(outcomes(told)[0].content)
            assert spilled.read_text().count("\n") == 20_000
            assert not list(folder.rglob("*.jsonl"))  # the conversation is in memory
        assert not folder.exists()

    many = call("Bash", command="seq 20000", description="x")
    play(main, tmp_path, Say.of(many), Say.of("Done."))


def test_a_command_leaves_nothing_of_its_session(tmp_path: Path, temporary: Path) -> None:
    """The sandbox keeps its locks in the home, one for each workspace: they are the same after the second run."""

    async def main(stage: Stage) -> None:
        await stage.ask(**FREE)
        before = everything_below(tmp_path)
        assert not [path for path in before if path.endswith(".jsonl")]
        for _ in range(2):
            told = await stage.ask(**FREE)
            assert [outcome.content for outcome in outcomes(told)] == ["1"]
            assert everything_below(tmp_path) == before

    one, done = Say.of(call("Bash", command="echo 1", description="x")), Say.of("Done.")
    play(main, tmp_path, one, done, one, done, one, done)


def test_files_can_be_rewound_without_persistence(tmp_path: Path, temporary: Path) -> None:
    async def main(stage: Stage) -> None:
        file = stage.folder / "a.txt"
        options = stage.options(**FREE, enable_file_checkpointing=True, extra_args={"replay-user-messages": None})
        async with Client(options) as client:
            await client.query("write it")
            told = [message async for message in client.receive_response()]
            said = [message for message in told if isinstance(message, UserMessage) and message.content == "write it"]
            prompt = said[0].uuid
            assert prompt
            assert file.read_text() == "new"
            await client.rewind_files(prompt)
            assert not file.exists()
        assert everything_below(temporary) == []
        assert not stage.home.exists() or not list(stage.home.rglob("*.jsonl"))

    write = call("Write", file_path=str(tmp_path / "work" / "a.txt"), content="new")
    play(main, tmp_path, Say.of(write), Say.of("Done."))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"resume": ID}, f"'resume' {STORED}"),
        ({"continue_conversation": True}, f"'continue_conversation' {STORED}"),
        ({"fork_session": True}, f"'fork_session' {STORED}"),
        ({"session_store": InMemorySessionStore()}, f"'session_store' {STORED}"),
        ({"extra_args": {"require-journal": None}}, f"'require-journal' {STORED}"),
    ],
)  # fmt: skip
def test_what_needs_a_stored_session_is_refused(
    tmp_path: Path, temporary: Path, option: dict[str, Any], message: str
) -> None:
    async def main(stage: Stage) -> None:
        with pytest.raises(CLIConnectionError) as raised:
            await stage.ask(persist=False, **option)
        assert message in str(raised.value)
        assert everything_below(temporary) == []

    play(main, tmp_path)


def test_a_new_conversation_of_the_session_does_not_persist_either(tmp_path: Path, temporary: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options(persist=False)) as client:
            ids = set[str]()
            for prompt in ("hello", "/clear", "again"):
                await client.query(prompt)
                told = [message async for message in client.receive_response()]
                ids |= {message.session_id for message in told if isinstance(message, ResultMessage)}
            assert len(ids) == 2
            assert len(private_folders(temporary)) == 1
        assert everything_below(temporary) == []
        assert not stage.home.exists()

    play(main, tmp_path, choose=lambda _: Say.of("Hi."))


# --- cleanupPeriodDays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [30, long(1_000)])
def test_cleanup_leaves_what_the_setting_says(tmp_path: Path, runs: int) -> None:
    """Every third session is older than the setting allows."""

    async def main(stage: Stage) -> None:
        for _ in range(runs):
            await stage.ask("hello")
        files = sorted(stage.home.glob("projects/*/*.jsonl"))
        assert len(files) == runs
        old = files[::3]
        for file in old:
            past = file.stat().st_mtime - 31 * DAY
            os.utime(file, (past, past))
        (stage.home / "settings.json").write_text(json.dumps({"cleanupPeriodDays": 30}))
        asked, left = 0, set(files)
        while left & set(old):  # each start continues the work of the last one
            asked, before = asked + 1, left & set(old)
            await stage.ask("hello")
            left = set(stage.home.glob("projects/*/*.jsonl"))
            assert left & set(old) < before
        assert len(left) == runs - len(old) + asked
        assert left >= set(files) - set(old)
        beside = {path.name for path in stage.home.glob("projects/*/*") if path.is_dir()}
        assert not beside & {file.stem for file in old}

    play(main, tmp_path, choose=lambda _: Say.of("Hi."), seconds=PATIENCE + runs)
