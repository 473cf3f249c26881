"""When things happened in a turn, and how much of the tools' time passed while the model was still talking."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

LABEL, BAR = 26, 36  # with the two times they fill a line of eighty


class DemoSpan(NamedTuple):
    """Milliseconds since the turn began."""

    label: str
    begin: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.begin

    def shared_with(self, other: DemoSpan) -> int:
        return max(0, min(self.end, other.end) - max(self.begin, other.begin))


class TurnTimer:
    """A stopwatch. Updates carry no time, so that it is taken when they are seen."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._began = clock()
        self._talk: DemoSpan | None = None
        self._running: dict[str, DemoSpan] = {}
        self.calls: list[DemoSpan] = []  # in the order of their ends

    def now(self) -> int:
        return self._clock() - self._began

    def note_talk(self) -> None:
        """The reply is taken to end with the last thing that the model said."""
        now = self.now()
        self._talk = DemoSpan("the reply", self._talk.begin if self._talk else now, now)

    def started(self, call_id: str, label: str) -> DemoSpan:
        now = self.now()
        self._running[call_id] = DemoSpan(label, now, now)
        return self._running[call_id]

    def done(self, call_id: str) -> DemoSpan:
        started = self._running.pop(call_id)
        self.calls.append(started._replace(end=self.now()))
        return self.calls[-1]

    @property
    def spans(self) -> list[DemoSpan]:
        return [*([self._talk] if self._talk else []), *sorted(self.calls, key=lambda call: call.begin)]

    @property
    def tool_time(self) -> int:
        return sum(call.length for call in self.calls)

    @property
    def hidden(self) -> int:
        return sum(call.shared_with(self._talk) for call in self.calls) if self._talk else 0


def format_timeline(spans: Iterable[DemoSpan]) -> list[str]:
    """One line for each span, on a common scale."""
    rows = list(spans)
    scale = BAR / max([row.end for row in rows if row.end] or [1])
    return [f"{row.label[:LABEL]:<{LABEL}} {draw_bar(row, scale)} {row.begin:>4} - {row.end:>4} ms" for row in rows]


def draw_bar(span: DemoSpan, scale: float) -> str:
    begin = min(int(span.begin * scale), BAR - 1)
    length = max(1, round(span.end * scale) - begin)  # what was too short to draw is drawn nevertheless
    return (" " * begin + "=" * length).ljust(BAR)
