"""A few of the sessions that `scripts/soak.py` plays by the thousand."""

from __future__ import annotations

import asyncio

import pytest
from soak import soak
from tiers import long

from mainspring.simulator.faults import FAULTS


@pytest.mark.covers("G-15", "F-20")
@pytest.mark.parametrize("sessions", [20, long(100)])
def test_sessions_with_faults_at_random_rates(sessions: int) -> None:
    figures = asyncio.run(soak(sessions, seed=20))
    assert figures.broken == []
    assert figures.endings.total() == sessions
    assert figures.violations == 0
    assert set(figures.faults) <= set(FAULTS)
    assert figures.faults.total() > sessions / 2, "a soak without faults shows nothing"
    assert figures.most[0] <= figures.most[1]
