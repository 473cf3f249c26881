"""What becomes of what somebody says: runs that are followed, one after the other, as long as the conversation goes on.

Somebody may say more at any time. While a run is under way, words for the model are handed to it, and go out with its
next request; what must be looked at first (a word with a slash, a file that is named, a hook) waits until it is over.
What was handed on in another sitting, before a crash, waits until somebody wants it sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from mainspring.assembly.harmless import harmless
from mainspring.assembly.said import told_of_attached
from mainspring.cli import slash_words
from mainspring.cli.conversation import tell_of_absent
from mainspring.cli.output import Style
from mainspring.cli.own_commands import run_own
from mainspring.cli.repl.asker import Asker
from mainspring.cli.repl.shown import Shown
from mainspring.cli.repl.status import Status
from mainspring.cli.repl.waiting import Waiting
from mainspring.cli.talk import Talk
from mainspring.cli.trusting import held_back
from mainspring.cli.typed import LEAVE
from mainspring.core.errors import MainspringError
from mainspring.core.messages import Origin
from mainspring.core.updates import Asked, Injected, Update
from mainspring.engine.prompts import Blocked
from mainspring.engine.run import Run
from mainspring.engine.wishes import compaction, token_budget
from mainspring.hooks.notices import waiting_for_person
from mainspring.hooks.points import Point

T = TypeVar("T")


class Place(Protocol):
    """The terminal, as far as a conversation needs it."""

    def say(self, text: str) -> None:
        """On paper: what the user said."""
        ...

    def redraw(self) -> None: ...

    def rests(self, seconds: float) -> None:
        """Something is over, which took so long."""
        ...

    def draft(self, text: str) -> None:
        """Into the input, before what is there: somebody may want to say it again."""
        ...

    def ring(self) -> None:
        """Somebody is waited for."""
        ...

    def given_away(self) -> AbstractAsyncContextManager[None]:
        """For a program of the user's own."""
        ...

    def chooses(self, word: str) -> bool:
        """Whether somebody who gives nothing behind `/word` chooses from a list."""
        ...

    def show_past(self) -> None:
        """Of a conversation that is taken up again."""
        ...

    async def trusts(self, held: list[str]) -> bool:
        """Whether somebody trusts the folder, which brings these."""
        ...

    async def choose(self, word: str) -> str | None:
        """None: nothing of it. Empty: there is nothing to choose from."""
        ...


class Conversation:
    def __init__(self, talk: Talk, asker: Asker, shown: Shown, status: Status, place: Place) -> None:
        self.waiting = Waiting(lambda: talk.world.session)
        self._talk, self._asker, self._shown, self._status, self._place = talk, asker, shown, status, place
        self._news = asyncio.Event()
        self._run: Run | None = None
        self._stoppable: asyncio.Future[Any] | None = None  # what can be stopped, and is no run
        self._wanted: set[str] = set()  # ids of what waits in the inbox and may be sent
        self._busy = True  # until the first prompt can be taken
        self._left = False
        self._calm = False  # interrupted: reports of agents wait until somebody speaks

    # --- what somebody does -----------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return self._busy

    @property
    def waits_for_a_word(self) -> bool:
        """What was handed on in another sitting is here."""
        return not self._busy and any(one.id not in self._wanted for one in self.waiting.handed_on)

    def say(self, text: str) -> None:
        if text.strip() in LEAVE:
            self.leave()
        elif not self._is_for_the_model(text):
            self._wait_with(text)
        else:
            self._calm = False
            self.go_on()
            goes_along = self._run is not None or self.waiting.handed_on
            if goes_along and not self.waiting.has_own and self._brings_nothing(text):
                self._talk.beside(self._hand_on(text))
            else:
                self._wait_with(text)

    def go_on(self) -> None:
        """With what was handed on in another sitting."""
        self._wanted |= {one.id for one in self.waiting.handed_on}
        self._news.set()

    def interrupt(self) -> bool:
        """Whether there was anything to interrupt."""
        if self._run is not None:
            self._calm = True
            self._run.interrupt()
            return True
        if self._stoppable is not None:
            self._stoppable.cancel()
            return True
        return False

    def leave(self) -> None:
        """In order: what is under way is interrupted."""
        self._left = True
        self.interrupt()
        self._news.set()

    def _is_for_the_model(self, text: str) -> bool:
        return not text.strip().startswith(("/", "!"))

    def _brings_nothing(self, text: str) -> bool:
        """It is what it says: no files go along, no hook is asked, no wish to the loop itself."""
        asked = self._talk.world.hands.hooks.any_at(Point.USER_PROMPT_SUBMIT)
        return not asked and "@" not in text and token_budget(text) is None

    def _wait_with(self, text: str) -> None:
        self.waiting.add(text)
        self._news.set()

    async def _hand_on(self, text: str) -> None:
        try:
            command = await self._talk.world.session.submit(text)
        except (MainspringError, OSError) as error:
            self._talk.output.line(f"It could not be handed on, and waits: {harmless(str(error))}", Style.YELLOW)
            self._wait_with(text)
            return
        self._wanted.add(command.id)
        self._news.set()
        self._place.redraw()

    # --- the work ---------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Until somebody leaves."""
        await self._talk.open()
        await self._ask_for_trust()
        while not self._left:
            self._busy = True
            if self._goes_on():
                await self._follow(self._talk.world.go_on(anew=self._has_wanted()))
            elif (said := self.waiting.next()) is not None:
                await self._take_up(said)
            else:
                self._busy = False
                self._place.redraw()
                await self._something()

    async def _ask_for_trust(self) -> None:
        """Where the folder brings something that waits for it."""
        held: list[str] = await asyncio.to_thread(held_back, self._talk)
        trusted = await self._stopped_by_somebody(self._place.trusts(held)) if held else False
        if trusted:
            await slash_words.understood("trust", "", self._talk)

    def _has_wanted(self) -> bool:
        return any(one.id in self._wanted for one in self.waiting.handed_on)

    def _goes_on(self) -> bool:
        """By itself: something handed on was not taken by the run that it was for, or an agent has reported."""
        if self.waiting.handed_on:
            return self._has_wanted()
        reports = self._talk.world.session.shared.inbox.waiting()
        return bool(reports) and not self._calm and self._talk.world.agents.turns_left > 0

    async def _something(self) -> None:
        """Somebody speaks, leaves, or an agent reports."""
        self._news.clear()
        hopes: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._news.wait())]
        if self._talk.world.agents.away and not self._calm:
            hopes.append(asyncio.ensure_future(self._talk.world.wait_for_more()))
        try:
            with waiting_for_person(self._talk.world.hands.hooks):
                await asyncio.wait(hopes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for hope in hopes:
                hope.cancel()

    async def _take_up(self, said: str) -> None:
        self._place.say(said)
        meant = await self._understood(said)
        if not meant or self._left:
            return
        tell_of_absent(meant, self._talk.world, self._talk.output)
        self._shown.begins(self._talk.model)
        heard = await self._stopped_by_somebody(self._talk.world.heard(meant))
        if heard is None:  # the model has heard nothing: it can be said again, or otherwise
            self._shown.ends()
            self._talk.output.line("(interrupted)", Style.YELLOW)
            self._place.draft(said)
            return
        if isinstance(heard, Blocked):
            self._shown.ends()
            self._talk.output.line(harmless(heard.reason), Style.YELLOW)
            return
        for line in told_of_attached(heard):
            self._talk.output.line(line, Style.DIM)
        wish = said if meant is said else ""  # the words of a skill or a command are for the model
        await self._follow(self._talk.world.run(wish, heard))

    async def _stopped_by_somebody(self, work: Coroutine[Any, Any, T]) -> T | None:
        """None: somebody did not want to wait."""
        self._stoppable = task = asyncio.ensure_future(work)
        if self._left:
            task.cancel()
        try:
            await asyncio.wait({task})
        finally:
            self._stoppable = None
            task.cancel()  # if we are ended ourselves
        return None if task.cancelled() else task.result()

    async def _understood(self, said: str) -> str:
        """The prompt that it stands for; empty if it was for us, or nobody knows it: a slip should cost nothing."""
        if said.startswith("!") and "\n" not in said:  # a paste is never run
            await self._stopped_by_somebody(self._run_own(said[1:]))
            return ""
        word, words = (*said.split(None, 1), "")[:2]
        if not word.startswith("/") or "/" in word[1:] or compaction(said) is not None:
            return said
        if not words and self._place.chooses(word[1:]):
            chosen = await self._stopped_by_somebody(self._place.choose(word[1:]))
            if chosen is None:
                return ""
            words = chosen
        before = self._talk.world
        meant = await slash_words.understood(word[1:], words.strip(), self._talk)
        if self._talk.world is not before:  # another conversation
            self._status.forget()
            self._shown.forget()
            self._place.show_past()
        draft, self._talk.draft = self._talk.draft, ""
        if draft:
            self._place.draft(draft)
        self._place.rests(0)
        return meant

    async def _run_own(self, command: str) -> None:
        async with self._place.given_away():
            await run_own(command, self._talk.output)

    # --- following a run --------------------------------------------------------------------------------------------

    async def _follow(self, run: Run) -> None:
        self._shown.begins(self._talk.model)
        began = time.monotonic()
        async with run:
            self._run = run
            try:
                if not self._left:
                    async for update in run:
                        self._see(update)
            except (MainspringError, OSError) as error:
                self._shown.broke_off(str(error))
                self._wanted.clear()  # or it would be tried again, and again
            finally:
                self._run = None
                self._asker.rests()
                self._shown.ends()
                self._place.rests(time.monotonic() - began)

    def _see(self, update: Update) -> None:
        if isinstance(update, Injected) and update.message.origin is Origin.PROMPT:
            self._place.say(update.message.text)
        self._shown.see(update)
        self._status.see(update)
        self._talk.saw(update)
        self._asker.see(update)
        if isinstance(update, Asked):
            self._place.ring()
