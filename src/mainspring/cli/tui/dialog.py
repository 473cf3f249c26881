"""What a question stands on: a rule, a title, a page of text, what can be answered, and the keys that work here.

A sheet has the keyboard until it is answered or closed. A key that would answer counts only when the sheet has been on
the screen for a moment, and not as part of a word: such words were meant for the input line and are kept for it. Escape
counts at once, everywhere.

A sheet that grants something (`grants`) is stricter about numbers: one that is followed by another key at once is the
beginning of a word. `settle` tells it that no key followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from typing import Generic, TypeVar

from rich.text import Text

from mainspring.agent.permission_updates import READ
from mainspring.cli.tui.layout import ScrollPage, clip_text, indent_lines, sanitize_text
from mainspring.cli.tui.menu import TYPED, Clock, FreeTextChoice, Keys, Menu, MenuHeights, MenuSelection

T = TypeVar("T")

BURST = 0.1  # seconds: keys that follow sooner come from a held key, a paste or a program
INDENT = 2
PAGES = {"pageup": -1, "pagedown": 1}
CANCEL: Keys = (("esc", "cancel"),)
STOPS = ("ctrl-c", "stops the run")
OF_A_RUN: Keys = (*CANCEL, STOPS)  # what a call asks


class Dialog(Generic[T]):
    """Waits for one answer. `close` ends the wait from outside with the answer of somebody who gave none."""

    note = ""  # beside the title

    def __init__(self, unanswered: T) -> None:
        self.said = unanswered
        self.broken_off = False  # by Ctrl-C: not only the question is unwanted
        self.unheard = ""  # was typed or pasted, and had no meaning here: it belongs into the input line
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

    def miss(self, key: str, text: str) -> None:
        if key in TYPED:
            self.unheard += {"space": " ", "newline": "\n"}.get(key) or sanitize_text(text)

    def settle(self) -> None:
        """Called now and then while it is on the screen and no key waits to be read."""

    def expect_rest_of_word(self) -> None:
        """Somebody was typing a word into the input line when it came: the next Enter belongs to that."""

    def press(self, key: str, text: str = "") -> None:
        raise NotImplementedError

    def draw(self, width: int, height: int) -> Sequence[Text]:
        raise NotImplementedError


class PageDialog(Dialog[T]):
    def __init__(  # noqa: PLR0913  # what is on it
        self,
        title: str,
        page: ScrollPage,
        below: Menu | FreeTextChoice,
        meant: Callable[[MenuSelection | None], T],
        *,
        now: Clock,
        ways_out: Keys = CANCEL,
        grants: bool = False,
    ) -> None:
        """`meant` says what an answer comes to; None is Escape. `title` is one line. `ways_out`: what keys do that give
        no answer, the first one Escape."""
        super().__init__(meant(None))
        self._title, self._page, self._below, self._meant = title, page, below, meant
        self._now, self._ways_out = now, ways_out
        self._grants = grants
        self._heeds_from = inf  # what answers; until it is drawn, nothing does
        self._in_word = False  # letters for the input line: the next Enter belongs to them
        self._ignored_enter = -inf
        self._number: tuple[str, MenuSelection, float] | None = None  # that answers if no key follows it at once

    def press(self, key: str, text: str = "") -> None:
        if key in ("escape", "c-c"):
            self.broken_off = key == "c-c" and not self.over
            self.close()
        elif self.over or self._heeds_from == inf:
            self._in_word = key in TYPED or (self._in_word and key != "enter")
            self.miss(key, text)
        elif key in PAGES and self._page.hides:
            self._page.scroll(PAGES[key])
        elif self._number is not None:
            self._go_on_after_number(*self._number, key, text)
        elif self._too_soon(key):
            self.miss(key, text)
        elif not self._below.hears(key, text):
            self._begin_word()
            self.miss(key, text)
        else:
            self._in_word = False
            self._take(key, text)

    def _take(self, key: str, text: str) -> None:
        picked = self._below.press(key, text)
        if picked is None:
            return
        if self._grants and key == "text":
            self._number = text, picked, self._now()
        else:
            self.say(self._meant(picked))

    def expect_rest_of_word(self) -> None:
        self._in_word = True

    def settle(self) -> None:
        if self._number is not None and self._now() - self._number[2] >= BURST:
            self.say(self._meant(self._number[1]))

    def _go_on_after_number(self, number: str, picked: MenuSelection, at: float, key: str, text: str) -> None:
        """A pause has passed, or Enter follows: it was the answer. Else a word begins with it."""
        self._number = None
        if key == "enter" or self._now() - at >= BURST:
            self.say(self._meant(picked))
        else:
            self._begin_word()
            self.miss("text", number)
        if key != "enter":
            self.miss(key, text)

    def _begin_word(self) -> None:
        self._in_word, self._heeds_from = True, self._now() + READ

    def _too_soon(self, key: str) -> bool:
        """Whoever was typing when it came goes on for a while, and looks up only when they pause."""
        now = self._now()
        if key == "enter":
            return self._is_stray_enter(now)
        if now >= self._heeds_from:
            return False
        self._heeds_from = now + READ
        self._in_word = self._in_word or key in TYPED
        return self._below.chooses(key)

    def _is_stray_enter(self, now: float) -> bool:
        """It came too soon, ends a word for the input line, or comes from a key that is held down."""
        if now >= self._heeds_from and not self._in_word and now - self._ignored_enter >= BURST:
            return False
        if self._in_word:
            self._in_word, self._heeds_from = False, now + READ
        self._ignored_enter = now
        return True

    # --- lines ------------------------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Text]:
        if self._heeds_from == inf:
            self._heeds_from = self._now() + READ
        room = width - INDENT
        got = share_height(height, self._page.rows(room), self._below.wants(width, height))
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
            *[render_key_hints(self._keys(), self._ways_out, width)] * got["keys"],
        ]

    def _head(self, width: int) -> Text:
        title = clip_text(Text(self._title, "title"), width)
        noted = Text.assemble(title, (f"  {self.note}", "note"))
        return noted if self.note and noted.cell_len <= width else title

    def _keys(self) -> Keys:
        scrolls = (("pgup/pgdn", "scroll"),) if self._page.hides else ()
        return (*scrolls, *self._below.keys)


def share_height(height: int, page: int, below: MenuHeights) -> dict[str, int]:
    """How many lines each part gets. First, all choices can be seen; then a line of the page and one that says how many
    more there are. Of what is left at last, what can be answered gets up to a half, or what the page does not want."""
    wanted = {"rule": 1, "title": 1, "page": page, "below": below.whole, "keys": 1}
    got = dict.fromkeys(wanted, 0)
    first = (("below", 1), ("title", 1), ("below", below.first), ("page", 2), ("keys", 1), ("below", below.marked))

    def left() -> int:
        return height - sum(got.values())

    def give(part: str, up_to: int) -> None:
        got[part] += max(0, min(min(wanted[part], up_to) - got[part], left()))

    for part, up_to in (*first, ("rule", 1)):
        give(part, up_to)
    give("below", got["below"] + (left() + 1) // 2)
    give("page", page)
    give("below", below.whole)
    return got


def render_key_hints(keys: Keys, ways_out: Keys, width: int) -> Text:
    """As many as fit: the ways out before the others, and the first of them always."""
    out, others = told_keys(ways_out), told_keys(keys)
    while others and len(" · ".join([*others, *out])) > width:
        others.pop()
    while len(out) > 1 and len(" · ".join(out)) > width:
        out.pop()
    return clip_text(Text(" · ".join([*others, *out]), "note"), width)


def told_keys(keys: Keys) -> list[str]:
    return [f"{key} {does}" for key, does in keys]


def indented_all(lines: Sequence[Text]) -> list[Text]:
    return indent_lines(lines, Text(" " * INDENT), INDENT)
