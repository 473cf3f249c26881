"""The agent session of a conversation in a terminal, and the state that its slash commands need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from mainspring.agent.session import AgentSession
from mainspring.agent.slash.lines import LineWriter as LineWriter  # noqa: PLC0414  # imported from here
from mainspring.agent.slash.lines import SlashContext, TextStyle
from mainspring.text import plural, strip_control_characters

if TYPE_CHECKING:
    from mainspring.viewer.server import ViewServer


class TerminalSession(SlashContext):
    def __init__(self, session: AgentSession, output: LineWriter) -> None:
        super().__init__(session, output)
        self.write_sequence: Callable[[str], object] | None = None  # to the terminal; None: there is none
        self._beside: set[asyncio.Future[object]] = set()
        self._trace: tuple[str, ViewServer] | None = None  # the viewer, and the session file that it shows

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
        await self._end_trace()
        await self.session.close("prompt_input_exit")

    async def serve_trace(self, file: str) -> str:
        """The address of the viewer for this session file. It runs until this or another conversation ends."""
        if self._trace is None or self._trace[0] != file:
            from mainspring.viewer.server import ViewServer

            await self._end_trace()
            server = ViewServer(file)
            await server.__aenter__()
            self._trace = file, server
        return self._trace[1].url

    async def _end_trace(self) -> None:
        if self._trace is not None:
            _, server = self._trace
            self._trace = None
            await server.__aexit__(None, None, None)

    async def change(self, change: Coroutine[Any, Any, None]) -> None:
        """Switch to another conversation."""
        away = self.world.agents.away
        await change
        self._tell_of_agents(away)

    def _tell_of_agents(self, away: int) -> None:
        if away:
            self.output.line(f"({plural(away, 'running subagent')} stopped with the session)", TextStyle.DIM)
