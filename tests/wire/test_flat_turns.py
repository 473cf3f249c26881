"""A turn costs the same however long the session is. `tests/long/test_flat_turns.py` looks at every class of model, at
each front end, at sessions that share a provider, and at longer histories.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from wire.counting import counted, growth

WARMING = "adaptive"  # the first one of a process also pays for what Python does to code that it meets often
SHORT, LONG = 20, 320  # turns before the ones that are counted
MOST = 1.04  # times what they cost behind the short history; to look at each message of the long one takes more


@pytest.mark.timeout(300)  # valgrind is slow on a busy machine
@pytest.mark.skipif(sys.platform != "linux", reason="valgrind does not run here")
def test_a_turn_costs_the_same_behind_a_long_history(tmp_path: Path) -> None:
    names = ["budget"]
    counts = asyncio.run(counted([WARMING, *names], (SHORT, LONG), tmp_path))
    print(counts)  # shown when it fails, and by `pytest -s`
    assert {name: growth(counts[name]) for name in names if growth(counts[name]) > MOST} == {}
