"""The output of commands, with the colours that it sets (SGR), and without anything else that a terminal obeys.

Only the colour of the text, bold, dim, italic and underlined are drawn: a background, reversed or concealed text could
hide what was printed. Colours end with their line, so that any line can be drawn alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.color import Color
from rich.style import Style
from rich.text import Text

from mainspring.cli.tui.layout import TAB, sanitize_text

SGR = re.compile(r"\x1b\[([0-9;:]*)m")
# Other sequences: CSI, OSC and the like up to their end, and two-character ones.
OTHERS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-ln-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline"}
ENDS = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",)}
MOST_CODES = 32  # in one sequence


def split_output(text: str) -> list[str]:
    """The lines of an output, without blank lines around it. They keep their SGR sequences, for `colour_line`."""
    if "\x1b" not in text:
        return sanitize_text(text).strip("\n").split("\n") if text.strip() else []
    plain = OTHERS.sub("", text)
    parts = [sanitize_text(part) if place % 2 == 0 else f"\x1b[{part}m" for place, part in enumerate(SGR.split(plain))]
    joined = "".join(parts)
    return joined.strip("\n").split("\n") if SGR.sub("", joined).strip() else []


def colour_line(line: str, style: str) -> Text:
    """Draw a line of `split_output`."""
    if "\x1b" not in line:
        return Text(line.expandtabs(TAB), style)
    made = Text(style=style)
    for text, own in read_sgr(line):
        made.append(sanitize_text(text).expandtabs(TAB), own)
    return made


def strip_sgr(line: str) -> str:
    return SGR.sub("", line)


def read_sgr(line: str) -> Iterator[tuple[str, Style]]:
    """The parts of a line, each with its style."""
    flags: dict[str, bool] = {}
    colour: Color | None = None
    for place, part in enumerate(SGR.split(line)):
        if place % 2 == 0:
            if part:
                yield part, Style(color=colour, **flags)  # type: ignore[arg-type]  # names of flags
        else:
            colour = apply_codes(part, flags, colour)


def apply_codes(codes: str, flags: dict[str, bool], colour: Color | None) -> Color | None:
    """Change the flags, and return the colour after these codes."""
    numbers = [int(one or 0) for one in codes.replace(":", ";").split(";")[:MOST_CODES] if len(one) < 4]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            flags.clear()
            colour = None
        elif code in FLAGS:
            flags[FLAGS[code]] = True
        elif code in ENDS:
            for name in ENDS[code]:
                flags.pop(name, None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            colour = Color.from_ansi(code - 30 if code < 90 else code - 82)
        elif code == 39:
            colour = None
        elif code in (38, 48):
            found = take_colour(numbers)
            colour = found if code == 38 and found is not None else colour
    return colour


def take_colour(numbers: list[int]) -> Color | None:
    """Of 256, or by its parts; takes its numbers off the list."""
    kind = numbers.pop(0) if numbers else 0
    if kind == 5 and numbers:
        return Color.from_ansi(min(255, numbers.pop(0)))
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = [min(255, numbers.pop(0)) for _ in range(3)]
        return Color.from_rgb(red, green, blue)
    return None
