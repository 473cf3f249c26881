"""The decoder: collects the lines of a session file by id, and puts the content back into events (see
`line_format.py`).

`LoadedSession` is the result of loading a session with `resume.py`: what a journal and an engine need to continue it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.events import Aborted, CallFailed, Compacted, ContextReady, Event, Replied, Submitted, ToolsDone
from mainspring.core.messages import Assistant, Block, Message, Stop, ToolCall, ToolResult, User, result
from mainspring.core.pairing import NeverRan
from mainspring.core.state import State
from mainspring.core.view import Edit, Fold
from mainspring.sessions.encoder import TranscriptEncoder
from mainspring.sessions.line_format import PLAIN, CheckpointExtras, Envelope
from mainspring.sessions.line_parser import (
    JournalLine,
    attachment_message,
    command_message,
    event_of,
    parse_timestamp,
    reply_blocks,
    spoke_of,
    stop_from_api,
    usage_from_api,
    user_messages,
)
from mainspring.sessions.parent_links import NOT_STARTED
from mainspring.sessions.records import CommandRecord, PolicyRecord

Said = TypeVar("Said", User, ToolResult)


class MissingReferenceError(Exception):
    """A line refers to something that the file does not contain, or no longer."""


class ReplyHead(NamedTuple):
    """What an event says about a reply: everything but its blocks."""

    reply: Assistant
    blocks: int


def is_ours(line: JournalLine) -> bool:
    """Whether we wrote this line of the conversation. Results, and prompts in old files, do not say."""
    if line.mainspring is not None:
        return True
    return line.type == "assistant" and bool(line.message) and spoke_of(line).id == line.uuid


class TranscriptDecoder:
    def __init__(self, payload: Callable[[str], bytes | None]) -> None:
        self._payload = payload
        self.said: dict[str, User | ToolResult] = {}
        self.replies: dict[str, dict[int, Block]] = {}  # by the id that the lines of a reply share
        self.offsets: dict[str, int] = {}  # the position of the first line of a message
        self._begun: dict[str, Assistant] = {}  # by the same: what the lines themselves say about the reply
        self._shared: dict[str, str] = {}  # by a reply's own id, which is that of its first line: the shared one
        self._told: dict[str, ReplyHead] = {}
        self._places: dict[str, int] = {}  # of lines of other programs: the positions of their blocks in the reply
        self.open: list[str] = []  # replies without an event so far

    # --- conversation lines ---

    def take(self, offset: int, line: JournalLine) -> list[str]:
        """The ids of the messages that this line is, or is a part of. A line that lost its own id is none: the
        conversation by its links cannot hold it, so no other way of reading may."""
        if not line.uuid:
            return []
        match line.type:
            case "user":
                messages = user_messages(line, spoke_of(line), self._payload((line.mainspring or PLAIN).payload))
                return self._keep(offset, *messages)
            case "assistant" if not line.isApiErrorMessage:  # not a reply: Claude Code's own message about a failure
                return [self._take_block(offset, line)]
            case "attachment":
                return self._keep(offset, attachment_message(line))
            case "system":
                return self._keep(offset, command_message(line))
            case _:
                return []

    def _keep(self, offset: int, *messages: User | ToolResult | None) -> list[str]:
        found = [message for message in messages if message is not None]
        for message in found:
            self.said[message.id] = message
            self.offsets[message.id] = offset
        return [message.id for message in found]

    def _take_block(self, offset: int, line: JournalLine) -> str:
        spoke, mark = spoke_of(line), line.mainspring or PLAIN
        shared = spoke.id or line.uuid
        if shared not in self._begun:
            own = line.uuid if mark.i == 0 else shared  # the same, unless another program has made copies
            self._begun[shared] = Assistant((), spoke.model or "", id=own, at=parse_timestamp(line.timestamp))
            self._shared[own] = shared
            self.offsets[own] = offset
            if is_ours(line):
                self.open.append(shared)
        begun, blocks = self._begun[shared], self.replies.setdefault(shared, {})
        ours = line.uuid == begun.id or line.mainspring is not None
        # a copy of a line gets the same position
        place = mark.i if ours else self._places.setdefault(line.uuid, len(blocks))
        for number, block in enumerate(reply_blocks(line, spoke, self._payload(mark.payload))):
            blocks[place + number] = block
        self._begun[shared] = replace(begun, stop=stop_from_api(spoke.stop_reason), usage=usage_from_api(spoke.usage))
        return begun.id

    # --- messages and events ---

    def message(self, id: str, *, whole: bool = True) -> Message:
        """Raises `MissingReferenceError` if the message is missing, or known to be incomplete."""
        if id in self.said:
            return self.said[id]
        if id in self._told and (whole or self._told[id].blocks <= len(self.blocks_of(id))):
            reply, blocks = self._told[id]
            return self._filled(reply, blocks)
        shared = self._shared.get(id, "")
        held = self.blocks_of(shared)
        if not held or (whole and len(held) < len(self.replies[shared])):
            raise MissingReferenceError(f"message '{id}'")
        # It has no event: another program wrote it, or it was copied as a whole.
        return replace(self._begun[shared], blocks=held)

    def found(self, ids: Iterable[str]) -> list[Message]:
        """In their order, each once, and as much of each as there is."""
        found: list[Message] = []
        for name in dict.fromkeys(ids):
            with suppress(MissingReferenceError):
                found.append(self.message(name, whole=False))
        return found

    def blocks_of(self, shared: str) -> tuple[Block, ...]:
        """The blocks, from the first to the last before a gap."""
        held, blocks = self.replies.get(shared, {}), list[Block]()
        while len(blocks) in held:
            blocks.append(held[len(blocks)])
        return tuple(blocks)

    def close(self, kept: set[str]) -> None:
        """Mark these replies as part of the history, even without an event."""
        self.open = [shared for shared in self.open if self._begun[shared].id not in kept]

    def told(self, reply_id: str) -> bool:
        return reply_id in self._told

    def _filled(self, reply: Assistant, blocks: int) -> Assistant:
        held = self.replies.get(reply.id, {})
        if any(n not in held for n in range(blocks)):
            raise MissingReferenceError(f"a block of reply '{reply.id}'")
        return replace(reply, blocks=tuple([held[n] for n in range(blocks)]))

    def event(self, line: JournalLine) -> Event:
        """The event of a line, with its content. Raises `MissingReferenceError`, or what cannot be decoded."""
        event = event_of(line)
        match event:
            case Submitted():
                messages, results = self._all(line.messages, User), self._all(line.results, ToolResult)
                partial = self._cut_off(event.partial, line.blocks)
                event = replace(event, messages=messages, results=results, partial=partial)
            case ContextReady():
                event = replace(event, injected=self._all(line.messages, User), edits=self.edits(event.edits))
            case Replied():
                event = replace(event, reply=self._tell(event.reply, line.blocks))
            case CallFailed():
                kept = self._tell(event.kept, line.blocks) if event.kept is not None else None
                event = replace(event, kept=kept)
            case ToolsDone():
                event = replace(event, results=self._all(line.results, ToolResult))
            case Aborted():
                results = self._all(line.results, ToolResult)
                event = replace(event, partial=self._cut_off(event.partial, line.blocks), results=results)
            case Compacted():
                event = replace(event, edits=self.edits(event.edits))
            case _:
                pass
        return event

    def learn(self, line: JournalLine) -> None:
        """What an event says about a reply, if nothing else of the event is needed."""
        event = event_of(line)
        match event:
            case Replied():
                husk: Assistant | None = event.reply
            case CallFailed():
                husk = event.kept
            case Submitted() | Aborted():
                husk = replace(event.partial, stop=Stop.UNFINISHED) if event.partial else None
            case _:
                husk = None
        if husk is not None:
            self._told.setdefault(husk.id, ReplyHead(husk, line.blocks))

    def _tell(self, husk: Assistant, blocks: int) -> Assistant:
        reply = self._filled(husk, blocks)
        self._told[husk.id] = ReplyHead(husk, blocks)
        self.open = []
        return reply

    def _cut_off(self, husk: Assistant | None, blocks: int) -> Assistant | None:
        """An interrupted reply enters the history as unfinished, unless it was in the history before."""
        if husk is None:
            return None
        reply = self._filled(husk, blocks)
        self._told.setdefault(husk.id, ReplyHead(replace(husk, stop=Stop.UNFINISHED), blocks))
        self.open = []
        return reply

    def _all(self, ids: tuple[str, ...], kind: type[Said]) -> tuple[Said, ...]:
        found = [self.said.get(name) for name in ids]
        kept = [message for message in found if isinstance(message, kind)]
        if len(kept) < len(ids):
            raise MissingReferenceError(f"a message of {', '.join(ids)}")
        return tuple(kept)

    def edits(self, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
        return tuple([self._edit(edit) for edit in edits])

    def _edit(self, edit: Edit) -> Edit:
        if not isinstance(edit, Fold) or edit.summary.content:
            return edit
        summary = self.said.get(edit.summary.id)
        if summary is None:
            raise MissingReferenceError(f"summary '{edit.summary.id}'")
        return replace(edit, summary=replace(edit.summary, content=summary.content))


REPEATABLE = "The session ended while this call ran. It changes nothing, so it can be made again."


class LoadedSession(NamedTuple):
    """A loaded session: everything that is needed to continue it."""

    file: Path
    how: str  # checkpoint, records or conversation: the best available source; or fork
    state: State
    standing: CheckpointExtras
    size: int = 0  # of the file, when it was read
    ends_in_mid_line: bool = False
    partial: Assistant | None = None  # what was shown of an unfinished reply,
    results: tuple[ToolResult, ...] = ()  # and results of calls that no event has reported
    unfinished: tuple[ToolCall, ...] = ()  # started, with an unknown end (security P4)
    unstarted: tuple[ToolCall, ...] = ()
    made: tuple[Message, ...] = ()  # messages that the core or we created, and that have no line yet
    summaries: frozenset[str] = frozenset()  # ids of those that have a line
    open_text: int = 0  # 1: the last block of the partial reply was still streaming, and has no line yet
    warnings: tuple[str, ...] = ()

    @property
    def salvaged(self) -> tuple[Message, ...]:
        """The messages of an interrupted turn that the state does not contain yet."""
        return (*(() if self.partial is None else (self.partial,)), *self.results)

    @property
    def session_id(self) -> str:
        return self.file.stem

    @property
    def config(self) -> Config | None:
        return self.standing.config

    @property
    def policy(self) -> PolicyRecord | None:
        return self.standing.policy

    @property
    def commands(self) -> tuple[CommandRecord, ...]:
        """Submitted, and not taken by any turn."""
        return self.standing.commands

    @property
    def spent(self) -> int:
        return self.standing.spent

    def scribe(self, envelope: Envelope) -> TranscriptEncoder:
        """An encoder that knows what the file contains."""
        scribe = TranscriptEncoder(envelope, replace(self.standing))  # a copy: the encoder changes it
        if self.how != "fork":
            scribe.messages = {result.id: result for result in self.results}
            scribe.summaries = set(self.summaries)
            if self.partial is not None:
                finished = len(self.partial.blocks) - self.open_text
                scribe.blocks[self.partial.id] = list(self.partial.blocks[:finished])
        folds = [
            edit.first for edit in self.state.edits if isinstance(edit, Fold) and edit.summary.id in self.summaries
        ]
        scribe.fronts = {self.standing.first, *folds} - {""}
        return scribe

    def answers(
        self, new_id: Callable[[], str], now: int, repeatable: Callable[[ToolCall], bool] = lambda _: False
    ) -> tuple[ToolResult, ...]:
        """The results that the model gets for calls that were running: one for each (security P4)."""
        lost = [(call, REPEATABLE if repeatable(call) else NeverRan.LOST) for call in self.unfinished]
        lost += [(call, NOT_STARTED) for call in self.unstarted]
        made = [result(call.id, words, is_error=True, synthetic=True) for call, words in lost]
        return (*self.results, *[replace(each, id=new_id(), at=now) for each in made])


def standing_for(standing: CheckpointExtras, state: State, **changes: object) -> CheckpointExtras:
    ids = tuple([message.id for message in state.history])
    first = ids[0] if ids else ""
    return replace(standing, added=ids, first=first, before=-1, **changes)
