"""Runs a session on the virtual clock and keeps what its consumer saw."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from core.play import MODEL, SMALL, line
from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.history import History
from mainspring.core.messages import ToolResult
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.state import State
from mainspring.core.step import step
from mainspring.core.updates import (
    AgentDone,
    AgentStarted,
    AgentUpdate,
    Appended,
    BlockDone,
    BlockStarted,
    Boundary,
    CallDone,
    CallProgress,
    CallStarted,
    Delta,
    Failed,
    Injected,
    MaxTurnsReached,
    PrefixBroken,
    QuestionAnswered,
    QuestionAsked,
    ReplyDone,
    ReplyStarted,
    RequestStarted,
    Result,
    Retrying,
    Tombstone,
    ToolSummary,
    Update,
)
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.sessions.records import MemoryJournal
from mainspring.testing import VirtualLoop, World, virtually

CONFIG = Config(model=MODEL)
WITH_FALLBACK = replace(CONFIG, fallbacks=(SMALL,))

Meanwhile = Callable[[Run, Update], Awaitable[None]]


class Stage:
    """One session, one run to its end; then look at what came of it."""

    def __init__(
        self,
        world: World,
        *,
        config: Config = CONFIG,
        meanwhile: Meanwhile | None = None,
        loop: VirtualLoop | None = None,
    ) -> None:
        self.world = world
        self.updates: list[Update] = []
        self.loop = loop or VirtualLoop()
        self.session = EngineSession(world, config, side_jobs=world.side_jobs)
        self.meanwhile = meanwhile
        virtually(self.play(), self.loop)
        world.check()

    async def play(self) -> None:
        async with self.session.run("go") as run:
            async for update in run:
                self.updates.append(update)
                if self.meanwhile is not None:
                    await self.meanwhile(run, update)
        assert_clean()

    @property
    def result(self) -> Result:
        last = self.updates[-1]
        assert isinstance(last, Result)
        return last

    @property
    def ending(self) -> tuple[str, str]:
        return self.result.terminal, self.result.cause

    @property
    def seen(self) -> list[str]:
        """The updates, one short line each; deltas left out."""
        return [words for words in map(short, self.updates) if words]

    @property
    def said(self) -> list[str]:
        return [line(message) for message in self.session.state.history][1:]


def assert_clean() -> None:
    """No task but ours, and no timer, is left."""
    loop = asyncio.get_running_loop()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert isinstance(loop, VirtualLoop)
    assert loop.pending_timers() == 0


def assert_in_order(session: EngineSession) -> None:
    """The history is valid, and replaying the journal's events leads to the same state."""
    assert find_unpaired_ids(session.state.history) == ()
    journal = session.deps.journal
    assert isinstance(journal, MemoryJournal)
    state = State(History())
    for event in journal.events:
        state = step(state, event, session.config).state
    assert state == session.state


def short(update: Update) -> str:
    match update:
        case Delta() | ReplyDone() | ReplyStarted() | BlockStarted() | PrefixBroken() | CallProgress():
            return ""
        case BlockDone():
            block = update.block
            return f"block {block.text!r}" if hasattr(block, "text") else f"block <{getattr(block, 'id', '?')}>"
        case CallStarted():
            return f"start <{update.call.id}>"
        case CallDone():
            return f"done <{update.result.call_id}>"
        case QuestionAsked():
            return f"asked {update.question!r}"
        case QuestionAnswered():
            return f"answered {update.answer!r}"
        case Injected():
            return f"injected {update.message.text!r}"
        case Retrying():
            return f"retrying {update.failure.kind} {update.attempt} {update.delay}"
        case ToolSummary():
            return f"summary {update.text!r}"
        case RequestStarted():
            return f"request {update.turn}" + (f" {update.transition}" if update.transition else "")
        case Appended():
            kind = "synthetic" if isinstance(update.message, ToolResult) else update.message.origin
            return f"{kind} {update.message.text!r}"
        case Boundary():
            return f"boundary {update.layer}"
        case Tombstone():
            return f"tombstone {update.why}"
        case MaxTurnsReached():
            return f"max turns {update.limit}"
        case AgentStarted() | AgentUpdate() | AgentDone():
            return f"agent {update.agent_id}"
        case Failed():
            return f"failed {update.failure.kind}"
        case Result():
            return f"{update.terminal} {update.cause}"
