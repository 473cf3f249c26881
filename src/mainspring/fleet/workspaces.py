"""The directory that a task works in, from its start until its result is stored.

A task with `repo` works in a clone that shares the objects of the repository, one with `cwd` in a copy. The directory
is made beside its final place and renamed when it is complete, so after a crash it is either whole or made again; a
session that is resumed finds it as it was. When the task has ended, what it changed is stored as a diff, and then the
directory is removed.

The diff is made by a Git directory of ours beside the workspace. The task's own `.git` may say anything by then: its
hooks, filters and settings are not used.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Collection, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.core.errors import MainspringError, UsageError
from mainspring.fleet.tasks import FleetTask
from mainspring.processes.environment import find_program

if TYPE_CHECKING:
    from collections.abc import Generator

WORKSPACES, DIFFS, MIRRORS = "workspaces", "diffs", "repos"
TREE, BASE, MADE = "tree", "base.git", "base-tree"
UNFINISHED = ".new"  # at the end of the name of a workspace that is being made
NAME_LENGTH = 60
FICLONE = 0x40049409  # ioctl: share the blocks of another file, where the file system can
# Settings of the user are not used: what they do to files (line endings, filters) would be part of the diff.
PLAIN_SETTINGS = (
    "core.bare=false",
    "core.autocrlf=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "gc.auto=0",
)
PLAIN = tuple([word for setting in PLAIN_SETTINGS for word in ("-c", setting)])


class WorkspaceError(MainspringError):
    """The workspace of a task cannot be made."""


class TaskWorkspace:
    """Where a task works, in place: what it changes stays."""

    def __init__(self, cwd: str | None) -> None:
        self.cwd = cwd  # None: that of the agent

    async def store_diff(self) -> str | None:
        """The file with what the task changed; empty: it changed nothing. None: this is not known."""
        return None

    async def remove(self) -> None:
        """The result is stored."""


class OwnWorkspace(TaskWorkspace):
    """A clone, a copy, or an empty directory, for this task alone."""

    def __init__(self, folder: Path, name: str) -> None:
        """`folder`: of the fleet, without links in its path."""
        self._folder, self._name = folder, name
        self.place = folder / WORKSPACES / name
        self.tree = self.place / TREE
        super().__init__(str(self.tree))

    async def make(self, fill: Callable[[Path], None]) -> None:
        if not self.place.is_dir():
            await asyncio.to_thread(self._make, fill)

    def _make(self, fill: Callable[[Path], None]) -> None:
        making = self.place.with_name(self._name + UNFINISHED)
        remove_tree(making)
        making.mkdir(parents=True)
        fill(making)
        making.rename(self.place)

    async def store_diff(self) -> str | None:
        return await asyncio.to_thread(self._store_diff)

    def _store_diff(self) -> str:
        """Once: what the check leaves in the workspace is not part of it."""
        file = self._folder / DIFFS / f"{self._name}.diff"
        if file.is_file():
            return str(file)
        if (self.place / f"{DIFFS}-empty").exists():
            return ""
        git = ours(self.place)
        git("add", "--all", "--ignore-errors", "--", ".", codes=(0, 1))  # unreadable files are left out
        text = git("diff", "--binary", "--no-color", "--no-ext-diff", (self.place / MADE).read_text().strip(),
                   git("write-tree").decode().strip())  # fmt: skip
        if not text:
            (self.place / f"{DIFFS}-empty").touch()
            return ""
        file.parent.mkdir(exist_ok=True)
        unfinished = file.with_suffix(UNFINISHED)
        with unfinished.open("wb") as to:
            to.write(text)
            to.flush()
            os.fsync(to.fileno())
        unfinished.rename(file)
        return str(file)

    async def remove(self) -> None:
        await asyncio.to_thread(remove_tree, self.place)


async def open_workspace(
    task: FleetTask, folder: Path | None, attempt: int = 1, *, isolate: bool = False
) -> TaskWorkspace:
    """`folder`: of the fleet, None if it stores nothing. `isolate`: a task that names no directory works in an empty
    one. Raises `WorkspaceError`."""
    if task.in_place or (task.cwd is None and task.repo is None and not (isolate and folder)):
        return TaskWorkspace(task.cwd)
    if folder is None:
        what = "a clone" if task.repo is not None else "a copy of 'cwd'"
        way = "give the fleet 'out'" + ("" if task.repo is not None else ", or the task 'in_place'")
        raise WorkspaceError(f"task '{task.id}' works in {what}, which is stored in the output directory: {way}")
    workspace = OwnWorkspace(folder, name_of(task.id, attempt))

    def fill(place: Path) -> None:
        if task.repo is not None:
            clone_repository(task.repo, task.ref, place, folder)
        elif task.cwd is not None:
            copy_directory(task.cwd, place, folder)
        else:
            (place / TREE).mkdir()
            snapshot(place)

    try:
        await workspace.make(fill)
    except OSError as error:
        raise WorkspaceError(f"cannot make the workspace of task '{task.id}': {error}") from None
    return workspace


def name_of(task_id: str, attempt: int) -> str:
    """Of its directory: readable, and of no other task. Attempts have their own."""
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", task_id).strip(".-")[:NAME_LENGTH]
    unique = hashlib.sha256(task_id.encode()).hexdigest()[:8]
    return f"{readable or 'task'}-{unique}" + (f"-{attempt}" if attempt > 1 else "")


def remove_finished_workspaces(folder: Path, finished: Collection[str]) -> None:
    """What a killed process left behind: workspaces it was making, and those of tasks with a result, by name."""
    with suppress(FileNotFoundError), os.scandir(folder / WORKSPACES) as found:
        for one in list(found):
            if one.name.endswith(UNFINISHED) or one.name in finished:
                remove_tree(Path(one.path))


# --- clones ---------------------------------------------------------------------------------------------


def clone_repository(repo: str, ref: str | None, place: Path, folder: Path) -> None:
    """A clone at `ref`, which needs the objects of the repository as long as it lives. Raises `WorkspaceError`."""
    source = repo if is_local(repo) else mirror(repo, ref, folder / MIRRORS)
    if not os.path.isdir(source):  # noqa: PTH112  # a string
        raise WorkspaceError(f"the repository '{repo}' does not exist. Check \"repo\"")
    there = git_in(source)
    commit = find_commit(there, ref or "HEAD")
    if commit is None:
        what = f"'{repo}' has no branch, tag or commit '{ref}'. Check \"ref\"" if ref else f"'{repo}' has no commits"
        raise WorkspaceError(what)
    tree = place / TREE
    run_git("clone", "-q", "--shared", "--no-checkout", "--", source, str(tree))
    here = git_in(str(tree))
    branch = ref or there("symbolic-ref", "-q", "--short", "HEAD", codes=(0, 1)).decode().strip()
    is_branch = bool(branch) and find_commit(there, f"refs/heads/{branch}") is not None
    here("checkout", "-q", *(("-B", branch, commit) if is_branch else ("--detach", commit)))
    here("config", "remote.origin.url", repo)
    here("config", "remote.origin.pushurl", "push-is-off")  # a task must not change the repository that it came from
    git = make_base(place)
    objects = there("rev-parse", "--path-format=absolute", "--git-path", "objects").decode().strip()
    (place / BASE / "objects/info/alternates").write_text(f"{objects}\n", "utf-8")
    shutil.copyfile(tree / ".git/index", place / BASE / "index")  # it knows the times of the files
    (place / MADE).write_bytes(git("rev-parse", f"{commit}^{{tree}}"))


def is_local(repo: str) -> bool:
    return os.path.isabs(repo) or os.path.isdir(repo)  # noqa: PTH112, PTH117  # a string


def find_commit(git: Git, ref: str) -> str | None:
    found = git("rev-parse", "--verify", "-q", "--end-of-options", f"{ref}^{{commit}}", codes=(0, 1, 128))
    return found.decode().strip() or None


def mirror(address: str, ref: str | None, folder: Path) -> str:
    """Our copy of a repository on another machine: fetched once, and again for a ref that it does not have yet."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{hashlib.sha256(address.encode()).hexdigest()[:16]}.git"
    with hold_lock(folder / f"{place.name}.lock"):
        if not place.is_dir():
            unfinished = place.with_suffix(UNFINISHED)
            remove_tree(unfinished)
            run_git("clone", "-q", "--mirror", "--", address, str(unfinished))
            unfinished.rename(place)
        elif ref is not None and find_commit(git_in(str(place)), ref) is None:
            git_in(str(place))("fetch", "-q", "origin")
    return str(place)


@contextmanager
def hold_lock(file: Path) -> Generator[None]:
    """One thread of one process at a time."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


# --- copies ---------------------------------------------------------------------------------------------


def copy_directory(cwd: str, place: Path, folder: Path) -> None:
    """With modes, times and links; without sockets and pipes, and without the output directory, if it is inside."""
    if not os.path.isdir(cwd):  # noqa: PTH112  # a string
        raise WorkspaceError(f"the directory '{cwd}' does not exist. Check \"cwd\"")
    left_out = folder.stat()

    def skip(inside: str, names: list[str]) -> set[str]:
        skipped: set[str] = set()
        for name in names:
            look = os.lstat(os.path.join(inside, name))  # noqa: PTH118  # a string
            known = stat.S_ISREG(look.st_mode) or stat.S_ISDIR(look.st_mode) or stat.S_ISLNK(look.st_mode)
            if not known or os.path.samestat(look, left_out):
                skipped.add(name)
        return skipped

    try:
        shutil.copytree(cwd, place / TREE, symlinks=True, ignore=skip, copy_function=copy_file)
    except shutil.Error as error:
        source, _, why = error.args[0][0]
        raise WorkspaceError(f"cannot copy '{source}': {why}") from None
    snapshot(place)


def copy_file(source: str, to: str) -> None:
    """Without a second copy of its blocks, where the file system can."""
    with open(source, "rb") as old, open(to, "wb") as new:  # noqa: PTH123  # strings
        try:
            fcntl.ioctl(new, FICLONE, old.fileno())
        except OSError:
            shutil.copyfileobj(old, new, 1 << 20)
    shutil.copystat(source, to)


def snapshot(place: Path) -> None:
    """All files that are not ignored, as they are now; the diff compares with them."""
    git = make_base(place)
    git("add", "--all", "--ignore-errors", "--", ".", codes=(0, 1))
    (place / MADE).write_bytes(git("write-tree"))


def remove_tree(place: Path) -> None:
    """Also directories that the task has made read-only."""

    def retry(function: Callable[[str], object], path: str, _error: object) -> None:
        with suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101, PTH120  # strings
            os.chmod(path, 0o700)  # noqa: PTH101
        with suppress(OSError):
            function(path)

    for _ in range(3):  # a directory that became readable has content that was not seen before
        if not place.exists():
            return
        shutil.rmtree(place, onerror=retry)


# --- Git ------------------------------------------------------------------------------------------------


class Git:
    """Runs Git commands for one repository."""

    def __init__(self, *before: str, env: Mapping[str, str] | None = None) -> None:
        self._before, self._env = before, env

    def __call__(self, *words: str, codes: Collection[int] = (0,)) -> bytes:
        return run_git(*self._before, *words, codes=codes, env=self._env)


def git_in(repository: str) -> Git:
    return Git("-C", repository, "-c", "core.hooksPath=/dev/null")


def make_base(place: Path) -> Git:
    run_git("init", "-q", "--bare", "--template=", str(place / BASE))
    (place / BASE / "info").mkdir(exist_ok=True)
    (place / BASE / "objects/info").mkdir(exist_ok=True)
    return ours(place)


def ours(place: Path) -> Git:
    """Our Git directory of a workspace."""
    env = {"GIT_DIR": str(place / BASE), "GIT_WORK_TREE": str(place / TREE), "GIT_CONFIG_GLOBAL": "/dev/null"}
    return Git("-C", str(place / TREE), *PLAIN, env=env | {"GIT_CONFIG_NOSYSTEM": "1"})


def run_git(*words: str, codes: Collection[int] = (0,), env: Mapping[str, str] | None = None) -> bytes:
    """Its output. Raises `WorkspaceError`."""
    program = find_program("git", path=os.environ.get("PATH", ""))
    if program is None:
        raise UsageError('tasks with "repo" or "cwd" need Git: \'git\' not found in PATH. Install it')
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ended = subprocess.run(  # noqa: S603  # no shell
        [program, *words],
        env={**inherited, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if ended.returncode not in codes:
        why = ended.stderr.decode(errors="replace").strip().removeprefix("fatal: ") or f"exit code {ended.returncode}"
        command = next(word for word in words if word in COMMANDS)
        raise WorkspaceError(f"'git {command}' failed: {why}")
    return ended.stdout


COMMANDS = ("clone", "fetch", "checkout", "config", "init", "add", "diff", "write-tree", "rev-parse", "symbolic-ref")
