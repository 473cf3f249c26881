"""AWS event streams, sans I/O: bytes in, events out, however the bytes are split.

A message is a prelude (its length, the length of its headers, a checksum of both), headers, a payload, and a checksum
of everything before it. Every length is checked before its bytes are collected, so that a broken or hostile stream
cannot fill the memory; everything that does not fit raises `ProviderError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NoReturn
from zlib import crc32

import msgspec

from mainspring.core.errors import ProviderError
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.value import Bundle
from mainspring.providers.http.sse import MAX_EVENT, ServerEvent

PRELUDE, CHECKSUM = 12, 4  # bytes
MAX_HEADERS = 128 * 1024  # bytes, the limit of AWS
FIXED_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # header values by type; 0 and 1 are booleans
BYTES, STRING = 6, 7  # types with a length before the value


class StreamMessage(Bundle):
    headers: dict[str, str]  # those with a text; no other is needed
    payload: bytes


class MessageDecoder:
    """Feed it the bytes of a read; it returns the messages that are complete. After an error, it accepts no more."""

    def __init__(self, max_message: int = MAX_EVENT) -> None:
        self._max = max_message
        self._buffer = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes of a message that is not complete."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[StreamMessage]:
        self._buffer += chunk
        found: list[StreamMessage] = []
        at = 0
        while len(self._buffer) - at >= PRELUDE:
            size = self._read_size(at)
            if len(self._buffer) - at < size:
                break
            found.append(read_message(bytes(self._buffer[at : at + size])))
            at += size
        del self._buffer[:at]
        return found

    def _read_size(self, at: int) -> int:
        size: int
        size, headers, checksum = struct.unpack_from(">III", self._buffer, at)
        if crc32(self._buffer[at : at + PRELUDE - CHECKSUM]) != checksum:
            fail("the checksum of a prelude is wrong")
        if size > self._max:
            fail(f"a message has more than {self._max:,} bytes")
        if headers > MAX_HEADERS or PRELUDE + headers + CHECKSUM > size:
            fail("a length is impossible")
        return size


def read_message(message: bytes) -> StreamMessage:
    """A complete message, whose prelude was checked."""
    if crc32(message[:-CHECKSUM]) != int.from_bytes(message[-CHECKSUM:]):
        fail("the checksum of a message is wrong")
    end = PRELUDE + int.from_bytes(message[4:8])
    try:
        headers = dict(read_headers(message[PRELUDE:end]))
    except (IndexError, UnicodeDecodeError):
        fail("a header cannot be read")
    return StreamMessage(headers, message[end:-CHECKSUM])


def read_headers(data: bytes) -> Iterator[tuple[str, str]]:
    """Raises `IndexError` if they end too early or have an unknown type."""
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        name, kind = data[at + 1 : name_end].decode(), data[name_end]
        at = name_end + 1
        if kind in (BYTES, STRING):
            size = data[at] << 8 | data[at + 1]
            at += 2
        elif kind in FIXED_SIZES:
            size = FIXED_SIZES[kind]
        else:
            raise IndexError(kind)
        if at + size > len(data):
            raise IndexError(size)
        if kind == STRING:
            yield name, data[at : at + size].decode()
        at += size


def fail(what: str) -> NoReturn:
    raise ProviderError(Failure(Trouble.SERVER, f"the server sent an invalid event stream: {what}")) from None


# --- events of Bedrock --------------------------------------------------------------------------------------------


class _StreamChunk(msgspec.Struct, frozen=True):
    event: bytes = msgspec.field(name="bytes")  # an event of the Messages API, in base64


class _StreamException(msgspec.Struct, frozen=True):
    message: str = ""


_decode_chunk = msgspec.json.Decoder(_StreamChunk).decode
UNREAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# Errors of Bedrock, and the errors of Anthropic's API that mean the same.
ERROR_TYPES = {
    "throttlingexception": "rate_limit_error",
    "toomanyrequestsexception": "rate_limit_error",
    "modelnotreadyexception": "overloaded_error",
    "serviceunavailableexception": "overloaded_error",
    "internalserverexception": "api_error",
    "modelerrorexception": "api_error",
    "modelstreamerrorexception": "api_error",
    "modeltimeoutexception": "timeout_error",
    "validationexception": "invalid_request_error",
    "resourcenotfoundexception": "not_found_error",
    "accessdeniedexception": "permission_error",
}


class BedrockEventParser:
    """Turns an event stream of Bedrock into the server-sent events of the Messages API."""

    stray = b""  # other content fails at its first bytes

    def __init__(self) -> None:
        self._decoder = MessageDecoder()

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        found = [read_event(message) for message in self._decoder.feed(chunk)]
        return [event for event in found if event is not None]


def read_event(message: StreamMessage) -> ServerEvent | None:
    """None for an unknown event."""
    headers = message.headers
    match headers.get(":message-type", "event"):
        case "event":
            return ("message", read_chunk(message.payload)) if headers.get(":event-type") == "chunk" else None
        case "exception":
            return "error", make_error_event(headers.get(":exception-type", ""), read_words(message.payload))
        case "error":
            return "error", make_error_event(headers.get(":error-code", ""), headers.get(":error-message", ""))
        case _:
            return None


def read_chunk(payload: bytes) -> bytes:
    try:
        return _decode_chunk(payload).event
    except UNREAD:
        fail("an event cannot be read")


def read_words(payload: bytes) -> str:
    try:
        return msgspec.json.decode(payload, type=_StreamException).message
    except UNREAD:
        return ""


def make_error_event(kind: str, message: str) -> bytes:
    """The event by which Anthropic's API reports an error in mid-stream."""
    error = {"type": ERROR_TYPES.get(kind.lower(), kind), "message": f"{kind}: {message}" if message else kind}
    return msgspec.json.encode({"type": "error", "error": error})
