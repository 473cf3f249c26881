"""What a turn costs in instructions, in proportion to plain work of the same interpreter (decision 0095)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from wire.counting import counted

WARMING = "budget"  # the first one of a process also pays for what Python does to code that it meets often

# Instructions of a turn behind twenty others, and of the yardstick; counted on 2026-11-20 with valgrind 3.19 and Python
# 3.11.7. A change that makes a turn cheaper lowers its row.
COUNTED = {"adaptive": 1_700_000, "sdk": 3_410_000, "command": 3_740_000}
YARDSTICK = 3_980_740
ROOM = 1.06 if sys.version_info[:2] == (3, 11) else 1.5  # other versions weigh calls and loops in another way


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="valgrind does not run here")
def test_a_turn_is_held_to_a_count_of_instructions(tmp_path: Path) -> None:
    found = {
        name: counts[0]
        for name, counts in asyncio.run(counted([WARMING, "yardstick", *COUNTED], (20,), tmp_path)).items()
    }
    print(found)  # shown when it fails, and by `pytest -s`
    limits = {name: ROOM * count * found["yardstick"] / YARDSTICK for name, count in COUNTED.items()}
    assert {name: found[name] for name in COUNTED if found[name] > limits[name]} == {}
