"""State: everything the loop remembers between steps, as one value. Step: what `step` returns.

The module also tracks compaction: whether it freed room, whether it keeps failing, and whether the window keeps filling
up again.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from mainspring.core.effects import Compact, CompactionKind, Effect
from mainspring.core.errors import ProtocolError
from mainspring.core.events import Compacted
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Stop, ToolResult, User
from mainspring.core.models import DEFAULT_MODEL, Model
from mainspring.core.money import Usage, cost
from mainspring.core.reasons import Ending, Failure, Transition, Trouble
from mainspring.core.updates import Appended, Decided
from mainspring.core.value import Stamp, Value
from mainspring.core.view import Edit

MAX_FAILURES = 3  # D-30: sessions stuck above the limit once burned 250,000 calls a day
REFILL_STREAK = 3  # Z-13: this many compactions in quick succession,
REFILL_TURNS = 3  # each less than this many turns after the one before, and the next one ends the run

# Percent of the view that a compaction must free, or it counts as failed. A summary is worth its price from a tenth on;
# a prepared collapse is free. Media may be small and still be what the model rejected.
LEAST_FREED: dict[CompactionKind, int] = {
    CompactionKind.COLLAPSE: 1,
    CompactionKind.STRIP_MEDIA: 0,
    CompactionKind.SUMMARY: 10,
    CompactionKind.TRIM: 10,
}

REWRITES = frozenset(
    {CompactionKind.SUMMARY, CompactionKind.TRIM}
)  # those that remove most of the conversation from the view


class Compaction(Value):
    """The record of compactions. `failures` and `model` belong to the session; the rest belongs to the run, and its
    times count turns and budget continuations."""

    failures: int = 0  # automatic summaries that failed in a row,
    model: str = ""  # with this model: another one may succeed
    streak: int = 0  # rewrites in quick succession
    last: int = 0  # the time of the last rewrite


MANUAL = "manual"  # `Compacted.trigger` of a summary that the user asked for


def took_effect(how: CompactionKind, event: Compacted, *, asked: bool) -> bool:
    """A summary that the user asked for always counts: they may want a clean start, not room."""
    if event.failed or asked:
        return not event.failed
    freed = event.before - event.after
    return 100 * freed >= LEAST_FREED[how] * event.before and (freed > 0 or how is CompactionKind.STRIP_MEDIA)


def for_next_run(past: Compaction) -> Compaction:
    """What outlives a run. A breaker that each prompt reset would be useless."""
    return Compaction(past.failures, past.model)


def after_failure(past: Compaction, asked: Compact, model: str) -> Compaction:
    """The user sees the failure of a summary they asked for, so it does not count against automatic summaries."""
    if asked.how is not CompactionKind.SUMMARY or asked.asked is not None:
        return past
    return replace(past, failures=failures_with(past, model) + 1, model=model)


def failures_with(past: Compaction, model: str) -> int:
    return past.failures if past.model == model else 0


def after_success(past: Compaction, how: CompactionKind, now: int) -> Compaction:
    """A second rewrite at the same time is part of the first. Only a successful summary resets the failures."""
    if how not in REWRITES:
        return past
    soon = now - past.last < REFILL_TURNS
    streak = past.streak + (now != past.last) if soon else 1
    failures = 0 if how is CompactionKind.SUMMARY else past.failures
    return Compaction(failures, past.model, streak, now)


def breaker_is_open(past: Compaction, model: str) -> bool:
    """No more automatic summaries in this session, until one that the user asks for succeeds, or the model changes."""
    return failures_with(past, model) >= MAX_FAILURES


def refills(past: Compaction, how: CompactionKind, now: int) -> bool:
    return how in REWRITES and past.streak >= REFILL_STREAK and now - past.last < REFILL_TURNS


class Budget(Value):
    """The requested token budget: how often the model was asked to continue, and how much it wrote then (H-05)."""

    continuations: int = 0
    at: int = 0  # output tokens at the last check
    delta: int = 0  # new output tokens at the last check


class Repeat(Value):
    """The last tool call and its result, as a fingerprint, and how many times in a row they occurred."""

    fingerprint: int = 0
    times: int = 0


class Totals(Value):
    """Sums over the run."""

    usage: Usage = Usage()
    cost: int = 0
    calls: int = 0  # model calls that the loop asked for, summaries included
    messages: int = 0  # user-role messages after the prompt
    replies: int = 0  # replies that became part of the conversation,
    written: int = 0  # and the output tokens of those
    estimated: bool = False


Climbed = tuple[Trouble, Transition]


class State(Value):
    # the conversation
    history: History
    edits: tuple[Edit, ...] = ()
    # this run
    model: Model = DEFAULT_MODEL
    chosen: Model | None = None  # by the user, as last reported: a fallback may have changed the model since
    stop: Stop | None = None  # why the last reply stopped, kept or not
    started: int = 0
    turn: int = 1
    totals: Totals = Totals()
    transition: Transition | None = None  # why we went round again; tests assert on it
    # the context, as last reported
    tokens: int = 0
    funds: int | None = None
    staged: int = 0
    media: int = 0
    # recovery
    climbed: tuple[Climbed, ...] = ()  # rungs used: since the last progress, or in the whole run
    withheld: Failure | None = None  # not shown while we recover
    pending: Assistant | None = None  # the complete or partial reply that the failure left
    attempts: int = 0  # failed attempts in a row, including replies that broke off, since the last progress or fallback
    waited: int = 0  # milliseconds before those attempts
    max_output: int | None = None  # raised after the output limit was hit, until the next turn
    compaction: Compaction = Compaction()
    compact: str | None = None  # the instructions, if the run only compacts
    # limits
    budget: Budget = Budget()
    task_spent: int = 0  # the part of the task budget that compaction removed from the view
    repeat: Repeat = Repeat()
    stop_hook_active: bool = False
    stop_blocks: int = 0
    output: dict[str, Any] | None = None
    ending: Ending | None = None  # decided; takes effect when the running tools are done
    # the machine
    now: Stamp = Stamp()
    waiting_for: Effect | None = None


class Step(NamedTuple):
    state: State
    effect: Effect
    updates: tuple[Decided, ...] = ()

    def after(self, *earlier: Decided) -> Step:
        """Return the same step, with earlier updates before its own."""
        return Step(self.state, self.effect, (*earlier, *self.updates)) if earlier else self


def remember(state: State, *messages: User | ToolResult) -> State:
    """Append messages that were journaled and shown when they arrived."""
    totals = replace(state.totals, messages=state.totals.messages + len(messages))
    return replace(state, history=state.history.append(*messages), totals=totals)


def accept(state: State, reply: Assistant) -> State:
    """Make a reply part of the conversation. It was shown while it streamed."""
    totals = state.totals
    totals = replace(totals, replies=totals.replies + 1, written=totals.written + reply.usage.output)
    return replace(state, history=state.history.append(reply), totals=totals, stop=reply.stop)


def say(state: State, *messages: User | ToolResult) -> tuple[State, tuple[Decided, ...]]:
    """Append messages that the core itself creates: stamps and shows them."""
    at = len(state.history)
    stamped = [replace(m, id=state.now.derive(at + n), at=state.now.at) for n, m in enumerate(messages)]
    return remember(state, *stamped), tuple([Appended(message) for message in stamped])


NOTHING = Usage()


def account(state: State, usage: Usage, funds: int | None = None, spent: int | None = None) -> State:
    """Book what a call consumed: at the price of the current model, unless the caller passes the cost as `spent`."""
    if not spent and usage == NOTHING:  # most events that are no reply
        return state if funds is None else replace(state, funds=funds)
    totals = state.totals
    now_spent = totals.cost + (cost(usage, state.model.price) if spent is None else spent)
    guessed = totals.estimated or (spent is None and usage.total > 0 and state.model.price.estimated)
    totals = replace(totals, usage=totals.usage + usage, cost=now_spent, estimated=guessed)
    return replace(state, totals=totals, funds=state.funds if funds is None else funds)


def clock(state: State) -> int:
    """The time for compaction: turns and continuations of the run so far."""
    return state.turn + state.budget.continuations


# --- checkpoints ------------------------------------------------------------------------------------

CHECKPOINT_VERSION = 1


class Checkpoint(Value):
    """A state without its messages: small, whatever the length of the history (settled 6)."""

    version: int
    length: int  # messages in the history
    last_id: str  # the id of the last one
    state: State


def checkpoint(state: State) -> Checkpoint:
    length = len(state.history)
    last_id = state.history[-1].id if length else ""
    return Checkpoint(CHECKPOINT_VERSION, length, last_id, replace(state, history=History()))


def restore(saved: Checkpoint, history: History) -> State:
    """Combine a checkpoint with its messages. The history may begin later than the session, but must end where the
    state ended."""
    last_id = history[-1].id if len(history) else ""
    if last_id != saved.last_id:
        raise ProtocolError(f"the checkpoint was taken at message '{saved.last_id}', the history ends at '{last_id}'")
    return replace(saved.state, history=history)


class _Versioned(Value, tag="Checkpoint"):
    version: int


def _no_messages(_: object) -> list[object]:
    return []


def _no_history(_type: type, _data: object) -> History:
    return History()


_encoder = msgspec.json.Encoder(enc_hook=_no_messages)


@cache
def _decoder() -> msgspec.json.Decoder[Checkpoint]:
    """Created only when a session is resumed: it takes as long as the rest of the core."""
    return msgspec.json.Decoder(Checkpoint, dec_hook=_no_history)


def encode_checkpoint(saved: Checkpoint) -> bytes:
    return _encoder.encode(saved)


def decode_checkpoint(data: bytes) -> Checkpoint | None:
    """None for a version that this code does not know: the caller rebuilds the state from the records."""
    if msgspec.json.decode(data, type=_Versioned).version != CHECKPOINT_VERSION:
        return None
    return _decoder().decode(data)
