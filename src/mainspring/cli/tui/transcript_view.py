"""The full view of a conversation: scroll, search, fold, copy, open in an editor; of a subagent also steer.

It takes the whole terminal (`is_full_screen`) and draws only what is visible. While the end is visible it follows what
streams. Positions are a part of the document and a line in it, so that a key costs the same in any conversation; a
search walks the parts in slices, between which keys are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from rich.text import Text

from mainspring.cli.tui.dialog import Dialog
from mainspring.cli.tui.layout import clip_text, one_line
from mainspring.cli.tui.menu import Keys, TextField
from mainspring.cli.tui.transcript import BlockKey, DocumentLine, TranscriptDocument

SLICE = 300  # parts that a search looks at between two keys
LEAST = 3  # lines of a view in which anything can be read

Wish = Literal["close", "edit"]


class Position(NamedTuple):
    part: int
    line: int


class TextSearch:
    """Finds parts that contain a text, from one part on, once around the document."""

    def __init__(self, document: TranscriptDocument, words: str, at: int, step: Literal[1, -1]) -> None:
        self.step: Literal[1, -1] = step
        self._document, self._words, self._at = document, words, at
        self._walked = 0

    def walk(self, parts: int) -> int | None:
        """The number of a part that contains the words; None: not among the next `parts`."""
        first = self._document.first
        count = max(1, self._document.end - first)
        for _ in range(parts):
            if self.is_over:
                break
            part = first + (self._at - first + self._walked * self.step) % count
            self._walked += 1
            if self._words in self._document.text(part).casefold():
                return part
        return None

    @property
    def is_over(self) -> bool:
        return self._walked >= self._document.end - self._document.first


class TranscriptView(Dialog[Wish]):
    is_full_screen = True

    def __init__(  # noqa: PLR0913  # what it needs from outside
        self,
        title: Callable[[], str],
        document: TranscriptDocument,
        *,
        redraw: Callable[[], object] = bool,
        copy: Callable[[TranscriptView, str], object] | None = None,
        steer: Callable[[TranscriptView, str], object] | None = None,
        at: Position | None = None,
    ) -> None:
        """`copy` takes a text to the clipboard. `steer` sends a message; then letters are text.
        `at`: where to begin; None: at the end."""
        super().__init__("close")
        self._title, self._document, self._redraw, self._copy, self._steer = title, document, redraw, copy, steer
        self._top = at or Position(document.first, 0)
        self._follows = at is None
        self._width, self._height = 80, 20  # of the body, when it was last drawn
        self._marked: BlockKey | None = None
        self._visible: list[BlockKey] = []  # blocks whose first line is visible
        self._words = ""  # that were searched for
        self._entry: TextField | None = None  # while the user types what to search for
        self._message = TextField()
        self._search: TextSearch | None = None
        self._found: Position | None = None
        self._told = ""
        self._all_folded = False

    # --- what is where ------------------------------------------------------------------------------------------------

    def _part_lines(self, part: int) -> Sequence[DocumentLine]:
        return self._document.lines(part, self._width)

    def _from(self, at: Position) -> Iterator[tuple[Position, DocumentLine]]:
        part, line = at
        while part < self._document.end:
            lines = self._part_lines(part)
            for number in range(line, len(lines)):
                yield Position(part, number), lines[number]
            part, line = part + 1, 0

    def _before(self, at: Position) -> Iterator[Position]:
        part, line = at
        while True:
            for number in range(min(line, len(self._part_lines(part))) - 1, -1, -1):
                yield Position(part, number)
            part -= 1
            if part < self._document.first:
                return
            line = len(self._part_lines(part))

    def _last_top(self) -> Position:
        """The highest line of the last screen."""
        return self._above(Position(self._document.end, 0), self._height)

    @property
    def position(self) -> Position | None:
        """None: it follows the end."""
        return None if self._follows else self._top

    def _scroll(self, lines: int) -> None:
        if lines < 0:
            self._top = self._above(self._last_top() if self._follows else self._top, -lines)
            self._follows = False
        elif not self._follows:
            below = [place for place, _ in islice(self._from(self._top), lines + 1)]
            self._go_to(below[-1] if below else self._top)

    def _above(self, place: Position, lines: int) -> Position:
        """The position so many lines above this one, or the first."""
        return [place, *islice(self._before(place), lines)][-1]

    def _go_to(self, at: Position) -> None:
        last = self._last_top()
        self._follows = at >= last
        self._top = min(at, last)

    # --- keys -------------------------------------------------------------------------------------------------------

    def press(self, key: str, text: str = "") -> None:
        self._told = ""
        if self.over:
            return
        if key == "c-c":
            self.say("close")
        elif self._entry is not None:
            self._press_entry(self._entry, key, text)
        elif not self._move(key):
            if self._steer is not None and (key in ("text", "space", "paste") or not self._message.empty):
                self._press_message(key, text)
            else:
                self._press_letter(key, text)

    def _move(self, key: str) -> bool:
        page = max(1, self._height - 1)
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page, "c-p": -1, "c-n": 1, "c-d": page // 2}
        if key == "c-u" and self._message.empty:
            self._scroll(-(page // 2 or 1))
        elif key in steps:
            self._scroll(steps[key])
        elif key == "home" and self._message.empty:
            self._follows, self._top = False, Position(self._document.first, 0)
            self._go_to(self._top)
        elif key == "end" and self._message.empty:
            self._follows = True
        else:
            return False
        return True

    def _press_letter(self, key: str, text: str) -> None:
        pressed = text if key == "text" else key
        match pressed:
            case "escape" | "q" | "c-o":
                self._leave(pressed)
            case "j" | "k" | "g" | "G":
                self._move({"j": "down", "k": "up", "g": "home", "G": "end"}[pressed])
            case "/":
                self._entry = TextField()
            case "n" | "N":
                self._look(1 if pressed == "n" else -1)
            case "tab" | "s-tab":
                self._mark_next(1 if pressed == "tab" else -1)
            case "enter" | "space" | "e":
                self._fold(pressed)
            case "y":
                self._copy_marked()
            case "v":
                self.say("edit")
            case _:
                pass

    def _leave(self, pressed: str) -> None:
        if pressed == "escape" and self._words:
            self._words, self._search = "", None
        elif pressed == "escape" and self._marked is not None:
            self._marked = None
        else:
            self.say("close")

    def _press_message(self, key: str, text: str) -> None:
        if key == "enter":
            words, self._message = self._message.text.strip(), TextField()
            if words and self._steer is not None:
                self._steer(self, words)
                self._follows = True
        elif key == "escape":
            self._message = TextField()
        elif text == "/" and self._message.empty:
            self._entry = TextField()
        else:
            self._message.press(key, text)

    def remark(self, words: str) -> None:
        """Show this until the next key."""
        self._told = one_line(words)
        self._redraw()

    # --- folding and copying ------------------------------------------------------------------------------------------

    def _mark_next(self, step: int) -> None:
        """Mark the next visible block; from the last one, scroll on to the next."""
        if not self._visible:
            self._scroll(step * max(1, self._height - 1))
            return
        marked = self._marked
        if marked is None or marked not in self._visible:
            self._marked = self._visible[0 if step > 0 else -1]
            return
        at = self._visible.index(marked) + step
        if 0 <= at < len(self._visible):
            self._marked = self._visible[at]
        else:
            self._scroll(step * max(1, self._height // 2))
            self._marked = None

    def _fold(self, pressed: str) -> None:
        """The marked block; with 'e' all of them."""
        if pressed == "e":
            self._all_folded = not self._all_folded
            self._document.fold_all(folded=self._all_folded)
            if not self._follows:
                self._go_to(Position(self._top.part, 0))
            return
        if self._marked is None:
            self._mark_next(1)
            return
        top = self._top if not self._follows else self._last_top()
        self._document.fold(self._marked, folded=not self._document.is_folded(self._marked))
        self._go_to(min(top, Position(self._marked.part, top.line)))

    def _copy_marked(self) -> None:
        """The marked block, or else the last part that has a text."""
        if self._marked is not None:
            text = self._document.block_text(self._marked)
        else:
            parts = range(self._document.end - 1, max(self._document.first, self._document.end - SLICE) - 1, -1)
            text = next((words for part in parts if (words := self._document.text(part).strip())), "")
        if text and self._copy is not None:
            self._copy(self, text)

    # --- search -----------------------------------------------------------------------------------------------------

    def _press_entry(self, entry: TextField, key: str, text: str) -> None:
        if key == "escape":
            self._entry = None
        elif key == "enter":
            self._entry, self._words, self._found = None, entry.text.strip().casefold(), None
            self._look(1)
        else:
            entry.press(key, text)

    def _look(self, step: Literal[1, -1]) -> None:
        """Go to the next line with the words, after the one that was found last, or from the top of the screen on."""
        if not self._words:
            return
        top = self._last_top() if self._follows else self._top
        since = self._found or Position(top.part, top.line - step)
        here = self._matches_in(since.part)
        beyond = [place for place in here if (place > since if step > 0 else place < since)]
        if beyond:
            self._show_match(beyond[0 if step > 0 else -1])
        else:
            self._search = TextSearch(self._document, self._words, since.part + step, step)
            self._search_on(self._search)

    def _search_on(self, search: TextSearch) -> None:
        """A slice of the search; keys are read before the next one."""
        if self._search is not search or self.over:
            return
        part = search.walk(SLICE)
        if part is not None:
            self._search = None
            found = self._matches_in(part) or self._unfolded_matches_in(part) or [Position(part, 0)]
            self._show_match(found[0 if search.step > 0 else -1])
        elif search.is_over:
            self._search, self._told = None, "not found"
        else:
            asyncio.get_running_loop().call_soon(self._search_on, search)
        self._redraw()

    def _matches_in(self, part: int) -> list[Position]:
        lines = self._part_lines(part)
        return [Position(part, at) for at, line in enumerate(lines) if self._words in line.text.plain.casefold()]

    def _unfolded_matches_in(self, part: int) -> list[Position]:
        for block in {line.block for line in self._part_lines(part) if line.block is not None}:
            self._document.fold(block, folded=False)
        return self._matches_in(part)

    def _show_match(self, place: Position) -> None:
        self._found = place
        self._go_to(self._above(place, self._height // 3))

    # --- lines ------------------------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Text]:
        has_head = height >= LEAST + 2
        self._width, self._height = width, max(1, height - has_head - 1)
        first, end = self._document.first, self._document.end
        if not first <= self._top.part < end:  # another conversation, or its beginning has left the memory
            self._top = Position(min(max(self._top.part, first), end - 1), 0)
        if self._follows:
            self._top = self._last_top()
        body: list[Text] = []
        self._visible = []
        for place, line in self._from(self._top):
            if len(body) == self._height:
                break
            if line.heads and line.block is not None:
                self._visible.append(line.block)
            body.append(self._mark_line(place, line, width))
        body += [Text()] * (self._height - len(body))
        head = [self._draw_head(width)] if has_head else []
        return [*head, *body, self._draw_foot(width)][:height]

    def _mark_line(self, place: Position, line: DocumentLine, width: int) -> Text:
        text = clip_text(line.text, width)
        is_marked = line.heads and line.block is not None and line.block == self._marked
        if not is_marked and not self._words:
            return text
        text = text.copy()
        if is_marked:
            text.stylize("chosen")
        if self._words:
            mark_words(text, self._words, "reverse bold" if place == self._found else "reverse")
        return text

    def _draw_head(self, width: int) -> Text:
        first, end = self._document.first, self._document.end
        share = 100 * (self._top.part - first) // max(1, end - first)
        where = " end " if self._follows else f" {share} % "
        title = clip_text(Text(f" {one_line(self._title())} ", "title"), max(0, width - len(where) - 4))
        gap = max(0, width - title.cell_len - len(where) - 2)
        return clip_text(
            Text.assemble(("─", "rule"), title, ("─" * gap, "rule"), (where, "note"), ("─", "rule")), width
        )

    def _draw_foot(self, width: int) -> Text:
        if self._entry is not None:
            return clip_text(Text.assemble(("/", "key"), self._entry.draw(max(1, width - 1), hint="search")), width)
        if self._told:
            return clip_text(Text(self._told, "warning"), width)
        if self._search is not None:
            return clip_text(Text("Searching…", "note"), width)
        if self._steer is not None:
            field = self._message.draw(max(1, width - 2), hint="message to this subagent · esc back")
            return clip_text(Text.assemble(("❯ ", "key"), field), width)
        return pack_hints(SEARCH_KEYS if self._words else VIEW_KEYS, width)


VIEW_KEYS: Keys = (
    ("esc", "back"),
    ("↑↓ pgup pgdn g G", "scroll"),
    ("/", "search"),
    ("tab", "mark"),
    ("enter", "fold"),
    ("e", "fold all"),
    ("y", "copy"),
    ("v", "editor"),
)
SEARCH_KEYS: Keys = (("esc", "clear"), ("n N", "next, previous"), ("/", "search"), *VIEW_KEYS[3:])


def pack_hints(keys: Keys, width: int) -> Text:
    """As many as fit into one line."""
    words = [f"{key} {does}" for key, does in keys]
    while len(words) > 1 and len(" · ".join(words)) > width:
        words.pop()
    return clip_text(Text(" · ".join(words), "note"), width)


def mark_words(text: Text, words: str, style: str) -> None:
    plain = text.plain.casefold()
    if len(plain) != len(text.plain):  # a character that becomes two when its case is folded
        return
    at = plain.find(words)
    while at >= 0:
        text.stylize(style, at, at + len(words))
        at = plain.find(words, at + len(words))
