"""Server-sent events, sans I/O: bytes in, events out, however the bytes are split.

This module implements the standard's lines, fields, comments and dispatch; the provider interprets the data. `id` and
`retry` are ignored: we never reconnect to a stream in its middle.
"""

from __future__ import annotations

from mainspring.core.errors import ProviderError
from mainspring.core.reasons import Failure, Trouble

MAX_STRAY = 2_000  # bytes outside of events, kept to explain why there was no event
MAX_TAIL = 65_536  # bytes of an event that are kept as they came, until its end comes
MAX_EVENT = 16 * 1024 * 1024  # bytes; a server that sends more in one event is broken

BOM = b"\xef\xbb\xbf"


PASSED_OVER = (b"", b"id", b"retry")  # the first is a comment
ServerEvent = tuple[str, bytes]  # its name ("message" by default) and its data


class SseParser:
    """Feed it the bytes of a read; it returns the events that are complete."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._rest: bytes = b""  # the incomplete last line
        self._tail: bytes = b""  # the incomplete last event, if none of its lines was looked at
        self._after_cr = False  # the last byte was a CR: a following LF belongs to it
        self._begun = False
        self._name: bytes = b""
        self._data: list[bytes] = []
        self._size = 0
        self._stray: bytes = b""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        if self._tail:
            chunk, self._tail = self._tail + chunk, b""
        if self._is_between_events and b"\r" not in chunk and (self._begun or chunk[:1] not in BOM[:1]):
            whole, blank, rest = chunk.rpartition(b"\n\n")
            if blank and len(rest) < MAX_TAIL:
                self._begun, self._tail = True, rest
                return self._whole_events(whole)
        return self._take(self._lines(chunk))

    @property
    def stray(self) -> bytes:
        """Data that is not an event: a server may answer with something else."""
        return (self._stray + self._tail + self._rest).strip()[:MAX_STRAY]

    @property
    def _is_between_events(self) -> bool:
        return not (self._rest or self._data or self._name or self._after_cr)

    def _whole_events(self, chunk: bytes) -> list[ServerEvent]:
        """The usual case: complete events without the last blank line, each with one name and one line of data."""
        events: list[ServerEvent] = []
        for record in chunk.split(b"\n\n"):
            name, found, data = record.partition(b"\ndata: ")
            if found and name[:7] == b"event: " and b"\n" not in name and b"\n" not in data:
                if len(data) >= self._max_event:
                    self._check(len(data) + 1)
                events.append((name[7:].decode(errors="replace") or "message", data))
            else:
                events += self._take([*record.split(b"\n"), b""])
        return events

    def _take(self, lines: list[bytes]) -> list[ServerEvent]:
        events: list[ServerEvent] = []
        for line in lines:
            if line:
                self._field(line)
            elif event := self._dispatch():
                events.append(event)
        return events

    def _lines(self, chunk: bytes) -> list[bytes]:
        if not chunk:
            return []
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        data = self._rest + chunk
        if not self._begun:
            if len(data) < len(BOM) and BOM.startswith(data):
                self._rest = data
                return []
            self._begun = True
            data = data.removeprefix(BOM)
        self._after_cr = data.endswith(b"\r")
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        self._check(len(self._rest) + self._size)
        return lines

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            self._check(self._size)
            self._data.append(value)
        elif name == b"event":
            self._name = value
        elif name not in PASSED_OVER and len(self._stray) < MAX_STRAY:
            self._stray += line + b"\n"

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data, self._size = b"", [], 0
        if not data:
            return None
        return name.decode(errors="replace") or "message", b"\n".join(data)

    def _check(self, size: int) -> None:
        if size > self._max_event:
            detail = f"the server sent an event of more than {self._max_event:,} bytes"
            raise ProviderError(Failure(Trouble.SERVER, detail))
