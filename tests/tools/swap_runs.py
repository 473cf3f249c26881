"""The play of `swap_play.py` as a test: for which users, and what must come of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from programs import need
from sandbox.walls import NOBODY, python_for, seen_folder

from mainspring.processes import landlock_helper

AS = pytest.mark.parametrize("user", [None, NOBODY] if os.getuid() == 0 else [None], ids=str)
TESTS = Path(__file__).parent.parent


Search = Literal["ripgrep", "script", "python"]  # as it is; not to be confined by Landlock; without ripgrep


Walls = Literal["bubblewrap", "landlock"]
LANDLOCK = pytest.mark.skipif(
    sys.platform == "linux" and not landlock_helper.landlock_version(), reason="this kernel has no landlock"
)


def run(
    operations: int,
    seconds: int,
    *,
    user: int | None = None,
    search: Search = "ripgrep",
    walls: Walls = "bubblewrap",
) -> dict[str, Any]:
    if walls == "bubblewrap":
        need("bwrap")
    with seen_folder() as folder:
        play = [sys.executable, "-m", "tools.swap_play", str(folder), str(operations)]
        command = [*play, python_for(user), search, walls]
        done = subprocess.run(
            [*command, *([] if user is None else [str(user)])],
            cwd=TESTS, capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any], operations: int) -> None:
    ends = {end: sum([n for what, n in found["tally"].items() if what.endswith(end)]) for end in ("done", "refused")}
    assert found["got_out"] == []
    assert sum(ends.values()) == operations
    assert min(ends.values()) > operations // 50, found["tally"]  # both happened, so there was a race
