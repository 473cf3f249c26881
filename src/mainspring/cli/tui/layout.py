"""Styles, and layout of text for a terminal: wrapping, clipping, scrolling, and conversion from rich.

- Text in the live region is drawn for a given width. Text for the scrollback learns its width when it is printed
  (`WidthAware`). A page that shows only a part says how many lines there are above and below.
- `Painter` converts rich text: to fragments for prompt-toolkit, which draws the live region, and to bytes for the
  scrollback.
- Styles have names; `theme.py` says how they look.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len, split_graphemes
from rich.color import ColorType
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from mainspring.cli.tui import theme
from mainspring.cli.tui.links import add_links, keep_safe_link
from mainspring.cli.tui.theme import ColourDepth
from mainspring.text import plural, strip_control_characters

TAB = 4  # columns: the width of a tab depends on its position
FLAGS = range(0x1F1E6, 0x1F200)  # two of these letters are one flag
MOST_MARKS = 16  # characters per column of clipped text: more are stacked combining marks
BREAKS = re.compile("([\n\t])")


def clean_for_drawing(text: str) -> str:
    """Sanitize text from outside and expand its tabs."""
    return sanitize_text(text).expandtabs(TAB)


def sanitize_text(text: str) -> str:
    """Remove control characters from text of the user, the model or a paste; keep tabs."""
    plain = strip_control_characters(text.replace("\r\n", "\n").replace("\r", "\n"))
    return plain if plain.isascii() else plain.encode("utf-8", "replace").decode()


def one_line(text: str) -> str:
    return " ".join(clean_for_drawing(text).split())


def split_clusters(text: str) -> Iterator[str]:
    """Split text into what the user sees as single characters."""
    if text.isascii():
        yield from text
        return
    for part in BREAKS.split(text):  # breaks have no width, and would count as combining marks
        if part:
            yield from split_line_clusters(part)


def split_line_clusters(text: str) -> Iterator[str]:
    flag = ""
    for start, end, _ in split_graphemes(text)[0]:
        found = text[start:end]
        if flag:
            yield flag + found if ord(found[0]) in FLAGS else flag
            if ord(found[0]) in FLAGS:
                flag = ""
                continue
        flag = found if ord(found[0]) in FLAGS else ""
        if not flag:
            yield found
    if flag:
        yield flag


# --- wrapping -------------------------------------------------------------------------------------------------------


def wrap_text(text: Text, width: int) -> list[Text]:
    """Wrap into lines of that width. Keep every character, also the spaces at line breaks: the text may be a
    command."""
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        cuts = cuts_of(line.plain, width)
        lines += line.divide(cuts) if cuts else [line]
    return lines


def cuts_of(line: str, width: int) -> list[int]:
    """Break after a space in the second half of the line if there is one, else at the width."""
    if cell_len(line) <= width:
        return []
    cuts: list[int] = []
    begin = place = used = blank = blank_used = 0
    for found in split_clusters(line):
        size = cell_len(found)
        if used + size > width and place > begin:
            at_blank = blank > begin and blank_used * 2 >= width
            begin = blank if at_blank else place
            used = used - blank_used if at_blank else 0
            cuts.append(begin)
        place += len(found)
        used += size
        if found == " ":
            blank, blank_used = place, used
    return cuts


def clip_text(text: Text, width: int) -> Text:
    return text if text.cell_len <= width else truncate_styled(text, width)


def truncate_styled(text: Text, width: int) -> Text:
    """Clip and append dots. Not `Text.truncate`: it may be one column off where characters are joined."""
    place, left, gap = 0, width - 1, ""
    for found in split_clusters(text.plain[: width * MOST_MARKS]):
        size = cell_len(found)
        if size > left:
            gap = " " * left  # half of a wide character
            break
        left -= size
        place += len(found)
    return Text.assemble(text[:place], gap, "…") if width > 0 else Text()


def indent_lines(lines: Sequence[Text], first: Text, columns: int) -> list[Text]:
    """Put `first` before the first line, and spaces before the others."""
    return [Text.assemble(Text(" " * columns) if place else first, line) for place, line in enumerate(lines)]


def fill_rows(rows: Sequence[tuple[Text, str]], width: int) -> None:
    """Pad rows to one column more than the widest, each in its style, so that a background makes one block. Not to the
    width of the terminal: such rows wrap when it becomes narrower, and leave blank ones."""
    widest = min(width, max([row.cell_len for row, _ in rows], default=0) + 1)
    for row, style in rows:
        row.append(" " * max(0, widest - row.cell_len), style)


def frame_text(text: str, width: int) -> list[Text]:
    """A box around text. Each row begins and ends with the frame, so text cannot end it. A long text has only the
    sides: in a small window, each line counts."""
    room = max(NARROWEST, width - 4)
    rows = wrap_text(Text(text), room)
    inside = min(room, max([row.cell_len for row in rows], default=0))
    lines = [Text.assemble(("│ ", "frame"), row, " " * max(0, inside - row.cell_len), (" │", "frame")) for row in rows]
    if len(rows) > MOST_FRAMED:
        return lines
    bar = "─" * (inside + 2)
    return [Text(f"╭{bar}╮", "frame"), *lines, Text(f"╰{bar}╯", "frame")]


# --- pages ----------------------------------------------------------------------------------------------------------


class ScrollPage:
    """`make` returns the lines for a width. It is called once per width."""

    def __init__(self, make: Callable[[int], Sequence[Text]]) -> None:
        self._make = make
        self._width = -1
        self._lines: list[Text] = []
        self._top = 0
        self._step = 1
        self.hides = False  # whether the last drawing left lines out

    @classmethod
    def of(cls, *texts: Text) -> ScrollPage:
        return cls(lambda _: texts)

    def rows(self, width: int) -> int:
        if width != self._width:
            self._width = width
            self._lines = [line for text in self._make(width) for line in wrap_text(text, width)]
        return len(self._lines)

    def scroll(self, pages: int) -> None:
        self._top = max(0, self._top + pages * self._step)

    def draw(self, width: int, height: int) -> list[Text]:
        rows = self.rows(width)
        self.hides = rows > height
        if not self.hides:
            self._top = 0
            return list(self._lines)
        shown = max(0, height - 1)
        self._step = max(1, shown - 1)  # one line stays visible, for orientation
        self._top = min(self._top, rows - shown)
        lines = self._lines[self._top : self._top + shown]
        return [*lines, more_lines(self._top, rows - self._top - shown, width)][:height]


def more_lines(above: int, below: int, width: int) -> Text:
    counts = [f"{arrow} {number}" for arrow, number in (("↑", above), ("↓", below)) if number]
    lines = "line" if above + below == 1 else "lines"
    return clip_text(Text(f"{' '.join(counts)} more {lines}", "warning"), width)


def make_markdown_page(text: str) -> ScrollPage:
    """Draw Markdown as for replies of the model."""

    def lines(width: int) -> list[Text]:
        from mainspring.cli.tui.markdown import MarkdownText, lines_of  # imported here: few pages need it

        return lines_of(MarkdownText(clean_for_drawing(text)), width)

    return ScrollPage(lines)


MOST_FRAMED = 8  # rows with a frame above and below
NARROWEST = 4  # columns: below this nothing is readable; a minimum keeps wrapping finite
MOST_OF_LINE = 10_000  # characters of a line that are wrapped; the file has the rest
MORE = "(ctrl+o)"
BRANCH = "  ⎿  "  # before lines that belong to the line above


class WidthAware:
    """Lines that learn their width when they are printed."""

    def __init__(self, make: Callable[[int], Iterable[Text]]) -> None:
        self.make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.make(options.max_width):
            made = clip_text(line, options.max_width)
            made.no_wrap, made.overflow, made.end = True, "crop", "\n"
            yield made


def clipped_line(text: str, width: int) -> str:
    """Collapse to one line of at most about `width` characters: the text may have any length."""
    return " ".join(clean_for_drawing(text[: 4 * width + 100]).split())


def lines_in(text: str) -> list[str]:
    """The lines of an output, without blank lines around it."""
    return clean_for_drawing(text).strip("\n").split("\n") if text.strip() else []


def wrap_rows(lines: Iterable[str | Text], style: str, width: int) -> list[Text]:
    """Wrap instead of clipping: the end of a line may be what matters."""
    rows: list[Text] = []
    for line in lines:
        made = Text(line[: MOST_OF_LINE + 1], style) if isinstance(line, str) else line
        cut = Text.assemble(made[:MOST_OF_LINE], "…") if len(made) > MOST_OF_LINE else made
        rows += wrap_text(cut, max(NARROWEST, width))
    return rows


def left_out(number: int, *, unfolds: bool = True) -> Text:
    return Text(f"… +{plural(number, 'line')}{f' {MORE}' if unfolds else ''}", "detail")


def left_out_above(number: int) -> Text:
    return Text(f"… {plural(number, 'line')} before {MORE}", "detail")


class ClippedRows(NamedTuple):
    """The visible rows of a longer text."""

    rows: list[Text]
    cut: bool = False  # there is more


def make_line(line: str, style: str) -> Text:
    return Text(line, style)


Draw = Callable[[str, str], Text]  # a line, in a style


def first_rows(lines: Sequence[str], style: str, width: int, most: int, draw: Draw = make_line) -> ClippedRows:
    rows: list[Text] = []
    for at, line in enumerate(lines):
        made = wrap_rows([draw(line, style)], style, width)
        if len(rows) + len(made) > most:
            rows += made[: most - len(rows)]
            return ClippedRows([*rows, left_out(len(lines) - at)], cut=True)
        rows += made
    return ClippedRows(rows)


def last_rows(lines: Sequence[str], style: str, width: int, most: int, draw: Draw = make_line) -> ClippedRows:
    rows: list[Text] = []
    for at, line in enumerate(reversed(lines)):
        made = wrap_rows([draw(line, style)], style, width)
        if len(rows) + len(made) > most:
            rows = made[len(made) - (most - len(rows)) :] + rows
            return ClippedRows([left_out_above(len(lines) - at), *rows], cut=True)
        rows = made + rows
    return ClippedRows(rows)


def indent_with_branch(lines: Sequence[Text]) -> list[Text]:
    return indent_lines(lines, Text(BRANCH, "detail"), len(BRANCH))


def text_of(segments: Iterable[Segment]) -> Text:
    """A line that rich made, without the padding."""
    made = Text(no_wrap=True)
    for segment in segments:
        if not segment.control:
            made.append(segment.text.replace("\n", ""), segment.style or Style.null())
    made.rstrip()
    return made


def strip_blank_lines(lines: list[Text], *, beginning: bool = True) -> list[Text]:
    """Remove blank lines at the end, and at the beginning."""
    full = [at for at, line in enumerate(lines) if line.plain.strip()]
    return lines[full[0] if beginning else 0 : full[-1] + 1] if full else []


STYLES = theme.ANSI
THEME = Theme(STYLES)
SYSTEMS: dict[ColourDepth, Literal["standard", "256", "truecolor"]] = {
    ColourDepth.NONE: "standard",
    ColourDepth.SIXTEEN: "standard",
    ColourDepth.MANY: "256",
    ColourDepth.TRUE: "truecolor",
}


Fragments = list[tuple[str, str]]  # for prompt-toolkit: style and text

NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
BRIGHT = (
    "brightblack",
    "brightred",
    "brightgreen",
    "brightyellow",
    "brightblue",
    "brightmagenta",
    "brightcyan",
    "white",
)


class SafeConsole(Console):
    """Emits only the escape codes of styles, and strips control characters that a caller failed to sanitize."""

    links = False  # whether the terminal shows hyperlinks

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        safe = [
            Segment(strip_control_characters(text), keep_safe_link(style, wanted=self.links), control)
            for text, style, control in buffer
        ]
        return super()._render_buffer(add_links(safe, self.width) if self.links else safe)


class Painter:
    def __init__(self, *, depth: ColourDepth = ColourDepth.SIXTEEN, name: str = "ansi", links: bool = False) -> None:
        """`name`: of the theme. `links`: the terminal shows hyperlinks."""
        colour = depth is not ColourDepth.NONE and name != "none"
        self._console = SafeConsole(
            file=io.StringIO(),
            force_terminal=True,
            color_system=SYSTEMS[depth],
            no_color=not colour,
            theme=Theme(theme.styles_of(name)),
            width=80,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            _environ={},  # we set the size ourselves
        )
        self._console.links = links and colour
        self._colour = colour
        self._known: dict[Style, str] = {}

    def printed(self, parts: Iterable[RenderableType], width: int) -> str:
        """Return the output for a terminal in raw mode, which does not translate line ends."""
        self._console.width = width
        with self._console.capture() as captured:
            for part in parts:
                self._console.print(part)
        return captured.get().replace("\n", "\r\n")

    def line(self, text: Text) -> Fragments:
        self._console.width = max(1, text.cell_len)
        if not text.spans:  # rich would leave out the style of the whole text
            return (
                [(self._name(self._console.get_style(text.style, default=Style.null())), text.plain)]
                if text.plain
                else []
            )
        return [
            (self._name(segment.style), segment.text)
            for segment in text.render(self._console)
            if segment.text and segment.text != "\n"
        ]

    def lines(self, texts: Iterable[Text]) -> Fragments:
        drawn: Fragments = []
        for place, text in enumerate(texts):
            if place:
                drawn.append(("", "\n"))
            drawn += self.line(text)
        return drawn

    def name_of(self, style: str) -> str:
        """A style of ours, for prompt-toolkit."""
        return self._name(self._console.get_style(style))

    def _name(self, style: Style | None) -> str:
        if style is None:
            return ""
        if style not in self._known:
            self._known[style] = prompt_toolkit_style(style, colour=self._colour)
        return self._known[style]


def prompt_toolkit_style(style: Style, *, colour: bool) -> str:
    """Convert to a prompt-toolkit style."""
    flags = ("bold", "dim", "italic", "underline", "reverse", "strike")
    words = [flag for flag in flags if getattr(style, flag)]
    for prefix, found in (("fg", style.color), ("bg", style.bgcolor)):
        if colour and found is not None and found.type is ColorType.STANDARD and found.number is not None:
            words.append(f"{prefix}:ansi{(NAMES + BRIGHT)[found.number]}")
        elif colour and found is not None and found.type is not ColorType.DEFAULT:
            words.append(f"{prefix}:{found.get_truecolor().hex}")
    return " ".join(words)
