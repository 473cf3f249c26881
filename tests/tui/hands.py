"""Keys for what asks, and a clock that stands still until somebody moves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hypothesis import settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from mainspring.cli.tui.screen import KEYS, Drawable

few = settings(max_examples=(settings.default or settings()).max_examples // 4)  # each of them presses many keys

Key = tuple[str, str]

SPECIAL = (*"漢🇩🇪\u200d\ufe0f\u0301\t\n\u202e", "e\u0301", "❤\ufe0f", "👨\u200d👩\u200d👧", "\x1b[2J")
words = st.lists(
    st.sampled_from((*SPECIAL, "a", "b ", "1", " ", "word", "x" * 30)) | st.text(max_size=3), max_size=8
).map("".join)
keys = st.one_of(
    st.sampled_from(sorted(KEYS - {"text"})).map(lambda key: (key, " " if key == "space" else "")),
    words.map(lambda text: ("text", text)),
    st.sampled_from("123456789jk ").map(lambda text: ("text", text)),
)
harmless_keys = keys.filter(lambda key: key[0] not in ("escape", "c-c"))
widths = st.integers(20, 100)
heights = st.integers(6, 40)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Pressed(Protocol):
    def press(self, key: str, text: str = "") -> object: ...


def press(asked: Pressed, *pressed: str) -> None:
    """Names of keys, or what is typed."""
    for key in pressed:
        if key in KEYS:
            asked.press(key, " " if key == "space" else "")
        else:
            asked.press("text", key)


def plain(lines: Sequence[Text]) -> list[str]:
    return [line.plain for line in lines]


def read(asked: Drawable, clock: Clock, width: int = 80, height: int = 24) -> list[str]:
    """It is drawn, and stands there long enough to be read."""
    lines = plain(asked.draw(width, height))
    clock.now += 1
    return lines


def fits(lines: Sequence[Text], width: int, height: int) -> None:
    assert len(lines) <= height
    for line in lines:
        assert cell_len(line.plain) <= width, line.plain
        assert not [char for char in line.plain if char < " " or "\x7f" <= char < "\xa0" or char == "\u202e"]


def marked(lines: Sequence[Text]) -> int:
    return sum(line.plain.startswith("❯ ") for line in lines)
