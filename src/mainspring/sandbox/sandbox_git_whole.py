"""That a repository is still one after a command in the git room (`git.py`).

Without a `HEAD` that git understands, `objects` or `refs`, git passes a `.git` over, and takes whatever poses as a
repository beside or above it. So what was one stays one: it is put back as it was.
"""

# ruff: noqa: PTH101, PTH102, PTH105, PTH112, PTH114, PTH115, PTH116  # pathlib takes 8 ms to load

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping

from mainspring.sandbox.git import read_small_file

HEAD = re.compile(rb"ref:\s*refs/|[0-9a-f]{40}")
LONGEST = 4_096  # bytes of a `HEAD`
OWNER = 0o700


def read_heads(repositories: Iterable[str]) -> dict[str, bytes]:
    """Of each that is whole."""
    return {folder: found for folder in repositories if HEAD.match(found := _head(folder))}


def put_back(was: Mapping[str, bytes]) -> list[str]:
    """What was done, in words."""
    notes: list[str] = []
    for folder, head in was.items():
        try:
            done = list(_mended(folder, head))
        except OSError as error:
            notes.append(f"'{folder}' is no whole repository any more, and could not be mended ({error.strerror})")
            continue
        notes += [
            f"'{path}' was gone or spoilt, and git would have passed the repository over: {how}" for path, how in done
        ]
    return notes


def _mended(folder: str, head: bytes) -> Iterator[tuple[str, str]]:
    for path in (folder, f"{folder}/objects", f"{folder}/refs"):
        if os.path.islink(path):
            continue  # git follows it; its end is not ours to change
        if not os.path.isdir(path):
            if os.path.lexists(path):
                os.rename(path, f"{path}.{os.urandom(4).hex()}")  # noqa: PTH104
            os.mkdir(path)
            yield path, "it was made anew, and is empty"
        elif (mode := stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode)) & OWNER != OWNER:
            os.chmod(path, mode | OWNER)
            yield path, "you can open it again"
    path = f"{folder}/HEAD"
    if not HEAD.match(_head(folder)):
        if os.path.isdir(path) and not os.path.islink(path):
            os.rename(path, f"{path}.{os.urandom(4).hex()}")  # noqa: PTH104
        _write(path, head)
        yield path, "it is as it was before"


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
