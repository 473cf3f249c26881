"""What becomes of what somebody says: runs that are followed, one after the other, as long as the conversation goes on.

Somebody may say more at any time. While a run is under way, words for the model are handed to it, and go out with its
next request; what must be looked at first (a word with a slash, a file that is named, a hook) waits until it is over.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from mainspring.cli import slash_words
from mainspring.cli.conversation import tell_of_absent
from mainspring.cli.own_commands import run_own
from mainspring.cli.repl.asker import Asker
from mainspring.cli.repl.shown import Shown
from mainspring.cli.repl.status import Status
from mainspring.cli.repl.waiting import Said, Waiting
from mainspring.cli.talk import Talk
from mainspring.cli.typed import LEAVE
from mainspring.core.errors import MainspringError
from mainspring.core.messages import Origin, User
from mainspring.core.updates import Asked, Injected, Update
from mainspring.engine.prompts import Blocked
from mainspring.engine.run import Run
from mainspring.engine.wishes import compaction
from mainspring.hooks.notices import waiting_for_person
from mainspring.hooks.points import Point


class Place(Protocol):
    """The terminal, as far as a conversation needs it."""

    def say(self, text: str) -> None:
        """On paper: what the user said."""
        ...

    def redraw(self) -> None: ...

    def rests(self, seconds: float) -> None:
        """A run is over, which took so long."""
        ...

    def draft(self, text: str) -> None:
        """Into the input, if nothing is there: somebody may want to say it again."""
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

    async def choose(self, word: str) -> str | None:
        """None: nothing of it."""
        ...


class Conversation:
    def __init__(self, talk: Talk, asker: Asker, shown: Shown, status: Status, place: Place) -> None:
        self.waiting = Waiting()
        self._talk, self._asker, self._shown, self._status, self._place = talk, asker, shown, status, place
        self._news = asyncio.Event()
        self._run: Run | None = None
        self._busy = True  # until the first prompt can be taken
        self._left = False
        self._calm = False  # interrupted: reports of agents wait until somebody speaks,
        self._resting = False  # and so does all that was typed before a crash

    # --- what somebody does -----------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return self._busy

    def say(self, text: str) -> None:
        self._calm = self._resting = False
        goes_along = self._run is not None or self.waiting
        if goes_along and self.waiting.is_handed_on and self._brings_nothing(text):
            self._talk.beside(self._hand_on(text))
        else:
            self.waiting.add(Said(text))
            self._news.set()

    @property
    def rests_on_prompts(self) -> bool:
        """What was typed before a crash waits for somebody."""
        return self._resting and bool(self.waiting)

    def go_on(self) -> None:
        """With what was typed before a crash."""
        if self._resting:
            self._resting = False
            self._news.set()

    def interrupt(self) -> bool:
        """Whether there was anything to interrupt."""
        if self._run is None:
            return False
        self._calm = True
        self._run.interrupt()
        return True

    async def take_back(self) -> str:
        """All that waits, but for what is on its way to the model."""
        texts: list[str] = []
        for said in self.waiting.all:
            if said.command is None or await self._talk.world.session.withdraw(said.command):
                self.waiting.remove(said)
                texts.append(said.text)
        return "\n".join(texts)

    def leave(self) -> None:
        """In order: what is under way is interrupted."""
        self._left = True
        self.interrupt()
        self._news.set()

    def _brings_nothing(self, text: str) -> bool:
        """It is what it says: words for the model."""
        asked = self._talk.world.hands.hooks.any_at(Point.USER_PROMPT_SUBMIT)
        return not asked and "@" not in text and not text.startswith(("/", "!"))

    async def _hand_on(self, text: str) -> None:
        command = await self._talk.world.session.submit(text)
        self.waiting.add(Said(text, command))
        self._news.set()
        self._place.redraw()

    # --- the work ---------------------------------------------------------------------------------------------------

    async def work(self, first: str = "") -> None:
        """Until somebody leaves."""
        await self._talk.open()
        self._look_into_inbox()
        if first:
            self.say(first)
        while not self._left:
            self._busy = True
            if self._goes_on():
                await self._follow(self._talk.world.go_on(anew=self._has_prompts()))
            elif (said := self.waiting.next()) is not None:
                await self._take_up(said)
            else:
                self._busy = False
                await self._something()

    def _look_into_inbox(self) -> None:
        """Of a session that is taken up again: what was typed then is shown, and can be taken back."""
        for command in self._talk.world.session.shared.inbox.waiting():
            if command.origin is Origin.PROMPT:
                self.waiting.add(Said(command.text, command))
                self._resting = True
        self._place.redraw()

    def _goes_on(self) -> bool:
        """By itself: something typed was not taken up by the run that it was for, or an agent has reported."""
        if self._has_prompts():
            return not self._resting
        reports = self._talk.world.session.shared.inbox.waiting()
        return bool(reports) and not self._calm and self._talk.world.agents.turns_left > 0

    def _has_prompts(self) -> bool:
        inbox = self._talk.world.session.shared.inbox.waiting()
        return any(command.origin is Origin.PROMPT for command in inbox)

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
        if said.strip() in LEAVE:
            self.leave()
            return
        self._place.say(said)
        meant = await self._understood(said)
        if not meant:
            return
        tell_of_absent(meant, self._talk.world, self._talk.output)
        heard = await self._talk.world.heard(meant)
        if isinstance(heard, Blocked):
            self._shown.broke_off(heard.reason)
            return
        wish = said if meant is said else ""  # the words of a skill or a command are for the model
        await self._follow(self._talk.world.run(wish, heard))

    async def _understood(self, said: str) -> str:
        """The prompt that it stands for; empty if it was for us, or nobody knows it: a slip should cost nothing."""
        if said.startswith("!") and "\n" not in said:  # a paste is never run
            async with self._place.given_away():
                await run_own(said[1:], self._talk.output)
            return ""
        word, words = (*said.split(None, 1), "")[:2]
        if not word.startswith("/") or "/" in word[1:] or compaction(said) is not None:
            return said
        if not words and self._place.chooses(word[1:]) and not (words := await self._place.choose(word[1:]) or ""):
            return ""
        before = self._talk.world
        meant = await slash_words.understood(word[1:], words.strip(), self._talk)
        if self._talk.world is not before:  # another conversation
            self._status.forget()
            self._shown.forget()
        draft, self._talk.draft = self._talk.draft, ""
        if draft:
            self._place.draft(draft)
        return meant

    # --- following a run --------------------------------------------------------------------------------------------

    async def _follow(self, run: Run) -> None:
        self._shown.begins(self._talk.model)
        began = time.monotonic()
        async with run:
            self._run = run
            if self._left:
                return
            try:
                async for update in run:
                    self._see(update)
            except (MainspringError, OSError) as error:
                self._shown.broke_off(str(error))
            finally:
                self._run = None
                self._asker.rests()
                self._shown.ends()
                self._place.rests(time.monotonic() - began)

    def _see(self, update: Update) -> None:
        if isinstance(update, Injected):
            self._injected(update.message)
        self._shown.see(update)
        self._status.see(update)
        self._talk.saw(update)
        self._asker.see(update)
        if isinstance(update, Asked):
            self._place.ring()

    def _injected(self, message: User) -> None:
        if self.waiting.taken_up(message.id):
            self._place.say(message.text)
