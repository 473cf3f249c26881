"""Somebody in front of the real command, in a terminal that keeps what it shows: its screen and its scrollback."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from copy import deepcopy
from typing import Any

import pyte
import pytest
from cli.stage import COMMAND, PATIENCE, Stage
from cli.terminal import OWN_TERMINAL

CTRL_C, CTRL_D, CTRL_O, CTRL_T, CTRL_Z = "\x03", "\x04", "\x0f", "\x14", "\x1a"
ESCAPE, ENTER, TAB, SHIFT_TAB, UP, DOWN = "\x1b", "\r", "\t", "\x1b[Z", "\x1b[A", "\x1b[B"
PASTE, PASTED = "\x1b[200~", "\x1b[201~"

ALTERNATE = 1049  # the mode of full-screen programs
GUARD = 0.6  # seconds: a question takes no answer in its first 0.4


class KeepingScreen(pyte.HistoryScreen):
    """Like tmux: what is erased from the upper left corner on is a cleared screen, and stays in the scrollback. The
    alternate screen, which pyte does not have, has no scrollback."""

    _beside: Any = None  # the normal screen, while the alternate one is shown

    def erase_in_display(self, how: int = 0, *rest: Any, **more: Any) -> None:
        if how == 0 and self._beside is None and (self.cursor.x, self.cursor.y) == (0, 0):
            used = [row for row, line in self.buffer.items() if any(one.data.strip() for one in line.values())]
            self.history.top.extend([deepcopy(self.buffer[row]) for row in range(max(used, default=-1) + 1)])
        super().erase_in_display(how, *rest, **more)

    def set_mode(self, *modes: int, **more: Any) -> None:
        super().set_mode(*modes, **more)
        if ALTERNATE in modes and more.get("private") and self._beside is None:
            self._beside = deepcopy(self.buffer), self.cursor.y, self.cursor.x, len(self.history.top)
            super().erase_in_display(2)

    def reset_mode(self, *modes: int, **more: Any) -> None:
        super().reset_mode(*modes, **more)
        if ALTERNATE in modes and more.get("private") and self._beside is not None:
            buffer, row, column, _ = self._beside
            self._beside = None
            self.buffer.clear()
            self.buffer.update(buffer)
            self.cursor.y, self.cursor.x = min(row, self.lines - 1), min(column, self.columns - 1)

    @property
    def is_alternate(self) -> bool:
        return self._beside is not None

    def narrow(self, columns: int) -> None:
        """Wrap the lines that are too long now, as most terminals do; the cursor stays with its line."""
        wrapped: list[Any] = []
        place = self.cursor.y, self.cursor.x
        for at in range(self.lines):
            cells = [self.buffer[at][x] for x in range(self.columns)]
            used = max([x + 1 for x, cell in enumerate(cells) if cell.data.strip() or cell.bg != "default"], default=0)
            if at == self.cursor.y:
                place = len(wrapped) + self.cursor.x // columns, self.cursor.x % columns
            wrapped += [cells[first : first + columns] for first in range(0, max(used, 1), columns)]
        while len(wrapped) > self.lines and not "".join(cell.data for cell in wrapped[-1]).strip():
            wrapped.pop()
        above = max(0, len(wrapped) - self.lines)
        lines = [self._line_of(cells) for cells in wrapped]
        self.history.top.extend(lines[:above])
        self.resize(self.lines, columns)
        self.buffer.clear()
        self.buffer.update(enumerate(lines[above:]))
        self.cursor.y, self.cursor.x = place[0] - above, place[1]

    def _line_of(self, cells: list[Any]) -> Any:
        line = type(self.buffer[0])(self.default_char)
        line.update(enumerate(cells))
        return line


class Person:
    def __init__(self, stage: Stage, *arguments: str, rows: int = 24, columns: int = 80, **extra: str) -> None:
        ours, theirs = pty.openpty()
        self._fd = ours
        self._screen = KeepingScreen(columns, rows, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        self.resize(rows, columns)
        self._before = termios.tcgetattr(ours)
        environment = stage.environment | {"TERM": "xterm-256color"} | extra
        self.process = subprocess.Popen(
            [*OWN_TERMINAL, *COMMAND, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=stage.folder,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.raw = b""

    # --- what is seen -----------------------------------------------------------------------------------------------

    @property
    def screen(self) -> list[str]:
        """What stands there now, line by line."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def paper(self) -> list[str]:
        """With the scrollback above it."""
        above = ["".join([line[at].data for at in range(self._screen.columns)]) for line in self._screen.history.top]
        return [line.rstrip() for line in above] + self.screen

    @property
    def text(self) -> str:
        return "\n".join(self.paper)

    def see(self, *words: str) -> str:
        self.until(lambda: all(word in self.text for word in words), f"{words} did not come")
        return self.text

    def see_no(self, words: str) -> None:
        self.until(lambda: not any(words in line for line in self.screen), f"{words!r} stays")

    def until(self, condition: Callable[[], bool], why: str = "") -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            shown = "\n".join(self.paper[-60:])
            assert time.monotonic() < deadline, f"{why}:\n{shown}"
            if select.select([self._fd], [], [], 1)[0]:
                assert self._more() or condition(), f"{why}, and it has ended:\n{shown}"

    def read(self, seconds: float) -> None:
        """What comes within this time."""
        if select.select([self._fd], [], [], seconds)[0]:
            self._more()

    def colour_of(self, words: str) -> str:
        row = next(row for row, line in enumerate(self.screen) if words in line)
        return str(self._screen.buffer[row][self.screen[row].index(words)].fg)

    # --- what is done -----------------------------------------------------------------------------------------------

    def type(self, keys: str) -> None:
        left = keys.encode()
        os.set_blocking(self._fd, False)
        while left:
            reads, writes, _ = select.select([self._fd], [self._fd], [], PATIENCE)
            if reads and not self._more():
                return
            if writes:
                with suppress(BlockingIOError):
                    left = left[os.write(self._fd, left) :]
        os.set_blocking(self._fd, True)

    def say(self, words: str) -> None:
        self.see("❯")
        self.type(words)
        self.until(lambda: words.splitlines()[-1][-20:] in self.text, f"{words!r} is not shown")
        self.type(ENTER)

    def answer(self, keys: str, question: str) -> None:
        """A question takes no answer before it has been there for a moment, so the keys are pressed after that."""
        self.see(question)
        self.press_until(keys, lambda: not any(question in line for line in self.screen))

    def enter_words(self, words: str) -> None:
        """The same for words that go with an answer."""
        self.press_until(words, lambda: any(words in line for line in self.screen))

    def press_until(self, keys: str, heard: Callable[[], bool]) -> None:
        """Again only after so long that they cannot be on their way: a second Enter would answer what comes next."""
        for _ in range(4):
            end = time.monotonic() + GUARD
            while (left := end - time.monotonic()) > 0:
                self.read(left)
            self.type(keys)
            end = time.monotonic() + PATIENCE / 4
            while not heard() and time.monotonic() < end:
                self.read(0.1)
            if heard():
                return
        raise AssertionError(f"{keys!r} has no effect:\n{self.text}")

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def narrow(self, columns: int) -> None:
        """Like `resize`, of a terminal that wraps anew what it shows."""
        self._screen.narrow(columns)
        self.resize(self._screen.lines, columns)
        self.send(signal.SIGWINCH)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None or select.select([self._fd], [], [], 0)[0]:
            assert time.monotonic() < deadline, f"no end:\n{self.text}"
            if select.select([self._fd], [], [], 0.05)[0] and not self._more():
                break
        return self.process.wait(PATIENCE)

    def is_as_before(self) -> bool:
        """Whether the terminal echoes, edits and makes signals of keys as it did at the beginning, marks no pastes and
        shows its cursor."""
        return (
            termios.tcgetattr(self._fd) == self._before
            and self.raw.rfind(b"\x1b[?2004l") >= self.raw.rfind(b"\x1b[?2004h")
            and self.raw.rfind(b"\x1b[?25h") >= self.raw.rfind(b"\x1b[?25l")
        )

    def as_before(self) -> None:
        termios.tcsetattr(self._fd, termios.TCSANOW, self._before)

    def hang_up(self) -> None:
        os.close(self._fd)
        self._fd = -1

    def is_raw(self) -> bool:
        return termios.tcgetattr(self._fd) != self._before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._fd >= 0:
            self.hang_up()

    def _more(self) -> bool:
        try:
            more = os.read(self._fd, 65_536)
        except OSError:
            return False  # how Linux reports that nobody holds the other end any more
        self.raw += more
        self._stream.feed(more)
        return bool(more)


@pytest.fixture
def sit_at() -> Iterator[Callable[..., Person]]:
    with ExitStack() as stack:

        def start(stage: Stage, *arguments: str, **how: object) -> Person:
            person = Person(stage, *arguments, **how)  # type: ignore[arg-type]
            stack.callback(person.close)
            return person

        yield start


SitAt = Callable[..., Person]
