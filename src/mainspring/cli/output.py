"""Standard output as the commands use it: whole lines, text that streams, colour only where it is asked for."""

from __future__ import annotations

import os
from enum import StrEnum

from mainspring.cli.stdio import write_own
from mainspring.cli.wrap import LineWrap, NoWrap
from mainspring.text import escape_controls


class TextStyle(StrEnum):
    """Codes of the terminal's own sixteen colours, so that they fit its theme."""

    PLAIN = ""
    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"


class TerminalOutput:
    """Lines do not break into text that streams: they wait until it ends."""

    def __init__(self, *, colour: bool, wrap: LineWrap | NoWrap | None = None) -> None:
        self._colour = colour
        self._wrap = wrap or LineWrap()
        self._streaming = False
        self._waiting: list[str] = []

    def piece(self, text: str) -> None:
        self._streaming = True
        self._write(self._wrap.add(escape_controls(text)))

    def end_text(self) -> None:
        """Of a text block, or of whatever part of it came."""
        self._streaming = False
        waiting, self._waiting = self._waiting, []
        self._write(self._wrap.end() + "".join(waiting))

    def note_enter(self) -> None:
        """Whoever was asked has pressed Enter, and the terminal has begun a line."""
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
            write_own(text)  # at once: a reader at the other end of a pipe follows along


def is_terminal() -> bool:
    return os.isatty(1)


def wants_colour() -> bool:
    """See https://no-color.org."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
