"""What the model says and thinks, as it comes: settled blocks go to paper, and the rest is drawn below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich.text import Text

from mainspring.cli.tui.laid import NARROWEST, WidthAware
from mainspring.cli.tui.layout import clip_text, indent_lines, sanitize_text, wrap_text
from mainspring.cli.tui.markdown import MarkdownText, lines_of
from mainspring.cli.tui.streaming_text import MarkdownStream, SettledText

BULLET = Text("● ")
THOUGHTS = 2  # lines
KEPT = 2_000  # characters of a thought: two lines of any terminal
OFTEN = 0.1  # seconds between two drawings of the rest: as often as an eye follows


class SettledPart(NamedTuple):
    """To be put on paper."""

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
        self._bullet = True  # nothing of it is on paper yet
        self._last: DrawnText | None = None
        self._thought = ""
        self._since: float | None = None  # it thinks

    # --- text ---

    def add(self, text: str) -> list[SettledPart]:
        self._since, self._thought = None, ""
        return self._settled(self._text.add(sanitize_text(text.replace("\r", ""))))

    def end(self) -> list[SettledPart]:
        """A block of text has ended, or the model was interrupted."""
        return self._settled(self._text.end(), over=True)

    def drop(self) -> None:
        """What is not on paper is withdrawn, and what is stays."""
        self._text, self._last, self._since, self._thought = MarkdownStream(), None, None, ""

    def break_up(self) -> None:
        """Something else comes on paper: text after it has a bullet of its own."""
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

    # --- thoughts ---

    def thinks(self, text: str = "") -> None:
        if self._since is None:
            self._since = self._now()
        self._thought += sanitize_text(text)
        if len(self._thought) > KEPT:  # half of it, so that what is left does not move with every word
            self._thought = self._thought[-KEPT // 2 :]

    def has_thought(self) -> float | None:
        """How long; it is forgotten."""
        since, self._since, self._thought = self._since, None, ""
        return None if since is None else self._now() - since

    # --- below the paper ---

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
