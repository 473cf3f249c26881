"""What the consumer sees: first what the driver shows as it happens, then what the core decides."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from mainspring.core.messages import Block, Stop, ToolCall, ToolResult, User
from mainspring.core.money import Usage
from mainspring.core.reasons import Cause, Failure, Subtype, Terminal, Transition, Trouble
from mainspring.core.value import Value

# --- shown by the driver when it happens ------------------------------------------------------------


class BlockKind(StrEnum):
    TEXT = "text"
    THINKING = "thinking"
    INPUT = "input"  # a tool call's input, as JSON text; nothing is run before its block is finished


class ReplyStarted(Value):
    """The model answers; what the prompt cost is known from here on."""

    reply_id: str
    model: str
    usage: Usage


class BlockStarted(Value):
    """A block begins. Of a call its id and its name are known long before its input."""

    reply_id: str
    index: int
    kind: BlockKind
    id: str = ""
    name: str = ""


class Delta(Value):
    """A piece of a block that is still being written."""

    reply_id: str
    index: int  # of the block
    kind: BlockKind
    text: str


class BlockDone(Value):
    """A finished block of a reply. It may yet be withdrawn, by a tombstone with the reply's id."""

    reply_id: str
    index: int
    block: Block


class ReplyDone(Value):
    """A reply is complete, and why it stopped. It may yet be withdrawn."""

    reply_id: str
    stop: Stop
    usage: Usage


class CallStarted(Value):
    call: ToolCall
    line: str = ""  # about it, for a person


class CallProgress(Value):
    """What a call has to say while it runs, such as the end of a command's output. For screens; it is not kept."""

    call_id: str
    text: str


class Rendering(Value):
    """How a person sees what a call did: one line, and what can be unfolded below it. Data, for any kind of screen."""

    summary: str
    body: str = ""
    kind: Literal["text", "diff", "output"] = "text"


class CallDone(Value):
    """A call's outcome, as soon as it is there: later calls may be done earlier, and cancelled ones never started."""

    result: ToolResult
    data: Any = None  # the outcome in the tool's own shape, as JSON values: for programs
    rendering: Rendering | None = None
    denied: bool = False  # a rule, a hook or a person refused it


class QuestionAsked(Value, tag="Asked"):
    """A call waits for a person."""

    id: str
    call_id: str
    question: str
    about: Any = None  # what the question is about, as JSON values: for programs that answer it


class QuestionAnswered(Value, tag="Answered"):
    id: str
    answer: str


class Injected(Value):
    """A message that entered the conversation from outside: an attachment, or a command that was queued."""

    message: User


class PrefixBroken(Value):
    """The request does not extend the last one, so part of it must be paid for again (law 4)."""

    block: int
    what: str
    why: str
    tokens: int
    price: int  # nano-dollars


class Retrying(Value):
    """The provider waits before it tries again; also a sign of life during a long wait (G-24)."""

    failure: Failure
    attempt: int
    delay: int  # milliseconds
    most: int = 0  # attempts in all, if it keeps failing like this; 0: this one is not counted


class ToolSummary(Value):
    """What a batch of calls came to, in a few words (B-31)."""

    text: str
    call_ids: tuple[str, ...]


class AgentStarted(Value):
    """A call has an agent work for it. The agent's own session begins with `prompt`."""

    call_id: str
    agent_id: str
    kind: str  # the name of its definition
    description: str
    prompt: User
    background: bool = False  # the call is over at once, and the agent goes on


class AgentUpdate(Value):
    """Something that an agent shows. Pieces of text are not passed on."""

    call_id: str
    agent_id: str
    update: Update


class AgentDone(Value):
    call_id: str
    agent_id: str
    result: Result | None  # None: it did not come to its end
    file: str = ""  # its session; empty: none was written
    used: tuple[tuple[str, Usage], ...] = ()  # by its replies, each with the name of the model


# --- decided by the core ----------------------------------------------------------------------------


class RequestStarted(Value):
    """The boundary between turns (A-22): the model is about to be asked, and why."""

    turn: int
    model: str
    transition: Transition | None = None


class Appended(Value):
    """A message that the core itself put into the conversation."""

    message: User | ToolResult


class Boundary(Value):
    """The model's view lost something here."""

    layer: str
    before: int = 0
    after: int = 0
    freed: int = 0


class Tombstone(Value):
    """Forget the reply with this id: it was withdrawn, and why. A screen removes what it showed of it (E-07)."""

    id: str
    why: Trouble


class MaxTurnsReached(Value):
    limit: int
    turns: int


class Failed(Value):
    """A failure that nothing could cure. Always followed by the result, never by a recovery."""

    failure: Failure


class Result(Value):
    """The end of a run."""

    terminal: Terminal
    cause: Cause
    subtype: Subtype
    detail: str = ""
    text: str = ""  # the last thing the model said in this run
    stop: Stop | None = None  # why the last reply stopped
    output: dict[str, Any] | None = None  # the structured output, if one was asked for
    turns: int = 0
    model_calls: int = 0
    messages: int = 0  # user-role messages of this run, the prompt not counted: see `num_turns`
    usage: Usage = Usage()
    cost: int = 0  # nano-dollars
    estimated: bool = False  # usage and cost hold an estimate: a call was interrupted, or a server told nothing
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
