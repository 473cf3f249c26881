"""The demo's tools are real: also where its script does not go."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.cli import demo_tools
from mainspring.cli.demo_tools import bash, edit, run_tool
from mainspring.core.errors import ToolError
from mainspring.core.messages import ToolCall


@pytest.mark.parametrize(("old", "times"), [("a", 2), ("c", 0)])
def test_edit_wants_a_text_that_occurs_once(old: str, times: int, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("a b a")
    with pytest.raises(ToolError, match=f"'{old}' occurs {times} times in 'x.txt'"):
        edit(tmp_path, "x.txt", old, "z")
    assert path.read_text() == "a b a"


def test_a_failure_is_a_result(tmp_path: Path) -> None:
    missing = run_tool(ToolCall("1", "Read", {"file_path": "none.txt"}), tmp_path)
    failing = run_tool(ToolCall("2", "Bash", {"command": "echo oh; exit 3"}), tmp_path)
    assert (missing.call_id, missing.is_error) == ("1", True)
    assert (failing.call_id, failing.is_error, failing.text) == ("2", True, "oh\nexit code 3")


def test_bash_gets_a_small_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "s3cret")
    assert "s3cret" not in bash(tmp_path, "env")


def test_a_command_without_end_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sleep` holds the output open: had it been left alive, `bash` would not return."""
    monkeypatch.setattr(demo_tools, "TIMEOUT", 0.1)
    with pytest.raises(ToolError, match=r"no end after 0\.1 seconds"):
        bash(tmp_path, "sleep 1000; true")
