"""20,000 random sessions with every fault, verdict and abort. A failing seed is printed and replays."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

import pytest
from msgspec.structs import replace
from tiers import long

from core.adversary import REPORTED
from core.play import CONFIG, FULL, SMALL, TINY, failure, ran
from mainspring.core.config import StopHooks
from mainspring.core.effects import CallModel, Compact, Effect, Finish, PrepareContext, RunStopHooks, RunTools
from mainspring.core.events import (
    Aborted,
    CallFailed,
    Compacted,
    ContextReady,
    Event,
    HooksDone,
    Replied,
    StopDecision,
    Submitted,
    ToolsDone,
)
from mainspring.core.history import History
from mainspring.core.ladder import most_model_calls
from mainspring.core.messages import Assistant, Defect, Stop, Text, Thinking, ToolCall, User, user
from mainspring.core.models import Model
from mainspring.core.money import Usage, cost
from mainspring.core.moves import LARGE, too_large
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.reasons import AbortReason, Cause
from mainspring.core.state import State, checkpoint, decode_checkpoint, encode_checkpoint, restore
from mainspring.core.step import step
from mainspring.core.updates import Failed, Result, Tombstone, Update
from mainspring.core.value import Stamp
from mainspring.core.view import Drop


class RandomWorld:
    """Answers effects at random; ids and times count up, as a driver's would."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.numbers = count(1)
        pick = self.random.choice
        self.config = replace(
            CONFIG,
            max_turns=pick([1, 3, 12]),
            fallbacks=pick([(), (SMALL,), (SMALL, TINY)]),
            auto_compact=self.chance(0.8),
            token_budget=pick([None, None, 2_000, 20_000]),
            max_tokens=pick([None, None, 5_000]),
            max_output=pick([None, 8_000]),
            stop_hooks=pick(list(StopHooks)),
            structured_output=self.chance(0.1),
        )
        self.trouble = pick([0.05, 0.3, 0.6])  # how often something goes wrong
        self.chosen: Model | None = None

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def stamped(self, event: Event) -> Event:
        number = next(self.numbers)
        return replace(event, stamp=Stamp(f"{self.random.getrandbits(96):024x}{0:08x}", number * 7))

    def answer(self, effect: Effect) -> Event:
        if self.chance(0.015):
            return self.abort(effect)
        match effect:
            case PrepareContext():
                return self.context()
            case CallModel():
                return self.call()
            case RunTools():
                results = tuple(r for r in ran(replace(effect, start=True)) if effect.start or self.chance(0.5))
                return ToolsDone(results, stopped="hook" if self.chance(0.01) else None)
            case RunStopHooks():
                blocks = ("no",) * self.random.choice([0, 0, 1, 2])
                return HooksDone(StopDecision(blocks, "enough" if self.chance(0.02) else None))
            case Compact():
                after = self.random.choice([1_000, 100_000, FULL])
                failed = "no" if self.chance(self.trouble) else ""
                return Compacted(
                    before=FULL, after=after, failed=failed, usage=self.usage(), cost=self.random.randrange(99)
                )
            case Finish():
                raise AssertionError("nothing to perform")

    def context(self) -> ContextReady:
        if self.chance(0.01):
            self.chosen = self.random.choice([TINY, SMALL])
        full = self.chance(self.trouble / 3)
        injected = (replace(user("memo"), id=f"memo{next(self.numbers)}"),) if self.chance(0.1) else ()
        return ContextReady(
            self.random.choice([FULL, 199_000]) if full else 100,
            injected=injected,
            funds=self.random.choice([None, None, 10**12, 10**7]) if self.chance(0.2) else None,
            staged=self.random.choice([0, 0, 1]),
            media=self.random.choice([0, 0, 2]),
            model=self.chosen,
            edits=(Drop((f"memo{self.random.randrange(99)}",)),) if self.chance(0.05) else (),
        )

    def call(self) -> Event:
        said = self.reply()
        if not self.chance(self.trouble):
            return Replied(said, funds=self.random.choice([None, None, None, 10**12, 0]))
        kept = replace(said, stop=Stop.UNFINISHED) if self.chance(0.5) else None
        kind = self.random.choice(REPORTED)
        return CallFailed(failure(kind, inside_call=self.chance(0.3)), kept=kept, usage=self.usage())

    def reply(self) -> Assistant:
        number = next(self.numbers)
        text = (Text(f"text {number}"),) if self.chance(0.6) else ()
        thought = (Thinking("hm", "sig"),) if self.chance(0.3) else ()
        calls = tuple(self.call_block(f"{number}-{n}") for n in range(self.random.choice([0, 0, 1, 2, 4])))
        odd = self.chance(self.trouble / 2)
        stop = self.random.choice(list(Stop)) if odd else Stop.TOOL_USE if calls else Stop.END_TURN
        return Assistant((*thought, *text, *calls), "m", stop, self.usage(), id=f"reply{number}")

    def call_block(self, id: str) -> ToolCall:
        name = self.random.choice(["Read", "Edit", "Sleep", "StructuredOutput"])
        defect = self.random.choice(list(Defect)) if self.chance(self.trouble / 3) else None
        return ToolCall(id, name, {"n": self.random.randrange(2)}, defect)

    def abort(self, effect: Effect) -> Aborted:
        reason = self.random.choice(list(AbortReason))
        match effect:
            case CallModel():
                partial = self.reply() if self.chance(0.7) else None
                early = RunTools(partial.runnable[:1]) if partial else RunTools(())
                return Aborted(reason, partial, ran(early), self.usage())
            case RunTools():
                return Aborted(reason, results=ran(RunTools(effect.calls[:1])))
            case _:
                return Aborted(reason)

    def usage(self) -> Usage:
        pick = self.random.randrange
        return Usage(pick(50), pick(50), pick(50), pick(500), pick(900))


class Session:
    """One to three runs over one history, with everything that happened kept for the checks."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = RandomWorld(seed)
        self.events: list[Event] = []
        self.updates: list[Update] = []
        self.state = State(History())
        self.left_out = 0  # runs after which a giant prompt is out of view
        for _ in range(self.world.random.choice([1, 1, 2, 3])):
            self.run()

    def run(self) -> None:
        self.usage, self.cost = Usage(), 0
        words = "go" * LARGE if self.world.chance(0.05) else "go"
        prompt = replace(user(words), id=f"prompt{next(self.world.numbers)}")
        event = self.world.stamped(Submitted((prompt,)))
        while True:
            was = self.state
            self.state, effect, updates = step(was, event, self.world.config)
            self.events.append(event)
            self.updates.extend(updates)
            self.check_step(was, event, effect, updates)
            if isinstance(effect, Finish):
                return self.check_run()
            event = self.world.stamped(self.world.answer(effect))

    def check_step(self, was: State, event: Event, effect: Effect, updates: tuple[Update, ...]) -> None:
        if any(isinstance(update, Failed) for update in updates):
            assert isinstance(effect, Finish), "a failure was shown and then recovered from"
        used = spent_in(event)
        self.usage += used
        self.cost += event.cost if isinstance(event, Compacted) else cost(used, was.model.price)
        assert self.state.totals.usage == self.usage, "tokens are not the sum of the events"
        assert self.state.totals.cost == self.cost, "money is not the sum of the events"
        if not isinstance(event, Submitted):
            assert self.state.totals.cost >= was.totals.cost
            assert self.state.turn >= was.turn
            assert len(self.state.history) >= len(was.history)

    def check_run(self) -> None:
        result = self.updates[-1]
        assert isinstance(result, Result)
        assert (result.usage, result.cost) == (self.usage, self.cost)
        assert result.model_calls <= most_model_calls(self.world.config)
        assert find_unpaired_ids(self.state.history) == (), "a call without exactly one result"
        ids = [message.id for message in self.state.history]
        assert len(set(ids)) == len(ids), "an id was used twice"
        self.check_replies(set(ids))
        if result.cause in (Cause.WINDOW, Cause.TOO_LARGE) and self.state.stop != Stop.CONTEXT_WINDOW:
            assert too_large(self.state) == [], "what no request can hold is still in view"
        self.left_out += any(m.text.startswith("[A message of") for m in self.state.history if isinstance(m, User))

    def check_replies(self, kept: set[str]) -> None:
        """Whatever was handed on of a reply is in the history, or was withdrawn by its id; never both."""
        withdrawn = {update.id for update in self.updates if isinstance(update, Tombstone)}
        shown = {said.id for said in map(reply_in, self.events) if said is not None and said.blocks}
        assert not withdrawn & kept
        assert shown <= withdrawn | kept, "something shown was neither kept nor withdrawn"

    def check_replay(self) -> None:
        """From the events alone; at one point the state is stored and read back, as a resume would."""
        state = State(History())
        stored_at = self.world.random.randrange(len(self.events))
        for number, event in enumerate(self.events):
            state = step(state, event, self.world.config).state
            if number == stored_at:
                saved = decode_checkpoint(encode_checkpoint(checkpoint(state)))
                assert saved is not None
                state = restore(saved, state.history)
        assert state == self.state, "replay led elsewhere"


def spent_in(event: Event) -> Usage:
    match event:
        case Replied():
            return event.reply.usage
        case CallFailed() | Compacted() | Aborted():
            return event.usage
        case _:
            return Usage()


def reply_in(event: Event) -> Assistant | None:
    match event:
        case Replied():
            return event.reply
        case CallFailed():
            return event.kept
        case Aborted():
            return event.partial
        case _:
            return None


@pytest.mark.covers("A-27", "A-29", "F-20", "E-12", "G-25", "H-14", "B-12", "C-18", "A-08")
@pytest.mark.parametrize("sessions", [1_500, long(20_000)])
def test_random_sessions(sessions: int, capsys: pytest.CaptureFixture[str]) -> None:
    terminals: Counter[str] = Counter()
    transitions: set[str] = set()
    steps = left_out = 0
    for seed in range(sessions):
        try:
            session = Session(seed)
            session.check_replay()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        steps += len(session.events)
        left_out += session.left_out
        terminals.update(update.terminal for update in session.updates if isinstance(update, Result))
        transitions.update(name for _, name in session.state.climbed)
    with capsys.disabled():
        ends = ", ".join(f"{name} {times:,}" for name, times in terminals.most_common())
        print(f"\nrandom play: {sessions:,} sessions, {steps:,} steps and as many in replay; {ends}")
        print(f"giant prompts were out of view after {left_out} runs")
    assert len(terminals) == 10, "not every terminal was reached"
    assert left_out > 0
