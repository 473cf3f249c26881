"""Lines that are laid out for a width. On paper it is known only when they are printed, so what is put there says how
it is made; what is drawn below is asked for with its width. `layout.py` has what folds and clips a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from mainspring.cli.tui.layout import clean_for_drawing, clip_text, indent_lines, wrap_text
from mainspring.text import plural

NARROWEST = 4  # columns: with fewer nothing can be read, and what is cut is at least not folded for ever
MOST_OF_LINE = 10_000  # characters of one that are folded; who wants more looks at the file
MORE = "(ctrl+o)"
BRANCH = "  ⎿  "  # before what belongs to the line above


class WidthAware:
    """Lines that learn their width when they are printed."""

    def __init__(self, make: Callable[[int], Iterable[Text]]) -> None:
        self.make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.make(options.max_width):
            made = clip_text(line, options.max_width)
            made.no_wrap, made.overflow, made.end = True, "crop", "\n"
            yield made


def one_line(text: str, width: int) -> str:
    """Its words, as many as could matter: a text may have any length."""
    return " ".join(clean_for_drawing(text[: 4 * width + 100]).split())


def lines_in(text: str) -> list[str]:
    """Of an output, without blank lines around it."""
    return clean_for_drawing(text).strip("\n").split("\n") if text.strip() else []


def wrap_rows(lines: Iterable[str], style: str, width: int) -> list[Text]:
    """Folded, since the end of a line may be what matters."""
    rows: list[Text] = []
    for line in lines:
        cut = f"{line[:MOST_OF_LINE]}…" if len(line) > MOST_OF_LINE else line
        rows += wrap_text(Text(cut, style), max(NARROWEST, width))
    return rows


def left_out(number: int, *, unfolds: bool = True) -> Text:
    return Text(f"… +{plural(number, 'line')}{f' {MORE}' if unfolds else ''}", "detail")


def left_out_above(number: int) -> Text:
    return Text(f"… {plural(number, 'line')} before {MORE}", "detail")


class ClippedRows(NamedTuple):
    """Of what there is, what is shown."""

    rows: list[Text]
    cut: bool = False  # there is more


def first_rows(lines: Sequence[str], style: str, width: int, most: int) -> ClippedRows:
    rows: list[Text] = []
    for at, line in enumerate(lines):
        made = wrap_rows([line], style, width)
        if len(rows) + len(made) > most:
            rows += made[: most - len(rows)]
            return ClippedRows([*rows, left_out(len(lines) - at)], cut=True)
        rows += made
    return ClippedRows(rows)


def last_rows(lines: Sequence[str], style: str, width: int, most: int) -> ClippedRows:
    rows: list[Text] = []
    for at, line in enumerate(reversed(lines)):
        made = wrap_rows([line], style, width)
        if len(rows) + len(made) > most:
            rows = made[len(made) - (most - len(rows)) :] + rows
            return ClippedRows([left_out_above(len(lines) - at), *rows], cut=True)
        rows = made + rows
    return ClippedRows(rows)


def indent_with_branch(lines: Sequence[Text]) -> list[Text]:
    return indent_lines(lines, Text(BRANCH, "detail"), len(BRANCH))


def text_of(segments: Iterable[Segment]) -> Text:
    """A line that rich has made, without the spaces that fill it up."""
    made = Text(no_wrap=True)
    for segment in segments:
        if not segment.control:
            made.append(segment.text.replace("\n", ""), segment.style or Style.null())
    made.rstrip()
    return made


def strip_blank_lines(lines: list[Text], *, beginning: bool = True) -> list[Text]:
    """Without blank lines at its end, and at its beginning."""
    full = [at for at, line in enumerate(lines) if line.plain.strip()]
    return lines[full[0] if beginning else 0 : full[-1] + 1] if full else []
