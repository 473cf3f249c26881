"""The few moves that handlers and rungs share: ask the model, go round, compact, keep or withdraw a reply, end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec
from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.effects import CallModel, Compact, Finish, How, PrepareContext, Priority, Request, TaskBudget
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Stop
from mainspring.core.money import grant
from mainspring.core.pairing import NeverRan, answer
from mainspring.core.reasons import GIVE_UP, SUBTYPES, Cause, Ending, Failure, Terminal, Transition, Trouble
from mainspring.core.state import State, Step, accept
from mainspring.core.updates import Failed, RequestStarted, Result, Tombstone, Update

REFILL_STREAK = 3  # Z-13: this many compactions in quick succession,
REFILL_TURNS = 3  # each less than this many turns after the one before, and the next one ends the run


def prepare(state: State, transition: Transition | None = None, take: Priority = Priority.NEXT) -> Step:
    return Step(replace(state, transition=transition) if transition else state, PrepareContext(take))


def call_model(state: State, config: Config) -> Step:
    model = state.model
    max_output, reserve = state.max_output or config.output_cap(model), 0
    if state.funds is not None:
        granted = grant(state.funds, state.tokens, max_output, model.price)
        if granted is None:
            return finish(state, GIVE_UP[Trouble.FUNDS])
        max_output, reserve = granted.max_output, granted.reserve
    request = Request(
        model=model.name,
        max_output=max_output,
        turn=state.turn,
        source=config.source,
        chain=config.chain,
        depth=config.depth,
        overload_tries=overload_tries(state, config),
        thinking=(model.thinking_budget or None) if config.thinking else None,
        adaptive=config.thinking and model.adaptive_thinking,
        effort=config.effort,
        task_budget=task_budget(state, config),
        reserve=reserve,
    )
    state = replace(state, totals=replace(state.totals, calls=state.totals.calls + 1))
    return Step(state, CallModel(request), (RequestStarted(state.turn, model.name, state.transition),))


def overload_tries(state: State, config: Config) -> int:
    """With another model to fall back to, patience with an overloaded one is short (settled 9, Z-10)."""
    if fallbacks_used(state) < len(config.fallbacks):
        return config.overload_tries_before_fallback
    return config.overload_tries


def fallbacks_used(state: State) -> int:
    return sum(name is Transition.MODEL_FALLBACK for _, name in state.climbed)


def task_budget(state: State, config: Config) -> TaskBudget | None:
    """The server counts what it sees; what compaction took out of its sight we subtract ourselves (A-13, D-34)."""
    if config.task_budget is None:
        return None
    return TaskBudget(config.task_budget, max(0, config.task_budget - state.task_spent))


def compact(state: State, how: How, trouble: Trouble) -> Step:
    if how in (How.SUMMARY, How.TRIM) and refills(state):
        detail = f"the context is full again, soon after {state.compaction.streak} compactions in a row"
        return finish(state, Ending(Terminal.PROMPT_TOO_LONG, Cause.REFILL), detail)
    calls = state.totals.calls + (how is How.SUMMARY)
    return Step(replace(state, totals=replace(state.totals, calls=calls)), Compact(how, trouble))


def refills(state: State) -> bool:
    done = state.compaction
    return done.streak >= REFILL_STREAK and state.turn - done.last_turn < REFILL_TURNS


# --- a reply that something is wrong with -------------------------------------------------------------


def worth_keeping(reply: Assistant | None) -> bool:
    return reply is not None and bool(reply.text.strip() or reply.calls)


def keep(state: State) -> tuple[State, tuple[Update, ...]]:
    """The pending reply becomes part of the conversation, its unfit calls answered; an empty one is withdrawn."""
    reply = state.pending
    if reply is None or not worth_keeping(reply):
        return withdraw(state, Trouble.EMPTY)
    state = accept(replace(state, pending=None), reply)
    return answer(state, reply.calls, (), NeverRan.STOPPED)


def withdraw(state: State, why: Trouble) -> tuple[State, tuple[Update, ...]]:
    """Whatever was shown of the pending reply never happened."""
    if state.pending is None:
        return state, ()
    return replace(state, pending=None), (Tombstone(state.pending.id, why),)


def give_up(state: State, failure: Failure) -> Step:
    """No rung is left: now the failure is shown. Stop hooks do not run after it (G-13)."""
    state, said = keep(state)
    return finish(state, GIVE_UP[failure.kind], failure.detail).after(*said, Failed(failure))


# --- the end ------------------------------------------------------------------------------------------


def finish(state: State, ending: Ending, detail: str = "") -> Step:
    text, stop = last_words(state)
    if state.output is not None:
        text = msgspec.json.encode(state.output).decode()
    result = Result(
        terminal=ending.terminal,
        cause=ending.cause,
        subtype=SUBTYPES[ending.cause],
        detail=detail,
        text=text,
        stop=stop,
        output=state.output,
        turns=state.turn,
        model_calls=state.totals.calls,
        messages=state.totals.messages,
        usage=state.totals.usage,
        cost=state.totals.cost,
        duration=state.now.at - state.started,
    )
    return Step(state, Finish(ending.terminal, ending.cause, detail), (result,))


def last_words(state: State) -> tuple[str, Stop | None]:
    """The last text of this run, and why its last reply stopped. The replies of earlier runs are not looked at."""
    stop: Stop | None = None
    for reply in islice(replies(state.history), state.totals.replies):
        stop = stop or reply.stop
        if reply.text:
            return reply.text, stop
    return "", stop


def replies(history: History) -> Iterator[Assistant]:
    return (message for message in history.newest_first() if isinstance(message, Assistant))
