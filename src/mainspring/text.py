"""Text that comes from a model, a server or a file, on its way to a terminal (security X6)."""

from __future__ import annotations

TAB, NEWLINE, DELETE = 9, 10, 127

# Everything that a terminal obeys rather than shows.
_CONTROLS = {*range(32), DELETE, *range(128, 160)} - {TAB, NEWLINE}
_TURNS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # the direction of what follows
_OBEYED = _CONTROLS | _TURNS
_REMOVED = dict.fromkeys(_OBEYED)


def strip_control_characters(text: str) -> str:
    return text.translate(_REMOVED)


def escape_controls(text: str) -> str:
    """What a terminal would obey is written as in JSON (`\\u001b`), so that JSON keeps its value. Half characters too:
    they stand for bytes of a file name that are no UTF-8, and would reach the terminal as those bytes."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join([f"\\u{ord(one):04x}" if ord(one) in _OBEYED or is_half(one) else one for one in text])


def is_half(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"
