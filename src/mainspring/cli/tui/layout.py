"""Text that may be too long for its place: folded to a width, and scrolled where it does not fit.

Nothing is left out without a word: a page that shows a part says how many lines there are above and below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rich.cells import cell_len, split_graphemes
from rich.text import Text

from mainspring.text import strip_control_characters

TAB = 4  # columns: a tab has no width of its own
FLAGS = range(0x1F1E6, 0x1F200)  # two of these letters are one flag
MOST_MARKS = 16  # characters to a column, of what is cut: more are marks upon marks
BREAKS = re.compile("([\n\t])")


def clean_for_drawing(text: str) -> str:
    """Text from outside, as it may be drawn."""
    return sanitize_text(text).expandtabs(TAB)


def sanitize_text(text: str) -> str:
    """What somebody typed or pasted, or a model said, without what a terminal would obey; its tabs are kept."""
    plain = strip_control_characters(text.replace("\r\n", "\n").replace("\r", "\n"))
    return plain if plain.isascii() else plain.encode("utf-8", "replace").decode()


def one_line(text: str) -> str:
    return " ".join(clean_for_drawing(text).split())


def split_clusters(text: str) -> Iterator[str]:
    """What the eye takes for one character."""
    if text.isascii():
        yield from text
        return
    for part in BREAKS.split(text):  # they have no width, and would be taken for marks
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


# --- folding --------------------------------------------------------------------------------------------------------


def wrap_text(text: Text, width: int) -> list[Text]:
    """In lines of that width. Every character stays, also the blanks at which a line is broken: it may be a command."""
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        cuts = cuts_of(line.plain, width)
        lines += line.divide(cuts) if cuts else [line]
    return lines


def cuts_of(line: str, width: int) -> list[int]:
    """Behind a blank where there is one in the second half of what fits, else where the width ends."""
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
    """As much as fits before the dots. Not `Text.truncate`: it may be one column off where characters are joined."""
    place, left, gap = 0, width - 1, ""
    for found in split_clusters(text.plain[: width * MOST_MARKS]):
        size = cell_len(found)
        if size > left:
            gap = " " * left  # half of a wide one
            break
        left -= size
        place += len(found)
    return Text.assemble(text[:place], gap, "…") if width > 0 else Text()


def indent_lines(lines: Sequence[Text], first: Text, columns: int) -> list[Text]:
    """`first` stands before the first line, blanks before the others."""
    return [Text.assemble(Text(" " * columns) if place else first, line) for place, line in enumerate(lines)]


# --- pages ----------------------------------------------------------------------------------------------------------


class ScrollPage:
    """`make` gives the lines for a width. It is asked once for each width."""

    def __init__(self, make: Callable[[int], Sequence[Text]]) -> None:
        self._make = make
        self._width = -1
        self._lines: list[Text] = []
        self._top = 0
        self._step = 1
        self.hides = False  # as it was drawn last

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
        self._step = max(1, shown - 1)  # one line stays, for the eye
        self._top = min(self._top, rows - shown)
        lines = self._lines[self._top : self._top + shown]
        return [*lines, more_lines(self._top, rows - self._top - shown, width)][:height]


def more_lines(above: int, below: int, width: int) -> Text:
    counts = [f"{arrow} {number}" for arrow, number in (("↑", above), ("↓", below)) if number]
    return clip_text(Text(f"{' '.join(counts)} more lines", "warning"), width)


def make_markdown_page(text: str) -> ScrollPage:
    """As all that a model says is drawn."""

    def lines(width: int) -> list[Text]:
        from mainspring.cli.tui.markdown import MarkdownText, lines_of  # few pages are that

        return lines_of(MarkdownText(clean_for_drawing(text)), width)

    return ScrollPage(lines)
