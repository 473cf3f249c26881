"""Folder and file names, as the Claude Agent SDK expects them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.core.errors import UsageError
from mainspring.sessions.paths import agent_file, check_id, file_of, find_session_file, folder_of, project_key
from mainspring.settings.load import home_folder
from sessions.stage import ID, OTHER


def test_the_order_of_homes() -> None:
    both = {"MAINSPRING_HOME": "/m", "CLAUDE_CONFIG_DIR": "/c", "HOME": "/h"}
    assert home_folder(both) == "/m"
    assert home_folder({"CLAUDE_CONFIG_DIR": "/c", "HOME": "/h"}) == "/c"
    assert home_folder({"HOME": "/h"}) == "/h/.mainspring"
    assert home_folder({"HOME": "/h"}, compatible=True) == "/h/.claude"


def test_the_key_of_a_folder(tmp_path: Path) -> None:
    assert project_key("/home/me/my_project.py") == "-home-me-my-project-py"
    long = "/" + "a" * 300
    assert project_key(long) == "-" + "a" * 199 + "-vtkmfl"
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert folder_of("/m", tmp_path / "link") == folder_of("/m", tmp_path / "real")


def test_session_ids() -> None:
    assert check_id(ID.upper()) == ID
    for wrong in ("", "x", ID[:-1], ID + "0", f"../{ID}", ID + "\n"):
        with pytest.raises(UsageError, match="Must be a valid UUID"):
            check_id(wrong)


def test_finding_a_session(tmp_path: Path) -> None:
    here, there = Path(folder_of(tmp_path, "/here")), Path(folder_of(tmp_path, "/there"))
    assert find_session_file(tmp_path, ID) is None
    for folder in (here, there):
        folder.mkdir(parents=True)
    Path(file_of(here, ID)).touch()  # empty: counts as absent
    Path(file_of(there, ID)).write_text("{}")
    Path(file_of(there, OTHER)).write_text("{}")
    Path(file_of(here, OTHER)).write_text("{}")
    assert find_session_file(tmp_path, ID, "/here") == file_of(there, ID)
    assert find_session_file(tmp_path, OTHER, "/here") == file_of(here, OTHER)
    assert find_session_file(tmp_path, OTHER, "/there") == file_of(there, OTHER)


def test_sub_agents_live_beside_their_session() -> None:
    assert agent_file(f"/x/{ID}.jsonl", "a1") == f"/x/{ID}/subagents/agent-a1.jsonl"
