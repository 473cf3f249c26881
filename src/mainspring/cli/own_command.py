"""`!COMMAND`: a command of the user, with the terminal to itself; its output goes to the model with the next prompt.

The command runs in a terminal of its own (a pty), so that it behaves as in a shell: colours, questions, editors. We
pass keys to it and its output to the real terminal, and keep the output. Without a terminal, pipes do. Permission rules
and the sandbox do not apply: they are for the model's calls.

`!!COMMAND`, a command that ends in `&`, and a program that takes the whole screen are not told to the model.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import termios
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mainspring.agent.slash.lines import TextStyle
from mainspring.processes.child import UserProgram
from mainspring.text import plural, strip_control_characters

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession

MOST_KEPT = 1 << 20  # bytes of output: the beginning and the end
BLOCK = 1 << 16
LAST_OUTPUT = 0.5  # seconds
FULL_SCREEN = b"\x1b[?1049h"  # as editors and pagers begin
# Makes the pty the terminal of a new session, and becomes the shell.
LOGIN = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"


class CommandOutput:
    """What a command writes, bounded."""

    def __init__(self) -> None:
        self._begin, self._end = bytearray(), bytearray()
        self._left_out = 0
        self.took_screen = False

    def add(self, data: bytes) -> None:
        self.took_screen = self.took_screen or FULL_SCREEN in data
        room = MOST_KEPT - len(self._begin)
        self._begin += data[:room]
        self._end += data[room:]
        if len(self._end) > 2 * MOST_KEPT:
            self._left_out += len(self._end) - MOST_KEPT
            del self._end[:-MOST_KEPT]

    @property
    def is_mid_line(self) -> bool:
        return not (self._end or self._begin or b"\n").endswith(b"\n")

    @property
    def text(self) -> str:
        gap = f"\n[{self._left_out:,} bytes left out]\n".encode() if self._left_out else b""
        return (bytes(self._begin) + gap + bytes(self._end)).decode(errors="replace")


async def run_own_command(typed: str, talk: TerminalSession) -> None:
    """`typed`: behind the first `!`."""
    command, output = typed.removeprefix("!"), talk.output
    if not command.strip():
        output.line("Type a command after '!', such as '!git status'.", TextStyle.DIM)
        return
    is_private = typed.startswith("!")
    stays = command.rstrip().endswith("&") and not command.rstrip().endswith("&&")
    written = CommandOutput()
    try:
        code = await (run_attached(command) if stays else run_captured(command, written))
    except OSError as error:
        output.line(f"Cannot start the shell: {strip_control_characters(str(error))}", TextStyle.RED)
        return
    ended = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
    if code < 0 or written.is_mid_line:
        output.line()  # also after the `^C` of the terminal
    if code:
        output.line(f"({ended})", TextStyle.YELLOW)
    if not (is_private or stays):
        tell_model(command, written, ended, talk)


def tell_model(command: str, written: CommandOutput, ended: str, talk: TerminalSession) -> None:
    """And say so to the user."""
    output = talk.output
    if written.took_screen:
        output.line("(a program with the whole screen: the model does not see it)", TextStyle.DIM)
        return
    lines = talk.session.note_shell_output(command, written.text, ended)
    what = plural(lines, "line") if lines else "the command"
    goes = "go" if lines > 1 else "goes"
    output.line(f"({what} {goes} to the model with your next prompt)", TextStyle.DIM)


def find_shell() -> str:
    return os.environ.get("SHELL") or "/bin/sh"


# --- without a terminal of its own ----------------------------------------------------------------------------------


async def run_attached(command: str) -> int:
    """In our terminal: what it starts in the background lives on."""
    with interrupts_to_child():
        return await UserProgram((find_shell(), "-c", command)).wait_or_end()


@contextmanager
def interrupts_to_child() -> Generator[None]:
    """Ctrl-C goes to the command alone. Not SIG_IGN, which the child would inherit."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# --- with its output ------------------------------------------------------------------------------------------------


async def run_captured(command: str, written: CommandOutput) -> int:
    if os.isatty(0) and os.isatty(1):
        with interrupts_to_child():
            return await run_in_pty(command, written)
    with interrupts_to_child():
        return await run_in_pipe(command, written)


async def run_in_pipe(command: str, written: CommandOutput) -> int:
    def take(data: bytes) -> None:
        written.add(data)
        write_all(1, data)

    child = UserProgram((find_shell(), "-c", command), stderr=subprocess.STDOUT, on_output=take)
    try:
        code = await child.wait_or_end()
        with suppress(TimeoutError):  # what it wrote last; a program in its background may hold the other end
            await asyncio.wait_for(child.wait_for_output(), LAST_OUTPUT)
    finally:
        child.close_output()
    return code


async def run_in_pty(command: str, written: CommandOutput) -> int:
    ours, theirs = os.openpty()
    try:
        copy_window_size(ours)
        before = termios.tcgetattr(0)
        termios.tcsetattr(theirs, termios.TCSANOW, before)
        starter = (sys.executable, "-ISc", LOGIN, find_shell(), "-c", command)
        child = UserProgram(starter, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        theirs = -1
        os.set_blocking(ours, False)
        with raw_terminal(before), resizes(lambda: copy_window_size(ours)):
            return await PtyRelay(ours, written).run(child)
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)


class PtyRelay:
    """Passes keys to the command and its output to the terminal."""

    def __init__(self, fd: int, written: CommandOutput) -> None:
        self._fd, self._written = fd, written
        self._keys = bytearray()  # that the command has not taken yet
        self._closed = asyncio.Event()

    async def run(self, child: UserProgram) -> int:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, self._read_output)
        loop.add_reader(0, self._read_keys)
        try:
            code = await child.wait_or_end()
            self._read_output()  # what it wrote last; a program in its background may hold the other end
            return code
        finally:
            loop.remove_reader(0)
            loop.remove_reader(self._fd)
            loop.remove_writer(self._fd)

    def _read_output(self) -> None:
        while True:
            try:
                data = os.read(self._fd, BLOCK)
            except BlockingIOError:
                return
            except OSError:  # Linux: no process has the other end open any more
                data = b""
            if not data:
                asyncio.get_running_loop().remove_reader(self._fd)
                return
            self._written.add(data)
            write_all(1, data)

    def _read_keys(self) -> None:
        try:
            keys = os.read(0, BLOCK)
        except OSError:
            keys = b""
        if not keys:  # the terminal is gone
            asyncio.get_running_loop().remove_reader(0)
            return
        self._keys += keys
        self._pass_keys()

    def _pass_keys(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            del self._keys[: os.write(self._fd, self._keys)]
        if self._keys:
            loop.add_writer(self._fd, self._pass_keys)
        else:
            loop.remove_writer(self._fd)


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    with suppress(OSError):  # the terminal is gone
        while rest:
            rest = rest[os.write(fd, rest) :]


def copy_window_size(fd: int) -> None:
    with suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))


@contextmanager
def raw_terminal(before: list[Any]) -> Generator[None]:
    """The command's terminal echoes, and turns keys into signals."""
    tty.setraw(0, termios.TCSANOW)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextmanager
def resizes(copy: Callable[[], object]) -> Generator[None]:
    before = signal.signal(signal.SIGWINCH, lambda _number, _frame: copy())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
