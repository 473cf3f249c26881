"""A session as a list of what was said and decided, turn by turn: what `fork` can cut and `compare` can compare.

    transcript = read_transcript(file)
    transcript.turns[2].asked          # what the model was asked with, when it wrote its third reply

For files of mainspring the list comes from the replayed core, so replies that were withdrawn are not in it. Where the
core cannot follow (files of other programs, damaged lines) it comes from the lines of the conversation. Turns are
counted over the whole session: turn 3 is the third reply, with the results of its calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from mainspring.core.effects import Finish
from mainspring.core.errors import UsageError
from mainspring.core.events import CallFailed, Compacted, ContextReady, Event, Replied, Submitted
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Block, Message, Origin, Text, Thinking, ToolCall, ToolResult, User
from mainspring.core.money import Usage
from mainspring.core.state import State, Step
from mainspring.core.updates import Boundary
from mainspring.core.value import as_json
from mainspring.core.view import Fold
from mainspring.sessions.paths import Place, id_of
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.records import WithdrawnRecord
from mainspring.viewer.journal_walk import (
    JournalWalk,
    Told,
    WalkedBlock,
    WalkedCheckpoint,
    WalkedEvent,
    WalkedMessage,
    WalkedNote,
    WalkedReset,
)
from mainspring.viewer.spans import WORDS, make_label
from mainspring.viewer.tracer import price_usage

FORK = "fork"  # how a state was found: copied from another session


class ItemKind(StrEnum):
    PROMPT = "prompt"
    MESSAGE = "message"  # another user message: an attachment, an objection of a hook, a request to continue
    REPLY = "reply"
    RESULT = "result"
    COMPACTION = "compaction"
    END = "end"  # of a run, with its terminal reason and cause


class TranscriptItem(Struct):
    kind: ItemKind
    turn: int  # replies so far, this one included
    words: str  # the content that two sessions are compared by: no ids, no times
    about: str = ""  # whose result, which kind of message
    id: str = ""  # of the message, or of the summary
    model: str = ""  # this and the following: of a reply
    usage: Usage = Usage()
    calls: tuple[tuple[str, str], ...] = ()  # of each call: its id, and what it asks for
    spent: int = 0  # nano-dollars of the session so far
    copied: bool = False  # from the session that this one was forked from


class TranscriptTurn(Struct):
    """Where the session can be cut. States are None where the core cannot follow: cut at the message instead."""

    number: int
    item: int  # the place of its reply among the items
    asked_id: str = ""  # the last message before the reply,
    last_id: str = ""  # and the last one of the turn
    run: int = 0  # the run that it belongs to, from 1
    ready: State | None = None  # before its context was prepared,
    asked: State | None = None  # when the model was called,
    done: State | None = None  # and with its results


class Transcript(Struct):
    file: Path
    items: list[TranscriptItem] = []
    turns: list[TranscriptTurn] = []
    run_starts: list[int] = []  # of each run: how many turns were before it
    notes: list[str] = []  # what could not be read
    spent: int = 0  # nano-dollars
    unpriced: int = 0  # replies without a known price
    results: dict[str, ToolResult] = {}  # by call
    is_replayed: bool = False  # the core could follow at least a part

    @property
    def id(self) -> str:
        return id_of(self.file)


def read_transcript(file: Place) -> Transcript:
    """Raises OSError if the file cannot be read, UsageError if it contains no conversation."""
    with JournalReader(Path(file)) as reader:
        builder = TranscriptBuilder(Transcript(Path(file)), JournalWalk(reader, forget=False))
        for offset, line in reader.lines():
            for told in builder.walk.take(offset, line):
                builder.take(told)
        made = builder.finish()
        lost = [f"cannot replay from here on: {builder.walk.lost}"] if builder.walk.lost else []
        made.notes = [make_label(note, WORDS) for note in (*reader.warnings, *lost)]
    if not made.items:
        raise UsageError(f"'{file}' contains no session")
    return made


class TranscriptBuilder:
    def __init__(self, made: Transcript, walk: JournalWalk) -> None:
        self.made, self.walk = made, walk
        self._known: set[str] = set()  # ids of messages that are in the list, or were withdrawn
        self._unplaced: list[WalkedBlock | WalkedMessage] = []  # lines that no event has placed yet
        self._before = 0  # nano-dollars of earlier runs,
        self._in_run = 0  # and of this one
        self._ready: State | None = None

    # --- lines ---

    def take(self, told: Told) -> None:
        match told:
            case WalkedBlock() | WalkedMessage():
                self._unplaced.append(told)
            case WalkedEvent():
                self._take_event(told)
            case WalkedNote():
                self._take_record(told)
            case WalkedCheckpoint():
                self._take_checkpoint(told)
            case WalkedReset():
                if not self.made.is_replayed:
                    self._place_lines()
                    self._add(ItemKind.COMPACTION, "summary")
            case _:
                assert_never(told)

    def finish(self) -> Transcript:
        self._place_lines()
        self.made.spent = self._spent
        return self.made

    @property
    def _spent(self) -> int:
        return self._before + self._in_run

    def _take_record(self, note: WalkedNote) -> None:
        if isinstance(note.record, WithdrawnRecord):
            self._known.add(note.record.reply_id)
            self._drop_known()

    def _take_event(self, happened: WalkedEvent) -> None:
        event, step, before = happened.event, happened.step, happened.before
        if isinstance(event, Submitted):
            self.made.run_starts.append(len(self.made.turns))
        if step is None or before is None:
            self._place_lines()
            return
        self.made.is_replayed = True
        if isinstance(event, Submitted):
            self._before, self._ready = self._before + before.totals.cost, None
        if isinstance(event, ContextReady) and self._ready is None:
            self._ready = replace(before, history=step.state.history)  # with the queued prompts and attachments
        self._in_run = step.state.totals.cost
        added = step.state.history.since(len(before.history))
        self._add_all(added, before, step.state)
        self._note_settled(event)
        self._drop_known()
        self._add_decisions(event, step)

    def _note_settled(self, event: Event) -> None:
        """Some lines are no messages of the history: a summary is an edit, and the core withholds a reply that
        failed."""
        edits = event.edits if isinstance(event, ContextReady | Compacted) else ()
        self._known |= {edit.summary.id for edit in edits if isinstance(edit, Fold)}
        if isinstance(event, CallFailed) and event.kept is not None:
            self._known.add(event.kept.id)
        elif isinstance(event, Replied):
            self._known.add(event.reply.id)

    def _add_decisions(self, event: Event, step: Step) -> None:
        folds = [edit for edit in event.edits if isinstance(edit, Fold)] if isinstance(event, Compacted) else []
        for update in step.updates:
            if isinstance(update, Boundary):
                self._add(ItemKind.COMPACTION, update.layer, id=folds[-1].summary.id if folds else "")
        if isinstance(step.effect, Finish):
            self._add(ItemKind.END, f"{step.effect.terminal}, {step.effect.cause}", about=step.effect.detail)

    def _take_checkpoint(self, saved: WalkedCheckpoint) -> None:
        """A process began with exactly these messages: those that are new here were copied, or another program wrote
        them."""
        if not saved.resumed or self.walk.lost:
            return
        new = [message for message in self.walk.state.history if message.id not in self._known]
        begin = len(self.made.items)
        self._add_all(new, None, None)
        self._unplaced = []
        if saved.resumed == FORK:
            self._before = self._in_run = 0
            self.made.unpriced = 0
            for item in self.made.items[begin:]:
                item.copied, item.spent = True, 0

    # --- messages ---

    def _add_all(self, messages: Iterable[Message], before: State | None, after: State | None) -> None:
        """`before` and `after`: of the event that added them; None: no event did."""
        given = list(messages)
        for message in given:
            self._known.add(message.id)
            match message:
                case User():
                    is_prompt = message.origin is Origin.PROMPT
                    nonce = self.walk.config.nonce
                    words = message.text.replace(nonce, "") if nonce else message.text
                    media = sum(not isinstance(part, Text) for part in message.content)
                    words += f" [{media} media]" * bool(media)
                    kind = ItemKind.PROMPT if is_prompt else ItemKind.MESSAGE
                    self._add(kind, words, about=message.origin, id=message.id)
                case Assistant():
                    self._add_reply(message, before)
                case ToolResult():
                    self._add_result(message)
                case _:
                    assert_never(message)
            if self.made.turns and not isinstance(message, User):
                self.made.turns[-1].last_id = message.id
        self._close_turn(given, after)

    def _add_reply(self, reply: Assistant, before: State | None) -> None:
        made = self.made
        if before is None:  # no event has counted it
            price = price_usage(reply.usage, reply.model, None)[0]
            self._before, made.unpriced = self._before + (price or 0), made.unpriced + (price is None)
        last = next((item.id for item in reversed(made.items) if item.id), "")
        turn = TranscriptTurn(len(made.turns) + 1, len(made.items), last, run=max(1, len(made.run_starts)))
        turn.asked, turn.ready, self._ready = before, self._ready if before is not None else None, None
        made.turns.append(turn)
        calls = tuple([(call.id, format_call(call)) for call in reply.calls])
        words = "\n".join(map(format_block, reply.blocks))
        self._add(ItemKind.REPLY, words, id=reply.id, model=reply.model, usage=reply.usage, calls=calls)

    def _add_result(self, result: ToolResult) -> None:
        self.made.results[result.call_id] = result
        asked = dict(self.made.items[self.made.turns[-1].item].calls) if self.made.turns else {}
        words = f"error: {result.text}" if result.is_error else result.text
        self._add(ItemKind.RESULT, words, about=asked.get(result.call_id, ""), id=result.id)

    def _close_turn(self, added: list[Message], after: State | None) -> None:
        """The turn ends with its last result, unless more follow. What the same event adds behind that is not part of
        it."""
        ends = [place for place, message in enumerate(added) if not isinstance(message, User)]
        if not ends or not self.made.turns:
            return
        behind = len(added) - 1 - ends[-1]
        done = cut_history(after, len(after.history) - behind) if after is not None else None
        self.made.turns[-1].done = done

    def _add(self, kind: ItemKind, words: str, **given: object) -> None:
        self.made.items.append(TranscriptItem(kind, len(self.made.turns), words, spent=self._spent, **given))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # by name

    # --- where no event says more ---

    def _place_lines(self) -> None:
        """Adds the lines that no event has placed, in their order; results in the order of their calls."""
        self._drop_known()
        unplaced, self._unplaced = self._unplaced, []
        messages: list[Message] = []
        for told in unplaced:
            if isinstance(told, WalkedMessage):
                messages.append(told.message)
            elif messages and messages[-1].id == told.reply and isinstance(reply := messages[-1], Assistant):
                messages[-1] = replace(reply, blocks=(*reply.blocks, told.block), usage=told.usage)
            else:
                messages.append(Assistant((told.block,), told.model, usage=told.usage, id=told.reply, at=told.at))
        if not self.made.is_replayed:
            self._count_runs(messages)
        self._add_all(messages, None, None)

    def _count_runs(self, messages: list[Message]) -> None:
        """A file of another program has no events: a run begins with its prompt."""
        replies = len(self.made.turns)
        for message in messages:
            replies += isinstance(message, Assistant)
            if isinstance(message, User) and message.origin is Origin.PROMPT:
                self.made.run_starts.append(replies)

    def _drop_known(self) -> None:
        known = self._known
        self._unplaced = [
            told
            for told in self._unplaced
            if (told.reply if isinstance(told, WalkedBlock) else told.message.id) not in known
        ]


def cut_history(state: State, length: int) -> State:
    if length == len(state.history):
        return state
    return replace(state, history=History(list(state.history)[: length - state.history.begin]))


def format_block(block: Block) -> str:
    match block:
        case Text() | Thinking():
            return block.text
        case ToolCall():
            return format_call(block)
        case _:
            return f"[{type(block).__name__}]"


def format_call(call: ToolCall) -> str:
    """The same for the same call, whatever its id."""
    return f"{call.name} {as_json({name: call.input[name] for name in sorted(call.input)}).decode(errors='replace')}"
