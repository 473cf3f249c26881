"""The parsed command line: commands, words, redirects, as frozen values; and helpers for all parsers.

The helpers write tables of names as text, many to a line; check a command line before it is parsed, by its length and
its characters (security S1); and decode the text of `$'...'` as bash does.
"""

from __future__ import annotations

import re
from unicodedata import category

from mainspring.core.value import Value

UNKNOWN = "\0"  # replaces text in a word that only the shell will know; NUL itself never reaches a word (security S1)


class ShellWord(Value):
    """A word after quote removal."""

    text: str  # with UNKNOWN for each expansion or glob
    start: int
    many: bool = False  # may become no word at all, or several: an unquoted expansion, a glob, a brace list
    glob: bool = False  # the unknown part is made of unquoted glob characters only
    tilde: bool = False  # begins with an unquoted `~` or `~/`
    bare: bool = False  # written without any quoting: only such a word can be a reserved word
    names: tuple[str, ...] = ()  # the variables in it; "(" means the output of a command

    @property
    def exact(self) -> bool:
        """One static string."""
        return self.bare or (UNKNOWN not in self.text and not self.many)


class Redirect(Value):
    op: str
    target: ShellWord  # for a here-document: its text


class Assignment(Value):
    name: str
    value: ShellWord | None  # None: a list, `a=(1 2)`


class SimpleCommand(Value):
    """One simple command. Without words it only assigns or redirects."""

    words: tuple[ShellWord, ...]
    assigns: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()


class ShellScript(Value):
    commands: tuple[SimpleCommand, ...]
    redirects: tuple[Redirect, ...] = ()  # of groups, loops and conditions
    functions: tuple[tuple[str, int], ...] = ()  # those that are certainly defined, and from where on
    counts: tuple[str, ...] = ()  # variables that arithmetic evaluates, and that are not set to numbers here
    unclear: str = ""  # why not all of it could be parsed; "" if all of it was

    @property
    def all_redirects(self) -> tuple[Redirect, ...]:
        return (*self.redirects, *[redirect for command in self.commands for redirect in command.redirects])


class UnclearError(Exception):
    """The parser would have to guess here. The message names the obstacle."""


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def longs(text: str) -> frozenset[str]:
    """Long options, without their dashes."""
    return frozenset("--" + name for name in text.split())


LONGEST = 10_000  # characters; longer than any line a person would check before approving

# ASCII text is checked by one expression, the rest by category.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Those that change the order in which text is shown. Quoted text may contain other format characters, as in emoji.
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
    """Whether a non-ASCII character must be quoted: blanks that a shell may split at, and format characters."""
    return category(character) in _ONLY_QUOTED


_PLAIN = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})|U(?P<long>[0-9A-Fa-f]{1,8})"
    r"|(?P<plain>[abeEfnrtv\\'\"?]))"
)


def decode_ansi_c(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        if text[position] != "\\":
            parts.append(text[position])
            position += 1
            continue
        found = _ESCAPE.match(text, position)
        if found is None:  # `\c`, `\x` without digits, an escape that bash keeps as it is: rare, and not worth a guess
            raise UnclearError(f"the escape {text[position : position + 2]!r} in $'...'")
        parts.append(_character(found))
        position = found.end()
    return "".join(parts)


def _character(found: re.Match[str]) -> str:
    plain = found["plain"]
    if plain is not None:
        return _PLAIN[plain]
    number = int(found["octal"], 8) if found["octal"] else int(found["hex"] or found["short"] or found["long"], 16)
    # A byte above 127 is half a character, and NUL cuts the string: bash and we could read them differently.
    one_byte = found["octal"] is not None or found["hex"] is not None
    if number == 0 or (one_byte and number > 127) or number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise UnclearError(f"the escape {found.group()!r} in $'...'")
    return chr(number)
