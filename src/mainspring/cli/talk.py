"""The session that is spoken to in a terminal: it may become another one while the conversation goes on."""

from __future__ import annotations

import asyncio
import os

from mainspring.assembly.options import Options
from mainspring.assembly.parts import Parts, open_journal, prepare
from mainspring.assembly.sessions import Opened
from mainspring.assembly.words import count
from mainspring.assembly.world import World, begin
from mainspring.cli.asking import Keyboard
from mainspring.cli.cost import Cost
from mainspring.cli.output import Output, Style
from mainspring.core.models import Model
from mainspring.settings.load import Asked


class Talk:
    world: World
    opened: Opened
    cost: Cost

    def __init__(self, options: Options, output: Output, runner: asyncio.Runner) -> None:
        """Raises `StartError`."""
        self.parts = prepare(options, dict(os.environ))
        self.output, self.runner = output, runner
        self.keyboard = Keyboard(output, Asked(options.settings, options.setting_sources))

    @property
    def model(self) -> Model:
        """The one that the next turn asks."""
        return self.world.session.shared.policy.model or self.world.about.model

    def begin(self) -> None:
        self._take(self.parts, open_journal(self.parts))

    def open(self) -> None:
        self.runner.run(self._open())

    def close(self) -> None:
        if self.world.agents.away:
            away = count(self.world.agents.away, "agent")
            self.output.line(f"({away} still at work: ended with the session)", Style.DIM)
        self.runner.run(self._close())

    def begin_anew(self) -> None:
        """A new conversation under a new id. What somebody has allowed or chosen stays, and so does what was spent: a
        limit holds for all that is asked for here."""
        shared = self.world.session.shared
        self._change_to(self._options_for(None))
        fresh = self.world.session
        fresh.shared.ledger.settle(0, shared.ledger.account.spent)
        if shared.policy != fresh.shared.policy:
            self.runner.run(fresh.change(shared.policy))

    def go_on_with(self, session_id: str) -> None:
        self._change_to(self._options_for(session_id))

    def _options_for(self, session_id: str | None) -> Options:
        from mainspring.driven.door import begun_anew

        options = begun_anew(self.parts.options)
        options.resume = session_id
        return options

    def _change_to(self, options: Options) -> None:
        """The one before stays on the disk. Raises `StartError`, and then nothing has changed."""
        parts = prepare(options, dict(os.environ))
        opened = open_journal(parts)
        self.close()
        self._take(parts, opened)
        self.open()

    def _take(self, parts: Parts, opened: Opened) -> None:
        self.parts, self.opened = parts, opened
        self.world = begin(parts, self.keyboard.answer, opened=opened)
        self.keyboard.session = self.world.session
        self.cost = Cost(self.world.about, self.world.session.deps.now)

    async def _open(self) -> None:
        await self.world.open()

    async def _close(self) -> None:
        await self.world.close()
        if self.opened.journal is not None:
            self.opened.journal.close()
