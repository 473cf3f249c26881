"""What can be said of a command line before anything parses it: its length and its characters (security S1)."""

from __future__ import annotations

import re
from unicodedata import category

LONGEST = 10_000  # characters; longer than any line a person would check before saying yes

# ASCII text is judged by one expression, the rest by category.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Those that change the order in which text is shown. Inside quotes other format characters may stand, as in emoji.
BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_NEVER = frozenset({"Cc", "Cs", "Zl", "Zp"})
_ONLY_QUOTED = frozenset({"Cf", "Zs", "Cn"})


def find_character_objection(text: str) -> str:
    """Why the text must not even be parsed, or ""."""
    if len(text) > LONGEST:
        return f"the command has {len(text):,} characters, more than {LONGEST:,}"
    found = _CONTROL.search(text)
    if found is not None:
        return f"the control character U+{ord(found.group()):04X}"
    if text.isascii():
        return ""
    for character in text:
        if character in BIDI or (ord(character) > 126 and category(character) in _NEVER):
            return f"the character U+{ord(character):04X}"
    return ""


def only_in_quotes(character: str) -> bool:
    """Whether a character that is no ASCII must be quoted: blanks that a shell may or may not split at, and format."""
    return category(character) in _ONLY_QUOTED
