"""Sessions on disk: records, journals, and resuming them."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.sessions.line_format import PLAIN as PLAIN
    from mainspring.sessions.line_parser import note_names as note_names
    from mainspring.sessions.line_parser import parse_journal_line as parse_journal_line
    from mainspring.sessions.line_parser import record_of as record_of
    from mainspring.sessions.line_parser import reply_blocks as reply_blocks
    from mainspring.sessions.line_parser import spoke_of as spoke_of
    from mainspring.sessions.line_parser import user_messages as user_messages
    from mainspring.sessions.listing import describe_session as describe_session
    from mainspring.sessions.listing import find_newest_session as find_newest_session
    from mainspring.sessions.listing import list_sessions_in as list_sessions_in
    from mainspring.sessions.listing import newest_first as newest_first
    from mainspring.sessions.paths import agent_file as agent_file
    from mainspring.sessions.paths import id_of as id_of
    from mainspring.sessions.paths import make_folder as make_folder
    from mainspring.sessions.reader import JournalReader as JournalReader
    from mainspring.sessions.records import NoJournal as NoJournal
    from mainspring.sessions.records import WithdrawnRecord as WithdrawnRecord
    from mainspring.sessions.resume import WouldDropMore as WouldDropMore
    from mainspring.sessions.resume import fork_session_state as fork_session_state
    from mainspring.sessions.resume import load_session as load_session
    from mainspring.sessions.retention import start_cleanup as start_cleanup
    from mainspring.sessions.subagents import open_journal as open_journal

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "JournalReader": "reader",
    "NoJournal": "records",
    "PLAIN": "line_format",
    "WithdrawnRecord": "records",
    "agent_file": "paths",
    "find_newest_session": "listing",
    "fork_session_state": "resume",
    "id_of": "paths",
    "list_sessions_in": "listing",
    "WouldDropMore": "resume",
    "load_session": "resume",
    "make_folder": "paths",
    "describe_session": "listing",
    "newest_first": "listing",
    "note_names": "line_parser",
    "open_journal": "subagents",
    "parse_journal_line": "line_parser",
    "record_of": "line_parser",
    "reply_blocks": "line_parser",
    "spoke_of": "line_parser",
    "start_cleanup": "retention",
    "user_messages": "line_parser",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
