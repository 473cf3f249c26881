"""A few of the points at which `make crash` kills a real process (security V2)."""

from __future__ import annotations

import crash
import pytest
from tiers import long


@pytest.mark.needs("strace")
@pytest.mark.covers("L-04")
@pytest.mark.parametrize("times", [2, long(8)])
@pytest.mark.parametrize("name", ["tool", "fork"])
def test_a_real_process_is_killed_and_its_session_taken_up(
    name: str, times: int, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [point for point in crash.points(name, 1) if point.words.startswith("killed")]
    todo = points[:: max(1, len(points) // times)]
    assert [error for error in map(crash.tried, todo) if error] == []
    with capsys.disabled():
        print(f"\ncrash: '{name}' was killed at {len(todo)} of its {len(points)} points")
    assert len(points) > 20


@pytest.mark.needs("strace")
@pytest.mark.parametrize("times", [2, long(8)])
def test_a_real_disk_is_full(times: int) -> None:
    points = [point for point in crash.points("text", 1) if not point.words.startswith("killed")]
    todo = points[:: max(1, len(points) // times)]
    assert [error for error in map(crash.tried, todo) if error] == []
