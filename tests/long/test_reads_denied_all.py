"""All commands that read, in every mode, with and without a sandbox; and random ones.

`permissions/test_reads_denied.py` has a part of it.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from permissions.reading_commands import families, random_lines
from permissions.test_reads_denied import WAYS, Field, Walled, run_those_allowed

RANDOM = 4_000
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("tracked", [False, True])
def test_what_is_allowed_without_a_sandbox_prints_no_denied_byte(tmp_path: Path, tracked: bool) -> None:
    run_those_allowed(Field(tmp_path.resolve(), tracked=tracked), WAYS)


@pytest.mark.parametrize("tracked", [False, True])
def test_nor_do_random_ones(tmp_path: Path, tracked: bool) -> None:
    field = Field(tmp_path.resolve(), tracked=tracked)
    lines = random_lines(random.Random(4711), RANDOM)
    allowed = [line for line in lines if field.decide(line, allow=["Bash"]) == "allow"]
    assert [line for line in allowed if field.leaks(line)] == []
    assert len(allowed) > RANDOM / 20


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("tracked", [False, True])
def test_nor_in_a_sandbox(tmp_path: Path, tracked: bool) -> None:
    walled = Walled(Field(tmp_path.resolve(), tracked=tracked))
    leaked, allowed = asyncio.run(walled.leaking([line for lines in families().values() for line in lines]))
    assert leaked == []
    assert allowed > 200
