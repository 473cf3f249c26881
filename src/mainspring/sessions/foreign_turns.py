"""Turns that another program has written into a session file: Claude Code, which shares our files.

Our events do not contain its lines, but they are part of the conversation. This module finds the lines that no process
of ours has read yet, follows their parent links, and appends them to what our records say
(docs/decisions/0040-turns-of-another-program.md).

A process that resumes a file stores in its first checkpoint how far it has read (`CheckpointExtras.seen`): for the
lines up to there, it is decided which belong to the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mainspring.core.messages import Assistant, Message, Origin, ToolResult, User
from mainspring.core.view import Edit, Fold
from mainspring.messages_api import Unreadable
from mainspring.sessions.decoder import TranscriptDecoder, is_ours
from mainspring.sessions.line_parser import JournalLine
from mainspring.sessions.parent_links import SPOKEN, ChainNode, ParentChain, make_node, repair_conversation
from mainspring.sessions.reader import JournalReader


class SeenLine(NamedTuple):
    place: int  # among the conversation lines that were read
    offset: int
    kind: str
    parent: str | None
    ids: tuple[str, ...]  # of the messages that it is, or is a part of
    ours: bool


class ForeignRewindError(Exception):
    """The other program went back to an earlier message and continued there: only the parent links tell the rest."""

    def __init__(self, leaf: str) -> None:
        super().__init__(leaf)
        self.leaf = leaf


class ForeignLines:
    """The conversation lines of a file, and which of them our own records do not cover."""

    def __init__(self, reader: JournalReader, book: TranscriptDecoder) -> None:
        self._reader = reader
        self._book = book
        self._lines: dict[str, SeenLine] = {}
        self._accounted: set[str] = set()  # ids of messages that our records name
        self._decided = -1  # the position up to which a process has decided already
        self.last = ""  # the uuid of the last line

    def note(self, offset: int, line: JournalLine, ids: Iterable[str]) -> None:
        if not line.uuid or line.isSidechain:
            return
        self.last = line.uuid
        earlier = self._lines.get(line.uuid)
        place = earlier.place if earlier is not None else len(self._lines)  # a copy of a line is the same line
        self._lines[line.uuid] = SeenLine(place, offset, line.type, line.parentUuid, tuple(ids), is_ours(line))

    def account_for(self, ids: Iterable[str]) -> None:
        self._accounted.update(ids)

    def decide(self, seen: str) -> None:
        """A process began here, and had read up to this line. Empty: it did not say, so it had read everything."""
        if not seen:
            self._decided = len(self._lines) - 1
        elif seen in self._lines:
            self._decided = max(self._decided, self._lines[seen].place)

    def turns(self, history: Iterable[Message]) -> ForeignTurns | None:
        """The turns to append to this history. Raises `ForeignRewindError` if appending is not enough."""
        self.account_for(message.id for message in history)
        pending = {uuid: line for uuid, line in self._lines.items() if self._is_pending(line)}
        if not any(line.ids for line in pending.values()):
            return None
        nodes = [found for uuid, line in pending.items() if (found := self._node(uuid, line)) is not None]
        chain = ParentChain(nodes, self._lines.keys() - pending.keys())
        way = chain.way_through_boundaries()
        if not way:
            return None
        attached = way[0].logical_parent or "" if way[0].parent is None else way[0].parent
        if self._went_back(attached):
            raise ForeignRewindError(max(way, key=lambda each: each.place).uuid)
        return ForeignTurns(self, self._book, way, attached)

    def _is_pending(self, line: SeenLine) -> bool:
        accounted = bool(line.ids) and self._accounted.issuperset(line.ids)
        return not line.ours and line.place > self._decided and not accounted

    def _node(self, uuid: str, seen: SeenLine) -> ChainNode | None:
        line = self._reader.line_at(seen.offset)
        try:
            return make_node(seen.offset, line, seen.place) if line is not None else None
        except Unreadable as error:
            self._reader.warn(f"message '{uuid}': {error}, skipped")
            return None

    def _went_back(self, parent: str) -> bool:
        """Whether it left out turns of its own, which it must have known. It may not have seen ours: it may have had
        the file open since before they were written."""
        if not parent:
            return False
        if parent in self._lines:
            start = self._lines[parent].place
            later = [line for line in self._lines.values() if start < line.place <= self._decided and not line.ours]
            same = set(self._lines[parent].ids)
            return any(line.kind in SPOKEN and self._speaks(line.ids, same) for line in later)
        return self._went_far_back(parent)

    def _speaks(self, ids: tuple[str, ...], besides: set[str]) -> bool:
        return any(name not in besides and not isinstance(self._book.said.get(name), ToolResult) for name in ids)

    def _went_far_back(self, parent: str) -> bool:
        """Whether the parent is before everything that was read, or missing."""
        begin, found = min(line.offset for line in self._lines.values()), False
        for _, line in self._reader.lines(0, begin):
            if line.uuid == parent:
                found = True
            elif found and line.type in SPOKEN and not line.isSidechain and not is_ours(line):
                return True
        return not found

    def ids_of(self, uuid: str) -> tuple[str, ...]:
        return self._lines[uuid].ids if uuid in self._lines else ()

    def nearest_ids(self, uuid: str) -> tuple[str, ...]:
        """The messages that a line is a part of, or else the nearest one before it that is part of any."""
        passed: set[str] = set()
        while uuid in self._lines and not self._lines[uuid].ids and uuid not in passed:
            passed.add(uuid)
            uuid = self._lines[uuid].parent or ""
        return self.ids_of(uuid)


class MergedHistory(NamedTuple):
    messages: list[Message]
    edits: tuple[Edit, ...]
    made: list[Message]  # results that had to be created


class ForeignTurns:
    """A path through lines of another program, from where it leaves the known lines to its end."""

    def __init__(self, lines: ForeignLines, book: TranscriptDecoder, way: list[ChainNode], attached: str) -> None:
        self._lines = lines
        self._book = book
        self._way = way
        self._attached = lines.nearest_ids(attached)
        self.leaf = max(way, key=lambda each: each.place).uuid

    def behind(
        self, known: list[Message], cut_off: list[Message], edits: tuple[Edit, ...], started: set[str]
    ) -> MergedHistory:
        """The whole history: ours, what was cut off when ours ended, theirs. A summary of theirs becomes an edit."""
        boundary = max([place for place, each in enumerate(self._way) if each.is_boundary], default=-1)
        summary = self._summary(self._way[boundary + 1 :]) if boundary >= 0 else None
        before = self._messages(self._way[: boundary + 1])
        after = [message for message in self._messages(self._way[boundary + 1 :]) if message is not summary]
        calls = {call.id for each in (*before, *after) if isinstance(each, Assistant) for call in each.calls}
        taken = {call.id for each in known if isinstance(each, Assistant) for call in each.calls}
        sound, made = repair_conversation([*cut_off, *before], started | calls, taken, continues=bool(known))
        unsummarized, made_after = repair_conversation(after, started | calls, taken, continues=True)
        messages = [*known, *sound, *unsummarized]
        if summary is None:
            return MergedHistory(messages, edits, [*made, *made_after])
        last = self._last_summarized(known, [*known, *sound], self._way[boundary])
        if last < 0:  # there is nothing that it replaces
            messages = [*known, *sound, summary, *unsummarized]
        else:
            edits = (*edits, Fold(front_of(messages, edits), messages[last].id, summary))
        return MergedHistory(messages, edits, [*made, *made_after])

    def _summary(self, way: list[ChainNode]) -> User | None:
        first = next((name for each in way for name in self._lines.ids_of(each.uuid)), "")
        message = self._book.said.get(first)
        return message if isinstance(message, User) and message.origin is Origin.SUMMARY else None

    def _messages(self, way: list[ChainNode]) -> list[Message]:
        return self._book.found([name for each in way for name in self._lines.ids_of(each.uuid)])

    def _last_summarized(self, known: list[Message], messages: list[Message], boundary: ChainNode) -> int:
        """The position of the last message that their summary replaces: before those that they have kept in view, and
        before messages of ours that they had not seen. -1: there is none."""
        last = len(messages) - 1
        seen = max([place for place, message in enumerate(known) if message.id in self._attached], default=last)
        while seen + 1 < len(known) and isinstance(known[seen + 1], ToolResult):
            seen += 1
        if seen + 1 < len(known):
            last = seen
        kept = {name for uuid in boundary.preserved for name in self._lines.ids_of(uuid)}
        return min([place - 1 for place, message in enumerate(messages) if message.id in kept] + [last])


def front_of(messages: list[Message], edits: tuple[Edit, ...]) -> str:
    """Where a summary of everything begins: with the first message, or where the first earlier summary began."""
    here = {message.id for message in messages}
    folds = [edit.first for edit in edits if isinstance(edit, Fold) and edit.first not in here]
    return folds[0] if folds else messages[0].id
