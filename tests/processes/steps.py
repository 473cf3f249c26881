"""Acting between any two system calls of an operation.

The interpreter tells a profile function about every call of a built-in; those of the module `posix` are the system
calls. So nothing in the code under test knows of this, and no call can be forgotten.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any


class Steps:
    """Counts system calls, and acts right before the one with the number `at`, or before each one of a name."""

    def __init__(self, at: int | str = -1, act: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self.names: list[str] = []
        self._at, self._act = at, act

    def __enter__(self) -> Steps:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, _frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or getattr(called, "__module__", None) != "posix":
            return
        if self._at in (self.count, called.__name__):
            sys.setprofile(None)
            self._act()
            sys.setprofile(self._see)
        self.count += 1
        self.names.append(called.__name__)


def snapshot(folder: Path | str, prefix: str = "") -> dict[str, tuple[int, bytes]]:
    """Every name below a folder, with its mode and content. Links are not followed."""
    found: dict[str, tuple[int, bytes]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            name, mode = prefix + entry.name, entry.stat(follow_symlinks=False).st_mode
            found[name] = (mode, Path(entry.path).read_bytes() if stat.S_ISREG(mode) else b"")
            if stat.S_ISDIR(mode):
                found |= snapshot(entry.path, f"{name}/")
    return found


def left_over(folder: Path) -> list[str]:
    return [name for name in snapshot(folder) if ".mainspring-" in name]


def open_descriptors() -> int:
    return len(names_in("/proc/self/fd"))


def names_in(folder: Path | str) -> list[str]:
    return sorted(entry.name for entry in Path(folder).iterdir())
