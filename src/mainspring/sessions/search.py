"""A program that finds text, calls and results in a session. The newest first, with the text around them.

    python -m mainspring.sessions.search FILE '{"query": "token.*expired", "limit": 10}'

For the tool `Recall`. It is a separate process, because a regular expression may run without end, and would block every
thread of this one. It reads the file once, from its beginning, and keeps only the newest hits, whatever the file size.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from mainspring.core.messages import Block, Origin, Text, ToolCall, ToolResult, User
from mainspring.messages_api import Unreadable, as_line
from mainspring.sessions.line_format import PLAIN
from mainspring.sessions.line_parser import JournalLine, record_of, reply_blocks, spoke_of, user_messages
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.records import WithdrawnRecord

AROUND = 300  # characters of an excerpt, about
MOST_COUNTED = 1_000  # hits of an expression in one text

_SIGNS = re.compile(r"[\\.^$*+?{}\[\]|()]")  # without one of these it is not a regular expression


class TranscriptSearchRequest(Struct, forbid_unknown_fields=True):
    query: str
    limit: int = 10
    without: str = ""  # calls of this tool and their results: the search would find itself


class TranscriptMatch(Struct):
    turn: int
    role: str  # user, assistant, tool
    tool: str  # the tool of the call or result
    text: str  # the excerpt
    more: int = 0  # further hits in the same text
    reply: str = ""  # the reply of the block


class TranscriptMatches(Struct):
    hits: list[TranscriptMatch]
    total: int  # messages that match
    loose: bool = False  # all words occur, but not as written


class TranscriptText(NamedTuple):
    turn: int
    role: str
    tool: str
    text: str
    reply: str = ""


# --- texts --------------------------------------------------------------------------------------------------


class TranscriptReader:
    """The lines of a session as texts with their turns. Leaves out thinking, summaries and our own messages."""

    def __init__(self, reader: JournalReader) -> None:
        self._reader = reader
        self.turn = 0
        self._reply = ""
        self._names: dict[str, str] = {}  # of tools, by calls without a result

    def of(self, line: JournalLine) -> Iterator[TranscriptText]:
        if line.isSidechain or line.isMeta:
            return
        payload = self._reader.payload((line.mainspring or PLAIN).payload)
        spoke = spoke_of(line) if line.message else None
        if spoke is None:
            return
        if line.type == "assistant":
            self._begin(spoke.id or line.uuid)
            for block in reply_blocks(line, spoke, payload):
                yield from self._block(block)
        elif line.type == "user":
            for message in user_messages(line, spoke, payload):
                yield from self._message(message)

    def withdraw(self, reply: str) -> None:
        if reply == self._reply:
            self._reply = ""
            self.turn -= 1

    def _begin(self, reply: str) -> None:
        if reply != self._reply:
            self._reply = reply
            self.turn += 1

    def _block(self, block: Block) -> Iterator[TranscriptText]:
        match block:
            case Text():
                yield TranscriptText(self.turn, "assistant", "", block.text, self._reply)
            case ToolCall():
                self._names[block.id] = block.name
                yield TranscriptText(self.turn, "assistant", block.name, _input(block), self._reply)
            case _:
                pass

    def _message(self, message: User | ToolResult) -> Iterator[TranscriptText]:
        if isinstance(message, ToolResult):
            yield TranscriptText(self.turn, "tool", self._names.pop(message.call_id, ""), message.text)
        elif message.origin is not Origin.SUMMARY:
            yield TranscriptText(self.turn + 1, "user", "", message.text)  # it begins the next turn


def _input(call: ToolCall) -> str:
    """As text, in which a search finds what a person would: JSON has escapes before quotes and line ends."""
    rows = [
        f"{name}: {value}" if isinstance(value, str) else f"{name}: {as_line(value).decode()}"
        for name, value in call.input.items()
    ]
    return "\n".join(rows)


# --- matches ------------------------------------------------------------------------------------------------


class MatchPosition(NamedTuple):
    """The first hit in a text, and how many more there are."""

    start: int
    end: int
    more: int = 0


class TranscriptPattern:
    """A regular expression, or words that all occur, in any order. Case-insensitive.

    Plain words are searched in lower case: ten times as fast as a case-insensitive expression. (A few letters change
    their length then, and an excerpt begins a letter later.)
    """

    def __init__(self, text: str) -> None:
        self._plain = text.lower()
        self._words = sorted(set(self._plain.split()), key=len, reverse=True)
        self._pattern: re.Pattern[str] | None = None
        if _SIGNS.search(text):
            with suppress(re.error, OverflowError, RecursionError):
                self._pattern = re.compile(text, re.IGNORECASE | re.MULTILINE)

    def exact(self, text: str, lower: str) -> MatchPosition | None:
        if self._pattern is not None:
            return _matched(self._pattern, text)
        start = lower.find(self._plain)
        end = start + len(self._plain)
        return MatchPosition(start, end, lower.count(self._plain, end)) if start >= 0 else None

    def loose(self, lower: str) -> MatchPosition | None:
        if len(self._words) < 2 or not all(word in lower for word in self._words):
            return None
        start = lower.find(self._words[0])  # the longest one is the most significant
        return MatchPosition(start, start + len(self._words[0]))


def _matched(pattern: re.Pattern[str], text: str) -> MatchPosition | None:
    first = pattern.search(text)
    if first is None:
        return None
    others = pattern.finditer(text, max(first.end(), first.start() + 1))
    return MatchPosition(first.start(), first.end(), sum(1 for _ in islice(others, MOST_COUNTED)))


def make_excerpt(text: str, place: MatchPosition) -> str:
    before = max(0, AROUND - (place.end - place.start)) // 2
    begin = max(0, place.start - before)
    stop = min(len(text), begin + AROUND)
    begin = max(0, min(begin, stop - AROUND))
    return f"{'...' if begin else ''}{text[begin:stop].strip()}{'...' if stop < len(text) else ''}"


class NewestMatches:
    """The newest hits, and how many there were."""

    def __init__(self, limit: int) -> None:
        self.hits: deque[TranscriptMatch] = deque(maxlen=limit)
        self.total = 0

    def add(self, hit: TranscriptMatch) -> None:
        self.hits.append(hit)
        self.total += 1

    def withdraw(self, reply: str) -> None:
        kept = [hit for hit in self.hits if hit.reply != reply]
        self.total -= len(self.hits) - len(kept)
        self.hits = deque(kept, self.hits.maxlen)


def search_transcript(file: Path, asked: TranscriptSearchRequest) -> TranscriptMatches:
    query, exact, loose = TranscriptPattern(asked.query), NewestMatches(asked.limit), NewestMatches(asked.limit)
    with JournalReader(file) as reader:
        told = TranscriptReader(reader)
        for _, line in reader.lines():
            try:
                texts = list(told.of(line))
                gone = _withdrawn(line)
            except Unreadable:
                continue
            if gone:
                for kept in (told, exact, loose):
                    kept.withdraw(gone)
            for said in texts:
                if said.tool and said.tool == asked.without:
                    continue
                lower = said.text.lower()
                if (place := query.exact(said.text, lower)) is not None:
                    exact.add(_hit(said, place))
                elif (place := query.loose(lower)) is not None:
                    loose.add(_hit(said, place))
    best = exact if exact.total else loose
    return TranscriptMatches(list(best.hits)[::-1], best.total, loose=best is loose and bool(best.total))


def _hit(said: TranscriptText, place: MatchPosition) -> TranscriptMatch:
    return TranscriptMatch(said.turn, said.role, said.tool, make_excerpt(said.text, place), place.more, said.reply)


def _withdrawn(line: JournalLine) -> str:
    if b"WithdrawnRecord" not in bytes(line.record):
        return ""
    record = record_of(line)
    return record.reply_id if isinstance(record, WithdrawnRecord) else ""


def main() -> None:
    found = search_transcript(Path(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=TranscriptSearchRequest))
    sys.stdout.buffer.write(as_line(found))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
