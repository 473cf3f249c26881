"""The line that says what is being done, and for how long. It is drawn from the time that it is: nothing here waits."""

from __future__ import annotations

from math import ceil

from rich.text import Text

from mainspring.cli.tui.layout import clip_text

TURNS = ("·", "*", "✻", "*")  # of the glyph in front
TURN = 0.2  # seconds for each
LETTERS = 4  # to a token, until the model has counted them
WAYS_OUT = "esc to interrupt"

ASKING, THINKING, WRITING = "Asking the model", "Thinking", "Writing"
SUMMARISING = "Summarising the conversation"


class ProgressLine:
    def __init__(self, now: float) -> None:
        self.doing = ASKING
        self._began = now
        self._tokens = 0  # of replies that are complete
        self._letters = 0  # of the one that is being written
        self._again: tuple[float, str] | None = None  # when the model is asked again, and what is said meanwhile

    def does(self, what: str) -> None:
        self.doing, self._again = what, None

    def hears(self, letters: int) -> None:
        self._letters += letters

    def reply_is_done(self, tokens: int) -> None:
        self._tokens += tokens or self._letters // LETTERS
        self._letters = 0

    def reply_is_lost(self) -> None:
        self._letters = 0

    def tries_again(self, at: float, words: str) -> None:
        self._again = (at, words)

    def line(self, now: float, width: int, calls: str = "", *, asks: bool = False) -> Text:
        """`calls`: what is said of calls that run, in the place of all else. `asks`: Esc answers a question."""
        glyph = TURNS[int(max(0.0, now - self._began) / TURN) % len(TURNS)]
        tokens = self._tokens + self._letters // LETTERS
        facts = [
            format_elapsed(now - self._began),
            f"↓ {format_thousands(tokens)} tokens" if tokens else "",
            "" if asks else WAYS_OUT,
        ]
        told = " · ".join([fact for fact in facts if fact])
        return clip_text(
            Text.assemble((f"{glyph} {calls or self._words(now)}…", "busy"), (f" ({told})", "detail")), width
        )

    def _words(self, now: float) -> str:
        if self._again is None:
            return self.doing
        at, words = self._again
        left = max(0, ceil(at - now))
        return f"{words}, again in {left} s" if left else f"{words}, now"


def format_elapsed(took: float) -> str:
    whole = max(0, int(took))
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3_600 else f"{whole // 3_600} h {whole % 3_600 // 60} min"


def format_thousands(number: int) -> str:
    return f"{number / 1_000:.1f}k" if number >= 1_000 else str(number)
