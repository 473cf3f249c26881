"""Finding a program that is not the project's own (security T3): by an absolute path, outside of the working
folders."""

from __future__ import annotations

import os
from collections.abc import Iterable

from mainspring.processes.paths import is_within

USUAL = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin")


def find_program(name: str, *, path: str = "", outside: Iterable[str] = ()) -> str | None:
    """First where systems keep it, then along `path`. None: it is nowhere, or only where a project may have put it."""
    folders = (*USUAL, *[folder for folder in path.split(":") if folder.startswith("/")])
    kept_out = tuple([folder for folder in outside if folder.strip("/")])  # who works in '/' has only programs in it
    for folder in folders:
        place = f"{folder.rstrip('/')}/{name}"
        if os.access(place, os.X_OK) and not _in_any(place, kept_out):
            return place
    return None


def _in_any(place: str, folders: tuple[str, ...]) -> bool:
    real = os.path.realpath(place)
    return any(is_within(name, folder) for name in (place, real) for folder in folders)
