"""What somebody types or pastes at the prompt of a conversation.

A paste of several lines is one prompt. Most terminals mark a paste if they are asked to (`ESC[?2004h`): readline asks
them, takes what is between the marks as it is, and takes the wish back when it has a line, also if a signal or an
exception ends the wait. Where nothing marks a paste, lines that come at once belong together.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

from mainspring.cli.flags import show_argument
from mainspring.cli.half_pastes import never_deaf
from mainspring.cli.output import TerminalOutput, TextStyle
from mainspring.cli.signals import PATIENCE, Signals

PROMPT, MORE = "> ", "  "
LEAVE = ("/exit", "/quit", "exit", "quit")
HOW_TO_LEAVE = "Ctrl-D leaves; so does '/exit', or Ctrl-C twice."

AT_ONCE = 0.02  # seconds between two lines of a paste; nobody types a key so soon after Enter, or sees the delay
REST = 0.05  # of silence, after which a paste that was broken off is over
LONGEST_REST = 1.0  # is as long as we look away from the keyboard

LOCAL_MODES, CHARACTERS = 3, 6  # their places in what `termios` tells
MOST_TAKEN = 65_536  # bytes


def load_line_editing() -> None:
    """Arrow keys and a history: `input` uses it where the system has it."""
    with suppress(ImportError):
        readline = import_module("readline")
        if "libedit" not in (readline.__doc__ or "") and os.environ.get("TERM") != "dumb":  # both know no marks
            readline.parse_and_bind("set enable-bracketed-paste on")  # Python sets it to off
            readline.parse_and_bind("set enable-active-region off")  # a paste would be shown twice, first inverted


def read_typed_line(signals: Signals, output: TerminalOutput, early: str = "") -> str | None:
    """What was typed; None to leave. `early` stands in the line already: it was typed while something else was read."""
    interrupted, lines = False, list[str]()
    insert_text(" ".join(show_argument(early).split()))

    def line() -> str | None:
        if interrupted:
            forget_pasted_rest()
            lines.clear()
        return join_continued_lines(lines)

    signals.forgive()  # what ended the turn before
    while True:
        try:
            with never_deaf(PATIENCE):
                return signals.heard_at_once(line, TerminalResumedError)
        except TerminalResumedError as stopped:
            stopped.put_back()
            output.line()
        except EOFError:
            output.line()
            return None
        except KeyboardInterrupt:
            signals.forgive()
            start_empty()
            output.line()
            output.line(HOW_TO_LEAVE, TextStyle.DIM)
            interrupted = True


class TerminalResumedError(Exception):  # nothing went wrong
    """After Ctrl-Z and `fg` the terminal is as the shell left it: without a prompt, and with an echo of its own."""

    def __init__(self) -> None:
        super().__init__()
        readline = sys.modules.get("readline")
        self.typed: str = readline.get_line_buffer() if readline is not None else ""  # so far

    def put_back(self) -> None:
        """It stands there again when the next line is read."""
        insert_text(self.typed)


def insert_text(text: str) -> None:
    """Into the next line, before anything is typed."""
    if text and (readline := sys.modules.get("readline")) is not None:
        readline.set_startup_hook(lambda: (readline.insert_text(text), readline.set_startup_hook(None)))


def start_empty() -> None:
    """A line that should have stood there again, but for a Ctrl-C, is gone."""
    if (readline := sys.modules.get("readline")) is not None:
        readline.set_startup_hook(None)


def join_continued_lines(lines: list[str]) -> str | None:
    """A backslash at the end of a line says that more is to come; so does a line that is there already. Those that are
    complete are in `lines`, also when somebody leaves in the middle and comes back."""
    while True:
        said = show_argument(input(MORE if lines else PROMPT))
        pasted = input_waits(AT_ONCE)
        if not lines and said.strip() in LEAVE and not pasted:  # the rest of a paste would go to the shell, and be done
            return None
        if not pasted and not said.endswith("\\"):
            return "\n".join([*lines, said])
        lines.append(said if pasted else said[:-1])


class TypedAhead:
    """Within this block nobody reads, and what is typed is the next prompt. Ctrl-C is then for what is under way: by
    itself a terminal would also throw away what was typed, and put a `^C` into what is shown."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> None:
        with suppress(termios.error):  # the terminal is gone
            self._before = termios.tcgetattr(0)
            kept = list(self._before)
            kept[LOCAL_MODES] = (kept[LOCAL_MODES] | termios.NOFLSH) & ~termios.ECHOCTL
            termios.tcsetattr(0, termios.TCSANOW, kept)

    def __exit__(self, *_: object) -> None:
        self.put_back()

    def put_back(self) -> None:
        """The terminal is as it was. Also for an end that leaves no block."""
        before, self._before = self._before, None
        if before is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, before)


def input_waits(seconds: float = 0.0) -> bool:
    """Whether there is something to read, or comes within this time."""
    return bool(select.select([0], [], [], seconds)[0])


def forget_pasted_rest() -> None:
    """A Ctrl-C within a paste ends the wait for a line, and the rest of the paste is still coming: its lines are no
    prompts."""
    end = time.monotonic() + LONGEST_REST
    while input_waits(REST) and time.monotonic() < end:
        drop_typed_ahead()
    drop_typed_ahead()


def take_typed_ahead() -> str:
    """The same, as text: all lines, and the one that has no end yet. Empty where there is no terminal."""
    found = b""
    with suppress(termios.error, OSError):
        before = termios.tcgetattr(0)
        now: list[Any] = [*before[:CHARACTERS], [*before[CHARACTERS]]]
        now[LOCAL_MODES] &= ~termios.ICANON  # or half a line stays, and begins the next
        now[CHARACTERS][termios.VMIN], now[CHARACTERS][termios.VTIME] = 0, 0
        termios.tcsetattr(0, termios.TCSANOW, now)
        try:
            while chunk := os.read(0, MOST_TAKEN):
                found += chunk
        finally:
            termios.tcsetattr(0, termios.TCSANOW, before)
    return os.fsdecode(found)


def drop_typed_ahead() -> None:
    """What was typed and nobody has read."""
    with suppress(termios.error):  # the terminal is gone
        termios.tcflush(0, termios.TCIFLUSH)
