"""Finished calls that wait for their summary, if summaries of tool calls are on.

They are drawn in the live region, and leave it as one line when the summary arrives. If something else must be printed
first, they go to the scrollback as usual: text never waits for a summary. Failed calls are always printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from mainspring.cli.tui.call_view import BULLET, CallResultView
from mainspring.cli.tui.layout import MORE, clip_text, clipped_line

MOST_HELD = 50  # calls; more are printed
MOST_DRAWN = 5  # lines in the live region
LONGEST = 200  # columns of a summary


class HeldCalls:
    def __init__(self) -> None:
        self._calls: list[CallResultView] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def is_full(self) -> bool:
        return len(self._calls) >= MOST_HELD

    def add(self, call: CallResultView) -> None:
        self._calls.append(call)

    def take(self) -> list[CallResultView]:
        """All of them, to be printed."""
        calls, self._calls = self._calls, []
        return calls

    def take_batch(self, ids: Sequence[str]) -> tuple[list[CallResultView], list[CallResultView]]:
        """The calls with these ids, and those before them, which are printed first."""
        batch = [call for call in self._calls if call.call_id in ids]
        if not batch:
            return [], []
        end = self._calls.index(batch[-1]) + 1
        earlier = [call for call in self._calls[:end] if call not in batch]
        self._calls = self._calls[end:]
        return batch, earlier

    def draw(self, width: int, height: int) -> list[Text]:
        most = min(MOST_DRAWN, height)
        return [call.head(width) for call in self._calls[-most:]] if most > 0 else []


def render_summary(words: str, calls: list[CallResultView], width: int) -> Text:
    """It names the tools, too: the words are those of a model."""
    counted = Counter([call.name for call in calls])
    names = ", ".join([name if number == 1 else f"{number}x {name}" for name, number in counted.items()])
    more = f" · {clipped_line(names, LONGEST)} {MORE}"
    room = width - len(BULLET) - len(more)
    said = clip_text(Text(clipped_line(words, LONGEST), "call"), max(room, width // 2))
    return clip_text(Text.assemble((BULLET, "call.done"), said, (more, "detail")), width)
