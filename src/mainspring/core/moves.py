"""The moves that handlers and rungs share: call the model, go round, compact, keep or withdraw a reply, end.

Also handles a message that is too large to send. When no rung is left, `leave_out` finds it and removes it from the
view. No compaction touches the newest messages, so without this a single huge prompt would break every later turn of
its session.
"""

from __future__ import annotations

from itertools import takewhile

from msgspec.structs import replace

from mainspring.core.config import OUTPUT_RESERVE, Config, Sampling
from mainspring.core.effects import (
    AnnouncedBudget,
    CallModel,
    Compact,
    CompactionKind,
    Finish,
    PrepareContext,
    Priority,
    Request,
    Retried,
)
from mainspring.core.messages import Assistant, Message, Origin, Stop, User, user
from mainspring.core.models import Model
from mainspring.core.money import LEAST_OUTPUT, grant, least, shortfall
from mainspring.core.pairing import NeverRan, answer
from mainspring.core.reasons import GIVE_UP, PASSING, SUBTYPES, Cause, Ending, Failure, Terminal, Transition, Trouble
from mainspring.core.state import State, Step, accept, clock, refills, say
from mainspring.core.updates import Decided, Failed, RequestStarted, Result, Tombstone
from mainspring.core.value import as_json
from mainspring.core.view import Drop, view

LARGE = 10_000  # bytes; a shorter message never fills the window of any model,
SHARE = 4  # and neither does one below a quarter of the view
MEGABYTE = 1024 * 1024

NOTE = "[{what} stood before this. It was too large to be sent, and is left out.]"
WORDS = "{what} will be left out from now on: put it into a file, and name the file instead"


def leave_out(state: State) -> tuple[State, tuple[Decided, ...], str]:
    """Remove the messages since the last reply that are too large. Also returns a sentence for the user, or ""."""
    found = too_large(state)
    if not found:
        return state, (), ""
    size = in_words(sum(map(size_of, found)))
    what = f"A message of {size}" if len(found) == 1 else f"{len(found)} messages of {size} in all"
    state = replace(state, edits=(*state.edits, Drop(tuple([message.id for message in found]))))
    state, said = say(state, user(NOTE.format(what=what), Origin.RECOVERY))
    return state, said, WORDS.format(what=what)


def too_large(state: State) -> list[User]:
    """Newest first. A rung shortens results, and replies have their own limit."""
    seen = view(state.history, state.edits)
    least = max(LARGE, sum(map(size_of, seen)) // SHARE)
    since = takewhile(lambda message: not isinstance(message, Assistant), reversed(seen))
    return [message for message in since if isinstance(message, User) and size_of(message) >= least]


def size_of(message: Message) -> int:
    """In bytes, approximately as in a request."""
    return len(as_json(message))


def in_words(size: int) -> str:
    return f"{size / MEGABYTE:,.1f} MB" if size >= MEGABYTE // 10 else f"{-(-size // 1024)} kB"


LEAST_THINKING = 1_024  # as the API requires
LEAST_ANSWER = 1_000  # tokens that thinking leaves for the answer
SUMMARY_OUTPUT = 8_000  # tokens; a longer text would not be a summary


def prepare(state: State, transition: Transition | None = None, take: Priority = Priority.NEXT) -> Step:
    return Step(replace(state, transition=transition) if transition else state, PrepareContext(take))


def call_model(state: State, config: Config) -> Step:
    if config.max_tokens is not None and state.totals.usage.total >= config.max_tokens:
        return close(state, Ending(Terminal.COMPLETED, Cause.TOKEN_BUDGET), config)
    model = state.model
    max_output, reserve = min(state.max_output or config.output_cap(model), model.max_output), 0
    if state.funds is not None:
        granted = grant(state.funds, state.tokens, max_output, model.price, floor=least_output(model, config))
        if granted is None:
            return close(state, GIVE_UP[Trouble.FUNDS], config)
        max_output, reserve = granted.max_output, granted.reserve
    sampling = choose_sampling(state, config)
    thinks = config.thinking and (sampling is None or not sampling.rules_out_thinking)
    request = Request(
        model=model.name,
        max_output=max_output,
        turn=state.turn,
        source=config.source,
        chain=config.chain,
        depth=config.depth,
        overload_tries=overload_tries(state, config),
        thinking=thinking_budget(model, max_output) if thinks else None,
        adaptive=config.thinking and model.adaptive_thinking,
        effort=config.effort,
        task_budget=task_budget(state, config),
        reserve=reserve,
        retried=make_retried(state, config),
        sampling=sampling,
    )
    state = replace(state, totals=replace(state.totals, calls=state.totals.calls + 1))
    return Step(state, CallModel(request), (RequestStarted(state.turn, model.name, state.transition),))


def choose_sampling(state: State, config: Config) -> Sampling | None:
    """A tool choice that forces a call holds for the first turn only: the run could not end otherwise (law 1)."""
    chosen = config.sampling
    if chosen is None or state.turn <= 1 or not chosen.forces_call:
        return chosen
    return replace(chosen, tool_choice=None)


def least_output(model: Model, config: Config) -> int:
    """The shortest reply that is worth a call (settled 22). A model that decides by itself how much to think gets as
    much as the API asks for with a thinking budget. One with a budget goes on without it (`thinking_budget`)."""
    return LEAST_THINKING if config.thinking and model.adaptive_thinking else LEAST_OUTPUT


def thinking_budget(model: Model, max_output: int) -> int | None:
    """The model's thinking budget (K-06). The API requires at least 1,024 tokens, and fewer than the whole reply."""
    budget = min(model.thinking_budget, max_output - LEAST_ANSWER)
    return budget if budget >= LEAST_THINKING else None


def overload_tries(state: State, config: Config) -> int:
    """If there is a fallback model, make fewer attempts at an overloaded one (settled 9, Z-10)."""
    if fallbacks_used(state) < len(config.fallbacks):
        return config.overload_tries_before_fallback
    return config.max_retries + 1


def fallbacks_used(state: State) -> int:
    return sum(name is Transition.MODEL_FALLBACK for _, name in state.climbed)


def most_attempts(state: State, failure: Failure, config: Config) -> int:
    """The number of attempts, including the first, at a reply that breaks off in this way."""
    retries = config.max_retries
    if config.retries_before_fallback is not None and fallbacks_used(state) < len(config.fallbacks):
        retries = min(retries, config.retries_before_fallback)
    most = retries + 1
    return min(most, overload_tries(state, config)) if failure.kind is Trouble.OVERLOADED else most


def make_retried(state: State, config: Config) -> Retried | None:
    failure = state.withheld
    if failure is None or failure.kind not in PASSING or not state.attempts:
        return None
    return Retried(failure, state.attempts, most_attempts(state, failure, config), state.waited)


def task_budget(state: State, config: Config) -> AnnouncedBudget | None:
    """The server counts what it sees; we subtract what compaction has removed from the view (A-13, D-34)."""
    if config.task_budget is None:
        return None
    return AnnouncedBudget(config.task_budget, max(0, config.task_budget - state.task_spent))


def compact(state: State, how: CompactionKind, trouble: Trouble) -> Step | None:
    """None: there is no money for a summary."""
    if refills(state.compaction, how, clock(state)):
        detail = f"the context is full again, soon after {state.compaction.streak} compactions in a row"
        shown = (Failed(state.withheld),) if state.withheld else ()
        return finish(state, Ending(Terminal.PROMPT_TOO_LONG, Cause.REFILL), detail).after(*shown)
    if how is not CompactionKind.SUMMARY:
        return Step(state, Compact(how, trouble))
    reserve = 0
    if state.funds is not None:
        granted = grant(state.funds, state.tokens, OUTPUT_RESERVE, state.model.price)
        if granted is None or granted.max_output < SUMMARY_OUTPUT:
            return None  # a truncated summary is useless, and it may not write more than is reserved
        reserve = granted.reserve
    calls = state.totals.calls + 1
    state = replace(state, totals=replace(state.totals, calls=calls))
    return Step(state, Compact(how, trouble, reserve, state.compact))


# --- a defective reply --------------------------------------------------------------------------------


def worth_keeping(reply: Assistant | None) -> bool:
    return reply is not None and bool(reply.text.strip() or reply.calls)


def keep(state: State, trouble: Trouble) -> tuple[State, tuple[Decided, ...]]:
    """Make the pending reply part of the conversation; withdraw it if it is empty."""
    if state.pending is None or not worth_keeping(state.pending):
        return withdraw(state, trouble)
    return take_in(state, state.pending)


def take_in(state: State, reply: Assistant) -> tuple[State, tuple[Decided, ...]]:
    """Make a reply without a runnable call part of the conversation, and answer its defective calls."""
    state = accept(replace(state, pending=None), reply)
    return answer(state, reply.calls, (), NeverRan.STOPPED)


def withdraw(state: State, trouble: Trouble) -> tuple[State, tuple[Decided, ...]]:
    """Withdraw what was shown of the pending reply."""
    if state.pending is None:
        return state, ()
    return replace(state, pending=None), (Tombstone(state.pending.id, trouble),)


OVERSIZED = frozenset({Trouble.PROMPT_TOO_LONG, Trouble.TOO_LARGE})


def give_up(state: State, failure: Failure, config: Config) -> Step:
    """No rung is left: show the failure now. Stop hooks do not run after it (G-13)."""
    state, said = keep(state, failure.kind)
    if failure.kind in OVERSIZED:
        state, noted, words = leave_out(state)
        said, failure = (*said, *noted), replace(failure, detail=sentences(failure.detail, words))
    return close(state, GIVE_UP[failure.kind], config, failure.detail).after(*said, Failed(failure))


# --- the end ------------------------------------------------------------------------------------------


# If structured output was requested and is missing, these ends are errors: the caller reads nothing else. An end by a
# hook is a success, because a hook demanded it, and the terminal reason says so.
NO_OBJECT = frozenset({Cause.OUTPUT_LIMIT, Cause.REFUSAL, Cause.TOKEN_BUDGET})


def close(state: State, ending: Ending, config: Config, detail: str = "") -> Step:
    """End because of the model or a limit, with a message that says what to do."""
    if ending.cause is Cause.BUDGET_USD:
        words = detail or out_of_money(state, config)
        too_much = state.tokens > state.model.window  # then no money would do
        return finish_without(state, ending, words) if too_much else finish(state, ending, words)
    if config.structured_output and ending.cause in NO_OBJECT:
        return finish(state, GIVE_UP[Trouble.STRUCTURED_OUTPUT], no_object(state, ending.cause, config))
    if ending.cause is Cause.OUTPUT_LIMIT:
        return finish(state, ending, output_limit(state, config, "answer"))
    return finish(state, ending, detail)


def finish_without(state: State, ending: Ending, detail: str) -> Step:
    """The window is full and compaction cannot free room: the newest messages alone may be too large."""
    state, said, words = leave_out(state)
    return finish(state, ending, sentences(detail, words)).after(*said)


def sentences(*words: str) -> str:
    return ". ".join([part for part in words if part])


def out_of_money(state: State, config: Config) -> str:
    floor = min(least_output(state.model, config), config.output_cap(state.model))
    output = floor if state.compact is None else SUMMARY_OUTPUT
    needed = least(state.tokens, output, state.model.price)
    return shortfall(state.funds or 0, needed, state.tokens, output)


def no_object(state: State, cause: Cause, config: Config) -> str:
    if cause is Cause.REFUSAL:
        return "the model refused to answer: ask in other words, or ask another model"
    if cause is Cause.TOKEN_BUDGET:
        return f"the run has used up its {config.max_tokens:,} tokens: raise the limit"
    return output_limit(state, config, "object")


def output_limit(state: State, config: Config, what: str) -> str:
    asked = state.waiting_for
    assert isinstance(asked, CallModel)
    cap, wanted, way_out = asked.request.max_output, state.max_output or config.output_cap(state.model), ""
    if cap < wanted:
        way_out = "raise the money limit, which allows no more, or "
    elif wanted < state.model.max_output:
        way_out = "raise it, or "
    return f"the reply hit the output limit of {cap:,} tokens: {way_out}ask for a smaller {what}"


def finish(state: State, ending: Ending, detail: str = "") -> Step:
    output = state.output
    result = Result(
        terminal=ending.terminal,
        cause=ending.cause,
        subtype=SUBTYPES[ending.cause],
        detail=detail,
        text=last_words(state) if output is None else as_json(output).decode(),
        stop=state.stop,
        output=output,
        turns=state.turn,
        model_calls=state.totals.calls,
        messages=state.totals.messages,
        usage=state.totals.usage,
        cost=state.totals.cost,
        estimated=state.totals.estimated or state.totals.usage.estimated,
        duration=state.now.at - state.started,
    )
    return Step(state, Finish(ending.terminal, ending.cause, detail), (result,))


def last_words(state: State) -> str:
    """The last text of this run. Ignores the replies of earlier runs.

    An answer that was cut off and resumed, or paused and continued, is one answer in several replies.
    """
    parts: list[str] = []
    left, goes_on = state.totals.replies, False
    for message in state.history.newest_first():
        if isinstance(message, Assistant):
            if not left or (parts and not (goes_on or message.stop is Stop.PAUSE_TURN)):
                break
            left, goes_on = left - 1, False
            if message.text:
                parts.append(message.text)
        elif parts:
            goes_on = isinstance(message, User) and message.origin is Origin.RECOVERY
            if not goes_on:
                break
    return "".join(reversed(parts))
