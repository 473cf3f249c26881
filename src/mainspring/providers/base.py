"""The interface of a provider: the conversation it gets, the items it yields while a model replies. Wire formats end
here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import Block, Stop
from mainspring.core.models import Model
from mainspring.core.money import Usage
from mainspring.core.reasons import BreakReason, Failure
from mainspring.core.updates import BlockKind
from mainspring.core.value import Bundle, Value
from mainspring.core.view import Edit

if TYPE_CHECKING:  # defining a protocol takes as long as defining ten functions
    from contextlib import AbstractAsyncContextManager

    class SharedLimits(Protocol):
        """Limits that a session shares with others, such as those of a fleet. One object per session."""

        async def enter_attempt(self, model: str, size: int) -> None:
            """Return when an attempt may be sent. `size`: bytes of the request."""
            ...

        def note_response(self, model: str, status: int, headers: Mapping[str, str]) -> None:
            """The head of a response: rate limits, and refusals because of one."""
            ...

        def note_usage(self, model: str, usage: Usage) -> None:
            """A reply is complete, and this is what it used."""
            ...

        def tool_slot(self, tool: str) -> AbstractAsyncContextManager[object]:
            """Entered before a tool runs, after its approval, and left when it has ended."""
            ...


# Set by the program that opens the sessions. It is in the context, so that all attempts and tools of a session find it:
# also those of its side calls, its subagents, and agents that it calls as tools.
shared_limits: ContextVar[SharedLimits | None] = ContextVar("mainspring_shared_limits", default=None)

T = TypeVar("T")


class RequestCache:
    """The state that providers keep for one session between its requests, such as the bytes that the next request
    extends.

    The session owns it and passes it with each request: one provider can serve many sessions, and the state goes when
    the session goes.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[object, str], Any] = {}

    def clear(self) -> None:
        """The session is closed: its requests take as much memory as its conversation."""
        self._kept.clear()

    def get(self, owner: object, source: str, make: Callable[[], T]) -> T:
        """The state of `owner`, a provider, for requests of this source: a summary's requests do not extend the
        conversation's.
        """
        found: T | None = self._kept.get((owner, source))
        if found is None:
            found = self._kept[owner, source] = make()
        return found


WEB_SEARCH = "search"  # the source of a request that declares the service's web search


class WebSearchSpec(Value):
    """The web search of a model's service, which the service itself runs. Only a side call declares it: see
    docs/decisions/0103."""

    most: int  # searches within one request
    allowed: tuple[str, ...] = ()  # domains, each with its subdomains; none: all. Only one of the two lists is sent
    blocked: tuple[str, ...] = ()


class ToolSpec(Value):
    """A tool as it is declared to the model."""

    name: str
    description: str
    schema: dict[str, Any]  # JSON Schema of its input, an object
    search: WebSearchSpec | None = None  # the service's own search instead of a tool of ours


class Conversation(Bundle):
    """Everything that the model sees. Each request projects it onto a wire format."""

    history: History
    edits: tuple[Edit, ...] = ()
    system: tuple[str, ...] = ()  # blocks, the most stable first; those after an empty one are this session's only
    tools: tuple[ToolSpec, ...] = ()
    marks: tuple[str, ...] = ()  # ids of messages that end a span worth caching; chosen by the model context
    cache: RequestCache | None = None  # of the session; None: the provider uses its own


def list_models(provider: object) -> tuple[Model, ...]:
    """The models that a provider describes itself, in its attribute `models`: their windows, limits and prices. The
    first one is its default."""
    return tuple(getattr(provider, "models", ()))


def searches_web(provider: object) -> bool:
    """Whether a provider accepts a `WebSearchSpec`, by its attribute `searches_web`."""
    return bool(getattr(provider, "searches_web", False))


class StreamStarted(Value):
    """The model replies. The prompt's cost is known from here on, even if the rest never arrives."""

    usage: Usage = Usage()


class BlockOpened(Value):
    """A block begins. The id and name of a call are known long before its input."""

    kind: BlockKind
    id: str = ""
    name: str = ""


class BlockDelta(Value):
    kind: BlockKind
    text: str


class BlockFinished(Value):
    """A block is complete: a call in it can start now, while the model continues."""

    block: Block


class ResultsCleared(Value):
    """The service left old tool results out of what the model saw. Both figures are its own (D-14)."""

    tokens: int  # of the whole history that was sent, so it includes those of earlier replies
    results: int


class StreamEnded(Value):
    """The reply is complete. A stream without this is never an answer."""

    stop: Stop = Stop.END_TURN
    usage: Usage = Usage()
    model: str = ""  # the server's name for itself, if it gives one


class PrefixBreak(Value):
    """This request does not extend the last one: the cache from `block` on must be paid for again (law 4)."""

    block: int  # the first that differs, counted over tools, system and messages
    what: str  # a description of the position
    why: str  # what was changed; empty if unknown, which would be a bug of ours
    tokens: int  # an estimate, like
    price: int  # this one: extra cost in nano-dollars compared with reading them from the cache
    reason: BreakReason = "unknown"
    automatic: bool = False  # the server caches whole prompts, without breakpoints


class Retry(Value):
    """Nothing was passed on yet, and the provider will retry."""

    failure: Failure
    attempt: int
    delay: int  # milliseconds
    most: int = 0  # attempts in all, if it keeps failing like this; 0: this one does not count
    beat: int = 0  # the number of this heartbeat within the wait; 0: the wait begins


Item = StreamStarted | BlockOpened | BlockDelta | BlockFinished | ResultsCleared | StreamEnded | PrefixBreak | Retry
Batch = tuple[Item, ...]  # the items of one read of the socket


MOST_TOKENS = 10**9  # of one reply; a larger figure is invalid


def parse_token_count(figure: int | None) -> int:
    """A server's number of tokens; zero if it is invalid."""
    return figure if figure is not None and 0 < figure <= MOST_TOKENS else 0


class Provider(Protocol):
    """One provider can serve many sessions: its state for each is in that session's `RequestCache`."""

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        """Raises `ProviderError` when its own retries are spent, or after a part of a reply was passed on."""
        ...
