"""What a journal stores (settled 4). Events suffice for replay; the rest is for resume, for traces and for people."""

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
from mainspring.core.reasons import BreakReason, Failure, Trouble
from mainspring.core.state import Checkpoint
from mainspring.core.updates import Delta
from mainspring.core.value import Value


class EventRecord(Value):
    """An event that the core decides on."""

    event: Event


class BlockRecord(Value):
    """A block of a reply is finished."""

    reply_id: str
    index: int
    block: Block
    at: int
    model: str = ""
    usage: Usage = Usage()  # as far as known before the end of the reply


class DeltaRecord(Value):
    """The deltas of one socket read, as they were shown. They may span blocks."""

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
    """The decision about a call, by a rule, a hook or the user."""

    call_id: str
    decision: str
    reason: str
    at: int
    classifier: tuple[str, str] | None = None  # its answer and the reason it gave, if mode auto consulted it


class StepsRecord(Value):
    """The steps of a call, and how long each took, in microseconds."""

    call_id: str
    steps: tuple[tuple[str, int], ...]
    at: int


class WithdrawnRecord(Value):
    """A reply was shown, and then withdrawn by a tombstone: it is not part of the conversation."""

    reply_id: str
    why: Trouble


class ConfigRecord(Value):
    """The configuration of the next run. Replay uses the same."""

    config: Config


class CheckpointRecord(Value):
    checkpoint: Checkpoint
    history: History | None = None  # complete; a journal stores its ids, a few at a time


class AskedRecord(Value):
    """A call waits for the user."""

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
    WITHDRAWN = "withdrawn"  # by the user


class CommandRecord(Value):
    """A prompt submitted during a run, and what became of it (A-16)."""

    id: str
    text: str
    priority: Priority
    state: CommandState
    at: int
    origin: Origin = Origin.PROMPT


class AgentRecord(Value):
    """A subagent starts to work for this session, or has ended, and what it has spent."""

    agent_id: str
    background: bool
    at: int
    ended: bool = False
    cost: int = 0  # nano-dollars
    used: tuple[tuple[str, Usage], ...] = ()  # by model
    breaks: tuple[tuple[str, int, int], ...] = ()  # by event: how often the prefix broke, and nano-dollars


class PolicyRecord(Value):
    """A change by the user (settled 29)."""

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
    most: int = 0  # attempts in total


class PrefixRecord(Value):
    """A request did not extend the last one (law 4), and what that cost in nano-dollars."""

    block: int
    what: str
    why: str
    tokens: int
    price: int
    at: int
    reason: BreakReason = "unknown"
    layers: tuple[str, ...] = ()
    estimated: bool = False

    @property
    def event(self) -> str:
        """What to add up breaks by, as in `PrefixBroken`."""
        return ", ".join(self.layers) or self.reason


class SideCallsRecord(Value):
    """The cost of side calls that no event of this process has reported: the session was closed after them."""

    cost: int  # nano-dollars
    usage: Usage
    at: int


class ToolSummaryRecord(Value):
    text: str
    call_ids: tuple[str, ...]
    at: int


class NoteRecord(Value):
    """Any other information worth keeping."""

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
    | SideCallsRecord
    | ToolSummaryRecord
    | WithdrawnRecord
    | ConfigRecord
    | CheckpointRecord
    | NoteRecord
)


class Journal(Protocol):
    """Append-only. A record is stored when `append` returns; the loop acts on nothing and shows nothing before that."""

    @property
    def stored(self) -> bool:
        """Whether appended records can be read again later, and so need not stay in memory."""
        ...

    async def append(self, record: Record) -> None: ...

    async def sync(self) -> None:
        """Return when everything appended would survive a power loss."""
        ...


class NoJournal:
    """Stores nothing: for runs that are never resumed. A record for each delta would outgrow the history."""

    stored = False

    async def append(self, record: Record) -> None:
        pass

    async def sync(self) -> None:
        pass


class MemoryJournal:
    """A journal that lives as long as its process and can be inspected, above all by tests."""

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
