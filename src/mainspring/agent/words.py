"""Words and widths: how a number of things is said, and how much of a text fits on a line."""

from __future__ import annotations

from unicodedata import combining, east_asian_width

CUT = "..."


def plural(number: int, thing: str) -> str:
    """As in "1 turn", "2 turns", "1,000 lines"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def truncate(text: str, width: int) -> str:
    """As much of it as fits into so many columns of a terminal."""
    if text.isascii() and len(text) <= width:
        return text
    used, kept = 0, 0  # columns, and characters that fit before the dots
    for place, char in enumerate(text):
        used += character_columns(char)
        if used > width:
            return text[:kept] + CUT[: max(0, width)]
        if used <= width - len(CUT):
            kept = place + 1
    return text


def character_columns(char: str) -> int:
    if combining(char):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1
