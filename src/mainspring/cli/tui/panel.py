"""Panels: lists in the live region with which the user looks at something and changes it, such as `/permissions`.

A panel shows a page, which has one or more tabs; a tab is a list of rows with actions. An action is a coroutine that
gets the marked row. It may ask (`enter`, `choose`, `confirm`), open another page (`show`), and report (`tell`, `warn`);
the event loop never waits for it. Escape goes one step back, Ctrl-C closes the panel.

Where an action has a letter, `/` opens the filter; elsewhere typed text filters at once. Texts of rows, messages and
questions may come from outside: the panel sanitizes them. Letters do not count before the panel was visible for a
moment, and a letter that grants something only if no other key follows: it may belong to a word for the input.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any, Protocol, TypeVar

from rich.text import Text

from mainspring.agent.permission_updates import READ
from mainspring.cli.tui.dialog import BURST, Dialog, told_keys
from mainspring.cli.tui.layout import clean_for_drawing, clip_text, indent_lines, one_line, sanitize_text, wrap_text
from mainspring.cli.tui.menu import STEPS, Keys, Menu, MenuItem, TextField
from mainspring.core.errors import MainspringError
from mainspring.core.value import Bundle

T = TypeVar("T")

MOST_ROWS = 16  # of a list, however high the terminal is
MOST_DETAILS = 8
MOST_SAID = 4  # lines of a message
MOST_KEYS = 2
ROOMY = 20  # lines: from here on, blank lines stand between the parts
INDENT = "  "
MOVES = frozenset((*STEPS, "pageup", "pagedown"))
NAMES = {"s-tab": "shift-tab", "left": "←", "right": "→"}  # key names as users know them


class PanelRow(Bundle):
    id: str  # the mark stays on this row when the list changes
    label: str
    about: str = ""
    also: str = ""  # other text that the filter finds


class PanelAction(Bundle):
    """`key`: a name from `KEYS`, or a character."""

    key: str
    does: str
    run: Callable[[PanelRow], Coroutine[Any, Any, object]]
    applies: Callable[[PanelRow], bool] | None = None
    needs_row: bool = True  # else it also runs in an empty list, with `NO_ROW`
    grants: bool = False


class PanelTab(Bundle):
    rows: Callable[[], Sequence[PanelRow]]
    name: str = ""
    actions: tuple[PanelAction, ...] = ()
    details: Callable[[PanelRow], Sequence[str]] | None = None  # lines about the marked row
    note: Callable[[], str] | None = None  # above the list
    empty: str = "Nothing here."


NO_ROW = PanelRow("", "")


class PanelScreen(Protocol):
    """The screen that gives the panel the keyboard."""

    def open(self, modal: Panel) -> None: ...
    def close(self, modal: Panel) -> None: ...
    def redraw(self) -> None: ...
    def attended(self) -> float:
        """Seconds, by a clock that stops while keys wait to be read."""
        ...


class PanelPage:
    """One page: where it stands."""

    def __init__(self, title: str, tabs: Sequence[PanelTab], at: int = 0, mark: str = "") -> None:
        self.title, self.tabs, self.at = one_line(title), tuple(tabs), at
        self._marks = {at: mark}
        self.filtering = False
        self.rows: tuple[PanelRow, ...] = ()
        self.menu = Menu(())
        self.refresh()

    @property
    def tab(self) -> PanelTab:
        return self.tabs[self.at]

    @property
    def marked(self) -> PanelRow:
        place = self.menu.marked
        return NO_ROW if place is None else self.rows[place]

    @property
    def takes_letters(self) -> bool:
        """Whether typed text filters at once."""
        return not any(len(action.key) == 1 for action in self.tab.actions)

    def refresh(self, text: str | None = None) -> None:
        """Builds the list anew, with this filter, or the one that it has."""
        text = self.menu.filter if text is None else text
        mark = self._marks.pop(self.at, "") or self.marked.id
        self.rows = tuple(self.tab.rows())
        ids = [row.id for row in self.rows]
        near = ids.index(mark) if mark in ids else min(self.menu.marked or 0, max(0, len(ids) - 1))
        items = [MenuItem(one_line(row.label), one_line(row.about), also=row.also) for row in self.rows]
        self.menu = Menu(items, narrowed=True, at=near, filter=text, labels_first=True)

    def go_to_tab(self, at: int) -> None:
        self._marks[self.at] = self.marked.id
        self.at, self.filtering, self.menu = at % len(self.tabs), False, Menu(())
        self.refresh("")

    def actions(self) -> list[PanelAction]:
        """Those for the marked row."""
        row = self.marked
        return [
            action
            for action in self.tab.actions
            if (row.id or not action.needs_row) and (action.applies is None or action.applies(row))
        ]


class TextEntry:
    """Asks for one line of text."""

    def __init__(self, label: str, text: str, hint: str, check: Callable[[str], str] | None) -> None:
        self.label, self.hint, self.check = one_line(label), one_line(hint), check
        self.field = TextField(sanitize_text(text))
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()


class ChoiceList:
    """Asks for one of several."""

    def __init__(self, question: str, items: Sequence[MenuItem], about: Sequence[str]) -> None:
        self.question, self.about = one_line(question), tuple(map(clean_for_drawing, about))
        self.menu = Menu([MenuItem(one_line(item.label), one_line(item.about)) for item in items])
        self.answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()


class Panel(Dialog[str | None]):
    """`say` closes it with an answer. `done` has what `tell` reported, for the scrollback."""

    def __init__(
        self, title: str, tabs: Sequence[PanelTab], screen: PanelScreen, *, at: int = 0, mark: str = ""
    ) -> None:
        """`at`: the tab, and `mark`: the id of the row to begin with."""
        super().__init__(None)
        self.done: list[str] = []
        self._screen = screen
        self._pages = [PanelPage(title, tabs, at, mark)]
        self._asking: TextEntry | ChoiceList | None = None
        self._work: asyncio.Task[None] | None = None
        self._failed: BaseException | None = None
        self._told = Text()
        self._heeds_from = inf  # when letters start to count
        self._letter: tuple[PanelAction, float] | None = None  # it runs if no key follows at once
        self._size, self._tallest = (0, 0), 0

    async def run(self) -> str | None:
        """Opens it, and waits until it is closed. Raises what an action failed with, unless it is an error that the
        panel can show."""
        self._screen.open(self)
        try:
            said = await self.answer()
        finally:
            self.close()
            self._screen.close(self)
            if (work := self._work) is not None:
                work.cancel()
                await asyncio.wait({work})
        if self._failed is not None:
            raise self._failed
        return said

    @property
    def is_busy(self) -> bool:
        """An action runs, and waits for nothing that the user has to answer."""
        return self._work is not None and self._asking is None

    # --- for actions ------------------------------------------------------------------------------------------------

    async def enter(
        self, label: str, *, text: str = "", hint: str = "", check: Callable[[str], str] | None = None
    ) -> str | None:
        """Asks for a line of text. `check` returns what is wrong with it. None: the user changed their mind."""
        asking = TextEntry(label, text, hint, check)
        return await self._ask(asking, asking.answer)

    async def choose(self, question: str, items: Sequence[MenuItem], about: Sequence[str] = ()) -> int | None:
        asking = ChoiceList(question, items, about)
        return await self._ask(asking, asking.answer)

    async def confirm(self, question: str, yes: str, about: Sequence[str] = ()) -> bool:
        """No is marked first, so that a held Enter destroys nothing."""
        return await self.choose(question, (MenuItem("No, keep it"), MenuItem(yes)), about) == 1

    async def _ask(self, asking: TextEntry | ChoiceList, answer: asyncio.Future[T]) -> T:
        self._asking = asking
        self._screen.redraw()
        try:
            return await answer
        finally:
            self._asking = None
            self._screen.redraw()

    def tell(self, words: str) -> None:
        """Report a change. Also printed to the scrollback when the panel closes."""
        self.done.append(one_line(words))
        self._say_below(words, "note")

    def remark(self, words: str) -> None:
        """Report something that is of use only here."""
        self._say_below(words, "note")

    def warn(self, words: str) -> None:
        self._say_below(words, "warning")

    def _say_below(self, words: str, style: str) -> None:
        self._told = Text(clean_for_drawing(words), style)
        self._screen.redraw()

    def show(self, title: str, tabs: Sequence[PanelTab], *, at: int = 0, mark: str = "") -> None:
        """Opens another page, on top of this one."""
        self._pages.append(PanelPage(title, tabs, at, mark))
        self._screen.redraw()

    def back(self) -> None:
        """Closes the page; the last one closes the panel."""
        if len(self._pages) == 1:
            self.close()
            return
        self._pages.pop()
        self.refresh()

    def refresh(self) -> None:
        """Something has changed: builds the list again."""
        self._pages[-1].refresh()
        self._screen.redraw()

    # --- keys -------------------------------------------------------------------------------------------------------

    def press(self, key: str, text: str = "") -> None:
        if self.over:
            self.miss(key, text)
        elif key == "c-c":
            self.close()
        elif isinstance(self._asking, TextEntry):
            self._answer_entry(self._asking, key, text)
        elif isinstance(self._asking, ChoiceList):
            self._answer_choice(self._asking, key, text)
        elif self._letter is not None:
            self._letter = None  # a word: none of its letters counts
            self._heeds_from = self._screen.attended() + READ
        else:
            self._press_list(self._pages[-1], key, text)

    def _answer_entry(self, asking: TextEntry, key: str, text: str) -> None:
        if asking.answer.done():
            return
        if key == "escape":
            asking.answer.set_result(None)
        elif key != "enter":
            asking.field.press(key, text)
        elif wrong := asking.check(asking.field.text) if asking.check is not None else "":
            self.warn(wrong)
        else:
            self._told = Text()
            asking.answer.set_result(asking.field.text)

    def _answer_choice(self, asking: ChoiceList, key: str, text: str) -> None:
        if asking.answer.done():
            return
        if key == "escape":
            asking.answer.set_result(None)
        elif (picked := asking.menu.press(key, text)) is not None:
            asking.answer.set_result(picked.places[0])

    def _press_list(self, page: PanelPage, key: str, text: str) -> None:
        if key == "escape":
            self._step_back(page)
        elif key in MOVES:
            page.menu.press(key)
        elif page.filtering:
            self._press_filter(page, key, text)
        elif (action := self._find_action(page, key, text)) is not None:
            self._begin(action, key)
        elif len(page.tabs) > 1 and key in ("tab", "right", "s-tab", "left"):
            self._told = Text()
            page.go_to_tab(page.at + (1 if key in ("tab", "right") else -1))
        elif page.takes_letters and key not in ("enter", "tab", "s-tab"):
            page.menu.press(key, text)
        elif text == "/":
            page.filtering = True

    def _step_back(self, page: PanelPage) -> None:
        if self._work is not None:
            self._work.cancel()
        elif page.filtering or page.menu.filter:
            page.filtering = False
            page.refresh("")
        else:
            self._told = Text()
            self.back()

    def _press_filter(self, page: PanelPage, key: str, text: str) -> None:
        if key == "enter":
            page.filtering = False
        else:
            page.menu.press(key, text)

    def _find_action(self, page: PanelPage, key: str, text: str) -> PanelAction | None:
        names = (text,) if key == "text" else (key,)
        return next((action for action in page.actions() if action.key in names), None)

    def _begin(self, action: PanelAction, key: str) -> None:
        now = self._screen.attended()
        if self._work is not None or self._heeds_from == inf:
            return
        if key == "text" and now < self._heeds_from:
            self._heeds_from = now + READ
        elif action.grants and key == "text":
            self._letter = action, now
        else:
            self._start(action)

    def settle(self) -> None:
        if self._letter is not None and self._screen.attended() - self._letter[1] >= BURST:
            action, self._letter = self._letter[0], None
            self._start(action)

    def _start(self, action: PanelAction) -> None:
        self._told = Text()
        self._work = asyncio.get_running_loop().create_task(self._perform(action, self._pages[-1].marked))
        self._work.add_done_callback(self._end_work)
        self._screen.redraw()

    def _end_work(self, work: asyncio.Task[None]) -> None:
        """Escape right behind the key that started it: a task that is cancelled before its first step runs nothing of
        its coroutine, not even `finally`."""
        if self._work is work:
            self._work = None
            self.warn("Cancelled.")
            self._screen.redraw()

    async def _perform(self, action: PanelAction, row: PanelRow) -> None:
        try:
            await action.run(row)
        except asyncio.CancelledError:
            self.warn("Cancelled.")
        except (MainspringError, OSError) as error:
            self.warn(str(error) or repr(error))
        except BaseException as error:  # noqa: BLE001  # `run` raises it
            self._failed = error
            self.close()
        finally:
            self._work = None
            if not self.over:
                self.refresh()
            self._screen.redraw()

    # --- lines ------------------------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Text]:
        if self._heeds_from == inf:
            self._heeds_from = self._screen.attended() + READ
        if (width, height) != self._size:
            self._size, self._tallest = (width, height), 0
        page = self._pages[-1]
        head = render_head(page, width, height)
        keys = render_hints(self._hints(page), width, MOST_KEYS if height > 8 else 1)
        entry = [self._draw_entry(self._asking, width)] if isinstance(self._asking, TextEntry) else []
        told = clip_lines(wrap_text(self._told, width), MOST_SAID, width) if self._told.plain else []
        body = self._choice_body if isinstance(self._asking, ChoiceList) else self._list_body
        spare = 2 if height >= ROOMY else 0  # blank lines: below the head, and above the keys
        room = height - len(head) - len(keys) - len(entry) - len(told) - spare
        while room < 3 and (told or len(head) > 1 or len(keys) > 1):
            part = next(part for part in (told, head, keys) if len(part) > (0 if part is told else 1))
            part.pop(0 if part is head else -1)
            room += 1
        lines = body(width, max(1, room))
        below = [*([Text()] if spare else []), *entry, *told, *keys]
        above = [*head, *([Text()] if spare else [])]
        self._tallest = max(self._tallest, len(above) + len(lines) + len(below))
        gap = min(self._tallest, height) - len(above) - len(lines) - len(below)
        return [*above, *lines, *[Text()] * gap, *below][:height]

    def _draw_entry(self, asking: TextEntry, width: int) -> Text:
        label = clip_text(Text(f"{asking.label}: ", "asks"), width // 2)
        return Text.assemble(label, asking.field.draw(width - label.cell_len, hint=asking.hint))

    def _choice_body(self, width: int, room: int) -> list[Text]:
        asking = self._asking
        assert isinstance(asking, ChoiceList)
        question = wrap_text(Text(asking.question, "asks"), width)[:2]
        about = [line for text in asking.about for line in wrap_text(Text(text, "detail"), width)]
        wanted = asking.menu.wants(width, room).whole
        about = clip_lines(about, max(0, room - len(question) - wanted), width)
        left = room - len(question) - len(about)
        if left < 1:
            return asking.menu.draw(width, room)
        return [*question, *about, *asking.menu.draw(width, left)]

    def _list_body(self, width: int, room: int) -> list[Text]:
        page = self._pages[-1]
        tab, row = page.tab, page.marked
        words = clean_for_drawing(tab.note()) if tab.note is not None else ""
        note = wrap_text(Text(words, "note"), width) if words else []
        note = clip_lines(note, 2 if room > 12 else min(1, room // 5), width)
        details = self._details(tab, row, width)
        page.menu.shows_filter = page.filtering or bool(page.menu.filter)
        filtered = int(page.menu.shows_filter)
        count = max(1, len(page.rows)) + filtered
        gap = int(room >= ROOMY - 6 and bool(details))
        share = min(count, 4 + filtered) if room < 9 else min(count, max(4, room - len(note) - gap - MOST_DETAILS))
        details = clip_lines(details, max(0, room - len(note) - gap - share), width)
        left = max(1, room - len(note) - gap * bool(details) - len(details))
        if page.rows or page.menu.filter:
            rows = page.menu.draw(width, min(left, MOST_ROWS + filtered, count))
        else:
            rows = clip_lines(wrap_text(Text(tab.empty, "note"), width), left, width)
        return [*note, *rows, *[Text()] * (gap * bool(details)), *details]

    def _details(self, tab: PanelTab, row: PanelRow, width: int) -> list[Text]:
        if tab.details is None or not row.id:
            return []
        texts = [Text(clean_for_drawing(line), "detail") for line in tab.details(row)]
        lines = [line for text in texts for line in wrap_text(text, width - len(INDENT))]
        return clip_lines(indent_lines([Text(), *lines], Text(INDENT), len(INDENT))[1:], MOST_DETAILS, width)

    def _hints(self, page: PanelPage) -> Keys:
        if isinstance(self._asking, TextEntry):
            return (("enter", "confirm"), ("esc", "cancel"))
        if isinstance(self._asking, ChoiceList):
            return (*self._asking.menu.keys, ("esc", "cancel"))
        if self._work is not None:
            return (("working…", ""), ("esc", "cancel"))
        if page.filtering:
            return (("type", "to filter"), ("enter", "done"), ("esc", "clear the filter"))
        actions = tuple([(NAMES.get(action.key, action.key), action.does) for action in page.actions()])
        used = {action.key for action in page.actions()}
        tabs = (("tab" if "right" in used else "←→", "next list"),) if len(page.tabs) > 1 else ()
        narrow = (("type" if page.takes_letters else "/", "to filter"),) if len(page.rows) > 1 else ()
        leave = "clear the filter" if page.menu.filter else "back" if len(self._pages) > 1 else "close"
        return (*actions, *tabs, *narrow, ("esc", leave))


def render_head(page: PanelPage, width: int, height: int) -> list[Text]:
    """A rule, the title and the tabs; in little room the title and the tab that is open."""
    title = Text(page.title, "title")
    lines = [Text("─" * width, "rule")] if height > 8 else []
    if len(page.tabs) == 1:
        return [*lines, clip_text(title, width)]
    tabs = Text("  ").join(
        [Text(f" {tab.name} ", "reverse" if at == page.at else "note") for at, tab in enumerate(page.tabs)]
    )
    if title.cell_len + 3 + tabs.cell_len <= width:
        return [*lines, Text.assemble(title, "   ", tabs)]
    if tabs.cell_len <= width and height > 10:
        return [*lines, clip_text(title, width), tabs]
    place = f" {page.at + 1} of {len(page.tabs)}"
    return [*lines, clip_text(Text.assemble(title, "  ", (f" {page.tab.name} ", "reverse"), (place, "note")), width)]


def render_hints(keys: Keys, width: int, most: int) -> list[Text]:
    """As many as fit into `most` lines. The last one, which leads out, is always there."""
    *others, out = [words.strip() for words in told_keys(keys)]
    while True:
        lines = pack_hints([*others, out], width)
        if len(lines) <= most or not others:
            return [clip_text(Text(line, "note"), width) for line in lines[:most]]
        others.pop()


def pack_hints(hints: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for hint in hints:
        if lines and len(lines[-1]) + 3 + len(hint) <= width:
            lines[-1] += f" · {hint}"
        else:
            lines.append(hint)
    return lines


def clip_lines(lines: list[Text], most: int, width: int) -> list[Text]:
    """At most so many; the last one then ends with dots."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], clip_text(Text.assemble(lines[most - 1], " …"), width)] if most > 0 else []
