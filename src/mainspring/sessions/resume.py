"""Resuming a session: from its last checkpoint, else from its events, else from its conversation.

    loaded, journal = FileJournal.resume(file, envelope)        # or, to leave that file alone:
    journal = FileJournal.fork(fork_session_state(load_session(file), other_file), envelope)

Reading begins at the last checkpoint and goes back only to what is still in view, so the time does not depend on the
length of the session. This module writes nothing.

`check_drops` protects a resume from an earlier message: it may drop only the one turn that the caller means. A caller
that takes a turn back names its prompt (`--resume-drops-turn`). Meanwhile the session may have received more than the
caller has seen: a queued prompt, a subagent's report. That must not be lost silently.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.errors import UsageError
from mainspring.core.history import History
from mainspring.core.messages import Origin, User
from mainspring.core.state import Checkpoint, Compaction, State, for_next_run
from mainspring.core.view import Fold, view
from mainspring.messages_api import Unreadable
from mainspring.sessions.decoder import LoadedSession, MissingReferenceError, TranscriptDecoder, standing_for
from mainspring.sessions.foreign_turns import ForeignRewindError
from mainspring.sessions.line_format import CheckpointExtras, used_by
from mainspring.sessions.line_parser import JournalLine, note_names, record_of, spoke_of, user_messages
from mainspring.sessions.parent_links import KINDS, ChainNode, ParentChain, make_node, repair_conversation
from mainspring.sessions.paths import Place
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.records import ConfigRecord, IntentRecord, PolicyRecord
from mainspring.sessions.replay import JournalReplay, UnusableReplayError, saved_in

BEGINS = {  # messages that begin a turn
    Origin.PROMPT: "another prompt",
    Origin.REPORT: "an agent's report",
    Origin.SUMMARY: "a summary of what came before",
}


class WouldDropMore(UsageError):  # noqa: N818  # it reads as what it says
    """Clients of the pipe match on the first words, with the flag's name (stream-json 1.6)."""

    def __init__(self, why: str, option: str = "--resume-drops-turn") -> None:
        super().__init__(f"Resume rejected by {option}: {why}")
        self.why = why


def check_drops(reader: JournalReader, chain: ParentChain, at: str, prompt: str) -> None:
    """Raises unless every message after `at` belongs to the turn that begins with `prompt`."""
    kept, way = {each.uuid for each in chain.way_to(at)}, chain.way_to()
    if at not in {each.uuid for each in way}:
        raise WouldDropMore(f"message '{at}' is no longer part of the conversation")
    turn, began = "", "the turn before it"  # the turn that a line belongs to, and what began it
    for each in sorted(way, key=lambda each: each.place):
        origin = _origin(reader, each)
        if origin is not None and origin in BEGINS:
            turn, began = each.uuid, BEGINS[origin]
        if each.uuid not in kept and turn != prompt:
            what = f"{began}, '{turn}'," if turn else "no prompt"
            raise WouldDropMore(f"'{each.uuid}' after message '{at}' belongs to {what} and not to '{prompt}'")


def _origin(reader: JournalReader, node: ChainNode) -> Origin | None:
    """The origin of a user message; None if it is none, or cannot be read and so is not in the conversation."""
    line = reader.line_at(node.offset) if node.kind == "user" else None
    try:
        messages = user_messages(line, spoke_of(line), None) if line is not None else []
    except Unreadable:
        return None
    said = [message.origin for message in messages if isinstance(message, User)]
    return said[0] if said else None


MOST_TRIES = 3  # checkpoints that are tried before all records are read


def load_session(file: Place, *, config: Config | None = None, at: str = "", drops: str = "") -> LoadedSession:
    """Raises OSError if the file cannot be read, UsageError if it contains no conversation.

    `config` is for files without the configuration of their runs. `at` names the last message, or a line of it, of the
    resumed conversation; later messages stay in the file. With `drops`, these may only be the turn of this prompt, else
    it raises `WouldDropMore`.
    """
    with JournalReader(Path(file)) as reader:
        loaded = _by_conversation(reader, at, drops) if at else _newest(reader, config)
        if loaded.standing.used is None:  # an earlier version has written it, or only another program
            loaded.standing.used = used_by(loaded.state.history)
        if reader.warnings and loaded.how == "conversation" and loaded.standing.n:
            loaded = _to_restate(loaded, reader)
        return loaded._replace(
            size=reader.size, ends_in_mid_line=reader.ends_in_mid_line, warnings=tuple(reader.warnings)
        )


def _to_restate(loaded: LoadedSession, reader: JournalReader) -> LoadedSession:
    """Of a damaged file of ours: the journal writes the rebuilt conversation again, behind what is there. The next
    resume begins with these lines and need not rebuild anything; it could find something else in the damaged ones."""
    messages = view(loaded.state.history, loaded.state.edits)
    state = replace(loaded.state, history=History(messages), edits=())
    start = reader.size + reader.ends_in_mid_line
    standing = standing_for(loaded.standing, state, leaf=None, resumed="conversation", start=start)
    return loaded._replace(state=state, standing=standing, made=messages, summaries=frozenset())


def _newest(reader: JournalReader, config: Config | None) -> LoadedSession:
    try:
        return _by_checkpoint(reader, config) or _by_records(reader, config) or _by_conversation(reader)
    except ForeignRewindError as rewound:
        return _by_conversation(reader, rewound.leaf)


# --- from the last checkpoint ---------------------------------------------------------------------------------


class FileRewrittenError(UnusableReplayError):
    """A client has rewritten the file (stream-json 14.5): the same lines, at other positions than a checkpoint names.

    Nothing is lost, so there is no warning: the events say the same, and take longer to read.
    """


def _by_checkpoint(reader: JournalReader, config: Config | None) -> LoadedSession | None:
    end = reader.size
    for _ in range(MOST_TRIES):
        place = reader.last_checkpoint(end)
        if place < 0:
            return None
        try:
            return _from(reader, place, config)
        except (UnusableReplayError, MissingReferenceError) as why:
            if not isinstance(why, FileRewrittenError):
                reader.warn(f"the checkpoint at byte {place:,} cannot be used: {why}")
        end = place
    return None


def _from(reader: JournalReader, place: int, config: Config | None) -> LoadedSession:
    line = reader.line_at(place)
    saved = saved_in(line)
    if line is None or saved is None or line.standing is None or line.standing.added is None:
        raise UnusableReplayError("it is damaged, of another version, or does not say which messages it holds")
    ids, base = _in_view(reader, saved, line.standing)
    if not reader.is_start(base.start):
        raise FileRewrittenError
    whole = base.resumed != "conversation"  # else some of it was damaged when a process began with it
    book = TranscriptDecoder(reader.payload)
    replay = JournalReplay(reader, book, config)
    for offset, earlier in reader.lines(base.start, place):
        replay.look_at(offset, earlier)
    history = History([book.message(name, whole=whole) for name in ids])
    if len(history) and history[-1].id != saved.last_id:
        raise UnusableReplayError(f"it was taken at message '{saved.last_id}'")
    replay.begin(replace(saved.state, history=history, edits=book.edits(saved.state.edits)), line.standing)
    replay.run(place)
    return replay.loaded("checkpoint")


def _in_view(
    reader: JournalReader, saved: Checkpoint, standing: CheckpointExtras
) -> tuple[list[str], CheckpointExtras]:
    """The ids of the messages to load, back to the last summary of everything; and the checkpoint they begin with."""
    folds = [edit for edit in saved.state.edits if isinstance(edit, Fold) and not edit.summary.content]
    last = folds[-1].last if folds else ""
    at, spans = standing, [standing.added or ()]
    while not at.resumed and at.before >= 0 and not (last and last in spans[-1]):
        line = reader.line_at(at.before)
        if not reader.is_start(at.before) or (line is not None and not line.checkpoint):
            raise FileRewrittenError
        if line is None or line.standing is None or line.standing.added is None:
            raise UnusableReplayError("the one before it is damaged")
        at = line.standing
        spans.append(at.added or ())
    ids = [name for span in reversed(spans) for name in span]
    return ids[ids.index(last) if last in spans[-1] else 0 :], at


# --- from the events ------------------------------------------------------------------------------------------


def _by_records(reader: JournalReader, config: Config | None) -> LoadedSession | None:
    replay = JournalReplay(reader, TranscriptDecoder(reader.payload), config)
    replay.begin(State(History()), CheckpointExtras(used=()))
    try:
        replay.run(0)
        return replay.loaded("records") if replay.standing.n else None
    except (UnusableReplayError, MissingReferenceError) as why:
        reader.warn(f"the events cannot be replayed: {why}")
        return None


# --- from the conversation ------------------------------------------------------------------------------------


def _by_conversation(reader: JournalReader, at: str = "", drops: str = "") -> LoadedSession:
    nodes: list[ChainNode] = []
    book = TranscriptDecoder(reader.payload)
    standing, started, ours = CheckpointExtras(), set[str](), False
    for offset, line in reader.lines():
        try:
            note_names(line, standing)
            if line.type in KINDS and line.uuid:
                nodes.append(make_node(offset, line, len(nodes)))
            elif line.type == "mainspring":
                ours = True
                standing = _known(line, standing, started)
                if line.event and not line.cut:
                    book.learn(line)
        except Unreadable as error:
            reader.warn(f"the line at byte {offset:,}: {error}, skipped")
    chain = ParentChain(nodes)
    if drops:
        check_drops(reader, chain, at, drops)
    return _conversation(reader, book, chain, at, started if ours else None, standing)


def _known(line: JournalLine, standing: CheckpointExtras, started: set[str]) -> CheckpointExtras:
    """What our own lines say, though they are incomplete."""
    if line.standing is not None:
        return line.standing
    standing.n = max(standing.n, line.n)
    record = record_of(line) if line.record else None
    if isinstance(record, IntentRecord):
        started.add(record.call.id)
    elif isinstance(record, ConfigRecord):
        standing.config = record.config
    elif isinstance(record, PolicyRecord):
        standing.policy = record
    return standing


def _conversation(  # noqa: PLR0913, PLR0917  # what the first reading has found
    reader: JournalReader,
    book: TranscriptDecoder,
    chain: ParentChain,
    at: str,
    started: set[str] | None,
    standing: CheckpointExtras,
) -> LoadedSession:
    way, ids = chain.way_to(at), list[str]()
    for each in way:
        line = reader.line_at(each.offset)
        try:
            ids += book.take(each.offset, line) if line is not None else []
        except Unreadable as error:
            reader.warn(f"message '{each.uuid}': {error}, skipped")
    for uuid in chain.broken[:10]:
        reader.warn(f"message '{uuid}' follows one that is not there: using the one before it in the file")
    for uuid in chain.circles[:10]:
        reader.warn(f"message '{uuid}' is among its own parents: the messages before that cycle are unknown")
    messages, made = repair_conversation(book.found(ids), started)
    if not messages:
        raise UsageError(f"'{reader.file}' holds no conversation that can be resumed")
    state = State(History(messages), compaction=_breaker(reader))
    standing = standing_for(
        standing,
        state,
        leaf=max(way, key=lambda each: each.place).uuid,
        seen=chain.last,
        resumed="conversation",
        start=min(each.offset for each in way),
    )
    return LoadedSession(reader.file, "conversation", state, standing, made=tuple(made))


def _breaker(reader: JournalReader) -> Compaction:
    """The compaction breaker belongs to the session, so the last checkpoint has it, even if the rest of that is
    unusable."""
    place = reader.last_checkpoint(reader.size)
    saved = saved_in(reader.line_at(place)) if place >= 0 else None
    return for_next_run(saved.state.compaction) if saved is not None else Compaction()


# --- a fork ---------------------------------------------------------------------------------------------------


def fork_session_state(loaded: LoadedSession, file: Place) -> LoadedSession:
    """The same conversation, as the model sees it now, for a new file. The original file stays unchanged."""
    messages = view(loaded.state.history, loaded.state.edits)
    state = State(History(messages), compaction=for_next_run(loaded.state.compaction))
    kept = CheckpointExtras(config=loaded.config, policy=loaded.policy, prompt=loaded.standing.prompt)
    standing = standing_for(kept, state, resumed="fork")
    return loaded._replace(
        file=Path(file), how="fork", state=state, standing=standing, made=messages, summaries=frozenset()
    )


# Former names, for one release.
fork = fork_session_state
load = load_session
