"""Signals that end a run in order: SIGINT, SIGTERM, SIGHUP. What a run started ends with it, also if it will not.

Handlers are Python's own, not the event loop's: they are heard even while the loop is stuck in a write or a read.
"""

from __future__ import annotations

import os
import signal
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TypeVar

T = TypeVar("T")

INTERRUPT = 128 + signal.SIGINT
FOREVER = float("inf")
DOUBLE = 1.0  # seconds: a second Ctrl-C within these ends the process (settled 14)

# While a line is read: a signal that came just before the read would wait for a key, were there not another one.
HEARTBEAT = 0.5

# How long the end may take before it is forced. The engine waits 2 s for what does not end by itself, twice at most.
PATIENCE = {signal.SIGINT: 5.0, signal.SIGTERM: 1.5, signal.SIGHUP: 1.5}


# Whoever sends SIGTERM waits for a second or two (stream-json 1.5): a tool gets less time to end than after Ctrl-C.
HURRY = 0.7


def do_nothing() -> None:
    pass


def signal_weight(wanted: BaseException) -> int:
    """Of two reasons to wait no longer, which counts."""
    return 2 if isinstance(wanted, SystemExit) else int(isinstance(wanted, KeyboardInterrupt))


@contextmanager
def defer_signals() -> Generator[None]:
    """While modules are loaded, signals wait. msgspec 0.22 crashes if an exception comes while it looks at types."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, PATIENCE)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # what came meanwhile is heard here


class Signals:
    """Within this block the first signal calls what `during` was given. Only at a prompt is it raised."""

    def __init__(self) -> None:
        self.code = 0  # the exit code that a signal asks for
        self.kill: Callable[[], None] = do_nothing  # ends, without a wait, whatever would outlive us
        self.resumed: Callable[[], object] = do_nothing  # after Ctrl-Z and `fg`, where nothing is raised
        self._stop: Callable[[], object] | None = do_nothing  # None: a signal is raised, at once
        self._resumed: Callable[[], Exception] | None = None  # what Ctrl-Z and `fg` raise then
        self._ends: BaseException | None = None  # what was raised, or should have been
        self._pressed = -DOUBLE  # when Ctrl-C was heard last
        self._forced_at = FOREVER  # when patience ends
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Signals:
        for number in PATIENCE:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # `nohup`, or a job in the background: let it be
                self._before[number] = before
                signal.signal(number, self._hear)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._alarm)
        self._before[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._go_on)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, before in self._before.items():
            signal.signal(number, before)

    def during(self, stop: Callable[[], object]) -> None:
        """From now on a signal calls `stop`, which must return at once, and its exit code is in `code`."""
        self._stop = stop

    def ending(self, loop: AbstractEventLoop, interrupt: Callable[[], object]) -> Callable[[], object]:
        """What to call while a run is under way: it is interrupted, on its own loop."""

        def stop() -> None:
            interrupt()
            if self.code != INTERRUPT:
                loop.call_later(HURRY, self.kill)

        return lambda: loop.call_soon_threadsafe(stop)

    def check(self) -> None:
        """Where nothing has begun yet: what was heard so far ends us here."""
        if self.code == INTERRUPT:
            raise KeyboardInterrupt
        if self.code:
            raise SystemExit(self.code)

    def forgive(self) -> None:
        """A Ctrl-C that was heard so far has had its effect."""
        if self.code == INTERRUPT:
            self.code, self._forced_at = 0, FOREVER

    def heard_at_once(self, work: Callable[[], T], resumed: Callable[[], Exception] | None = None) -> T:
        """While somebody is waited for: `KeyboardInterrupt`, or `SystemExit` for the others and for two Ctrl-C; after
        Ctrl-Z and `fg` what `resumed` makes, if it is given.

        No `with`: in the way out of one, an exception from nowhere leaves things half put back.
        """
        self.check()
        self._ends, self._resumed = None, resumed
        try:
            self._stop = None
            signal.setitimer(signal.ITIMER_REAL, HEARTBEAT, HEARTBEAT)
            return work()
        except BaseException:
            do_nothing()  # Python looks for signals when something is called: what came meanwhile has its word here
            if self._ends is None:  # it is none of ours
                raise
            raise self._ends from None
        finally:
            self._stop = do_nothing
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _raise(self, wanted: BaseException) -> None:
        """Once. Where two signals come at once, `input` calls the second handler while it holds the exception of the
        first, which ends in a `SystemError`: so what is wanted is kept, and raised at the end. What ends more wins."""
        raised, self._ends = self._ends, max((self._ends or wanted, wanted), key=signal_weight)
        if raised is None:
            raise wanted

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # what a handler is given
        before = self._pressed
        self._pressed = time.monotonic() if number == signal.SIGINT else before
        twice = number == signal.SIGINT and self._pressed - before < DOUBLE
        if self._stop is None:
            if number == signal.SIGINT and not twice:
                self._raise(KeyboardInterrupt())
            else:
                self.code = 128 + number
                self._raise(SystemExit(self.code))
            return
        if twice:
            self._force()
        if not self.code:
            self.code = 128 + number
            patience = PATIENCE[signal.Signals(number)]
            self._forced_at = time.monotonic() + patience
            signal.setitimer(signal.ITIMER_REAL, patience + 0.01)
            self._stop()

    def _alarm(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # what a handler is given
        if time.monotonic() >= self._forced_at:
            self._force()

    def _go_on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # what a handler is given
        if self._stop is None and self._resumed is not None and self._ends is None:
            self._raise(self._resumed())
        elif self._stop is not None:
            self.resumed()

    def _force(self) -> None:
        """The end of patience: no more cleaning up, but nothing is left running either. The journal is written."""
        self.kill()
        os._exit(self.code or INTERRUPT)
