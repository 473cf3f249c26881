"""Read a reply as Anthropic streams it: server-sent events in, items out. Sans I/O.

Unknown events and fields are ignored; a block of an unknown type is kept and sent back unchanged. Contradictory events
are an error, so that half a reply never counts as a whole one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec
from msgspec import Raw, Struct

from mainspring import providers
from mainspring.core.errors import ProviderError
from mainspring.core.messages import Block, Defect, RedactedThinking, ServerBlock, Stop, Text, Thinking, ToolCall
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import BlockKind
from mainspring.providers.base import (
    Batch,
    BlockDelta,
    BlockFinished,
    BlockOpened,
    Item,
    ResultsCleared,
    StreamEnded,
    StreamStarted,
    parse_token_count,
)
from mainspring.providers.http.sse import ServerEvent
from mainspring.providers.retry import classify_failure

MAX_REPLY = 64 * 1024 * 1024  # characters; about a hundred times the longest reply that any model can give


class _Writes(Struct, frozen=True, gc=False):
    ephemeral_5m_input_tokens: int | None = 0
    ephemeral_1h_input_tokens: int | None = 0


class _ServerTools(Struct, frozen=True, gc=False):
    web_search_requests: int | None = None


class _AnthropicUsage(Struct, frozen=True, gc=False):
    """None where the server does not say: the events of one reply complement each other."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: _Writes | None = None
    server_tool_use: _ServerTools | None = None


class _Message(Struct, frozen=True, gc=False):
    usage: _AnthropicUsage | None = None


class _StreamError(Struct, frozen=True, gc=False):
    type: str = ""
    message: str = ""


class _AnthropicDelta(Struct, frozen=True, gc=False):
    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    citation: Raw = Raw()  # empty: no error
    stop_reason: str | None = None


class _Applied(Struct, frozen=True, gc=False):
    cleared_tool_uses: int | None = 0
    cleared_input_tokens: int | None = 0


class _Managed(Struct, frozen=True, gc=False):
    """Changes that the service made to the context before the model saw it."""

    applied_edits: tuple[_Applied, ...] | None = None


class _AnthropicEvent(Struct, frozen=True, gc=False):
    """All events in one struct: no field has two meanings, and one decoder is the fastest."""

    type: str = ""
    index: int = 0
    delta: _AnthropicDelta | None = None
    content_block: Raw = Raw()
    message: _Message | None = None
    usage: _AnthropicUsage | None = None
    error: _StreamError | None = None
    context_management: _Managed | None = None


class _Begun(Struct, frozen=True, gc=False):
    """The start of a block; most of its content follows."""

    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    input: dict[str, Any] = {}  # msgspec copies it
    citations: list[Raw] | None = None


_decode = msgspec.json.Decoder(_AnthropicEvent).decode
_decode_begun = msgspec.json.Decoder(_Begun).decode

KINDS = {"text": BlockKind.TEXT, "thinking": BlockKind.THINKING, "tool_use": BlockKind.INPUT}


class _Open:
    """A block that is still streaming."""

    def __init__(self, index: int, begun: _Begun, raw: bytes) -> None:
        self.index = index
        self.begun = begun
        self.raw = raw
        self.kind = KINDS.get(begun.type)
        self.pieces: list[str] = [begun.text or begun.thinking]
        self.signature = begun.signature
        self.shown = self.stopped = False
        self.citations: list[bytes] = [bytes(citation) for citation in begun.citations or ()]

    def block(self) -> Block:
        begun, written = self.begun, "".join(self.pieces)
        match begun.type:
            case "text":
                return Text(written, _joined(self.citations))
            case "thinking":
                return Thinking(written, self.signature)
            case "redacted_thinking":
                return RedactedThinking(begun.data)
            case "tool_use":
                return _call(begun, written)
            case _:
                return ServerBlock(begun.type, self._as_it_came(written))

    def _as_it_came(self, written: str) -> str:
        """A server-side tool call streams like any other: its input comes in pieces."""
        if not written:
            return self.raw.decode()
        block: dict[str, Any] = msgspec.json.decode(self.raw)
        try:
            block["input"] = msgspec.json.decode(written)
        except msgspec.DecodeError:
            _fail(f"the input of the server-side call '{self.begun.name}' is not JSON")
        return msgspec.json.encode(block).decode()


class AnthropicStreamReader:
    """Feed it the bytes of each read; it returns the items that they complete."""

    def __init__(self) -> None:
        self.ended = False
        self._begun = False
        self._usage = _AnthropicUsage()
        self._stop: str | None = None
        self._managed = _Managed()
        self._open: dict[int, _Open] = {}  # by index, in the order in which they began; the first one is shown
        self._raws: dict[int, bytes] = {}  # the start of each
        self._calls = False
        self._size = 0

    def take(self, events: Iterable[ServerEvent]) -> Batch:
        items: list[Item] = []
        for _, data in events:
            try:
                event = _decode(data)
            except UNREAD as error:
                event = _mended(data, error)
            self._size += len(data)
            if self._size > MAX_REPLY:
                _fail(f"the server sent a reply of more than {MAX_REPLY:,} bytes")
            self._take(event, items)
        return tuple(items)

    def not_streamed(self, body: bytes) -> Batch:
        events = [("", data) for data in providers.message_to_events(body)]
        return self.take(events)

    def _take(self, event: _AnthropicEvent, items: list[Item]) -> None:
        kind = event.type
        if self.ended:
            return  # nothing after the end belongs to the reply
        if kind == "content_block_delta":
            if event.delta is not None:
                self._delta(event.index, event.delta, items)
        elif kind == "content_block_start":
            self._block_start(event, items)
        elif kind == "content_block_stop":
            self._block_stop(event.index, items)
        elif kind == "message_start":
            self._start(event, items)
        elif kind == "message_delta":
            self._usage = _merged(self._usage, event.usage)
            self._managed = event.context_management or self._managed
            if event.delta is not None and event.delta.stop_reason is not None:
                self._stop = event.delta.stop_reason
        elif kind == "message_stop":
            self._end(items)
        elif kind == "error" or (not kind and event.error is not None):
            error = event.error or _StreamError(message="the server reported an error in mid-stream")
            raise ProviderError(Failure(classify_failure(None, error.type, error.message), error.message or error.type))

    def _start(self, event: _AnthropicEvent, items: list[Item]) -> None:
        if not self._begun:  # a second one adds nothing
            self._begun = True
            self._usage = _merged(self._usage, event.message.usage if event.message else None)
            items.append(StreamStarted(_as_usage(self._usage)))

    def _block_start(self, event: _AnthropicEvent, items: list[Item]) -> None:
        raw = bytes(event.content_block)
        if raw in (b"", b"null") or self._raws.get(event.index) == raw:
            return  # empty, or a duplicate
        if event.index in self._raws:
            _fail(f"the server began block {event.index} a second time, with another type")
        self._raws[event.index] = raw
        try:
            begun = _decode_begun(raw)
        except UNREAD as error:
            begun = _mended_block(raw, error)
        opened = self._open[event.index] = _Open(event.index, begun, raw)
        if len(self._open) == 1:
            _show(opened, items)

    def _delta(self, index: int, delta: _AnthropicDelta, items: list[Item]) -> None:
        opened = self._open.get(index)
        if opened is None or opened.stopped:
            _fail(f"the server wrote to block {index}, which is not open")
        if delta.type == "text_delta":
            written = delta.text
        elif delta.type == "input_json_delta":
            written = delta.partial_json
        elif delta.type == "thinking_delta":
            written = delta.thinking
        else:
            if delta.type == "signature_delta":
                opened.signature += delta.signature
            elif delta.type == "citations_delta" and bytes(delta.citation):
                opened.citations.append(bytes(delta.citation))
            return
        opened.pieces.append(written)
        if opened.kind is not None and written and opened.shown:
            items.append(BlockDelta(opened.kind, written))

    def _block_stop(self, index: int, items: list[Item]) -> None:
        if index not in self._raws:
            _fail(f"the server ended block {index}, which is not open")
        if index not in self._open:
            return  # a duplicate
        self._open[index].stopped = True
        self._finish(items)

    def _finish(self, items: list[Item]) -> None:
        """Blocks are passed on in the order in which they began. If a server streams several at once, one is shown at a
        time, and the others wait until it is complete.
        """
        for index, opened in tuple(self._open.items()):
            if not opened.shown:
                _show(opened, items)
            if not opened.stopped:
                return
            del self._open[index]
            block = opened.block()
            self._calls = self._calls or isinstance(block, ToolCall)
            items.append(BlockFinished(block))

    def _end(self, items: list[Item]) -> None:
        if self._open:
            _fail("the server ended the reply in the middle of a block")
        self.ended = True
        stop = Stop.TOOL_USE if self._calls else Stop.END_TURN
        if self._stop in KNOWN_STOPS:
            stop = Stop(self._stop)
        if applied := self._managed.applied_edits:
            items.append(_as_cleared(applied))
        items.append(StreamEnded(stop, _as_usage(self._usage)))


def _show(opened: _Open, items: list[Item]) -> None:
    opened.shown = True
    if opened.kind is not None:
        items.append(BlockOpened(opened.kind, opened.begun.id, opened.begun.name))
        if written := "".join(opened.pieces):
            items.append(BlockDelta(opened.kind, written))


KNOWN_STOPS = frozenset(Stop) - {Stop.UNFINISHED}
UNREAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _mended(data: bytes, error: Exception) -> _AnthropicEvent:
    event = providers.odd_event(data, _AnthropicEvent)
    if event is None:
        _fail(f"the server sent an event that cannot be read: {error}")
    return event


def _mended_block(raw: bytes, error: Exception) -> _Begun:
    begun = providers.repair_json(raw, _Begun)
    if begun is None:
        _fail(f"the server began a block that cannot be read: {error}")
    return begun


def _call(begun: _Begun, written: str) -> ToolCall:
    if not written:
        return ToolCall(begun.id, begun.name, begun.input)
    try:
        return ToolCall(begun.id, begun.name, msgspec.json.decode(written, type=dict[str, Any]))
    except msgspec.ValidationError:
        return ToolCall(begun.id, begun.name, {}, Defect.MALFORMED)  # JSON, but not an object
    except msgspec.DecodeError as error:
        cut = "truncated" in str(error)
        return ToolCall(begun.id, begun.name, {}, Defect.CUT if cut else Defect.MALFORMED)
    except RecursionError:
        return ToolCall(begun.id, begun.name, {}, Defect.MALFORMED)


def _joined(citations: list[bytes]) -> str:
    return (b"[" + b",".join(citations) + b"]").decode() if citations else ""


def _merged(known: _AnthropicUsage, said: _AnthropicUsage | None) -> _AnthropicUsage:
    """A later event adds to an earlier one, and may omit what did not change (E-14)."""
    if said is None:
        return known
    return _AnthropicUsage(
        _known(said.input_tokens, known.input_tokens),
        _known(said.output_tokens, known.output_tokens),
        _known(said.cache_creation_input_tokens, known.cache_creation_input_tokens),
        _known(said.cache_read_input_tokens, known.cache_read_input_tokens),
        known.cache_creation if said.cache_creation is None else said.cache_creation,
    )


def _known(said: int | None, known: int | None) -> int | None:
    return known if said is None else said


def _as_usage(said: _AnthropicUsage) -> Usage:
    """In disjoint classes: the server's figure for cache writes includes both lifetimes."""
    written, hour = parse_token_count(said.cache_creation_input_tokens), 0
    if said.cache_creation is not None:
        hour = parse_token_count(said.cache_creation.ephemeral_1h_input_tokens)
        written = max(written, hour + parse_token_count(said.cache_creation.ephemeral_5m_input_tokens))
    return Usage(
        input=parse_token_count(said.input_tokens),
        cache_write=max(0, written - hour),
        cache_write_1h=hour,
        cache_read=parse_token_count(said.cache_read_input_tokens),
        output=parse_token_count(said.output_tokens),
        estimated=said.input_tokens is None and said.output_tokens is None,  # no figures: zero is an estimate
        web_searches=parse_token_count(said.server_tool_use.web_search_requests) if said.server_tool_use else 0,
    )


def _as_cleared(applied: tuple[_Applied, ...]) -> ResultsCleared:
    tokens = sum([max(0, edit.cleared_input_tokens or 0) for edit in applied])
    return ResultsCleared(tokens, sum([max(0, edit.cleared_tool_uses or 0) for edit in applied]))


def _fail(detail: str) -> NoReturn:
    raise ProviderError(Failure(Trouble.SERVER, detail)) from None
