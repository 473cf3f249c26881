"""Standard output of the commands: whole lines, streaming text with word wrap, and colour if the terminal wants it.

`LineWrap` wraps streaming text: it prints a word when it is complete, on the line where it fits.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from mainspring.agent.slash.lines import TextStyle as TextStyle  # noqa: PLC0414  # imported from here
from mainspring.cli.stdio import write_own
from mainspring.text import escape_controls

WIDTH = 80


class LineWrap:
    """The output does not depend on how the text was split into deltas."""

    def __init__(self, width: int = WIDTH) -> None:
        self._width = width
        self._column = 0
        self._gap = ""  # the space before the word: dropped if the word goes onto the next line
        self._word = ""  # kept until it is complete

    def add(self, piece: str) -> str:
        """The text that can be printed now."""
        return "".join([self._take(char) for char in piece])

    def end(self) -> str:
        """The last word, and a newline if a line was started."""
        rest = self._place()
        end = "\n" if self._column else ""
        self._column, self._gap = 0, ""
        return rest + end

    def _take(self, char: str) -> str:
        if char == "\n":
            placed, self._column, self._gap = self._place(), 0, ""
            return placed + "\n"
        if char.isspace():
            placed = self._place()
            self._gap += " "
            return placed
        self._word += char
        return self._place() if len(self._word) == self._width else ""  # longer than a line: cut

    def note_enter(self) -> None:
        """The user pressed Enter: a new line starts."""
        self._column, self._gap = 0, ""

    def _place(self) -> str:
        if not self._word:
            return ""
        shown = self._gap + self._word
        if self._column + len(shown) > self._width:
            shown, line_end, self._column = self._word, "\n" if self._column else "", 0
        else:
            line_end = ""
        self._column += len(shown)
        self._gap = self._word = ""
        return line_end + shown


class NoWrap:
    """No wrapping: the terminal wraps, so that copied text is what the model wrote."""

    def __init__(self) -> None:
        self._at_start = True

    def add(self, piece: str) -> str:
        if piece:
            self._at_start = piece.endswith("\n")
        return piece

    def end(self) -> str:
        end, self._at_start = "" if self._at_start else "\n", True
        return end

    def note_enter(self) -> None:
        """The user pressed Enter: a new line starts."""
        self._at_start = True


class TerminalOutput:
    """Lines do not interrupt streaming text: they wait until it ends."""

    def __init__(self, *, colour: bool, wrap: LineWrap | NoWrap | None = None) -> None:
        self._colour = colour
        self._wrap = wrap or LineWrap()
        self._streaming = False
        self._waiting: list[str] = []

    def piece(self, text: str) -> None:
        self._streaming = True
        self._write(self._wrap.add(escape_controls(text)))

    def end_text(self) -> None:
        """Ends a text block, complete or not."""
        self._streaming = False
        waiting, self._waiting = self._waiting, []
        self._write(self._wrap.end() + "".join(waiting))

    def note_enter(self) -> None:
        """The user has pressed Enter, so the terminal has started a new line."""
        self._wrap.note_enter()

    def line(self, text: str = "", style: TextStyle = TextStyle.PLAIN) -> None:
        painted = self.paint(text, style) + "\n"
        if self._streaming:
            self._waiting.append(painted)
        else:
            self._write(painted)

    def paint(self, text: str, style: TextStyle) -> str:
        text = escape_controls(text)
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour and style and text else text

    def _write(self, text: str) -> None:
        if text:
            write_own(text)  # unbuffered: a reader of the pipe follows along


def is_terminal() -> bool:
    return os.isatty(1)


def wants_colour() -> bool:
    """See https://no-color.org."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def get_terminal_columns() -> int:
    try:
        return os.get_terminal_size(1).columns or WIDTH
    except OSError:  # not a terminal, or it is gone
        return WIDTH


def say_once(show: Callable[[str], object]) -> Callable[[str], None]:
    """Returns a function that shows each text once: another conversation of this process may meet the same problem."""
    shown: set[str] = set()

    def show_new(words: str) -> None:
        if words not in shown:
            shown.add(words)
            show(words)

    return show_new
