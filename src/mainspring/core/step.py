"""The loop: events go in, the next effect comes out. No I/O, no clock, no randomness.

  Submitted > PrepareContext > ContextReady > CallModel > Replied > RunTools > ToolsDone > (round again)
                    |  too big: Compact            |  failed: the ladder  |  no calls: RunStopHooks > Finish

This package decides all policy and performs no I/O. The handlers are in the order of a turn.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from mainspring.core.config import Config, RunSource, StopHooks
from mainspring.core.effects import ANSWERS, Compact, CompactionKind, Priority, RunStopHooks, RunTools
from mainspring.core.errors import ProtocolError
from mainspring.core.events import (
    Aborted,
    CallFailed,
    Compacted,
    ContextReady,
    Event,
    HooksDone,
    Replied,
    Submitted,
    ToolsDone,
)
from mainspring.core.history import History
from mainspring.core.ladder import LADDER, after_progress, climb, use
from mainspring.core.limits import ADVICE, budget_goes_on, continue_budget, nudge, watch
from mainspring.core.messages import Assistant, Origin, RedactedThinking, Stop, Thinking, ToolCall, ToolResult, user
from mainspring.core.money import Usage
from mainspring.core.moves import call_model, close, compact, finish, finish_without, give_up, prepare
from mainspring.core.pairing import NeverRan, answer, open_calls
from mainspring.core.reasons import (
    GIVE_UP,
    PASSING,
    AbortReason,
    Cause,
    Ending,
    Failure,
    Terminal,
    Transition,
    Trouble,
)
from mainspring.core.state import (
    REWRITES,
    State,
    Step,
    Totals,
    accept,
    account,
    after_failure,
    after_success,
    clock,
    for_next_run,
    say,
    took_effect,
)
from mainspring.core.updates import Boundary, Decided, MaxTurnsReached
from mainspring.core.view import Edit, Fold, prune

(INSIST,) = LADDER[Trouble.STRUCTURED_OUTPUT]
STRUCTURED_OUTPUT = "StructuredOutput"  # a valid call of this tool ends a run that must return structured output
SLEEP = "Sleep"


def step(state: State, event: Event, config: Config) -> Step:
    if not isinstance(event, (Submitted, *ANSWERS[type(state.waiting_for)])):
        raise ProtocolError(f"{type(event).__name__} while waiting for an answer to {state.waiting_for!r}")
    state = replace(state, now=event.stamp)
    match event:
        case Submitted():
            next_ = on_submitted(state, event, config)
        case ContextReady():
            next_ = on_context(state, event, config)
        case Replied():
            next_ = on_reply(state, event, config)
        case CallFailed():
            next_ = on_failure(state, event, config)
        case Compacted():
            next_ = on_compacted(state, event, config)
        case ToolsDone():
            next_ = on_tools(state, event, config)
        case HooksDone():
            next_ = on_hooks(state, event, config)
        case Aborted():
            next_ = on_abort(state, event)
        case _:
            assert_never(event)
    return Step(replace(next_.state, waiting_for=next_.effect), next_.effect, next_.updates)


# --- a run begins -----------------------------------------------------------------------------------


def on_submitted(state: State, event: Submitted, config: Config) -> Step:
    """Only the conversation and the compaction breaker outlive a run: counters, rungs and the model start afresh.

    If the previous run broke off, close its open calls first, with the results that are known.
    """
    history, partial = state.history, event.partial
    if partial is not None and partial.blocks and not holds(history, partial.id):
        history = history.append(replace(partial, stop=Stop.UNFINISHED))
    fresh = State(history, state.edits, model=config.model, started=event.stamp.at, now=event.stamp)
    fresh = replace(fresh, compaction=for_next_run(state.compaction))
    calls = open_calls(history)
    known = [result for result in event.results if any(call.id == result.call_id for call in calls)]
    fresh, closed = answer(fresh, calls, tuple(known), NeverRan.LOST)
    history = fresh.history.append(*event.messages)
    fresh = replace(fresh, history=history, totals=Totals(), compact=event.compact)
    return prepare(fresh).after(*closed)


def holds(history: History, reply_id: str) -> bool:
    """Whether the last reply is this one: a crash may come after its event was journaled."""
    last = next((message for message in history.newest_first() if isinstance(message, Assistant)), None)
    return last is not None and last.id == reply_id


# --- the context is ready, or was compacted ---------------------------------------------------------


def on_context(state: State, ready: ContextReady, config: Config) -> Step:
    state = replace(
        state,
        history=state.history.append(*ready.injected),
        edits=with_edits(state, ready.edits),
        tokens=ready.tokens,
        funds=ready.funds,
        staged=ready.staged,
        media=ready.media,
    )
    state = account(state, ready.usage, ready.funds, ready.cost + ready.agents)
    if ready.model is not None and ready.model != state.chosen:
        state = replace(state, model=ready.model, chosen=ready.model, max_output=None)
    seen = tuple([Boundary(part.layer, freed=part.freed) for part in ready.shrunk])
    return before_call(state, config).after(*seen)


def with_edits(state: State, new: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """A fold replaces earlier edits. Prune them only then, because pruning walks the whole history."""
    if not new:  # as in most turns, and a copy of thousands takes longer than the rest of the step
        return state.edits
    edits = (*state.edits, *new)
    return prune(state.history, edits) if any(isinstance(edit, Fold) for edit in new) else edits


def before_call(state: State, config: Config) -> Step:
    if state.compact is not None:
        return compact(state, CompactionKind.SUMMARY, Trouble.NEAR_LIMIT) or close(
            state, GIVE_UP[Trouble.FUNDS], config
        )
    if config.source == RunSource.COMPACT:
        return call_model(state, config)  # compaction must run above the limits that it is meant to cure
    if config.auto_compact and state.tokens >= config.compact_at(state.model):
        return climb(state, Trouble.NEAR_LIMIT, config) or call_model(state, config)
    if not config.auto_compact and state.tokens >= config.blocked_at(state.model):
        ending = Ending(Terminal.BLOCKING_LIMIT, Cause.WINDOW)
        return finish_without(state, ending, f"{state.tokens:,} tokens in context")
    return call_model(state, config)


def on_compacted(state: State, event: Compacted, config: Config) -> Step:
    asked = state.waiting_for
    assert isinstance(asked, Compact)
    state = account(state, event.usage, event.funds, event.cost)
    past = state.compaction
    if not took_effect(asked.how, event, asked=asked.asked is not None):
        # The staged collapse did not help, and would not help the next time.
        state = replace(state, compaction=after_failure(past, asked, state.model.name), staged=0)
        if asked.asked is not None:
            return finish(state, Ending(Terminal.MODEL_ERROR, Cause.NOT_COMPACTED), event.failed)
        return climb_on(state, asked.trouble, config)
    state = replace(
        state,
        edits=prune(state.history, (*state.edits, *event.edits)),
        compaction=after_success(past, asked.how, clock(state)),
        task_spent=state.task_spent + event.before * (asked.how in REWRITES),
    )
    boundary = Boundary(asked.how, event.before, event.after, event.before - event.after)
    if asked.asked is not None:
        return finish(state, Ending(Terminal.COMPLETED, Cause.COMPACTED)).after(boundary)
    return prepare(state).after(boundary)


def climb_on(state: State, trouble: Trouble, config: Config) -> Step:
    """A rung did not help: try the next one, or show the failure."""
    if decision := climb(state, trouble, config):
        return decision
    if trouble is Trouble.NEAR_LIMIT:
        return call_model(state, config)  # it may fit anyway
    assert state.withheld is not None
    return give_up(state, state.withheld, config)


# --- the model replied, or failed to ----------------------------------------------------------------

# The trouble that a reply's stop reason indicates, if the reply has no call to run.
STOPS: dict[Stop, Trouble] = {
    Stop.REFUSAL: Trouble.REFUSAL,
    Stop.MAX_TOKENS: Trouble.MAX_OUTPUT,
    Stop.CONTEXT_WINDOW: Trouble.CONTEXT_WINDOW,
    Stop.PAUSE_TURN: Trouble.PAUSED,
}


def on_reply(state: State, event: Replied, config: Config) -> Step:
    reply = event.reply
    state = account(state, reply.usage, event.funds)
    state = replace(state, tokens=reply.usage.total or state.tokens, stop=reply.stop)
    if reply.runnable:
        return run_tools(state, reply)
    if trouble := diagnose(reply):
        return recover(replace(state, pending=reply), Failure(trouble), trouble, config)
    return natural_end(accept(replace(state, withheld=None), reply), config)


def diagnose(reply: Assistant) -> Trouble | None:
    if reply.stop in STOPS:
        return STOPS[reply.stop]
    if reply.calls:
        return Trouble.MALFORMED_CALL
    if reply.text.strip():
        return None
    thought = any(isinstance(block, Thinking | RedactedThinking) for block in reply.blocks)
    return Trouble.THINKING_ONLY if thought else Trouble.EMPTY


def run_tools(state: State, reply: Assistant) -> Step:
    """A reply with a call to run is progress, whatever its stop reason, unless it is a refusal or the money is gone."""
    if len({call.id for call in reply.calls}) != len(reply.calls):
        raise ProtocolError("the reply uses a call id twice; ids are made unique where a reply comes in")
    ending = GIVE_UP[Trouble.REFUSAL] if reply.stop is Stop.REFUSAL else None
    if state.funds is not None and state.funds <= 0:
        ending = GIVE_UP[Trouble.FUNDS]
    state = accept(replace(state, withheld=None, ending=ending), reply)
    return Step(state, RunTools(reply.runnable, start=ending is None))


def on_failure(state: State, event: CallFailed, config: Config) -> Step:
    """Withheld by construction: a failure is an event, and becomes an update only when no rung is left."""
    state = account(state, event.usage, event.funds)
    failure, kept = event.failure, event.kept
    if failure.kind not in GIVE_UP:
        raise ProtocolError(f"'{failure.kind}' is for the core to find, not for a provider to report")
    if kept is not None and kept.runnable:
        return run_tools(state, kept)  # finished calls are valid, and may have run already
    state = replace(state, pending=kept)
    if kept is None or failure.kind not in PASSING:
        return recover(state, failure, failure.kind, config)
    attempts = max(state.attempts + 1, event.attempt)
    state = replace(state, attempts=attempts, waited=state.waited + event.waited)
    return recover(state, failure, Trouble.STREAM_CUT, config)


def recover(state: State, failure: Failure, trouble: Trouble, config: Config) -> Step:
    state = replace(state, withheld=failure)
    return climb(state, trouble, config) or give_up(state, failure, config)


# --- the tools are done -----------------------------------------------------------------------------


def on_tools(state: State, done: ToolsDone, config: Config) -> Step:
    state = account(state, Usage(), spent=done.cost)
    reply = last_reply(state)
    ran, ends = reply.runnable, state.ending is not None or done.stopped is not None
    if len(done.results) < len(ran) and not ends:
        raise ProtocolError(f"{len(done.results)} results for {len(ran)} calls that were to run")
    state, said = answer(state, reply.calls, done.results, NeverRan.STOPPED)
    if state.ending is not None:
        return close(state, state.ending, config).after(*said)
    if done.stopped is not None:
        return finish(state, Ending(Terminal.HOOK_STOPPED, Cause.HOOK), done.stopped).after(*said)
    return after_tools(state, ran, {result.call_id: result for result in done.results}, config).after(*said)


def last_reply(state: State) -> Assistant:
    reply = state.history[-1]
    assert isinstance(reply, Assistant)
    return reply


def after_tools(state: State, ran: tuple[ToolCall, ...], results: dict[str, ToolResult], config: Config) -> Step:
    if config.structured_output:
        judged = judge_output(state, ran, results, config)
        if isinstance(judged, Step):
            return judged
        state = judged
    progress = watch(state.repeat, ran, results, config.patient_tools)
    state = after_progress(replace(state, repeat=progress.repeat, stop_hook_active=False))
    if config.end_after in progress.times:
        detail = f"the same call with the same result {config.end_after} times in a row"
        return finish(state, Ending(Terminal.COMPLETED, Cause.NO_PROGRESS), detail)
    if state.turn >= config.max_turns:
        limit = MaxTurnsReached(config.max_turns, state.turn)
        return finish(state, Ending(Terminal.MAX_TURNS, Cause.LIMIT)).after(limit)
    return next_turn(state, ran, config.advise_after if config.advise_after in progress.times else None)


def judge_output(
    state: State, ran: tuple[ToolCall, ...], results: dict[str, ToolResult], config: Config
) -> Step | State:
    """A valid StructuredOutput call ends the run at once (stream-json 13); an invalid one is a failed attempt."""
    given = [call for call in ran if call.name == STRUCTURED_OUTPUT]
    for call in given:
        if not results[call.id].is_error:
            return finish(replace(state, output=call.input), Ending(Terminal.COMPLETED, Cause.END_TURN))
    if not given:
        return state
    return use(state, Trouble.STRUCTURED_OUTPUT, INSIST, config) or finish(state, GIVE_UP[Trouble.STRUCTURED_OUTPUT])


def next_turn(state: State, ran: tuple[ToolCall, ...], advise: int | None) -> Step:
    said: tuple[Decided, ...] = ()
    if advise is not None:
        state, said = say(state, user(ADVICE.format(times=advise), Origin.ADVICE))
    slept = any(call.name == SLEEP for call in ran)
    take = Priority.LATER if slept else Priority.NEXT
    return prepare(replace(state, turn=state.turn + 1), Transition.NEXT_TURN, take).after(*said)


# --- the model has no more to say -------------------------------------------------------------------


def natural_end(state: State, config: Config) -> Step:
    if config.structured_output:
        return climb(state, Trouble.STRUCTURED_OUTPUT, config) or finish(state, GIVE_UP[Trouble.STRUCTURED_OUTPUT])
    if hooks_may_object(state, config):
        return Step(state, RunStopHooks(state.stop_hook_active))
    return conclude(state, config)


def hooks_may_object(state: State, config: Config) -> bool:
    if state.stop_blocks >= config.max_stop_blocks:
        return False
    return config.stop_hooks is StopHooks.CAPPED or not state.stop_hook_active


def on_hooks(state: State, event: HooksDone, config: Config) -> Step:
    verdict = event.verdict
    state = account(state, verdict.usage, spent=verdict.cost)
    if verdict.prevent is not None:
        return finish(state, Ending(Terminal.STOP_HOOK_PREVENTED, Cause.HOOK), verdict.prevent)
    if not verdict.blocks:
        return conclude(state, config)
    state, said = say(state, *[user(words, Origin.HOOK) for words in verdict.blocks])
    # `climbed` is kept: clearing it here loops without end (G-14).
    state = replace(state, stop_hook_active=True, stop_blocks=state.stop_blocks + 1)
    return prepare(state, Transition.STOP_HOOK_BLOCKING).after(*said)


def conclude(state: State, config: Config) -> Step:
    if config.token_budget is None or config.is_subagent:  # H-03, H-07
        return finish(state, Ending(Terminal.COMPLETED, Cause.END_TURN))
    written = state.totals.written
    if not budget_goes_on(state.budget, written, config.token_budget):
        return finish(state, Ending(Terminal.COMPLETED, Cause.TOKEN_BUDGET))
    state = after_progress(replace(state, budget=continue_budget(state.budget, written), stop_hook_active=False))
    state, said = say(state, user(nudge(written, config.token_budget), Origin.BUDGET))
    return prepare(state, Transition.TOKEN_BUDGET_CONTINUATION).after(*said)


# --- the run was interrupted ------------------------------------------------------------------------

# The notices in the conversation. A message typed by the user needs none (J-05).
INTERRUPTED: dict[AbortReason, tuple[str, str]] = {
    AbortReason.HARD: ("[Request interrupted by user]", "[Request interrupted by user for tool use]"),
    AbortReason.SUBMIT: ("", ""),
    AbortReason.TIMEOUT: ("[Request interrupted: out of time]", "[Tool use interrupted: out of time]"),
    AbortReason.PARENT: ("[Request interrupted by the parent agent]", "[Tool use interrupted by the parent agent]"),
}


def on_abort(state: State, event: Aborted) -> Step:
    """Keep the shown part and the results of calls that ran; answer the calls that never ran (J-02, settled 14)."""
    state = account(state, event.usage, spent=event.cost)
    if event.usage.total or event.cost:
        state = replace(state, totals=replace(state.totals, estimated=True))
    state = account(state, Usage(), spent=event.agents)
    in_tools = isinstance(state.waiting_for, RunTools)
    calls: tuple[ToolCall, ...] = ()
    if in_tools:
        calls = last_reply(state).calls
    elif event.partial is not None and event.partial.blocks:
        state = accept(state, replace(event.partial, stop=Stop.UNFINISHED))
        calls = event.partial.calls
    state, closed = answer(state, calls, event.results, NeverRan.INTERRUPTED)
    words = INTERRUPTED[event.reason][in_tools]
    state, said = say(state, user(words, Origin.INTERRUPTION)) if words else (state, ())
    terminal = Terminal.ABORTED_TOOLS if in_tools else Terminal.ABORTED_STREAMING
    return finish(state, Ending(terminal, Cause(event.reason))).after(*closed, *said)
