"""Events: what happened. There are about four per turn; deltas, retries and heartbeats are no events.

The driver stamps each event. It assembles `Replied` and `ToolsDone` from records that it already journaled and showed;
here they only lead to decisions (settled 2).
"""

from __future__ import annotations

from mainspring.core.messages import Assistant, ToolResult, User
from mainspring.core.models import Model
from mainspring.core.money import Usage
from mainspring.core.reasons import AbortReason, Failure
from mainspring.core.value import Stamp, Value
from mainspring.core.view import Edit


class Happened(Value, kw_only=True):
    stamp: Stamp = Stamp()


class Submitted(Happened):
    """A run begins, in whatever state the previous run ended."""

    messages: tuple[User, ...]
    partial: Assistant | None = None  # what a run that broke off had shown of a reply,
    results: tuple[ToolResult, ...] = ()  # and the results of its calls
    compact: str | None = None  # only compact, with these instructions (D-36)


class Shrunk(Value):
    """What one context layer removed from the view."""

    layer: str
    freed: int  # tokens


class ContextReady(Happened):
    tokens: int  # the size of the next prompt, slightly overestimated
    edits: tuple[Edit, ...] = ()
    injected: tuple[User, ...] = ()  # attachments and queued prompts, already shown
    shrunk: tuple[Shrunk, ...] = ()
    funds: int | None = None  # what the ledger can still reserve; None: no limit
    staged: int = 0  # prepared collapses that could be drained
    media: int = 0  # images and documents in the view
    usage: Usage = Usage()  # of side calls since the last turn,
    cost: int = 0  # and their cost
    agents: int = 0  # spending of subagents that no event has reported yet
    model: Model | None = None  # the model that the user chose, if it differs from the configuration


class Replied(Happened):
    reply: Assistant
    funds: int | None = None  # None, here and below: as last reported


class CallFailed(Happened):
    failure: Failure
    kept: Assistant | None = None  # the finished blocks; None if no part of the reply was handed on
    usage: Usage = Usage()  # what the failed attempt cost, as far as is known
    funds: int | None = None
    attempt: int = 1  # the number of the failed attempt; the provider counts on from `Request.retried`
    waited: int = 0  # milliseconds before the attempts of this call


class Compacted(Happened):
    edits: tuple[Edit, ...] = ()
    before: int = 0  # tokens in view
    after: int = 0
    usage: Usage = Usage()
    cost: int = 0  # another model may write the summary, so the event carries the cost
    funds: int | None = None
    failed: str = ""  # why the compaction failed
    trigger: str = ""  # of a summary: "auto", or "manual" if the user asked for it; empty: another layer


class ToolsDone(Happened):
    results: tuple[ToolResult, ...]  # of every started call
    stopped: str | None = None  # why a hook or a denial ended the run
    cost: int = 0  # spending of subagents that the calls ran; their own sessions report their usage


class StopDecision(Value, tag="Verdict"):
    """What the stop hooks decided about a finished answer."""

    blocks: tuple[str, ...] = ()  # objections, for the model
    prevent: str | None = None  # why the run must end
    usage: Usage = Usage()  # of side calls that ended since the last request,
    cost: int = 0  # in nano-dollars


class HooksDone(Happened):
    verdict: StopDecision = StopDecision()


class Aborted(Happened):
    reason: AbortReason
    partial: Assistant | None = None  # what was shown of a reply, finished or not
    results: tuple[ToolResult, ...] = ()  # of every started call, finished or not
    usage: Usage = Usage()  # an estimate (settled 14)
    cost: int | None = None  # replaces the cost of `usage`: for a summary that was being written
    agents: int = 0  # spending of subagents that the calls ran


Event = Submitted | ContextReady | Replied | CallFailed | Compacted | ToolsDone | HooksDone | Aborted


# Former names, for one release.
Verdict = StopDecision
