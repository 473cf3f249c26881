"""A few of the sessions that `scripts/soak.py` plays by the thousand."""

from __future__ import annotations

import asyncio

import pytest
from soak import soak

from mainspring.simulator.faults import FAULTS

SESSIONS = 100


@pytest.mark.covers("G-15", "F-20")
def test_sessions_with_faults_at_random_rates() -> None:
    figures = asyncio.run(soak(SESSIONS, seed=20))
    assert figures.broken == []
    assert figures.endings.total() == SESSIONS
    assert figures.violations == 0
    assert set(figures.faults) <= set(FAULTS)
    assert figures.faults.total() > SESSIONS / 2, "a soak without faults shows nothing"
    assert figures.most[0] <= figures.most[1]
