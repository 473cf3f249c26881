"""Resident memory of one session over 10,000 prompts, all of which stay in view: nothing is compacted.

The messages take 7 MB, each prompt being different, and the bytes of the request, which holds all of them, 1.5. A
session of an agent also loads its context layers on the way, once: half a megabyte.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from wire.counting import memory_left

MOST = {"library": 10, "sdk": 10.5, "pipe": 10.5}  # megabytes, from prompt 500 to prompt 10,000; 10.5 are 10 MiB


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("kind", MOST)
def test_memory_over_ten_thousand_prompts(tmp_path: Path, kind: str) -> None:
    _, resident = asyncio.run(memory_left(kind, 500, 10_000, tmp_path))
    assert resident / 1e6 < MOST[kind]
