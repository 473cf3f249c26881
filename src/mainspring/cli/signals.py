"""Shut down in order on SIGINT, SIGTERM and SIGHUP. The processes of a run end with it, by force if needed.

The handlers are Python's, not the event loop's: they run even while the loop is blocked in a write or a read.
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

# While a line is read: a signal that arrives just before the read would wait for a key; a repeated timer ends the wait.
HEARTBEAT = 0.5

# Seconds for a shutdown before it is forced. The engine waits 2 s for what does not end by itself, at most twice.
PATIENCE = {signal.SIGINT: 5.0, signal.SIGTERM: 1.5, signal.SIGHUP: 1.5}


# A parent waits a second or two after SIGTERM (stream-json 1.5): a tool gets less time to end than after Ctrl-C.
HURRY = 0.7


def do_nothing() -> None:
    pass


def signal_weight(wanted: BaseException) -> int:
    """The priority of an exception, if two signals arrive."""
    return 2 if isinstance(wanted, SystemExit) else int(isinstance(wanted, KeyboardInterrupt))


@contextmanager
def defer_signals() -> Generator[None]:
    """Block signals while modules load: msgspec 0.22 crashes if an exception is raised while it inspects types."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, PATIENCE)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # blocked signals are delivered here


class Signals:
    """Within this block, the first signal calls the function given to `during`. Only at a prompt it raises instead."""

    def __init__(self) -> None:
        self.code = 0  # the exit code of the signal
        self.kill: Callable[[], None] = do_nothing  # kills, without waiting, every process that would outlive us
        self.resumed: Callable[[], object] = do_nothing  # called after Ctrl-Z and `fg`, unless they raise
        self._stop: Callable[[], object] | None = do_nothing  # None: a signal raises at once
        self._resumed: Callable[[], Exception] | None = None  # makes what Ctrl-Z and `fg` raise then
        self._ends: BaseException | None = None  # what was raised, or is to be raised
        self._pressed = -DOUBLE  # time of the last Ctrl-C
        self._forced_at = FOREVER  # time of the forced exit
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Signals:
        for number in PATIENCE:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # `nohup`, or a background job: keep it ignored
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
        """From now on a signal calls `stop`, which must return at once, and sets `code`."""
        self._stop = stop

    def ending(self, loop: AbstractEventLoop, interrupt: Callable[[], object]) -> Callable[[], object]:
        """A `stop` for a running run: it interrupts the run on its own loop."""

        def stop() -> None:
            interrupt()
            if self.code != INTERRUPT:
                loop.call_later(HURRY, self.kill)

        return lambda: loop.call_soon_threadsafe(stop)

    def check(self) -> None:
        """Raise for a signal that arrived so far. For points where nothing has started yet."""
        if self.code == INTERRUPT:
            raise KeyboardInterrupt
        if self.code:
            raise SystemExit(self.code)

    def forgive(self) -> None:
        """Forget a Ctrl-C that has had its effect."""
        if self.code == INTERRUPT:
            self.code, self._forced_at = 0, FOREVER

    def heard_at_once(self, work: Callable[[], T], resumed: Callable[[], Exception] | None = None) -> T:
        """Run `work`, which waits for the user: Ctrl-C raises `KeyboardInterrupt`, other signals and two Ctrl-C raise
        `SystemExit`; Ctrl-Z and `fg` raise what `resumed` returns, if it is given.

        Not a context manager: an asynchronous exception in its `__exit__` would leave the state half restored.
        """
        self.check()
        self._ends, self._resumed = None, resumed
        try:
            self._stop = None
            signal.setitimer(signal.ITIMER_REAL, HEARTBEAT, HEARTBEAT)
            return work()
        except BaseException:
            do_nothing()  # Python checks for signals on a call: pending ones are handled here
            if self._ends is None:  # not caused by a signal
                raise
            raise self._ends from None
        finally:
            self._stop = do_nothing
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _raise(self, wanted: BaseException) -> None:
        """Raise once. If two signals arrive at once, `input` calls the second handler while it holds the first
        exception, which ends in a `SystemError`: so the exception is kept and raised at the end. The stronger wins."""
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
        """Exit without further cleanup, but kill all processes first. The journal is already written."""
        self.kill()
        os._exit(self.code or INTERRUPT)
