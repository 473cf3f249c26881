"""Checks a repository after a command with the git profile (`git.py`): quarantines what leads to code, and reports it.

The sandbox cannot prevent these files, since git itself makes such things: worktrees, submodules, and the state of a
rebase, which may contain commands. They are moved into our own folder, from which a person can restore them.

`git init` in an existing repository rewrites its configuration, which no other command with the profile may do. It is
allowed for lines that run only git itself, and no hook: `git init`, and `git config` of a name. The program is the
system's own, since folders that a command could have written are removed from `PATH`. The result is compared with the
state before: a configuration may differ in git's initial settings and in names, and nothing new may lead to code,
except samples. That is the second barrier; the first is that no other command works in the repository.

The module also ensures that a repository stays one. Without a `HEAD` that git understands, `objects` or `refs`, git
ignores a `.git`, and uses whatever poses as a repository beside or above it. So a broken one is restored.
"""

# ruff: noqa: PTH101, PTH102, PTH105, PTH112, PTH113, PTH114, PTH115, PTH116, PTH118, PTH208  # pathlib takes 8 ms to load

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from mainspring.processes.paths import is_within
from mainspring.sandbox.git import (
    FILES,
    FOLDERS,
    GitProfile,
    find_git_links,
    find_nested_repositories,
    find_submodules,
    find_worktrees,
    named_in,
    read_small_file,
    resolve_git_file,
)
from mainspring.sandbox.placeholders import is_ours, open_parent

EXEC = re.compile(rb"^[ \t]*(?:x|exec)(?:[ \t].*|\r?)$", re.MULTILINE)
STRATEGIES = frozenset([b"", b"ort", b"recursive", b"resolve", b"octopus", b"ours", b"subtree"])  # git's own
STRATEGY = re.compile(rb"^[ \t]*strategy[ \t]*=[ \t]*\"?([^\"\r\n]*?)\"?[ \t]*$", re.IGNORECASE | re.MULTILINE)
# Lines that `git submodule` and `git clone` write into a new configuration. Any other line may lead to code.
PLAIN = re.compile(
    rb"\s*(?:[#;].*|\[(?:core|user|submodule|extensions)\]|\[(?:remote|branch|submodule) \"[^\"\\]*\"\]|"
    rb"(?:repositoryformatversion|filemode|bare|logallrefupdates|worktree|ignorecase|precomposeunicode|symlinks|"
    rb"sparsecheckout|sparsecheckoutcone|worktreeconfig|"
    rb"url|fetch|remote|merge|active|name|email|tagopt|promisor|partialclone|partialclonefilter|objectformat)"
    rb"[ \t]*=(?!.*\\$).*)?\s*",
    re.IGNORECASE,
)
CONFIGS = ("config", "config.worktree")  # the second for `--sparse`


class RepositoryBefore(NamedTuple):
    """The state before, to exclude what a person made."""

    submodules: frozenset[str]
    worktrees: frozenset[str]
    orders: frozenset[bytes]  # commands in an unfinished rebase
    missing: frozenset[str]  # missing files that configurations name
    nested: frozenset[str]  # the `.git` of repositories that the index names: they were read-only
    links: frozenset[tuple[str, str]] = frozenset()


def snapshot_repositories(room: GitProfile) -> RepositoryBefore:
    return RepositoryBefore(
        frozenset([path for folder in room.opened for path in find_submodules(folder)]),
        frozenset([path for folder in room.opened for path in find_worktrees(folder)]),
        frozenset([line for folder in _states(room) for line in _orders(folder)]),
        frozenset([path for folder in room.opened for path in named_in(folder) if not os.path.lexists(path)]),
        frozenset(_nested(room)),
        _links(room),
    )


def take_away(room: GitProfile, was: RepositoryBefore, aside: str, writable: tuple[str, ...]) -> list[str]:
    """Quarantines, and returns notes. `aside`: a folder of ours, created when needed.

    An index may name any path. One that the command could not write is not its work, and is only reported.
    """
    notes: list[str] = []
    for path, reason in list(_wrong(room, was)):
        if not any(is_within(path, folder) for folder in (*writable, *room.opened)):
            notes.append(f"'{path}' {reason}; it existed before: check it before you run git there")
        elif os.path.lexists(path):  # it may be in another one
            notes.append(move_aside(path, f"'{path}' {reason}", aside))
    return notes


def look_at_new(path: str, aside: str, writable: tuple[str, ...]) -> list[str] | None:
    """The same for a new `.git`. None: there still is none."""
    if not os.path.lexists(path) or is_ours(path):
        return None
    if os.path.islink(path) or not os.path.isdir(path):
        return [move_aside(path, f"'{path}' leads to a repository elsewhere", aside)]
    if why := _led(path):
        return [move_aside(path, f"'{path}' is a new repository with {why}", aside)]
    nothing: frozenset[str] = frozenset()
    return take_away(
        GitProfile(opened=(path,)), RepositoryBefore(nothing, nothing, frozenset(), nothing, nothing), aside, writable
    )


def _wrong(room: GitProfile, was: RepositoryBefore) -> Iterator[tuple[str, str]]:
    for folder in room.opened:
        for path in find_worktrees(folder):
            if path not in was.worktrees and not _is_plain_worktree(path, folder):
                yield path, "is a new worktree whose configuration is not its repository's"
        for path in find_submodules(folder):
            if path not in was.submodules and (why := _led(path)):
                yield path, f"is a new submodule's repository with {why}"
    for path in _nested(room):
        repository = path if os.path.isdir(path) else resolve_git_file(path)
        if path not in was.nested and repository and (why := _led(repository)):
            yield path, f"configures git in this folder, with {why}"
    for path, end in sorted(_links(room) - was.links):
        yield path, f"is a new link, through which git would write ('{end}')"
    for path in was.missing:
        if os.path.lexists(path):
            yield path, "is new, and the configuration of the repository includes it or runs it"
    for folder in _states(room):
        yield from _unfinished(folder, was)


def _unfinished(folder: str, was: RepositoryBefore) -> Iterator[tuple[str, str]]:
    if any(line not in was.orders for line in _orders(folder)):
        yield f"{folder}/rebase-merge/git-rebase-todo", "contains commands that git would run"
    for path, strategy in _strategies(folder):
        if strategy not in STRATEGIES:
            yield path, f"names a merge strategy that is not git's own ('{os.fsdecode(strategy)}')"


def _nested(room: GitProfile) -> list[str]:
    found = [f"{path}/.git" for folder in room.opened for path in find_nested_repositories(folder)]
    return [path for path in found if os.path.lexists(path)]


def _links(room: GitProfile) -> frozenset[tuple[str, str]]:
    tops = [path for path in room.opened if not any(is_within(path, one) and path != one for one in room.opened)]
    return frozenset([link for path in tops for link in find_git_links(path)])


def _states(room: GitProfile) -> list[str]:
    """Where git keeps the state of unfinished operations: in repositories and in worktrees, also in new ones."""
    return [path for folder in room.opened for path in (folder, *find_worktrees(folder))]


def _orders(folder: str) -> list[bytes]:
    return EXEC.findall(read_small_file(f"{folder}/rebase-merge/git-rebase-todo"))


def _strategies(folder: str) -> Iterator[tuple[str, bytes]]:
    yield (path := f"{folder}/rebase-merge/strategy"), read_small_file(path).strip()
    for found in STRATEGY.findall(read_small_file(path := f"{folder}/sequencer/opts")):
        yield path, found


def _is_plain_worktree(path: str, repository: str) -> bool:
    if any(os.path.islink(f"{path}/{name}") for name in ("commondir", "config.worktree")):
        return False
    said = os.fsdecode(read_small_file(f"{path}/commondir").strip())
    return (
        os.path.realpath(os.path.join(path, said)) == repository
        and not read_small_file(f"{path}/config.worktree").strip()
    )


def _led(repository: str) -> str:
    """Its part that leads to code; empty: none."""
    for name in (*[name for name in FILES if name not in CONFIGS], "branches", "remotes"):
        path = f"{repository}/{name}"
        if os.path.islink(path) or (os.path.isdir(path) and os.listdir(path)) or read_small_file(path).strip():
            return f"'{name}'"
    hooks = f"{repository}/hooks"
    if os.path.islink(hooks) or (os.path.isdir(hooks) and any(not n.endswith(".sample") for n in os.listdir(hooks))):
        return "hooks"
    if any(os.path.islink(f"{repository}/{name}") for name in CONFIGS):
        return "a configuration elsewhere"
    lines = [line for name in CONFIGS for line in read_small_file(f"{repository}/{name}").split(b"\n")]
    strange = next((line for line in lines if not PLAIN.fullmatch(line)), None)
    return "" if strange is None else f"the setting '{strange.decode(errors='replace').strip()[:80]}'"


def move_aside(path: str, words: str, aside: str) -> str:
    """Moves it, and returns a note. `words`: why."""
    try:
        return f"{words}: it was moved to '{_move(path, aside)}'"
    except OSError as error:
        return f"{words}, and it could not be moved away ({error.strerror}): check it before you start anything there"


def _move(path: str, aside: str) -> str:
    """Follows no link on the way: a command that still runs could lead us out of the workspace."""
    os.makedirs(aside, mode=0o700, exist_ok=True)  # noqa: PTH103
    parent, _, name = path.rpartition("/")
    new = f"{aside}/{os.urandom(4).hex()}-{name}"
    folder = open_parent(parent)
    try:
        os.rename(name, new, src_dir_fd=folder)
    except OSError:  # another file system
        with contextlib.suppress(FileNotFoundError):
            import shutil

            shutil.move(f"/proc/self/fd/{folder}/{name}", new)
    finally:
        os.close(folder)
    return new


# Settings that `git init` and `git config` of a name may change.
FREE: dict[bytes, frozenset[bytes]] = {
    b"[core]": frozenset(
        b"repositoryformatversion filemode bare logallrefupdates symlinks ignorecase precomposeunicode".split()
    ),
    b"[user]": frozenset([b"name", b"email"]),
}
KEY = re.compile(rb"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*=")
MODE = 0o644


class RepositoryConfig(NamedTuple):
    """One repository, before the command."""

    config: bytes
    mode: int
    code: frozenset[str]  # existing files that lead to code


def path_of(env: Mapping[str, str], writable: Iterable[str]) -> str:
    """`PATH` without folders that a command may have written."""
    folders = [folder for folder in env.get("PATH", "").split(":") if folder.startswith("/")]
    kept_out = tuple(writable)
    real = [(folder, os.path.realpath(folder)) for folder in folders]
    return ":".join([folder for folder, end in real if not any(is_within(end, out) for out in kept_out)])


def snapshot_configs(repositories: Iterable[str]) -> dict[str, RepositoryConfig]:
    found: dict[str, RepositoryConfig] = {}
    for folder in repositories:
        path = f"{folder}/config"
        found[folder] = RepositoryConfig(read_small_file(path), os.stat(path).st_mode & 0o777, frozenset(_code(folder)))
    return found


def restore_changed_configs(was: Mapping[str, RepositoryConfig], aside: str) -> list[str]:
    """Restores or quarantines, and returns notes."""
    notes: list[str] = []
    for folder, one in was.items():
        path = f"{folder}/config"
        if (
            not os.path.isfile(path)
            or os.path.islink(path)
            or parse_guarded_settings(read_small_file(path)) != parse_guarded_settings(one.config)
        ):
            notes.append(f"'{path}' was restored: {_put_back(path, one)}")
        added = sorted(set(_code(folder)) - one.code)
        notes += [move_aside(new, f"'{new}' is new, and git runs or obeys it", aside) for new in added]
    return notes


def parse_guarded_settings(config: bytes) -> list[tuple[bytes, bytes]]:
    """The settings that may not change, each with its section; a line that continues in the next is none of the free
    ones.
    """
    found: list[tuple[bytes, bytes]] = []
    section, goes_on = b"", False
    for line in config.split(b"\n"):
        text = line.strip()
        if not goes_on and text.startswith(b"["):
            section = text
            if section.lower() in FREE:
                continue
        elif not goes_on and (not text or _is_free(section, line)):
            continue
        goes_on = line.endswith(b"\\")
        found.append((section, line))
    return found


def _is_free(section: bytes, line: bytes) -> bool:
    key = KEY.match(line)
    known = FREE.get(section.lower(), frozenset())
    return key is not None and key[1].lower() in known and not line.endswith(b"\\")


def _code(folder: str) -> Iterator[str]:
    yield from [path for name in FILES if os.path.lexists(path := f"{folder}/{name}")]
    for name in FOLDERS:
        for top, _, names in os.walk(f"{folder}/{name}"):
            yield from [os.path.join(top, one) for one in names if not one.endswith(".sample")]


def _put_back(path: str, was: RepositoryConfig) -> str:
    new = f"{path}.{os.urandom(4).hex()}"
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, was.mode or MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(was.config)
        os.replace(new, path)
    except OSError as error:
        return f"it has settings other than names, but could not be restored ({error.strerror})"
    return "git wrote settings into it other than its initial ones and names"


HEAD = re.compile(rb"ref:\s*refs/|[0-9a-f]{40}")
LONGEST = 4_096  # bytes of a `HEAD`
OWNER = 0o700


def read_heads(repositories: Iterable[str]) -> dict[str, bytes]:
    """Of each that is complete."""
    return {folder: found for folder in repositories if HEAD.match(found := _head(folder))}


def put_back(was: Mapping[str, bytes]) -> list[str]:
    """Restores, and returns notes."""
    notes: list[str] = []
    for folder, head in was.items():
        try:
            done = list(_mended(folder, head))
        except OSError as error:
            notes.append(f"'{folder}' is no longer a complete repository, and could not be repaired ({error.strerror})")
            continue
        notes += [
            f"'{path}' was missing or invalid, and git would have ignored the repository: {how}" for path, how in done
        ]
    return notes


def _mended(folder: str, head: bytes) -> Iterator[tuple[str, str]]:
    for path in (folder, f"{folder}/objects", f"{folder}/refs"):
        if os.path.islink(path):
            continue  # git follows it; its target is not ours to change
        if not os.path.isdir(path):
            if os.path.lexists(path):
                os.rename(path, f"{path}.{os.urandom(4).hex()}")  # noqa: PTH104
            os.mkdir(path)
            yield path, "it was created again, empty"
        elif (mode := stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode)) & OWNER != OWNER:
            os.chmod(path, mode | OWNER)
            yield path, "it is accessible again"
    path = f"{folder}/HEAD"
    if not HEAD.match(_head(folder)):
        if os.path.isdir(path) and not os.path.islink(path):
            os.rename(path, f"{path}.{os.urandom(4).hex()}")  # noqa: PTH104
        _write(path, head)
        yield path, "it was restored"


def _head(folder: str) -> bytes:
    """As git reads it: an old repository may have a link there."""
    path = f"{folder}/HEAD"
    if os.path.islink(path):
        return b"ref: " + os.fsencode(os.readlink(path)) + b"\n"
    return read_small_file(path, LONGEST)


def _write(path: str, data: bytes) -> None:
    new = f"{path}.{os.urandom(4).hex()}"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
    os.replace(new, path)
