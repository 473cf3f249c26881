"""What a person is shown: all of it, with what cannot be seen made visible (security S10)."""

from __future__ import annotations

from collections.abc import Mapping
from unicodedata import category

import msgspec

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SAME = frozenset("\n\t")


def show_invisible(text: str) -> str:
    """Control, format and bidi characters as `<U+202E>`; blanks that look like a space, too."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([_shown(character) for character in text])


def _shown(character: str) -> str:
    if character in _SAME or " " <= character <= "~":
        return character
    kind = category(character)
    return f"<U+{ord(character):04X}>" if kind in _HIDDEN or kind == "Zs" else character


def format_call_input(tool: str, input: Mapping[str, object]) -> str:
    for name in ("command", "file_path", "notebook_path", "url"):
        value = input.get(name)
        if isinstance(value, str):
            return f"{tool}: {show_invisible(value)}"
    return f"{tool}: {show_invisible(_as_text(input))}"


def _as_text(input: Mapping[str, object]) -> str:
    try:
        return msgspec.json.encode(input).decode()
    except (TypeError, ValueError):
        return str(dict(input))
