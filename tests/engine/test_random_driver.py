"""2,000 random sessions through the whole engine, on a virtual clock (`mainspring.testing.play`)."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from tiers import long

from mainspring.core.effects import Finish
from mainspring.core.messages import ToolResult
from mainspring.core.pairing import find_unpaired_ids
from mainspring.engine.session import EngineSession
from mainspring.sessions.records import MemoryJournal, OutcomeRecord, Record
from mainspring.testing import virtually
from mainspring.testing.play import RandomWorld, assert_nothing_is_left, assert_replay, play, random_config


@pytest.mark.covers("A-03", "A-07", "A-29", "F-20", "A-01")
@pytest.mark.parametrize("sessions", [200, long(2_000)])
def test_random_sessions_through_the_driver(sessions: int, capsys: pytest.CaptureFixture[str]) -> None:
    messages, terminals = 0, Counter[str]()
    for seed in range(sessions):
        try:
            session = virtually(play(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        messages += len(session.state.history)
        assert isinstance(session.state.waiting_for, Finish)
        terminals[session.state.waiting_for.terminal] += 1
    with capsys.disabled():
        ends = ", ".join(f"{name} {times:,}" for name, times in terminals.most_common())
        print(f"\nrandom driver: {sessions:,} sessions, {messages:,} messages; {ends}")
    assert len(terminals) >= 8


class Flaky(MemoryJournal):
    """A disk that fails now and then, before or after it has written."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.share = 0.02

    async def append(self, record: Record) -> None:
        if self.random.random() < self.share:
            raise OSError("the disk is full")
        if self.random.random() < 0.1:
            await asyncio.sleep(0.001)
        await super().append(record)


async def crash_and_go_on(seed: int) -> int:
    """Four runs on a disk that fails, then one on a good one: nothing that was shown is lost, and all of it replays."""
    random = Random(seed)
    world = RandomWorld(random)
    journal = world._journal = Flaky(random)
    session = EngineSession(world, random_config(random), side_jobs=world.side_jobs)
    crashes = 0
    for number in range(5):
        journal.share = 0 if number == 4 else 0.02
        try:
            async with session.run("go") as run:
                async for _ in run:
                    pass
        except OSError:
            crashes += 1
        assert_nothing_is_left()
    assert find_unpaired_ids(session.state.history) == ()
    ids = [message.id for message in session.state.history]
    assert len(set(ids)) == len(ids), "a message stands twice"
    done = Counter(record.result.call_id for record in journal.records if isinstance(record, OutcomeRecord))
    assert set(done.values()) <= {1}, "an outcome was recorded twice"
    answered = {m.call_id: m.id for m in session.state.history if isinstance(m, ToolResult)}
    for record in journal.records:
        if isinstance(record, OutcomeRecord):
            assert answered[record.result.call_id] == record.result.id, (
                "an outcome that was shown is not in the history"
            )
    assert_replay(session)
    return crashes


@pytest.mark.covers("F-20")
@pytest.mark.parametrize("sessions", [40, long(300)])
def test_random_sessions_on_a_disk_that_fails(sessions: int, capsys: pytest.CaptureFixture[str]) -> None:
    crashes = 0
    for seed in range(sessions):
        try:
            crashes += virtually(crash_and_go_on(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    with capsys.disabled():
        print(f"\nrandom crashes: {sessions} sessions of 5 runs, {crashes} of them broke off and were taken up again")
    assert crashes > sessions * 2 // 3
