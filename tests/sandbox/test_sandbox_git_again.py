"""`git init` where there is a repository, `git clone URL .`, and what git says of folders that are held."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes.traces import until

from mainspring.processes.child import SandboxAccess
from mainspring.processes.children import Children, ProcessResult
from mainspring.sandbox.git_quarantine import parse_guarded_settings, path_of
from mainspring.tools.shell import SandboxExclusions, walls_of
from sandbox.test_sandbox_git import NAMES, code_of, git, in_room, names
from sandbox.walls import ENV, LINUX, Box, seen_folder

pytestmark = LINUX


@pytest.fixture
def box() -> Iterator[Box]:
    with seen_folder() as base:
        box = Box(base, env=NAMES)
        repository(box.work)
        yield box
        box.sandbox.close()


@pytest.fixture
def empty() -> Iterator[Box]:
    """An empty working folder, and a repository to be cloned."""
    with seen_folder() as base:
        box = Box(base, env=NAMES)
        repository(base / "other")
        yield box
        box.sandbox.close()


def repository(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main", ".")
    (folder / "file").write_text("one\n")
    git(folder, "add", "file")
    git(folder, "commit", "-qm", "first")


def line(box: Box, command: str) -> ProcessResult:
    """Behind the walls that the command gets by itself."""
    return box.run(command, walls_of(SandboxExclusions())(command, False))


# --- git init -----------------------------------------------------------------------------------------------------


def test_git_init_in_a_repository_is_as_outside(box: Box) -> None:
    git(box.work, "config", "alias.x", "status")
    hook = box.work / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    (box.work / ".git/description").unlink()
    before = code_of(box.work / ".git")
    said = line(box, "git init")
    assert (said.code, said.stdout.text) == (0, f"Reinitialized existing Git repository in {box.work}/.git/\n")
    assert said.notes == ()
    assert code_of(box.work / ".git") == before
    assert (box.work / ".git/description").exists()  # from git's templates
    assert line(box, "git config user.name 'A B' && git config user.email a@b").code == 0
    assert git(box.work, "config", "--local", "user.name") == "A B\n"
    assert in_room(box, "git commit -q --allow-empty -m second; git log --format=%s") == "second\nfirst\n"


def test_git_init_behind_a_file(box: Box) -> None:
    git(box.work, "init", "-q", "--separate-git-dir=store", ".")
    said = line(box, "git init")
    assert (said.code, said.notes) == (0, ())
    assert f"{box.work}/store/" in said.stdout.text


def test_git_init_in_a_worktree_and_below_the_top_of_another_repository() -> None:
    with seen_folder() as base:
        repository(base / "main")
        git(base / "main", "worktree", "add", "-q", str(base / "tree"))
        (base / "main/package").mkdir()
        box = Box(base, folders=("tree", "main/package"), env=NAMES)
        said = line(box, "git init")
        assert (said.code, said.notes) == (0, ())
        assert said.stdout.text.startswith("Reinitialized")
        said = line(box, "cd ../main/package && git init -q && git config user.name A")
        assert (said.code, said.notes) == (0, ())
        box.sandbox.close()
        assert git(base / "main/package", "rev-parse", "--git-dir") == ".git\n"


EVIL = [
    ("printf '[core]\\n\\tfsmonitor = evil\\n' >> .git/config", "config' was restored"),
    ("printf '[user]\\n\\tname = A\\\\\\n[core] fsmonitor = evil\\n' >> .git/config", "config' was restored"),
    ("git config core.hooksPath evil", "config' was restored"),
    ("rm .git/config", "config' was restored"),
    ("cp /bin/true .git/hooks/pre-commit", "hooks/pre-commit' is new"),
    ("mkdir -p .git/remotes; echo x > .git/remotes/origin", "remotes/origin' is new"),
    ("echo .. > .git/commondir", "commondir' is new"),
]


@pytest.mark.parametrize(("command", "told"), EVIL, ids=[one[0] for one in EVIL])
def test_what_leads_to_code_is_put_back(box: Box, command: str, told: str) -> None:
    """No such line gets these walls; if one did, this stands behind them."""
    before = code_of(box.work / ".git")
    box.run(command, SandboxAccess.INIT)
    (note,) = box.notes
    assert told in note
    assert code_of(box.work / ".git") == before


def test_hooks_of_the_users_own_templates_are_told(box: Box) -> None:
    template = box.base / "template"
    (template / "hooks").mkdir(parents=True)
    (template / "hooks/post-checkout").write_text("#!/bin/sh\n")
    settings_ = box.base / "gitconfig"
    settings_.write_text(f"[init]\n\ttemplateDir = {template}\n")
    box.env["GIT_CONFIG_GLOBAL"] = str(settings_)
    assert line(box, "git init -q").code == 0
    assert "hooks/post-checkout' is new" in box.notes[0]
    assert not (box.work / ".git/hooks/post-checkout").exists()


def test_a_git_of_the_project_is_not_taken(box: Box) -> None:
    ran = box.work / "ran"
    program = box.work / "bin/git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    (box.base / "bin").symlink_to(program.parent)
    box.env["PATH"] = f"bin:{box.work}/bin:{box.base}/bin:{ENV['PATH']}"
    assert line(box, "git init").stdout.text.startswith("Reinitialized")
    assert not ran.exists()
    assert path_of(box.env, (str(box.work),)) == ENV["PATH"]
    in_room(box, "git status")  # in git's room, which trusts nobody, it is
    assert ran.exists()


def test_nobody_works_beside_it(box: Box) -> None:
    """Git replaces the configuration, and what was mounted there for the other would be gone."""
    before = code_of(box.work / ".git")
    work = box.work

    async def main() -> tuple[ProcessResult, ProcessResult, ProcessResult, ProcessResult]:
        children = Children(around=box.sandbox.around)
        waits = "touch {0}; until [ -e go-{0} ]; do sleep 0.01; done; "
        one = asyncio.create_task(children.run(box.job(waits.format("a") + "echo x >> .git/config", SandboxAccess.GIT)))
        await until((work / "a").exists)
        late = await children.run(box.job("git init", SandboxAccess.INIT))
        stranger = box.another()
        other = await Children(around=stranger.around).run(box.job("git init", SandboxAccess.INIT))
        (work / "go-a").touch()
        first = await one
        two = asyncio.create_task(children.run(box.job(waits.format("b") + "git init -q", SandboxAccess.INIT)))
        await until((work / "b").exists)
        beside = await children.run(box.job("git commit -q --allow-empty -m x", SandboxAccess.GIT))
        (work / "go-b").touch()
        assert (await two).code == 0
        stranger.close()
        return first, late, other, beside

    first, late, other, beside = asyncio.run(main())
    busy = (f"'{work}/.git/config' stays read-only: other commands work in the repository",)
    assert (first.code, first.notes) == (1, ())
    assert (late.code, late.notes) == (128, busy)
    assert (other.code, other.notes) == (128, busy)
    assert (beside.code, beside.notes) == (
        128,
        (f"'{work}/.git' can only be read while 'git init' runs in it: try again",),
    )
    assert code_of(work / ".git") == before


def test_which_settings_are_free() -> None:
    first = b'[core]\n\tbare = false\n[alias]\n\tx = y\n[remote "o"]\n\turl = u\n'
    assert parse_guarded_settings(first) == [(b"[alias]", b"[alias]"), (b"[alias]", b"\tx = y")] + [
        (b'[remote "o"]', line) for line in (b'[remote "o"]', b"\turl = u")
    ]
    same = first.replace(b"false", b"true") + b"[user]\n\tname = A\n"
    assert parse_guarded_settings(same) == parse_guarded_settings(first)
    for other in (
        first + b"[alias]\n\tname = A\n",
        first + b"[core]\n\tfsmonitor = x\n",
        first + b"[core] fsmonitor = x\n",
        first + b"[core]\n\tworktree = x\n",
        first + b"[user]\n\tname = A\\\n\tfsmonitor = x\n",
        first.replace(b"[alias]", b"[core]"),
        first.replace(b"[core]", b"[include]"),
        b"",
    ):
        assert parse_guarded_settings(other) != parse_guarded_settings(first), other


# --- git clone URL . ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["../other", "file://{}", "--depth=1 --no-tags file://{}", "--sparse ../other"])
def test_git_clones_into_the_working_folder(empty: Box, url: str) -> None:
    said = line(empty, f"git clone -q {url.format(empty.base / 'other')} . && git log --format=%s")
    assert (said.code, said.stdout.text, said.notes) == (0, "first\n", ())
    assert empty.names() == [".git", "file"]
    assert in_room(empty, "git commit -q --allow-empty -m second; git log -1 --format=%s") == "second\n"
    assert empty.run("git config core.fsmonitor x", SandboxAccess.GIT).code != 0
    git(empty.work, "fsck", "--strict")


def test_what_a_clone_brings_and_programs_obey_is_taken_away(empty: Box) -> None:
    other = empty.base / "other"
    for name in (".vscode/tasks.json", ".claude/settings.json", ".mcp.json"):
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_text("{}")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "more")
    said = line(empty, "git clone -q ../other .")
    assert said.code == 0
    assert [note.partition("' ")[0].rpartition("/")[2] for note in said.notes] == [".claude", ".mcp.json", ".vscode"]
    assert empty.names() == [".git", "file"]
    assert len(names(empty.base / "state/aside")) == 3


def test_what_is_planted_in_an_empty_folder_is_taken_away(empty: Box) -> None:
    evil = "git init -q .; git config core.fsmonitor evil; mkdir .claude .husky; echo x > .envrc"
    in_room(empty, evil)
    assert len(empty.notes) == 4
    assert empty.names() == []


def test_an_empty_folder_in_another_repository() -> None:
    with seen_folder() as base:
        repository(base)
        repository(base / "other")
        box = Box(base, env=NAMES)
        said = line(box, "git clone -q ../other .")
        assert (said.code, said.notes) == (0, ())
        box.sandbox.close()
        assert git(box.work, "rev-parse", "--show-toplevel") == f"{box.work}\n"


# --- what is held is no concern of git's --------------------------------------------------------------------------


@pytest.mark.parametrize("info", [True, False], ids=["", "without a folder 'info'"])
def test_stash_and_clean_do_not_fail_at_what_is_held(box: Box, info: bool) -> None:
    exclude = box.work / ".git/info/exclude"
    if info:
        exclude.write_text("*.log\n")
    else:
        subprocess.run(["rm", "-rf", str(exclude.parent)], check=True)
    (box.work / "file").write_text("two\n")
    (box.work / "new").write_text("new\n")
    (box.work / "a.log").touch()
    assert in_room(box, "git stash -q -u && cat file && ls") == ("one\na.log\nfile\n" if info else "one\nfile\n")
    assert in_room(box, "git stash pop -q && git status --short") == (
        " M file\n?? new\n" if info else " M file\n?? a.log\n?? new\n"
    )
    assert in_room(box, "mkdir e && git clean -qfd && ls") == ("a.log\nfile\n" if info else "file\n")
    assert box.run("echo x >> .git/info/exclude", SandboxAccess.GIT).code != 0
    assert (exclude.read_text() if exclude.exists() else "") == ("*.log\n" if info else "")


def test_names_with_special_characters_and_folders_below_the_top() -> None:
    with seen_folder() as base:
        folder = base / "a [b] #!*"
        folder.mkdir()
        repository(base)
        box = Box(base, folders=("a [b] #!*",), env=NAMES)
        (folder / "new").touch()
        assert in_room(box, "git clean -qfd . && ls") == ""
        box.sandbox.close()


# --- what else works ----------------------------------------------------------------------------------------------

THREE = "; ".join([f"echo {n} > f{n}; git add f{n}; git commit -qm {n}" for n in "123"])
WORKS = [
    ("GIT_SEQUENCE_EDITOR=true git rebase -q -i HEAD~2; git log --format=%s", "3\n2\n1\nfirst\n"),
    ("GIT_SEQUENCE_EDITOR=\"sed -i '2s/pick/fixup/'\" git rebase -q -i HEAD~2; git log --format=%s", "2\n1\nfirst\n"),
    ("GIT_SEQUENCE_EDITOR='sed -i 1d' git rebase -q -i HEAD~2; git log --format=%s", "3\n1\nfirst\n"),
    (
        "git bisect start HEAD HEAD~3 >/dev/null; git bisect good >/dev/null; git bisect reset 2>/dev/null",
        "",
    ),
    (
        "GIT_AUTHOR_DATE='2020-01-01 00:00 +0000' git commit -q --allow-empty -m y; git log -1 --format=%as",
        "2020-01-01\n",
    ),
]


@pytest.mark.parametrize(("command", "said"), WORKS, ids=[one[0] for one in WORKS])
def test_lines_that_set_something(box: Box, command: str, said: str) -> None:
    in_room(box, THREE)
    ended = line(box, command)
    assert (ended.code, ended.stdout.text.replace("\r", "").strip(), ended.notes) == (0, said.strip(), ())


def test_a_rebase_that_would_run_something_later_is_told(box: Box) -> None:
    in_room(box, THREE)
    todo = box.work / "todo"
    todo.write_text("break\nexec evil\n")
    box.run(f"GIT_SEQUENCE_EDITOR='cp {todo}' git rebase -i HEAD~2", SandboxAccess.GIT)
    (note,) = box.notes
    assert "git-rebase-todo' contains commands that git would run" in note


def test_filters_of_the_configuration_run_inside(box: Box) -> None:
    """As `git lfs` does: they may write where git does, and nowhere else."""
    (box.work / ".gitattributes").write_text("*.big filter=up\n")
    up = box.work / "up"
    up.write_text(
        f"#!/bin/sh\nmkdir -p .git/lfs; touch .git/lfs/x {box.base}/out/x .git/hooks/x 2>/dev/null; tr a-z A-Z\n"
    )
    up.chmod(0o755)
    git(box.work, "config", "filter.up.clean", "./up")
    (box.work / "f.big").write_text("hello\n")
    assert in_room(box, "git add f.big && git commit -qm f && git show HEAD:f.big") == "HELLO\n"
    assert (box.work / ".git/lfs/x").exists()
    assert not (box.work / ".git/hooks/x").exists()
    assert names(box.base / "out") == []
