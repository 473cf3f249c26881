"""The file of the session that is spoken to, as far as there is one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.sessions.listing import SessionEntry, describe_session
from mainspring.sessions.paths import size_of

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession


def file_of(talk: TerminalSession) -> str:
    """Empty: nothing of the session is stored, or nothing was said yet."""
    journal = talk.opened.journal
    return journal.file if journal is not None and journal.stored and size_of(journal.file) else ""


def title_of(talk: TerminalSession) -> str:
    """As a list of sessions shows it; empty: it has none yet. Reads two pieces of its file, however long it is."""
    file = file_of(talk)
    if not file:
        return ""
    found = describe_session(SessionEntry(talk.world.about.session_id, Path(file), 0, size_of(file)))
    return found.title if found is not None else ""
