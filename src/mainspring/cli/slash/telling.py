"""How words with a slash tell something: whole lines, nothing that a terminal obeys, and lists that come to an end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mainspring.cli.output import TextStyle
from mainspring.secrets.redaction import redact
from mainspring.text import strip_control_characters, truncate

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession

MOST_LISTED = 50  # rows of a list: more than fit on a screen
LONGEST_ABOUT = 90  # columns of what is said of a thing


def print_to_terminal(talk: TerminalSession, text: str, style: TextStyle = TextStyle.PLAIN) -> None:
    talk.output.line(strip_control_characters(text), style)


def clean_line(text: str) -> str:
    """Words of others, on one line and without keys."""
    return " ".join(strip_control_characters(redact(text)).split())


def shorten_about(text: str) -> str:
    return truncate(clean_line(text), LONGEST_ABOUT)


def tell_all(talk: TerminalSession, rows: Iterable[str], style: TextStyle = TextStyle.PLAIN) -> None:
    for row in rows:
        print_to_terminal(talk, row, style)


def tell_list(
    talk: TerminalSession, rows: Sequence[str], style: TextStyle = TextStyle.PLAIN, most: int = MOST_LISTED
) -> None:
    """As many as somebody reads, and how many more there are."""
    tell_all(talk, rows[:most], style)
    if len(rows) > most:
        print_to_terminal(talk, f"and {len(rows) - most:,} more", TextStyle.DIM)


def print_usage(talk: TerminalSession, words: str) -> None:
    """How a word is used, for somebody who used it otherwise."""
    print_to_terminal(talk, words, TextStyle.DIM)
