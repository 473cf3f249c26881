"""The loop: what happened goes in, what to do next comes out. No I/O, no clock, no randomness.

  Submitted > PrepareContext > ContextReady > CallModel > Replied > RunTools > ToolsDone > (round again)
                    |  too big: Compact            |  failed: the ladder  |  no calls: RunStopHooks > Finish

Everything that is policy is decided in this package; nothing in this package touches the world. Handlers stand in the
order of a turn.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from mainspring.core.config import Config, Source, StopHooks
from mainspring.core.effects import ANSWERS, Compact, How, Priority, RunStopHooks, RunTools
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
from mainspring.core.ladder import after_progress, climb
from mainspring.core.limits import ADVICE, budget_goes_on, continued, nudge, watch
from mainspring.core.messages import Assistant, Origin, Stop, Thinking, ToolCall, ToolResult, user
from mainspring.core.moves import (
    REFILL_TURNS,
    call_model,
    finish,
    give_up,
    prepare,
)
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
from mainspring.core.state import Compaction, State, Step, accept, account, say
from mainspring.core.updates import Boundary, MaxTurnsReached, Update
from mainspring.core.view import prune

# Percent of the view: a compaction that frees less has failed, whatever it says. Media may weigh little and still be
# what the model choked on.
LEAST_FREED: dict[How, int] = {How.COLLAPSE: 1, How.STRIP_MEDIA: 0, How.SUMMARY: 10, How.TRIM: 10}
STRUCTURED_OUTPUT = "StructuredOutput"  # the tool whose valid call ends a run that must give structured output
SLEEP = "Sleep"


def step(state: State, event: Event, config: Config) -> Step:
    if not isinstance(event, ANSWERS[type(state.waiting_for)]):
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
    """Only the conversation outlives a run: counters, rungs and the model start afresh."""
    fresh = State(state.history, state.edits, model=config.model, started=event.stamp.at, now=event.stamp)
    fresh, closed = answer(fresh, open_calls(fresh.history), (), NeverRan.LOST)
    return prepare(replace(fresh, history=fresh.history.append(*event.messages))).after(*closed)


# --- the context is ready, or was compacted ---------------------------------------------------------


def on_context(state: State, ready: ContextReady, config: Config) -> Step:
    state = replace(
        state,
        history=state.history.append(*ready.injected),
        edits=(*state.edits, *ready.edits),
        tokens=ready.tokens,
        funds=ready.funds,
        staged=ready.staged,
        media=ready.media,
        model=ready.model or state.model,
    )
    seen = tuple([Boundary(part.layer, freed=part.freed) for part in ready.shrunk])
    return before_call(state, config).after(*seen)


def before_call(state: State, config: Config) -> Step:
    if config.max_tokens is not None and state.totals.usage.total >= config.max_tokens:
        return finish(state, Ending(Terminal.COMPLETED, Cause.TOKEN_BUDGET))
    if config.source == Source.COMPACT:
        return call_model(state, config)  # it must run above the limits that it is there to cure
    if config.auto_compact and state.tokens >= config.compact_at(state.model):
        return climb(state, Trouble.NEAR_LIMIT, config) or call_model(state, config)
    if not config.auto_compact and state.tokens >= config.blocked_at(state.model):
        return finish(state, Ending(Terminal.BLOCKING_LIMIT, Cause.WINDOW), f"{state.tokens:,} tokens in context")
    return call_model(state, config)


def on_compacted(state: State, event: Compacted, config: Config) -> Step:
    asked = state.waiting_for
    assert isinstance(asked, Compact)
    totals = state.totals
    totals = replace(totals, usage=totals.usage + event.usage, cost=totals.cost + event.cost)
    state = replace(state, totals=totals, funds=state.funds if event.funds is None else event.funds)
    if not brought_room(asked.how, event):
        failures = state.compaction.failures + (asked.how is How.SUMMARY)
        return climb_on(replace(state, compaction=replace(state.compaction, failures=failures)), asked.trouble, config)
    state = replace(state, edits=prune(state.history, (*state.edits, *event.edits)))
    if asked.how in (How.SUMMARY, How.TRIM):
        state = replace(
            state, compaction=compacted(state.compaction, state.turn), task_spent=state.task_spent + event.before
        )
    return prepare(state).after(Boundary(asked.how, event.before, event.after, event.before - event.after))


def brought_room(how: How, event: Compacted) -> bool:
    return not event.failed and 100 * (event.before - event.after) >= LEAST_FREED[how] * event.before


def compacted(past: Compaction, turn: int) -> Compaction:
    """A second compaction within a turn is part of the first; one that comes soon after lengthens the streak."""
    soon = turn - past.last_turn < REFILL_TURNS
    streak = past.streak + (turn != past.last_turn) if soon else 1
    return Compaction(streak=streak, last_turn=turn)


def climb_on(state: State, trouble: Trouble, config: Config) -> Step:
    """A rung failed to help: the next one, or the failure comes out."""
    if decision := climb(state, trouble, config):
        return decision
    if trouble is Trouble.NEAR_LIMIT:
        return call_model(state, config)  # it may fit all the same
    assert state.withheld is not None
    return give_up(state, state.withheld)


# --- the model replied, or failed to ----------------------------------------------------------------

# What a reply's stop reason says is wrong with it, if it has no call to run.
STOPS: dict[Stop, Trouble] = {
    Stop.REFUSAL: Trouble.REFUSAL,
    Stop.MAX_TOKENS: Trouble.MAX_OUTPUT,
    Stop.CONTEXT_WINDOW: Trouble.CONTEXT_WINDOW,
    Stop.PAUSE_TURN: Trouble.PAUSED,
}


def on_reply(state: State, event: Replied, config: Config) -> Step:
    reply = event.reply
    state = account(state, reply.usage, event.funds)
    state = replace(state, tokens=reply.usage.total or state.tokens)
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
    return Trouble.THINKING_ONLY if any(isinstance(block, Thinking) for block in reply.blocks) else Trouble.EMPTY


def run_tools(state: State, reply: Assistant) -> Step:
    """A reply with a call to run is progress, however it stopped, unless it is a refusal or the money is gone."""
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
        return run_tools(state, kept)  # finished calls are good, and may have run already
    cut = kept is not None and failure.kind in PASSING
    return recover(replace(state, pending=kept), failure, Trouble.STREAM_CUT if cut else failure.kind, config)


def recover(state: State, failure: Failure, trouble: Trouble, config: Config) -> Step:
    state = replace(state, withheld=failure)
    return climb(state, trouble, config) or give_up(state, failure)


# --- the tools are done -----------------------------------------------------------------------------


def on_tools(state: State, done: ToolsDone, config: Config) -> Step:
    reply = last_reply(state)
    ends = state.ending is not None or done.stopped is not None
    if not ends and len(done.results) < len(reply.runnable):
        raise ProtocolError(f"{len(done.results)} results for {len(reply.runnable)} calls that were to run")
    state, said = answer(state, reply.calls, done.results, NeverRan.STOPPED)
    return after_tools(state, reply, done, config).after(*said)


def last_reply(state: State) -> Assistant:
    reply = state.history[-1]
    assert isinstance(reply, Assistant)
    return reply


def after_tools(state: State, reply: Assistant, done: ToolsDone, config: Config) -> Step:
    if state.ending is not None:
        return finish(state, state.ending)
    if done.stopped is not None:
        return finish(state, Ending(Terminal.HOOK_STOPPED, Cause.HOOK), done.stopped)
    results = {result.call_id: result for result in done.results}
    ran = tuple([call for call in reply.runnable if call.id in results])
    if config.structured_output and (decision := take_output(state, ran, results, config)):
        return decision
    progress = watch(state.repeat, ran, results, config.patient_tools)
    state = after_progress(replace(state, repeat=progress.repeat, stop_hook_active=False))
    if config.end_after in progress.times:
        detail = f"the same call with the same result {config.end_after} times in a row"
        return finish(state, Ending(Terminal.COMPLETED, Cause.NO_PROGRESS), detail)
    if state.turn >= config.max_turns:
        limit = MaxTurnsReached(config.max_turns, state.turn)
        return finish(state, Ending(Terminal.MAX_TURNS, Cause.LIMIT)).after(limit)
    return next_turn(state, ran, config.advise_after if config.advise_after in progress.times else None)


def next_turn(state: State, ran: tuple[ToolCall, ...], advise: int | None) -> Step:
    said: tuple[Update, ...] = ()
    if advise is not None:
        state, said = say(state, user(ADVICE.format(times=advise), Origin.ADVICE))
    slept = any(call.name == SLEEP for call in ran)
    take = Priority.LATER if slept else Priority.NEXT
    return prepare(replace(state, turn=state.turn + 1), Transition.NEXT_TURN, take).after(*said)


def take_output(state: State, ran: tuple[ToolCall, ...], results: dict[str, ToolResult], config: Config) -> Step | None:
    """A valid StructuredOutput call ends the run at once; an invalid one may be tried again, within its limit."""
    calls = [call for call in ran if call.name == STRUCTURED_OUTPUT]
    for call in calls:
        if not results[call.id].is_error:
            return finish(replace(state, output=call.input), Ending(Terminal.COMPLETED, Cause.END_TURN))
    return insist_on_output(state, config) if calls else None


def insist_on_output(state: State, config: Config) -> Step:
    return climb(state, Trouble.STRUCTURED_OUTPUT, config) or finish(state, GIVE_UP[Trouble.STRUCTURED_OUTPUT])


# --- the model has no more to say -------------------------------------------------------------------


def natural_end(state: State, config: Config) -> Step:
    if config.structured_output:
        return insist_on_output(state, config)
    if hooks_may_object(state, config):
        return Step(state, RunStopHooks(state.stop_hook_active))
    return conclude(state, config)


def hooks_may_object(state: State, config: Config) -> bool:
    if state.stop_blocks >= config.max_stop_blocks:
        return False
    return config.stop_hooks is StopHooks.CAPPED or not state.stop_hook_active


def on_hooks(state: State, event: HooksDone, config: Config) -> Step:
    verdict = event.verdict
    if verdict.prevent is not None:
        return finish(state, Ending(Terminal.STOP_HOOK_PREVENTED, Cause.HOOK), verdict.prevent)
    if not verdict.blocks:
        return conclude(state, config)
    state, said = say(state, *[user(words, Origin.HOOK) for words in verdict.blocks])
    # `climbed` is kept: clearing it here loops for ever (G-14).
    state = replace(state, stop_hook_active=True, stop_blocks=state.stop_blocks + 1)
    return prepare(state, Transition.STOP_HOOK_BLOCKING).after(*said)


def conclude(state: State, config: Config) -> Step:
    if config.token_budget is None or config.is_subagent:  # H-03, H-07
        return finish(state, Ending(Terminal.COMPLETED, Cause.END_TURN))
    written = state.totals.usage.output
    if not budget_goes_on(state.budget, written, config.token_budget):
        return finish(state, Ending(Terminal.COMPLETED, Cause.TOKEN_BUDGET))
    state = after_progress(replace(state, budget=continued(state.budget, written), stop_hook_active=False))
    state, said = say(state, user(nudge(written, config.token_budget), Origin.BUDGET))
    return prepare(state, Transition.TOKEN_BUDGET_CONTINUATION).after(*said)


# --- the run was interrupted ------------------------------------------------------------------------

# What the conversation says about it. A message typed by the user speaks for itself (J-05).
INTERRUPTED: dict[AbortReason, tuple[str, str]] = {
    AbortReason.HARD: ("[Request interrupted by user]", "[Request interrupted by user for tool use]"),
    AbortReason.SUBMIT: ("", ""),
    AbortReason.TIMEOUT: ("[Request interrupted: out of time]", "[Tool use interrupted: out of time]"),
    AbortReason.PARENT: ("[Request interrupted by the parent agent]", "[Tool use interrupted by the parent agent]"),
}


def on_abort(state: State, event: Aborted) -> Step:
    """What was shown stays, what ran keeps its result, what never ran is answered (J-02, settled 14)."""
    state = account(state, event.usage, None)
    in_tools = isinstance(state.waiting_for, RunTools)
    calls: tuple[ToolCall, ...] = ()
    if in_tools:
        calls = last_reply(state).calls
    elif event.partial is not None and event.partial.blocks:
        state = accept(state, event.partial)
        calls = event.partial.calls
    state, closed = answer(state, calls, event.results, NeverRan.INTERRUPTED)
    words = INTERRUPTED[event.reason][in_tools]
    state, said = say(state, user(words, Origin.INTERRUPTION)) if words else (state, ())
    terminal = Terminal.ABORTED_TOOLS if in_tools else Terminal.ABORTED_STREAMING
    return finish(state, Ending(terminal, Cause(event.reason))).after(*closed, *said)
