"""Updates: what the consumer sees. First what the driver shows as it happens, then what the core decides."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from mainspring.core.messages import Block, Stop, ToolCall, ToolResult, User
from mainspring.core.money import Usage
from mainspring.core.reasons import BreakReason, Cause, Failure, Subtype, Terminal, Transition, Trouble
from mainspring.core.value import Value

# --- shown by the driver when it happens ------------------------------------------------------------


class BlockKind(StrEnum):
    TEXT = "text"
    THINKING = "thinking"
    INPUT = "input"  # a tool call's input, as JSON text; no call starts before its block is finished


class ReplyStarted(Value):
    """The reply begins; the prompt's usage is known from here on."""

    reply_id: str
    model: str
    usage: Usage


class BlockStarted(Value):
    """A block begins. For a call, its id and name are known long before its input."""

    reply_id: str
    index: int
    kind: BlockKind
    id: str = ""
    name: str = ""


class Delta(Value):
    """A piece of a block that is still streaming."""

    reply_id: str
    index: int  # of the block
    kind: BlockKind
    text: str


class BlockDone(Value):
    """A finished block of a reply. It can still be withdrawn, by a tombstone with the reply's id."""

    reply_id: str
    index: int
    block: Block


class ReplyDone(Value):
    """A reply is complete, with its stop reason. It can still be withdrawn."""

    reply_id: str
    stop: Stop
    usage: Usage


class CallStarted(Value):
    call: ToolCall
    line: str = ""  # one line about the call, for the user


class CallProgress(Value):
    """Progress of a running call, such as the end of a command's output. For display only; it is not stored."""

    call_id: str
    text: str


class Rendering(Value):
    """How a user sees what a call did: one line, and details that can be expanded. Plain data, for any front end."""

    summary: str
    body: str = ""
    kind: Literal["text", "diff", "output"] = "text"


class CallDone(Value):
    """A call's outcome, as soon as it is known: later calls may finish earlier, and cancelled ones never started."""

    result: ToolResult
    data: Any = None  # the outcome in the tool's own schema, as JSON values: for programs
    rendering: Rendering | None = None
    denied: bool = False  # a rule, a hook or the user denied it


class QuestionAsked(Value, tag="Asked"):
    """A call waits for the user's answer."""

    id: str
    call_id: str
    question: str
    about: Any = None  # the subject of the question, as JSON values: for programs that answer it


class QuestionAnswered(Value, tag="Answered"):
    id: str
    answer: str


class Injected(Value):
    """A message that entered the conversation from outside: an attachment, or a queued prompt."""

    message: User


class PrefixBroken(Value):
    """The request did not extend the last one, so part of it was paid for again (law 4). Shown when the server has
    reported what it read from its cache; `core/money.py: price_prefix_break` defines the price."""

    block: int  # the first that differs, counted over tools, system and messages
    what: str  # its position, in words
    why: str
    tokens: int  # that the server had cached, and did not read from the cache
    price: int  # nano-dollars, compared with reading them from the cache
    reason: BreakReason = "unknown"
    layers: tuple[str, ...] = ()  # the context layers that edited the view, if that is the reason
    estimated: bool = False  # tokens and price: the server reported no figures

    @property
    def event(self) -> str:
        """What to add up breaks by: the context layers, or else the reason."""
        return ", ".join(self.layers) or self.reason


class Retrying(Value):
    """The provider waits before a retry; also a sign of life during a long wait (G-24)."""

    failure: Failure
    attempt: int
    delay: int  # milliseconds
    most: int = 0  # attempts in total, if it keeps failing like this; 0: this attempt is not counted
    beat: int = 0  # the number of this sign of life within the wait; 0: the wait begins


class ToolSummary(Value):
    """A short summary of a batch of calls (B-31)."""

    text: str
    call_ids: tuple[str, ...]


class AgentStarted(Value):
    """A call has started a subagent. The subagent's own session begins with `prompt`."""

    call_id: str
    agent_id: str
    kind: str  # the name of its agent type
    description: str
    prompt: User
    background: bool = False  # the call returns at once, and the subagent continues


class AgentUpdate(Value):
    """An update of a subagent. Text deltas are not forwarded."""

    call_id: str
    agent_id: str
    update: Update


class AgentDone(Value):
    call_id: str
    agent_id: str
    result: Result | None  # None: it did not finish
    file: str = ""  # its session file; empty: none was written
    used: tuple[tuple[str, Usage], ...] = ()  # usage of its replies, each with the name of the model


# --- decided by the core ----------------------------------------------------------------------------


class RequestStarted(Value):
    """The boundary between turns (A-22): the loop is about to call the model, and why."""

    turn: int
    model: str
    transition: Transition | None = None


class Appended(Value):
    """A message that the core itself added to the conversation."""

    message: User | ToolResult


class Boundary(Value):
    """A context layer removed something from the view here."""

    layer: str
    before: int = 0
    after: int = 0
    freed: int = 0


class Tombstone(Value):
    """Forget the reply with this id: it was withdrawn, for this reason. A front end removes what it showed of it
    (E-07)."""

    id: str
    why: Trouble


class MaxTurnsReached(Value):
    limit: int
    turns: int


class Failed(Value):
    """A failure that no recovery could fix. The result always follows, never a recovery."""

    failure: Failure


class Result(Value):
    """The end of a run."""

    terminal: Terminal
    cause: Cause
    subtype: Subtype
    detail: str = ""
    text: str = ""  # the last text of the model in this run
    stop: Stop | None = None  # why the last reply stopped
    output: dict[str, Any] | None = None  # the structured output, if it was requested
    turns: int = 0
    model_calls: int = 0
    messages: int = 0  # user-role messages of this run, without the prompt: see `num_turns`
    usage: Usage = Usage()
    cost: int = 0  # nano-dollars
    # usage or cost contain an estimate: a call was interrupted, the server sent no usage, or the price is unknown
    estimated: bool = False
    duration: int = 0  # milliseconds

    @property
    def interrupted(self) -> bool:
        return self.terminal in (Terminal.ABORTED_STREAMING, Terminal.ABORTED_TOOLS)

    @property
    def num_turns(self) -> int:
        """Turns as the Claude Agent SDK counts them (Z-17)."""
        return 1 + self.messages


Shown = (
    ReplyStarted
    | BlockStarted
    | Delta
    | BlockDone
    | ReplyDone
    | CallStarted
    | CallProgress
    | CallDone
    | QuestionAsked
    | QuestionAnswered
    | Injected
    | PrefixBroken
    | Retrying
    | ToolSummary
    | AgentStarted
    | AgentUpdate
    | AgentDone
)
Decided = RequestStarted | Appended | Boundary | Tombstone | MaxTurnsReached | Failed | Result
Update = Shown | Decided
