"""Runs a session for the terminal: takes prompts, runs slash commands, and follows the updates of the agent session.

The user can type at any time. During a run, prompts are submitted to the session and go out with its next request.
Input that must be expanded first (slash commands, mentions, prompts with hooks) waits until the run is over. Prompts
that were queued before a crash wait until the user sends them.

Queued prompts are drawn above the input and can be taken back. Submitted prompts are stored in the session and read
from there, so there is one copy. Slash commands, and prompts typed after one, wait in `PromptQueue`.

Some slash commands without arguments (`/resume`, `/model`, `/rewind`) open a picker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar, assert_never

from rich.text import Text as RichText

from mainspring import cli
from mainspring.agent.prompt_expansion import Prompt, QueuedPrompt, parse_compact_command
from mainspring.agent.session import AgentSession
from mainspring.agent.updates import (
    AnySessionUpdate,
    HookFinished,
    HookStarted,
    Idle,
    Notice,
    PromptAnswered,
    PromptBlocked,
    PromptExpanded,
    PromptQueued,
    PromptReturned,
    PromptSuggested,
    RunBroken,
    RunStarted,
    SessionReset,
    SessionUpdate,
    StateChanged,
    SubagentMoved,
    TaskChanged,
)
from mainspring.cli.output import TextStyle
from mainspring.cli.plain import make_typed_prompt, tell_of_mentions
from mainspring.cli.plain_input import LEAVE
from mainspring.cli.slash import table
from mainspring.cli.terminal_session import TerminalSession
from mainspring.cli.trust import list_untrusted_content
from mainspring.cli.tui import pickers, session_picker
from mainspring.cli.tui.dialog import PageDialog
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing
from mainspring.cli.tui.menu import Clock, Menu, MenuItem, MenuSelection
from mainspring.cli.tui.pickers import ask_dialog
from mainspring.cli.tui.run_view import RunView
from mainspring.cli.tui.screen import Screen
from mainspring.cli.tui.status import StatusLine
from mainspring.core.errors import MainspringError
from mainspring.core.messages import Origin, Text
from mainspring.core.updates import Injected, QuestionAsked, Result, Update
from mainspring.engine.tasks import end_all
from mainspring.hooks.payloads import waiting_for_person
from mainspring.text import strip_control_characters, truncate

MARK = "↳ "  # before a queued prompt
EDITS = " (up to edit)"
MOST_DRAWN = 4
HEAD = 500  # characters of a prompt that may be shown: no terminal has as many columns


class PromptQueue:
    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._own: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._own or self._session.queued)

    @property
    def has_own(self) -> bool:
        return bool(self._own)

    def add(self, text: str) -> None:
        self._own.append(text)

    def next(self) -> str | None:
        return self._own.pop(0) if self._own else None

    async def take_back(self) -> str:
        """Take back the last prompt, unless it is on its way to the model."""
        if self._own:
            return self._own.pop()
        for queued in reversed(self._session.queued):
            if (prompt := await self._session.withdraw(queued.id)) is not None:
                return prompt.text
        return ""

    def draw(self, width: int, height: int) -> Sequence[RichText]:
        texts = [*[queued.prompt.shown_text for queued in self._session.queued], *self._own]
        if not texts or height < 1:
            return ()
        most = min(MOST_DRAWN, height)
        shown = texts[: most if len(texts) <= most else most - 1]
        lines = [
            RichText(MARK + truncate(" ".join(strip_control_characters(text[:HEAD]).split()), width - 3), "note")
            for text in shown
        ]
        if lines[-1].cell_len + len(EDITS) < width:
            lines[-1].append(EDITS)
        if len(texts) > len(shown):
            lines.append(RichText(truncate(f"  … {len(texts) - len(shown)} more", width), "note"))
        return lines


T = TypeVar("T")


class TerminalView(Protocol):
    """What the controller needs from the terminal."""

    def say(self, text: str) -> None:
        """Print the user's prompt to the scrollback."""
        ...

    def redraw(self) -> None: ...

    def rests(self, seconds: float) -> None:
        """Something that took so long is over."""
        ...

    def draft(self, text: str) -> None:
        """Put text into the input, before what is there, so that the user can send it again."""
        ...

    def suggest(self, words: str) -> None:
        """Suggest the next prompt."""
        ...

    def ring(self, words: str) -> None:
        """Alert the user, for example because a question is waiting."""
        ...

    def given_away(self) -> AbstractAsyncContextManager[None]:
        """Release the terminal for a program of the user."""
        ...

    def chooses(self, word: str) -> bool:
        """Whether `/word` without arguments opens a picker."""
        ...

    def show_past(self) -> None:
        """Print the last exchanges of a resumed session."""
        ...

    def tell_of_start(self, *, asked: bool) -> None:
        """Print the warnings of the start. `asked`: the user was asked about trust, so those about trust are left
        out."""
        ...

    async def trusts(self, held: list[str]) -> bool:
        """Ask whether the user trusts the folder, which contains these."""
        ...

    async def choose(self, word: str) -> str | None:
        """Open the picker or panel. None: cancelled, or done. Empty: there is nothing to choose from. Otherwise the
        arguments of the command, or another command with its arguments, which begins with a slash."""
        ...


class SessionController:
    def __init__(self, talk: TerminalSession, shown: RunView, status: StatusLine, place: TerminalView) -> None:
        self.waiting = PromptQueue(talk.session)
        self._talk, self._shown, self._status, self._place = talk, shown, status, place
        self._news = asyncio.Event()
        self._beside: asyncio.Future[str] | None = None  # the last side question
        self._stoppable: asyncio.Future[Any] | None = None  # work that can be stopped and is not a run
        self._said: dict[str, str] = {}  # prompts in the scrollback by id, as they were typed
        self._began, self._last = 0.0, ""  # the current run: its start, and its prompt as it was typed
        self._idle = False  # the session has nothing to do
        self._busy = True  # until the first prompt can be accepted
        self._left = False
        self._pressed = ""  # a command that a key stands for

    # --- what the user does -----------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return self._busy

    @property
    def waits_for_a_word(self) -> bool:
        """Whether prompts from before a crash wait to be sent."""
        return not self._busy and any(queued.restored for queued in self._talk.session.queued)

    def say(self, text: str) -> None:
        if text.strip() in LEAVE:
            self.leave()
        elif text.strip().startswith(BESIDE):
            self._ask_beside(text.strip())
        elif text.strip().startswith(("/", "!")) or self.waiting.has_own:
            self._wait_with(text)
        elif not self._idle or self._talk.session.queued:
            self._talk.beside(self._submit(Prompt((Text(text),), delivery="steer")))
        else:
            self._wait_with(text)

    def press(self, command: str) -> None:
        """Run a slash command for a key: it is not printed as the user's prompt."""
        self._pressed = command
        self._wait_with(command)

    def go_on(self) -> None:
        """Send the prompts that were queued before a crash."""
        self._talk.session.release()
        self._news.set()

    def _ask_beside(self, text: str) -> None:
        """A side question does not wait for the run."""
        self._place.say(text)
        work = table.run_slash_command("btw", text.removeprefix(BESIDE).strip(), self._talk)
        self._beside = asyncio.ensure_future(work)
        self._talk.beside(wait_quietly(self._beside))

    def _stop_beside(self) -> bool:
        beside, self._beside = self._beside, None
        return beside is not None and beside.cancel()

    def interrupt(self) -> bool:
        """Return whether there was anything to interrupt."""
        if self._stop_beside():
            return True
        if self._stoppable is not None:
            self._stoppable.cancel()
            return True
        return self._talk.session.interrupt(hold_reports=True).met

    def leave(self) -> None:
        """Exit in an orderly way: interrupt what is running first."""
        self._left = True
        self._stop_beside()
        self.interrupt()
        self._news.set()

    def _wait_with(self, text: str) -> None:
        self.waiting.add(text)
        self._news.set()

    async def _submit(self, prompt: Prompt) -> QueuedPrompt | None:
        try:
            queued = await self._talk.session.submit(prompt)
        except (MainspringError, OSError) as error:
            self._talk.output.line(
                f"The prompt was not submitted and stays queued: {strip_control_characters(str(error))}",
                TextStyle.YELLOW,
            )
            self._wait_with(prompt.text)
            return None
        self._place.redraw()
        return queued

    # --- the work ---------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Work until the user leaves."""
        await self._talk.open()
        await self._ask_for_trust()
        reading = asyncio.ensure_future(self._read())
        reading.add_done_callback(lambda _: self._news.set())
        try:
            while not self._left and not reading.done():
                self._busy = True
                if self._idle and (said := self.waiting.next()) is not None:
                    await self._take_up(said)
                else:
                    await self._something()
            while not self._idle and not reading.done():
                await self._something()
        finally:
            await end_all([reading])
        if not reading.cancelled():
            reading.result()

    async def _ask_for_trust(self) -> None:
        """Ask if the folder contains something that needs trust."""
        held: list[str] = await asyncio.to_thread(list_untrusted_content, self._talk)
        trusted = await self._stopped_by_somebody(self._place.trusts(held)) if held else False
        self._place.tell_of_start(asked=bool(held))
        if trusted:
            await table.run_slash_command("trust", "", self._talk)
            self._place.rests(0)

    async def _something(self) -> None:
        """Wait until the user types or leaves, or the session becomes idle."""
        self._news.clear()
        if not self._idle:
            await self._news.wait()
            return
        self._busy = False
        self._place.redraw()
        with waiting_for_person(self._talk.world.hands.hooks):
            await self._news.wait()

    async def _take_up(self, said: str) -> None:
        is_command = said.strip().startswith(("/", "!"))
        by_key, self._pressed = said == self._pressed, ""
        if is_command and not by_key:
            self._place.say(said)
        meant = await self._understood(said)
        if not meant or self._left:
            return
        self._idle = False
        queued = await self._submit(make_typed_prompt(said, meant))
        if queued is not None and is_command:
            self._said[queued.id] = said

    async def _stopped_by_somebody(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return None if the user stops the work."""
        self._stoppable = task = asyncio.ensure_future(work)
        if self._left:
            task.cancel()
        try:
            await asyncio.wait({task})
        finally:
            self._stoppable = None
            task.cancel()  # if this task is cancelled
        return None if task.cancelled() else task.result()

    async def _understood(self, said: str) -> str:
        """Return the prompt to submit; empty if the input was a command for us or an unknown slash command: a typo
        should cost nothing."""
        if said.startswith("!") and "\n" not in said:  # never run a paste
            await self._stopped_by_somebody(self._run_own(said[1:]))
            return ""
        word, words = (*said.split(None, 1), "")[:2]
        if not word.startswith("/") or "/" in word[1:] or parse_compact_command(said) is not None:
            return said
        before = self._talk.world
        if not words and self._place.chooses(word[1:]):
            chosen = await self._stopped_by_somebody(self._place.choose(word[1:]))
            if chosen is None:
                self._place.rests(0)  # a panel may have changed the status line
                return ""
            word, words = chosen.split(None, 1) if chosen.startswith("/") else (word, chosen)
        meant = await table.run_slash_command(word[1:], words.strip(), self._talk)
        if self._talk.world is not before:  # another session
            self._status.forget()
            self._shown.forget()
            if self._talk.world.about.session_id != before.about.session_id:  # else it is on the screen
                self._place.show_past()
        draft, self._talk.draft = self._talk.draft, ""
        if draft:
            self._place.draft(draft)
        self._place.rests(0)
        return meant

    async def _run_own(self, command: str) -> None:
        async with self._place.given_away():
            await cli.run_own_command(command, self._talk)

    # --- updates of the session -------------------------------------------------------------------------------------

    async def _read(self) -> None:
        async for update in self._talk.session.updates():
            if isinstance(update, SessionUpdate):
                self._hear(update)
            else:
                self._see(update)

    def _hear(self, update: AnySessionUpdate) -> None:
        match update:
            case Idle():
                self._idle = True
                self._news.set()
            case RunStarted():
                self._starts(update)
            case PromptExpanded():
                tell_of_mentions(update, self._talk.output)
            case PromptBlocked() | PromptAnswered():
                words = update.reason if isinstance(update, PromptBlocked) else update.text
                self._ends(strip_control_characters(words))
            case PromptReturned():
                self._ends("(interrupted)")
                if update.prompt is not None:  # the model has not seen it: the user can edit and resend it
                    self._place.draft(self._last or update.prompt.text)
            case RunBroken():
                self._shown.broke_off(str(update.error))
                self._ends()
            case PromptSuggested():
                self._place.suggest(update.text)
            case Notice():
                self._talk.config.options.say(update.text)
            case TaskChanged() | SubagentMoved():
                self._shown.see_task(update)
            case StateChanged() | PromptQueued() | SessionReset() | HookStarted() | HookFinished():
                pass  # shown elsewhere, or not at all
            case _:
                assert_never(update)

    def _starts(self, update: RunStarted) -> None:
        self._idle, self._busy, self._began = False, True, time.monotonic()
        message = update.message
        self._last = self._said.pop(message.id, "") if message is not None else ""
        if update.prompt is not None and not self._last:
            self._last = update.prompt.shown_text
            self._place.say(self._last)
        self._shown.begins(self._talk.model)

    def _ends(self, words: str = "") -> None:
        self._shown.ends()
        if words:
            self._talk.output.line(words, TextStyle.YELLOW)
        self._place.rests(time.monotonic() - self._began)

    def _see(self, update: Update) -> None:
        if isinstance(update, Injected) and update.message.origin is Origin.PROMPT:
            self._place.say(update.message.text)
        self._shown.see(update)
        self._status.see(update)
        if isinstance(update, QuestionAsked):
            self._place.ring("mainspring needs your answer")
        if isinstance(update, Result):
            self._ends()


async def wait_quietly(work: asyncio.Future[str]) -> None:
    await asyncio.wait({work})
    if not work.cancelled():
        work.result()


BESIDE = "/btw "
YES = "yes"


async def choose_rewind(talk: TerminalSession, stage: Screen) -> str | None:
    return await cli.choose_rewind(talk, stage)  # loaded when it is wanted


async def choose_login(talk: TerminalSession, stage: Screen) -> str | None:
    """Return the model to use; None: nothing was changed."""
    setup = cli.SetupScreen(stage, talk.config.environment, title="Connect a model")
    if (chosen := await setup.run()) is None:
        return None
    talk.output.line(chosen.words)
    return chosen.model or "default"


async def choose_diff(talk: TerminalSession, stage: Screen) -> str | None:
    return await cli.choose_diff(talk, stage)


async def ask_for_trust(held: list[str], folder: str, stage: Screen) -> bool:
    return await ask_dialog(make_trust_dialog(held, folder, now=stage.attended), stage) == YES


def make_trust_dialog(held: list[str], folder: str, *, now: Clock) -> PageDialog[str | None]:
    """No filter, and the safe choice is selected: to trust the folder, press its number, or select it and press
    Enter."""
    lines = [
        RichText(clean_for_drawing(folder)),
        RichText(),
        RichText("It contains:", "note"),
        *[RichText(f"  • {clean_for_drawing(one)}") for one in held],
        RichText(),
        RichText(RISK, "note"),
    ]
    choices = Menu([MenuItem("No, continue without them"), MenuItem("Yes, trust this folder")])

    def meant(picked: MenuSelection | None) -> str | None:
        return None if picked is None else ("", YES)[picked.places[0]]

    return PageDialog("Do you trust this folder?", ScrollPage.of(*lines), choices, meant, now=now, grants=True)


RISK = "These can run commands and change what needs approval. They take effect only if you trust the folder."

CHOICES: dict[str, Callable[[TerminalSession, Screen], Awaitable[str | None]]] = {
    "resume": session_picker.choose_session,
    "rewind": choose_rewind,
    "effort": pickers.choose_effort,
    "theme": pickers.choose_theme,
    "login": choose_login,
    "diff": choose_diff,
}
