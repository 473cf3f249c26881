"""`git init` where there is a repository: git writes its configuration anew, which no other command in there may do.

It is let through for lines that run nothing but git itself, and no hook: `git init`, and `git config` of a name. The
program is the system's own, since folders that a command could have written are taken out of `PATH`. What it has left
is compared with what was there: a configuration may differ in git's own first settings and in names, and what leads to
code may not be new, except for samples. That is the second wall; the first is that nobody else is in the room.
"""

# ruff: noqa: PTH105, PTH113, PTH114, PTH118  # pathlib takes 8 ms to load

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from mainspring.processes.paths import is_within
from mainspring.sandbox.git import FILES, FOLDERS, read_small_file
from mainspring.sandbox.git_quarantine import move_aside

# What `git init` and `git config` of a name may change.
FREE: dict[bytes, frozenset[bytes]] = {
    b"[core]": frozenset(
        b"repositoryformatversion filemode bare logallrefupdates symlinks ignorecase precomposeunicode".split()
    ),
    b"[user]": frozenset([b"name", b"email"]),
}
KEY = re.compile(rb"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*=")
MODE = 0o644


class RepositoryConfig(NamedTuple):
    """One repository, before."""

    config: bytes
    mode: int
    code: frozenset[str]  # what is there that leads to code


def path_of(env: Mapping[str, str], writable: Iterable[str]) -> str:
    """`PATH` without what a command may have put there."""
    folders = [folder for folder in env.get("PATH", "").split(":") if folder.startswith("/")]
    kept_out = tuple(writable)
    real = [(folder, os.path.realpath(folder)) for folder in folders]
    return ":".join([folder for folder, end in real if not any(is_within(end, out) for out in kept_out)])


def snapshot_configs(repositories: Iterable[str]) -> dict[str, RepositoryConfig]:
    found: dict[str, RepositoryConfig] = {}
    for folder in repositories:
        path = f"{folder}/config"
        found[folder] = RepositoryConfig(read_small_file(path), os.stat(path).st_mode & 0o777, frozenset(_code(folder)))  # noqa: PTH116
    return found


def restore_changed_configs(was: Mapping[str, RepositoryConfig], aside: str) -> list[str]:
    """What was put back or taken away, in words."""
    notes: list[str] = []
    for folder, one in was.items():
        path = f"{folder}/config"
        if (
            not os.path.isfile(path)
            or os.path.islink(path)
            or parse_guarded_settings(read_small_file(path)) != parse_guarded_settings(one.config)
        ):
            notes.append(f"'{path}' is as it was before: {_put_back(path, one)}")
        added = sorted(set(_code(folder)) - one.code)
        notes += [move_aside(new, f"'{new}' is new, and git runs it or obeys it", aside) for new in added]
    return notes


def parse_guarded_settings(config: bytes) -> list[tuple[bytes, bytes]]:
    """Those that may not change, each with its section; a line that goes on in the next is none of the free ones."""
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
        return f"it should be, since it holds other settings than names, but could not be put back ({error.strerror})"
    return "git wrote other settings into it than its own first ones and names"
