"""Menus and text fields for dialogs.

A menu selects by arrow keys, by number, or by a filter; it can select several items. It does not know the question:
`press` returns the selection, `draw` the lines. At most one item takes free text.

A text field is drawn in one line. A paste of several lines keeps its line ends, which are drawn as `¶`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice

from rich.cells import cell_len
from rich.text import Text

from mainspring.cli.tui.layout import clip_text, indent_lines, sanitize_text, split_clusters, truncate_styled, wrap_text
from mainspring.core.value import Bundle

MOST_DRAWN = 16  # characters of one cluster: more are stacked combining marks, which are unreadable
END = "¶"
SHOWN = {"\n": END, "\t": " "}


class TextField:
    """The clusters before the cursor, and those after it in reverse order, so that a key costs the same for any
    length."""

    def __init__(self, text: str = "") -> None:
        self._before = list(split_clusters(text))
        self._after: list[str] = []

    @property
    def text(self) -> str:
        return "".join(chain(self._before, reversed(self._after)))

    @property
    def empty(self) -> bool:
        return not self._before and not self._after

    def press(self, key: str, text: str = "") -> None:
        match key:
            case "text" | "space" | "newline" | "paste":
                self._insert({"space": " ", "newline": "\n"}.get(key, text))
            case "left":
                move_items(self._before, self._after, 1)
            case "right":
                move_items(self._after, self._before, 1)
            case "home" | "c-a":
                move_items(self._before, self._after, len(self._before))
            case "end" | "c-e":
                move_items(self._after, self._before, len(self._after))
            case "backspace":
                del self._before[-1:]
            case "delete" | "c-d":
                del self._after[-1:]
            case "c-u":
                self._before.clear()
            case "c-k":
                self._after.clear()
            case "c-w":
                self._take_word()
            case _:
                pass

    def _insert(self, text: str) -> None:
        """A combining mark joins the character before it."""
        last = self._before.pop() if self._before else ""
        self._before += split_clusters(last + sanitize_text(text))
        if self._before and self._after and not cell_len(draw_cluster(self._after[-1])):
            self._before[-1] += self._after.pop()

    def _take_word(self) -> None:
        while self._before and self._before[-1].isspace():
            self._before.pop()
        while self._before and not self._before[-1].isspace():
            self._before.pop()

    # --- drawing ----------------------------------------------------------------------------------------------------

    def draw(self, width: int, *, cursor: bool = True, hint: str = "") -> Text:
        """Draw the part around the cursor, which is reversed. `hint`: dim text for an empty field."""
        if self.empty and hint:
            return clip_text(Text.assemble((" ", "reverse" if cursor else ""), (hint, "detail")), width)
        under = draw_cluster(self._after[-1]) if self._after else " "
        room = width - cell_len(under)
        left, right = self._left(room), self._right(room)
        if count_columns(left) + count_columns(right) > room or self._cut(left, right) != (False, False):
            room -= 2  # for dots on both sides
            ahead = self._right(room // 4)  # keep some of the text after the cursor visible
            left = self._left(room - count_columns(ahead))
            right = self._right(room - count_columns(left))
        cut_left, cut_right = self._cut(left, right)
        line = Text.assemble(("…" if cut_left else "", "detail"))
        for part in reversed(left):
            line.append(part, "detail" if part == END else "")
        line.append(under, "reverse" if cursor else "")
        for part in right:
            line.append(part, "detail" if part == END else "")
        line.append("…" if cut_right else "", "detail")
        return clip_text(line, width)

    def _left(self, room: int) -> list[str]:
        return take_fitting(reversed(self._before), room)

    def _right(self, room: int) -> list[str]:
        return take_fitting(islice(reversed(self._after), 1, None), room)

    def _cut(self, left: list[str], right: list[str]) -> tuple[bool, bool]:
        return len(left) < len(self._before), len(right) < len(self._after) - 1


def move_items(source: list[str], target: list[str], count: int) -> None:
    target.extend([source.pop() for _ in range(min(count, len(source)))])


def draw_cluster(cluster: str) -> str:
    return SHOWN.get(cluster) or cluster[:MOST_DRAWN]


def count_columns(parts: Iterable[str]) -> int:
    return sum(map(cell_len, parts))


def take_fitting(found: Iterable[str], room: int) -> list[str]:
    parts: list[str] = []
    for cluster in found:
        part = draw_cluster(cluster)
        room -= cell_len(part)
        if room < 0:
            break
        parts.append(part)
    return parts


MARK, BLANK = "❯ ", "  "
BOXES = {True: "☒ ", False: "☐ "}
STEPS = {"up": -1, "c-p": -1, "down": 1, "c-n": 1}
TYPED = ("text", "space", "newline", "paste")  # keys that enter text
NAMES = {"s-tab": "shift-tab"}  # key names as users know them
NUMBERED = 9  # items that a number key selects
NEIGHBOURS = 2  # items around the marked one, visible if there is room
MOST_ABOUT = 3  # lines of an item that is not marked; the marked one takes as many as fit
SHORT_ABOUT = 14  # columns that remain for a description, if labels come first
LEAST_LABEL = 10  # columns, in a list with one line per item

Keys = tuple[tuple[str, str], ...]  # a key, and what it does


class MenuItem(Bundle):
    label: str
    about: str = ""
    words: str = ""  # label while text is entered: "No" in "No: not that file"; empty: no free text
    hint: str = ""  # dim text while nothing is entered
    bare: bool = True  # selectable without text, too
    also: str = ""  # other text that the filter finds, such as an id
    key: str = ""  # a key that selects it, besides its number
    does: str = ""  # what that key does, for the key hints


class MenuSelection(Bundle):
    places: tuple[int, ...]
    words: str = ""


class MenuHeights(Bundle):
    """Numbers of lines; each includes the ones before it."""

    first: int  # one line per item
    marked: int  # and all lines of the marked item
    whole: int


class Menu:
    def __init__(  # noqa: PLR0913  # keywords, all but the first
        self,
        choices: Sequence[MenuItem],
        *,
        many: bool = False,
        narrowed: bool = False,
        at: int = 0,
        filter: str = "",
        searched: Sequence[str] | None = None,
        labels_first: bool = False,
    ) -> None:
        """`many`: several items can be selected; `narrowed`: typed text filters the items, at first `filter`.
        `searched`: the texts that the filter reads; None: all of each item. `labels_first`: in a narrow terminal, cut
        the labels last."""
        self._choices, self._many, self._narrowed = tuple(choices), many, narrowed
        self._shown = list(range(len(self._choices)))
        self._at = at  # index into the visible items
        self._checked: set[int] = set()
        self._words, self._filter = TextField(), TextField(filter)
        self.shows_filter = narrowed
        self._opened = False  # whether the text field of the marked item is open, although empty
        self._keys = {choice.key: place for place, choice in enumerate(self._choices) if choice.key}
        self._page = 1
        self._widest = (
            tuple([max(map(cell_len, parts), default=0) for parts in label_columns(choices)]) if narrowed else ()
        )
        if labels_first and self._widest:
            self._widest = self._widest[0], min(self._widest[1], SHORT_ABOUT)
        if searched is None:
            searched = [f"{one.label} {one.about} {one.also}" for one in choices] if narrowed else []
        self._texts = [text.casefold() for text in searched]
        if filter:
            self._narrow()

    @property
    def marked(self) -> int | None:
        """The place of the marked item among all."""
        return self._place

    @property
    def filter(self) -> str:
        return self._filter.text

    # --- keys -------------------------------------------------------------------------------------------------------

    def press(self, key: str, text: str = "") -> MenuSelection | None:
        if key == "enter":
            return self._enter()
        if self._has_own(key):
            return MenuSelection((self._keys[key],))
        if key in STEPS:
            self._step(STEPS[key])
        elif key in ("pageup", "pagedown"):
            self._go(self._at + (self._page if key == "pagedown" else -self._page))
        elif self._narrowed:
            self._filter.press(key, text)
            self._narrow()
        elif self._entry is not None:
            self._write(self._entry, key, text)
        elif key in ("home", "end"):
            self._go(0 if key == "home" else len(self._shown))
        elif key != "paste":
            return self._letter(" " if key == "space" else text)
        return None

    def chooses(self, key: str) -> bool:
        """Whether the key answers, or may be part of a word: not keys that only move or filter."""
        return key == "enter" or self._has_own(key) or (key in TYPED and not self._narrowed)

    def hears(self, key: str, text: str) -> bool:
        """Whether the key has a use here: not a letter where no text is entered."""
        if key not in TYPED or self._narrowed or self._entry is not None:
            return True
        selects = self._many and (key == "space" or text == " ")
        return key != "paste" and (selects or self._numbered(text) is not None)

    @property
    def keys(self) -> Keys:
        """The least obvious keys first: if there is little room, the last ones are left out."""
        own = [(NAMES[key], self._choices[at].does) for key, at in self._keys.items() if self._has_own(key)]
        toggle = (("space", "select"),) if self._many and self._entry is None else ()
        narrow = (("type", "to filter"),) if self._narrowed else ()
        does = "confirm" if self._many else "choose"
        if self._entry is not None:
            does = "send" if self._is_open else "choose"
        return (*own, ("↑↓", "move"), *toggle, *narrow, ("enter", does))

    @property
    def _place(self) -> int | None:
        return self._shown[self._at] if self._shown else None

    @property
    def _entry(self) -> TextField | None:
        """The text field, if the marked item takes text."""
        return self._words if self._place is not None and self._choices[self._place].words else None

    @property
    def _is_open(self) -> bool:
        return self._opened or not self._words.empty

    def _has_own(self, key: str) -> bool:
        """Not while text is entered: a user who types a reason for a denial must not approve by accident."""
        return key in self._keys and not (self._entry is not None and self._is_open)

    def _step(self, by: int) -> None:
        if self._shown:
            self._go((self._at + by) % len(self._shown))

    def _go(self, at: int) -> None:
        self._at, self._opened = max(0, min(at, len(self._shown) - 1)), False

    def _write(self, entry: TextField, key: str, text: str) -> None:
        if not self._is_open and key == "text" and self._numbered(text) == self._place:
            self._opened = True
            return
        entry.press(key, text)
        self._opened = self._is_open  # stays open if the text is deleted again

    def _letter(self, text: str) -> MenuSelection | None:
        """Handle one character; a paste selects nothing."""
        if text == " " and self._many and self._place is not None:
            self._checked ^= {self._place}
        elif (place := self._numbered(text)) is not None:
            return self._number(place)
        return None

    def _numbered(self, text: str) -> int | None:
        """The index of the item with this number."""
        found = len(text) == 1 and text in "123456789" and int(text) <= len(self._choices)
        return int(text) - 1 if found else None

    def _number(self, place: int) -> MenuSelection | None:
        if self._choices[place].words or self._many:
            self._at, self._opened = place, bool(self._choices[place].words)
            self._checked ^= {place} if self._many and not self._choices[place].words else set()
            return None
        return MenuSelection((place,))

    def _narrow(self) -> None:
        """Filter the items. The marked item stays marked if it is still visible."""
        wanted, marked = self._filter.text.casefold().split(), self._place
        self._shown = [at for at, text in enumerate(self._texts) if all(word in text for word in wanted)]
        self._at = self._shown.index(marked) if marked in self._shown else 0

    def _enter(self) -> MenuSelection | None:
        place, words = self._place, self._words.text.strip()
        if place is None:
            return None
        if self._entry is not None and not self._is_open:
            self._opened = True
            return None
        if self._many:
            picked = self._checked | {at for at, one in enumerate(self._choices) if one.words and words}
            if picked:
                return MenuSelection(tuple(sorted(picked)), words)
        choice = self._choices[place]
        if choice.words and not choice.bare and not words:
            return None
        return MenuSelection((place,), words if choice.words else "")

    # --- lines ------------------------------------------------------------------------------------------------------

    def wants(self, width: int, most: int) -> MenuHeights:
        """Count the lines, at most `most`. A filtered list does not ask for more room: the user can filter it."""
        head = int(self.shows_filter)
        whole = head + max(1, self._rows(width, most))
        first = head + (1 if self._narrowed else len(self._shown))
        marked = len(self._lines(self._at, width, most)) - 1 if self._shown else 0
        return MenuHeights(min(first, whole), min(first + marked, whole), whole)

    def _rows(self, width: int, most: int) -> int:
        used = 0
        for at in range(len(self._shown)):
            used += len(self._lines(at, width, most))
            if used >= most:
                return most
        return used

    def draw(self, width: int, height: int) -> list[Text]:
        head: list[Text] = []
        if self.shows_filter and height > 1:
            head = [Text.assemble(("Filter: ", "detail"), self._filter.draw(width - 8))]
        room = height - len(head)
        if room < 1:
            return []
        return [*head, *(self._window(width, room) if self._shown else [Text("no matches", "note")])]

    def _window(self, width: int, height: int) -> list[Text]:
        return self._all(width, height) if len(self._shown) <= height else self._around(width, height)

    def _all(self, width: int, height: int) -> list[Text]:
        """One line per item, then the rest of the marked item, then the rest of the others, from the top."""
        places = range(len(self._shown))
        given, left = [1] * len(places), height - len(places)
        for at in (self._at, *places):
            more = min(len(self._lines(at, width, height)) - given[at], left)
            given[at] += more
            left -= more
        self._page = max(1, len(places) - 1)
        return [line for at in places for line in self._lines(at, width, given[at])]

    def _around(self, width: int, height: int) -> list[Text]:
        """The marked item and as many neighbours as fit, one line each. The last line counts the rest."""
        room = max(1, height - 1)
        first = last = self._at
        lines = self._lines(self._at, width, max(1, room - NEIGHBOURS))
        while len(lines) < room:
            for at in (last + 1, first - 1):
                if 0 <= at < len(self._shown) and len(lines) < room:
                    found = self._lines(at, width, 1)
                    lines = [*lines, *found] if at > last else [*found, *lines]
                    first, last = min(first, at), max(last, at)
        self._page = max(1, last - first)
        return [*lines, render_more_line(first, len(self._shown) - 1 - last, width)][:height]

    def _lines(self, at: int, width: int, most: int) -> list[Text]:
        place = self._shown[at]
        choice, marked = self._choices[place], at == self._at
        head = (MARK if marked else BLANK) + self._sign(place)
        style = "chosen" if marked else ""
        room = width - cell_len(head)
        if choice.words and (not self._words.empty or (marked and self._opened)):
            body = [self._with_words(choice, room, marked=marked)]
        elif self._narrowed:
            body = [render_choice_line(choice, room, style, self._widest)]
        else:
            body = render_choice_rows(choice, room, style)
        most = most if marked else min(most, MOST_ABOUT)
        if len(body) > most:
            body = [*body[: most - 1], truncate_styled(body[most - 1], room)]
        return indent_lines(body, Text(head, style), cell_len(head))

    def _sign(self, place: int) -> str:
        """The number and the box before a label."""
        choice = self._choices[place]
        number = "" if self._narrowed else f"{place + 1}. " if place < NUMBERED else "   "
        checked = place in self._checked or bool(choice.words and not self._words.empty)
        return number + (BOXES[checked] if self._many else "")

    def _with_words(self, choice: MenuItem, room: int, *, marked: bool) -> Text:
        label = clip_text(Text(f"{choice.words}: ", "chosen" if marked else ""), room // 2)
        return Text.assemble(label, self._words.draw(room - label.cell_len, cursor=marked, hint=choice.hint))


def label_columns(choices: Sequence[MenuItem]) -> tuple[list[str], list[str]]:
    return [one.label for one in choices], [one.about for one in choices]


def render_choice_line(choice: MenuItem, room: int, style: str, widest: Sequence[int]) -> Text:
    """One line. `widest`: the longest label and description in the list, to align the descriptions."""
    left = min(widest[0], max(LEAST_LABEL, room - widest[1] - 2))
    label = clip_text(Text(choice.label.replace("\n", " "), style), left)
    about = choice.about.replace("\n", " ")
    gap = " " * (left - label.cell_len + 2) if about else ""
    return clip_text(Text.assemble(label, gap, (about, "detail")), room)


def render_choice_rows(choice: MenuItem, room: int, style: str) -> list[Text]:
    label, about = Text(choice.label, style), Text(choice.about, "detail")
    if not choice.about:
        return wrap_text(label, room)
    one = Text.assemble(label, "  ", about)
    if one.cell_len <= room and "\n" not in one.plain:
        return [one]
    return [*wrap_text(label, room), *wrap_text(about, room)]


def render_more_line(above: int, below: int, width: int) -> Text:
    told = [f"{arrow} {number} more" for arrow, number in (("↑", above), ("↓", below)) if number]
    return clip_text(Text(BLANK + " · ".join(told), "note"), width)


class FreeTextChoice:
    """A text field without a menu."""

    keys: Keys = (("enter", "send"),)

    def __init__(self) -> None:
        self._words = TextField()

    def press(self, key: str, text: str = "") -> MenuSelection | None:
        if key == "enter":
            return MenuSelection((), self._words.text.strip())
        self._words.press(key, text)
        return None

    def chooses(self, key: str) -> bool:
        return key == "enter" or key in TYPED

    def hears(self, key: str, text: str) -> bool:  # noqa: ARG002  # as of a list
        return True

    def wants(self, width: int, most: int) -> MenuHeights:  # noqa: ARG002
        return MenuHeights(1, 1, 1)

    def draw(self, width: int, height: int) -> list[Text]:
        return [Text.assemble((MARK, "chosen"), self._words.draw(width - cell_len(MARK)))][:height]


Clock = Callable[[], float]  # seconds
