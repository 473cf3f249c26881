"""Random play over the whole engine: every kind of fault, and consumers that are fast, slow or gone.

    for seed in range(2_000):
        virtually(play(seed))       # raises if a law is broken; the seed replays it

Checks after each session: it ended within the promised number of model calls; every call has exactly one result and ran
at most once; money stayed within its limit and nothing is reserved; everything shown is in the journal; replaying the
journal gives an equal state; no task and no timer is left.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from msgspec.structs import replace

from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.config import Config, StopHooks
from mainspring.core.effects import Compact, Priority, RunStopHooks
from mainspring.core.events import StopDecision
from mainspring.core.history import History
from mainspring.core.ladder import most_model_calls
from mainspring.core.messages import Assistant, Defect, Stop, Thinking, ToolCall, ToolResult, User
from mainspring.core.models import Model
from mainspring.core.money import Price, Usage
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.reasons import GIVE_UP, AbortReason, Failure
from mainspring.core.state import State
from mainspring.core.step import step
from mainspring.core.updates import Appended, BlockDone, CallDone, CallStarted, Delta, Injected, Result, Update
from mainspring.engine.deps import CallQuestion
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import Ledger
from mainspring.providers.scripted import Break, Part, Pause, ScriptedReply, call, says
from mainspring.sessions.records import (
    BlockRecord,
    DeltaRecord,
    EventRecord,
    IntentRecord,
    MemoryJournal,
    OutcomeRecord,
    SaidRecord,
)
from mainspring.testing.clock import VirtualLoop
from mainspring.testing.world import World

BIG = Model("big", 200_000, 64_000, Price(1_000, 1_250, 2_000, 100, 5_000))
SMALL = replace(BIG, name="small")
FAULTS = tuple(GIVE_UP)  # every kind of failure that a provider can report


class RandomWorld(World):
    """Everything can fail, at random, as often as the seed says."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.trouble = random.choice([0.05, 0.3])
        super().__init__([self.reply() for _ in range(60)])

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def reply(self) -> ScriptedReply:
        parts: list[str | Part] = []
        for _ in range(self.random.randrange(5)):
            parts.append(self.part())
            if self.chance(self.trouble / 6):
                failure = Failure(self.random.choice(FAULTS), "random")
                parts.append(Break(failure))
                break
        odd = self.chance(self.trouble / 3)
        stop = self.random.choice(list(Stop)) if odd else None
        # A server writes no more than it was asked for, and that may be as little as `LEAST_OUTPUT`.
        usage = Usage(input=self.random.randrange(500), output=self.random.randrange(900) // 6)
        return says(*parts, stop=stop, usage=usage, pace=self.random.choice([0, 0, 3]))

    def part(self) -> str | Part:
        match self.random.randrange(6):
            case 0 | 1:
                return f"text {self.random.randrange(99)}"
            case 2:
                return Thinking("hm", "signature")
            case 3:
                return Pause(self.random.randrange(40))
            case _:
                return self.tool()

    def tool(self) -> ToolCall:
        name = self.random.choice(["Read", "Grep", "Edit", "Bash", "Sleep"])
        told: dict[str, object] = {"ms": self.random.choice([0, 1, 20, 300]), "text": str(self.random.random())}
        bad = {"fails": True, "raises": "bug", "stop": "denied", "ask": "may I?"}
        told |= {what: value for what, value in bad.items() if self.chance(self.trouble / 10)}
        made = call(name, self.random.choice(["", "", "twice"]), **told)
        return replace(made, defect=self.random.choice(list(Defect))) if self.chance(self.trouble / 8) else made

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:  # noqa: ARG002  # random
        await asyncio.sleep(self.random.choice([0, 0.001]))
        full = self.chance(self.trouble / 4)
        return PreparedContext(self.random.choice([170_000, 199_000]) if full else 100, staged=self.random.randrange(2))

    async def summarize(self, state: State, effect: Compact) -> Summary:  # noqa: ARG002  # random
        await asyncio.sleep(0.01)
        failed = "no" if self.chance(self.trouble) else ""
        return Summary(before=100, after=self.random.choice([1, 99]), failed=failed, usage=Usage(output=5), cost=3)

    async def stop_hooks(self, state: State, effect: RunStopHooks) -> StopDecision:  # noqa: ARG002  # random
        return StopDecision(("no",) * self.random.choice([0, 0, 1]), "enough" if self.chance(0.02) else None)

    async def ask(self, question: CallQuestion) -> str:  # noqa: ARG002  # random
        await asyncio.sleep(self.random.choice([0.01, 5]))
        return "yes"

    async def summarize_tools(self, calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]) -> str | None:  # noqa: ARG002  # random
        await asyncio.sleep(0.05)
        return "did things"


def random_config(random: Random) -> Config:
    return replace(
        Config(model=BIG),
        max_turns=random.choice([1, 4, 12]),
        fallbacks=random.choice([(), (SMALL,)]),
        auto_compact=random.random() < 0.8,
        token_budget=random.choice([None, None, 3_000]),
        stop_hooks=random.choice(list(StopHooks)),
        early_unsafe=random.random() < 0.2,
    )


class Consumer:
    """Fast, slow, gone after a while, or interrupting; it types something now and then."""

    def __init__(self, random: Random, session: EngineSession) -> None:
        self.random = random
        self.session = session
        self.shown: list[Update] = []
        self.kind = random.choice(["fast", "fast", "slow", "gone", "interrupts"])
        self.patience = random.randrange(1, 60)

    async def consume(self, run: Run) -> None:
        async with run:
            async for update in run:
                self.shown.append(update)
                if self.random.random() < 0.02:
                    await self.session.submit("and another thing", self.random.choice(list(Priority)))
                if self.kind == "slow":
                    await asyncio.sleep(self.random.choice([0, 0.03]))
                if len(self.shown) == self.patience and self.kind == "interrupts":
                    run.interrupt(self.random.choice(list(AbortReason)))
                if len(self.shown) == self.patience and self.kind == "gone":
                    return


async def play(seed: int) -> EngineSession:
    random = Random(seed)
    world = RandomWorld(random)
    limit = random.choice([None, None, 10**9, 10**7])
    session = EngineSession(world, random_config(random), ledger=Ledger(limit), side_jobs=world.side_jobs)
    shown: list[Update] = []
    cost = 0
    for _ in range(random.choice([1, 2])):
        consumer = Consumer(random, session)
        run = session.run("go")
        await consumer.consume(run)
        cost += run.result.cost
        shown.extend(consumer.shown)
        if consumer.kind != "gone":
            assert isinstance(shown[-1], Result)
            assert shown[-1].model_calls <= most_model_calls(session.config)
    assert_nothing_is_left()
    account = session.shared.ledger.account
    assert account.reserved == 0
    assert account.spent == cost, "the ledger and the results disagree about money"
    assert limit is None or account.spent <= limit
    assert find_unpaired_ids(session.state.history) == ()
    assert_each_tool_ran_once(session, world)
    assert_shown_is_journaled(session, shown)
    assert_replay(session)
    return session


def assert_each_tool_ran_once(session: EngineSession, world: RandomWorld) -> None:
    ran = Counter(call_id for call_id, _, _ in world.ran)
    assert all(times == 1 for times in ran.values())
    calls = [c.id for m in session.state.history if isinstance(m, Assistant) for c in m.calls]
    assert len(set(calls)) == len(calls)
    assert set(ran) <= set(calls), "a tool ran for a reply that is not in the history"


def assert_shown_is_journaled(session: EngineSession, shown: list[Update]) -> None:
    journal = session.deps.journal
    assert isinstance(journal, MemoryJournal)
    records = journal.records
    blocks = {(r.reply_id, r.index) for r in records if isinstance(r, BlockRecord)}
    deltas = {delta for r in records if isinstance(r, DeltaRecord) for delta in r.deltas}
    intents = {r.call.id for r in records if isinstance(r, IntentRecord)}
    outcomes = {r.result.id for r in records if isinstance(r, OutcomeRecord)}
    said = {r.message.id for r in records if isinstance(r, SaidRecord)}
    for update in shown:
        match update:
            case BlockDone():
                assert (update.reply_id, update.index) in blocks
            case Delta():
                assert update in deltas
            case CallStarted():
                assert update.call.id in intents
            case CallDone():
                assert update.result.id in outcomes
            case Appended() | Injected():
                assert update.message.id in said
            case _:
                pass


def assert_replay(session: EngineSession) -> None:
    journal = session.deps.journal
    assert isinstance(journal, MemoryJournal)
    state = State(History())
    for record in journal.records:
        if isinstance(record, EventRecord):
            state = step(state, record.event, session.config).state
    assert state == session.state


def assert_nothing_is_left() -> None:
    loop = asyncio.get_running_loop()
    assert asyncio.all_tasks() == {asyncio.current_task()}, "a task outlived its run"
    assert isinstance(loop, VirtualLoop)
    assert loop.pending_timers() == 0, "a timer outlived its run"
