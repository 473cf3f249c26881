"""Markdown as it streams: decides which part is settled, so that no later text changes how it looks.

Each complete line is classified once. A block is settled as soon as it has certainly ended: at a blank line, at a line
that interrupts it, or, for a list, item by item. Where a few rules cannot decide (lazy continuation, underlined
headings, tabs), nothing is settled until a line that can only begin a new block. Blocks that never end are settled in
parts. The text is sanitized before it gets here: it has no carriage returns.

`StreamingText` prints settled blocks to the scrollback, and draws the rest, and thinking, in the live region.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from rich.text import Text

from mainspring.cli.plain_markdown import DELIMITERS, RULE
from mainspring.cli.tui.layout import NARROWEST, WidthAware, clip_text, indent_lines, sanitize_text, wrap_text
from mainspring.cli.tui.markdown import MarkdownText, lines_of

LONGEST = 8_000  # characters held back: a paragraph that fills three screens is worth showing
MOST_LINES = 100  # of an open fence, for the same reason
LOOK_BACK = 1_000  # characters that are searched for a good place to cut a line
OUTSIDE = 1  # columns: a line with no more indentation is in no list item


class SettledText(NamedTuple):
    """A settled part. The parts, joined in order, are the text."""

    text: str
    opened: str = ""  # context for parsing: the open fence, or the head of the table
    number: int = 0  # of the first item, if it continues a numbered list
    glued: bool = False  # to the part before: no blank line between them

    @property
    def markdown(self) -> str:
        return self.opened + self.text


# --- lines ----------------------------------------------------------------------------------------------------------


class MarkdownLineKind(Enum):
    BLANK = auto()
    DEEP = auto()  # by four columns or more: code, or inside something
    FENCE = auto()
    HEADING = auto()
    RULE = auto()
    QUOTE = auto()
    ITEM = auto()
    UNCLEAR = auto()  # an item without text, one with a tab, the underline of a heading
    PLAIN = auto()


class MarkdownLine(NamedTuple):
    kind: MarkdownLineKind
    indent: int
    mark: str = ""  # of a fence; of an item its last character, which distinguishes lists
    inside: int = 0  # columns from which on a line belongs to the item
    number: int = -1  # of an item; -1: it has none


FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
ITEM = re.compile(r"([-+*]|([0-9]{1,9})[.)])([ \t]*)")
UNDERLINE = re.compile(r"(?:-+|=+)[ \t]*$")


def classify_line(line: str) -> MarkdownLine:
    words = line.strip(" \t\n")
    if not words:
        return MarkdownLine(MarkdownLineKind.BLANK, 0)
    indent = len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))
    if indent >= 4:
        return MarkdownLine(MarkdownLineKind.DEEP, indent)
    if found := FENCE.match(words):
        return MarkdownLine(MarkdownLineKind.FENCE, indent, found[1] or found[2])
    if HEADING.match(words):
        return MarkdownLine(MarkdownLineKind.HEADING, indent)
    if RULE.match(words):
        return MarkdownLine(MarkdownLineKind.RULE, indent)
    if words[0] == ">":
        return MarkdownLine(MarkdownLineKind.QUOTE, indent)
    if found := ITEM.match(words):
        return _item(indent, words, found)
    return MarkdownLine(MarkdownLineKind.UNCLEAR if UNDERLINE.match(words) else MarkdownLineKind.PLAIN, indent)


def _item(indent: int, words: str, found: re.Match[str]) -> MarkdownLine:
    mark, number, gap = found[1], found[2], found[3]
    if found.end() == len(words) or "\t" in gap:
        return MarkdownLine(MarkdownLineKind.UNCLEAR, indent)
    if not gap:
        return MarkdownLine(MarkdownLineKind.PLAIN, indent)
    inside = indent + len(mark) + (len(gap) if len(gap) <= 4 else 1)
    return MarkdownLine(MarkdownLineKind.ITEM, indent, mark[-1], inside, int(number) if number else -1)


# --- blocks ---------------------------------------------------------------------------------------------------------


class OpenBlock(Enum):
    """The block that is open."""

    NOTHING = auto()
    PARAGRAPH = auto()  # or a table
    LIST = auto()  # with a known item
    QUOTE = auto()
    FENCE = auto()
    MIXED = auto()  # one or several of these, but no unindented fence
    LOST = auto()  # perhaps a fence


class ParseStep(NamedTuple):
    block: OpenBlock
    before: bool = False  # the text before the line is settled
    after: bool = False  # and so is the line


STAY = {block: ParseStep(block) for block in OpenBlock}
BEGINS = {
    MarkdownLineKind.BLANK: ParseStep(OpenBlock.NOTHING),
    MarkdownLineKind.DEEP: ParseStep(OpenBlock.MIXED),
    MarkdownLineKind.FENCE: ParseStep(OpenBlock.FENCE),
    MarkdownLineKind.HEADING: ParseStep(OpenBlock.NOTHING, after=True),
    MarkdownLineKind.RULE: ParseStep(OpenBlock.NOTHING, after=True),
    MarkdownLineKind.QUOTE: ParseStep(OpenBlock.QUOTE),
    MarkdownLineKind.ITEM: ParseStep(OpenBlock.LIST),
    MarkdownLineKind.UNCLEAR: ParseStep(OpenBlock.MIXED),
    MarkdownLineKind.PLAIN: ParseStep(OpenBlock.PARAGRAPH),
}
BEGINS_ANEW = {kind: step._replace(before=True) for kind, step in BEGINS.items()}
ENDS = ParseStep(OpenBlock.NOTHING, after=True)
UNSURE = ParseStep(OpenBlock.MIXED)


def step_after_paragraph(line: MarkdownLine) -> ParseStep:
    match line.kind:
        case (
            MarkdownLineKind.BLANK | MarkdownLineKind.RULE
        ):  # a rule may underline a heading: then the text above belongs to it
            return ENDS
        case MarkdownLineKind.FENCE | MarkdownLineKind.HEADING | MarkdownLineKind.QUOTE:
            return BEGINS_ANEW[line.kind]
        case MarkdownLineKind.ITEM if line.number in (-1, 1):  # other items do not interrupt a paragraph
            return BEGINS_ANEW[line.kind]
        case MarkdownLineKind.PLAIN:
            return STAY[OpenBlock.PARAGRAPH]
        case _:
            return UNSURE


def step_after_quote(line: MarkdownLine) -> ParseStep:
    match line.kind:
        case MarkdownLineKind.QUOTE:
            return STAY[OpenBlock.QUOTE]
        case MarkdownLineKind.BLANK:
            return ENDS
        case MarkdownLineKind.FENCE | MarkdownLineKind.HEADING | MarkdownLineKind.RULE:
            return BEGINS_ANEW[line.kind]
        case _:
            return UNSURE


def step_after_item(line: MarkdownLine, inside: int, *, blank: bool) -> ParseStep:
    if line.kind is MarkdownLineKind.BLANK or line.indent >= inside:
        return STAY[OpenBlock.LIST]
    match line.kind:
        case (
            MarkdownLineKind.FENCE
            | MarkdownLineKind.HEADING
            | MarkdownLineKind.RULE
            | MarkdownLineKind.QUOTE
            | MarkdownLineKind.ITEM
        ):
            return BEGINS_ANEW[line.kind]
        case MarkdownLineKind.PLAIN if blank:
            return BEGINS_ANEW[line.kind]
        case _:
            return UNSURE


def step_after_mixed(line: MarkdownLine, *, blank: bool) -> ParseStep:
    match line.kind:
        case MarkdownLineKind.FENCE if line.indent > OUTSIDE:
            return STAY[OpenBlock.LOST]
        case MarkdownLineKind.FENCE | MarkdownLineKind.HEADING if line.indent <= OUTSIDE:
            return BEGINS_ANEW[line.kind]
        case MarkdownLineKind.PLAIN | MarkdownLineKind.QUOTE | MarkdownLineKind.RULE if (
            blank and line.indent <= OUTSIDE
        ):
            return BEGINS_ANEW[line.kind]
        case _:
            return STAY[OpenBlock.MIXED]


# --- the stream -----------------------------------------------------------------------------------------------------


class MarkdownStream:
    def __init__(self) -> None:
        self._lines: list[str] = []  # complete lines that are not settled
        self._line: list[str] = []  # parts of the incomplete line
        self._length = 0  # of both
        self._cut = False  # the beginning of the line is settled already
        self._next = SettledText("")  # how to parse what is not settled
        self._block = OpenBlock.NOTHING
        self._blank = False  # whether the line before is blank
        self._item = MarkdownLine(MarkdownLineKind.PLAIN, 0)  # the last item of a list
        self._number = 0  # its number
        self._fence = ""  # the line that opened the fence
        self._head = ""  # of a table

    @property
    def rest(self) -> str:
        return "".join(self._lines) + "".join(self._line)

    def tail(self, lines: int) -> SettledText:
        """The end of what is not settled; of code, only as many lines as are shown."""
        if self._block is OpenBlock.FENCE and len(self._lines) > lines:
            return SettledText("".join(self._lines[-lines:]) + "".join(self._line), self._fence, glued=True)
        return self._next._replace(text=self.rest)

    def add(self, text: str) -> list[SettledText]:
        """Return what is settled now. The result does not depend on how the text was split into deltas."""
        settled: list[SettledText] = []
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

    def end(self) -> list[SettledText]:
        """The rest, as one part."""
        last = self._next._replace(text=self.rest)
        self._lines, self._line, self._length = [], [], 0
        return [last] if last.text else []

    # --- a line has ended ---

    def _ends_line(self, settled: list[SettledText]) -> None:
        line = "".join(self._line)
        self._line.clear()
        if self._cut:
            self._cut = self._blank = False
            self._lines.append(line)
            return
        seen = classify_line(line)
        step = self._step(seen, line)
        if step.before:
            self._settle(settled)
            self._next = SettledText("", number=self._counted(seen), glued=self._goes_on(seen))
        self._enter(step.block, seen, line)
        self._lines.append(line)
        if step.after:
            self._settle(settled)
        elif self._block is OpenBlock.FENCE and len(self._lines) >= MOST_LINES and line.strip():
            self._settle(settled)  # not at a blank line: at the end of a part it would not be drawn
            self._next = SettledText("", self._fence, glued=True)

    def _step(self, seen: MarkdownLine, line: str) -> ParseStep:
        match self._block:
            case OpenBlock.NOTHING:
                return BEGINS[seen.kind]
            case OpenBlock.PARAGRAPH:
                return step_after_paragraph(seen)
            case OpenBlock.QUOTE:
                return step_after_quote(seen)
            case OpenBlock.LIST:
                return step_after_item(seen, self._item.inside, blank=self._blank)
            case OpenBlock.FENCE:
                return ENDS if self._closes(seen, line) else STAY[OpenBlock.FENCE]
            case OpenBlock.MIXED:
                return step_after_mixed(seen, blank=self._blank)
            case OpenBlock.LOST:
                return STAY[OpenBlock.LOST]

    def _closes(self, seen: MarkdownLine, line: str) -> bool:
        mark = classify_line(self._fence).mark
        return seen.kind is MarkdownLineKind.FENCE and seen.mark.startswith(mark) and line.strip(" \t\n") == seen.mark

    def _goes_on(self, seen: MarkdownLine) -> bool:
        """Whether the line is one more item of the list."""
        return self._block is OpenBlock.LIST and seen.kind is MarkdownLineKind.ITEM and seen.mark == self._item.mark

    def _counted(self, seen: MarkdownLine) -> int:
        return self._number + 1 if self._goes_on(seen) and seen.number >= 0 else 0

    def _enter(self, block: OpenBlock, seen: MarkdownLine, line: str) -> None:
        if block is OpenBlock.LIST and (
            self._block is not OpenBlock.LIST or (seen.kind is MarkdownLineKind.ITEM and self._outside(seen))
        ):
            self._number = self._counted(seen) if self._goes_on(seen) else seen.number
            self._item = seen
        if block is OpenBlock.FENCE and self._block is not OpenBlock.FENCE:
            self._fence = line
        if block is not OpenBlock.PARAGRAPH:
            self._head = ""
        elif DELIMITERS.match(line) and self._lines and "|" in self._lines[-1]:
            self._head = self._lines[-1] + line
        self._block, self._blank = block, seen.kind is MarkdownLineKind.BLANK

    def _outside(self, seen: MarkdownLine) -> bool:
        return seen.indent < self._item.inside

    def _settle(self, settled: list[SettledText]) -> None:
        if self._lines:
            text = "".join(self._lines)
            settled.append(self._next._replace(text=text))
            self._lines.clear()
            self._length -= len(text)
        self._next = SettledText("")

    # --- blocks without an end ---

    def _cut_off(self, settled: list[SettledText]) -> None:
        """Settle complete lines if they are most of the text, else a part of the line; the rest is parsed as it would
        have been."""
        line = "".join(self._line)
        if self._block is OpenBlock.FENCE or len(line) > LONGEST / 2:
            at = len(line) if self._block is OpenBlock.FENCE else good_place(line)
            self._lines.append(line[:at])
            self._line = [line[at:]] if at < len(line) else []
            self._cut = bool(line)
            if self._block is not OpenBlock.FENCE:
                self._block = (
                    OpenBlock.PARAGRAPH if self._block in (OpenBlock.NOTHING, OpenBlock.PARAGRAPH) else OpenBlock.MIXED
                )
        self._settle(settled)
        self._next = SettledText("", self._fence if self._block is OpenBlock.FENCE else self._head, glued=True)


def good_place(line: str) -> int:
    """Where to cut the line: before a word, or anywhere."""
    for at in range(len(line) - 1, max(1, len(line) - LOOK_BACK), -1):
        if line[at - 1] == " " and line[at].isalpha():
            return at
    return len(line)


BULLET = Text("● ")
THOUGHTS = 2  # lines
KEPT = 2_000  # characters of a thought: two lines of any terminal
OFTEN = 0.1  # seconds between two drawings of the rest: as fast as the eye follows


class SettledPart(NamedTuple):
    """A part to print to the scrollback."""

    part: WidthAware
    glued: bool


class DrawnText(NamedTuple):
    width: int
    height: int
    at: float
    lines: list[Text]


def make_text_block_view(piece: SettledText, mark: Text) -> WidthAware:
    prose = MarkdownText(piece.markdown, piece.number)
    return WidthAware(lambda width: indent_lines(lines_of(prose, width - 2, goes_on=bool(piece.opened)), mark, 2))


class StreamingText:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._text = MarkdownStream()
        self._bullet = True  # nothing of the block is printed yet
        self._last: DrawnText | None = None
        self._thought = ""
        self._since: float | None = None  # since when the model is thinking

    # --- text ---

    def add(self, text: str) -> list[SettledPart]:
        self._since, self._thought = None, ""
        return self._settled(self._text.add(sanitize_text(text.replace("\r", ""))))

    def end(self) -> list[SettledPart]:
        """A text block has ended, or the run was interrupted."""
        return self._settled(self._text.end(), over=True)

    def drop(self) -> None:
        """Discard what is not printed yet; printed text stays."""
        self._text, self._last, self._since, self._thought = MarkdownStream(), None, None, ""

    def break_up(self) -> None:
        """Something else is printed: text after it gets its own bullet."""
        self._bullet = True

    def _settled(self, pieces: list[SettledText], *, over: bool = False) -> list[SettledPart]:
        if over:
            self._text = MarkdownStream()
        if pieces or over:
            self._last = None
        made: list[SettledPart] = []
        for piece in pieces:
            if piece.text.strip():
                made.append(
                    SettledPart(make_text_block_view(piece, BULLET if self._bullet else Text("  ")), piece.glued)
                )
                self._bullet = False
        return made

    # --- thinking ---

    def thinks(self, text: str = "") -> None:
        if self._since is None:
            self._since = self._now()
        self._thought += sanitize_text(text)
        if len(self._thought) > KEPT:  # keep half, so that the visible end does not move with every word
            self._thought = self._thought[-KEPT // 2 :]

    def has_thought(self) -> float | None:
        """Return how long the model was thinking, and forget the thought."""
        since, self._since, self._thought = self._since, None, ""
        return None if since is None else self._now() - since

    # --- live region ---

    def draw(self, width: int, height: int) -> list[Text]:
        if height < 1:
            return []
        if self._since is not None:
            return self._thoughts(width)[-height:]
        last, now = self._last, self._now()
        if last is None or (last.width, last.height) != (width, height) or now - last.at >= OFTEN:
            self._last = last = DrawnText(width, height, now, self._tail(width, height))
        return list(last.lines)

    def _tail(self, width: int, height: int) -> list[Text]:
        piece = self._text.tail(height)
        if not piece.text.strip():
            return []
        lines = lines_of(MarkdownText(piece.markdown, piece.number, hasty=True), width - 2, goes_on=bool(piece.opened))
        return [
            clip_text(line, width) for line in indent_lines(lines, BULLET if self._bullet else Text("  "), 2)[-height:]
        ]

    def _thoughts(self, width: int) -> list[Text]:
        lines = [line for line in self._thought.split("\n") if line.strip()][-THOUGHTS:]
        rows = [
            row for line in lines for row in wrap_text(Text(line.expandtabs(4), "thinking"), max(NARROWEST, width - 2))
        ]
        return [clip_text(row, width) for row in indent_lines(rows[-THOUGHTS:], Text("  "), 2)]
