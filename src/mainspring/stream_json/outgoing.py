"""Outgoing frames: encodes values as lines of JSON, writes whole lines in order, and mirrors the session's files.

Clients of stream-json give up on a line of more than 1 MiB (stream-json 1.4). `encode_line` cuts a value that is too
long where it is longest, and marks the cut; short values beside it, such as ids, stay complete.

`TranscriptMirror` sends the lines of the session's files, for a session store elsewhere (stream-json 14.5):

    mirror = TranscriptMirror()
    open_session_file(options, replace(place, mirror=mirror.add), new_id)
    for frame in mirror.frames():       # now and then, and before each result
        ...

It sends a line as it is in the file, without decoding. Only a line that is too long for a frame of its own is decoded
and cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from mainspring.engine.tasks import retrieve_exception
from mainspring.sessions.line_format import OURS

MOST = 1_048_576  # bytes, without the newline; clients count characters, of which there are never more
LEAST = 64  # bytes: if values would get less, only the first ones are kept
LONGEST_KEY = 200  # characters of a key, in an object that is cut

Json: TypeAlias = "str | float | bool | list[Json] | dict[str, Json] | None"
T = TypeVar("T")


def _no_messages(_: object) -> list[object]:
    """A checkpoint contains no messages (settled 6)."""
    return []


_encoder = msgspec.json.Encoder(enc_hook=_no_messages)


def encode_line(value: object, most: int = MOST) -> bytes:
    data, room = encode_json(value), most
    while len(data) > most:  # usually once: keys and commas are only estimated
        data = encode_json(cut_to_size(msgspec.to_builtins(value), room))
        room = room * 3 // 4
    return data + b"\n"


def encode_json(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # half a character: model output and file names may contain these
        return _encoder.encode(replace_half_characters(msgspec.to_builtins(value, enc_hook=_no_messages)))


def replace_half_characters(value: Json) -> Json:
    """The same with a question mark for each half character."""
    match value:
        case str():
            return whole_text(value)
        case dict():
            return {whole_text(key): replace_half_characters(item) for key, item in value.items()}
        case list():
            return [replace_half_characters(item) for item in value]
        case _:
            return value


def whole_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


# --- cutting ----------------------------------------------------------------------------------------


def cut_to_size(value: Json, room: int) -> Json:
    """Shortens the value so that its JSON fits into so many bytes."""
    if json_size(value) <= room:
        return value
    match value:
        case str():
            return cut_text(value, room)
        case {"type": "image" | "document" as kind}:
            return {"type": "text", "text": f"[{kind} left out: a line holds at most {MOST:,} bytes]"}
        case dict():
            named = {key[:LONGEST_KEY]: item for key, item in take_first_items(list(value.items()), room)}
            return dict(
                zip(named, share_out(list(named.values()), room - json_size(dict.fromkeys(named))), strict=True)
            )
        case list():
            items = take_first_items(value, room)
            return share_out(items, room - 2 - len(items))
        case _:
            return value  # a number, or the like


def take_first_items(items: list[T], room: int) -> list[T]:
    """As many items as can get a useful share of the room."""
    return items[: max(1, room // (2 * LEAST))]


def share_out(items: list[Json], room: int) -> list[Json]:
    """Small items stay complete; the others get equal shares of the rest."""
    share = 0
    for count, length in zip(range(len(items), 0, -1), sorted(map(json_size, items)), strict=True):
        share = room // count
        if length > share:
            break
        room -= length
    return [cut_to_size(item, share) for item in items]


def cut_text(text: str, room: int) -> str:
    note = f"... [{len(text):,} characters, cut here]"
    kept = max(0, room - len(note) - 2)
    while kept and json_size(text[:kept] + note) > room:
        kept = kept * room // (json_size(text[:kept] + note) + 1)  # an escaped character takes up to six bytes
    return text[:kept] + note if kept else note


def json_size(value: Json) -> int:
    return len(encode_json(value))


Write = Callable[[bytes], Awaitable[None]]


class FrameSink(Protocol):
    """Sends frames to the program that drives us."""

    async def put(self, *frames: dict[str, Any]) -> None: ...

    async def raw(self, lines: list[bytes]) -> None:
        """Sends frames that are JSON already."""

    async def room(self) -> None:
        """Waits for a slow reader, between two updates. `put` may not wait: responses must get through."""


class PipeFrameSink:
    """Over a pipe."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._one = asyncio.Lock()  # a line may take several writes

    async def put(self, *frames: dict[str, Any]) -> None:
        await self.raw([encode_line(frame) for frame in frames])

    async def raw(self, lines: list[bytes]) -> None:
        """Writes whole lines even if the caller is cancelled: half a line would break the client."""
        if lines:
            work = asyncio.ensure_future(self._all(lines))
            work.add_done_callback(retrieve_exception)  # the caller may no longer wait for it
            await asyncio.shield(work)

    async def room(self) -> None:
        """Nothing to do: `put` has already waited, since a pipe buffers little."""

    async def _all(self, lines: list[bytes]) -> None:
        async with self._one:
            for one in lines:
                await self._write(one)


END = b"]}"


class TranscriptMirror:
    """Queues lines for the pipe, by file, in the order in which they were written."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[bytes]] = {}

    def add(self, file: str, lines: bytes) -> None:
        """For `JournalOptions.mirror`. Cheap, because it is called for every record."""
        self._waiting.setdefault(file, []).append(lines)

    def frames(self) -> list[bytes]:
        """Takes all queued lines, as frames for the pipe."""
        waiting, self._waiting = self._waiting, {}
        return [frame for file, pieces in waiting.items() for frame in frames_of(file, b"".join(pieces))]


def frames_of(file: str, lines: bytes) -> Iterator[bytes]:
    """Each frame holds as many entries as fit."""
    head = b'{"type":"transcript_mirror","filePath":' + encode_json(file) + b',"entries":['
    room = MOST - len(head) - len(END)
    entries, length = list[bytes](), -1  # the first has no comma before it
    for one in lines.split(b"\n"):
        if not one:
            continue  # an empty line that ends a line torn by a crash
        entry = one if len(one) <= room else shorten_entry(one, room)
        if entries and length + 1 + len(entry) > room:
            yield head + b",".join(entries) + END + b"\n"
            entries, length = [], -1
        entries.append(entry)
        length += 1 + len(entry)
    if entries:
        yield head + b",".join(entries) + END + b"\n"


# --- entries that are too long ------------------------------------------------------------------------------


def shorten_entry(entry: bytes, room: int) -> bytes:
    """Cuts a line of the conversation like other values. One of our own lines cannot be cut: a reader would take half a
    checkpoint for a complete one. It is replaced by an event out of sequence, so that a reader uses the conversation's
    lines instead."""
    note = f"a line of {len(entry):,} bytes was too long for the pipe"
    if entry.startswith(OURS):
        return OURS + b'"n":0,"event":{"type":"Cut"},"cut":' + encode_json(note) + b"}"
    said = msgspec.json.decode(entry)
    mark = said.get("mainspring", {})
    if mark.pop("odd", None) is not None and said["type"] == "assistant":
        said["message"]["content"] = [{"type": "text", "text": f"[{note}]"}]  # the block was in the mark
    return encode_line(said, room)[:-1]
