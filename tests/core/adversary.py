"""Environments that always answer the same way. Each must reach an end, within the number of calls that law 1 promises.

Random play does not find death spirals: a random world relents. These do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from core.play import CONFIG, FULL, SMALL, compacted, failure, ran, reply
from mainspring.core.config import Config, StopHooks
from mainspring.core.effects import CallModel, Compact, Effect, Finish, PrepareContext, RunStopHooks, RunTools
from mainspring.core.events import (
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
from mainspring.core.ladder import LADDER, RungScope, most_model_calls
from mainspring.core.messages import Assistant, Defect, Stop, Thinking, ToolCall, user
from mainspring.core.reasons import Terminal, Transition, Trouble
from mainspring.core.state import State, Step
from mainspring.core.step import step
from mainspring.core.updates import Failed, Result
from mainspring.core.value import Stamp

MOST_STEPS = 3_000  # far above the longest honest run of these configurations

Stepper = Callable[[State, Event, Config], Step]

PLENTY, LITTLE = 10**12, 10_000_000  # nano-dollars: the second pays for a reply of 2,000 tokens

REPORTED = (
    Trouble.PROMPT_TOO_LONG,
    Trouble.TOO_LARGE,
    Trouble.MEDIA,
    Trouble.OVERLOADED,
    Trouble.RATE_LIMIT,
    Trouble.SERVER,
    Trouble.NETWORK,
    Trouble.AUTH,
    Trouble.INVALID_REQUEST,
    Trouble.MALFORMED_CALL,
    Trouble.FUNDS,
)


def _model_outcomes() -> dict[str, Replied | CallFailed]:
    malformed, cut = ToolCall("m", "Edit", {}, Defect.MALFORMED), ToolCall("c", "Edit", {}, Defect.CUT)
    output = ToolCall("x", "StructuredOutput", {})
    replies = {
        "text": reply("hello"),
        "long text": reply("hello", output=2_000),
        "call": reply("", "x"),
        "call and text": reply("hello", "x", "y", output=2_000),
        "output": reply("", output),
        "refused with a call": reply("no", "x", stop=Stop.REFUSAL),
        "call at the output limit": reply("", "x", cut, stop=Stop.MAX_TOKENS),
        "output limit": reply("half", stop=Stop.MAX_TOKENS, output=8_000),
        "output limit, little": reply("half", stop=Stop.MAX_TOKENS),
        "output limit in a call": reply("half", cut, stop=Stop.MAX_TOKENS, output=8_000),
        "output limit in thinking": reply(stop=Stop.MAX_TOKENS, blocks=(Thinking("hm"),), output=8_000),
        "context window": reply("half", stop=Stop.CONTEXT_WINDOW),
        "context window, nothing said": reply(stop=Stop.CONTEXT_WINDOW),
        "pause": reply("searching", stop=Stop.PAUSE_TURN),
        "pause, nothing said": reply(stop=Stop.PAUSE_TURN),
        "refusal": reply("no", stop=Stop.REFUSAL),
        "empty": reply(),
        "thinking only": reply(blocks=(Thinking("hm"),)),
        "malformed call": reply("", malformed),
        "malformed and good call": reply("", malformed, "x"),
    }
    outcomes: dict[str, Replied | CallFailed] = {name: Replied(answer) for name, answer in replies.items()}
    for kind in REPORTED:
        outcomes[kind] = CallFailed(failure(kind))
        outcomes[f"{kind} in the text"] = CallFailed(failure(kind), kept=reply("half"))
        outcomes[f"{kind} at once"] = CallFailed(failure(kind), kept=reply())
        outcomes[f"{kind} in a call"] = CallFailed(failure(kind, inside_call=True), kept=reply("half"))
        outcomes[f"{kind} after a call"] = CallFailed(failure(kind), kept=reply("half", "x"))
    return outcomes


MODEL = _model_outcomes()
CONTEXT = {"small": 10, "near the limit": FULL, "over the limit": 199_000}
COMPACTION = {
    "works": compacted(),
    "fails": compacted(worked=False),
    "frees nothing": compacted(after=FULL),
}
HOOKS = {"silent": StopDecision(), "block": StopDecision(("no",)), "prevent": StopDecision(prevent="enough")}


class Variant(NamedTuple):
    """A way to configure the loop, with as much of the other axes as it can matter for."""

    config: Config = CONFIG
    context: ContextReady = ContextReady(0)
    funds: tuple[int | None, ...] = (None,)
    budgets: tuple[int | None, ...] = (None,)


VARIANTS = {
    "plain": Variant(funds=(None, PLENTY, LITTLE), budgets=(None, 5_000)),
    "capped": Variant(replace(CONFIG, stop_hooks=StopHooks.CAPPED, max_output=8_000), budgets=(None, 5_000)),
    "structured": Variant(replace(CONFIG, structured_output=True)),
    "staged": Variant(context=ContextReady(0, staged=1, media=1)),
    "no retries": Variant(replace(CONFIG, max_retries=0)),
    "many retries": Variant(replace(CONFIG, max_retries=25)),
    "unattended": Variant(replace(CONFIG, max_retries=80, retries_before_fallback=9, max_wait=21_600_000)),
}


class World(NamedTuple):
    """One environment, and the configuration that meets it."""

    names: tuple[str, ...]
    config: Config
    context: ContextReady
    model: tuple[Replied | CallFailed, ...]  # in turn, round and round
    compaction: Compacted
    hooks: StopDecision

    def answer(self, effect: Effect, calls: int) -> Event:
        match effect:
            case PrepareContext():
                return self.context
            case CallModel():
                return fresh(self.model[calls % len(self.model)], calls)
            case RunTools():
                return ToolsDone(ran(effect))
            case RunStopHooks():
                return HooksDone(self.hooks)
            case Compact():
                return self.compaction
            case Finish():
                raise AssertionError("nothing to perform")


def worlds() -> Iterator[World]:
    for name, variant in VARIANTS.items():
        axes = product(CONTEXT, MODEL, COMPACTION, HOOKS, (0, 1), (True, False), variant.funds, variant.budgets)
        for context, model, compaction, hooks, fallbacks, auto, funds, budget in axes:
            yield World(
                (
                    name,
                    context,
                    model,
                    compaction,
                    hooks,
                    f"fallbacks={fallbacks}",
                    f"auto={auto}",
                    f"{funds}",
                    f"{budget}",
                ),
                replace(
                    variant.config,
                    max_turns=3,
                    fallbacks=(SMALL,) * fallbacks,
                    auto_compact=auto,
                    token_budget=budget,
                ),
                replace(variant.context, tokens=CONTEXT[context], funds=funds),
                (MODEL[model],),
                COMPACTION[compaction],
                HOOKS[hooks],
            )


def shifting_worlds() -> Iterator[World]:
    """Worlds that alternate between two answers, and one that runs through all of them, round and round."""
    once = replace(CONFIG, max_turns=3, fallbacks=(SMALL,), max_output=8_000)
    capped = replace(once, stop_hooks=StopHooks.CAPPED)
    context = ContextReady(FULL, staged=1, media=1)
    for first, second, config in product(MODEL, MODEL, (once, capped)):
        yield World((first, second), config, context, (MODEL[first], MODEL[second]), compacted(), HOOKS["block"])
    ends = {"prevent", "auth", "invalid_request", "funds", "refused with a call"}
    all_in_turn = tuple(answer for name, answer in MODEL.items() if name.split(" ")[0] not in ends)
    yield World(("all in turn",), capped, context, all_in_turn, compacted(), HOOKS["block"])


class Outcome(NamedTuple):
    ended: bool
    steps: int
    calls: int
    terminal: Terminal | None
    shown_and_recovered: bool = False
    overused: str = ""  # a rung that was used more often than its limit says


LIMITS = {(trouble, rung.name): rung for trouble, row in LADDER.items() for rung in row}


class Watch:
    """Counts the uses of rungs from outside, so that a core which forgets its own count is found out."""

    def __init__(self, config: Config) -> None:
        self.uses: Counter[tuple[Trouble, Transition]] = Counter()
        self.overused = ""
        self._config = config

    def _keep(self, *scopes: RungScope) -> None:
        self.uses = Counter({use: n for use, n in self.uses.items() if LIMITS[use].scope in scopes})

    def see(self, was: State, now: State) -> None:
        if now.turn > was.turn or now.budget.continuations > was.budget.continuations:
            self._keep(RungScope.RUN)
        for use in now.climbed[len(was.climbed) :]:
            self.uses[use] += 1
            if use[1] is Transition.MODEL_FALLBACK:
                self._keep(RungScope.RUN, RungScope.PROGRESS)
            if self.uses[use] > LIMITS[use].most(self._config):
                self.overused = f"{use[1]} for {use[0]}"


def meet(world: World, stepper: Stepper = step, most: int = MOST_STEPS) -> Outcome:
    watch = Watch(world.config)
    was = State(History())
    next_ = stepper(was, Submitted((user("go"),)), world.config)
    for number in range(1, most):
        watch.see(was, next_.state)
        failed = any(isinstance(update, Failed) for update in next_.updates)
        if isinstance(next_.effect, Finish):
            last = next_.updates[-1]
            assert isinstance(last, Result)
            return Outcome(True, number, last.model_calls, last.terminal, overused=watch.overused)
        if failed:
            return Outcome(True, number, 0, None, shown_and_recovered=True)
        was = next_.state
        answer = world.answer(next_.effect, was.totals.calls)
        next_ = stepper(was, replace(answer, stamp=Stamp(f"{number:08x}", number)), world.config)
    return Outcome(False, most, next_.state.totals.calls, None, overused=watch.overused)


def bound(world: World) -> int:
    return most_model_calls(world.config)


def fresh(answer: Replied | CallFailed, number: int) -> Replied | CallFailed:
    """The same answer, with ids of its own."""
    if isinstance(answer, Replied):
        return replace(answer, reply=renamed(answer.reply, number))
    return replace(answer, kept=renamed(answer.kept, number)) if answer.kept else answer


def renamed(said: Assistant, number: int) -> Assistant:
    blocks = tuple(
        replace(block, id=f"{block.id}{number}") if isinstance(block, ToolCall) else block for block in said.blocks
    )
    return replace(said, blocks=blocks, id=f"m{number}")
