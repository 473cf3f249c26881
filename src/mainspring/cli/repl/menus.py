"""A list to choose from: with arrows, by number, by typing what it should contain, or several of it.

Nothing here knows what is asked: `press` says what was picked, `draw` gives the lines. At most one of the choices takes
words of the user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.text import Text

from mainspring.cli.repl.entry import Entry
from mainspring.cli.repl.page import clipped, cut, folded, indented
from mainspring.core.value import Bundle

MARK, BLANK = "❯ ", "  "
BOXES = {True: "☒ ", False: "☐ "}
STEPS = {"up": -1, "c-p": -1, "down": 1, "c-n": 1}
LETTERS = {"k": -1, "j": 1}  # where nothing can be typed
NUMBERED = 9  # choices that a key of their own chooses
MOST_ABOUT = 3  # lines of a choice that is not marked; the marked one is shown as far as there is room
LEAST_LABEL = 10  # columns, in a list whose choices take one line each

Keys = tuple[tuple[str, str], ...]  # a key, and what it does


class Choice(Bundle):
    label: str
    about: str = ""
    words: str = ""  # it takes words, and this stands before them: "No" for "No: not that file"
    bare: bool = True  # it may be chosen without words, too
    also: str = ""  # what else it is found by, such as an id


class Picked(Bundle):
    places: tuple[int, ...]
    words: str = ""


class Choices:
    def __init__(self, choices: Sequence[Choice], *, many: bool = False, narrowed: bool = False, at: int = 0) -> None:
        """`many`: any number of them may be picked; `narrowed`: what is typed says what they should contain."""
        self._choices, self._many, self._narrowed = tuple(choices), many, narrowed
        self._shown = list(range(len(self._choices)))
        self._at = at  # among those that are shown
        self._checked: set[int] = set()
        self._words, self._filter = Entry(), Entry()
        self._typed = any(choice.words for choice in self._choices)
        self._page = 1
        self._widest = tuple([max(map(cell_len, parts), default=0) for parts in columns(choices)]) if narrowed else ()
        self._texts = [f"{one.label} {one.about} {one.also}".casefold() for one in choices] if narrowed else []

    # --- keys -------------------------------------------------------------------------------------------------------

    def press(self, key: str, text: str = "") -> Picked | None:
        if key == "enter":
            return self._enter()
        if key in STEPS:
            self._step(STEPS[key])
        elif key in ("pageup", "pagedown"):
            self._go(self._at + (self._page if key == "pagedown" else -self._page))
        elif self._narrowed:
            self._filter.press(key, text)
            self._narrow()
        elif self._entry is not None:
            self._entry.press(key, text)
        elif key in ("home", "end"):
            self._go(0 if key == "home" else len(self._shown))
        else:
            return self._letter(" " if key == "space" else text)
        return None

    def chooses(self, key: str, text: str) -> bool:
        """It answers something, or is a part of an answer: not what only moves or narrows."""
        if self._narrowed:
            return key == "enter"
        moves = self._entry is None and not self._typed and text in LETTERS
        return key in ("enter", "space", "newline") or (key == "text" and not moves)

    @property
    def keys(self) -> Keys:
        toggle = (("space", "select"),) if self._many and self._entry is None else ()
        narrow = (("type", "to filter"),) if self._narrowed else ()
        return (("↑↓", "move"), *toggle, *narrow, ("enter", "confirm" if self._many else "choose"))

    @property
    def _place(self) -> int | None:
        return self._shown[self._at] if self._shown else None

    @property
    def _entry(self) -> Entry | None:
        """What takes the words that are typed, if the marked choice wants any."""
        return self._words if self._place is not None and self._choices[self._place].words else None

    def _step(self, by: int) -> None:
        if self._shown:
            self._at = (self._at + by) % len(self._shown)

    def _go(self, at: int) -> None:
        self._at = max(0, min(at, len(self._shown) - 1))

    def _letter(self, text: str) -> Picked | None:
        """One key; a paste is no choice."""
        if text == " " and self._many and self._place is not None:
            self._checked ^= {self._place}
        elif text in LETTERS and not self._typed:
            self._step(LETTERS[text])
        elif len(text) == 1 and text in "123456789" and int(text) <= len(self._choices):
            return self._number(int(text) - 1)
        return None

    def _number(self, place: int) -> Picked | None:
        if self._choices[place].words or self._many:
            self._at = place
            self._checked ^= {place} if self._many and not self._choices[place].words else set()
            return None
        return Picked((place,))

    def _narrow(self) -> None:
        """The marked one stays marked, if it is still there."""
        wanted, marked = self._filter.text.casefold().split(), self._place
        self._shown = [at for at, text in enumerate(self._texts) if all(word in text for word in wanted)]
        self._at = self._shown.index(marked) if marked in self._shown else 0

    def _enter(self) -> Picked | None:
        place, words = self._place, self._words.text.strip()
        if place is None:
            return None
        if self._many:
            picked = self._checked | {at for at, one in enumerate(self._choices) if one.words and words}
            if picked:
                return Picked(tuple(sorted(picked)), words)
        choice = self._choices[place]
        if choice.words and not choice.bare and not words:
            return None
        return Picked((place,), words if choice.words else "")

    # --- lines ------------------------------------------------------------------------------------------------------

    def rows(self, width: int, most: int) -> int:
        """How many lines it wants; not counted beyond `most`."""
        used = int(self._narrowed)
        for at in range(len(self._shown)):
            used += len(self._lines(at, width, most))
            if used >= most:
                return most
        return max(used, 1)

    def draw(self, width: int, height: int) -> list[Text]:
        head: list[Text] = []
        if self._narrowed and height > 1:
            head = [Text.assemble(("Filter: ", "detail"), self._filter.draw(width - 8))]
        room = height - len(head)
        if room < 1:
            return []
        return [*head, *(self._window(width, room) if self._shown else [Text("nothing matches", "note")])]

    def _window(self, width: int, height: int) -> list[Text]:
        """The marked one, and as many around it as fit. The last line says how many do not."""
        whole = self.rows(width, height + 2) - int(self._narrowed) <= height
        room = height if whole or height == 1 else height - 1
        first = last = self._at
        lines = self._lines(self._at, width, room)
        grows = True
        while grows:
            grows = False
            for at in (last + 1, first - 1):
                found = self._lines(at, width, room) if 0 <= at < len(self._shown) else []
                if not found or len(lines) + len(found) > room:
                    continue
                lines = [*lines, *found] if at > last else [*found, *lines]
                first, last, grows = min(first, at), max(last, at), True
        self._page = max(1, last - first)
        above, below = first, len(self._shown) - 1 - last
        return [*lines, more(above, below, width)] if height > 1 and above + below else lines

    def _lines(self, at: int, width: int, most: int) -> list[Text]:
        place = self._shown[at]
        choice, marked = self._choices[place], at == self._at
        number = "" if self._narrowed else f"{place + 1}. " if place < NUMBERED else "   "
        checked = place in self._checked or bool(choice.words and not self._words.empty)
        head = (MARK if marked else BLANK) + number + (BOXES[checked] if self._many else "")
        style = "chosen" if marked else ""
        room = width - cell_len(head)
        if choice.words and not self._words.empty:
            body = [self._with_words(choice, room, marked=marked)]
        elif self._narrowed:
            body = [beside(choice, room, style, self._widest)]
        else:
            body = below(choice, room, style)
        most = most if marked else min(most, MOST_ABOUT)
        if len(body) > most:
            body = [*body[: most - 1], cut(body[most - 1], room)]
        return indented(body, Text(head, style), cell_len(head))

    def _with_words(self, choice: Choice, room: int, *, marked: bool) -> Text:
        label = clipped(Text(f"{choice.words}: ", "chosen" if marked else ""), room // 2)
        return Text.assemble(label, self._words.draw(room - label.cell_len, cursor=marked))


def columns(choices: Sequence[Choice]) -> tuple[list[str], list[str]]:
    return [one.label for one in choices], [one.about for one in choices]


def beside(choice: Choice, room: int, style: str, widest: Sequence[int]) -> Text:
    """In one line. `widest`: label and description in the list, so that all descriptions stand below each other."""
    left = min(widest[0], max(LEAST_LABEL, room - widest[1] - 2))
    label = clipped(Text(choice.label.replace("\n", " "), style), left)
    about = choice.about.replace("\n", " ")
    gap = " " * (left - label.cell_len + 2) if about else ""
    return clipped(Text.assemble(label, gap, (about, "detail")), room)


def below(choice: Choice, room: int, style: str) -> list[Text]:
    label, about = Text(choice.label, style), Text(choice.about, "detail")
    if not choice.about:
        return folded(label, room)
    one = Text.assemble(label, "  ", about)
    if one.cell_len <= room and "\n" not in one.plain:
        return [one]
    return [*folded(label, room), *folded(about, room)]


def more(above: int, below: int, width: int) -> Text:
    told = [f"{arrow} {number} more" for arrow, number in (("↑", above), ("↓", below)) if number]
    return clipped(Text(BLANK + " · ".join(told), "note"), width)


class Field:
    """Words, and nothing to choose from."""

    keys: Keys = (("enter", "send"),)

    def __init__(self) -> None:
        self._words = Entry()

    def press(self, key: str, text: str = "") -> Picked | None:
        if key == "enter":
            return Picked((), self._words.text.strip())
        self._words.press(key, text)
        return None

    def chooses(self, key: str, text: str) -> bool:  # noqa: ARG002  # as of a list
        return key in ("enter", "space", "newline", "text")

    def rows(self, width: int, most: int) -> int:  # noqa: ARG002
        return 1

    def draw(self, width: int, height: int) -> list[Text]:
        return [Text.assemble((MARK, "chosen"), self._words.draw(width - cell_len(MARK)))][:height]


Clock = Callable[[], float]  # seconds
