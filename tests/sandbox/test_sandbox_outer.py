"""The git room of a folder below the top of its repository, of a worktree, of a submodule: git writes there, and
nothing else does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.processes.child import SandboxAccess
from mainspring.sandbox.paths import OuterRepository, find_outer_repository
from mainspring.sandbox.sandbox import Sandbox
from sandbox.test_sandbox_git import NAMES, TRIES, code_of, git, in_room, renaming, tree
from sandbox.walls import LINUX, NOBODY, Box, seen_folder

pytestmark = LINUX


@pytest.fixture
def base() -> Iterator[Path]:
    with seen_folder() as folder:
        yield folder


def repository(top: Path) -> Path:
    top.mkdir(parents=True, exist_ok=True)
    git(top, "init", "-q", "-b", "main", ".")
    for name in ("packages/a/file", "packages/b/file", "top"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("one\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    return top


@pytest.fixture
def box(base: Path) -> Iterator[Box]:
    """The session's folder is one package of several."""
    repository(base / "repo")
    box = Box(base, folders=("repo/packages/a",), env=NAMES)
    yield box
    box.sandbox.close()


def test_git_writes_the_repository_around_the_folder(box: Box) -> None:
    top = box.base / "repo"
    before = code_of(top / ".git")
    said = in_room(
        box,
        "echo two >> file; git add file && git commit -qm second && git tag v1 && git branch topic && "
        "git stash list && git status --short --branch && git log --format=%s",
    )
    assert said == "## main\nsecond\nfirst\n"
    assert code_of(top / ".git") == before
    assert box.notes == ()
    assert git(top, "status", "--short") == ""
    assert git(top, "tag") == "v1\n"
    git(top, "fsck", "--strict")
    assert not [path for path in (top / ".git").rglob("*") if path.stat().st_mode & 0o1000]  # nothing is left


def test_in_the_usual_room_it_can_only_be_read(box: Box) -> None:
    assert box.run("git log --format=%s").stdout.text == "first\n"
    assert "Read-only file system" in box.run("echo two >> file; git add file").stdout.text


def test_the_rest_of_the_repository_can_only_be_read(box: Box) -> None:
    top = box.base / "repo"
    before = tree(top)
    for command in (
        "echo x > ../b/file",
        "echo x > ../../top",
        "rm ../b/file",
        "echo x > ../../new",
        renaming(top / ".git"),
    ):
        assert box.run(command, SandboxAccess.GIT).code != 0, command
    assert tree(top) == before
    git(top, "branch", "other")
    git(top, "rm", "-q", "top")
    git(top, "commit", "-qm", "without")
    said = box.run("git checkout -q other", SandboxAccess.GIT)  # it would have to write outside
    assert said.code != 0 or not (top / "top").exists()
    git(top, "fsck", "--strict")


@pytest.mark.parametrize("command", TRIES)
def test_what_leads_to_code_stays_as_it_was(box: Box, command: str) -> None:
    top = box.base / "repo"
    before = code_of(top / ".git")
    box.run(f"cd ../..; {command}", SandboxAccess.GIT)
    assert code_of(top / ".git") == before
    assert not Path("/ran").exists()


def test_head_is_put_back(box: Box) -> None:
    in_room(box, "rm ../../.git/HEAD")
    assert "HEAD' was missing or invalid" in box.notes[0]
    assert git(box.base / "repo", "log", "--format=%s") == "first\n"


def test_a_nested_repository_that_the_outer_index_names_can_only_be_read(box: Box) -> None:
    """However deep it lies: `git status` at the top goes into it."""
    deep = box.work / "1/2/3/4/5"
    deep.mkdir(parents=True)
    git(deep, "init", "-q", ".")
    git(deep, "commit", "-q", "--allow-empty", "-m", "x")
    git(box.base / "repo", "add", "packages/a/1")
    for walls in (SandboxAccess.USUAL, SandboxAccess.GIT):
        assert box.run("echo x >> 1/2/3/4/5/.git/config", walls).code != 0
        assert box.run("mv 1/2/3 x", walls).code != 0


def test_what_the_index_names_elsewhere_is_told_and_left_alone(box: Box) -> None:
    """The command cannot have made it: it is a person's."""
    theirs = box.base / "repo/theirs"
    theirs.mkdir()
    git(theirs, "init", "-q", ".")
    git(theirs, "commit", "-q", "--allow-empty", "-m", "x")
    git(theirs, "config", "core.pager", "less")
    before = tree(theirs)
    in_room(box, "git -C ../.. add theirs")
    (note,) = box.notes
    assert "it existed before" in note
    assert tree(theirs) == before


def test_a_path_that_leads_out_of_the_tree_moves_nothing(base: Path) -> None:
    """An index is a file: whoever is in the room can write anything into it."""
    box = Box(base, env=NAMES)
    git(box.work, "init", "-q", "-b", "main", ".")
    theirs = base / "out/theirs"
    theirs.mkdir()
    git(theirs, "init", "-q", ".")
    git(theirs, "config", "core.pager", "less")
    entry = b"\0" * 24 + b"\0\0\xe0\0" + b"\0" * 34 + b"../out/theirs\0"
    (base / "work/index").write_bytes(b"DIRC\0\0\0\2\0\0\0\1" + entry + b"\0" * 64)
    in_room(box, "cp index .git/index")
    assert (theirs / ".git").is_dir()
    assert "it existed before" in box.notes[0]
    box.sandbox.close()


def test_two_folders_of_one_repository(base: Path) -> None:
    repository(base / "repo")
    box = Box(base, folders=("repo/packages/a", "repo/packages/b"), env=NAMES)
    in_room(box, "echo two >> file; echo two >> ../b/file; git commit -qam second")
    assert box.notes == ()
    assert git(base / "repo", "log", "-1", "--format=%s", "--", "packages/b") == "second\n"
    box.sandbox.close()


def test_the_top_and_a_folder_of_it(base: Path) -> None:
    repository(base / "repo")
    box = Box(base, folders=("repo/packages/a", "repo"), env=NAMES)
    in_room(box, "echo two >> ../../top; git commit -qam second")
    assert box.run("echo x >> ../../.git/config", SandboxAccess.GIT).code != 0
    assert box.notes == ()
    box.sandbox.close()


def test_two_sessions_in_one_repository_hold_together(box: Box) -> None:
    """Each from a folder of its own: what stands in stays until the last has ended."""
    other = Sandbox(box.program, box.rooms._replace(folders=(str(box.base / "repo/packages/b"),)))
    place = box.base / "repo/.git/commondir"
    with other.around(box.job("true", SandboxAccess.GIT)):
        in_room(box, "git status")
        assert place.exists()
    assert not place.exists()
    other.close()


# --- behind a file --------------------------------------------------------------------------------------------------


def test_a_worktree_whose_repository_lies_elsewhere(base: Path) -> None:
    repository(base / "repo")
    git(base / "repo", "worktree", "add", "-q", "-b", "tree", "../tree")
    box = Box(base, folders=("tree",), env=NAMES)
    before = code_of(base / "repo/.git")
    in_room(box, "echo two >> top; git commit -qam second && git log -1 --format=%s")
    assert git(base / "repo", "log", "-1", "--format=%s", "tree") == "second\n"
    assert code_of(base / "repo/.git") == before
    for name in ("config", "hooks/pre-commit", "worktrees/tree/commondir", "worktrees/tree/gitdir"):
        assert box.run(f"echo x > ../repo/.git/{name}", SandboxAccess.GIT).code != 0, name
    assert box.run("echo x > ../repo/top", SandboxAccess.GIT).code != 0
    assert box.notes == ()
    box.sandbox.close()


def test_a_submodule_whose_repository_lies_in_the_outer_one(base: Path) -> None:
    repository(base / "lib")
    repository(base / "repo")
    git(base / "repo", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(base / "lib"), "lib")
    box = Box(base, folders=("repo/lib",), env=NAMES)
    in_room(box, "echo two >> top; git commit -qam second")
    assert box.notes == ()
    assert git(base / "repo/lib", "log", "-1", "--format=%s") == "second\n"
    assert box.run("echo x >> ../.git/config", SandboxAccess.GIT).code != 0  # that is another one's
    assert box.run("echo x > ../.git/refs/heads/x", SandboxAccess.GIT).code != 0
    box.sandbox.close()


def test_a_file_that_an_archive_brings_opens_nothing(base: Path) -> None:
    """It leads to a repository of the person's, which knows nothing of it (security P6)."""
    top = repository(base / "repo")
    git(top, "worktree", "add", "-q", "-b", "tree", "../tree")
    box = Box(base, env=NAMES)
    before = tree(top)
    for leads in (top / ".git", top / ".git/worktrees/tree"):
        (box.work / ".git").write_text(f"gitdir: {leads}\n")
        assert box.run(f"git update-ref refs/heads/x HEAD; echo x > {leads}/x", SandboxAccess.GIT).code != 0
        (note,) = box.notes
        assert "leads to it" in note
        assert "does not point back" in note
    assert tree(top) == before
    box.sandbox.close()


# --- which one ------------------------------------------------------------------------------------------------------


def test_which_repository_a_folder_belongs_to(base: Path) -> None:
    top = repository(base / "repo")
    found = OuterRepository(f"{top}/.git", str(top))
    assert find_outer_repository(f"{top}/packages/a") == found
    assert find_outer_repository(str(top)) is None  # it lies in the folder
    (top / "packages/a/.git").mkdir()
    assert find_outer_repository(f"{top}/packages/a") is None  # git passes it over, but it is somebody's
    (top / "packages/.git").mkdir()
    assert find_outer_repository(f"{top}/packages/b") == found  # the same, on the way
    assert find_outer_repository(f"{top}/packages/b", (f"{top}/.git",)) == found._replace(why="its path is denied")
    git(base, "init", "-q", "--bare", "repo/bare")
    (top / "bare/inner").mkdir()
    assert find_outer_repository(f"{top}/bare/inner") is None
    linked = base / "linked"
    (linked / "inner").mkdir(parents=True)
    (linked / ".git").symlink_to(top / ".git")
    assert find_outer_repository(f"{linked}/inner") == OuterRepository(
        f"{linked}/.git", str(linked), "its '.git' is a link"
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_another_users_repository_stays_closed(box: Box) -> None:
    subprocess.run(["chown", "-R", str(NOBODY), str(box.base / "repo/.git")], check=True)
    assert box.run("echo x > ../../.git/x", SandboxAccess.GIT).code != 0
    assert "it belongs to another user" in box.notes[0]


def test_where_its_files_are_hidden_it_stays_closed(tmp_path: Path, base: Path) -> None:
    """Git would take them for removed, and commit that."""
    top = repository(tmp_path / "repo")
    found = find_outer_repository(str(top.resolve() / "packages/a"))
    assert found is not None
    assert "hidden in the sandbox" in found.why or not str(top.resolve()).startswith("/tmp")
