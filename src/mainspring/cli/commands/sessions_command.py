"""`mainspring sessions`: the sessions of this folder; `mainspring sessions show ID`: one of them as text."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import chain

from mainspring.agent.options import StartError
from mainspring.agent.resume import find_session_by_name, format_no_session, new_place
from mainspring.cli.output import is_terminal
from mainspring.cli.subcommands import Namespace
from mainspring.core.money import NANOS_PER_USD
from mainspring.sessions.listing import MOST_LISTED, SessionEntry, list_sessions_in, render_session
from mainspring.text import plural, strip_control_characters, truncate

AGES = ((86_400 * 2, 86_400, "days"), (3_600 * 2, 3_600, "hours"), (120, 60, "minutes"), (2, 1, "seconds"))
USUAL = 80  # columns, where the terminal does not know
LEAST_TITLE = 10  # columns, however narrow the terminal is
HOW = "'mainspring --resume ID' takes one up, 'mainspring sessions show ID' prints it"


def sessions(args: Namespace) -> int:
    place = new_place(os.environ, os.getcwd(), ())  # noqa: PTH109
    if place.home is None:
        raise StartError("there is no home, so there are no sessions: set MAINSPRING_HOME")
    if args.action is None:
        return print_session_table(list_sessions_in(place.folder), place.folder)
    file = find_session_by_name(args.session_name, place)
    if file is None:
        raise StartError(format_no_session(args.session_name))
    from mainspring.sessions.subagents import agent_lines  # a list needs none of this

    for line in chain(render_session(file), agent_lines(file)):
        print(line)
    return 0


def print_session_table(entries: list[SessionEntry], folder: str) -> int:
    if not entries:
        print(f"no sessions in '{folder}'")
        return 0
    for row in format_session_rows(entries):
        print(row)
    if len(entries) == MOST_LISTED:
        print(f"(the newest {MOST_LISTED}; older ones are in '{folder}')")
    print(HOW)
    return 0


def format_session_rows(entries: list[SessionEntry]) -> Iterator[str]:
    now, width = time.time(), (os.get_terminal_size().columns or USUAL) if is_terminal() else None
    ids = [entry.session_id for entry in entries]
    shown = unique_id_length(ids) if width is not None else 36  # programs get what never becomes ambiguous
    for entry in entries:
        turns, old = plural(entry.turns, "turn"), format_age(now - entry.changed / 1_000)
        head = f"{entry.session_id[:shown]}  {old:>10}  {turns:>10}  {format_session_cost(entry):>9}  "
        title = " ".join(strip_control_characters(entry.title).split())
        yield head + (truncate(title, max(LEAST_TITLE, width - len(head))) if width is not None else title)


def unique_id_length(ids: list[str]) -> int:
    """How much of each id tells it from the others, and 8 at least: the part before the first dash."""
    return next(length for length in range(8, 37) if len({one[:length] for one in ids}) == len(ids) or length == 36)


def format_age(seconds: float) -> str:
    for least, unit, name in AGES:
        if seconds >= least:
            return f"{round(seconds / unit)} {name}"
    return "now"


def format_session_cost(entry: SessionEntry) -> str:
    return f"${entry.cost / NANOS_PER_USD:.4f}"
