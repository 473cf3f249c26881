"""The local settings stay out of git, by git's own word."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from processes.steps import snapshot

from mainspring.settings.edit import ListChange, WriteReport, write_change
from mainspring.settings.load import SettingsPaths
from mainspring.settings.values import SettingsSource, SettingsWriteError

NAME = ".claude/settings.local.json"
LINE = f"**/{NAME}"


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": "/nonexistent"}
    done = subprocess.run(
        ["git", *who, *words],
        cwd=folder,
        env=os.environ | alone,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "top"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a").write_text("a")
    git(folder, "add", "a")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def keep(folder: Path) -> WriteReport:
    return write_change(
        SettingsPaths(str(folder.parent / "home"), str(folder)), SettingsSource.LOCAL, ListChange("allow", ("Read",))
    )


def seen(folder: Path) -> str:
    return git(folder, "status", "--porcelain", "--untracked-files=all", ".")


def test_it_is_not_seen(top: Path) -> None:
    exclude = top / ".git/info/exclude"
    exclude.write_text("# mine\n*.o")
    keep(top)
    assert (top / NAME).exists()
    assert seen(top) == ""
    assert exclude.read_text() == f"# mine\n*.o\n{LINE}\n"
    write_change(SettingsPaths(None, str(top)), SettingsSource.LOCAL, ListChange("allow", ("Edit",)))
    assert exclude.read_text().count(LINE) == 1


def test_below_the_top(top: Path) -> None:
    inner = top / "pack ages/[a]"
    inner.mkdir(parents=True)
    assert keep(inner).seen == ""
    assert (inner / NAME).exists()
    assert seen(top) == ""


@pytest.mark.parametrize("name", ["kept", "pack ages/[a]*", "."])
def test_behind_a_link_it_is_not_seen_either(top: Path, name: str) -> None:
    """Git follows none: it knows the file by its real name."""
    (top / name).mkdir(parents=True, exist_ok=True)
    (top / ".gitignore").write_text("*.o\n\n/.claude\n")
    git(top, "add", ".gitignore")
    git(top, "commit", "-q", "-m", "two")
    (top / ".claude").symlink_to(name)
    assert keep(top).seen == ""
    assert (top / name / "settings.local.json").exists()
    assert seen(top) == ""


def test_a_name_that_would_be_two_patterns(top: Path) -> None:
    (top / "x\n*").mkdir()
    (top / ".claude").symlink_to("x\n*")
    before = (top / ".git/info/exclude").read_bytes()
    assert keep(top).seen == "'x\\n*/settings.local.json' cannot be a git ignore pattern"
    assert (top / ".git/info/exclude").read_bytes() == before


def test_a_link_out_is_not_the_repositorys(top: Path) -> None:
    out = top.parent / "out"
    out.mkdir()
    (top / ".claude").symlink_to(out)
    before = snapshot(top)
    with pytest.raises(SettingsWriteError, match="leads out of this folder"):
        keep(top)
    assert snapshot(top) == before


def test_the_other_sources_are_for_the_repository(top: Path) -> None:
    before = (top / ".git/info/exclude").read_bytes()
    write_change(SettingsPaths(None, str(top)), SettingsSource.PROJECT, ListChange("allow", ("Read",)))
    assert seen(top) == "?? .claude/settings.json\n"
    assert (top / ".git/info/exclude").read_bytes() == before


@pytest.mark.parametrize(
    ("where", "line"),
    [
        (".gitignore", ".claude/"),
        (".gitignore", "/.claude/settings.local.json"),
        (".gitignore", "settings.local.json"),
        ("in/.gitignore", "/.claude"),
        (".gitignore", "*.local.json"),
        (".git/info/exclude", "**/.claude/"),
    ],
)
def test_what_is_ignored_already_needs_no_line(top: Path, where: str, line: str) -> None:
    folder = top / "in" if where.startswith("in/") else top
    folder.mkdir(exist_ok=True)
    (top / where).write_text(f"*.o\n{line}\n")
    before = (top / ".git/info/exclude").read_bytes()
    keep(folder)
    assert NAME not in seen(top)
    assert (top / ".git/info/exclude").read_bytes() == before


@pytest.mark.parametrize("line", ["/.claude", ".claude/settings.local.json", "*.json\n!.claude/**", "#.claude"])
def test_a_pattern_that_is_not_about_it(top: Path, line: str) -> None:
    """Of another folder, or with an exception: then the line is added, and git does not see the file if it can help."""
    (top / ".gitignore").write_text(f"{line}\n")
    (top / "in").mkdir()
    keep(top / "in")
    assert LINE in (top / ".git/info/exclude").read_text()
    assert "settings.local" not in seen(top)


def test_a_worktree_and_a_submodule(top: Path) -> None:
    tree, sub = top.parent / "tree", top / "sub"
    git(top, "worktree", "add", "-q", str(tree))
    git(top, "submodule", "add", "-q", str(top), "sub")
    for folder in (tree, sub):
        assert keep(folder).seen == ""
        assert "settings.local" not in seen(folder)
    assert LINE in (top / ".git/info/exclude").read_text()
    assert LINE in (top / ".git/modules/sub/info/exclude").read_text()


def test_without_a_repository_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/.git").mkdir()  # an empty folder is none
    keep(tmp_path / "work")
    assert [*snapshot(tmp_path / "work/.git")] == []


@pytest.mark.parametrize("how", ["file", "link", "exclude", "info", "odd"])
def test_nothing_is_written_where_a_project_points_to(tmp_path: Path, how: str) -> None:
    """To another's repository, or to any file. The settings are kept all the same, and what is not done is told."""
    victim, work = tmp_path / "victim", tmp_path / "work"
    for folder in (victim / "info", victim / "objects", work / ".git/info"):
        folder.mkdir(parents=True)
    (victim / "HEAD").write_text("ref: refs/heads/main\n")
    (victim / "info/exclude").write_text("mine\n")
    (work / ".git/HEAD").write_text("ref: refs/heads/main\n")
    if how in ("exclude", "info"):
        place = work / ".git/info"
        place.rmdir()
        if how == "info":
            place.symlink_to(victim / "info")
        else:
            place.mkdir()
            (place / "exclude").symlink_to(victim / "info/exclude")
    else:
        (work / ".git").rename(tmp_path / "aside")
        if how == "link":
            (work / ".git").symlink_to(victim)
        else:
            (work / ".git").write_text(f"gitdir: {victim}\n" if how == "file" else "nothing\n")
    before = snapshot(victim)
    done = keep(work)
    assert snapshot(victim) == before
    assert (work / NAME).exists()
    assert done.seen
