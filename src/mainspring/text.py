"""Text that comes from a model, a server or a file, on its way to a terminal (security X6).

Words and widths: how a number of things is said, and how much of a text fits on a line.

The name that was probably meant, for messages about one that nobody knows. Loaded only after a mistake.

The name that was probably meant.

What a person is shown: all of it, with what cannot be seen made visible (security S10).

JSON of others, as far as it has the shape that is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

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
    from unicodedata import combining, east_asian_width

    if combining(char):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


LEAST = 3  # characters: of less than these, everything is near
MOST = 3  # slips, however long a name is


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """To be put behind what was said about the name; empty if none is near."""
    found = closest_name(name, names)
    return f". Did you mean '{found}'?" if found else ""


def closest_name(name: str, names: Iterable[str]) -> str:
    """The nearest; of several, the first. One slip is forgiven for every three characters; so is a name that was not
    written to its end, and whether letters are large or small. Empty if none is near enough."""
    said = name.lower()
    if len(said) < LEAST:
        return next((one for one in names if one.lower() == said), "")
    limit = min(MOST, len(said) // 3)
    near = [(slips_of(said, one.lower(), limit), one) for one in names]
    return min([pair for pair in near if pair[0] <= limit], key=lambda pair: pair[0], default=(0, ""))[1]


def slips_of(said: str, name: str, limit: int) -> int:
    """How many; one, if only the end is missing. Above the limit it may be any number above it."""
    if name.startswith(said):
        return 0 if said == name else 1
    return distance(said, name) if abs(len(said) - len(name)) <= limit else limit + 1


def distance(one: str, other: str) -> int:
    """Letters too many, too few, wrong, or two of them in the wrong order."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before = before, row
        row = [i]
        for j, wanted in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                best = min(best, last[j - 2] + 1)
            row.append(best)
    return row[-1]


def suggest_near_name(name: str, names: tuple[str, ...]) -> str:
    """A question that helps, if a name is close."""
    return did_you_mean(name, names) or did_you_mean(name.partition(".")[0], names)


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SAME = frozenset("\n\t")


def show_invisible(text: str) -> str:
    """Control, format and bidi characters as `<U+202E>`; blanks that look like a space, too."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([_shown(character) for character in text])


def _shown(character: str) -> str:
    from unicodedata import category

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
    import msgspec

    try:
        return msgspec.json.encode(input).decode()
    except (TypeError, ValueError):
        return str(dict(input))


def as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
