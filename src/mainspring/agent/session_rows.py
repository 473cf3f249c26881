"""A list of sessions as rows of text: `mainspring sessions`, and `/resume` without an id."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from mainspring.core.money import NANOS_PER_USD
from mainspring.sessions.listing import SessionEntry
from mainspring.text import plural, strip_control_characters, truncate

AGES = ((86_400 * 2, 86_400, "days"), (3_600 * 2, 3_600, "hours"), (120, 60, "minutes"), (2, 1, "seconds"))
USUAL = 80  # columns, if the terminal does not report them
LEAST_TITLE = 10  # columns, however narrow the terminal is


def format_session_rows(entries: list[SessionEntry]) -> Iterator[str]:
    now, width = time.time(), (os.get_terminal_size().columns or USUAL) if os.isatty(1) else None
    ids = [entry.session_id for entry in entries]
    shown = unique_id_length(ids) if width is not None else 36  # programs get full ids
    for entry in entries:
        turns, old = plural(entry.turns, "turn"), format_age(now - entry.changed / 1_000)
        head = f"{entry.session_id[:shown]}  {old:>14}  {turns:>10}  {format_session_cost(entry):>9}  "
        title = " ".join(strip_control_characters(entry.title).split())
        yield head + (truncate(title, max(LEAST_TITLE, width - len(head))) if width is not None else title)


def unique_id_length(ids: list[str]) -> int:
    """The shortest prefix that tells all ids apart; at least 8, the part before the first dash."""
    return next(length for length in range(8, 37) if len({one[:length] for one in ids}) == len(ids) or length == 36)


def format_age(seconds: float) -> str:
    for least, unit, name in AGES:
        if seconds >= least:
            return f"{round(seconds / unit)} {name} ago"
    return "now"


def format_session_cost(entry: SessionEntry) -> str:
    return f"${entry.cost / NANOS_PER_USD:.4f}"
