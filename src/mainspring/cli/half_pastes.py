"""A paste whose end does not come must not make us deaf.

Between the two marks of a paste, readline reads on whatever signal comes, and Python's handlers wait until it returns.
So a thread looks after signals meanwhile: if one is not heard soon, readline finds the end of its input, and returns.
"""

from __future__ import annotations

import os
import signal
import termios
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

SOON = 0.3  # seconds; a signal is heard at once unless a paste is under way, and most pastes are over by then


@contextmanager
def never_deaf(numbers: Iterable[int]) -> Generator[None]:
    """While a line is read. The signals that count must interrupt a read: a timer of ours does so twice a second."""
    ours, its = os.pipe()
    os.set_blocking(its, False)  # Python asks for it
    terminal, settings, over = os.dup(0), termios.tcgetattr(0), threading.Event()
    watcher = threading.Thread(target=watch_for_pastes, args=(ours, frozenset(numbers), over), daemon=True)
    watcher.start()
    before = signal.set_wakeup_fd(its, warn_on_full_buffer=False)
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(its)  # ends the watcher
        watcher.join()
        os.dup2(terminal, 0)
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(0, termios.TCSADRAIN, settings)  # readline could not, where it had come to the end
        for fd in (ours, terminal):
            os.close(fd)


def watch_for_pastes(signals: int, numbers: frozenset[int], over: threading.Event) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are to interrupt the read, not us
    while heard := os.read(signals, 512):
        if not numbers.isdisjoint(heard) and not over.wait(SOON):
            nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(nothing, 0)
            os.close(nothing)
