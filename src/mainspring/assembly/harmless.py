"""Text that comes from a model, a server or a file, on its way to a terminal (X6)."""

from __future__ import annotations

TAB, NEWLINE, DELETE = 9, 10, 127

# Everything that a terminal obeys rather than shows.
_CONTROLS = {*range(32), DELETE, *range(128, 160)} - {TAB, NEWLINE}
_TURNS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # the direction of what follows
_REMOVED = dict.fromkeys(_CONTROLS | _TURNS)


def harmless(text: str) -> str:
    return text.translate(_REMOVED)
