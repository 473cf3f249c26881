"""Repositories within a repository, as its index names them (`git submodule`, or `git add` of a folder with a `.git`).

`git status` goes into each of them and obeys its configuration, so what their `.git` says leads to code, however deep
they lie. They are found in the index: an entry of their kind has a mode that no other has.
"""

# ruff: noqa: PTH116, PTH118, PTH119, PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator

from mainspring.sandbox.git import find_worktrees, read_small_file

MODE = b"\0\0\xe0\0"  # 160000, as the index holds it
FIRST = 12  # where the first entry begins
BEFORE_MODE = 24  # bytes of an entry
HEADS = (62, 74)  # bytes before the name: with SHA-1, with SHA-256
EXTENDED = 2  # more of them, for some entries
COMPRESSED = 4  # the version in which a name is told by its difference to the one before
MOST_TOLD = 0xFFF  # the length of a name, in the flags before it; it may be longer
LONGEST = 4_096  # bytes of a name
LARGEST = 200_000_000  # bytes of an index
WORKTREE = re.compile(rb"^[ \t]*worktree[ \t]*=[ \t]*\"?([^\"\r\n]+)", re.IGNORECASE | re.MULTILINE)


def find_nested_repositories(repository: str) -> list[str]:
    """Where they lie or should lie. `repository` is the folder of one: `.git`, say."""
    found = [os.path.join(top, name) for top, index in iter_working_trees(repository) for name in _links(index)]
    return list(dict.fromkeys([os.path.normpath(path) for path in found]))


def iter_working_trees(repository: str) -> Iterator[tuple[str, str]]:
    """Each working tree with its index."""
    named = WORKTREE.search(read_small_file(f"{repository}/config"))
    if named:
        yield os.path.normpath(os.path.join(repository, os.fsdecode(named[1].strip()))), f"{repository}/index"
    elif os.path.basename(repository) == ".git":
        yield os.path.dirname(repository), f"{repository}/index"
    for tree in find_worktrees(repository):
        if pointer := read_small_file(f"{tree}/gitdir").strip():
            yield os.path.dirname(os.path.join(tree, os.fsdecode(pointer))), f"{tree}/index"


def _links(index: str) -> tuple[str, ...]:
    try:
        looks = os.stat(index)
    except OSError:
        return ()
    return _links_of(index, (looks.st_ino, looks.st_size, looks.st_mtime_ns, looks.st_ctime_ns))


@functools.lru_cache(maxsize=64)
def _links_of(index: str, _looks: tuple[int, ...]) -> tuple[str, ...]:
    data = read_small_file(index, LARGEST)
    if not data.startswith(b"DIRC") or MODE not in data:
        return ()
    names = _compressed(data) if data[7] == COMPRESSED else _plain(data)
    return tuple(dict.fromkeys([os.fsdecode(name) for name in names if name]))


def _plain(data: bytes) -> list[bytes]:
    """One entry after the other, with the size of hashes that fits. In one that is damaged, or was made by somebody who
    wants us to read it otherwise than git, whatever may be an entry: a name too many is one that does not exist."""
    whole = [found for head in HEADS if (found := _in_order(data, head)) is not None]
    return whole[0] if whole else list(_looks_like(data))


def _in_order(data: bytes, head: int) -> list[bytes] | None:
    """None: it is no index with hashes of this size."""
    at, found = FIRST, list[bytes]()
    for _ in range(int.from_bytes(data[8:FIRST], "big")):
        name, flags, begins = _named(data, at, head)
        if not _has_length(name, flags):
            return None
        if data[at + BEFORE_MODE : at + BEFORE_MODE + 4] == MODE:
            found.append(name)
        at += (begins - at + len(name) + 8) & ~7  # one to eight zeros behind each
    return found


def _looks_like(data: bytes) -> Iterator[bytes]:
    at = data.find(MODE)
    while at >= 0:
        for head in HEADS:
            for start in (at - BEFORE_MODE + head, at - BEFORE_MODE + head + EXTENDED):
                yield data[start : start + LONGEST].partition(b"\0")[0]
        at = data.find(MODE, at + 1)


def _named(data: bytes, at: int, head: int) -> tuple[bytes, bytes, int]:
    """The name of an entry, the flags before it, and where it begins."""
    flags = data[at + head - 2 : at + head]
    begins = at + head + (EXTENDED if flags and flags[0] & 0x40 else 0)
    return data[begins : begins + LONGEST].partition(b"\0")[0], flags, begins


def _has_length(name: bytes, flags: bytes) -> bool:
    return bool(name) and min(len(name), MOST_TOLD) == int.from_bytes(flags, "big") & MOST_TOLD


def _compressed(data: bytes) -> Iterator[bytes]:
    """All of the names, one after the other, for both sizes of hashes: the wrong one ends in nonsense."""
    for head in HEADS:
        at, name = FIRST, b""
        for _ in range(int.from_bytes(data[8:12], "big")):
            entry = data[at : at + head + EXTENDED]
            at += head + (EXTENDED if len(entry) > head and entry[head - 2] & 0x40 else 0)
            drop, at = _number(data, at)
            end = data.find(b"\0", at)
            if end < 0:
                break
            name = name[: len(name) - drop] + data[at:end]
            at = end + 1
            if entry[BEFORE_MODE : BEFORE_MODE + 4] == MODE:
                yield name


def _number(data: bytes, at: int) -> tuple[int, int]:
    """As git packs one, and where it ends."""
    value = 0
    for place in range(at, min(at + 9, len(data))):
        byte = data[place]
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            return value, place + 1
        value += 1
    return 0, len(data)
