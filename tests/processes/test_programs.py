"""Programs of our own calls are found outside of a project (security T3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.processes import environment
from mainspring.processes.environment import find_program


def test_the_system_s_own_comes_first(tmp_path: Path) -> None:
    (tmp_path / "ls").write_text("#!/bin/sh\n")
    (tmp_path / "ls").chmod(0o755)
    assert find_program("ls", path=str(tmp_path)) in ("/bin/ls", "/usr/bin/ls")
    assert find_program("no-such-program", path=str(tmp_path)) is None


@pytest.mark.parametrize("way", ["folder", "link", "relative", "not executable"])
def test_a_project_s_own_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(environment, "USUAL", ())
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    tool = project / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    path = {"folder": str(project), "link": str(elsewhere), "relative": "project", "not executable": str(elsewhere)}[
        way
    ]
    if way == "link":
        (elsewhere / "tool").symlink_to(tool)
    if way == "not executable":
        (elsewhere / "tool").write_text("")
    monkeypatch.chdir(tmp_path)
    assert find_program("tool", path=path, outside=(str(project),)) is None
    assert find_program("tool", path=str(project), outside=(str(elsewhere),)) == str(tool)


def test_who_works_in_the_root_folder_still_finds_programs() -> None:
    assert find_program("ls", outside=("/",)) is not None
