"""A list to pick from, of a scope that Tab changes, with a filter and a preview of the marked row.

It answers with the name of the row; None: cancelled. Enter counts only after the list was visible for a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from rich.text import Text

from mainspring.agent.permission_updates import READ
from mainspring.cli.tui.dialog import CANCEL, Dialog, render_key_hints
from mainspring.cli.tui.layout import clean_for_drawing, clip_text, one_line
from mainspring.cli.tui.menu import Clock, Menu, MenuItem

MOST_PREVIEW = 8  # lines
LEAST_LIST = 6  # lines of the list before there is a preview
BAR = "│ "


class ListRow(NamedTuple):
    name: str  # the answer
    label: str
    about: str = ""
    also: str = ""  # other text that the filter finds


class ListScope(NamedTuple):
    """Its rows are loaded when it is first shown."""

    title: str
    load: Callable[[], Sequence[ListRow]]
    empty: str  # what to say if there are none


Preview = Callable[[ListRow], Sequence[str]]  # lines, newest or most important last; as they are


class ListDialog(Dialog[str | None]):
    def __init__(self, title: str, scopes: Sequence[ListScope], preview: Preview, *, now: Clock) -> None:
        super().__init__(None)
        self._title, self._scopes, self._preview, self._now = title, tuple(scopes), preview, now
        self._loaded: dict[int, tuple[ListRow, ...]] = {}
        self._previews: dict[tuple[int, str], list[str]] = {}
        self._heeds_from = inf
        self._typed = ""  # keeps its filter when the scope changes
        self._at = next((at for at in range(len(self._scopes)) if self._rows_of(at)), 0)
        self._menu = self._new_menu()

    @property
    def _rows(self) -> tuple[ListRow, ...]:
        return self._rows_of(self._at)

    def _rows_of(self, at: int) -> tuple[ListRow, ...]:
        if at not in self._loaded:
            self._loaded[at] = tuple(self._scopes[at].load())
        return self._loaded[at]

    def _new_menu(self) -> Menu:
        items = [MenuItem(one_line(row.label), one_line(row.about)) for row in self._rows]
        searched = [f"{row.label} {row.also} {row.name}" for row in self._rows]  # without ages
        return Menu(items, narrowed=True, searched=searched, filter=self._typed)

    # --- keys -------------------------------------------------------------------------------------------------------

    def press(self, key: str, text: str = "") -> None:
        if key in ("escape", "c-c"):
            self.close()
        elif self.over or self._heeds_from == inf:
            self.miss(key, text)
        elif key in ("tab", "s-tab") and len(self._scopes) > 1:
            self._typed = self._menu.filter
            self._at = (self._at + (1 if key == "tab" else -1)) % len(self._scopes)
            self._menu = self._new_menu()
        elif key != "enter" or self._now() >= self._heeds_from:
            picked = self._menu.press(key, text)
            if picked is not None:
                self.say(self._rows[picked.places[0]].name)

    # --- lines ------------------------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Text]:
        if self._heeds_from == inf:
            self._heeds_from = self._now() + READ
        head = [Text("─" * width, "rule")] * (height > LEAST_LIST) + [self._head(width)]
        keys = [self._key_hints(width)] if height > len(head) + 2 else []
        room = height - len(head) - len(keys)
        if not self._rows:
            return [*head, clip_text(Text(self._scopes[self._at].empty, "note"), width), *keys][:height]
        preview = self._draw_preview(width, min(MOST_PREVIEW, room - LEAST_LIST - 2))
        room -= len(preview)
        blank = [Text()] if room > LEAST_LIST else []
        return [*head, *self._menu.draw(width, room - len(blank)), *preview, *blank, *keys][:height]

    def _head(self, width: int) -> Text:
        scope = f"  {self._scopes[self._at].title}" if len(self._scopes) > 1 else ""
        return clip_text(Text.assemble((self._title, "title"), (scope, "note")), width)

    def _key_hints(self, width: int) -> Text:
        toggle: tuple[tuple[str, str], ...] = ()
        if len(self._scopes) > 1:
            toggle = (("tab", self._scopes[(self._at + 1) % len(self._scopes)].title),)
        return render_key_hints((*toggle, *self._menu.keys), CANCEL, width)

    def _draw_preview(self, width: int, most: int) -> list[Text]:
        marked = self._menu.marked
        if marked is None or most < 2:
            return []
        row = self._rows[marked]
        known = self._at, row.name
        if known not in self._previews:
            self._previews[known] = [
                line for part in self._preview(row) for line in clean_for_drawing(part).split("\n")
            ]
        lines = self._previews[known]
        if not lines:
            return []
        shown = [clip_text(Text(f"{BAR}{line}", "detail"), width) for line in lines[-(most - 1) :]]
        return [Text(), *shown]
