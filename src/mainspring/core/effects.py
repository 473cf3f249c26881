"""The one thing to do next, and which events may answer it."""

from __future__ import annotations

from enum import StrEnum

from mainspring.core import events
from mainspring.core.config import Effort
from mainspring.core.messages import ToolCall
from mainspring.core.reasons import Cause, Failure, Terminal, Trouble
from mainspring.core.value import Value


class Priority(StrEnum):
    """How far down the inbox a turn reaches (B-29)."""

    NOW = "now"  # ends the run that is under way; the next one begins with it
    NEXT = "next"
    LATER = "later"  # the model sleeps: now is the time


class PrepareContext(Value):
    take: Priority = Priority.NEXT


class AnnouncedBudget(Value, tag="TaskBudget"):
    total: int
    remaining: int  # smaller than the total once compaction took spent tokens out of the server's sight


class Retried(Value):
    """The attempts that this request follows: their replies broke off after they had begun (settled 9)."""

    failure: Failure  # of the last one
    attempts: int  # that failed so far
    most: int  # attempts in all, if it keeps failing like this


class Request(Value):
    """How to ask. What to ask with, the view, is in the state: requests stay small in the journal."""

    model: str
    max_output: int
    turn: int
    source: str
    chain: str
    depth: int
    overload_tries: int
    thinking: int | None = None  # a token budget; None: adaptive, or off
    adaptive: bool = False
    effort: Effort | None = None
    task_budget: AnnouncedBudget | None = None
    reserve: int = 0  # nano-dollars to set aside before the call starts
    retried: Retried | None = None  # the provider waits before it sends this one


class CallModel(Value):
    request: Request


class RunTools(Value):
    calls: tuple[ToolCall, ...]
    start: bool = True  # False: only finish what already runs, the run is about to end


class RunStopHooks(Value):
    active: bool = False  # they already objected to an earlier end of this run


class CompactionKind(StrEnum):
    COLLAPSE = "collapse"  # drain one prepared collapse
    STRIP_MEDIA = "strip_media"
    SUMMARY = "summary"  # calls a model
    TRIM = "trim"  # drops whole groups from the middle; needs no model


class Compact(Value):
    how: CompactionKind
    trouble: Trouble
    reserve: int = 0  # nano-dollars to set aside for the model that writes a summary
    asked: str | None = None  # somebody wants it, and has these words for whoever writes it; None: it is needed


class Finish(Value):
    terminal: Terminal
    cause: Cause
    detail: str = ""


Effect = PrepareContext | CallModel | RunTools | RunStopHooks | Compact | Finish

# A submission also ends the wait for any other answer: a run that broke off is over, and the next clears up after it.
ANSWERS: dict[type[Effect] | type[None], tuple[type[events.Event], ...]] = {
    type(None): (events.Submitted,),
    PrepareContext: (events.ContextReady, events.Aborted),
    CallModel: (events.Replied, events.CallFailed, events.Aborted),
    RunTools: (events.ToolsDone, events.Aborted),
    RunStopHooks: (events.HooksDone, events.Aborted),
    Compact: (events.Compacted, events.Aborted),
    Finish: (events.Submitted,),
}
