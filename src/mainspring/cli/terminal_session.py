"""The agent session of a conversation in a terminal, and what its slash commands need beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from mainspring.agent.config import ResolvedConfig
from mainspring.agent.resume import OpenedSession
from mainspring.agent.session import AgentSession
from mainspring.agent.session_parts import SessionParts
from mainspring.cli.output import TextStyle
from mainspring.core.models import Model
from mainspring.text import plural, strip_control_characters


class LineWriter(Protocol):
    """Where words for the person go."""

    def line(self, text: str = "", style: TextStyle = TextStyle.PLAIN) -> None: ...


class TerminalSession:
    def __init__(self, session: AgentSession, output: LineWriter) -> None:
        self.session, self.output = session, output
        self.draft = ""  # for whoever shows an input: words that somebody may want to say again
        self._beside: set[asyncio.Future[object]] = set()

    @property
    def config(self) -> ResolvedConfig:
        return self.session.config

    @property
    def world(self) -> SessionParts:
        return self.session.world

    @property
    def opened(self) -> OpenedSession:
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
            self.output.line(
                f"Something failed: {strip_control_characters(str(error) or repr(error))}", TextStyle.YELLOW
            )

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
            self.output.line(f"({plural(away, 'agent')} still at work: ended with the session)", TextStyle.DIM)
