"""A real terminal, with somebody who types, waits for what is shown, and presses keys."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from cli.stage import COMMAND, PATIENCE, Stage, until

CTRL_C, CTRL_D = "\x03", "\x04"
TAKE_IT = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
OWN_TERMINAL = [sys.executable, "-ISBc", TAKE_IT]  # so that keys become signals
PASTES_MARKED, PASTES_PLAIN = b"\x1b[?2004h", b"\x1b[?2004l"  # what the terminal is asked for


class Terminal:
    """What a person sees and does."""

    def __init__(self, stage: Stage, *arguments: str, **extra: str) -> None:
        ours, theirs = pty.openpty()
        environment = stage.environment | {"TERM": "xterm", "NO_COLOR": "1"} | extra
        self._process = subprocess.Popen(
            [*OWN_TERMINAL, *COMMAND, "--plain", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=stage.folder,
            env=environment,
            start_new_session=True,
        )
        self._name = os.ttyname(theirs)
        os.close(theirs)
        self._fd = ours
        self._before = termios.tcgetattr(ours)
        self.raw = b""
        self.shown = ""
        self._read = 0

    def see(self, words: str) -> str:
        """Wait until it is on the screen, after what was seen before. Returns what came until then."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.shown[self._read :]:
            assert time.monotonic() < deadline, f"{words!r} did not come: {self.shown!r}"
            if select.select([self._fd], [], [], 1)[0]:
                assert self._more(), f"it ended, and {words!r} had not come: {self.shown!r}"
        begin = self._read
        self._read = self.shown.index(words, self._read) + len(words)
        return self.shown[begin : self._read]

    def type(self, keys: str) -> None:
        """All of it. A terminal holds a few thousand bytes: what it shows meanwhile is read, or both sides wait."""
        left = keys.encode()
        os.set_blocking(self._fd, False)
        while left:
            reads, writes, _ = select.select([self._fd], [self._fd], [], PATIENCE)
            assert reads or writes, f"nobody takes what is typed: {self.shown[-1000:]!r}"
            if reads and not self._more():
                return
            if writes:
                with suppress(BlockingIOError):
                    left = left[os.write(self._fd, left) :]
        os.set_blocking(self._fd, True)

    def say(self, line: str) -> None:
        self.see("> ")
        self.type(line + "\r")

    def press_ctrl_c(self) -> None:
        """At the prompt. A key that comes while readline is busy with another waits for the next: nobody is so fast."""
        self.rest()
        self.type(CTRL_C)

    def rest(self) -> None:
        """Until it has read what was typed, and waits for more."""
        until(lambda: self._unread() == 0)
        until(lambda: " S " in Path(f"/proc/{self._process.pid}/stat").read_text())

    def _unread(self) -> int:
        fd = os.open(self._name, os.O_RDONLY | os.O_NOCTTY)
        try:
            return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
        finally:
            os.close(fd)

    def is_as_before(self) -> bool:
        """Whether the terminal echoes, edits and makes signals of keys as it did at the beginning."""
        return termios.tcgetattr(self._fd) == self._before

    def reset(self) -> None:
        termios.tcsetattr(self._fd, termios.TCSANOW, self._before)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Wait for the end, and see the rest."""
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None or select.select([self._fd], [], [], 0)[0]:
            assert time.monotonic() < deadline, f"no end: {self.shown!r}"
            if select.select([self._fd], [], [], 0.05)[0] and not self._more():
                break
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._fd)

    def _more(self) -> bool:
        try:
            more = os.read(self._fd, 65_536)
        except OSError:
            return False  # how Linux reports that nobody holds the other end any more
        self.raw += more
        plain = self.raw.replace(PASTES_MARKED, b"").replace(PASTES_PLAIN + b"\r", b"")
        self.shown = plain.decode(errors="ignore").replace("\r\n", "\n")
        return bool(more)


@pytest.fixture
def sit_at() -> Iterator[Callable[..., Terminal]]:
    with ExitStack() as stack:

        def start(stage: Stage, *arguments: str, **extra: str) -> Terminal:
            terminal = Terminal(stage, *arguments, **extra)
            stack.callback(terminal.close)
            return terminal

        yield start


SitAt = Callable[..., Terminal]


def without_notes(stage: Stage) -> None:
    """A long turn is thought of when it is over, which would take a reply of the script."""
    stage.home.mkdir(parents=True)
    (stage.home / "settings.toml").write_text("autoMemoryEnabled = false\n")
