"""A prompt that is withdrawn at any round of the event loop: it never reaches a request, and none is lost."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.stage import CONFIG
from mainspring.core.messages import User
from mainspring.core.state import State
from mainspring.engine.session import EngineSession
from mainspring.sessions.records import CommandRecord, CommandState, MemoryJournal
from mainspring.testing import World, call, says, virtually
from mainspring.testing.clock import VirtualLoop

NOTE = "also look at b.py"


class Watched(World):
    """Notes the prompts of each request, and prepares each one in several rounds."""

    def __init__(self, journal: MemoryJournal) -> None:
        super().__init__([says(call("Read", str(n), ms=1)) for n in range(4)] + [says("end")] * 2, journal=journal)
        self.sent: list[list[str]] = []

    async def shrink(self, state, queued):  # type: ignore[no-untyped-def]
        for _ in range(3):
            await asyncio.sleep(0)
        return await super().shrink(state, queued)

    def stream(self, request, state: State, policy):  # type: ignore[no-untyped-def]
        self.sent.append([message.text for message in state.history if isinstance(message, User)])
        return super().stream(request, state, policy)


@settings(max_examples=150)
@given(begins=st.integers(1, 60), later=st.integers(1, 40), interrupts=st.none() | st.integers(0, 40))
def test_withdrawn_at_any_round(begins: int, later: int, interrupts: int | None) -> None:
    journal = MemoryJournal()
    world = Watched(journal)
    session = EngineSession(world, CONFIG)
    taken_back: list[bool] = []

    begin, end = asyncio.Event(), asyncio.Event()
    loop = VirtualLoop({begins: begin.set, begins + later: end.set})

    async def write() -> None:
        """Submits at one round and withdraws some rounds later."""
        await begin.wait()
        command = await session.submit(NOTE)
        await end.wait()
        taken_back.append(await session.withdraw(command))

    async def main() -> None:
        writing = asyncio.ensure_future(write())
        async with session.run("go", deltas=False) as run:
            async for _ in run:
                if interrupts is not None and loop.rounds >= begins + interrupts:
                    run.interrupt()
        begin.set()  # the run may have been shorter
        end.set()
        await writing
        if session.shared.inbox.waiting():
            async with session.run(deltas=False) as run:
                async for _ in run:
                    pass

    virtually(main(), loop)
    states = [record.state for record in journal.records if isinstance(record, CommandRecord)]
    if taken_back == [True]:
        assert not any(NOTE in prompts for prompts in world.sent)
        assert states == [CommandState.QUEUED, CommandState.WITHDRAWN]
    else:
        assert [message.text for message in session.state.history if isinstance(message, User)].count(NOTE) == 1
        assert CommandState.WITHDRAWN not in states
