"""Read a reply as OpenAI's Responses API streams it: events in, items out. Sans I/O.

The server's items become our blocks, in the order in which they begin. One is shown at a time; if another one streams
meanwhile, it waits. The content of an item comes in deltas; a server that omits them sends it when the item, or the
whole response, is done. Unknown events and item types are ignored.
"""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from mainspring.core.errors import ProviderError
from mainspring.core.messages import Stop
from mainspring.core.money import Usage
from mainspring.providers.base import Batch, StreamEnded, parse_token_count
from mainspring.providers.openai.blocks import NOTHING_EXPECTED, BlockReader, ExpectedReply, raise_stream_error
from mainspring.providers.openai.errors import failure_of, read_complaint
from mainspring.providers.openai.json import make_signature
from mainspring.providers.text_tool_calls import call_of, repair_json

NONE = (b"", b"null")


class _ResponsesEvent(Struct, frozen=True, gc=False):
    """All events in one struct."""

    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    delta: str = ""
    text: str = ""  # these two are repeated when complete; some servers send them only then
    arguments: Raw = Raw()
    item: Raw = Raw()
    response: Raw = Raw()
    error: Raw = Raw()


class _Part(Struct, frozen=True, gc=False):
    text: str | None = None
    refusal: str | None = None
    annotations: list[Raw] | None = None


class _ResponsesItem(Struct, frozen=True, gc=False):
    """An item, at its start or when done."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Raw = Raw()
    encrypted_content: str | None = None
    summary: list[_Part] | None = None
    content: list[_Part] | str | None = None


class _ResponsesTokenDetails(Struct, frozen=True, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _ResponsesUsage(Struct, frozen=True, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _ResponsesTokenDetails | None = None


class _Incomplete(Struct, frozen=True, gc=False):
    reason: str | None = None


class _Response(Struct, frozen=True, gc=False):
    status: str | None = None
    incomplete_details: _Incomplete | None = None
    usage: _ResponsesUsage | None = None
    error: Raw = Raw()
    output: list[Raw] | None = None


UNREAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")
_decode = msgspec.json.Decoder(_ResponsesEvent).decode
_decode_given = msgspec.json.Decoder(_ResponsesItem).decode
_decode_response = msgspec.json.Decoder(_Response).decode

# The item type that an event writes to.
DELTAS = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}
KINDS = frozenset(DELTAS.values())
SEARCH = "web_search_call"
WHOLE = {"response.output_text.done": "message", "response.function_call_arguments.done": "function_call"}
PARAGRAPH = "\n\n"  # between two parts of a summary
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})
STOPS = {"max_output_tokens": Stop.MAX_TOKENS, "content_filter": Stop.REFUSAL}


class _Item:
    """An item that is still streaming."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.id = self.name = ""
        self.pieces: list[str] = []
        self.signature = self.citations = ""
        self.raw = b""  # of a search
        self.shown = self.done = False


class ResponsesStreamReader(BlockReader):
    def __init__(self, expected: ExpectedReply = NOTHING_EXPECTED) -> None:
        super().__init__(expected)
        self._refused = False
        self._most = expected.most
        self._cites = expected.searches
        self._kinds = KINDS | {SEARCH} if expected.searches else KINDS
        self._items: dict[int | str, _Item] = {}  # by index, in the order in which they began

    def not_streamed(self, body: bytes) -> Batch:
        if b'"output"' not in body and b'"error"' not in body:
            raise_stream_error("the server sent an invalid answer")
        return self.take([("", b'{"type":"response.done","response":' + body + b"}")])

    def _take(self, data: bytes) -> None:
        if data == b"[DONE]":
            return
        try:
            event = _decode(data)
        except UNREAD as error:
            event = decode_odd_event(data, _ResponsesEvent, "an event", error)
        if event.type == "response.output_text.delta":  # the most frequent case
            item = self._items.get(event.output_index or 0)
            if item is not None and item.shown and not item.done and item.kind == "message":
                item.pieces.append(event.delta)
                self.blocks.say(event.delta)
                return
        self._take_other(event, data)

    def _take_other(self, event: _ResponsesEvent, data: bytes) -> None:
        kind = event.type
        if kind == "error" or (not kind and bytes(event.error) not in NONE):
            raise ProviderError(failure_of(read_complaint(data)))
        if not self._begun:
            self._begin()
        if kind in DELTAS:
            self._refused = self._refused or kind == "response.refusal.delta"
            self._delta(self._item(event, DELTAS[kind]), event.delta)
        elif kind in WHOLE:
            self._said_again(event, WHOLE[kind])
        elif kind == "response.output_item.added":
            self._added(event)
        elif kind == "response.reasoning_summary_part.added":
            item = self._item(event, "reasoning")
            if item.pieces:
                self._delta(item, PARAGRAPH)
        elif kind == "response.output_item.done":
            self._finish(event)
        elif kind in ENDS:
            self._end(event)

    # --- items ---

    def _item(self, event: _ResponsesEvent, kind: str) -> _Item:
        place = event.output_index if event.output_index is not None else event.item_id or 0
        found = self._items.get(place)
        if found is None:
            found = self._items[place] = _Item(kind)
            self._show_next()
        if found.kind != kind:
            raise_stream_error(f"the server wrote to item {place} as '{kind}', which it began as '{found.kind}'")
        return found

    def _delta(self, item: _Item, text: str) -> None:
        if item.done:
            raise_stream_error("the server wrote to an item that was complete")
        item.pieces.append(text)
        if item.shown:
            self._write(item, text)

    def _said_again(self, event: _ResponsesEvent, kind: str) -> None:
        item, text = self._item(event, kind), event.text or written_in(event.arguments)
        if text and not item.pieces and not item.done:
            self._delta(item, text)

    def _write(self, item: _Item, text: str) -> None:
        if item.kind == "message":
            self.blocks.say(text)
        elif item.kind == "reasoning":
            self.blocks.think(text)
        elif item.kind == "function_call":
            self.blocks.call_piece(text)

    def _added(self, event: _ResponsesEvent) -> None:
        given = read_given(event.item)
        if given.type in self._kinds:
            place = event.output_index if event.output_index is not None else given.id or event.item_id or 0
            item = self._items.get(place)
            if item is not None and item.done:  # another item with its index
                self._items[f"{place} {len(self._items)}"] = self._items.pop(place)
                item = None
            if item is None:
                item = self._items[place] = _Item(given.type)
            item.id, item.name = item.id or given.call_id or "", item.name or given.name or ""
            self._show_next()

    def _finish(self, event: _ResponsesEvent) -> None:
        given = read_given(event.item)
        place = event.output_index if event.output_index is not None else given.id or event.item_id or 0
        if given.type in self._kinds:
            self._finish_as(self._items.get(place), place, given, event.item)

    def _finish_as(self, item: _Item | None, place: int | str, given: _ResponsesItem, raw: Raw) -> None:
        if item is None:
            item = self._items[place] = _Item(given.type)
        if item.done:
            return  # a duplicate
        item.id, item.name = given.call_id or item.id, given.name or item.name
        if given.type == SEARCH:
            item.raw = bytes(raw)
        if self._cites and isinstance(given.content, list):
            cited = [bytes(one) for part in given.content for one in part.annotations or ()]
            item.citations = (b"[" + b",".join(cited) + b"]").decode() if cited else ""
        if given.type == "reasoning":
            item.signature = make_signature(given.id or "", given.encrypted_content or "")
        if not item.pieces and (text := text_of(given)):
            item.pieces.append(text)
            if item.shown:
                self._write(item, text)
        self._refused = self._refused or is_refusal_item(given)
        item.done = True
        if item.shown:
            self._close(item)
        self._show_next()

    def _show_next(self) -> None:
        """Show waiting items, once those before them are complete."""
        for item in self._items.values():
            if not item.shown:
                self._show(item)
            if not item.done:
                return

    def _show(self, item: _Item) -> None:
        item.shown = True
        if item.kind == "function_call":
            self.blocks.open_call(item.id, item.name)
        for piece in item.pieces:
            self._write(item, piece)
        if item.done:
            self._close(item)

    def _close(self, item: _Item, *, cut: bool = False) -> None:
        if item.kind == "function_call":
            self.blocks.close_call(call_of(item.id, item.name, "".join(item.pieces)))
        elif item.kind == "reasoning":
            if item.signature:
                self.blocks.sign(item.signature)
            self.blocks.close()
        elif item.kind == SEARCH:
            self.blocks.server_block(SEARCH, item.raw.decode(errors="replace"))
        else:
            self.blocks.cite(item.citations)
            self.blocks.end_text(cut=cut)

    def _take_rest(self, output: list[Raw]) -> None:
        """Content that the server sends only at the end: everything, or calls that it did not send before."""
        known = {item.id for item in self._items.values() if item.kind == "function_call"}
        first = not self._items
        for place, raw in enumerate(output):
            given = read_given(raw)
            missed = given.type == "function_call" and bool(given.call_id) and given.call_id not in known
            if given.type in self._kinds and (first or missed):
                self._finish_as(None, f"output {place}", given, raw)

    # --- the end ---

    def _is_full(self, usage: _ResponsesUsage | None) -> bool:
        """Some servers (llama.cpp's) mark a reply as complete although it has reached its limit."""
        return usage is not None and 0 < self._most <= parse_token_count(usage.output_tokens)

    def _end(self, event: _ResponsesEvent) -> None:
        try:
            response = _decode_response(event.response) if bytes(event.response) not in NONE else _Response()
        except UNREAD as error:
            response = decode_odd_event(bytes(event.response), _Response, "an end", error)
        if event.type == "response.failed" or response.status == "failed" or bytes(response.error) not in NONE:
            raise ProviderError(failure_of(read_complaint(bytes(response.error) or b"{}")))
        stop = STOPS.get((response.incomplete_details or _Incomplete()).reason or "", Stop.END_TURN)
        if stop is Stop.END_TURN and self._is_full(response.usage):
            stop = Stop.MAX_TOKENS
        self._take_rest(response.output or [])
        for item in self._items.values():
            whole, item.done = item.done, True
            if not item.shown:
                self._show(item)
            elif not whole:
                self._close(item, cut=stop is Stop.MAX_TOKENS)
        self.ended = True
        usage = response.usage
        known = usage is not None and (usage.input_tokens or usage.output_tokens)
        spent = parse_responses_usage(usage) if usage is not None and known else self.blocks.estimate
        stop = self.blocks.stop(Stop.REFUSAL if self._refused else stop)
        self.blocks.items.append(StreamEnded(stop, spent))


def read_given(raw: Raw) -> _ResponsesItem:
    try:
        return _decode_given(raw) if bytes(raw) not in NONE else _ResponsesItem()
    except UNREAD as error:
        return decode_odd_event(bytes(raw), _ResponsesItem, "an item", error)


def decode_odd_event(data: bytes, form: type[T], what: str, error: Exception) -> T:
    found = repair_json(data, form)
    if found is None:
        raise_stream_error(f"the server sent {what} that cannot be read: {error}")
    return found


def text_of(given: _ResponsesItem) -> str:
    """The content of an item, for servers that send no deltas."""
    if given.type == "function_call":
        return written_in(given.arguments)
    if isinstance(given.content, str):
        return given.content
    parts = (given.summary or given.content or ()) if given.type == "reasoning" else given.content or ()
    between = PARAGRAPH if given.type == "reasoning" else ""
    return between.join([part.text or part.refusal or "" for part in parts])


def written_in(arguments: Raw) -> str:
    """As text, or from an object, as some servers send it."""
    raw = bytes(arguments)
    return cast("str", msgspec.json.decode(raw)) if raw[:1] == b'"' else raw.decode()


def is_refusal_item(given: _ResponsesItem) -> bool:
    return isinstance(given.content, list) and any(part.refusal for part in given.content)


def parse_responses_usage(said: _ResponsesUsage) -> Usage:
    """In disjoint classes: the server's input figure includes cached tokens, too."""
    details = said.input_tokens_details or _ResponsesTokenDetails()
    prompt = parse_token_count(said.input_tokens)
    read = min(prompt, parse_token_count(details.cached_tokens))
    written = min(prompt - read, parse_token_count(details.cache_write_tokens))
    return Usage(
        input=prompt - read - written,
        cache_write=written,
        cache_read=read,
        output=parse_token_count(said.output_tokens),
    )
