"""What somebody types or pastes at the prompt of a conversation.

A paste of several lines is one prompt. Most terminals mark a paste if they are asked to (`ESC[?2004h`): readline asks
them, takes what is between the marks as it is, and takes the wish back when it has a line, also if a signal or an
exception ends the wait. Where nothing marks a paste, lines that come at once belong together.

A paste whose end does not come must not make us deaf.

Between the two marks of a paste, readline reads on whatever signal comes, and Python's handlers wait until it returns.
So a thread looks after signals meanwhile: if one is not heard soon, readline finds the end of its input, and returns.

Puts a question of a running call to whoever sits in front of the terminal.
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
from mainspring.agent.permission_updates import READ, ApprovalScopes, deny_approval, get_approval_reason, get_rule_offer
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


YES, ALWAYS, PROJECT, NO = ("y", "yes"), ("a", "always"), ("p", "project"), ("n", "no", "")
MOST_LINE = 65_536  # bytes of an answer; a little more if it is pasted
MOST_CHANGES = 60  # lines of an edit that are shown


class PlainHost(NoHost):
    """The person at a plain terminal, as the host of a session."""

    reach: Reach = "during_run"

    def __init__(self, output: TerminalOutput, permissions: Callable[[], PermissionUpdates]) -> None:
        self._output = output
        self._granting = ApprovalScopes(permissions)
        self._early = ""  # typed while a question came
        self._one = asyncio.Lock()  # agents may ask at the same time, and there is one person

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
        self._output.line(strip_control_characters(text), TextStyle.BOLD)
        said = await self._line("> ")
        if said.strip().lower() in NO and asks_for_approval(text):
            raise DeclinedError(NOT_APPROVED)
        return said

    async def approve(self, request: ApprovalRequest) -> Approval:
        async with self._one:
            return await self._permission(request.facts)

    async def _permission(self, about: dict[str, Any]) -> Approval:
        """All of what will be done is shown, and what a rule would cover."""
        offered = get_rule_offer(about)
        self._output.line()
        self._output.line(strip_control_characters(about["shown"]), TextStyle.BOLD)
        for line, style in list_edit_lines(about["input"]):
            self._output.line(strip_control_characters(line), style)
        self._output.line(strip_control_characters(get_approval_reason(about)), TextStyle.DIM)
        if offered:
            self._output.line(
                f"'a' allows, for the rest of this session: {strip_control_characters(offered.covers)}", TextStyle.DIM
            )
            rules = strip_control_characters(", ".join(offered.rules))
            self._output.line(f"'p' allows, and does not ask again in this project for: {rules}", TextStyle.DIM)
        choices = "y/a/p/n" if offered else "y/n"
        while True:
            said = (await self._line(f"Do it? [{choices}] ")).strip()
            if said.lower() in YES:
                return Approval("allow")
            if said.lower() in (*ALWAYS, *PROJECT) and offered:
                await self._granting.add(offered.rules)
                if said.lower() in PROJECT:
                    await self._granting.keep(offered.rules, self._told, self._warned)
                return Approval("allow")
            if said.lower() in NO:
                return deny_approval()
            if len(said) > 1:  # words are for the model
                return deny_approval(said)

    def _told(self, words: str) -> None:
        self._output.line(words, TextStyle.DIM)

    def _warned(self, words: str) -> None:
        self._output.line(words, TextStyle.YELLOW)

    async def _line(self, prompt: str) -> str:
        """Not `input`: the event loop runs on, and an interrupt must end the wait."""
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
        except asyncio.CancelledError:  # the call was interrupted: half an answer is no prompt
            drop_typed_ahead()
            raise
        finally:
            loop.remove_reader(0)
            self._output.end_text()

    async def _until_nobody_types(self) -> None:
        """What is typed before there is a prompt for the answer was meant for the next prompt, and is kept for it."""
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
    """One, or all that were pasted: a terminal hands them out one by one."""
    found = os.read(0, MOST_LINE)
    while found.endswith(b"\n") and len(found) < MOST_LINE and input_waits(AT_ONCE):
        found += os.read(0, MOST_LINE)
    return show_argument(os.fsdecode(found))


def list_edit_lines(input: dict[str, Any]) -> list[tuple[str, TextStyle]]:
    """What an edit takes away and what it puts there."""
    gone, new = input.get("old_string", ""), input.get("new_string", input.get("content", input.get("new_source", "")))
    lines = [(f"  - {line}", TextStyle.RED) for line in str(gone).splitlines()]
    lines += [(f"  + {line}", TextStyle.GREEN) for line in str(new).splitlines()]
    if len(lines) <= MOST_CHANGES:
        return lines
    return [*lines[:MOST_CHANGES], (f"  ... {plural(len(lines) - MOST_CHANGES, 'more line')}", TextStyle.DIM)]
