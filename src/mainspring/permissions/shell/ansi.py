"""The text between the quotes of `$'...'`, decoded as bash does."""

from __future__ import annotations

import re

from mainspring.permissions.shell.values import UnclearError

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
