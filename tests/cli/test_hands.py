"""The demo's tools are real: also where its script does not go."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mainspring.cli import demo_tools
from mainspring.cli.demo_tools import bash, edit, read
from mainspring.core.errors import ToolError


@pytest.mark.parametrize(("old", "times"), [("a", 2), ("c", 0)])
def test_edit_wants_a_text_that_occurs_once(old: str, times: int, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("a b a")
    with pytest.raises(ToolError, match=f"'{old}' occurs {times} times in 'x.txt'"):
        asyncio.run(edit(tmp_path, "x.txt", old, "z"))
    assert path.read_text() == "a b a"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"'none\.txt' cannot be read: No such file or directory"):
        asyncio.run(read(tmp_path, "none.txt"))


def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^oh\nexit code 3$"):
        asyncio.run(bash(tmp_path, "echo oh; exit 3"))


def test_bash_gets_a_small_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "s3cret")
    assert "s3cret" not in asyncio.run(bash(tmp_path, "env"))


def test_a_command_without_end_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sleep` holds the output open: had it been left alive, `bash` would not return."""
    monkeypatch.setattr(demo_tools, "TIMEOUT", 0.1)
    with pytest.raises(ToolError, match=r"no end after 0\.1 seconds"):
        asyncio.run(bash(tmp_path, "sleep 1000; true"))


def test_a_command_that_is_cancelled_is_ended_with_all_it_started(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def cancelled() -> str:
        command = asyncio.create_task(bash(tmp_path, "sleep 1000 >fifo; true"))
        held = await asyncio.to_thread(fifo.open)  # it runs
        command.cancel()
        await asyncio.wait({command})
        assert command.cancelled()
        with held:
            return await asyncio.to_thread(held.read)

    assert asyncio.run(cancelled()) == ""  # the end of the file: nobody holds it any more


@pytest.mark.parametrize("rounds", range(6))
def test_a_command_that_is_cancelled_while_it_starts(rounds: int, tmp_path: Path) -> None:
    """Whenever the cancellation comes, nothing is left that asyncio would complain about."""

    async def cancelled() -> None:
        command = asyncio.create_task(bash(tmp_path, "sleep 1000; true"))
        for _ in range(rounds):
            await asyncio.sleep(0)
        command.cancel()
        await asyncio.wait({command})
        assert command.cancelled()

    asyncio.run(cancelled())
