"""The last calls, so that what was cut of them can be looked at: turn by turn, the newest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mainspring.cli.tui.call_view import CallResultView
from mainspring.cli.tui.laid import MORE
from mainspring.cli.tui.live import format_elapsed
from mainspring.text import plural

MOST_KEPT = 50  # calls


class ExpandedCall(NamedTuple):
    turn: int
    at: float
    call: CallResultView


class CallGroup(NamedTuple):
    about: str
    calls: list[CallResultView]


class ExpandedCalls:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: deque[ExpandedCall] = deque(maxlen=MOST_KEPT)  # and what was unfolded leaves
        self._turn = 0

    def begins_turn(self) -> None:
        self._turn += 1

    def add(self, call: CallResultView) -> None:
        self._kept.append(ExpandedCall(self._turn, self._now(), call))

    def forget(self) -> None:
        self._kept.clear()

    def next(self) -> CallGroup | None:
        """What was cut in the newest turn that was not unfolded yet."""
        folded = [kept for kept in self._kept if kept.call.is_folded]
        if not folded:
            return None
        group = [kept for kept in folded if kept.turn == folded[-1].turn]
        rest = [kept for kept in self._kept if kept.turn != folded[-1].turn]
        self._kept = deque(rest, MOST_KEPT)
        ago, earlier = (
            format_elapsed(self._now() - group[-1].at),
            f" · earlier ones {MORE}" if len(folded) > len(group) else "",
        )
        return CallGroup(f"All of {plural(len(group), 'call')}, {ago} ago{earlier}", [kept.call for kept in group])
