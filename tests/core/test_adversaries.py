"""Law 1: every run ends, and the number of model calls is known beforehand."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import pytest
from msgspec.structs import replace
from tiers import long

from core.adversary import COMPACTION, HOOKS, MODEL, World, bound, meet, shifting_worlds, worlds
from core.play import CONFIG, SMALL
from mainspring.core.config import Config
from mainspring.core.events import Compacted, ContextReady, Event, HooksDone
from mainspring.core.reasons import PASSING, Terminal, Transition, Trouble
from mainspring.core.state import Compaction, State, Step
from mainspring.core.step import step


class Tally:
    """What the worlds came to; each must end, in silence about what it recovered from, within its bound."""

    def __init__(self, met: Iterable[World]) -> None:
        self.count, self.longest, self.most, self.tightest = 0, 0, 0, 0.0
        self.terminals: set[Terminal | None] = set()
        for world in met:
            outcome, promised = meet(world), bound(world)
            assert outcome.ended, f"never ends: {world.names}"
            assert not outcome.shown_and_recovered, f"a failure was shown and then recovered from: {world.names}"
            assert not outcome.overused, f"{outcome.overused} more often than its limit: {world.names}"
            assert outcome.calls <= promised, f"{outcome.calls} calls, promised {promised}: {world.names}"
            self.count += 1
            self.longest, self.most = max(self.longest, outcome.steps), max(self.most, outcome.calls)
            self.tightest = max(self.tightest, outcome.calls / promised)
            self.terminals.add(outcome.terminal)

    def __str__(self) -> str:
        return (
            f"{self.count:,} end; the longest took {self.longest} steps, the dearest {self.most} model calls, "
            f"at most {self.tightest:.0%} of the bound"
        )


@pytest.mark.covers("A-23", "A-24", "G-15", "G-16", "C-18", "G-25")
@pytest.mark.parametrize("one_in", [11, long(1)])
def test_every_constant_environment_ends_within_the_bound(one_in: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally(islice(worlds(), 0, None, one_in))
    with capsys.disabled():
        print(f"\nconstant adversaries: {tally}")
    assert tally.count > 50_000 // one_in
    ends_of_others = {Terminal.ABORTED_STREAMING, Terminal.ABORTED_TOOLS, Terminal.HOOK_STOPPED}
    assert tally.terminals == set(Terminal) - ends_of_others


@pytest.mark.covers("A-23", "G-15")
@pytest.mark.parametrize("one_in", [5, long(1)])
def test_every_environment_that_shifts_ends_within_the_bound(one_in: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally(islice(shifting_worlds(), 0, None, one_in))
    with capsys.disabled():
        print(f"\nshifting adversaries: {tally}")
    assert tally.count > 4_000 // one_in


@pytest.mark.covers("A-24", "G-15", "E-16")
@pytest.mark.parametrize("retries", [0, 1, 9, 25])
@pytest.mark.parametrize("fallbacks", [0, 1, 5])
@pytest.mark.parametrize("where", ["in the text", "at once", "in a call"])
def test_a_stream_that_always_breaks_is_asked_for_exactly_as_often_as_the_limit_says(
    where: str, fallbacks: int, retries: int
) -> None:
    """Each model of the chain has all its attempts; overload has three, while there is another model to ask."""
    config = replace(CONFIG, max_turns=3, fallbacks=(SMALL,) * fallbacks, max_retries=retries)
    for kind in sorted(PASSING):
        world = World(
            (kind, where), config, ContextReady(10), (MODEL[f"{kind} {where}"],), COMPACTION["works"], HOOKS["silent"]
        )
        outcome, attempts = meet(world), retries + 1
        impatient = min(attempts, 3) if kind is Trouble.OVERLOADED else attempts
        assert outcome.calls == fallbacks * impatient + attempts, kind
        assert outcome.calls <= bound(world)
        assert not outcome.overused


# --- tests of the test: with a historical mistake put back in, it must notice -------------------------


def forgets_its_guards_after_a_block(state: State, event: Event, config: Config) -> Step:
    """Claude Code once reset its guards of recovery in the retry that a blocking stop hook caused."""
    next_ = step(state, event, config)
    if isinstance(event, HooksDone) and next_.state.transition is Transition.STOP_HOOK_BLOCKING:
        return next_._replace(state=replace(next_.state, climbed=()))
    return next_


def compacts_without_guard(state: State, event: Event, config: Config) -> Step:
    """A compaction that says it worked and freed nothing, tried again for as long as the context is full."""
    next_ = step(state, event, config)
    if isinstance(event, Compacted):
        return next_._replace(state=replace(next_.state, climbed=(), compaction=Compaction()))
    return next_


@pytest.mark.covers("G-14")
def test_the_forgotten_guards_are_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """Our cap on objections ends such a run all the same, but its rungs are used again and again on the way."""
    overused = [world for world in shifting_worlds() if meet(world, forgets_its_guards_after_a_block).overused]
    with capsys.disabled():
        print(f"\nwith guards forgotten after a stop hook, {len(overused)} environments use a rung too often")
    assert overused


@pytest.mark.covers("D-30")
def test_the_unguarded_compaction_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    plain = [world for world in worlds() if world.names[0] == "plain" and world.names[2] == "text"]
    # Without the mistake the longest of them takes 28 steps. All 168 that go on after 500 also do after 3,000.
    endless = [world for world in plain if not meet(world, compacts_without_guard, most=500).ended]
    with capsys.disabled():
        print(f"\nwith compaction unguarded, {len(endless)} environments never end")
    assert endless
