"""Edit and Write, killed before each of their system calls: the old bytes or the new ones, whole (security F4)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.kills import OLD

AFTER = {
    "edit": b"\xef\xbb\xbf1\r\n2\r\n3\r\n\xff no newline",
    "write": b"\xef\xbb\xbfall\r\nnew\r\n",
    "new": b"all\nnew\n",
}


@pytest.mark.parametrize("which", ["edit", "write", "new"])
def test_killed_at_every_system_call(tmp_path: Path, which: str) -> None:
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-m", "tools.kills", str(tmp_path), which]
    done = subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": tests, "PYTHONWARNINGS": "error"}
    )
    rounds = json.loads(done.stdout)
    before = None if which == "new" else OLD.hex()
    assert [one["content"] for one in rounds if one["content"] not in (before, AFTER[which].hex())] == []
    assert rounds[0]["content"] == before
    assert rounds[-1]["content"] == AFTER[which].hex()
    assert len(rounds) > 20  # 50 here: each one was killed at another call
    assert sum(one["left"] for one in rounds) <= 2  # between the last calls, as `processes/atomic_write.py` says
    if which != "new":
        assert {one["mode"] for one in rounds} == {0o640}
