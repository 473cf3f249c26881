"""The agent session of a conversation in a terminal, and what its slash commands need beside it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from mainspring.agent.harmless import harmless
from mainspring.agent.host import Host
from mainspring.agent.options import SessionOptions
from mainspring.agent.parts import Parts, prepare
from mainspring.agent.session import AgentSession
from mainspring.agent.sessions import Opened
from mainspring.agent.words import count
from mainspring.agent.world import World
from mainspring.cli.output import Style
from mainspring.core.models import Model


class Lines(Protocol):
    """Where words for the person go."""

    def line(self, text: str = "", style: Style = Style.PLAIN) -> None: ...


class Talk:
    session: AgentSession  # from `begin` on

    def __init__(self, options: SessionOptions, output: Lines, host: Host) -> None:
        """Raises `StartError`."""
        self._first = prepared(options)
        self.output, self._host = output, host
        self.draft = ""  # for whoever shows an input: words that somebody may want to say again
        self.suggested: Callable[[str], object] | None = None  # hears what the person may say next; None: nobody asks
        self._beside: set[asyncio.Future[object]] = set()

    def begin(self) -> None:
        suggest = self._suggest if self.suggested is not None else None
        self.session = AgentSession(self._first, self._host, prepared, suggest=suggest)

    @property
    def parts(self) -> Parts:
        return self.session.parts if hasattr(self, "session") else self._first

    @property
    def world(self) -> World:
        return self.session.world

    @property
    def opened(self) -> Opened:
        return self.session.opened

    @property
    def model(self) -> Model:
        """The one that the next turn asks."""
        return self.session.model

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
        await self.session.start()

    async def close(self) -> None:
        if self._beside:
            await asyncio.wait(self._beside)
        self._tell_of_agents(self.world.agents.away)
        await self.session.close("prompt_input_exit")

    async def change(self, change: Coroutine[Any, Any, None]) -> None:
        """To another conversation."""
        away = self.world.agents.away
        await change
        self._tell_of_agents(away)

    def _tell_of_agents(self, away: int) -> None:
        if away:
            self.output.line(f"({count(away, 'agent')} still at work: ended with the session)", Style.DIM)

    def _suggest(self, words: str) -> None:
        if self.suggested is not None:
            self.suggested(words)


def prepared(options: SessionOptions) -> Parts:
    return prepare(options, dict(os.environ))
