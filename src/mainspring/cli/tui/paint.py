"""From rich to the terminal: lines for prompt-toolkit, which draws what changes, and bytes for the scrollback.

Sixteen colours are enough (`theme.py`), and every terminal has them; `NO_COLOR` leaves bold and the like.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable

from rich.color import ColorType
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from mainspring.cli.tui.theme import THEME
from mainspring.text import strip_control_characters

Fragments = list[tuple[str, str]]  # as prompt-toolkit has them: a style and a text

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
    """Its own codes are those of styles. What a terminal would obey in a text was forgotten to be made harmless."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            [Segment(strip_control_characters(text), style, control) for text, style, control in buffer]
        )


class Painter:
    def __init__(self, *, colour: bool | None = None) -> None:
        colour = not os.environ.get("NO_COLOR") if colour is None else colour
        self._console = SafeConsole(
            file=io.StringIO(),
            force_terminal=True,
            color_system="standard",
            no_color=not colour,
            theme=THEME,
            width=80,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            _environ={},  # the size is ours to say
        )
        self._colour = colour
        self._known: dict[Style, str] = {}

    def printed(self, parts: Iterable[RenderableType], width: int) -> str:
        """As it is sent to a terminal that does not translate ends of lines."""
        self._console.width = width
        with self._console.capture() as captured:
            for part in parts:
                self._console.print(part)
        return captured.get().replace("\n", "\r\n")

    def line(self, text: Text) -> Fragments:
        self._console.width = max(1, text.cell_len)
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

    def _name(self, style: Style | None) -> str:
        if style is None:
            return ""
        if style not in self._known:
            self._known[style] = prompt_toolkit_style(style, colour=self._colour)
        return self._known[style]


def prompt_toolkit_style(style: Style, *, colour: bool) -> str:
    """In the words of prompt-toolkit."""
    flags = ("bold", "dim", "italic", "underline", "reverse", "strike")
    words = [flag for flag in flags if getattr(style, flag)]
    for prefix, found in (("fg", style.color), ("bg", style.bgcolor)):
        if colour and found is not None and found.type is ColorType.STANDARD and found.number is not None:
            words.append(f"{prefix}:ansi{(NAMES + BRIGHT)[found.number]}")
        elif colour and found is not None and found.type is not ColorType.DEFAULT:
            words.append(f"{prefix}:{found.get_truecolor().hex}")
    return " ".join(words)
