"""What ripgrep may read beside the folder that it searches: the files outside that say what is left out in there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from mainspring.processes.paths import PathRefused, Resolved, is_within, resolve_path
from mainspring.processes.safe_open import open_below, open_folder, open_read, read_resolved_file
from mainspring.tools.ignored import FILES

Place = TypeVar("Place")

LARGEST = 1_000_000  # bytes of git's settings
_EXCLUDES = re.compile(rb"(?im)^\s*excludesfile\s*=\s*\"?\s*(\S+?)\s*\"?\s*$")  # as ripgrep reads them


@contextmanager
def ignore_files_above(real: str) -> Generator[tuple[int, ...]]:
    """Descriptors of those above a folder. No link is followed."""
    parts = real.strip("/").split("/") if real != "/" else []
    folders = ["/".join(["", *parts[:count]]) for count in range(len(parts))]
    with _opened([(folder, name) for folder in folders for name in FILES], _open_in) as found:
        yield found


def _open_in(place: tuple[str, str]) -> int:
    folder = open_folder(place[0])
    try:
        return open_below(folder, place[1])
    finally:
        os.close(folder)


@contextmanager
def users_ignore_files(env: Mapping[str, str], folders: tuple[str, ...]) -> Generator[tuple[tuple[int, ...], str]]:
    """A descriptor of the user's own, and its name if git's settings name it: ripgrep cannot look there. None to which
    a working folder is on the way: a command could lead it elsewhere."""
    home = env.get("HOME", "")
    settings = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = _named(home, settings)
    path = _outside(named or f"{settings}/git/ignore", folders)
    with _opened([path] if path is not None else [], open_read) as found:
        yield found, named if found else ""


def _named(home: str, settings: str) -> str:
    for file in (f"{home}/.gitconfig", f"{settings}/git/config"):
        with suppress(OSError, PathRefused):
            if said := _EXCLUDES.search(read_resolved_file(resolve_path(file, "/"), limit=LARGEST)):
                name = os.fsdecode(said[1])
                return f"{home}{name[1:]}" if name.startswith("~/") else name
    return ""


def _outside(file: str, folders: tuple[str, ...]) -> Resolved | None:
    with suppress(PathRefused):
        path = resolve_path(file, "/") if file.startswith("/") else None
        if path is not None and path.kind == "file":
            inside = any(is_within(name, folder) for name in path.names for folder in folders)
            return None if inside else path
    return None


@contextmanager
def _opened(places: Iterable[Place], open_one: Callable[[Place], int]) -> Generator[tuple[int, ...]]:
    """Those that can be."""
    found: list[int] = []
    try:
        for place in places:
            with suppress(OSError, PathRefused):
                found.append(open_one(place))
        yield tuple(found)
    finally:
        for descriptor in found:
            os.close(descriptor)
