"""What a slash command works with, and how it writes lines: whole, redacted, without control characters, and cut if the
list is long."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mainspring.agent.slash_commands import TERMINAL
from mainspring.core.errors import MainspringError
from mainspring.secrets.redaction import redact
from mainspring.sessions.listing import SessionEntry, describe_session
from mainspring.sessions.paths import size_of
from mainspring.text import strip_control_characters, truncate

if TYPE_CHECKING:
    from mainspring.agent.config import ResolvedConfig
    from mainspring.agent.resume import OpenedSession
    from mainspring.agent.session import AgentSession
    from mainspring.agent.session_parts import SessionParts
    from mainspring.core.models import Model

MOST_LISTED = 50  # rows of a list: more than fit on a screen
LONGEST_ABOUT = 90  # columns of a description


class SlashCommandError(MainspringError):
    """The command failed, and nothing has changed. The text says why and what to do."""


class TextStyle(StrEnum):
    """Codes of the terminal's sixteen colours, so that they fit its theme. Outside a terminal they are ignored."""

    PLAIN = ""
    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"


class LineWriter(Protocol):
    """Where messages for the user go."""

    def line(self, text: str = "", style: TextStyle = TextStyle.PLAIN) -> None: ...


class SlashContext:
    """The session that a slash command acts on, and where its lines go."""

    door = TERMINAL  # where the command was typed: `/help` lists the commands that work there

    def __init__(self, session: AgentSession, output: LineWriter) -> None:
        self.session, self.output = session, output
        self.draft = ""  # prompt to put into the input, so that the user can edit it and send it again
        self.rewound: dict[str, str] = {}  # by the checkpoint before a rewind: the id of the session before it

    @property
    def config(self) -> ResolvedConfig:
        return self.session.config

    @property
    def world(self) -> SessionParts:
        return self.session.world

    @property
    def opened(self) -> OpenedSession:
        return self.session.opened

    @property
    def model(self) -> Model:
        """The model of the next turn."""
        return self.session.model

    async def change(self, change: Coroutine[Any, Any, None]) -> None:
        """Switch to another conversation."""
        await change


def print_line(talk: SlashContext, text: str, style: TextStyle = TextStyle.PLAIN) -> None:
    talk.output.line(strip_control_characters(text), style)


def clean_line(text: str) -> str:
    """Untrusted text on one line, redacted and without control characters."""
    return " ".join(strip_control_characters(redact(text)).split())


def shorten_about(text: str) -> str:
    return truncate(clean_line(text), LONGEST_ABOUT)


def tell_all(talk: SlashContext, rows: Iterable[str], style: TextStyle = TextStyle.PLAIN) -> None:
    for row in rows:
        print_line(talk, row, style)


def tell_list(
    talk: SlashContext, rows: Sequence[str], style: TextStyle = TextStyle.PLAIN, most: int = MOST_LISTED
) -> None:
    """Write at most `most` rows, then how many more there are."""
    tell_all(talk, rows[:most], style)
    if len(rows) > most:
        print_line(talk, f"and {len(rows) - most:,} more", TextStyle.DIM)


def file_of(talk: SlashContext) -> str:
    """The journal file of the session. Empty: the session is not stored, or has no prompt yet."""
    journal = talk.opened.journal
    return journal.file if journal is not None and journal.stored and size_of(journal.file) else ""


def title_of(talk: SlashContext) -> str:
    """The title that a list of sessions shows; empty: none yet. Reads only two pieces of the file."""
    file = file_of(talk)
    if not file:
        return ""
    found = describe_session(SessionEntry(talk.world.about.session_id, Path(file), 0, size_of(file)))
    return found.title if found is not None else ""
