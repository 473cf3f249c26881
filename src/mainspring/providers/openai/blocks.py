"""Shared by the readers of OpenAI's two protocols: events in, blocks as they are written. Sans I/O.

One block is open at a time. If the server may have left calls or thinking in the text, it goes through
`providers/text_tool_calls.py`. Blanks between blocks, which many models write before a call, are dropped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NoReturn

from msgspec.structs import replace

from mainspring.core.errors import ProviderError
from mainspring.core.messages import Defect, ServerBlock, Stop, Text, Thinking, ToolCall
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import BlockKind
from mainspring.core.value import Bundle, as_json
from mainspring.providers.base import Batch, BlockDelta, BlockFinished, BlockOpened, Item, StreamStarted
from mainspring.providers.http.sse import ServerEvent
from mainspring.providers.openai.quirks import ReasoningDetails
from mainspring.providers.text_tool_calls import UNNAMED, TextToolCallReader

MAX_REPLY = 64 * 1024 * 1024  # bytes of a stream; about a hundred times the longest reply that any model can give
CHARS_PER_TOKEN = 3  # rather low, so that an estimate errs high
TEXT = BlockKind.TEXT  # cached: it is used for every piece
PROMISED = ToolCall("", UNNAMED, {}, Defect.MALFORMED)  # the server announced calls, and sent none


class ExpectedReply(Bundle):
    """What a reader knows about the request."""

    tokens: int = 0  # of the prompt, estimated
    names: Mapping[str, str] = {}  # tools' own names by those on the wire, where they differ
    most: int = 0  # maximum tokens of the reply; 0: unknown
    written: TextToolCallReader | None = None  # searches the text; None: the server is trusted to have done so
    searches: bool = False  # the request declares the service's web search, so its items and citations are blocks, too


NOTHING_EXPECTED = ExpectedReply()


class BlockReader:
    """Feed it the bytes of each read; it returns the items that they complete.

    Items before an error in the same read are returned first: then `error` is set, and must be raised.
    """

    def __init__(self, expected: ExpectedReply = NOTHING_EXPECTED) -> None:
        self.ended = False
        self.error: ProviderError | None = None
        self.blocks = BlockBuilder(expected)
        self._begun = False
        self._size = 0

    @property
    def whole(self) -> bool:
        """The model has finished; only the usage and the end of the stream may follow."""
        return self.ended

    def take(self, events: list[ServerEvent]) -> Batch:
        try:
            self._size += sum([len(data) for _, data in events])
            if self._size > MAX_REPLY:
                raise_stream_error(f"the server sent a reply of more than {MAX_REPLY:,} bytes")
            for _, data in events:
                if self.ended:
                    break  # nothing after the end belongs to the reply
                self._take(data)
        except ProviderError as error:
            self.error = error
            items = self.blocks.handed_on()
            # If the reply had only just begun, nothing is lost, and the request can still be retried.
            return () if len(items) == 1 and isinstance(items[0], StreamStarted) else items
        return self.blocks.handed_on()

    def close(self) -> Batch:
        """The stream has ended."""
        return ()

    def _begin(self) -> None:
        self._begun = True
        self.blocks.items.append(StreamStarted(Usage(input=self.blocks.estimate.input, estimated=True)))

    @abstractmethod
    def not_streamed(self, body: bytes) -> Batch:
        """The whole reply at once, from a server that does not stream."""

    @abstractmethod
    def _take(self, data: bytes) -> None: ...


class BlockBuilder:
    def __init__(self, expected: ExpectedReply) -> None:
        self.items: list[Item] = []
        self.called = False
        self._expected = expected
        self._written = expected.written
        self._kind: BlockKind | None = None  # of the open block
        self._pieces: list[str] = []
        self._signature = ""
        self._blank = ""
        self._citations = ""
        self._details: ReasoningDetails | None = None
        self._size = 0  # characters of the complete blocks

    def handed_on(self) -> tuple[Item, ...]:
        items, self.items = tuple(self.items), []
        return items

    def say(self, text: str) -> None:
        if self._written is not None and not self._written.passes(text):
            for said in self._written.feed(text):
                self._take(said)
        elif self._kind is TEXT:  # the most frequent case
            self._pieces.append(text)
            self.items.append(BlockDelta(TEXT, text))
        else:
            self._put(TEXT, text)

    def think(self, text: str, signature: str = "") -> None:
        self._put(BlockKind.THINKING, text, signature)

    def sign(self, signature: str) -> None:
        """The signature of the open thinking block; some have no text."""
        if self._kind is not BlockKind.THINKING:
            self._open(BlockKind.THINKING)
        self._signature = signature

    def know(self, details: list[Any]) -> str:
        """Details of the thinking beside its text; returns the text in them. They become the signature when the block
        is complete.
        """
        self._details = self._details or ReasoningDetails()
        return self._details.add(details)

    def end_knowing(self) -> None:
        """Details of thinking without text, or before its text, are a block of their own."""
        if self._details is not None and self._details.signature:
            if self._kind is not BlockKind.THINKING:
                self.end_text()
                self._open(BlockKind.THINKING)
            self.close()

    def end_text(self, *, cut: bool = False) -> None:
        """No text follows, or not now."""
        if self._written is not None:
            for said in self._written.close(cut=cut):
                self._take(said)
        self.close()

    def close(self) -> None:
        """The open text or thinking block is complete."""
        kind, self._kind, self._blank = self._kind, None, ""
        if kind is None:
            return
        text, self._pieces = "".join(self._pieces), []
        self._size += len(text)
        signature, self._signature = self._signature, ""
        if self._details is not None and kind is BlockKind.THINKING:
            signature, self._details = self._details.signature or signature, None
        citations, self._citations = self._citations, ""
        made = Text(text, citations) if kind is BlockKind.TEXT else Thinking(text, signature)
        self.items.append(BlockFinished(made))

    def cite(self, citations: str) -> None:
        """The server's citations of the open text."""
        self._citations = citations

    def server_block(self, kind: str, json: str) -> None:
        self.close()
        self.items.append(BlockFinished(ServerBlock(kind, json)))

    # --- calls ---

    def open_call(self, call_id: str, name: str) -> None:
        self.close()
        self.items.append(BlockOpened(BlockKind.INPUT, call_id, self.own_name(name)))

    def call_piece(self, text: str) -> None:
        self._size += len(text)
        self.items.append(BlockDelta(BlockKind.INPUT, text))

    def close_call(self, call: ToolCall) -> None:
        self.called = True
        self.items.append(BlockFinished(replace(call, name=self.own_name(call.name))))

    def whole_call(self, call: ToolCall) -> None:
        self.open_call(call.id, call.name)
        self.call_piece(as_json(call.input).decode())
        self.close_call(call)

    def own_name(self, name: str) -> str:
        return self._expected.names.get(name, name)

    # --- the end ---

    def stop(self, said: Stop) -> Stop:
        """A server may end a reply with calls in any way, and announce calls that never come."""
        if said is Stop.TOOL_USE and not self.called:
            self.whole_call(PROMISED)
        return Stop.TOOL_USE if self.called and said is Stop.END_TURN else said

    @property
    def estimate(self) -> Usage:
        """The cost of the reply, if the server does not report it."""
        return Usage(input=self._expected.tokens, output=self._size // CHARS_PER_TOKEN + 1, estimated=True)

    # --- steps ---

    def _take(self, said: tuple[BlockKind, str] | ToolCall) -> None:
        if isinstance(said, ToolCall):
            self.whole_call(said)
        else:
            self._put(*said)

    def _put(self, kind: BlockKind, text: str, signature: str = "") -> None:
        if self._kind is not kind:
            if kind is BlockKind.TEXT and (not text or text.isspace()):
                self._blank += text
                return
            text = (self._open(kind, signature) + text).lstrip("\r\n")
        self._pieces.append(text)
        self.items.append(BlockDelta(kind, text))

    def _open(self, kind: BlockKind, signature: str = "") -> str:
        """Returns the blanks before a text: its first line may be indented."""
        blank = self._blank if kind is BlockKind.TEXT else ""
        self.close()
        self._kind, self._signature = kind, signature
        self.items.append(BlockOpened(kind))
        return blank


def raise_stream_error(detail: str) -> NoReturn:
    raise ProviderError(Failure(Trouble.SERVER, detail)) from None
