"""A few of the points at which `make crash` kills a checkpoint and a rewind; and what a next start finishes."""

from __future__ import annotations

import crash_undo
import pytest
from tiers import long


@pytest.mark.needs("strace")
@pytest.mark.parametrize(
    ("name", "times"), [("rewind", 2), long("checkpoint", 8), long("rewind", 12), long("undo", 6), long("recovery", 6)]
)
def test_killed_at_any_system_call(name: str, times: int) -> None:
    with crash_undo.bench_of(name) as bench:
        points = bench.points[:: max(1, len(bench.points) // times)]
        todo = zip(crash_undo.WAYS * len(points), points, strict=False)
        assert [error for error in map(bench.try_one, todo) if error] == []
        assert len(bench.points) > 20
