"""What is held is no concern of git's: for it, the held folders are ignored ones (`placeholders.py`).

Git does not see empty folders, but `git clean -d` and `git stash -u` remove them, fail at ours, and leave their work
half done. So in the git room `info/exclude` shows a file of ours: the repository's own lines, and then these folders.
"""

# ruff: noqa: PTH105, PTH114  # pathlib takes 8 ms to load

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable

from mainspring.processes.paths import is_within
from mainspring.sandbox.bubblewrap import SandboxPath, SandboxPathAccess
from mainspring.sandbox.git import read_small_file
from mainspring.sandbox.sandbox_gitlinks import iter_working_trees

NAME = "info/exclude"
SPECIAL = re.compile(rb"([\\*?\[\]!# ])")


def hide_placeholders_from_git(repository: str, held: Iterable[str], state: str) -> SandboxPath | None:
    """`state`: a folder of ours. None: nothing of it lies in the repository, or nothing can be shown there."""
    path = f"{repository}/{NAME}"
    paths = sorted(held)
    found = {
        _line(top, one)
        for top, _ in iter_working_trees(repository)
        for one in paths
        if is_within(one, top) and one != top
    }
    if not found or os.path.islink(path) or os.path.islink(f"{repository}/info") or not os.path.isfile(path):  # noqa: PTH113
        return None
    text = b"\n".join([read_small_file(path).rstrip(b"\n"), *sorted(found), b""])
    return SandboxPath(path, SandboxPathAccess.READ, _stored(text, state))


def _line(top: str, path: str) -> bytes:
    return b"/" + SPECIAL.sub(rb"\\\1", os.fsencode(path[len(top) :].strip("/"))) + b"/"


def _stored(text: bytes, state: str) -> str:
    """By its content: it is there already, mostly, and commands beside this one may see another."""
    path = f"{state}/ignored-{hashlib.sha256(text).hexdigest()[:16]}"
    if read_small_file(path) != text:
        new = f"{path}.{os.urandom(4).hex()}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with contextlib.closing(os.fdopen(descriptor, "wb")) as file:
            file.write(text)
        os.replace(new, path)
    return path
