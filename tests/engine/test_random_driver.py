"""2,000 random sessions through the whole engine, on a virtual clock (`mainspring.testing.play`)."""

from __future__ import annotations

from collections import Counter

import pytest

from mainspring.core.effects import Finish
from mainspring.testing import virtually
from mainspring.testing.play import play

SESSIONS = 2_000


@pytest.mark.covers("A-03", "A-07", "A-29", "F-20", "A-01")
def test_random_sessions_through_the_driver(capsys: pytest.CaptureFixture[str]) -> None:
    messages, terminals = 0, Counter[str]()
    for seed in range(SESSIONS):
        try:
            session = virtually(play(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        messages += len(session.state.history)
        assert isinstance(session.state.waiting_for, Finish)
        terminals[session.state.waiting_for.terminal] += 1
    with capsys.disabled():
        ends = ", ".join(f"{name} {times:,}" for name, times in terminals.most_common())
        print(f"\nrandom driver: {SESSIONS:,} sessions, {messages:,} messages; {ends}")
    assert len(terminals) >= 8
