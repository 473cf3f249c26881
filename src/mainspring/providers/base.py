"""What a provider hands on while a model talks. Wire formats end here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol, TypeVar

from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import Block, Stop
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure
from mainspring.core.updates import BlockKind
from mainspring.core.value import Bundle, Value
from mainspring.core.view import Edit

T = TypeVar("T")


class RequestCache:
    """What providers keep of one session between its requests, such as the bytes that the next request extends.

    The session owns it and sends it along with each request: one provider can serve many sessions, and what it keeps
    of a session goes when the session goes.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[object, str], Any] = {}

    def get(self, owner: object, source: str, make: Callable[[], T]) -> T:
        """What `owner`, a provider, keeps for requests of this source: a summary's do not extend the conversation's."""
        found: T | None = self._kept.get((owner, source))
        if found is None:
            found = self._kept[owner, source] = make()
        return found


class ToolSpec(Value):
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: dict[str, Any]  # JSON Schema of its input, an object
    server: dict[str, Any] | None = None  # a tool of the service's own, declared in its words; it runs it, not we


class Conversation(Bundle):
    """Everything that the model is to see. One request projects it onto a wire format."""

    history: History
    edits: tuple[Edit, ...] = ()
    system: tuple[str, ...] = ()  # blocks, the most stable one first; what follows an empty one is this session's alone
    tools: tuple[ToolSpec, ...] = ()
    marks: tuple[str, ...] = ()  # ids of messages that end a span worth caching; whoever shapes the context chooses
    cache: RequestCache | None = None  # of the session; None: the provider uses one of its own


class StreamStarted(Value):
    """The model answers. What the prompt cost is known from here on, also if the rest never comes."""

    usage: Usage = Usage()


class BlockOpened(Value):
    """A block begins. Of a call its id and its name are known long before its input."""

    kind: BlockKind
    id: str = ""
    name: str = ""


class BlockDelta(Value):
    kind: BlockKind
    text: str


class BlockFinished(Value):
    """A block is complete: a call in it may start now, while the model goes on."""

    block: Block


class ResultsCleared(Value):
    """The service itself left old tool results out of what the model saw. Both figures are its own (D-14)."""

    tokens: int  # of the whole history that was sent, so an earlier reply's are among them
    results: int


class StreamEnded(Value):
    """The reply is complete. A stream without this is never an answer."""

    stop: Stop = Stop.END_TURN
    usage: Usage = Usage()
    model: str = ""  # the name the server gives itself, where it gives one


class PrefixBreak(Value):
    """This request does not extend the last one: what was cached from `block` on must be paid for again (law 4)."""

    block: int  # the first that differs, counted over tools, system and messages
    what: str  # where that is, in words
    why: str  # what was changed; empty if nobody knows, which would be a bug of ours
    tokens: int  # an estimate, like
    price: int  # this one: nano-dollars over what reading them from the cache would have cost


class Retry(Value):
    """Nothing was handed on yet, and the provider will try again."""

    failure: Failure
    attempt: int
    delay: int  # milliseconds
    most: int = 0  # attempts in all, if it keeps failing like this; 0: this one is not counted


Item = StreamStarted | BlockOpened | BlockDelta | BlockFinished | ResultsCleared | StreamEnded | PrefixBreak | Retry
Batch = tuple[Item, ...]  # what one read of the socket brought


MOST_TOKENS = 10**9  # of one reply; a figure beyond that is none


def parse_token_count(figure: int | None) -> int:
    """A number of tokens, as a server has it; nought if it cannot be one."""
    return figure if figure is not None and 0 < figure <= MOST_TOKENS else 0


class Provider(Protocol):
    """One object can serve many sessions: what it remembers of each is in that session's `RequestCache`."""

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        """Raises `ProviderError` when its own retries are spent, or once something of a reply was handed on."""
        ...
