"""The session's lines on the pipe (stream-json 14.5): what was written to its files, for a store elsewhere.

    mirror = Mirror()
    open_session_file(options, replace(place, mirror=mirror.add), new_id)
    for frame in mirror.frames():       # now and then, and before each result
        ...

A line goes out as it stands in its file: nothing is decoded. Only a line that is too long for a frame of its own is,
and cut. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainspring.sessions.line_format import OURS
from mainspring.stream_json.lines import MOST, encode_json, encode_line

END = b"]}"


class TranscriptMirror:
    """Lines that wait for the pipe, by file, in the order in which they were written."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[bytes]] = {}

    def add(self, file: str, lines: bytes) -> None:
        """For `Options.mirror` of a journal. Cheap: it is called for every record."""
        self._waiting.setdefault(file, []).append(lines)

    def frames(self) -> list[bytes]:
        """All that waits, as lines for the pipe."""
        waiting, self._waiting = self._waiting, {}
        return [frame for file, pieces in waiting.items() for frame in frames_of(file, b"".join(pieces))]


def frames_of(file: str, lines: bytes) -> Iterator[bytes]:
    """As many entries in each as there is room for."""
    head = b'{"type":"transcript_mirror","filePath":' + encode_json(file) + b',"entries":['
    room = MOST - len(head) - len(END)
    entries, length = list[bytes](), -1  # the first has no comma before it
    for one in lines.split(b"\n"):
        if not one:
            continue  # a line end that closes what a crash had torn
        entry = one if len(one) <= room else shorten_entry(one, room)
        if entries and length + 1 + len(entry) > room:
            yield head + b",".join(entries) + END + b"\n"
            entries, length = [], -1
        entries.append(entry)
        length += 1 + len(entry)
    if entries:
        yield head + b",".join(entries) + END + b"\n"


# --- what is too long ---------------------------------------------------------------------------------------


def shorten_entry(entry: bytes, room: int) -> bytes:
    """A line of the conversation is cut as others on the pipe are. One of ours cannot be: half of a checkpoint would be
    taken for the whole. What goes out for it is an event that follows none, so a reader takes the conversation's lines.
    """
    note = f"a line of {len(entry):,} bytes was too long for the pipe"
    if entry.startswith(OURS):
        return OURS + b'"n":0,"event":{"type":"Cut"},"cut":' + encode_json(note) + b"}"
    said = msgspec.json.decode(entry)
    mark = said.get("mainspring", {})
    if mark.pop("odd", None) is not None and said["type"] == "assistant":
        said["message"]["content"] = [{"type": "text", "text": f"[{note}]"}]  # the block was in the mark
    return encode_line(said, room)[:-1]
