"""Recovery as one table. Each rung has a limit and states how many model calls one use may lead to.

A trouble climbs its row from the left. A rung that cannot help returns None, and the next one is tried; when none is
left, the loop shows the failure that it has withheld until then.

`most_model_calls` is law 1 as a number: the most model calls that a run with this configuration can make.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec.structs import replace

from mainspring.core.config import ESCALATED_OUTPUT, LOW_OUTPUT_CAP, MAX_FALLBACKS, Config
from mainspring.core.effects import CompactionKind
from mainspring.core.limits import most_continuations
from mainspring.core.messages import Origin, ServerBlock, user
from mainspring.core.moves import (
    call_model,
    compact,
    fallbacks_used,
    keep,
    most_attempts,
    prepare,
    take_in,
    withdraw,
    worth_keeping,
)
from mainspring.core.reasons import Transition, Trouble
from mainspring.core.state import Climbed, State, Step, breaker_is_open, clock, say
from mainspring.core.updates import Decided
from mainspring.core.value import Bundle

GO_ON = "Your reply was cut off by a connection error. Continue directly from where it stopped, without a recap."
SAY_SOMETHING = "Your last reply held neither text nor a tool call. Answer the user, or call a tool."
SEND_AGAIN = "Your last tool call could not be read. Send it again as a proper tool call with valid JSON input."
PICK_UP = "Go on."
GIVE_OUTPUT = "Finish by calling the StructuredOutput tool with your answer: the caller reads nothing else."


class RungScope(StrEnum):
    """How long a use of a rung counts."""

    PROGRESS = "until progress"  # a turn with tools, or a budget continuation
    MODEL = "until progress or a fallback"  # the next model of the chain gets all its attempts
    RUN = "for the run"


class Rung(Bundle):
    name: Transition
    limit: int | Callable[[Config], int]
    act: Callable[[State, Trouble, Config], Step | None]
    calls: int = 1  # model calls that one use may lead to, including the retry
    scope: RungScope = RungScope.PROGRESS

    def most(self, config: Config) -> int:
        """The rung's limit for this configuration."""
        return self.limit if isinstance(self.limit, int) else self.limit(config)


def climb(state: State, trouble: Trouble, config: Config) -> Step | None:
    for rung in LADDER[trouble]:
        higher = use(state, trouble, rung, config)
        if higher is not None and (decision := rung.act(higher, trouble, config)):
            return decision
    return None


def use(state: State, trouble: Trouble, rung: Rung, config: Config) -> State | None:
    """The state after one more use of a rung; None if no use is left."""
    climbed = since_fallback(state.climbed) if rung.scope is RungScope.MODEL else state.climbed
    if climbed.count((trouble, rung.name)) >= rung.most(config):
        return None
    return replace(state, climbed=(*state.climbed, (trouble, rung.name)), transition=rung.name)


def since_fallback(climbed: tuple[Climbed, ...]) -> tuple[Climbed, ...]:
    fallbacks = [place for place, (_, name) in enumerate(climbed) if name is Transition.MODEL_FALLBACK]
    return climbed[fallbacks[-1] + 1 :] if fallbacks else climbed


def after_progress(state: State) -> State:
    """Make the rungs available again, except those that count for the run."""
    if not state.climbed:
        return state  # nothing was used
    kept = tuple([use for use in state.climbed if use in FOR_THE_RUN])
    return replace(state, climbed=kept, attempts=0, waited=0, max_output=None)


# --- the context is too big -------------------------------------------------------------------------


def drain_collapse(state: State, trouble: Trouble, config: Config) -> Step | None:
    return _shrink(state, CompactionKind.COLLAPSE, trouble, config) if state.staged else None


def strip_media(state: State, trouble: Trouble, config: Config) -> Step | None:
    return _shrink(state, CompactionKind.STRIP_MEDIA, trouble, config) if state.media else None


def summarize(state: State, trouble: Trouble, config: Config) -> Step | None:
    if trouble is not Trouble.NEAR_LIMIT and not config.reactive_compact:
        return None
    return (
        None
        if breaker_is_open(state.compaction, state.model.name)
        else _shrink(state, CompactionKind.SUMMARY, trouble, config)
    )


def trim(state: State, trouble: Trouble, config: Config) -> Step | None:
    """Near the limit, trim only instead of a summary, never after one: then call the model first (Z-01, D-32)."""
    on_top = trouble is Trouble.NEAR_LIMIT and state.compaction.last == clock(state)
    return None if on_top else _shrink(state, CompactionKind.TRIM, trouble, config)


def _shrink(state: State, how: CompactionKind, trouble: Trouble, config: Config) -> Step | None:
    """If the window filled up in mid-reply, keep the reply so far and ask the model to resume."""
    if trouble is Trouble.CONTEXT_WINDOW and worth_keeping(state.pending):
        state, said = _keep_and_ask(state, trouble, config.resume)
    else:
        state, said = withdraw(state, trouble)
    decision = compact(state, how, trouble)
    return decision and decision.after(*said)


# --- the reply is cut, empty or refused -------------------------------------------------------------


def escalate_output(state: State, trouble: Trouble, config: Config) -> Step | None:
    cap = state.max_output or config.output_cap(state.model)
    escalated = min(ESCALATED_OUTPUT, state.model.max_output)
    if cap > LOW_OUTPUT_CAP or escalated <= cap:
        return None
    return ask_the_same_again(replace(state, max_output=escalated), trouble, config)


def ask_to_resume(state: State, trouble: Trouble, config: Config) -> Step | None:
    """Three times, whatever each one yields: diminishing returns count from the third continuation on (G-12, H-05)."""
    state, said = _keep_and_ask(state, trouble, config.resume)
    return prepare(state).after(*said)


def keep_and_go_on(state: State, trouble: Trouble, config: Config) -> Step | None:
    """The stream broke inside a tool call: keep the finished blocks, drop the call."""
    inside_call = state.withheld is not None and state.withheld.inside_call
    if not (inside_call and worth_keeping(state.pending)) or attempts_are_spent(state, config):
        return None
    state, said = _keep_and_ask(state, trouble, GO_ON)
    return prepare(state).after(*said)


def ask_again_after_cut(state: State, trouble: Trouble, config: Config) -> Step | None:
    return None if attempts_are_spent(state, config) else ask_the_same_again(state, trouble, config)


def attempts_are_spent(state: State, config: Config) -> bool:
    """Both rungs of a lost stream share one count with attempts that failed before the reply began: the user sees that
    count, and one time of waiting."""
    assert state.withheld is not None
    if config.max_wait is not None and state.waited >= config.max_wait:
        return True
    return state.attempts >= most_attempts(state, state.withheld, config)


def ask_the_same_again(state: State, trouble: Trouble, config: Config) -> Step | None:
    state, gone = withdraw(state, trouble)
    return call_model(state, config).after(*gone)


def ask_for_more(state: State, trouble: Trouble, config: Config) -> Step | None:
    state, gone = withdraw(state, trouble)
    state, said = say(state, user(SAY_SOMETHING, Origin.RECOVERY))
    return prepare(state).after(*gone, *said)


def ask_for_a_proper_call(state: State, trouble: Trouble, config: Config) -> Step | None:
    if state.pending is not None and state.pending.calls:
        state, said = keep(state, trouble)  # the results that `keep` adds tell the model what was wrong
    else:
        state, said = _keep_and_ask(state, trouble, SEND_AGAIN)
    return prepare(state).after(*said)


def let_it_go_on(state: State, trouble: Trouble, config: Config) -> Step | None:
    """The server paused a long turn: send it back unchanged, even if it contains only thinking so far."""
    if state.pending is None or not state.pending.blocks:
        return ask_the_same_again(state, trouble, config)
    at_work = isinstance(state.pending.blocks[-1], ServerBlock)  # then the server continues the turn from this block
    state, said = take_in(state, state.pending)
    if at_work:
        return call_model(state, config).after(*said)
    state, asked = say(state, user(PICK_UP, Origin.RECOVERY))
    return prepare(state).after(*said, *asked)


def ask_for_output(state: State, trouble: Trouble, config: Config) -> Step | None:
    state, said = say(state, user(GIVE_OUTPUT, Origin.RECOVERY))
    return prepare(state).after(*said)


def fall_back(state: State, trouble: Trouble, config: Config) -> Step | None:
    """Switch to the next model of the chain. The next run starts with the primary model again."""
    place = fallbacks_used(state) - 1  # this climb is counted already
    if place >= len(config.fallbacks):
        return None
    state, gone = withdraw(state, trouble)
    return prepare(replace(state, model=config.fallbacks[place], attempts=0, waited=0, max_output=None)).after(*gone)


def _keep_and_ask(state: State, trouble: Trouble, words: str) -> tuple[State, tuple[Decided, ...]]:
    state, kept = keep(state, trouble)
    state, asked = say(state, user(words, Origin.RECOVERY))
    return state, (*kept, *asked)


# --- the table --------------------------------------------------------------------------------------


def max_retries(config: Config) -> int:
    return config.max_retries


FALL_BACK = Rung(Transition.MODEL_FALLBACK, MAX_FALLBACKS, fall_back, scope=RungScope.RUN)

# The limits that the requirements do not name are ours: what a retry can fix, the second or third one fixes.
LADDER: dict[Trouble, tuple[Rung, ...]] = {
    Trouble.NEAR_LIMIT: (
        Rung(Transition.AUTO_COMPACT, 1, summarize),
        Rung(Transition.AUTO_TRIM, 1, trim, calls=0),
    ),
    Trouble.PROMPT_TOO_LONG: (  # Z-06
        Rung(Transition.COLLAPSE_DRAIN_RETRY, 3, drain_collapse),
        Rung(Transition.STRIP_MEDIA_RETRY, 1, strip_media),
        Rung(Transition.REACTIVE_COMPACT_RETRY, 1, summarize, calls=2),
        Rung(Transition.TRIM_RETRY, 1, trim),
    ),
    Trouble.TOO_LARGE: (  # media are large in bytes and small in tokens
        Rung(Transition.STRIP_MEDIA_RETRY, 1, strip_media),
        Rung(Transition.REACTIVE_COMPACT_RETRY, 1, summarize, calls=2),
        Rung(Transition.TRIM_RETRY, 1, trim),
    ),
    Trouble.CONTEXT_WINDOW: (
        Rung(Transition.CONTEXT_WINDOW_RETRY, 1, summarize, calls=2),
        Rung(Transition.TRIM_RETRY, 1, trim),
    ),
    Trouble.MEDIA: (
        Rung(Transition.STRIP_MEDIA_RETRY, 1, strip_media),
        Rung(Transition.REACTIVE_COMPACT_RETRY, 1, summarize, calls=2),
    ),
    Trouble.MAX_OUTPUT: (  # Z-07
        Rung(Transition.MAX_OUTPUT_TOKENS_ESCALATE, 1, escalate_output),
        Rung(Transition.MAX_OUTPUT_TOKENS_RECOVERY, 3, ask_to_resume),
    ),
    Trouble.STREAM_CUT: (
        Rung(Transition.TRUNCATED_RESPONSE_RECOVERY, 3, keep_and_go_on, scope=RungScope.MODEL),
        Rung(Transition.STREAM_RETRY, max_retries, ask_again_after_cut, scope=RungScope.MODEL),
        FALL_BACK,
    ),
    Trouble.OVERLOADED: (FALL_BACK,),
    Trouble.RATE_LIMIT: (FALL_BACK,),
    Trouble.SERVER: (FALL_BACK,),
    Trouble.NETWORK: (FALL_BACK,),
    Trouble.EMPTY: (Rung(Transition.EMPTY_ANSWER_RETRY, 2, ask_for_more),),
    Trouble.THINKING_ONLY: (Rung(Transition.THINKING_ONLY_RETRY, 2, ask_for_more),),
    Trouble.MALFORMED_CALL: (Rung(Transition.MALFORMED_TOOL_USE_RETRY, 3, ask_for_a_proper_call),),
    Trouble.REFUSAL: (Rung(Transition.REFUSAL_RETRY, 1, ask_the_same_again),),
    Trouble.PAUSED: (Rung(Transition.PAUSE_TURN_CONTINUE, 10, let_it_go_on),),  # a server's own loop is as long
    # The run ends after five failed attempts (stream-json 13), so four retries are allowed.
    Trouble.STRUCTURED_OUTPUT: (Rung(Transition.STRUCTURED_OUTPUT_RETRY, 4, ask_for_output, scope=RungScope.RUN),),
    Trouble.AUTH: (),
    Trouble.INVALID_REQUEST: (),
    Trouble.FUNDS: (),
}

FOR_THE_RUN = {
    (trouble, rung.name) for trouble, rungs in LADDER.items() for rung in rungs if rung.scope is RungScope.RUN
}


def longest_wait(config: Config) -> int | None:
    """Law 1 in milliseconds: the longest that a run can wait between attempts. None: only their number is limited."""
    return None if config.max_wait is None else most_model_calls(config) * config.max_wait


def most_model_calls(config: Config) -> int:
    """Each call but the first follows from a turn, a budget continuation, a stop hook's objection or a rung.

    Turns, continuations and objections are limited per run. Rungs are limited per run, too, or between two pieces of
    progress, which are turns and continuations. The chain of fallbacks is walked once, and each step in it makes the
    rungs available again that count per model.
    """
    continuations = most_continuations(config.token_budget) if config.token_budget else 0
    pieces = config.max_turns + continuations
    rungs = [rung for row in LADDER.values() for rung in row if rung is not FALL_BACK]
    calls = {scope: sum(rung.most(config) * rung.calls for rung in rungs if rung.scope is scope) for scope in RungScope}
    per_piece = 1 + calls[RungScope.PROGRESS] + calls[RungScope.MODEL]
    per_fallback = 1 + calls[RungScope.MODEL]
    return pieces * per_piece + calls[RungScope.RUN] + len(config.fallbacks) * per_fallback + config.max_stop_blocks
