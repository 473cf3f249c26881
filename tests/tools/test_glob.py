"""Glob: files by name, the newest first, and none that Read may not open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainspring.core.errors import ToolError
from mainspring.testing.world import FakeToolContext
from mainspring.tools.glob import GLOB, MOST_COUNTED
from tools.searching import manner

__all__ = ["manner"]


def make(folder: Path, *names: str) -> None:
    """Each one newer than the one before."""
    for number, name in enumerate(names):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        os.utime(file, (1_000 + number, 1_000 + number))


def found(folder: Path, pattern: str, **more: str) -> list[str]:
    return list(FakeToolContext(str(folder)).now(GLOB, pattern=pattern, **more).data["filenames"])


@pytest.mark.covers("N-02")
def test_the_newest_first(tmp_path: Path, manner: str) -> None:
    make(tmp_path, "b.py", "src/a.py", "src/deep/c.py", "d.txt", ".hidden/e.py")
    assert found(tmp_path, "*.py") == [".hidden/e.py", "src/deep/c.py", "src/a.py", "b.py"]
    assert found(tmp_path, "src/*.py") == ["src/a.py"]
    assert found(tmp_path, "src/**/*.py") == ["src/deep/c.py", "src/a.py"]
    assert found(tmp_path, "*.py", path="src") == ["src/deep/c.py", "src/a.py"]
    assert found(tmp_path, f"{tmp_path}/*.py") == ["b.py"]
    assert found(tmp_path, "./*.py") == ["b.py"]
    assert found(tmp_path / "src", "*.txt", path="..") == [f"{tmp_path}/d.txt"]
    assert FakeToolContext(str(tmp_path)).now(GLOB, pattern="*.rs").text == "No files found.\n"
    assert FakeToolContext(str(tmp_path)).now(GLOB, pattern="nowhere/*.rs").text == "No files found.\n"


def test_what_git_ignores_is_left_out(tmp_path: Path, manner: str) -> None:
    make(tmp_path, "a.py", "build/b.py", "c.log", ".git/d.py", "sub/e.py", "sub/keep.log")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / "sub/.gitignore").write_text("e.py\n!keep.log\n")
    assert sorted(found(tmp_path, "**/*")) == [".gitignore", "a.py", "sub/.gitignore", "sub/keep.log"]
    assert found(tmp_path, "*.log") == ["sub/keep.log"]
    assert found(tmp_path / "sub", "*") == [".gitignore", "keep.log"]  # what is above counts as well


def test_a_hundred_are_shown_and_the_rest_is_counted(tmp_path: Path, manner: str) -> None:
    make(tmp_path, *[f"{number:04}" for number in range(250)])
    answer = FakeToolContext(str(tmp_path)).now(GLOB, pattern="*")
    assert answer.data["filenames"] == [f"{number:04}" for number in range(249, 149, -1)]
    assert answer.text.endswith("[150 other files not shown: use a narrower pattern.]\n")
    assert answer.data["truncated"] is True


def test_many_more_are_not_all_counted(tmp_path: Path) -> None:
    for number in range(MOST_COUNTED + 150):
        (tmp_path / f"{number:05}").touch()
    assert "[More than 2,000 other files" in FakeToolContext(str(tmp_path)).now(GLOB, pattern="*").text


def test_the_rules_hold_for_names_and_for_counts(tmp_path: Path, manner: str) -> None:
    make(tmp_path, "a.py", "secret/b.py", "c.py")
    calling = FakeToolContext(str(tmp_path), may_read=lambda path: "/secret/" not in path)
    answer = calling.now(GLOB, pattern="**/*.py")
    assert answer.text == "c.py\na.py\n"
    assert calling.now(GLOB, pattern="secret/*.py").text == "No files found.\n"


def test_links_lead_nowhere(tmp_path: Path, manner: str) -> None:
    make(tmp_path, "out/secret.py", "ws/a.py")
    (tmp_path / "ws/link").symlink_to("../out")
    (tmp_path / "ws/file.py").symlink_to("../out/secret.py")
    for pattern in ("**/*.py", "link/*.py", "link/**", "*.py"):
        assert [name for name in found(tmp_path / "ws", pattern) if name != "a.py"] == [], pattern


@pytest.mark.parametrize("pattern", ["!*.py", "--files", "-h", "; ls", "$(ls)", "~/*", "*.py\n"])
def test_a_pattern_is_data(tmp_path: Path, manner: str, pattern: str) -> None:
    make(tmp_path, "a.py", "b.txt")
    assert found(tmp_path, pattern) == []
    make(tmp_path, "!x.py")
    assert found(tmp_path, "!*.py") == ["!x.py"]


@pytest.mark.parametrize(
    ("input", "said"),
    [
        ({"pattern": "../*"}, "leads upwards"),
        ({"pattern": "/etc/*"}, "begins outside of"),
        ({"pattern": ""}, "is empty"),
        ({"pattern": "a\0"}, "NUL"),
        ({"pattern": "*", "path": "a.py"}, "is a file"),
        ({"pattern": "*", "path": "nope"}, "does not exist"),
        ({"pattern": "*", "path": "/dev/null"}, "is no regular file"),
    ],
)
def test_what_is_refused(tmp_path: Path, input: dict[str, str], said: str) -> None:
    make(tmp_path, "a.py")
    with pytest.raises(ToolError) as error:
        FakeToolContext(str(tmp_path)).now(GLOB, **input)
    assert said in str(error.value)


def test_names_that_are_no_text(tmp_path: Path, manner: str) -> None:
    for name in (b"\xff.py", b"new\nline.py"):
        (tmp_path / os.fsdecode(name)).touch()
    assert sorted(found(tmp_path, "*.py")) == ["new\nline.py", "\ufffd.py"]
