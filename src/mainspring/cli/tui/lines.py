"""Words of ours for the person: on paper while the terminal is drawn, else on standard output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring.cli.output import NoWrap, TerminalOutput, TextStyle, wants_colour

if TYPE_CHECKING:
    from mainspring.cli.tui.drawing import Scrollback
    from mainspring.cli.tui.run_view import RunView

STYLES = {
    TextStyle.PLAIN: "",
    TextStyle.BOLD: "bold",
    TextStyle.DIM: "note",
    TextStyle.RED: "error",
    TextStyle.GREEN: "added",
    TextStyle.YELLOW: "warning",
    TextStyle.CYAN: "busy",
}


class ScrollbackLines:
    def __init__(
        self, paper: Callable[[], Scrollback | None], shown: Callable[[], RunView | None] = lambda: None
    ) -> None:
        """`paper`: None, when nothing is drawn any more. `shown` knows what stands last on it."""
        self._plain = TerminalOutput(colour=wants_colour(), wrap=NoWrap())
        self._paper, self._shown = paper, shown

    def note(self, words: str) -> None:
        """Something that the person should know."""
        self.line(words, TextStyle.YELLOW)

    def line(self, text: str = "", style: TextStyle = TextStyle.PLAIN) -> None:
        """It is harmless already, as for any other screen."""
        if (paper := self._paper()) is None:
            self._plain.line(text, style)
            return
        if (shown := self._shown()) is not None:
            shown.tell(text, STYLES[style])
            return
        from rich.text import Text  # the first prompt need not wait for it

        paper.put(Text(text, STYLES[style]))
