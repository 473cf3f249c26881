"""A session keeps its messages and the bytes of its next request, and nothing else: what each prompt leaves in memory.

`tests/long/test_memory.py` has the same as resident memory, over 10,000 prompts.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tiers import parametrize_few

from wire.counting import memory_left

FIRST, LAST = 100, 400
MOST = {"library": 860, "sdk": 870}  # bytes for each prompt and its answer, of which 640 are the messages


@parametrize_few("kind", MOST, keep=1)
def test_what_a_prompt_leaves_in_memory(tmp_path: Path, kind: str) -> None:
    traced, _ = asyncio.run(memory_left(f"{kind}, traced", FIRST, LAST, tmp_path))
    assert traced / (LAST - FIRST) <= MOST[kind]
