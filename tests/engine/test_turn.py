"""One whole turn, step by step, as the journal has it (B-24)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.config import Config
from mainspring.core.effects import Compact, Request
from mainspring.core.messages import Origin, User, user
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.state import State
from mainspring.core.view import Fold
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker
from mainspring.providers.base import Batch, Conversation, Retry, StreamEnded
from mainspring.providers.scripted import Scripted, ScriptedReply, call, says
from mainspring.sessions.records import (
    DecisionRecord,
    EventRecord,
    IntentRecord,
    MemoryJournal,
    OutcomeRecord,
    Record,
    RetryRecord,
    StepsRecord,
)
from mainspring.tools.base import Workspace
from mainspring.tools.builtin import BuiltinTools
from mainspring.tools.toolset import Toolset

FULL = 990_000


class Filling(AgentDeps):
    """Too full before its first request."""

    looks = 0

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        self.looks += 1
        return PreparedContext(FULL if self.looks == 1 else 10_000)

    async def summarize(self, state: State, effect: Compact) -> Summary:
        ids = [message.id for message in state.history]
        words = replace(user("Asked to read a file.", Origin.SUMMARY), id=self.new_id())
        return Summary((Fold(ids[0], ids[0], words),), before=FULL, after=10_000)


class AwaitedJournal(MemoryJournal):
    def __init__(self) -> None:
        super().__init__()
        self.has_outcome = asyncio.Event()

    async def append(self, record: Record) -> None:
        await super().append(record)
        if isinstance(record, OutcomeRecord):
            self.has_outcome.set()


class TalkingOn(Scripted):
    """Its first reply ends when the outcome of its call is journaled."""

    def __init__(self, replies: list[ScriptedReply], journal: AwaitedJournal) -> None:
        super().__init__(replies)
        self._journal = journal

    async def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        async for batch in super().stream(request, conversation):
            if isinstance(batch[0], StreamEnded):
                await self._journal.has_outcome.wait()
            yield batch


def step_of(record: Record) -> str:
    match record:
        case EventRecord():
            return type(record.event).__name__
        case DecisionRecord():
            return f"{record.decision}: {record.reason}"
        case StepsRecord():
            return " > ".join([name for name, _ in record.steps])
        case _:
            return type(record).__name__


@pytest.mark.covers("B-24", "A-12", "F-13", "F-14")
def test_the_eleven_steps_of_a_turn(tmp_path: Path) -> None:
    """Budget check and normalising are the request itself: reserved by the ledger, projected by the provider."""
    (tmp_path / "a.txt").write_text("hello")
    busy = Retry(Failure(Trouble.OVERLOADED, "busy", status=529), 1, 1)
    journal = AwaitedJournal()
    replies = [says(busy, "Let me look.", call("Read", "c1", file_path="a.txt")), says("It says hello.")]
    model = TalkingOn(replies, journal)

    async def main() -> str:
        kit = BuiltinTools(Workspace(str(tmp_path)), {})
        hands = Toolset(kit.offers(["Read"]), place=kit.place, gate=PermissionChecker(folders=(str(tmp_path),)))
        deps = Filling(model, hands, journal=journal)
        session = EngineSession(deps, Config(), side_jobs=deps.side_jobs, describe=deps.describe)
        session.shared.policy = EnginePolicy()
        async with session.run("What is in a.txt?") as run:
            async for _ in run:
                pass
        return run.result.text

    assert asyncio.run(main()) == "It says hello."
    kept = (EventRecord, RetryRecord, IntentRecord, DecisionRecord, StepsRecord, OutcomeRecord)
    assert [step_of(record) for record in journal.records if isinstance(record, kept)] == [
        "Submitted",
        "ContextReady",  # too full
        "Compacted",
        "ContextReady",
        "RetryRecord",  # the request is built and sent; the provider recovers below the loop
        "IntentRecord",  # the call is taken from the stream while it goes on
        "allow: it only reads, where reading is free",
        "find > validate > backfill > hooks before > permission > run > hooks after > size",
        "OutcomeRecord",
        "Replied",
        "ToolsDone",  # injected
        "ContextReady",  # and once more
        "Replied",
        "HooksDone",
    ]
