"""The encoder: turns records into lines. It knows what the file contains, so that nothing is written twice.

Pure apart from its small state: the current reply and results, the inbox, some totals. `journal.py` writes what it
returns with one `write`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from msgspec.structs import replace

from mainspring.core.effects import CompactionKind, Finish
from mainspring.core.events import (
    Aborted,
    CallFailed,
    Compacted,
    ContextReady,
    Event,
    HooksDone,
    Replied,
    Submitted,
    ToolsDone,
)
from mainspring.core.messages import Assistant, Block, Message, Origin, ToolResult, User
from mainspring.core.state import MANUAL, Checkpoint, State, checkpoint, encode_checkpoint, took_effect
from mainspring.core.view import Edit, Fold
from mainspring.messages_api import as_line, block_id, one_line
from mainspring.sessions.line_format import (
    CHECKPOINT,
    CheckpointExtras,
    ConversationLine,
    Envelope,
    Payload,
    agents_cost,
    block_line,
    boundary_line,
    encode_conversation_line,
    event_line,
    last_prompt_line,
    name_lines,
    note_agent,
    note_break,
    note_side_calls,
    note_usage,
    record_line,
    result_line,
    user_line,
)
from mainspring.sessions.records import (
    AgentRecord,
    BlockRecord,
    CheckpointRecord,
    CommandRecord,
    CommandState,
    ConfigRecord,
    EventRecord,
    IntentRecord,
    OutcomeRecord,
    PolicyRecord,
    PrefixRecord,
    Record,
    SaidRecord,
    SideCallsRecord,
    WithdrawnRecord,
)

REPLY = 14  # characters that the ids of a reply's lines have in common
LONGEST_PROMPT = 200  # characters of the last prompt, for lists of sessions


class TranscriptEncoder:
    def __init__(self, envelope: Envelope, standing: CheckpointExtras | None = None) -> None:
        self._envelope = envelope
        self._common = envelope.encode_fields()
        self.standing = standing or CheckpointExtras(
            used=()
        )  # as in the last checkpoint; `n`, `leaf` and so on are kept up to date
        self.payloads: list[Payload] = []  # to be written before the lines that name them
        self.listed = 0  # messages of the history that checkpoints have named
        self.blocks: dict[str, list[Block]] = {}  # of replies without an event so far
        self.messages: dict[str, User | ToolResult] = {}  # the latest ones in the file
        self.summaries: set[str] = set()  # ids of those in the file
        self.fronts: set[str] = set()  # ids of messages before which nothing is in view
        self._before_reply: dict[str, str | None] = {}  # the parent line of a reply
        self._earlier = self.standing.spent  # by the runs before this one,
        self._this_run = 0  # and by this one, as last reported
        self._checkpoint_size = 0
        self._model = ""  # the model of the calls, as far as the events say

    def lines(self, record: Record) -> bytes:
        match record:
            case BlockRecord():
                return self._block(record)
            case OutcomeRecord(result=message) | SaidRecord(message=message):
                return self._message(message)
            case EventRecord():
                return self._event(record.event)
            case IntentRecord():
                return record_line(replace(record, call=replace(record.call, input={})))
            case CommandRecord():
                return self._command(record)
            case CheckpointRecord():
                return self._checkpoint(record)
            case PolicyRecord() | AgentRecord() | PrefixRecord() | SideCallsRecord():
                self._note(record)
            case ConfigRecord() if record.config == self.standing.config:
                return b""
            case ConfigRecord():
                self.standing.config = record.config
            case WithdrawnRecord():
                self._withdraw(record.reply_id)
            case _:
                pass
        return record_line(record)

    def _note(self, record: PolicyRecord | AgentRecord | PrefixRecord | SideCallsRecord) -> None:
        match record:
            case AgentRecord():
                note_agent(self.standing, record)
            case PrefixRecord():
                note_break(self.standing, record)
            case SideCallsRecord():
                note_side_calls(self.standing, record)
            case PolicyRecord():
                self.standing.policy = record
            case _:
                assert_never(record)

    # --- conversation lines ---

    def _speak(self, spoken: ConversationLine) -> bytes:
        """Encode the next line of the chain."""
        line, payload = encode_conversation_line(spoken, self.standing.leaf, self._common)
        if payload is not None:
            self.payloads.append(payload)
        self.standing.leaf = spoken.uuid
        return line

    def _message(self, message: User | ToolResult) -> bytes:
        if self.messages.get(message.id) == message:
            return b""  # it came with its event
        self.messages[message.id] = message
        if isinstance(message, ToolResult):
            return self._speak(result_line(message))
        return self._speak(user_line(message))

    def _messages(self, messages: tuple[User | ToolResult, ...]) -> bytes:
        return b"".join([self._message(message) for message in messages])

    def _block(self, record: BlockRecord) -> bytes:
        known = self.blocks.setdefault(record.reply_id, [])
        if not known:
            self._before_reply[record.reply_id] = self.standing.leaf
        known[record.index :] = [record.block]
        model = record.model or self._model
        spoken = block_line(record.reply_id, record.index, record.block, record.at, model=model, usage=record.usage)
        return self._speak(spoken)

    def _reply(self, reply: Assistant | None) -> bytes:
        """The blocks of a reply that the file does not contain yet: after a crash, text that was still streaming."""
        if reply is None:
            return b""
        known = self.blocks.get(reply.id, [])
        if known == list(reply.blocks):
            return b""
        missing = [n for n, block in enumerate(reply.blocks) if n >= len(known) or known[n] != block]
        return b"".join(
            [
                self._block(BlockRecord(reply.id, n, reply.blocks[n], reply.at, reply.model, reply.usage))
                for n in missing
            ]
        )

    def _withdraw(self, reply_id: str) -> None:
        """Continue the conversation from before the reply, if nothing has followed it."""
        leaf = self.standing.leaf or ""
        if reply_id in self._before_reply and leaf[:REPLY] == reply_id[:REPLY]:
            self.standing.leaf = self._before_reply[reply_id]

    def take_over(self, messages: Iterable[Message]) -> bytes:
        """Messages that will have no event: of another session, or created because a file was damaged.

        An event will still report an interrupted reply and its results. They are in the file, and the encoder remembers
        them: if a line were written twice, it would be its own parent, and a reader that follows the links would lose
        everything before it.
        """
        known = dict(self.messages)
        written = b"".join([self._whole(message) for message in messages])
        self.messages = known
        return written

    def _whole(self, message: Message) -> bytes:
        if not isinstance(message, Assistant):
            return self._message(message)
        last = len(message.blocks) - 1
        lines = [
            block_line(
                message.id,
                n,
                block,
                message.at,
                model=message.model,
                usage=message.usage,
                stop=message.stop if n == last else None,
            )
            for n, block in enumerate(message.blocks)
        ]
        return b"".join([self._speak(line) for line in lines])

    # --- events ---

    def _event(self, event: Event) -> bytes:
        self.standing.n += 1
        self.standing.unbooked -= agents_cost(event)
        note_usage(self.standing, event)
        content, messages, results, reply, edits = b"", list[str](), list[str](), None, b""
        husk = event
        match event:
            case Submitted():
                self._begin(event)
                reply = event.partial
                content = self._reply(reply) + self._messages(event.results) + self._messages(event.messages)
                messages, results = message_ids(event.messages), message_ids(event.results)
                husk = replace(event, messages=(), results=(), partial=without_content(reply))
            case ContextReady():
                self._model = event.model.name if event.model else self._model
                if event.injected or event.edits:
                    content, messages = self._messages(event.injected), message_ids(event.injected)
                    edits, kept = self._edits(event.edits, event)
                    husk = replace(event, injected=(), edits=kept)
            case Replied():
                reply = event.reply
                content, husk = self._reply(reply), replace(event, reply=replace(reply, blocks=()))
                self.standing.turns += 1
            case CallFailed():
                reply = event.kept
                content, husk = self._reply(reply), replace(event, kept=without_content(reply))
            case ToolsDone():
                content, results = self._messages(event.results), message_ids(event.results)
                husk = replace(event, results=())
            case Aborted():
                reply = event.partial
                content, results = self._reply(reply) + self._messages(event.results), message_ids(event.results)
                husk = replace(event, partial=without_content(reply), results=())
            case Compacted():
                edits, kept = self._edits(event.edits, event)
                husk = replace(event, edits=kept)
            case HooksDone():
                pass
        if not self.standing.first:
            self.standing.first = next(iter((*messages, *results)), "")
            self.fronts.add(self.standing.first)
        blocks = len(reply.blocks) if reply is not None else 0
        self._forget(event)
        return content + edits + event_line(self.standing.n, husk, blocks, messages, results)

    def _begin(self, event: Submitted) -> None:
        self._earlier, self._this_run = self._earlier + self._this_run, 0
        prompts = [message.shown_text for message in event.messages if message.origin is Origin.PROMPT]
        self.standing.prompt = prompts[-1][:LONGEST_PROMPT] if prompts else self.standing.prompt

    def _forget(self, event: Event) -> None:
        """Forget what an event has reported: it is in the conversation, and will not be reported again."""
        if isinstance(event, Submitted | Replied | CallFailed | Aborted):
            self.blocks = {}
        if isinstance(event, Submitted | ToolsDone | Aborted):
            self.messages, self._before_reply = {}, {}

    def _edits(self, edits: tuple[Edit, ...], event: ContextReady | Compacted) -> tuple[bytes, tuple[Edit, ...]]:
        """A summary of everything before is a line of the conversation; readers begin there. Other layers' edits stay
        in our own line: Claude Code would take a boundary of theirs for its own, and drop everything before it."""
        content, kept = b"", list[Edit]()
        summed_up = event if isinstance(event, Compacted) and is_summary(event) else None
        for edit in edits:
            front = isinstance(edit, Fold) and edit.first in self.fronts and edit.summary.id
            if isinstance(edit, Fold) and front and summed_up is not None:
                content += self._boundary(edit, summed_up)
                kept.append(without_words(edit))
            else:
                kept.append(edit)
        return content, tuple(kept)

    def _boundary(self, fold: Fold, event: Compacted) -> bytes:
        summary = fold.summary
        uuid, old_leaf = block_id(summary.id, 1), self.standing.leaf
        line = boundary_line(uuid, event, old_leaf, self._common, kept_after=fold.last)
        self.standing.leaf = uuid
        self.summaries.add(summary.id)
        return one_line(line) + self._speak(user_line(replace(summary, origin=Origin.SUMMARY)))

    # --- the inbox, checkpoints ---

    def _command(self, record: CommandRecord) -> bytes:
        waiting = {command.id: command for command in self.standing.commands}
        if record.state is CommandState.QUEUED:
            waiting[record.id] = record
        else:
            waiting.pop(record.id, None)
            record = replace(record, text="")  # it is in the conversation
        self.standing.commands = tuple(waiting.values())
        return record_line(record)

    def _checkpoint(self, record: CheckpointRecord) -> bytes:
        added: tuple[str, ...] | None = None
        if record.history is not None:
            added = tuple([record.history[place].id for place in range(self.listed, len(record.history))])
            self.listed = len(record.history)
        self._this_run = record.checkpoint.state.totals.cost
        self.standing.spent = self._earlier + self._this_run
        self.standing.added, self.standing.resumed = added, ""
        ends = isinstance(record.checkpoint.state.waiting_for, Finish)
        return (self._names() if ends else b"") + self.checkpoint_line(record.checkpoint)

    def _names(self) -> bytes:
        standing, session_id = self.standing, self._envelope.session_id
        prompt = last_prompt_line(standing.prompt, standing.leaf, session_id) if standing.prompt else b""
        return prompt + name_lines(standing.title, standing.tag, session_id)

    def checkpoint_line(self, saved: Checkpoint) -> bytes:
        edits = tuple([without_words(edit) if self._stands(edit) else edit for edit in saved.state.edits])
        try:
            encoded = encode_checkpoint(replace(saved, state=replace(saved.state, edits=edits)))
        except (UnicodeEncodeError, OverflowError):  # in structured output; the events are enough
            return b""
        line = one_line(b'%b%b,"standing":%b}\n' % (CHECKPOINT, encoded, as_line(self.standing)))
        self._checkpoint_size = len(line)
        return line

    def _stands(self, edit: Edit) -> bool:
        return isinstance(edit, Fold) and edit.summary.id in self.summaries

    def begin_with(self, made: Iterable[Message], state: State) -> bytes:
        """What a process writes first when it resumes a session: the messages it created, and its starting state."""
        self.listed = len(state.history)
        lines = self.take_over(made) + self.checkpoint_line(checkpoint(state))
        self.standing.resumed = ""
        return lines

    def note_checkpoint_end(self, end: int) -> None:
        """The end of the last checkpoint: the next one is read together with the lines between them."""
        self.standing.before, self.standing.start = end - self._checkpoint_size, end


def message_ids(messages: tuple[Message, ...]) -> list[str]:
    return [message.id for message in messages]


def is_summary(event: Compacted) -> bool:
    return bool(event.trigger) and took_effect(CompactionKind.SUMMARY, event, asked=event.trigger == MANUAL)


def without_content(reply: Assistant | None) -> Assistant | None:
    return replace(reply, blocks=()) if reply is not None else None


def without_words(edit: Edit) -> Edit:
    return replace(edit, summary=replace(edit.summary, content=())) if isinstance(edit, Fold) else edit
