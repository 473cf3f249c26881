"""The words in which the parts of the terminal speak of what is drawn.

There are two places. Paper is the terminal's own scrollback: what is put there stands for good, and is never touched
again. Below it is what may still change: it is drawn anew as often as it must be, from lines that each part hands out.
Texts that come from outside (a model, a file, a command) are made harmless (`text.py`) by whoever puts
them into a `Text`, so that nothing here sends control characters to a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


class Drawable(Protocol):
    """A part of what stands below the paper."""

    def draw(self, width: int, height: int) -> Sequence[Text]:
        """Its lines, one `Text` for each, at most `height` of them and none wider than `width` columns. Called at each
        redraw, up to thirty times a second: it takes as long as what is shown, not as what there is."""
        ...


class Modal(Drawable, Protocol):
    """Something that takes the keyboard until it has what it wants. Whoever opened it waits for that."""

    unheard: str  # what was typed, and meant for somebody else

    def press(self, key: str, text: str = "") -> None:
        """`key` is one of `KEYS`; for what is typed it is 'text', for what is pasted 'paste', and `text` holds it."""
        ...

    def settle(self) -> None:
        """Called now and then while it is on the screen and no key waits to be read."""
        ...


class Scrollback(Protocol):
    def put(self, *parts: RenderableType) -> None:
        """Each begins on a line of its own, in the order in which they came."""
        ...

    def redraw(self) -> None:
        """What stands below the paper has changed. It is drawn soon; many wishes are one."""
        ...


# fmt: off
KEYS = frozenset((
    "text", "paste", "enter", "newline", "escape", "tab", "s-tab", "space", "backspace", "delete", "left", "right",
    "up", "down", "home", "end", "pageup", "pagedown",
    "c-a", "c-c", "c-d", "c-e", "c-k", "c-n", "c-o", "c-p", "c-t", "c-u", "c-w",
))
# fmt: on
