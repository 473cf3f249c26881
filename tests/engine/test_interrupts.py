"""Interrupt at every await; break, raise, cancel, crash anywhere: an end, a valid history, and nothing left over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from tiers import long

from engine.stage import CONFIG, WITH_FALLBACK, assert_clean, assert_in_order
from mainspring.context.attachments import PreparedContext
from mainspring.core.effects import Finish
from mainspring.core.events import StopDecision
from mainspring.core.pairing import find_unpaired_ids, open_calls
from mainspring.core.reasons import AbortReason, Terminal, Trouble
from mainspring.core.updates import BlockDone, BlockKind, CallDone, CallStarted, Delta, Result, Update
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.providers.base import BlockDelta
from mainspring.sessions.records import EventRecord, MemoryJournal, Record
from mainspring.testing import Pause, VirtualLoop, World, call, fails, says, virtually

ABORTS = (Terminal.ABORTED_STREAMING, Terminal.ABORTED_TOOLS)


class SlowJournal(MemoryJournal):
    """Suspends at each append, so that there is an await to interrupt at each record."""

    async def append(self, record: Record) -> None:
        await asyncio.sleep(0.001)
        await super().append(record)

    async def sync(self) -> None:
        await asyncio.sleep(0.001)


def representative(journal: MemoryJournal | None = None) -> World:
    """Streams, early and late tools, a question, a failure with fallback, compaction, a stop hook, a side job."""
    world = World(
        [
            says(
                "I look.",
                call("Read", "r1", ms=30),
                Pause(5),
                call("Grep", "g1", ms=3),
                call("Edit", "e1", ms=7),
                pace=2,
            ),
            fails(Trouble.OVERLOADED),
            says("On another model.", call("Bash", "b1", ask="May I?"), call("Bash", "b2", ms=4), pace=1),
            says("Done?", pace=1),
            says("Done.", pace=1),
        ],
        contexts=[PreparedContext(100), PreparedContext(170_000), *[PreparedContext(100)] * 5],
        hooks=[StopDecision(("not yet",)), StopDecision()],
        answers=["yes"],
        journal=journal,
    )
    world.summary_of_tools, world.summary_takes = "looked around", 3
    return world


def new_session(world: World) -> EngineSession:
    return EngineSession(world, WITH_FALLBACK, side_jobs=world.side_jobs)


class Interrupted:
    """One run of the representative world, with something done to it in a given round of the loop."""

    def __init__(self, number: int, act: Callable[[Run], None], journal: MemoryJournal | None = None) -> None:
        self.updates: list[Update] = []
        self.world = representative(journal)
        self.session = new_session(self.world)
        self.run: Run | None = None
        self.loop = VirtualLoop({number: lambda: act(self.run) if self.run else None})
        virtually(self.play(), self.loop)

    async def play(self) -> None:
        async with self.session.run("go") as self.run:
            async for update in self.run:
                self.updates.append(update)
        assert_clean()


def rounds(journal: MemoryJournal | None = None) -> int:
    whole = Interrupted(-1, lambda run: None, journal)
    assert isinstance(whole.updates[-1], Result)
    assert whole.updates[-1].terminal is Terminal.COMPLETED
    return whole.loop.rounds


@pytest.mark.covers("J-01", "J-02", "J-07", "C-04", "C-08", "F-20")
@pytest.mark.parametrize("journal", [MemoryJournal, long(SlowJournal)])
@pytest.mark.parametrize("reason", list(AbortReason))
def test_interrupt_at_every_await(journal: type[MemoryJournal], reason: AbortReason) -> None:
    number = rounds(journal())
    terminals: set[str] = set()
    for at in range(1, number):
        stopped = Interrupted(at, lambda run: run.interrupt(reason), journal())
        last = stopped.updates[-1]
        assert isinstance(last, Result), f"no result when interrupted in round {at}"
        assert last.terminal in (*ABORTS, Terminal.COMPLETED)
        if last.terminal in ABORTS:
            assert str(last.cause) == str(reason)
        assert_in_order(stopped.session)
        assert_shown_is_journaled(stopped)
        terminals.add(last.terminal)
    assert terminals == {*ABORTS, Terminal.COMPLETED}  # the last rounds come too late
    assert number > 50


def assert_shown_is_journaled(stopped: Interrupted) -> None:
    journal = stopped.session.deps.journal
    assert isinstance(journal, MemoryJournal)
    kept = repr(journal.records)
    for update in stopped.updates:
        match update:
            case BlockDone():
                assert repr(update.block) in kept
            case CallStarted():
                assert repr(update.call) in kept
            case CallDone():
                assert repr(update.result) in kept
            case _:
                pass


@pytest.mark.covers("A-07", "A-17")
def test_break_at_every_update() -> None:
    """Leaving early ends the run in order: the history is valid, and the next run can start."""
    total = len(Interrupted(-1, lambda run: None).updates)

    async def leave_after(number: int) -> None:
        session = new_session(representative())
        async with session.run("go") as run:
            seen = 0
            async for _ in run:
                seen += 1
                if seen == number:
                    break
        assert_clean()
        assert isinstance(session.state.waiting_for, Finish)
        assert_in_order(session)
        assert session.completed_commands == []

    for number in range(1, total + 1):
        virtually(leave_after(number))


def test_an_exception_in_the_consumer_is_the_consumers_at_every_update() -> None:
    async def raise_at(number: int) -> None:
        session = new_session(representative())
        with pytest.raises(ZeroDivisionError):
            async with session.run("go") as run:
                seen = 0
                async for _ in run:
                    seen += 1
                    if seen == number:
                        raise ZeroDivisionError
        assert_clean()
        assert_in_order(session)

    for number in range(1, len(Interrupted(-1, lambda run: None).updates) + 1):
        virtually(raise_at(number))


def test_cancelling_the_consumer_at_every_await_is_never_swallowed() -> None:
    """Known wrong in the sketch (a): the outer cancel was eaten."""
    cancelled = sum(cancel_consumer(at) for at in range(2, rounds()))
    assert cancelled > 50


@pytest.mark.parametrize("again", [long(1), 2, long(3), long(5)])
def test_an_impatient_owner_may_cancel_twice(again: int) -> None:
    """The second cancellation ends the driver itself, in the middle of its orderly end; a third one changes nothing."""
    cancelled = sum(cancel_consumer(at, at + again) for at in range(2, rounds()))
    assert cancelled > 50
    cancelled = sum(cancel_consumer(*range(at, at + 6 * again, again)) for at in range(2, rounds()))
    assert cancelled > 50


def cancel_consumer(*at: int) -> bool:
    """Cancel the consumer in some rounds of the loop: if it was still alive, it must end as cancelled."""
    session = new_session(representative())
    consumer: list[asyncio.Task[None]] = []
    asked: list[bool] = []

    async def consume() -> None:
        async with session.run("go") as run:
            async for _ in run:
                pass

    async def main() -> None:
        consumer.append(asyncio.get_running_loop().create_task(consume()))
        await asyncio.wait(consumer)
        assert_clean()

    def cancel() -> None:
        asked.extend(task.cancel() for task in consumer)

    virtually(main(), VirtualLoop(dict.fromkeys(at, cancel)))
    assert consumer[0].cancelled() is any(asked)
    assert (
        find_unpaired_ids(session.state.history) == ()
        or session._salvaged[0] is not None
        or open_calls(session.state.history)
    )
    return consumer[0].cancelled()


def test_a_full_channel_then_interrupt_then_break() -> None:
    """Known wrong in the sketch (a): `open_run` never exited."""

    async def main() -> None:
        session = EngineSession(World([says("x" * 4_000, call("Read", "r", ms=10)), says("never")]), CONFIG)
        async with session.run("go") as run:
            await run.__anext__()
            await asyncio.sleep(1)  # the producer has long been waiting for room
            run.interrupt()
            await asyncio.sleep(1)
        assert_clean()
        assert_in_order(session)
        assert run.result.terminal is Terminal.ABORTED_TOOLS

    virtually(main())


def test_abort_while_streaming_keeps_shown_text_and_finished_early_results() -> None:
    """Known wrong in the sketch (c)."""

    async def main() -> None:
        world = World(
            [
                says(
                    "Let me look.",
                    call("Read", "r", ms=5),
                    Pause(20),
                    BlockDelta(BlockKind.TEXT, "And then I "),
                    Pause(1_000),
                    "never",
                )
            ]
        )
        session = EngineSession(world, CONFIG)
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, Delta) and update.text.startswith("And"):
                    run.interrupt()
        texts = [message.text for message in session.state.history]
        assert texts[1:] == ["Let me look.And then I ", "Read is done", "[Request interrupted by user]"]
        assert run.result.estimated
        assert_in_order(session)

    virtually(main())


def test_a_budget_end_uses_the_result_of_a_tool_that_ran() -> None:
    """Known wrong in the sketch (d)."""
    from mainspring.core.money import Usage
    from mainspring.engine.shared_state import Ledger

    async def main() -> None:
        reply = says(call("Read", "r", ms=5), Pause(50), call("Edit", "e"), usage=Usage(input=100, output=2_000))
        ledger = Ledger(limit=100 * 1_000 + 2_000 * 5_000)  # exactly what the first call will have cost
        world = World([reply], contexts=[PreparedContext(0)])
        session = EngineSession(world, CONFIG, ledger=ledger)
        async with session.run("go") as run:
            async for _ in run:
                pass
        assert run.result.cause == "budget_usd"
        results = [m for m in session.state.history if hasattr(m, "call_id")]
        assert [(r.call_id, r.text, r.synthetic) for r in results] == [  # type: ignore[union-attr]
            ("r", "Read is done", False),
            ("e", "The run ended before this call was started. It had no effect.", True),
        ]

    virtually(main())


# --- crashes ----------------------------------------------------------------------------------------


class Broken(Exception):
    pass


class BrokenJournal(MemoryJournal):
    """Fails from the n-th record on, as a disk would."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.good = good

    async def append(self, record: Record) -> None:
        if len(self.records) >= self.good:
            raise Broken("no space left")
        await super().append(record)


def test_a_journal_that_fails_at_any_record_is_raised_and_nothing_goes_on() -> None:
    whole = MemoryJournal()
    Interrupted(-1, lambda run: None, whole)
    for good in range(len(whole.records)):
        journal = BrokenJournal(good)
        shown: list[Update] = []

        async def main(journal: BrokenJournal = journal, shown: list[Update] = shown) -> None:
            session = new_session(representative(journal))
            with pytest.raises(Broken):
                async with session.run("go") as run:
                    async for update in run:
                        shown.append(update)
            assert_clean()

        virtually(main())
        assert not any(isinstance(update, Result) for update in shown)


@pytest.mark.parametrize("where", ["shrink", "summarize", "stop_hooks", "stream"])
def test_a_crash_anywhere_is_raised_to_the_consumer_with_its_traceback(where: str) -> None:
    class Crashing(World):
        pass

    def crash(*_: object, **__: object) -> object:
        raise Broken(where)

    setattr(Crashing, where, crash)

    async def main() -> None:
        world = Crashing([says("x", call("Read", "r", ms=5)), says("done")], contexts=[])
        session = EngineSession(world, CONFIG)
        if where == "summarize":
            world.contexts = [PreparedContext(170_000)]
        with pytest.raises(Broken) as caught:
            async with session.run("go") as run:
                async for _ in run:
                    pass
        assert any(entry.name == "crash" for entry in caught.traceback)
        assert_clean()
        # the session is not lost: what was left open is closed when the next run begins
        again = EngineSession(World([says("fine")]), CONFIG, state=session.state)
        async with again.run("go on") as run:
            async for _ in run:
                pass
        assert find_unpaired_ids(again.state.history) == ()

    virtually(main())


def test_a_crash_is_raised_also_to_one_who_left_early() -> None:
    async def main() -> None:
        journal = BrokenJournal(3)
        session = EngineSession(World([says("x", call("Read", "r"), pace=5)], journal=journal), CONFIG)
        with pytest.raises(Broken):
            async with session.run("go") as run:
                async for _ in run:
                    await asyncio.sleep(1)
                    break
        assert_clean()

    virtually(main())


def test_a_tool_that_ignores_cancellation_does_not_hold_up_the_end() -> None:
    class Stubborn(World):
        async def _act(self, call, asking):  # type: ignore[no-untyped-def]
            while True:
                try:
                    await asyncio.sleep(3_600)
                except asyncio.CancelledError:
                    if self.over:
                        raise
                    continue

        over = False

    async def main() -> None:
        world = Stubborn([says(call("Read", "r"))])
        session = EngineSession(world, CONFIG)
        loop = asyncio.get_running_loop()
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, CallStarted):
                    begun = loop.time()
                    run.interrupt()
        assert loop.time() - begun == pytest.approx(2.0)
        assert "may still be running" in session.state.history[2].text
        assert find_unpaired_ids(session.state.history) == ()
        world.over = True
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            await asyncio.wait({task})

    virtually(main())


def test_a_model_call_that_ignores_its_interrupt_is_abandoned() -> None:
    """Another task ends the run. What the call still yields changes nothing."""

    class Stubborn(World):
        over = False

        async def stream(self, request, state, policy):  # type: ignore[no-untyped-def]
            yield (BlockDelta(BlockKind.TEXT, "Let me "),)
            while not self.over:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(3_600)
            yield (BlockDelta(BlockKind.TEXT, "think."),)

    async def main() -> None:
        world = Stubborn([])
        session = EngineSession(world, CONFIG)
        loop = asyncio.get_running_loop()
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, Delta):
                    begun = loop.time()
                    run.interrupt()
        assert loop.time() - begun == pytest.approx(2.0)
        assert run.result.terminal is Terminal.ABORTED_STREAMING
        assert [m.text for m in session.state.history] == ["go", "Let me ", "[Request interrupted by user]"]
        before, records = session.state, len(world.journal.records)  # type: ignore[attr-defined]
        world.over = True
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(left) == 1
        await asyncio.wait(left)
        assert session.state is before
        assert len(world.journal.records) == records  # type: ignore[attr-defined]
        assert_clean()

    virtually(main())


def test_an_interrupt_by_the_work_itself_hits_neither_its_event_nor_what_comes_next() -> None:
    class Interrupting(World):
        run: Run

        async def shrink(self, state, queued):  # type: ignore[no-untyped-def]
            self.run.interrupt()
            return await super().shrink(state, queued)

    async def main() -> None:
        world = Interrupting([says("never")], journal=SlowJournal())
        session = EngineSession(world, CONFIG)
        async with session.run("go") as world.run:
            async for _ in world.run:
                pass
        assert world.run.result.terminal is Terminal.ABORTED_STREAMING
        assert_in_order(session)
        assert_clean()

    virtually(main())


def test_events_are_journaled_before_they_are_acted_on() -> None:
    """Each request, each tool and each shown update finds its cause in the journal already."""

    class Checking(World):
        async def run_tool(self, call, asking):  # type: ignore[no-untyped-def]
            records = self.journal.records  # type: ignore[attr-defined]
            assert any(getattr(record, "call", None) == call for record in records)
            return await super().run_tool(call, asking)

    async def main() -> None:
        world = Checking([says(call("Read", "r")), says("done")])
        session = EngineSession(world, CONFIG)
        async with session.run("go") as run:
            async for _ in run:
                assert any(isinstance(record, EventRecord) for record in world.journal.records)  # type: ignore[attr-defined]

    virtually(main())
