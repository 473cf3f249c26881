"""Rewinds a live session: its conversation, its files, or both; and takes that back."""

# ruff: noqa: PTH120  # pathlib takes 8 ms to load

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring import sessions
from mainspring.agent.options import StartError
from mainspring.checkpoints.entries import FileCheckpoint, RewindReport
from mainspring.core.errors import UsageError
from mainspring.core.messages import Origin, User
from mainspring.core.value import Bundle
from mainspring.messages_api import Unreadable
from mainspring.sessions.paths import file_of

if TYPE_CHECKING:
    from mainspring.agent.session import AgentSession
    from mainspring.sessions.line_parser import JournalLine


class RewindPoint(Bundle):
    """A prompt in a session's file."""

    text: str  # of the prompt
    last: str  # id of the last line before it; empty: there is none


async def rewind_session(  # noqa: PLR0913  # as `AgentSession.rewind`
    session: AgentSession,
    to: str,
    *,
    conversation: bool,
    files: bool,
    dry_run: bool,
    include: Collection[str],
) -> RewindReport:
    if not dry_run and session.is_running:
        raise UsageError("Cannot rewind: a run is in progress. Interrupt it first")
    before = session.world.about.session_id
    point = await find_point(session, to) if conversation else None
    if files:
        report = await session.world.checkpoints.rewind(to, include=include, dry_run=dry_run)
    else:
        report = RewindReport(FileCheckpoint(to, to, point.text if point is not None else ""))
    report = replace(report, dry_run=dry_run, session_before=before, session_after=before)
    if point is None:
        return report
    report = replace(report, conversation=True, prompt=point.text)
    if dry_run:
        return report
    await session.rewind_before(point.last, to)
    return replace(report, session_after=session.world.about.session_id)


async def undo_rewind(session: AgentSession, report: RewindReport) -> RewindReport:
    if report.dry_run:
        raise UsageError("This was a dry run: there is nothing to undo")
    before = session.world.about.session_id
    done = RewindReport(report.to)
    if report.undo:
        done = await rewind_session(session, report.undo, conversation=False, files=True, dry_run=False, include=())
    if report.conversation:
        await return_to_session(session, report.session_before)
    after = session.world.about.session_id
    return replace(done, conversation=report.conversation, session_before=before, session_after=after)


async def return_to_session(session: AgentSession, session_id: str) -> None:
    """Undoes the rewind of a conversation: continues with the session before it, whose files are restored by now. So
    what the rewind and its undoing changed is not taken for changes of the user there. Raises `StartError`."""
    journal = session.opened.journal
    if session.world.rewinding is not None and journal is not None:
        await session.world.rewinding.take_back(file_of(os.path.dirname(journal.file), session_id))
    await session.resume(session_id)


async def find_point(session: AgentSession, prompt: str) -> RewindPoint:
    journal = session.opened.journal
    if journal is None or not journal.stored:
        raise UsageError("Cannot rewind the conversation: this session is not stored")
    return await asyncio.to_thread(find_prompt_in_file, journal.file, prompt)


def find_prompt_in_file(file: str, prompt: str) -> RewindPoint:
    """Also one before a compaction. Attachments right before the prompt belong to it: they are sent again with it.
    Raises `StartError`."""
    known: dict[str, JournalLine] = {}
    try:
        with sessions.JournalReader(Path(file)) as reader:
            for _, line in reader.lines():
                if line.uuid:  # of two lines with one id, the later wins
                    known[line.uuid] = line
    except OSError as error:
        raise StartError(f"cannot read '{file}': {error.strerror}") from None
    said = _user_message(known.get(prompt))
    if said is None:
        raise StartError(f"the session's file has no prompt '{prompt}'")
    last = _parent(known[prompt])
    while (above := _user_message(known.get(last))) is not None and above.origin is Origin.ATTACHMENT:
        last = _parent(known[last])
    return RewindPoint(said.shown_text, last)


def _parent(line: JournalLine) -> str:
    """A line after a compaction has only a logical one."""
    return line.parentUuid or line.logicalParentUuid or ""


def _user_message(line: JournalLine | None) -> User | None:
    if line is None or line.type != "user":
        return None
    try:
        found = sessions.user_messages(line, sessions.spoke_of(line), None)
    except Unreadable:
        return None
    return next((message for message in found if isinstance(message, User)), None)
