"""Words of ours for the person: on paper while the terminal is drawn, else on standard output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring.cli.output import Output, Style, wants_colour
from mainspring.cli.wrap import AsItIs

if TYPE_CHECKING:
    from mainspring.cli.repl.drawing import Paper
    from mainspring.cli.repl.shown import Shown

STYLES = {
    Style.PLAIN: "",
    Style.BOLD: "bold",
    Style.DIM: "note",
    Style.RED: "error",
    Style.GREEN: "added",
    Style.YELLOW: "warning",
    Style.CYAN: "busy",
}


class PaperLines:
    def __init__(self, paper: Callable[[], Paper | None], shown: Callable[[], Shown | None] = lambda: None) -> None:
        """`paper`: None, when nothing is drawn any more. `shown` knows what stands last on it."""
        self._plain = Output(colour=wants_colour(), wrap=AsItIs())
        self._paper, self._shown = paper, shown

    def note(self, words: str) -> None:
        """Something that the person should know."""
        self.line(words, Style.YELLOW)

    def line(self, text: str = "", style: Style = Style.PLAIN) -> None:
        """It is harmless already, as for any other screen."""
        if (paper := self._paper()) is None:
            self._plain.line(text, style)
            return
        if (shown := self._shown()) is not None:
            shown.tell(text, STYLES[style])
            return
        from rich.text import Text  # the first prompt need not wait for it

        paper.put(Text(text, STYLES[style]))
