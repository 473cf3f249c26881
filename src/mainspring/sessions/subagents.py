"""The subagents of a session, for the user: what each was started for, how it ended, its cost, and its session file.

A subagent's file is beside that of its session, with a metadata file that names its type (stream-json 14.4).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from mainspring.core.effects import Finish
from mainspring.core.errors import UsageError
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.reasons import Cause
from mainspring.core.value import Bundle
from mainspring.messages_api import Unreadable, as_line
from mainspring.secrets.held import mask_secrets
from mainspring.secrets.redaction import redact
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.line_format import Envelope
from mainspring.sessions.line_parser import record_of
from mainspring.sessions.paths import agent_file, open_file, size_of
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.records import AgentRecord
from mainspring.sessions.resume import load_session
from mainspring.text import plural, strip_control_characters

if TYPE_CHECKING:
    from mainspring.sessions.decoder import LoadedSession


def open_journal(above: FileJournal, envelope: Envelope, agent_id: str, about: dict[str, str]) -> FileJournal:
    """As safe as that of its session, and mirrored with it. `envelope` is the session's."""
    file = agent_file(above.file, agent_id)
    journal = FileJournal.create(file, replace(envelope, agent_id=agent_id), above.options)
    if journal.stored:
        with suppress(OSError):  # readers do not depend on it
            fd = open_file(meta_file(file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with open(fd, "wb") as meta:  # noqa: PTH123  # see paths.py
                meta.write(mask_secrets(as_line(about)))
            if above.options.mirror is not None:
                above.options.mirror(file, mask_secrets(as_line({"type": "agent_metadata", **about})) + b"\n")
    return journal


def meta_file(file: str) -> str:
    return f"{file.removesuffix('.jsonl')}.meta.json"


BEGIN, END = "agent-", ".jsonl"


class SubagentMeta(msgspec.Struct):
    """The metadata file beside a subagent's file (stream-json 14.4)."""

    agentType: str = ""  # noqa: N815  # as it is written
    description: str = ""


class SubagentSummary(Bundle):
    kind: str
    task: str
    state: str
    cost: int  # nano-dollars
    file: str  # empty: nothing was written


def agent_lines(file: str) -> Iterator[str]:
    """Nothing for a session without subagents."""
    found = agents_of(file)
    if not found:
        return
    yield ""
    yield f"--- {plural(len(found), 'agent')} of this session ---"
    for one in found:
        task = " ".join(strip_control_characters(redact(one.task)).split())
        yield (
            f"{strip_control_characters(one.kind)}: {task or 'no description'} ({one.state}, "
            f"${one.cost / NANOS_PER_USD:.4f})"
        )
        if one.file:
            yield f"  {strip_control_characters(one.file)}"


def agents_of(file: str) -> list[SubagentSummary]:
    """In the order in which they started; for sessions of other programs, those that have a file."""
    known = records_in(file)
    ids = [*known, *[one for one in ids_beside(file) if one not in known]]
    return [describe_subagent(file, one, known.get(one)) for one in ids]


def records_in(file: str) -> dict[str, AgentRecord]:
    """The last record of each."""
    found: dict[str, AgentRecord] = {}
    with JournalReader(Path(file)) as reader:
        for _, line in reader.lines():
            if not line.record:
                continue
            try:
                record = record_of(line)
            except Unreadable:
                continue
            if isinstance(record, AgentRecord):
                found[record.agent_id] = record
    return found


def ids_beside(file: str) -> list[str]:
    folder = os.path.dirname(agent_file(file, ""))  # noqa: PTH120  # places are strings there
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
    return sorted([name[len(BEGIN) : -len(END)] for name in names if name.startswith(BEGIN) and name.endswith(END)])


def describe_subagent(session: str, agent_id: str, record: AgentRecord | None) -> SubagentSummary:
    file = agent_file(session, agent_id)
    meta, loaded = meta_of(file), loaded_from(file)
    spent = loaded.spent if loaded is not None else 0
    cost = record.cost if record is not None and record.ended else spent
    return SubagentSummary(
        meta.agentType or "agent", meta.description, state_of(record, loaded), cost, file * bool(size_of(file))
    )


def state_of(record: AgentRecord | None, loaded: LoadedSession | None) -> str:
    last = loaded.state.waiting_for if loaded is not None else None
    if isinstance(last, Finish):
        return "done" if last.cause is Cause.END_TURN else f"ended: {last.cause}"
    if record is not None and record.ended:
        return "broke off"
    return "running, or its program ended" if record is not None else "unknown end"


def meta_of(file: str) -> SubagentMeta:
    try:
        with open(meta_file(file), "rb") as found:  # noqa: PTH123  # see places.py
            return msgspec.json.decode(found.read(), type=SubagentMeta)
    except (OSError, msgspec.MsgspecError):
        return SubagentMeta()


def loaded_from(file: str) -> LoadedSession | None:
    try:
        return load_session(file)
    except (OSError, UsageError):
        return None  # it had not written anything yet
