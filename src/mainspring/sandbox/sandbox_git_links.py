"""Links in the folder of a repository: git follows most of them when it writes, also outside of the sandbox, later.

`COMMIT_EDITMSG` that leads to a shell's start file is overwritten with the next commit, a log grows where it leads. Git
makes no links itself but `HEAD`, in old repositories. So one that is new after a command in the git room is taken away.
"""

# ruff: noqa: PTH115  # pathlib takes 8 ms to load

from __future__ import annotations

import contextlib
import os

MOST = 20_000  # entries that are looked at: all but the objects, some 400 in most repositories


def find_git_links(repository: str) -> frozenset[tuple[str, str]]:
    """Each with where it leads."""
    found: list[tuple[str, str]] = []
    folders, left = [repository], MOST
    for folder in folders:  # it grows while we go
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                left -= 1
                if left < 0:
                    return frozenset(found)
                if entry.is_symlink():
                    found.append((entry.path, os.readlink(entry.path)))
                # A file among the objects is never written to; a folder of them may be a link.
                elif entry.is_dir(follow_symlinks=False) and not folder.endswith("/objects"):
                    folders.append(entry.path)
    return frozenset([one for one in found if not _is_head(*one)])


def _is_head(path: str, end: str) -> bool:
    return path.endswith("/HEAD") and end.startswith("refs/") and ".." not in end
