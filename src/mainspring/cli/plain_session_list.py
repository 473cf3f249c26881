"""`--plain --resume` without a value: a numbered list of sessions, and a number as the answer."""

from __future__ import annotations

import os

from mainspring.agent.find_session import NO_HOME, list_all_sessions
from mainspring.agent.options import StartError
from mainspring.agent.resume import new_place
from mainspring.agent.session_rows import format_session_rows
from mainspring.agent.slash.lines import LineWriter, TextStyle
from mainspring.text import strip_control_characters

MOST = 20


def ask_for_session(output: LineWriter) -> str | None:
    """Its id. None: a new session. Raises `StartError`."""
    place = new_place(os.environ, os.getcwd(), ())  # noqa: PTH109  # pathlib takes 8 ms to load
    if place.home is None:
        raise StartError(NO_HOME)
    entries = list_all_sessions(place, MOST)
    if not entries:
        output.line("There are no sessions yet. This is a new one.", TextStyle.DIM)
        return None
    for number, (entry, line) in enumerate(zip(entries, format_session_rows(entries), strict=True), 1):
        folder = f" ({entry.cwd})" if entry.cwd and entry.cwd != place.cwd else ""
        output.line(f"{number:>3}  {strip_control_characters(f'{line}{folder}')}")
    while True:
        try:
            said = input("Number of the session, or Enter for a new one: ").strip()
        except EOFError:
            return None
        if not said:
            return None
        if said.isdecimal() and 0 < int(said) <= len(entries):
            return entries[int(said) - 1].session_id
        output.line(f"There is no session {strip_control_characters(said)}.", TextStyle.YELLOW)
