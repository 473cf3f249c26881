"""The session that is spoken to in a terminal: it may become another one while the conversation goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from mainspring.assembly.carry_over import carry_over, options_for_next, take_along
from mainspring.assembly.harmless import harmless
from mainspring.assembly.options import Options, StartError
from mainspring.assembly.parts import Parts, open_journal, prepare
from mainspring.assembly.sessions import Opened
from mainspring.assembly.words import count
from mainspring.assembly.world import World, begin
from mainspring.cli.cost import Cost
from mainspring.cli.output import Style
from mainspring.core.models import Model
from mainspring.core.updates import Result, Update
from mainspring.engine.deps import Question
from mainspring.engine.ledger import Ledger
from mainspring.engine.session import Session


class Lines(Protocol):
    """Where words for the person go."""

    def line(self, text: str = "", style: Style = Style.PLAIN) -> None: ...


class Asker(Protocol):
    """Puts questions to the person. It is told of the session, which knows the rules that somebody adds."""

    def speak_for(self, session: Session) -> None: ...

    async def answer(self, question: Question) -> str: ...


class Talk:
    world: World
    opened: Opened
    cost: Cost

    def __init__(self, options: Options, output: Lines, asker: Asker) -> None:
        """Raises `StartError`."""
        self.parts = prepare(options, dict(os.environ))
        self.output, self.asker = output, asker
        self.draft = ""  # for whoever shows an input: words that somebody may want to say again
        self.suggested: Callable[[str], object] | None = None  # hears what the person may say next; None: nobody asks
        self._beside: set[asyncio.Future[object]] = set()

    @property
    def model(self) -> Model:
        """The one that the next turn asks."""
        return self.world.session.shared.policy.model or self.world.about.model

    def begin(self) -> None:
        self._take(self.parts, open_journal(self.parts))

    def saw(self, update: Update) -> None:
        """Of a run that is followed."""
        self.cost.see(update)
        if isinstance(update, Result):
            self.world.agents.took(update.turns)

    def beside(self, work: Coroutine[Any, Any, object]) -> None:
        """Something short, for which nobody waits before the end."""
        task = asyncio.ensure_future(work)
        self._beside.add(task)
        task.add_done_callback(self._is_done)

    def _is_done(self, task: asyncio.Future[object]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.output.line(f"Something failed: {harmless(str(error) or repr(error))}", Style.YELLOW)

    async def open(self) -> None:
        await self.world.open()

    async def close(self) -> None:
        if self._beside:
            await asyncio.wait(self._beside)
        if self.world.agents.away:
            away = count(self.world.agents.away, "agent")
            self.output.line(f"({away} still at work: ended with the session)", Style.DIM)
        await self.world.close()
        if self.opened.journal is not None:
            self.opened.journal.close()

    async def begin_anew(self) -> None:
        """A new conversation under a new id."""
        await self._change_to(options_for_next(self.parts.options))

    async def go_on_with(self, session_id: str) -> None:
        await self._change_to(options_for_next(self.parts.options, session_id))

    async def go_back_to(self, message_id: str) -> None:
        """A fork of this conversation up to this line of its file, and with it."""
        options = options_for_next(self.parts.options, self.world.about.session_id)
        options.fork_session, options.resume_session_at = True, message_id
        await self._change_to(options)

    async def _change_to(self, options: Options) -> None:
        """The one before stays on the disk. Raises `StartError`, and then nothing has changed."""
        parts = prepare(options, dict(os.environ))
        opened = open_journal(parts)
        carried = take_along(self.world, self.parts)
        await self.close()
        self._take(parts, opened, carried.ledger)
        await self.open()
        await carry_over(carried, self.world, parts)

    async def begin_again(self) -> None:
        """The same conversation, with all that it is made of prepared anew: what counts here has changed. Raises
        `StartError`, and then nothing has changed."""
        said, journal = bool(self.world.session.state.history), self.opened.journal
        if said and (journal is None or not journal.stored):
            raise StartError("nothing of it is stored. '/clear' begins a new one")
        options = options_for_next(self.parts.options, self.world.about.session_id if said else None)
        parts = prepare(options, dict(os.environ))
        carried = take_along(self.world, self.parts)
        await self.close()  # its file can be open only once
        self._take(parts, self._opened_again(parts), carried.ledger)
        await self.open()
        await carry_over(carried, self.world, parts, reloaded=True)

    def _opened_again(self, parts: Parts) -> Opened:
        try:
            return open_journal(parts)
        except StartError as error:  # somebody was faster, or has removed it
            self.output.line(f"It cannot be taken up again: {harmless(str(error))}. A new one begins.", Style.YELLOW)
            parts.options.resume = None
            return open_journal(parts)

    def _suggest(self, words: str) -> None:
        if self.suggested is not None:
            self.suggested(words)

    def _take(self, parts: Parts, opened: Opened, ledger: Ledger | None = None) -> None:
        self.parts, self.opened = parts, opened
        suggest = self._suggest if self.suggested is not None else None
        self.world = begin(parts, self.asker.answer, opened=opened, suggest=suggest, ledger=ledger)
        self.asker.speak_for(self.world.session)
        self.cost = Cost(self.world.about, self.world.session.deps.now)
