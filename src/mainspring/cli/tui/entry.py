"""A field for text, drawn in one line. A paste of several lines stays what it is: ends of lines are drawn as `¶`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

from rich.cells import cell_len
from rich.text import Text

from mainspring.cli.tui.layout import clip_text, sanitize_text, split_clusters

MOST_DRAWN = 16  # characters of one cluster: more are marks upon marks, and nobody could tell them apart
END = "¶"
SHOWN = {"\n": END, "\t": " "}


class TextField:
    """What is before the cursor and what is behind it, by clusters; the second one backwards, so that a key costs the
    same however long the text is."""

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
        """A mark joins what is before it."""
        last = self._before.pop() if self._before else ""
        self._before += split_clusters(last + sanitize_text(text))
        if self._before and self._after and not cell_len(draw_cluster(self._after[-1])):
            self._before[-1] += self._after.pop()

    def _take_word(self) -> None:
        while self._before and self._before[-1].isspace():
            self._before.pop()
        while self._before and not self._before[-1].isspace():
            self._before.pop()

    # --- drawn ------------------------------------------------------------------------------------------------------

    def draw(self, width: int, *, cursor: bool = True, hint: str = "") -> Text:
        """What is around the cursor, which is drawn reversed. `hint` stands dimly where nothing is."""
        if self.empty and hint:
            return clip_text(Text.assemble((" ", "reverse" if cursor else ""), (hint, "detail")), width)
        under = draw_cluster(self._after[-1]) if self._after else " "
        room = width - cell_len(under)
        left, right = self._left(room), self._right(room)
        if count_columns(left) + count_columns(right) > room or self._cut(left, right) != (False, False):
            room -= 2  # for dots on both sides
            ahead = self._right(room // 4)  # some of what comes is always seen
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
