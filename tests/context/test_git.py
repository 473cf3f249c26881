"""What git says of a project, when the project would like to have programs run for it (security T3).

Each trap is shown to work first: plain git falls into it. A trap that nobody falls into would show nothing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest
from processes.steps import Steps
from tiers import long

from mainspring.context.git import MOST_COMMITS, MOST_STATUS, GitSnapshot, take_git_snapshot
from mainspring.processes.child import ProcessSpec
from mainspring.processes.children import Children, ProcessResult

GIT = shutil.which("git") or ""
pytestmark = pytest.mark.needs("git")

PLAIN = {
    "PATH": "/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *words: str, **env: str) -> str:
    done = subprocess.run(
        [GIT, *words], cwd=folder, env=PLAIN | env, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout


class Repo:
    def __init__(self, folder: Path, *how: str) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main", *how)

    def commit(self, subject: str, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", subject)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.commit("First words", kept="1\n", changed="1\n", removed="1\n")
    return made


def look(folder: Path, **environ: str) -> GitSnapshot:
    temporary = folder.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    found = asyncio.run(take_git_snapshot(str(folder), environ={"TMPDIR": str(temporary), **environ}))
    assert list(temporary.iterdir()) == []  # nothing of ours is left
    return found


# --- what it says -----------------------------------------------------------------------------------


def test_branch_status_and_commits(repo: Repo) -> None:
    for n in range(MOST_COMMITS + 2):
        repo.commit(f"Change {n}")
    assert look(repo.folder).status == ()
    (repo.folder / "changed").write_text("two\n")
    (repo.folder / "removed").unlink()
    (repo.folder / "new\nline \x1b[31m").write_text("")
    (repo.folder / ".git" / "info" / "exclude").write_text("secret\n")
    (repo.folder / "secret").write_text("")
    found = look(repo.folder)
    assert found.branch == "main"
    assert found.status == (" M changed", " D removed", "?? new?line ?[31m")
    assert [line.split(" ", 1)[1] for line in found.commits] == [f"Change {n}" for n in range(6, 1, -1)]
    assert not found.more
    assert found.problem == ""
    index = (repo.folder / ".git" / "index").read_bytes()
    look(repo.folder)
    assert (repo.folder / ".git" / "index").read_bytes() == index  # it only looks


def test_a_flood_of_files_and_words_is_bounded(repo: Repo) -> None:
    for n in range(5_000):
        (repo.folder / f"{n:05}-{'x' * 100}").touch()
    repo.commit("word " * 10_000)
    for n in range(5_000):
        (repo.folder / f"new-{n:05}-{'x' * 100}").touch()
    found = look(repo.folder)
    assert found.status is not None
    assert len(found.status) == MOST_STATUS
    assert found.more
    assert max(map(len, (*found.status, *found.commits))) < 130


def test_a_detached_head_a_new_repository_and_other_hashes(tmp_path: Path, repo: Repo) -> None:
    git(repo.folder, "checkout", "-q", "--detach")
    found = look(repo.folder)
    assert (found.branch, len(found.head), found.status) == ("", 40, ())
    new = Repo(tmp_path / "new")
    assert look(new.folder) == GitSnapshot("main", status=())
    other = Repo(tmp_path / "other", "--object-format=sha256")
    other.commit("Longer names", a="1")
    assert look(other.folder).commits[0].endswith("Longer names")


def test_a_worktree_and_a_submodule_are_looked_at(tmp_path: Path, repo: Repo) -> None:
    git(repo.folder, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side" / "added").touch()
    found = look(tmp_path / "side")
    assert (found.branch, found.status) == ("side", ("?? added",))
    assert len(found.commits) == 1
    outer = Repo(tmp_path / "outer")
    git(outer.folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo.folder), "inner")
    outer.commit("With a part")
    (outer.folder / "inner" / "added").touch()
    assert look(outer.folder / "inner").status == ("?? added",)
    assert look(outer.folder).status == ()  # nobody goes into it


def test_no_repository_or_a_broken_one_is_a_word_not_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert look(empty).problem
    (empty / ".git").mkdir()
    assert look(empty).problem
    (empty / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert look(empty).branch == "main"
    assert look(empty).status is None
    (empty / ".git" / "HEAD").unlink()
    os.mkfifo(empty / ".git" / "HEAD")
    assert look(empty).problem


# --- traps ------------------------------------------------------------------------------------------


class Traps:
    """Programs that leave a mark in a folder when somebody runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marks = folder / "marks"
        self.marks.mkdir(parents=True)

    def program(self, name: str, then: str = "cat") -> str:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n: > '{self.marks}/{name}'\n{then}\nexit 0\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def take(self) -> set[str]:
        found = {path.name for path in self.marks.iterdir()}
        for path in self.marks.iterdir():
            path.unlink()
        return found


def configure(repo: Repo, traps: Traps) -> None:
    """Everything that a configuration can have run by `status`, `log` or `diff`, as far as we know."""
    for key, name in {
        "core.fsmonitor": "fsmonitor",
        "core.pager": "pager",
        "pager.status": "pager-status",
        "pager.log": "pager-log",
        "diff.external": "external",
        "core.sshCommand": "ssh",
        "core.editor": "editor",
        "core.askPass": "askpass",
        "core.alternateRefsCommand": "alternates",
        "credential.helper": "credential",
        "filter.evil.clean": "clean",
        "filter.evil.smudge": "smudge",
        "filter.worse.process": "process",
        "diff.evil.textconv": "textconv",
        "diff.evil.command": "command",
        "gpg.program": "gpg",
        "uploadpack.packObjectsHook": "pack",
    }.items():
        git(repo.folder, "config", key, traps.program(name))
    for key, value in {"log.showSignature": "true", "filter.evil.required": "true", "alias.status": "!false"}.items():
        git(repo.folder, "config", key, value)
    hooks = traps.folder / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "pre-auto-gc", "reference-transaction"):
        Path(traps.program(name)).rename(hooks / name)
    git(repo.folder, "config", "core.hooksPath", str(hooks))
    (repo.folder / ".gitattributes").write_text("changed filter=evil diff=evil\nkept filter=worse\n")


def touch(repo: Repo) -> None:
    """Files that git must read to compare them: as long as before, and of another time."""
    for name in ("kept", "changed"):
        (repo.folder / name).write_text("2\n")
        os.utime(repo.folder / name, (1, 1))


def test_nothing_that_the_repository_names_is_run(tmp_path: Path, repo: Repo) -> None:
    traps = Traps(tmp_path / "traps")
    configure(repo, traps)
    touch(repo)
    for words in (("status",), ("log", "-1"), ("diff",)):
        git(repo.folder, *words)
    assert traps.take() >= {"fsmonitor", "clean", "process", "command"}  # more of them, with a newer git
    touch(repo)
    found = look(repo.folder, HOME=str(tmp_path))
    assert traps.take() == set()
    assert found.status == (" M changed", " M kept", "?? .gitattributes")
    assert found.commits[0].endswith("First words")


def test_a_file_that_the_configuration_includes_is_not_read(tmp_path: Path, repo: Repo) -> None:
    traps = Traps(tmp_path / "traps")
    (repo.folder / "more").write_text(f"[core]\n\tfsmonitor = {traps.program('included')}\n")
    git(repo.folder, "config", "include.path", "../more")
    git(repo.folder, "status")
    assert traps.take() == {"included"}
    assert look(repo.folder).status == ("?? more",)
    assert traps.take() == set()


def test_the_users_own_configuration_runs_nothing_either(tmp_path: Path, repo: Repo) -> None:
    """A daemon that the user wants would outlive us. The user's list of ignored files does count."""
    traps = Traps(tmp_path / "traps")
    home = tmp_path / "home"
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".gitconfig").write_text(
        f'[core]\n\tfsmonitor = {traps.program("user")}\n[filter "evil"]\n\tclean = {traps.program("clean")}\n'
    )
    (repo.folder / ".git" / "info" / "attributes").write_text("changed filter=evil\n")
    touch(repo)
    (home / ".config" / "git" / "ignore").write_text("*.swp\n")
    (repo.folder / "a.swp").touch()
    subprocess.run([GIT, "status"], cwd=repo.folder, env={"HOME": str(home)}, capture_output=True, check=True)
    assert traps.take() == {"user", "clean"}
    assert look(repo.folder, HOME=str(home)).status == (" M changed", " M kept")
    assert traps.take() == set()


def test_a_part_with_its_own_configuration_is_not_entered(tmp_path: Path, repo: Repo) -> None:
    traps = Traps(tmp_path / "traps")
    inner = Repo(repo.folder / "inner")
    inner.commit("Inside", a="1")
    git(repo.folder, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    git(inner.folder, "config", "core.fsmonitor", traps.program("inner"))
    git(repo.folder, "status")
    assert traps.take() == {"inner"}
    look(repo.folder)
    assert traps.take() == set()


def test_a_worktree_elsewhere_is_not_believed(tmp_path: Path, repo: Repo) -> None:
    secret = tmp_path / "elsewhere"
    secret.mkdir()
    (secret / "diary.txt").touch()
    git(repo.folder, "config", "core.worktree", str(secret))
    assert "diary.txt" in git(repo.folder, "status")
    assert look(repo.folder).status == ()


def test_what_is_missing_is_not_fetched(tmp_path: Path, repo: Repo) -> None:
    """A partial clone gets what it lacks from an address, and that can be a command."""
    traps = Traps(tmp_path / "traps")
    for key, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": f"ext::{traps.program('fetch', 'exit 1')}",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
    }.items():
        git(repo.folder, "config", key, value)
    tree = git(repo.folder, "rev-parse", "HEAD^{tree}").strip()
    (repo.folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    git(repo.folder, "status")
    assert traps.take() == {"fetch"}
    assert look(repo.folder).status is None
    assert traps.take() == set()


def test_a_git_of_the_projects_own_is_not_used(tmp_path: Path, repo: Repo) -> None:
    traps = Traps(tmp_path / "traps")
    (repo.folder / "git").write_bytes(Path(traps.program("git")).read_bytes())
    (repo.folder / "git").chmod(0o755)
    found = look(repo.folder, PATH=str(repo.folder))
    assert found.branch == "main"
    assert found.status == ("?? git",)
    assert traps.take() == set()


# --- other people's repositories --------------------------------------------------------------------


BORROWED = ["file", "worktree", "false worktree", "false submodule", "link", "objects", "refs", "pack", "alternates"]


@pytest.mark.parametrize("how", BORROWED)
def test_another_repository_cannot_be_borrowed(tmp_path: Path, repo: Repo, how: str) -> None:
    secret = Repo(tmp_path / "secret")
    secret.commit("The merger is on Friday", a="1")
    git(secret.folder, "worktree", "add", "-q", str(tmp_path / "desk"))
    ours, theirs = repo.folder / ".git", secret.folder / ".git"
    match how:
        case "file":
            shutil.rmtree(ours)
            ours.write_text(f"gitdir: {theirs}\n")
        case "worktree":
            shutil.rmtree(ours)
            ours.write_text(f"gitdir: {theirs}/worktrees/desk\n")
        case "false worktree":  # it points back, and its other half is another's
            shutil.rmtree(ours)
            false = repo.folder / "false"
            false.mkdir()
            for name, text in {"gitdir": str(ours), "commondir": str(theirs), "HEAD": "ref: refs/heads/main"}.items():
                (false / name).write_text(f"{text}\n")
            ours.write_text("gitdir: false\n")
        case "false submodule":
            shutil.rmtree(ours)
            (repo.folder / "config").write_text(f"[core]\n\tworktree = {repo.folder}\n")
            ours.write_text(f"gitdir: {theirs}\n")
        case "link":
            shutil.rmtree(ours)
            ours.symlink_to(theirs)
        case "pack" | "alternates":
            git(secret.folder, "gc", "-q")
            shutil.rmtree(ours / "objects")
            (ours / "objects" / "info").mkdir(parents=True)
            if how == "pack":
                (ours / "objects" / "pack").symlink_to(theirs / "objects" / "pack")
            else:
                (ours / "objects" / "info" / "alternates").write_text(f"{theirs / 'objects'}\n")
            (ours / "refs" / "heads" / "main").unlink()
            (ours / "packed-refs").write_bytes((theirs / "packed-refs").read_bytes())
        case _:
            for name in ("objects", "refs") if how == "refs" else ("objects",):
                shutil.rmtree(ours / name)
                (ours / name).symlink_to(theirs / name)
    assert "Friday" in git(repo.folder, "log", "--all") or how == "objects"  # plain git does show it
    found = look(repo.folder)
    assert "Friday" not in repr(found)
    assert found.problem


def fill_from(secret: Repo, ours: Path) -> None:
    """A branch of ours that names a commit which only the other repository has."""
    (ours / "refs" / "heads" / "main").unlink()
    (ours / "packed-refs").write_bytes((secret.folder / ".git" / "packed-refs").read_bytes())


def swap(ours: Path, theirs: Path, name: str) -> None:
    """A folder for a link, as a command in the background may do at any moment."""
    aside = ours.parent.parent / "aside"
    (ours / name if name else ours).rename(aside)
    (ours / name if name else ours).symlink_to(theirs / name if name else theirs)


@pytest.mark.parametrize("name", ["", long("objects/pack")])
def test_what_was_looked_at_is_what_git_reads_whatever_is_swapped(tmp_path: Path, name: str) -> None:
    """Before every second system call of ours, until there are no more: by then git has been started."""
    secret = Repo(tmp_path / "secret")
    secret.commit("The merger is on Friday", a="1")
    git(secret.folder, "gc", "-q")
    template = Repo(tmp_path / "template")
    template.commit("First words", kept="1\n")
    stage = tmp_path / "stage" / "repo"
    ours, theirs = stage / ".git", secret.folder / ".git"
    at = shown = 0
    for at in range(0, 3_000, 2):
        shutil.rmtree(tmp_path / "stage", ignore_errors=True)
        (tmp_path / "stage").mkdir()
        shutil.copytree(template.folder, stage)
        if name.startswith("objects"):
            fill_from(secret, ours)
        with Steps(at, lambda: swap(ours, theirs, name)) as steps:
            found = asyncio.run(take_git_snapshot(str(stage), environ={"TMPDIR": str(tmp_path)}))
        assert "Friday" not in repr(found), (at, steps.names[at - 5 : at + 1])
        shown += "First words" in repr(found)
        if at >= steps.count:
            break
    assert at > 40
    assert shown or name.startswith("objects")


@pytest.mark.parametrize("name", ["objects/pack", "objects/info/alternates"])
def test_what_comes_after_the_look_is_not_followed(tmp_path: Path, repo: Repo, name: str) -> None:
    """Git itself opens what is in a folder by name, so a link that comes when git runs already must lead nowhere."""
    secret = Repo(tmp_path / "secret")
    secret.commit("The merger is on Friday", a="1")
    git(secret.folder, "gc", "-q")
    ours, theirs = repo.folder / ".git", secret.folder / ".git"
    fill_from(secret, ours)

    class Late(Children):
        async def run(self, job: ProcessSpec) -> ProcessResult:
            if not (ours / name).is_symlink() and not (ours / name).is_file():
                if name.endswith("alternates"):
                    (ours / name).parent.mkdir(exist_ok=True)
                    (ours / name).write_text(f"{theirs / 'objects'}\n")
                else:
                    swap(ours, theirs, name)
            return await super().run(job)

    found = asyncio.run(take_git_snapshot(str(repo.folder), environ={"TMPDIR": str(tmp_path)}, children=Late()))
    assert "Friday" in git(repo.folder, "log")  # plain git follows it
    assert "Friday" not in repr(found)


def test_a_pipe_where_git_would_wait_for_ever_takes_two_seconds(repo: Repo) -> None:
    ref = repo.folder / ".git" / "refs" / "heads" / "main"
    ref.unlink()
    os.mkfifo(ref)
    start = time.monotonic()
    found = look(repo.folder)
    assert 1.5 < time.monotonic() - start < 60
    assert found.branch == "main"
    assert "2 seconds" in found.problem
