"""Fork a session after any of its turns.

    forked = fork_session_at(file, 3)           # the first three turns, in a new file

The fork has what the model saw after that turn: its view, with the edits of that time. Where the core cannot follow the
file, it has the conversation up to the last message of the turn. The other session stays unchanged.
"""

from __future__ import annotations

import os

from msgspec import Struct

from mainspring.agent.options import is_uuid
from mainspring.agent.resume import OpenedSession, fork_loaded_session
from mainspring.core.errors import UsageError
from mainspring.core.state import State
from mainspring.engine.session_deps import new_id
from mainspring.sessions.decoder import LoadedSession
from mainspring.sessions.journal import DEFAULT
from mainspring.sessions.line_format import Envelope
from mainspring.sessions.listing import SessionEntry, describe_session
from mainspring.sessions.paths import Place, id_of, size_of
from mainspring.sessions.resume import load_session
from mainspring.text import plural
from mainspring.version import __version__
from mainspring.viewer.transcript import Transcript, TranscriptTurn, read_transcript

UNTITLED = "Forked session"


# --- forks ----------------------------------------------------------------------------------------------------


class ForkedSession(Struct):
    id: str
    file: str
    source: str  # the id of the other session
    turns: int | None  # how many were kept; None: the fork was made at a message
    messages: int  # in the fork


def fork_session_at(
    file: Place, at: int | str | None = None, *, folder: Place | None = None, cwd: str | None = None
) -> ForkedSession:
    """Forks a session after turn `at`, or at the message with this id, or at its end. `folder`: where the new file
    goes; None: beside the other. `cwd`: the working directory that it belongs to; None: that of the other. Raises
    OSError or UsageError; then nothing was written."""
    if isinstance(at, str):
        return write_fork(load_session(file, at=at), None, folder, cwd)
    transcript = read_transcript(file)
    if at is None:
        return write_fork(load_session(file), len(transcript.turns), folder, cwd)
    turn = find_turn(transcript, at)
    return write_fork(load_turn(transcript, turn.done, turn.last_id), at, folder, cwd)


def find_turn(transcript: Transcript, number: int) -> TranscriptTurn:
    turns = transcript.turns
    if not 1 <= number <= len(turns):
        has = plural(len(turns), "turn")
        raise UsageError(f"turn {number} does not exist: session '{transcript.id}' has {has}")
    return turns[number - 1]


def parse_turn(said: str) -> int | str:
    """A turn number or the id of a message. Raises `ValueError`."""
    if said.isascii() and said.isdigit() and len(said) < 10:
        return int(said)
    if is_uuid(said):
        return said.lower()
    raise ValueError(f"'{said}' is neither a turn number nor the id of a message")


def load_turn(transcript: Transcript, state: State | None, message_id: str) -> LoadedSession:
    """The session as it was in this state; without one, up to this message."""
    if state is None:
        assert message_id
        return load_session(transcript.file, at=message_id)
    return load_session(transcript.file)._replace(
        state=state, partial=None, results=(), unfinished=(), unstarted=(), open_text=0
    )


def write_fork(loaded: LoadedSession, turns: int | None, folder: Place | None, cwd: str | None) -> ForkedSession:
    opened = open_fork(loaded, folder, cwd, f"fork after turn {turns}" if turns is not None else "fork")
    assert opened.journal is not None
    assert opened.loaded is not None
    opened.journal.close()
    messages = len(opened.loaded.state.history)
    return ForkedSession(opened.session_id, opened.journal.file, loaded.session_id, turns, messages)


def open_fork(loaded: LoadedSession, folder: Place | None, cwd: str | None, remark: str) -> OpenedSession:
    """`remark`: added to the title, so that lists tell both apart. Raises OSError if the file cannot be written."""
    source = loaded.file
    entry = describe_session(SessionEntry(id_of(source), source, 0, size_of(source)))
    known = entry or SessionEntry("", source, 0, 0)
    envelope = Envelope(new_id(), cwd or known.cwd or os.getcwd(), __version__)  # noqa: PTH109
    opened = fork_loaded_session(loaded, os.fspath(folder or source.parent), envelope, DEFAULT)
    if opened.journal is None or not opened.journal.stored:
        raise OSError(None, f"cannot write the fork to '{folder or source.parent}'")
    opened.journal.rename(f"{known.title or UNTITLED} ({remark})")
    return opened
