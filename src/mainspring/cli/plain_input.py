"""Keyboard input of the plain conversation: prompts, pastes, and answers to questions and approval requests.

A paste of several lines is one prompt. Most terminals mark a paste on request (`ESC[?2004h`): readline requests it,
takes the text between the marks as it is, and withdraws the request when it has a line, also after a signal or an
exception. Without marks, lines that arrive at once belong together.

A paste without an end mark must not block signals: between the marks, readline keeps reading through every signal, and
Python's handlers wait until it returns. So a thread watches for signals meanwhile: if one is not handled soon, it
replaces standard input by an empty file, and readline returns.

`PlainHost` asks the user about running calls.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mainspring.agent.host import Answers, ApprovalRequest, NoHost, QuestionSet, Reach
from mainspring.agent.permission_updates import READ, ApprovalScopes, deny_approval, get_rule_offer, get_special_reason
from mainspring.cli.flags import show_argument
from mainspring.cli.output import TerminalOutput, TextStyle
from mainspring.cli.signals import PATIENCE, Signals
from mainspring.core.errors import DeclinedError
from mainspring.text import plural, strip_control_characters
from mainspring.tools.base import Approval
from mainspring.tools.plan import NOT_APPROVED, asks_for_approval
from mainspring.tools.question import render_question

if TYPE_CHECKING:
    from mainspring.agent.permission_updates import PermissionUpdates


SOON = 0.3  # seconds; without a paste a signal is handled at once, and most pastes are over by then


@contextmanager
def never_deaf(numbers: Iterable[int]) -> Generator[None]:
    """While a line is read, signals work even in a paste. They must interrupt a read: a timer does so every 0.5 s."""
    ours, its = os.pipe()
    os.set_blocking(its, False)  # Python requires it
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
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(0, termios.TCSADRAIN, settings)  # readline cannot, after the end of its input
        for fd in (ours, terminal):
            os.close(fd)


def watch_for_pastes(signals: int, numbers: frozenset[int], over: threading.Event) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they must interrupt the read, not this thread
    while heard := os.read(signals, 512):
        if not numbers.isdisjoint(heard) and not over.wait(SOON):
            nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(nothing, 0)
            os.close(nothing)


PROMPT, MORE = "> ", "  "
LEAVE = ("/exit", "/quit", "exit", "quit")
HOW_TO_LEAVE = "Press Ctrl-D or Ctrl-C twice to exit, or type /exit."

AT_ONCE = 0.02  # seconds between two lines of a paste; too short to type a key after Enter, or to notice
REST = 0.05  # seconds of silence that end an aborted paste
LONGEST_REST = 1.0  # seconds that we ignore the keyboard at most

LOCAL_MODES, CHARACTERS = 3, 6  # indexes into the list of `termios.tcgetattr`
MOST_TAKEN = 65_536  # bytes


def load_line_editing() -> None:
    """Arrow keys and a history: `input` uses readline if the system has it."""
    with suppress(ImportError):
        readline = import_module("readline")
        if "libedit" not in (readline.__doc__ or "") and os.environ.get("TERM") != "dumb":  # no bracketed paste
            readline.parse_and_bind("set enable-bracketed-paste on")  # Python sets it to off
            readline.parse_and_bind("set enable-active-region off")  # a paste would be shown twice, first inverted


def read_typed_line(signals: Signals, output: TerminalOutput, early: str = "") -> str | None:
    """The typed prompt; None to exit. `early` is put into the line: it was typed while something else was read."""
    interrupted, lines = False, list[str]()
    insert_text(" ".join(show_argument(early).split()))

    def line() -> str | None:
        if interrupted:
            forget_pasted_rest()
            lines.clear()
        return join_continued_lines(lines)

    signals.forgive()  # the Ctrl-C that ended the last run
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
        self.typed: str = readline.get_line_buffer() if readline is not None else ""  # text typed so far

    def put_back(self) -> None:
        """Put the text into the next line."""
        insert_text(self.typed)


def insert_text(text: str) -> None:
    """Put text into the next line, before the user types."""
    if text and (readline := sys.modules.get("readline")) is not None:
        readline.set_startup_hook(lambda: (readline.insert_text(text), readline.set_startup_hook(None)))


def start_empty() -> None:
    """Drop the text for the next line: Ctrl-C discards it."""
    if (readline := sys.modules.get("readline")) is not None:
        readline.set_startup_hook(None)


def join_continued_lines(lines: list[str]) -> str | None:
    """Read lines until one ends without a backslash and no further input waits. Complete lines are in `lines`, so that
    they survive Ctrl-Z and `fg`."""
    while True:
        said = show_argument(input(MORE if lines else PROMPT))
        pasted = input_waits(AT_ONCE)
        if not lines and said.strip() in LEAVE and not pasted:  # else the shell would run the rest of a paste
            return None
        if not pasted and not said.endswith("\\"):
            return "\n".join([*lines, said])
        lines.append(said if pasted else said[:-1])


class TypedAhead:
    """Within this block nothing reads the keyboard, and typed text becomes the next prompt. Ctrl-C interrupts the run;
    by default a terminal would also discard the typed text, and echo `^C` into the output."""

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
        """Restore the terminal. Also called on a forced exit, which does not leave the block."""
        before, self._before = self._before, None
        if before is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, before)


def input_waits(seconds: float = 0.0) -> bool:
    """Whether there is input, now or within this time."""
    return bool(select.select([0], [], [], seconds)[0])


def forget_pasted_rest() -> None:
    """After Ctrl-C within a paste, the rest of the paste still arrives: drop it, its lines are not prompts."""
    end = time.monotonic() + LONGEST_REST
    while input_waits(REST) and time.monotonic() < end:
        drop_typed_ahead()
    drop_typed_ahead()


def take_typed_ahead() -> str:
    """Text typed and not yet read: all lines, and the unfinished one. Empty without a terminal."""
    found = b""
    with suppress(termios.error, OSError):
        before = termios.tcgetattr(0)
        now: list[Any] = [*before[:CHARACTERS], [*before[CHARACTERS]]]
        now[LOCAL_MODES] &= ~termios.ICANON  # else an unfinished line would stay and start the next one
        now[CHARACTERS][termios.VMIN], now[CHARACTERS][termios.VTIME] = 0, 0
        termios.tcsetattr(0, termios.TCSANOW, now)
        try:
            while chunk := os.read(0, MOST_TAKEN):
                found += chunk
        finally:
            termios.tcsetattr(0, termios.TCSANOW, before)
    return os.fsdecode(found)


def drop_typed_ahead() -> None:
    """Discard text that was typed and not read."""
    with suppress(termios.error):  # the terminal is gone
        termios.tcflush(0, termios.TCIFLUSH)


YES, ALWAYS, PROJECT, NO = ("y", "yes"), ("a", "always"), ("p", "project"), ("n", "no", "")
MOST_LINE = 65_536  # bytes of an answer; a little more if it is pasted
MOST_CHANGES = 60  # lines shown of an edit


class PlainHost(NoHost):
    """The user at a plain terminal, as the host of a session."""

    reach: Reach = "during_run"

    def __init__(self, output: TerminalOutput, permissions: Callable[[], PermissionUpdates]) -> None:
        self._output = output
        self._granting = ApprovalScopes(permissions)
        self._early = ""  # typed before a question was shown
        self._one = asyncio.Lock()  # subagents may ask at the same time, and there is one user

    async def ask(self, questions: QuestionSet) -> Answers:
        async with self._one:
            if questions.questions is None:
                return Answers(await self._answered(questions.text))
            asked = questions.questions.questions
            texts = [render_question(one, number, len(asked)) for number, one in enumerate(asked, 1)]
            return Answers(
                by_question={one.question: await self._answered(text) for one, text in zip(asked, texts, strict=True)}
            )

    async def _answered(self, text: str) -> str:
        self._output.line(f"Question: {strip_control_characters(text)}", TextStyle.BOLD)
        enter = "no" if asks_for_approval(text) else "no answer"
        self._output.line(f"Enter alone means {enter}.", TextStyle.DIM)
        said = await self._line("> ")
        if said.strip().lower() in NO and asks_for_approval(text):
            raise DeclinedError(NOT_APPROVED)
        return said

    async def approve(self, request: ApprovalRequest) -> Approval:
        async with self._one:
            return await self._permission(request.facts)

    async def _permission(self, about: dict[str, Any]) -> Approval:
        """Shows the whole call, and what a rule would cover."""
        offered = get_rule_offer(about)
        self._output.line()
        self._output.line(f"Question: allow {strip_control_characters(about['shown'])}", TextStyle.BOLD)
        for line, style in list_edit_lines(about["input"]):
            self._output.line(strip_control_characters(line), style)
        for words in get_special_reason(about):
            self._output.line(strip_control_characters(words), TextStyle.DIM)
        offers: list[str] = []
        if offered:
            rules = strip_control_characters(", ".join(offered.rules))
            offers = [
                f"a: don't ask again this session for {strip_control_characters(offered.covers)}",
                f"p: don't ask again in this project for {rules}",
            ]
        answers = ["y: yes", *offers, "n: no. Enter alone means no; other text is a no with your reason"]
        for number, words in enumerate(answers, 1):
            self._output.line(f"{number} or {words}", TextStyle.DIM)
        letters = [words[0] for words in answers]
        while True:
            said = (await self._line(f"Allow? [{'/'.join(letters)}] ")).strip()
            if said.isdecimal() and 0 < int(said) <= len(letters):
                said = letters[int(said) - 1]
            if said.lower() in YES:
                return Approval("allow")
            if said.lower() in (*ALWAYS, *PROJECT) and offered:
                await self._granting.add(offered.rules)
                if said.lower() in PROJECT:
                    await self._granting.keep(offered.rules, self._told, self._warned)
                return Approval("allow")
            if said.lower() in NO:
                return deny_approval()
            if len(said) > 1:  # other text is feedback for the model
                return deny_approval(said)

    def _told(self, words: str) -> None:
        self._output.line(words, TextStyle.DIM)

    def _warned(self, words: str) -> None:
        self._output.line(words, TextStyle.YELLOW)

    async def _line(self, prompt: str) -> str:
        """Not `input`: the event loop keeps running, and an interrupt must end the wait."""
        await self._until_nobody_types()
        self._output.piece(prompt)
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[str] = loop.create_future()

        def ready() -> None:
            if not typed.done():
                typed.set_result(read_answer_lines())

        loop.add_reader(0, ready)
        try:
            said = await typed
            self._output.note_enter()
            return said.rstrip("\n")
        except asyncio.CancelledError:  # the call was interrupted: half an answer is not a prompt
            drop_typed_ahead()
            raise
        finally:
            loop.remove_reader(0)
            self._output.end_text()

    async def _until_nobody_types(self) -> None:
        """Text typed before the question is shown was meant for the next prompt, and is kept for it."""
        self._early += take_typed_ahead()
        while os.isatty(0):
            await asyncio.sleep(READ)
            if not (typed := take_typed_ahead()):
                return
            self._early += typed

    def take_early(self) -> str:
        early, self._early = self._early, ""
        return early


def read_answer_lines() -> str:
    """One line, or all lines of a paste: a terminal returns them one by one."""
    found = os.read(0, MOST_LINE)
    while found.endswith(b"\n") and len(found) < MOST_LINE and input_waits(AT_ONCE):
        found += os.read(0, MOST_LINE)
    return show_argument(os.fsdecode(found))


def list_edit_lines(input: dict[str, Any]) -> list[tuple[str, TextStyle]]:
    """The removed and the added lines of an edit."""
    gone, new = input.get("old_string", ""), input.get("new_string", input.get("content", input.get("new_source", "")))
    removed, added = str(gone).splitlines(), str(new).splitlines()
    if not removed and not added:
        return []
    lines = [(f"  {count_changes(len(removed), len(added))}", TextStyle.DIM)]
    lines += [(f"  removed: {line}", TextStyle.RED) for line in removed]
    lines += [(f"  added: {line}", TextStyle.GREEN) for line in added]
    if len(lines) <= MOST_CHANGES:
        return lines
    return [*lines[:MOST_CHANGES], (f"  ... {plural(len(lines) - MOST_CHANGES, 'more line')}", TextStyle.DIM)]


def count_changes(removed: int, added: int) -> str:
    """In words: '2 lines removed, 3 lines added'."""
    told = [f"{plural(number, 'line')} {what}" for number, what in ((removed, "removed"), (added, "added")) if number]
    return ", ".join(told)
