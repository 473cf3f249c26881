"""How words with a slash tell something: whole lines, nothing that a terminal obeys, and lists that come to an end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mainspring.agent.harmless import strip_control_characters
from mainspring.agent.words import truncate
from mainspring.cli.output import Style
from mainspring.secrets.redaction import redact

if TYPE_CHECKING:
    from mainspring.cli.talk import Talk

MOST_LISTED = 50  # rows of a list: more than fit on a screen
LONGEST_ABOUT = 90  # columns of what is said of a thing


def tell(talk: Talk, text: str, style: Style = Style.PLAIN) -> None:
    talk.output.line(strip_control_characters(text), style)


def clean(text: str) -> str:
    """Words of others, on one line and without keys."""
    return " ".join(strip_control_characters(redact(text)).split())


def about(text: str) -> str:
    return truncate(clean(text), LONGEST_ABOUT)


def tell_all(talk: Talk, rows: Iterable[str], style: Style = Style.PLAIN) -> None:
    for row in rows:
        tell(talk, row, style)


def tell_list(talk: Talk, rows: Sequence[str], style: Style = Style.PLAIN, most: int = MOST_LISTED) -> None:
    """As many as somebody reads, and how many more there are."""
    tell_all(talk, rows[:most], style)
    if len(rows) > most:
        tell(talk, f"and {len(rows) - most:,} more", Style.DIM)


def usage(talk: Talk, words: str) -> None:
    """How a word is used, for somebody who used it otherwise."""
    tell(talk, words, Style.DIM)
