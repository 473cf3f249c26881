"""Effects: the one thing to do next, and which events may answer it."""

from __future__ import annotations

from enum import StrEnum

from mainspring.core import events
from mainspring.core.config import Effort, Sampling
from mainspring.core.messages import ToolCall
from mainspring.core.reasons import Cause, Failure, Terminal, Trouble
from mainspring.core.value import Value


class Priority(StrEnum):
    """How far down the inbox a turn reaches (B-29)."""

    NOW = "now"  # ends the current run; the next one begins with it
    NEXT = "next"
    LATER = "later"  # the model sleeps: deliver now


class PrepareContext(Value):
    take: Priority = Priority.NEXT


class AnnouncedBudget(Value, tag="TaskBudget"):
    total: int
    remaining: int  # smaller than the total once compaction has removed spent tokens from what the server sees


class Retried(Value):
    """The failed attempts before this request: their replies broke off after they had begun (settled 9)."""

    failure: Failure  # of the last one
    attempts: int  # that failed so far
    most: int  # attempts in all, if it keeps failing like this
    waited: int = 0  # milliseconds before those attempts


class Request(Value):
    """How to call the model. The view itself is in the state, so requests stay small in the journal."""

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
    reserve: int = 0  # nano-dollars to reserve before the call starts
    retried: Retried | None = None  # the provider waits before it sends this request
    sampling: Sampling | None = None


class CallModel(Value):
    request: Request


class RunTools(Value):
    calls: tuple[ToolCall, ...]
    start: bool = True  # False: only finish running calls, because the run is about to end


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
    reserve: int = 0  # nano-dollars to reserve for the model that writes a summary
    asked: str | None = None  # the user's instructions for the summary; None: the loop compacts by itself


class Finish(Value):
    terminal: Terminal
    cause: Cause
    detail: str = ""


Effect = PrepareContext | CallModel | RunTools | RunStopHooks | Compact | Finish

# A submission may also replace any other answer: the previous run broke off, and the new one cleans up after it.
ANSWERS: dict[type[Effect] | type[None], tuple[type[events.Event], ...]] = {
    type(None): (events.Submitted,),
    PrepareContext: (events.ContextReady, events.Aborted),
    CallModel: (events.Replied, events.CallFailed, events.Aborted),
    RunTools: (events.ToolsDone, events.Aborted),
    RunStopHooks: (events.HooksDone, events.Aborted),
    Compact: (events.Compacted, events.Aborted),
    Finish: (events.Submitted,),
}
