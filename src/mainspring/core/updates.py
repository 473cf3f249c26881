"""What the consumer sees of the core's decisions. The driver adds what it sees itself: deltas, blocks, results."""

from __future__ import annotations

from typing import Any

from mainspring.core.messages import Stop, ToolResult, User
from mainspring.core.money import Usage
from mainspring.core.reasons import Cause, Failure, Subtype, Terminal, Transition, Trouble
from mainspring.core.value import Value


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
    duration: int = 0  # milliseconds

    @property
    def num_turns(self) -> int:
        """Turns as the Claude Agent SDK counts them (Z-17)."""
        return 1 + self.messages


Update = RequestStarted | Appended | Boundary | Tombstone | MaxTurnsReached | Failed | Result
