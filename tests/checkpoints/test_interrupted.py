"""A few of the points at which `make crash` kills a checkpoint and a rewind; and what a next start finishes."""

from __future__ import annotations

import crash_undo
import pytest


@pytest.mark.needs("strace")
@pytest.mark.long
@pytest.mark.parametrize(("name", "times"), [("checkpoint", 8), ("rewind", 12), ("undo", 6), ("recovery", 6)])
def test_killed_at_any_system_call(name: str, times: int) -> None:
    with crash_undo.bench_of(name) as bench:
        points = bench.points[:: max(1, len(bench.points) // times)]
        todo = zip(crash_undo.WAYS * len(points), points, strict=False)
        assert [error for error in map(bench.try_one, todo) if error] == []
        assert len(bench.points) > 20
