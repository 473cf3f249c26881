"""The repository that a working folder belongs to, where that lies outside of the folder: above it, or behind a file.

The git room opens it as any other (`git.py`): all else out there stays read-only. It is the one that git itself
would take, and only if it is beyond doubt the person's own: it belongs to our user, and if a file `.git` leads to it,
as for worktrees and submodules, it names this place in return. An archive that brings such a file opens nothing.
"""

# ruff: noqa: PTH113, PTH114, PTH116, PTH118, PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import NamedTuple

from mainspring.processes.paths import is_within
from mainspring.sandbox.bubblewrap import TEMPORARY
from mainspring.sandbox.git import POINTER, is_repository, read_git_pointer, read_small_file
from mainspring.sandbox.placeholders import is_ours
from mainspring.sandbox.sandbox_gitlinks import WORKTREE

DEEPEST = 64  # folders above


class OuterRepository(NamedTuple):
    """`why`: it stays closed."""

    repository: str  # the folder that all of its worktrees share
    top: str  # where its `.git` lies
    why: str = ""


def find_outer_repository(folder: str, denied: Iterable[str] = ()) -> OuterRepository | None:
    """None: there is none, or it lies in the folder itself. All paths are real ones."""
    top = folder
    for _ in range(DEEPEST):
        entry = f"{top}/.git"
        if os.path.lexists(entry) and not is_ours(entry):
            if os.path.isfile(entry) and not os.path.islink(entry):
                return _behind(entry, folder, denied)
            if top == folder:
                return None
            if os.path.islink(entry):
                return OuterRepository(entry, top, "its '.git' is a link")
            if is_repository(entry):
                return OuterRepository(entry, top, _closed(entry, top, folder, denied))
        elif is_repository(top):
            return None  # bare, in git's eyes: there is no working folder
        if top == "/":
            return None
        top = os.path.dirname(top)
    return None


def _behind(entry: str, folder: str, denied: Iterable[str]) -> OuterRepository | None:
    """Where a file leads."""
    own, top = read_git_pointer(entry, POINTER), os.path.dirname(entry)
    if own is None:
        return None
    common = read_git_pointer(f"{own}/commondir", b"") or own
    if is_within(common, folder):
        return None
    if not _names_it(own, entry):
        return OuterRepository(common, top, f"it does not name '{entry}', which leads to it, in return")
    return OuterRepository(common, top, _closed(common, top, folder, denied))


def _names_it(own: str, entry: str) -> bool:
    """A worktree's folder holds the path of its `.git`; a submodule's configuration that of its working folder."""
    if os.path.lexists(f"{own}/commondir"):
        return os.path.realpath(os.path.join(own, os.fsdecode(read_small_file(f"{own}/gitdir").strip()))) == entry
    named = WORKTREE.search(read_small_file(f"{own}/config"))
    return named is not None and f"{os.path.realpath(os.path.join(own, os.fsdecode(named[1].strip())))}/.git" == entry


def _closed(repository: str, top: str, folder: str, denied: Iterable[str]) -> str:
    if any(is_within(repository, os.path.realpath(path)) for path in denied):
        return "it lies in a place that is denied"
    if top != folder and any(is_within(top, hidden) for hidden in (*TEMPORARY, "/run")):
        return "its other files are hidden in the sandbox, and git would take them for removed"
    with contextlib.suppress(OSError):
        if os.stat(repository).st_uid == os.geteuid():
            return ""
    return "it belongs to another user"
