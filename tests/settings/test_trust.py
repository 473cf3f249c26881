"""Trust: by real path, one folder at a time, in a file of the user's own (security T1)."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from processes.steps import left_over, names_in

from mainspring.core.errors import UsageError
from mainspring.settings import trust


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home/.mainspring")


def folder(base: Path, name: str) -> str:
    (base / name).mkdir(parents=True)
    return str(base / name)


def test_one_folder_and_no_other(tmp_path: Path, home: str) -> None:
    project = folder(tmp_path, "project")
    inner, twin = folder(tmp_path, "project/sub"), folder(tmp_path, "project2")
    assert not trust.is_trusted(home, project)
    assert trust.list_trusted_folders(home) == ()
    assert trust.add_trusted_folder(home, project, at=5) == project
    assert trust.is_trusted(home, project)
    assert trust.is_trusted(home, project + "/")
    assert trust.is_trusted(home, inner + "/..")
    for other in (inner, twin, str(tmp_path), "/", project.upper()):
        assert not trust.is_trusted(home, other), other
    assert trust.list_trusted_folders(home) == (project,)


def test_it_is_keyed_on_the_real_path(tmp_path: Path, home: str) -> None:
    project, evil = folder(tmp_path, "project"), folder(tmp_path, "evil")
    link = tmp_path / "link"
    link.symlink_to(project)
    assert trust.add_trusted_folder(home, str(link), at=1) == project
    assert trust.is_trusted(home, project)
    link.unlink()
    link.symlink_to(evil)  # the name that was trusted leads elsewhere now
    assert not trust.is_trusted(home, str(link))
    Path(project).rename(tmp_path / "moved")
    Path(evil).rename(project)
    assert trust.is_trusted(home, project)  # by path, as the rule says: whoever can swap it owns the parent


def test_git_files_cannot_borrow_it(tmp_path: Path, home: str) -> None:
    project, clone = folder(tmp_path, "project"), folder(tmp_path, "clone")
    (tmp_path / "project/.git/worktrees/clone").mkdir(parents=True)
    (tmp_path / "clone/.git").write_text(f"gitdir: {project}/.git/worktrees/clone\n")
    (tmp_path / "project/.git/worktrees/clone/commondir").write_text("../..\n")
    trust.add_trusted_folder(home, project, at=1)
    assert not trust.is_trusted(home, clone)


def test_a_repository_cannot_bring_the_list(tmp_path: Path, home: str) -> None:
    project = folder(tmp_path, "project")
    (tmp_path / "project/.mainspring").mkdir()
    (tmp_path / "project/.mainspring/trusted.json").write_text(f'{{"type": "Trusted", "folders": {{"{project}": 1}}}}')
    assert not trust.is_trusted(home, project)


def test_the_file_is_the_users_alone(tmp_path: Path, home: str) -> None:
    project = folder(tmp_path, "project")
    umask = os.umask(0)
    try:
        trust.add_trusted_folder(home, project, at=1)
    finally:
        os.umask(umask)
    file = Path(home, "trusted.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(home).stat().st_mode) == 0o700
    for mode in (0o620, 0o602, 0o666):
        file.chmod(mode)
        assert not trust.is_trusted(home, project)
        with pytest.raises(UsageError, match="written by others"):
            trust.list_trusted_folders(home)
    file.chmod(0o644)
    assert trust.is_trusted(home, project)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"type": "Other"}', b'{"type":"Trusted","folders":[1]}', b"\xff"]
)
def test_a_broken_list_trusts_nobody_and_is_not_written_over(tmp_path: Path, home: str, content: bytes) -> None:
    project = folder(tmp_path, "project")
    trust.add_trusted_folder(home, project, at=1)
    file = Path(home, "trusted.json")
    file.write_bytes(content)
    assert not trust.is_trusted(home, project)
    for act in (
        lambda: trust.add_trusted_folder(home, project, at=1),
        lambda: trust.remove_trusted_folder(home, project),
    ):
        with pytest.raises(UsageError, match="cannot be read"):
            act()
    assert file.read_bytes() == content


def test_what_is_no_list_trusts_nobody(tmp_path: Path, home: str) -> None:
    project = folder(tmp_path, "project")
    assert not trust.is_trusted(None, project)
    Path(home).mkdir(parents=True)
    os.mkfifo(Path(home, "trusted.json"))
    assert not trust.is_trusted(home, project)
    Path(home, "trusted.json").unlink()
    Path(home, "trusted.json").mkdir()
    assert not trust.is_trusted(home, project)
    with pytest.raises(UsageError, match="not a folder"):
        trust.add_trusted_folder(home, str(tmp_path / "nothing"), at=1)


def test_taken_back(tmp_path: Path, home: str) -> None:
    project, other = folder(tmp_path, "project"), folder(tmp_path, "other")
    trust.add_trusted_folder(home, project, at=1)
    trust.add_trusted_folder(home, other, at=2)
    trust.add_trusted_folder(home, project, at=3)
    assert trust.list_trusted_folders(home) == (other, project)
    Path(project).rmdir()
    assert trust.remove_trusted_folder(home, project)
    assert not trust.remove_trusted_folder(home, project)
    assert trust.list_trusted_folders(home) == (other,)


def test_a_relative_path_is_meant_from_here(tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    project = folder(tmp_path, "project")
    monkeypatch.chdir(tmp_path)
    assert trust.add_trusted_folder(home, "project", at=1) == project
    assert trust.is_trusted(home, "project")
    assert trust.remove_trusted_folder(home, "project")


def test_many_at_once_lose_nothing(tmp_path: Path, home: str) -> None:
    projects = [folder(tmp_path, f"p{number}") for number in range(6)]
    trust.add_trusted_folder(home, projects[0], at=1)
    failed: list[BaseException] = []

    def one(project: str) -> None:
        try:
            trust.add_trusted_folder(home, project, at=1)
        except BaseException as error:  # noqa: BLE001  # told to the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=one, args=(project,)) for project in projects[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(trust.list_trusted_folders(home)) == sorted(projects)
    assert names_in(home) == ["trusted.json"]
    assert left_over(tmp_path) == []
