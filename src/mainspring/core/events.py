"""What happened. About four a turn; deltas, retries and heartbeats never come here.

The driver stamps each event. `Replied` and `ToolsDone` are assembled from records that were already journaled
and shown; here they only decide (settled 2).
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
    """A run begins, whatever became of the one before it."""

    messages: tuple[User, ...]
    partial: Assistant | None = None  # what a run that broke off had shown of a reply,
    results: tuple[ToolResult, ...] = ()  # and what its calls had come to
    compact: str | None = None  # nothing but a compaction is wanted, and this is what it should heed (D-36)


class Shrunk(Value):
    """What one context layer took out of the view."""

    layer: str
    freed: int  # tokens


class ContextReady(Happened):
    tokens: int  # the size of the next prompt, a little high
    edits: tuple[Edit, ...] = ()
    injected: tuple[User, ...] = ()  # attachments and queued commands, already shown
    shrunk: tuple[Shrunk, ...] = ()
    funds: int | None = None  # what the ledger can still reserve; None: no limit
    staged: int = 0  # prepared collapses that could be drained
    media: int = 0  # images and documents in view
    usage: Usage = Usage()  # of models that were asked beside the conversation since the last turn,
    cost: int = 0  # and what that came to
    agents: int = 0  # what agents have spent that nobody has told of
    model: Model | None = None  # the one the user chose, if not the configuration's


class Replied(Happened):
    reply: Assistant
    funds: int | None = None  # None, here and below: as last reported


class CallFailed(Happened):
    failure: Failure
    kept: Assistant | None = None  # the finished blocks; None if nothing of the reply was handed on
    usage: Usage = Usage()  # what the failed attempt cost, as far as is known
    funds: int | None = None
    attempt: int = 1  # the number of the one that failed, as the provider counts on from `Request.retried`


class Compacted(Happened):
    edits: tuple[Edit, ...] = ()
    before: int = 0  # tokens in view
    after: int = 0
    usage: Usage = Usage()
    cost: int = 0  # the summary may be written by another model, so its cost comes with it
    funds: int | None = None
    failed: str = ""  # why there is no compaction
    trigger: str = ""  # of a summary: "auto", or "manual" if the user asked for it; empty: another layer


class ToolsDone(Happened):
    results: tuple[ToolResult, ...]  # of every call that was started
    stopped: str | None = None  # a hook or a denial ended the run, and why
    cost: int = 0  # what agents have spent that the calls ran; what they used is told by their own sessions


class StopDecision(Value, tag="Verdict"):
    """What the stop hooks made of a finished answer."""

    blocks: tuple[str, ...] = ()  # objections, for the model
    prevent: str | None = None  # end the run, and why


class HooksDone(Happened):
    verdict: StopDecision = StopDecision()


class Aborted(Happened):
    reason: AbortReason
    partial: Assistant | None = None  # what was shown of a reply, finished or not
    results: tuple[ToolResult, ...] = ()  # of every call that was started, whether it finished or not
    usage: Usage = Usage()  # an estimate (settled 14)
    cost: int | None = None  # in place of what the usage would cost: a summary that was being written
    agents: int = 0  # what agents have spent that the calls ran


Event = Submitted | ContextReady | Replied | CallFailed | Compacted | ToolsDone | HooksDone | Aborted


# Former names, for one release.
Verdict = StopDecision
