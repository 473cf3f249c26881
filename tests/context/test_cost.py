"""What a session of 100 turns costs (`bench/cost.py`): half of one that is only summed up, and nothing is lost."""

from __future__ import annotations

import asyncio
from functools import cache

import pytest
from msgspec.structs import replace

from bench.cost import NONE, OURS
from bench.cost_session import Outcome, Session, Setting
from mainspring.context.layers import LayerLimits
from mainspring.core.state import State


class Kept(Session):
    """Remembers the state at the end."""

    async def submission(self, state: State) -> State:
        self.state = await super().submission(state)
        return self.state


@cache
def played(limits: LayerLimits, seed: int) -> tuple[Outcome, Kept]:
    session = Kept(Setting("test", limits), 100, seed=seed)
    return asyncio.run(session.run()), session


@pytest.mark.parametrize(("seed", "most"), [(7, 0.50), (8, 0.60), (9, 0.53)])
def test_a_session_costs_half_and_no_fact_is_lost(seed: int, most: float) -> None:
    """The seeds differ in how much is read for the first time, which no strategy can save. A fact is in the request
    that needs it, or in the session, where `Recall` finds it."""
    whole, _ = played(NONE, seed)
    ours, session = played(OURS, seed)
    assert ours.cost <= most * whole.cost
    assert (ours.lost, ours.invalid, ours.summaries) == (0, 0, 0)
    assert ours.at_once >= ours.asked * 3 // 4
    said = "\n".join([message.text for message in session.state.history])
    assert all(fact.text in said for fact in (*session.user_facts, *session.read_facts))


def test_choosing_by_price_costs_less_than_fixed_numbers() -> None:
    """Keeping less, or more, for every model alike is not better: 40,000 bytes are the most that are kept here."""
    ours, _ = played(OURS, 7)
    more, _ = played(replace(OURS, keep_size=200_000, keep=30), 7)
    assert ours.cost < more.cost
