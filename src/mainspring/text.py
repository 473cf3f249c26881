"""Helpers for text that people read, and for JSON from other programs.

`strip_control_characters`, `escape_controls` and `show_invisible` make text from a model, a server or a file safe to
show (security X6, S10). `plural`, `format_elapsed`, `describe_wait` and `truncate` format for a line of a terminal.
`did_you_mean`, `closest_name` and `suggest_near_name` find the name that the user probably meant. The last functions
read JSON from other programs as far as it has the expected shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

TAB, NEWLINE, DELETE = 9, 10, 127

# Characters that a terminal interprets instead of showing.
_CONTROLS = {*range(32), DELETE, *range(128, 160)} - {TAB, NEWLINE}
_TURNS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # change the direction of the text after them
_OBEYED = _CONTROLS | _TURNS
_REMOVED = dict.fromkeys(_OBEYED)


def strip_control_characters(text: str) -> str:
    return text.translate(_REMOVED)


def escape_controls(text: str) -> str:
    """Write characters that a terminal interprets as in JSON (`\\u001b`), so that JSON keeps its value. Lone
    surrogates, too: they represent bytes of a file name that are not UTF-8, and would reach the terminal as those
    bytes."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join([f"\\u{ord(one):04x}" if ord(one) in _OBEYED or is_half(one) else one for one in text])


def render_html_block(text: str) -> str:
    """HTML that shows a text literally, for notebooks. They typeset formulas in HTML, too, but not in `pre`."""
    from html import escape

    return f'<pre style="white-space: pre-wrap">{escape(strip_control_characters(text))}</pre>'


def is_half(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


CUT = "..."


def plural(number: float, thing: str) -> str:
    """As in "1 turn", "2 turns", "1,000 lines", "0.5 seconds"."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {thing}" if number == 1 else f"{shown} {thing}s"


def format_elapsed(took: float) -> str:
    """Seconds, as in "12 s", "3 min 5 s", "2 h 10 min"."""
    whole = max(0, int(took))
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3_600 else f"{whole // 3_600} h {whole % 3_600 // 60} min"


def describe_wait(seconds: float, now: float) -> str:
    """How long to wait, and for a minute or more also until when, in local time: "5 min 0 s, at 14:05:30". `now` is in
    seconds since 1970."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    import time

    return f"{format_elapsed(seconds)}, at {time.strftime('%H:%M:%S', time.localtime(now + seconds))}"


def truncate(text: str, width: int) -> str:
    """Return as much of the text as fits into this many columns of a terminal."""
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


def shorten_folder(folder: str, home: str) -> str:
    """With '~' for the home folder."""
    near = f"~{folder[len(home) :]}" if home and (folder == home or folder.startswith(f"{home}/")) else folder
    return strip_control_characters(near)


def shorten_path(path: str, width: int) -> str:
    """As many of the last parts of a path as fit into this many columns, after '…/'. Empty if not even the last part
    fits."""
    if count_columns(path) <= width:
        return path
    parts = path.split("/")[1:]
    while parts and count_columns(f"…/{'/'.join(parts)}") > width:
        del parts[0]
    return f"…/{'/'.join(parts)}" if parts and parts[-1] else ""


def count_columns(text: str) -> int:
    return len(text) if text.isascii() else sum(map(character_columns, text))


def character_columns(char: str) -> int:
    from unicodedata import combining, east_asian_width

    if combining(char):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


LEAST = 3  # characters: below this, every name is close
MOST = 3  # typing errors, however long the name is


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Text to append to a message about the name; empty if no name is close."""
    found = closest_name(name, names)
    return f". Did you mean '{found}'?" if found else ""


def closest_name(name: str, names: Iterable[str]) -> str:
    """Return the closest name, the first one if several are equally close. Allows one typing error per three
    characters, an incomplete name, and any case. Empty if no name is close enough."""
    said = name.lower()
    if len(said) < LEAST:
        return next((one for one in names if one.lower() == said), "")
    limit = min(MOST, len(said) // 3)
    near = [(slips_of(said, one.lower(), limit), one) for one in names]
    return min([pair for pair in near if pair[0] <= limit], key=lambda pair: pair[0], default=(0, ""))[1]


def slips_of(said: str, name: str, limit: int) -> int:
    """Count the typing errors; 1 if only the end is missing. Above the limit, the number may be any number above it."""
    if name.startswith(said):
        return 0 if said == name else 1
    return distance(said, name) if abs(len(said) - len(name)) <= limit else limit + 1


def distance(one: str, other: str) -> int:
    """Count letters that are added, missing, wrong, or swapped with their neighbour."""
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
    """Return a question that suggests a name, if one is close."""
    return did_you_mean(name, names) or did_you_mean(name.partition(".")[0], names)


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SAME = frozenset("\n\t")


def show_invisible(text: str) -> str:
    """Show control, format and bidi characters as `<U+202E>`, and blanks that look like a space."""
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


def describe_error(error: Exception) -> str:
    """The message; of an `OSError` without its number, and with its file behind it."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    name = error.filename if isinstance(error.filename, str) else ""
    return f"{error.strerror}: '{name}'" if name and name != "." else error.strerror


def as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
