"""Replay: runs the events of a file through `step`, and collects what no event has reported yet."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import msgspec
from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.effects import CallModel
from mainspring.core.errors import MainspringError
from mainspring.core.events import Aborted, Replied, Submitted, ToolsDone
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Stop, Text, ToolResult
from mainspring.core.pairing import find_unpaired_ids, open_calls
from mainspring.core.state import Checkpoint, State, decode_checkpoint
from mainspring.core.step import step
from mainspring.core.updates import BlockKind
from mainspring.core.view import Edit, Fold, view
from mainspring.messages_api import Unreadable, block_id
from mainspring.sessions.decoder import LoadedSession, MissingReferenceError, TranscriptDecoder, standing_for
from mainspring.sessions.foreign_turns import ForeignLines, ForeignTurns
from mainspring.sessions.line_format import (
    CheckpointExtras,
    agents_cost,
    note_agent,
    note_break,
    note_replies,
    note_side_calls,
    note_usage,
)
from mainspring.sessions.line_parser import JournalLine, note_names, record_of
from mainspring.sessions.parent_links import KINDS
from mainspring.sessions.paths import live_file
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.records import (
    AgentRecord,
    CommandRecord,
    CommandState,
    ConfigRecord,
    IntentRecord,
    PolicyRecord,
    PrefixRecord,
    SideCallsRecord,
)

ANEW = frozenset({"fork", "conversation"})  # how a state was found: none of the events before led to it
MERGED = "merged"  # how a state was found: from the records, and from turns of another program


class UnusableReplayError(Exception):
    """This way of finding the state does not work; there are others."""


def saved_in(line: JournalLine | None) -> Checkpoint | None:
    """The checkpoint of a line; None if there is none that can be read."""
    try:
        return decode_checkpoint(bytes(line.checkpoint)) if line is not None and line.checkpoint else None
    except Unreadable:
        return None


class JournalReplay:
    def __init__(self, reader: JournalReader, book: TranscriptDecoder, config: Config | None) -> None:
        self._reader = reader
        self._book = book
        self.state = State(History())
        self.standing = CheckpointExtras()
        self._config = config or Config()
        self._commands: dict[str, CommandRecord] = {}
        self._results: dict[str, ToolResult] = {}  # by call, since the last event with results
        self._intents: dict[str, None] = {}
        self._foreign = ForeignLines(reader, book)
        self._recent: deque[tuple[str, list[str]]] = deque(maxlen=50)  # the last lines: uuid, ids of messages

    def begin(self, state: State, standing: CheckpointExtras) -> None:
        self.state, self.standing = state, standing
        self._config = standing.config or self._config
        self._commands = {command.id: command for command in standing.commands}
        self._earlier = standing.spent - state.totals.cost
        self._book.close({message.id for message in state.history})
        self._note_checkpoint(standing)

    def run(self, start: int) -> None:
        for offset, line in self._reader.lines(start):
            if line.type != "mainspring":
                note_names(line, self.standing)
                self.look_at(offset, line)
            elif line.event:
                self._event(line)
            elif line.record:
                self._record(line)
            elif line.checkpoint and line.standing is not None and offset != start:
                self._pass(line, line.standing)

    def look_at(self, offset: int, line: JournalLine) -> None:
        """Process a line of the conversation; or, before a checkpoint, what tells how a reply ended and which calls
        started."""
        if line.type == "mainspring":
            self._look_at_ours(line)
            return
        try:
            ids = self._book.take(offset, line)
        except Unreadable as error:
            self._reader.warn(f"message '{line.uuid}': {error}, skipped")
            return
        if line.type in KINDS:
            self._foreign.note(offset, line, ids)
        if ids:
            self._recent.append((line.uuid, ids))
        for name in ids:
            message = self._book.said.get(name)
            if isinstance(message, ToolResult):
                self._results[message.call_id] = message

    def _look_at_ours(self, line: JournalLine) -> None:
        self._foreign.account_for((*line.messages, *line.results))
        if line.event:
            try:
                self._book.event(line)
            except MissingReferenceError:
                pass  # of an event that began before the part that we read
            except Unreadable as error:
                self._reader.warn(f"event {line.n}: {error}, skipped")
        elif line.standing is not None:
            self._note_checkpoint(line.standing)
        elif b'"IntentRecord"' in bytes(line.record)[:24]:
            self._record(line)

    def _note_checkpoint(self, standing: CheckpointExtras) -> None:
        self._foreign.account_for(standing.added or ())
        if standing.resumed:
            self._foreign.decide(standing.seen)

    def _event(self, line: JournalLine) -> None:
        if line.n != self.standing.n + 1:
            raise UnusableReplayError(line.cut or f"event {line.n} follows event {self.standing.n}")
        try:
            event = self._book.event(line)
            if isinstance(event, Submitted):
                self._earlier += self.state.totals.cost
            self.state = step(self.state, event, self._config).state
        except (MainspringError, AssertionError, *Unreadable) as error:
            raise UnusableReplayError(f"event {line.n}: {error}") from error
        self._foreign.account_for((*line.messages, *line.results))
        self.standing.n = line.n
        self.standing.unbooked -= agents_cost(event)
        note_usage(self.standing, event)
        self.standing.first = self.standing.first or next(iter((*line.messages, *line.results)), "")
        for name in line.messages:
            self._commands.pop(name, None)  # promoted, though the record that says so may be missing
        if isinstance(event, Submitted | ToolsDone | Aborted):
            self._results, self._intents = {}, {}
        if isinstance(event, Replied):
            self.standing.turns += 1

    def _record(self, line: JournalLine) -> None:
        try:
            record = record_of(line)
        except (msgspec.ValidationError, *Unreadable) as error:
            self._reader.warn(f"a record cannot be read: {error}")
            return
        match record:
            case ConfigRecord():
                self._config = self.standing.config = record.config
            case PolicyRecord():
                self.standing.policy = record
            case CommandRecord(state=CommandState.QUEUED):
                self._commands[record.id] = record
            case CommandRecord():
                self._commands.pop(record.id, None)
            case IntentRecord():
                self._intents[record.call.id] = None
            case AgentRecord():
                note_agent(self.standing, record)
            case PrefixRecord():
                note_break(self.standing, record)
            case SideCallsRecord():
                note_side_calls(self.standing, record)
            case _:
                pass

    def _pass(self, line: JournalLine, standing: CheckpointExtras) -> None:
        """A checkpoint along the way. If a process began with it, the history was exactly what it says."""
        self._note_checkpoint(standing)
        if standing.resumed and standing.added is not None:
            history = History([self._book.message(name) for name in standing.added])
            self.state = replace(self.state, history=history, edits=self._edits_at(line, standing))
            if standing.resumed in ANEW and (saved := saved_in(line)) is not None:
                # The breaker belongs to the session before: no event of this file reports it.
                self.state = replace(self.state, compaction=saved.state.compaction)
            if standing.resumed == MERGED:  # nothing is open any more
                self.state = replace(self.state, pending=None, waiting_for=None)
            self.standing.first = standing.first
        self.standing.prompt = standing.prompt or self.standing.prompt

    def _edits_at(self, line: JournalLine, standing: CheckpointExtras) -> tuple[Edit, ...]:
        if standing.resumed == "conversation":
            return ()
        if standing.resumed != MERGED:
            return self.state.edits
        saved = saved_in(line)  # no event reports a summary that another program has made
        if saved is None:
            raise UnusableReplayError(
                "turns of another program were added to it, and the edits for them cannot be read"
            )
        return self._book.edits(saved.state.edits)

    # --- the result ---

    def loaded(self, how: str) -> LoadedSession:
        state = self.state
        partial, open_text = self._partial()
        calls = open_calls(state.history) if partial is None else partial.calls
        if wrong := set(find_unpaired_ids(view(state.history, state.edits))) - {call.id for call in calls}:
            raise UnusableReplayError(f"call '{wrong.pop()}' and its result do not fit")
        runnable = [call for call in calls if call.defect is None]
        results = tuple([self._results[call.id] for call in runnable if call.id in self._results])
        turns = self._foreign.turns([*state.history, *results, *([] if partial is None else [partial])])
        if turns is not None:
            return self._merged(turns, self._cut_off(partial, open_text, results))
        rest = [call for call in runnable if call.id not in self._results]
        kept = {message.id for message in (*state.history, *results)} | {partial.id if partial else ""}
        return LoadedSession(
            self._reader.file,
            how,
            state,
            self._standing(state, how, kept),
            partial=partial,
            results=results,
            unfinished=tuple([call for call in rest if call.id in self._intents]),
            unstarted=tuple([call for call in rest if call.id not in self._intents]),
            made=tuple([message for message in state.history if message.id not in self._book.offsets]),
            summaries=frozenset(self._summaries(state)),
            open_text=open_text,
        )

    def _merged(self, turns: ForeignTurns, cut_off: list[Message]) -> LoadedSession:
        """With the later turns of another program: none of our calls stay open."""
        known = list(self.state.history)
        if open_calls(self.state.history):
            begun = max(place for place, message in enumerate(known) if isinstance(message, Assistant))
            known, cut_off = known[:begun], [*known[begun:], *cut_off]
        found = turns.behind(known, cut_off, self.state.edits, set(self._intents))
        state = replace(self.state, history=History(found.messages), edits=found.edits, pending=None, waiting_for=None)
        standing = self._standing(state, MERGED, {message.id for message in found.messages})
        ours = {message.id for message in (*self.state.history, *cut_off)}
        note_replies(standing, [message for message in found.messages if message.id not in ours])
        return LoadedSession(
            self._reader.file,
            MERGED,
            state,
            replace(standing, leaf=turns.leaf),
            made=tuple([message for message in found.messages if message.id not in self._book.offsets]),
            summaries=frozenset(self._summaries(state)),
        )

    def _cut_off(self, partial: Assistant | None, open_text: int, results: tuple[ToolResult, ...]) -> list[Message]:
        """The messages of an unfinished reply. Text that was still streaming has no line: it gets a separate one, so
        that no line must be written twice."""
        if partial is None:
            return list(results)
        reply = replace(partial, stop=Stop.UNFINISHED)
        if not open_text or len(reply.blocks) == open_text:
            return [reply, *results]
        rest = replace(reply, blocks=reply.blocks[-open_text:], id=block_id(reply.id, len(reply.blocks) - open_text))
        return [replace(reply, blocks=reply.blocks[:-open_text]), *results, rest]

    def _summaries(self, state: State) -> set[str]:
        return {edit.summary.id for edit in state.edits if isinstance(edit, Fold)} & self._book.said.keys()

    def _standing(self, state: State, how: str, kept: set[str]) -> CheckpointExtras:
        named = kept | self._summaries(state)
        offsets = self._book.offsets
        return standing_for(
            self.standing,
            state,
            leaf=self._leaf(named),
            seen=self._foreign.last,
            resumed=how,
            start=min([offsets[name] for name in named if name in offsets], default=0),
            spent=self._earlier + state.totals.cost,
            commands=tuple([each for each in self._commands.values() if each.id not in kept]),
        )

    def _leaf(self, kept: set[str]) -> str | None:
        """The last line that belongs to the conversation. A line whose event was torn off does not."""
        for uuid, ids in reversed(self._recent):
            if any(name in kept for name in ids):
                return uuid
        return self.standing.leaf

    def _partial(self) -> tuple[Assistant | None, int]:
        """The reply that was streaming, with the unfinished text; and whether there was such text."""
        pending, waiting = self.state.pending, self.state.waiting_for
        if pending is not None and pending.blocks:
            return pending, 0  # shown, and neither kept nor withdrawn yet
        if not isinstance(waiting, CallModel):
            return None, 0
        reply_id, index, text = read_live(self._reader.file)
        if self._book.told(reply_id):
            reply_id, text = "", ""
        if self._book.open:
            reply_id, text = self._book.open[-1], text if reply_id == self._book.open[-1] else ""
        blocks = self._book.blocks_of(reply_id)
        open_text = (Text(text),) if text and index == len(blocks) else ()
        if not reply_id or not (blocks or open_text):
            return None, 0
        model = waiting.request.model
        reply = Assistant((*blocks, *open_text), model, Stop.UNFINISHED, id=reply_id, at=self.state.now.at)
        return reply, len(open_text)


def read_live(file: Path) -> tuple[str, int, str]:
    """The last block that was shown and not finished: its reply, its position, and its text, if it is text."""
    try:
        data = Path(live_file(file)).read_bytes()
    except OSError:
        return "", 0, ""
    reply_id, index, text = "", 0, list[str]()
    for line in data.split(b"\n"):
        try:
            reply, place, kind, piece = msgspec.json.decode(line, type=tuple[str, int, str, str])
        except Unreadable:
            continue
        if (reply, place) != (reply_id, index):
            reply_id, index, text = reply, place, []
        if kind == BlockKind.TEXT:
            text.append(piece)
    return reply_id, index, "".join(text)
