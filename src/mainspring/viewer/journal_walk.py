"""Walk the lines of a session file in order and replay the core: each line's content, and the step of each event
(docs/decisions/0024).

Messages outside the model's view are dropped, as the engine does, so memory depends on the context window and not on
the file. If the replay fails (a damaged line, a file of another version), `lost` says why, and the walk still returns
the lines; a checkpoint from which a process resumed lets the replay continue.
"""

from __future__ import annotations

from msgspec import Raw
from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.errors import MainspringError
from mainspring.core.events import Aborted, CallFailed, Compacted, ContextReady, Event, Replied, Submitted
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Block, Message, ToolResult, User
from mainspring.core.money import Usage
from mainspring.core.state import Checkpoint, State, Step, decode_checkpoint
from mainspring.core.step import step
from mainspring.core.updates import Appended
from mainspring.core.value import Bundle
from mainspring.core.view import Fold, out_of_view
from mainspring.messages_api import Unreadable
from mainspring.sessions.decoder import MissingReferenceError, TranscriptDecoder
from mainspring.sessions.line_format import PLAIN, CheckpointExtras
from mainspring.sessions.line_parser import JournalLine, event_of, parse_timestamp, record_of, spoke_of, usage_from_api
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.records import ConfigRecord, Record
from mainspring.sessions.replay import ANEW

UNTOLD = 200  # characters of a reason


class WalkedBlock(Bundle):
    """A complete block of a reply."""

    reply: str
    index: int
    block: Block
    at: int
    uuid: str
    model: str = ""  # this and the following: only in lines of other programs
    usage: Usage = Usage()
    stop: str = ""  # why the reply stopped


class WalkedMessage(Bundle):
    message: User | ToolResult


class WalkedEvent(Bundle):
    event: Event
    n: int
    step: Step | None  # None: the replay has failed
    before: State | None = None


class WalkedNote(Bundle):
    record: Record


class WalkedCheckpoint(Bundle):
    """A checkpoint of the file. A long session has hundreds, and hardly any is of use, so the reader decodes it."""

    encoded: Raw
    resumed: str
    lost: bool  # the replay has failed before it
    reader: JournalReader

    def decode(self) -> Checkpoint | None:
        """None: of an unknown version, or damaged."""
        try:
            return decode_checkpoint(bytes(self.encoded))
        except Unreadable as error:
            self.reader.warn(f"cannot read a checkpoint: {str(error)[:UNTOLD]}")
            return None


class WalkedReset(Bundle):
    """The conversation was compacted here: files of other programs record no more about it."""

    at: int


Told = WalkedBlock | WalkedMessage | WalkedEvent | WalkedNote | WalkedCheckpoint | WalkedReset


class MessagesForgottenError(Exception):
    """A process resumed with messages that the walk has dropped: read the file again and keep everything."""


class JournalWalk:
    def __init__(self, reader: JournalReader, *, aside: bool = False, forget: bool = True) -> None:
        """`aside`: the file of a subagent, whose lines would be a side chain in the file of a session."""
        self.reader = reader  # replaced whenever the file is read again
        self.state = State(History())
        self.lost = ""  # why the replay has failed
        self.n: int = 0  # events so far
        self._ours = False  # the file has lines written by mainspring
        self.config = Config()  # of the current run, as recorded
        self._book = TranscriptDecoder(self._payload)
        self._aside = aside
        self._forget = forget
        self._made: set[str] = set()  # ids of messages that the core has made: they are already in the state
        self._seen: set[int] = set()  # hashes of the ids of lines
        self._folded = True  # since messages were last forgotten

    def take(self, offset: int, line: JournalLine) -> list[Told]:
        try:
            if line.type == "mainspring":
                self._ours = True
                record = self._record(line)
                return [record] if record is not None else []
            if not line.uuid:
                return []
            if line.isSidechain and not self._aside:
                return []
            if line.type == "system" and line.subtype == "compact_boundary":
                return [WalkedReset(parse_timestamp(line.timestamp))]
            told = self._conversation(offset, line)
            return told if self._is_new(line.uuid) else []
        except Unreadable as error:
            self.reader.warn(f"skipped the line at byte {offset:,}: {str(error)[:UNTOLD]}")
            return []

    # --- conversation lines ---

    def _is_new(self, uuid: str) -> bool:
        """A resume of a damaged file writes lines again: a copy is the same line."""
        known, count = hash(uuid), len(self._seen)
        self._seen.add(known)
        return len(self._seen) > count

    def _conversation(self, offset: int, line: JournalLine) -> list[Told]:
        if line.type == "assistant":
            return self._block(offset, line) if self._ours else self._blocks(offset, line)
        told: list[Told] = []
        for name in self._book.take(offset, line):
            message = self._book.said[name]
            told.append(WalkedMessage(message))
            if name in self._made:
                self._made.discard(name)
                self._drop(name)
        return told

    def _block(self, offset: int, line: JournalLine) -> list[Told]:
        """A line of mainspring has one block; events have the rest."""
        (reply,) = self._book.take(offset, line)
        index = (line.mainspring or PLAIN).i
        block = self._book.replies.get(reply, {}).get(index)
        if block is None:  # a client changed its id
            return []
        return [WalkedBlock(reply, index, block, parse_timestamp(line.timestamp), line.uuid)]

    def _blocks(self, offset: int, line: JournalLine) -> list[Told]:
        """A line of another program may have several blocks, with usage and stop reason."""
        spoke = spoke_of(line)
        shared = spoke.id or line.uuid
        known = set(self._book.replies.get(shared, ()))
        self._book.take(offset, line)
        blocks = self._book.replies[shared]
        at, usage, stop = parse_timestamp(line.timestamp), usage_from_api(spoke.usage), spoke.stop_reason or ""
        model = spoke.model or ""
        return [
            WalkedBlock(shared, place, blocks[place], at, line.uuid, model, usage, stop)
            for place in sorted(blocks.keys() - known)
        ]

    def _payload(self, name: str) -> bytes | None:
        return self.reader.payload(name)

    def _drop(self, name: str) -> None:
        if self._forget:
            self._book.said.pop(name, None)

    # --- our own lines ---

    def _record(self, line: JournalLine) -> Told | None:
        if line.event:
            return self._event(line)
        if line.checkpoint and line.standing is not None:
            return self._checkpoint(line, line.standing)
        if not line.record:
            return None
        record = record_of(line)
        if isinstance(record, ConfigRecord):
            self.config = record.config
        return WalkedNote(record)

    def _event(self, line: JournalLine) -> WalkedEvent:
        before = self.state
        if not self.lost:
            try:
                return self._stepped(line, before)
            except (MainspringError, AssertionError, MissingReferenceError, *Unreadable) as error:
                self.lost = f"event {line.n}: {str(error)[:UNTOLD] or type(error).__name__}"
        self.n = line.n
        return WalkedEvent(event_of(line), line.n, None)

    def _stepped(self, line: JournalLine, before: State) -> WalkedEvent:
        if line.n != self.n + 1:
            raise MissingReferenceError(line.cut or f"it follows event {self.n}")
        event = self._book.event(line)
        taken = step(before, event, self.config)
        self.state = taken.state
        self.n = line.n
        self._folded = self._folded or (
            isinstance(event, Compacted | ContextReady) and any(isinstance(edit, Fold) for edit in event.edits)
        )
        self._let_go(line, event)
        self._made = {update.message.id for update in taken.updates if isinstance(update, Appended)}
        return WalkedEvent(event, line.n, taken, before)

    def _let_go(self, line: JournalLine, event: Event) -> None:
        """Drops what an event has moved into the state from the decoder."""
        for name in (*line.messages, *line.results):
            self._drop(name)
        match event:
            case Replied():
                reply: Assistant | None = event.reply
            case CallFailed():
                reply = event.kept
            case Submitted() | Aborted():
                reply = event.partial
            case _:
                reply = None
        if reply is not None and self._forget:
            self._book.replies.pop(reply.id, None)

    def _checkpoint(self, line: JournalLine, standing: CheckpointExtras) -> WalkedCheckpoint:
        walked = WalkedCheckpoint(line.checkpoint, standing.resumed, bool(self.lost), self.reader)
        if standing.resumed and standing.added is not None:
            self._go_on(standing, walked.decode())
        elif self._forget and self._folded and not self.lost:
            self._folded, history = False, self.state.history
            self.state = replace(self.state, history=history.forget(out_of_view(history, self.state.edits)))
        return walked

    def _go_on(self, standing: CheckpointExtras, saved: Checkpoint | None) -> None:
        """A process resumed from this checkpoint: its history is what the checkpoint lists."""
        known = {message.id: message for message in self.state.history}
        try:
            history = History([known.get(name) or self._message(name) for name in standing.added or ()])
            if self.lost and saved is not None:
                edits = self._book.edits(saved.state.edits)
                self.state, self.lost = replace(saved.state, history=history, edits=edits), ""
            elif not self.lost:
                edits = () if standing.resumed == "conversation" else self.state.edits
                anew = saved is not None and standing.resumed in ANEW
                self.state = replace(saved.state if saved and anew else self.state, history=history, edits=edits)
        except MissingReferenceError as missing:
            if self._forget:
                raise MessagesForgottenError from missing
            self.lost = self.lost or f"a checkpoint refers to {missing}, which is missing"
        self.n, self._folded = standing.n, True
        self.config = standing.config or self.config

    def _message(self, name: str) -> Message:
        return self._book.message(name)
