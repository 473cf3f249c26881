"""What a journal keeps (settled 4). Events are enough for replay; the rest is for resume, for traces and for people."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from mainspring.core.config import Config
from mainspring.core.effects import Priority
from mainspring.core.events import Event
from mainspring.core.history import History
from mainspring.core.messages import Block, Origin, ToolCall, ToolResult, User
from mainspring.core.models import Model
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.state import Checkpoint
from mainspring.core.updates import Delta
from mainspring.core.value import Value


class EventRecord(Value):
    """Something happened that the core decides on."""

    event: Event


class BlockRecord(Value):
    """A block of a reply is finished."""

    reply_id: str
    index: int
    block: Block
    at: int
    model: str = ""
    usage: Usage = Usage()  # as far as it is known before the reply has ended


class DeltaRecord(Value):
    """The pieces that one read of the socket brought, as they were shown. They may span blocks."""

    deltas: tuple[Delta, ...]
    at: int


class IntentRecord(Value):
    """A call is about to run."""

    call: ToolCall
    at: int


class OutcomeRecord(Value):
    result: ToolResult


class SaidRecord(Value):
    """A message entered the conversation that is neither a reply nor a result of a tool that ran."""

    message: User | ToolResult


class DecisionRecord(Value):
    """Someone decided about a call: a rule, a hook, a person."""

    call_id: str
    decision: str
    reason: str
    at: int


class StepsRecord(Value):
    """What a call met on its way, and how long each step took, in microseconds."""

    call_id: str
    steps: tuple[tuple[str, int], ...]
    at: int


class WithdrawnRecord(Value):
    """A reply was shown, and then taken back by a tombstone: it is no part of the conversation."""

    reply_id: str
    why: Trouble


class ConfigRecord(Value):
    """What a run is about to begin with. Replay decides with the same."""

    config: Config


class CheckpointRecord(Value):
    checkpoint: Checkpoint
    history: History | None = None  # the whole one; a journal stores its ids, a few at a time


class AskedRecord(Value):
    """A call waits for a person."""

    id: str
    call_id: str
    text: str
    at: int


class AnsweredRecord(Value):
    id: str
    answer: str
    at: int


class CommandState(StrEnum):
    QUEUED = "queued"
    STARTED = "started"
    COMPLETED = "completed"
    WITHDRAWN = "withdrawn"  # by whoever typed it


class CommandRecord(Value):
    """Something typed while a run was under way, and what became of it (A-16)."""

    id: str
    text: str
    priority: Priority
    state: CommandState
    at: int
    origin: Origin = Origin.PROMPT


class AgentRecord(Value):
    """An agent begins to work for this session, or has ended, and what it has spent."""

    agent_id: str
    background: bool
    at: int
    ended: bool = False
    cost: int = 0  # nano-dollars
    used: tuple[tuple[str, Usage], ...] = ()  # by model


class PolicyRecord(Value):
    """What the user changed (settled 29)."""

    mode: str
    model: Model | None
    rules: tuple[str, ...]
    tools: tuple[str, ...] | None
    at: int


class RetryRecord(Value):
    failure: Failure
    attempt: int
    delay: int
    at: int
    most: int = 0  # attempts in all


class PrefixRecord(Value):
    """A request did not extend the last one (law 4), and what that cost in nano-dollars."""

    block: int
    what: str
    why: str
    tokens: int
    price: int
    at: int


class ToolSummaryRecord(Value):
    text: str
    call_ids: tuple[str, ...]
    at: int


class FileRecord(Value):
    """What a file was, before it is changed for the first time since a prompt (stream-json 4, `rewind_files`)."""

    path: str  # absolute, without links
    at: int
    there: bool = False
    mode: int = 0  # permission bits,
    digest: str = ""  # and content: see `file_history.py`
    data: bytes | None = None  # to be kept beside the session; None: there is nothing to keep, or `why` says more
    why: str = ""  # why it is not kept
    rewound: str = ""  # the prompt that somebody goes back to, if that is the change


class NoteRecord(Value):
    """Anything else worth knowing later."""

    kind: str
    text: str
    at: int


Record = (
    EventRecord
    | BlockRecord
    | DeltaRecord
    | IntentRecord
    | OutcomeRecord
    | SaidRecord
    | DecisionRecord
    | StepsRecord
    | AskedRecord
    | AnsweredRecord
    | CommandRecord
    | AgentRecord
    | PolicyRecord
    | PrefixRecord
    | RetryRecord
    | ToolSummaryRecord
    | WithdrawnRecord
    | ConfigRecord
    | CheckpointRecord
    | FileRecord
    | NoteRecord
)


class Journal(Protocol):
    """Append-only. What `append` has returned from is kept; nothing is acted on or shown before that."""

    @property
    def stored(self) -> bool:
        """Whether what was appended can be read again later, and so need not stay in memory."""
        ...

    async def append(self, record: Record) -> None: ...

    async def sync(self) -> None:
        """Return when everything appended would survive a loss of power."""
        ...


class NoJournal:
    """Keeps nothing: for runs that nobody will resume. A record for each delta would outgrow the history."""

    stored = False

    async def append(self, record: Record) -> None:
        pass

    async def sync(self) -> None:
        pass


class MemoryJournal:
    """A journal that lives as long as its process, for whoever wants to look at it: tests, most of all."""

    stored = False

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def append(self, record: Record) -> None:
        self.records.append(record)

    async def sync(self) -> None:
        pass

    @property
    def events(self) -> list[Event]:
        return [record.event for record in self.records if isinstance(record, EventRecord)]
