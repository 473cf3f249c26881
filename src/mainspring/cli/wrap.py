"""Wraps words while they are still arriving: a word is let out when it is complete, on the line where it fits."""

from __future__ import annotations

WIDTH = 80


class LineWrap:
    """What comes out does not depend on how the text was cut into pieces."""

    def __init__(self, width: int = WIDTH) -> None:
        self._width = width
        self._column = 0
        self._gap = ""  # the space before the word: dropped if the word goes onto the next line
        self._word = ""  # held back until its end is seen

    def add(self, piece: str) -> str:
        """What can be printed now."""
        return "".join([self._take(char) for char in piece])

    def end(self) -> str:
        """What was held back, and the end of the line if one was begun."""
        rest = self._place()
        end = "\n" if self._column else ""
        self._column, self._gap = 0, ""
        return rest + end

    def _take(self, char: str) -> str:
        if char == "\n":
            placed, self._column, self._gap = self._place(), 0, ""
            return placed + "\n"
        if char.isspace():
            placed = self._place()
            self._gap += " "
            return placed
        self._word += char
        return self._place() if len(self._word) == self._width else ""  # longer than a line: cut

    def note_enter(self) -> None:
        """Somebody pressed Enter: a line begins."""
        self._column, self._gap = 0, ""

    def _place(self) -> str:
        if not self._word:
            return ""
        shown = self._gap + self._word
        if self._column + len(shown) > self._width:
            shown, line_end, self._column = self._word, "\n" if self._column else "", 0
        else:
            line_end = ""
        self._column += len(shown)
        self._gap = self._word = ""
        return line_end + shown


class NoWrap:
    """No wrapping: the terminal does it, and what is copied from there is what the model wrote."""

    def __init__(self) -> None:
        self._at_start = True

    def add(self, piece: str) -> str:
        if piece:
            self._at_start = piece.endswith("\n")
        return piece

    def end(self) -> str:
        end, self._at_start = "" if self._at_start else "\n", True
        return end

    def note_enter(self) -> None:
        """Somebody pressed Enter: a line begins."""
        self._at_start = True
