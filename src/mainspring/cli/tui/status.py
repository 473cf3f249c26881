"""The last line: the mode, and what the session is at. Plain pieces: the first prompt need not wait for rich."""

from __future__ import annotations

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth

from mainspring.core.models import Model
from mainspring.core.updates import Boundary, ReplyDone, ReplyStarted, Update
from mainspring.text import truncate

# What somebody chooses by Shift-Tab, one after the other. The others are begun with, and left by it.
MODES = ("default", "acceptEdits", "plan")
SAID = {
    "default": "? for keys",
    "acceptEdits": "edits are made without asking (shift-tab)",
    "plan": "plan: nothing is changed (shift-tab)",
    "dontAsk": "nobody is asked: what no rule allows is not done (shift-tab)",
    "auto": "auto (shift-tab)",
    "bypassPermissions": "everything is done without asking (shift-tab)",
}
STYLE = {
    "acceptEdits": "fg:ansimagenta",
    "plan": "fg:ansicyan",
    "dontAsk": "fg:ansiyellow",
    "auto": "fg:ansiyellow",
    "bypassPermissions": "bold fg:ansired",
}
PLAIN = "class:footer"
NEAR = 60  # percent of the window from which on it is told


def next_mode(mode: str) -> str:
    return MODES[(MODES.index(mode) + 1) % len(MODES)] if mode in MODES else MODES[0]


class StatusLine:
    def __init__(self) -> None:
        self._filled = 0  # tokens of the last request

    def see(self, update: Update) -> None:
        match update:
            case ReplyStarted() if update.usage.prompt:
                self._filled = update.usage.prompt
            case ReplyDone():
                self._filled = max(self._filled, update.usage.prompt) + update.usage.output
            case Boundary() if update.after:
                self._filled = update.after
            case _:
                pass

    def forget(self) -> None:
        """Another conversation."""
        self._filled = 0

    def line(  # noqa: PLR0913  # all that stands there
        self, width: int, mode: str, model: Model, waits: str, *, remark: str, own: str
    ) -> StyleAndTextTuples:
        """`remark` stands in the place of the mode, such as how to leave; `own`, what a command of the user's has to
        say, in the place of what we know of the session."""
        left = remark or SAID.get(mode, mode)
        style = PLAIN if remark else STYLE.get(mode, PLAIN)
        facts = [waits, *([own] if own else [self._room(model), model.name])]
        right = " · ".join([fact for fact in facts if fact])
        right = truncate(right, width - get_cwidth(left) - 5) if own else right
        gap = width - get_cwidth(left) - get_cwidth(right) - 4
        if gap < 1:
            return [(style, f"  {left}"[:width])]
        return [(style, f"  {left}"), ("", " " * gap), (PLAIN, right)]

    def _room(self, model: Model) -> str:
        percent = min(100, 100 * self._filled // max(1, model.window))
        return f"{percent}% of the window" if percent >= NEAR else ""
