"""Read a reply as chat completions stream it: chunks in, items out. Sans I/O.

The protocol has no blocks: text, thinking and pieces of calls come in fields of one object, and the next kind ends the
one before. Several calls may be written at once; one is shown at a time, and the others wait until it is complete. A
chunk in a form that OpenAI does not document is repaired (`quirks.py`) before it counts as an error.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from mainspring.core.errors import ProviderError
from mainspring.core.messages import Stop
from mainspring.core.money import Usage
from mainspring.providers.base import Batch, StreamEnded, parse_token_count
from mainspring.providers.message_order import REASONING
from mainspring.providers.openai.blocks import NOTHING_EXPECTED, BlockReader, ExpectedReply, raise_stream_error
from mainspring.providers.openai.errors import failure_of, read_complaint
from mainspring.providers.openai.json import GOOGLE
from mainspring.providers.openai.quirks import repair_chunk
from mainspring.providers.text_tool_calls import JsonBalance, call_of, is_whole

DONE = b"[DONE]"
NO_ERROR = Raw()  # compared by identity: it is checked for every chunk


class _Function(Struct, frozen=True, gc=False):
    name: str | None = None
    arguments: str | None = None


class _CallPiece(Struct, frozen=True, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Raw = NO_ERROR


class _ChatDelta(Struct, frozen=True, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    reasoning_details: list[Any] | None = None
    tool_calls: list[_CallPiece] | None = None
    function_call: _Function | None = None  # the old name, from when there was only one call


class _Choice(Struct, frozen=True, gc=False):
    delta: _ChatDelta | None = None
    message: _ChatDelta | None = None  # from a server that does not stream
    finish_reason: str | None = None


class _ChatTokenDetails(Struct, frozen=True, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _ChatUsage(Struct, frozen=True, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _ChatTokenDetails | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek's name for it


class _Chunk(Struct, frozen=True, gc=False):
    choices: list[_Choice] | None = None
    usage: _ChatUsage | None = None
    error: Raw = NO_ERROR


class _Google(Struct, frozen=True):
    thought_signature: str = ""


class _Extra(Struct, frozen=True):
    google: _Google = _Google()


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_extra = msgspec.json.Decoder(_Extra).decode

STOPS: dict[str, Stop] = {
    "stop": Stop.END_TURN,
    "length": Stop.MAX_TOKENS,
    "max_tokens": Stop.MAX_TOKENS,
    "tool_calls": Stop.TOOL_USE,
    "function_call": Stop.TOOL_USE,
    "tool_use": Stop.TOOL_USE,
    "content_filter": Stop.REFUSAL,
}


class _Call:
    """A call that is still streaming."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = self.name = self.signature = ""
        self.pieces: list[str] = []
        self.shown = self.done = False
        self._balance, self._weighed = JsonBalance(), 0

    @property
    def written(self) -> str:
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        """Called for every piece if the server repeats the name: so the whole text is parsed only if it may be
        complete.
        """
        for piece in self.pieces[self._weighed :]:
            self._balance.feed(piece)
        self._weighed = len(self.pieces)
        return self._balance.is_even and is_whole(self.written)


class ChatStreamReader(BlockReader):
    def __init__(self, expected: ExpectedReply = NOTHING_EXPECTED) -> None:
        super().__init__(expected)
        self._finish: str | None = None
        self._refused = False
        self._usage: _ChatUsage | None = None
        self._calls: list[_Call] = []

    @property
    def whole(self) -> bool:
        return self._finish is not None

    def close(self) -> Batch:
        """Some servers do not send the end of the stream, but all send a finish reason."""
        if self.whole and not self.ended:
            self._end()
        return self.blocks.handed_on()

    def not_streamed(self, body: bytes) -> Batch:
        return (*self.take([("", body)]), *self.close())

    def _take(self, data: bytes) -> None:
        """One function, because nearly all of a reply goes through it, piece by piece."""
        try:
            chunk = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if data.strip() == DONE:
                self._end()
                return
            chunk = self._mended(data, error)
        if chunk.error is not NO_ERROR:
            raise_chat_error(bytes(chunk.error))
        if not self._begun:
            self._begin()
        if chunk.usage is not None:
            self._usage = chunk.usage
        choices = chunk.choices
        if not choices:
            return
        choice = choices[0]
        delta = choice.delta or choice.message
        if delta is not None:
            content = delta.content
            if content:
                if self._calls:
                    self._end_calls(content)
                self.blocks.say(content)
            if delta.reasoning_content or delta.reasoning or delta.refusal or delta.reasoning_details:
                self._aside(delta)
            if delta.tool_calls or delta.function_call is not None:
                self._call_pieces(delta)
        if choice.finish_reason:
            self._stopped(choice.finish_reason)

    def _mended(self, data: bytes, error: Exception) -> _Chunk:
        chunk = repair_chunk(data, _Chunk)
        if chunk is None:
            raise_stream_error(f"the server sent an event that cannot be read: {error}")
        return chunk

    def _aside(self, delta: _ChatDelta) -> None:
        told = self.blocks.know(delta.reasoning_details) if delta.reasoning_details else ""
        if thought := delta.reasoning_content or delta.reasoning or told:
            self._end_calls()
            self.blocks.think(thought, REASONING[0] if delta.reasoning_content else REASONING[1])
        if delta.refusal:
            self._end_calls()
            self._refused = True
            self.blocks.say(delta.refusal)

    # --- calls ---

    def _call_pieces(self, delta: _ChatDelta) -> None:
        if not self._calls:
            self.blocks.end_knowing()
        for piece in delta.tool_calls or ():
            self._call_piece(piece)
        if delta.function_call is not None:
            self._call_piece(_CallPiece(function=delta.function_call))

    def _call_piece(self, piece: _CallPiece) -> None:
        function = piece.function or _Function()
        call = self._call_for(piece, function)
        if call is None:
            if not (piece.id or function.name or function.arguments):
                return  # it is empty, and begins nothing
            self._next_call_may_begin()
            call = _Call(piece.index)
            self._calls.append(call)
        written = function.arguments or ""
        if call.done:
            if written.strip():
                raise_stream_error(f"the server wrote to the call '{call.name}', which was complete")
            return
        call.id = call.id or piece.id or ""
        call.name = call.name or function.name or ""
        if piece.extra_content is not NO_ERROR:
            call.signature = call.signature or signature_in(bytes(piece.extra_content))
        call.pieces.append(written)
        if call.shown and written:
            self.blocks.call_piece(written)
        elif not call.shown:
            self._show_next()

    def _call_for(self, piece: _CallPiece, function: _Function) -> _Call | None:
        """The call that a piece belongs to; None if it begins one. Some servers send no index, or always the same."""
        if piece.index is not None:
            same = [call for call in self._calls if call.index == piece.index]
        elif piece.id:
            same = [call for call in self._calls if call.id == piece.id]
        else:
            same = self._calls
        return same[-1] if same and not begins_another(piece, function, same[-1]) else None

    def _next_call_may_begin(self) -> None:
        """A call whose arguments are one whole value can run now; the next one may still be streaming."""
        if not self._calls:
            self.blocks.end_text()
        for call in self._calls:
            if not call.done and not call.is_whole:
                return
            self._end_call(call)

    def _show_next(self) -> None:
        """Show the first incomplete call, once it has a name."""
        call = next(call for call in self._calls if not call.done)
        if call.name and not call.shown:
            call.shown = True
            self._open(call)
            if written := call.written:
                self.blocks.call_piece(written)

    def _open(self, call: _Call) -> None:
        """After its signature, if it has one: that comes with the first piece of a call."""
        if call.signature:
            self.blocks.close()  # thinking has a signature of its own
            self.blocks.sign(f"{GOOGLE}{call.signature}")
        self.blocks.open_call(call.id, call.name)

    def _end_call(self, call: _Call) -> None:
        if call.done:
            return
        if not call.shown:
            self._open(call)
            self.blocks.call_piece(call.written)
        call.done = True
        self.blocks.close_call(call_of(call.id, call.name, call.written))

    def _end_calls(self, behind: str = "x") -> None:
        """Calls are complete when something else follows; blanks do not count."""
        if behind.strip():
            for call in self._calls:
                self._end_call(call)

    # --- the end ---

    def _stopped(self, reason: str) -> None:
        if reason == "error":
            raise_stream_error("the server ended the reply with an error, without details")
        self._finish = reason
        self._complete()

    def _complete(self) -> None:
        self._end_calls()
        self.blocks.end_text(cut=STOPS.get(self._finish or "") is Stop.MAX_TOKENS)
        self.blocks.end_knowing()

    def _end(self) -> None:
        if not self._begun:
            raise_stream_error("the server ended the reply before it began")
        if self._finish is None:
            self._stopped("stop")  # it marked the end without a reason
        self._complete()  # some continue after the finish reason
        self.ended = True
        stop = Stop.REFUSAL if self._refused else STOPS.get(self._finish or "", Stop.END_TURN)
        self.blocks.items.append(StreamEnded(self.blocks.stop(stop), self._spent()))

    def _spent(self) -> Usage:
        usage = self._usage
        if usage is None or not (usage.prompt_tokens or usage.completion_tokens):
            return self.blocks.estimate
        return parse_chat_usage(usage)


def raise_chat_error(error: bytes) -> None:
    if error != b"null":
        raise ProviderError(failure_of(read_complaint(error)))


def signature_in(extra: bytes) -> str:
    """The signature that Gemini requires with the call; empty if there is none."""
    try:
        return _decode_extra(extra).google.thought_signature
    except msgspec.DecodeError:
        return ""


def begins_another(piece: _CallPiece, function: _Function, call: _Call) -> bool:
    """Whether a piece with the index or id of a call is the next call: only a name begins one."""
    if not function.name:
        return False
    if piece.id and call.id and piece.id != call.id:
        return True
    return bool(function.arguments) and call.is_whole


def parse_chat_usage(said: _ChatUsage) -> Usage:
    """In disjoint classes: the server's prompt figure includes cached tokens, too."""
    details = said.prompt_tokens_details or _ChatTokenDetails()
    prompt = parse_token_count(said.prompt_tokens)
    read = min(prompt, parse_token_count(details.cached_tokens or said.prompt_cache_hit_tokens))
    written = min(prompt - read, parse_token_count(details.cache_write_tokens))
    # Thinking tokens are in the output figure or, with some servers, only in the total.
    output = max(parse_token_count(said.completion_tokens), parse_token_count(said.total_tokens) - prompt)
    return Usage(input=prompt - read - written, cache_write=written, cache_read=read, output=output)
