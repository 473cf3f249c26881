"""What a question stands on: a rule, a title, a page of text, what can be answered, and the keys that work here.

A sheet has the keyboard until it is answered or closed. Nobody answers what they have not read: a key that would answer
counts only when the sheet has been on the screen for a moment, and not in the middle of a word that was meant for the
input line. Escape counts at once, everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from typing import Generic, TypeVar

from rich.text import Text

from mainspring.cli.repl.menus import Choices, Clock, Field, Keys, Picked
from mainspring.cli.repl.page import Page, clipped, indented

T = TypeVar("T")

READ = 0.4  # seconds: less than it takes to read anything, more than between two keys of somebody who types
INDENT = 2
PAGES = {"pageup": -1, "pagedown": 1}


class Asking(Generic[T]):
    """Waits for one answer. `close` ends the wait from outside with the answer of somebody who gave none."""

    note = ""  # beside the title

    def __init__(self, unanswered: T) -> None:
        self.said = unanswered
        self.broken_off = False  # by Ctrl-C: not only the question is unwanted
        self._over = asyncio.Event()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def say(self, answer: T) -> None:
        if not self.over:
            self.said = answer
            self._over.set()

    def close(self) -> None:
        self.say(self.said)

    async def answer(self) -> T:
        await self._over.wait()
        return self.said

    def press(self, key: str, text: str = "") -> None:
        raise NotImplementedError

    def draw(self, width: int, height: int) -> Sequence[Text]:
        raise NotImplementedError


class Sheet(Asking[T]):
    def __init__(  # noqa: PLR0913  # what is on it
        self,
        title: str,
        page: Page,
        below: Choices | Field,
        meant: Callable[[Picked | None], T],
        *,
        now: Clock,
        escape: str = "cancel",
    ) -> None:
        """`meant` says what an answer comes to; None is Escape. `title` is one line. `escape`: what that key does."""
        super().__init__(meant(None))
        self._title, self._page, self._below, self._meant = title, page, below, meant
        self._now, self._escape = now, escape
        self._heeds_from = inf  # what answers; until it is drawn, nothing does

    def press(self, key: str, text: str = "") -> None:
        if key in ("escape", "c-c"):
            self.broken_off = key == "c-c" and not self.over
            self.close()
        elif key in PAGES and self._page.hides:
            self._page.scroll(PAGES[key])
        elif not self.over and not self._too_soon(key, text):
            picked = self._below.press(key, text)
            if picked is not None:
                self.say(self._meant(picked))

    def _too_soon(self, key: str, text: str) -> bool:
        """Whoever was typing when it came goes on for a while, and looks up only when they pause."""
        now = self._now()
        if now >= self._heeds_from or not self._below.chooses(key, text):
            return False
        if key != "enter" and self._heeds_from < inf:
            self._heeds_from = now + READ
        return True

    # --- lines ------------------------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Text]:
        if self._heeds_from == inf:
            self._heeds_from = self._now() + READ
        room = width - INDENT
        got = shares(height, self._page.rows(room), self._below.rows(width, height))
        page = indented_all(self._page.draw(room, got["page"]))
        below = self._below.draw(width, got["below"])
        spare = height - sum(got.values())
        return [
            *[Text("─" * width, "frame")] * got["rule"],
            *[self._head(width)] * got["title"],
            *page,
            *[Text()] * int(spare > 0 and bool(page)),
            *below,
            *[Text()] * int(spare > 1),
            *[hints(self._keys(), width)] * got["keys"],
        ]

    def _head(self, width: int) -> Text:
        title = clipped(Text(self._title, "title"), width)
        noted = Text.assemble(title, (f"  {self.note}", "note"))
        return noted if self.note and noted.cell_len <= width else title

    def _keys(self) -> Keys:
        scrolls = (("pgup/pgdn", "scroll"),) if self._page.hides else ()
        return (*scrolls, *self._below.keys, ("esc", self._escape))


# Who gets lines first, and how many, if there are not enough. A line of the page and one that says how many more there
# are, before anything that only helps.
FIRST = (("below", 1), ("page", 2), ("title", 1), ("keys", 1), ("below", 1), ("rule", 1))


def shares(height: int, page: int, below: int) -> dict[str, int]:
    """How many lines each part gets; of what is left then, what can be answered gets up to a half, or what the page
    does not want."""
    wanted = {"rule": 1, "title": 1, "page": page, "below": below, "keys": 1}
    got = dict.fromkeys(wanted, 0)

    def give(part: str, most: int) -> None:
        left = height - sum(got.values())
        got[part] += max(0, min(wanted[part] - got[part], most, left))

    for part, most in FIRST:
        give(part, most)
    give("below", (height - sum(got.values()) + 1) // 2)
    give("page", height)
    give("below", height)
    return got


def hints(keys: Keys, width: int) -> Text:
    """As many as fit; the last one is the way out, and never missing."""
    *others, way_out = [f"{key} {does}" for key, does in keys]
    while others and len(" · ".join([*others, way_out])) > width:
        others.pop()
    return clipped(Text(" · ".join([*others, way_out]), "note"), width)


def indented_all(lines: Sequence[Text]) -> list[Text]:
    return indented(lines, Text(" " * INDENT), INDENT)
