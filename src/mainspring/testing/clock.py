"""A virtual clock: an event loop in which waiting takes no time, and waiting without a wake-up is an error.

    result = virtually(main())     # asyncio.sleep(3600) inside returns at once, an hour later

Timers fire in order, at exactly their time, so you can assert a schedule to the millisecond.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Stuck(Exception):  # noqa: N818  # it reads as what it says
    """Every task waits, and no timer will wake any of them."""


class _Jump(selectors.SelectSelector):
    """Instead of sleeping until the next timer, moves the clock to it."""

    advance: Callable[[float], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Stuck("every task waits, and no timer will wake any of them")
        self.advance(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`at_round` maps an iteration of the loop to an action: so a test can interrupt at every await."""

    def __init__(self, at_round: Mapping[int, Callable[[], None]] | None = None) -> None:
        selector = _Jump()
        super().__init__(selector)
        selector.advance = self._advance
        self.rounds = 0
        self._at_round = dict(at_round or {})
        self._virtual = 0.0

    def time(self) -> float:
        return self._virtual

    def milliseconds(self) -> int:
        return round(self._virtual * 1_000)

    def _advance(self, seconds: float) -> None:
        self._virtual += seconds

    def _run_once(self) -> None:
        self.rounds += 1
        if act := self._at_round.get(self.rounds):
            act()
        super()._run_once()  # type: ignore[misc]  # private in asyncio, and the only place to count iterations

    def pending_timers(self) -> int:
        timers = cast("list[asyncio.TimerHandle]", getattr(self, "_scheduled"))  # noqa: B009  # private in asyncio
        return sum(not timer.cancelled() for timer in timers)


def virtually(main: Coroutine[Any, Any, T], loop: VirtualLoop | None = None) -> T:
    """Like `asyncio.run`, on a virtual clock."""
    with asyncio.Runner(loop_factory=lambda: loop or VirtualLoop()) as runner:
        return runner.run(main)
