"""The agent session of a conversation in a terminal, and the state that its slash commands need."""

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
    """Where messages for the user go."""

    def line(self, text: str = "", style: TextStyle = TextStyle.PLAIN) -> None: ...


class TerminalSession:
    def __init__(self, session: AgentSession, output: LineWriter) -> None:
        self.session, self.output = session, output
        self.draft = ""  # prompt to put into the input, so that the user can edit it and send it again
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
        """The model of the next turn."""
        return self.session.model

    def beside(self, work: Coroutine[Any, Any, object]) -> None:
        """Runs something short in the background; `close` waits for it."""
        task = asyncio.ensure_future(work)
        self._beside.add(task)
        task.add_done_callback(self._is_done)

    def _is_done(self, task: asyncio.Future[object]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.output.line(
                f"Background work failed: {strip_control_characters(str(error) or repr(error))}", TextStyle.YELLOW
            )

    async def open(self) -> None:
        await self.session.start()

    async def close(self) -> None:
        if self._beside:
            await asyncio.wait(self._beside)
        self._tell_of_agents(self.world.agents.away)
        await self.session.close("prompt_input_exit")

    async def change(self, change: Coroutine[Any, Any, None]) -> None:
        """Switch to another conversation."""
        away = self.world.agents.away
        await change
        self._tell_of_agents(away)

    def _tell_of_agents(self, away: int) -> None:
        if away:
            self.output.line(f"({plural(away, 'running subagent')} stopped with the session)", TextStyle.DIM)
