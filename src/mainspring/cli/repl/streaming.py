"""Markdown as it streams: which of it is settled, so that nothing that comes later changes how it looks.

Whole lines are looked at once, as they end. A block is handed out as soon as it is certain that it has ended: at a
blank line, at what interrupts it, or, of a list, item by item. Where a few rules do not tell (lazy lines, underlined
headings, tabs), nothing is handed out until a line that can only begin a block of its own. What never ends is handed
out in parts.

Text is made harmless before it comes here: there is no carriage return in it.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

LONGEST = 8_000  # characters that are kept back: a paragraph that fills three screens is worth showing
MOST_LINES = 100  # of an open fence, for the same reason
LOOK_BACK = 1_000  # characters in which a good place to cut a line is looked for
OUTSIDE = 1  # columns: whatever is not indented more is in no item of a list


class Piece(NamedTuple):
    """What is settled. Pieces, one after another, are the text."""

    text: str
    opened: str = ""  # what it is read after: the fence that is open, the head of the table
    number: int = 0  # of its first item, if it goes on with a numbered list
    glued: bool = False  # to the one before: no blank line between them

    @property
    def markdown(self) -> str:
        return self.opened + self.text


# --- lines ----------------------------------------------------------------------------------------------------------


class Kind(Enum):
    BLANK = auto()
    DEEP = auto()  # by four columns or more: code, or within something
    FENCE = auto()
    HEADING = auto()
    RULE = auto()
    QUOTE = auto()
    ITEM = auto()
    UNCLEAR = auto()  # an item without words, one with a tab, the line below a heading
    PLAIN = auto()


class Line(NamedTuple):
    kind: Kind
    indent: int
    mark: str = ""  # of a fence; of an item its last character, which tells lists apart
    inside: int = 0  # columns from which on a line belongs to the item
    number: int = -1  # of an item; -1: it has none


FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
RULE = re.compile(r"([-*_])(?:[ \t]*\1){2,}[ \t]*$")
ITEM = re.compile(r"([-+*]|([0-9]{1,9})[.)])([ \t]*)")
UNDERLINE = re.compile(r"(?:-+|=+)[ \t]*$")
DELIMITERS = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")


def look(line: str) -> Line:
    words = line.strip(" \t\n")
    if not words:
        return Line(Kind.BLANK, 0)
    indent = len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))
    if indent >= 4:
        return Line(Kind.DEEP, indent)
    if found := FENCE.match(words):
        return Line(Kind.FENCE, indent, found[1] or found[2])
    if HEADING.match(words):
        return Line(Kind.HEADING, indent)
    if RULE.match(words):
        return Line(Kind.RULE, indent)
    if words[0] == ">":
        return Line(Kind.QUOTE, indent)
    if found := ITEM.match(words):
        return _item(indent, words, found)
    return Line(Kind.UNCLEAR if UNDERLINE.match(words) else Kind.PLAIN, indent)


def _item(indent: int, words: str, found: re.Match[str]) -> Line:
    mark, number, gap = found[1], found[2], found[3]
    if found.end() == len(words) or "\t" in gap:
        return Line(Kind.UNCLEAR, indent)
    if not gap:
        return Line(Kind.PLAIN, indent)
    inside = indent + len(mark) + (len(gap) if len(gap) <= 4 else 1)
    return Line(Kind.ITEM, indent, mark[-1], inside, int(number) if number else -1)


# --- blocks ---------------------------------------------------------------------------------------------------------


class Block(Enum):
    """What is open."""

    NOTHING = auto()
    PARAGRAPH = auto()  # or a table
    LIST = auto()  # and it is known which item
    QUOTE = auto()
    FENCE = auto()
    MIXED = auto()  # one of these or several, but no fence that is not indented
    LOST = auto()  # a fence, or none


class Step(NamedTuple):
    block: Block
    before: bool = False  # what was before the line is settled
    after: bool = False  # and so is the line


STAY = {block: Step(block) for block in Block}
BEGINS = {
    Kind.BLANK: Step(Block.NOTHING),
    Kind.DEEP: Step(Block.MIXED),
    Kind.FENCE: Step(Block.FENCE),
    Kind.HEADING: Step(Block.NOTHING, after=True),
    Kind.RULE: Step(Block.NOTHING, after=True),
    Kind.QUOTE: Step(Block.QUOTE),
    Kind.ITEM: Step(Block.LIST),
    Kind.UNCLEAR: Step(Block.MIXED),
    Kind.PLAIN: Step(Block.PARAGRAPH),
}
BEGINS_ANEW = {kind: step._replace(before=True) for kind, step in BEGINS.items()}
ENDS = Step(Block.NOTHING, after=True)
UNSURE = Step(Block.MIXED)


def after_paragraph(line: Line) -> Step:
    match line.kind:
        case Kind.BLANK | Kind.RULE:  # it may be the line below a heading: then what is above belongs to it
            return ENDS
        case Kind.FENCE | Kind.HEADING | Kind.QUOTE:
            return BEGINS_ANEW[line.kind]
        case Kind.ITEM if line.number in (-1, 1):  # others do not interrupt a paragraph
            return BEGINS_ANEW[line.kind]
        case Kind.PLAIN:
            return STAY[Block.PARAGRAPH]
        case _:
            return UNSURE


def after_quote(line: Line) -> Step:
    match line.kind:
        case Kind.QUOTE:
            return STAY[Block.QUOTE]
        case Kind.BLANK:
            return ENDS
        case Kind.FENCE | Kind.HEADING | Kind.RULE:
            return BEGINS_ANEW[line.kind]
        case _:
            return UNSURE


def after_item(line: Line, inside: int, *, blank: bool) -> Step:
    if line.kind is Kind.BLANK or line.indent >= inside:
        return STAY[Block.LIST]
    match line.kind:
        case Kind.FENCE | Kind.HEADING | Kind.RULE | Kind.QUOTE | Kind.ITEM:
            return BEGINS_ANEW[line.kind]
        case Kind.PLAIN if blank:
            return BEGINS_ANEW[line.kind]
        case _:
            return UNSURE


def after_mixed(line: Line, *, blank: bool) -> Step:
    match line.kind:
        case Kind.FENCE if line.indent > OUTSIDE:
            return STAY[Block.LOST]
        case Kind.FENCE | Kind.HEADING if line.indent <= OUTSIDE:
            return BEGINS_ANEW[line.kind]
        case Kind.PLAIN | Kind.QUOTE | Kind.RULE if blank and line.indent <= OUTSIDE:
            return BEGINS_ANEW[line.kind]
        case _:
            return STAY[Block.MIXED]


# --- the stream -----------------------------------------------------------------------------------------------------


class Streaming:
    def __init__(self) -> None:
        self._lines: list[str] = []  # whole ones that are not settled
        self._line: list[str] = []  # parts of the one that is being written
        self._length = 0  # of both
        self._cut = False  # the line's beginning is settled already
        self._next = Piece("")  # how what is not settled is to be read
        self._block = Block.NOTHING
        self._blank = False  # the line before is
        self._item = Line(Kind.PLAIN, 0)  # the last one of a list
        self._number = 0  # it has
        self._fence = ""  # the line that opened it
        self._head = ""  # of a table

    @property
    def rest(self) -> str:
        return "".join(self._lines) + "".join(self._line)

    def tail(self, lines: int) -> Piece:
        """The end of what is not settled: of code no more than it takes to show so many lines."""
        if self._block is Block.FENCE and len(self._lines) > lines:
            return Piece("".join(self._lines[-lines:]) + "".join(self._line), self._fence, glued=True)
        return self._next._replace(text=self.rest)

    def add(self, text: str) -> list[Piece]:
        """What is settled now. It does not depend on where the text was cut before it came."""
        settled: list[Piece] = []
        at = 0
        while at < len(text):
            room = at + LONGEST - self._length
            end = text.find("\n", at, room) + 1 or min(room, len(text))
            self._line.append(text[at:end])
            self._length += end - at
            if text[end - 1] == "\n":
                self._ends_line(settled)
            if self._length >= LONGEST:
                self._cut_off(settled)
            at = end
        return settled

    def end(self) -> list[Piece]:
        """The rest, as one piece."""
        last = self._next._replace(text=self.rest)
        self._lines, self._line, self._length = [], [], 0
        return [last] if last.text else []

    # --- a line has ended ---

    def _ends_line(self, settled: list[Piece]) -> None:
        line = "".join(self._line)
        self._line.clear()
        if self._cut:
            self._cut = self._blank = False
            self._lines.append(line)
            return
        seen = look(line)
        step = self._step(seen, line)
        if step.before:
            self._settle(settled)
            self._next = Piece("", number=self._counted(seen), glued=self._goes_on(seen))
        self._enter(step.block, seen, line)
        self._lines.append(line)
        if step.after:
            self._settle(settled)
        elif self._block is Block.FENCE and len(self._lines) >= MOST_LINES and line.strip():
            self._settle(settled)  # not at a blank line: at the end of a part it would not be drawn
            self._next = Piece("", self._fence, glued=True)

    def _step(self, seen: Line, line: str) -> Step:
        match self._block:
            case Block.NOTHING:
                return BEGINS[seen.kind]
            case Block.PARAGRAPH:
                return after_paragraph(seen)
            case Block.QUOTE:
                return after_quote(seen)
            case Block.LIST:
                return after_item(seen, self._item.inside, blank=self._blank)
            case Block.FENCE:
                return ENDS if self._closes(seen, line) else STAY[Block.FENCE]
            case Block.MIXED:
                return after_mixed(seen, blank=self._blank)
            case Block.LOST:
                return STAY[Block.LOST]

    def _closes(self, seen: Line, line: str) -> bool:
        mark = look(self._fence).mark
        return seen.kind is Kind.FENCE and seen.mark.startswith(mark) and line.strip(" \t\n") == seen.mark

    def _goes_on(self, seen: Line) -> bool:
        """Whether this is one more item of the list."""
        return self._block is Block.LIST and seen.kind is Kind.ITEM and seen.mark == self._item.mark

    def _counted(self, seen: Line) -> int:
        return self._number + 1 if self._goes_on(seen) and seen.number >= 0 else 0

    def _enter(self, block: Block, seen: Line, line: str) -> None:
        if block is Block.LIST and (self._block is not Block.LIST or (seen.kind is Kind.ITEM and self._outside(seen))):
            self._number = self._counted(seen) if self._goes_on(seen) else seen.number
            self._item = seen
        if block is Block.FENCE and self._block is not Block.FENCE:
            self._fence = line
        if block is not Block.PARAGRAPH:
            self._head = ""
        elif DELIMITERS.match(line) and self._lines and "|" in self._lines[-1]:
            self._head = self._lines[-1] + line
        self._block, self._blank = block, seen.kind is Kind.BLANK

    def _outside(self, seen: Line) -> bool:
        return seen.indent < self._item.inside

    def _settle(self, settled: list[Piece]) -> None:
        if self._lines:
            text = "".join(self._lines)
            settled.append(self._next._replace(text=text))
            self._lines.clear()
            self._length -= len(text)
        self._next = Piece("")

    # --- what does not end ---

    def _cut_off(self, settled: list[Piece]) -> None:
        """Whole lines if they are most of it, else a part of the line; what follows is read as it would have been."""
        line = "".join(self._line)
        if self._block is Block.FENCE or len(line) > LONGEST / 2:
            at = len(line) if self._block is Block.FENCE else good_place(line)
            self._lines.append(line[:at])
            self._line = [line[at:]] if at < len(line) else []
            self._cut = bool(line)
            if self._block is not Block.FENCE:
                self._block = Block.PARAGRAPH if self._block in (Block.NOTHING, Block.PARAGRAPH) else Block.MIXED
        self._settle(settled)
        self._next = Piece("", self._fence if self._block is Block.FENCE else self._head, glued=True)


def good_place(line: str) -> int:
    """To cut it: before a word, or anywhere."""
    for at in range(len(line) - 1, max(1, len(line) - LOOK_BACK), -1):
        if line[at - 1] == " " and line[at].isalpha():
            return at
    return len(line)
