"""The outer layer: many runs over one history, an inbox, money and policy (A-15 to A-20, A-31, A-32)."""

from __future__ import annotations

import asyncio

import pytest
from core.play import SMALL, TINY, line
from msgspec.structs import replace

from engine.stage import CONFIG, Stage, assert_clean, assert_in_order
from mainspring.core.config import Config
from mainspring.core.effects import Priority
from mainspring.core.errors import UsageError
from mainspring.core.events import ContextReady
from mainspring.core.messages import Origin, result, user
from mainspring.core.money import least
from mainspring.core.reasons import AbortReason, Terminal
from mainspring.core.updates import CallStarted, Delta, Injected, Result, ToolSummary, Update
from mainspring.engine.deps import ToolOutcome
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import EnginePolicy, InboxPrompt, Ledger
from mainspring.sessions.records import CheckpointRecord, EventRecord, MemoryJournal, PolicyRecord, Record
from mainspring.testing import LeftOver, Pause, Stuck, World, call, says, virtually


async def to_the_end(run: Run) -> list[Update]:
    async with run:
        return [update async for update in run]


@pytest.mark.covers("A-15", "A-18", "A-20", "A-31", "A-32")
def test_many_runs_over_one_history() -> None:
    async def main() -> None:
        session = EngineSession(World([says("one"), says("two", call("Read", "r")), says("three")]), CONFIG)
        await to_the_end(session.run("first"))
        last = (await to_the_end(session.run("second")))[-1]
        assert [line(m) for m in session.state.history] == [
            "prompt: first",
            "assistant: one",
            "prompt: second",
            "assistant: two <r>",
            "result <r>: Read is done",
            "assistant: three",
        ]
        assert isinstance(last, Result)
        assert (last.turns, last.model_calls) == (2, 2)  # of this run alone
        assert_in_order(session)

    virtually(main())


@pytest.mark.covers("A-06", "P-09")
def test_nothing_happens_before_the_first_update_is_asked_for() -> None:
    async def main() -> None:
        world = World([says("never")])
        session = EngineSession(world, CONFIG)
        async with session.run("go") as run:
            await asyncio.sleep(1)
            with pytest.raises(UsageError, match="the run has no result"):
                assert run.result
        assert world.model.requests == []
        assert world.journal.records == []  # type: ignore[attr-defined]

    virtually(main())


def test_two_runs_at_once_are_refused() -> None:
    async def main() -> None:
        session = EngineSession(World([says("one"), says("two")]), CONFIG)
        async with session.run("go") as run, session.run("too") as second:
            await run.__anext__()
            with pytest.raises(UsageError, match="a run of this session is active"):
                await second.__anext__()
            async for _ in run:
                pass
        await to_the_end(session.run("now"))
        assert [line(m) for m in session.state.history][2:] == ["prompt: now", "assistant: two"]

    virtually(main())


def test_a_run_is_used_in_its_block_once_and_by_one_reader() -> None:
    async def main() -> None:
        session = EngineSession(World([says("one", pace=5)]), CONFIG)
        with pytest.raises(UsageError, match="a run is iterated inside its block"):
            await session.run("go").__anext__()
        run = session.run("go")
        async with run:
            await run.__anext__()
            reader = asyncio.get_running_loop().create_task(run.__anext__())
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="another task is already reading this run"):
                await run.__anext__()
            await reader
            async for _ in run:
                pass
            assert [update async for update in run] == []  # after the end there is nothing more
        with pytest.raises(UsageError, match="a run is entered once"):
            await run.__aenter__()
        with pytest.raises(UsageError, match="a run is iterated inside its block"):
            await run.__anext__()
        assert len(session.state.history) == 2

    virtually(main())


@pytest.mark.covers("A-03")
def test_a_slow_consumer_slows_the_loop_and_misses_nothing() -> None:
    turns = 40
    fast = Stage(World([*[says("x", call("Read", text=str(n))) for n in range(turns)], says("end")]))

    async def main() -> None:
        world = World([*[says("x", call("Read", text=str(n))) for n in range(turns)], says("end")])
        session = EngineSession(world, CONFIG)
        seen: list[Update] = []
        async with session.run("go") as run:
            async for update in run:
                seen.append(update)
                await asyncio.sleep(1)
                ahead = len(world.model.requests) - sum(type(u).__name__ == "RequestStarted" for u in seen)
                assert ahead <= 4  # sixteen updates are about three turns
        assert [type(update) for update in seen] == [type(update) for update in fast.updates]

    virtually(main())


# --- the inbox --------------------------------------------------------------------------------------


@pytest.mark.covers("A-16", "B-28")
def test_what_is_typed_during_a_turn_reaches_the_next_one_and_is_completed_with_the_run() -> None:
    async def main() -> None:
        world = World([says(call("Read", "r", ms=5)), says("seen")])
        session = EngineSession(world, CONFIG)
        updates: list[Update] = []
        async with session.run("go") as run:
            async for update in run:
                updates.append(update)
                if isinstance(update, CallStarted):
                    await session.submit("also look at b.py")
        assert [u.message.text for u in updates if isinstance(u, Injected)] == ["also look at b.py"]
        assert [line(m) for m in session.state.history][3] == "prompt: also look at b.py"
        assert [command.text for command in session.completed_commands] == ["also look at b.py"]
        assert session.shared.inbox.waiting() == ()
        assert_in_order(session)

    virtually(main())


@pytest.mark.covers("B-29", "N-07")
def test_a_later_command_waits_for_a_turn_that_sleeps() -> None:
    async def main() -> None:
        world = World([says(call("Read", "r")), says(call("Sleep", "s")), says("done")])
        session = EngineSession(world, CONFIG)
        await session.submit("no hurry", Priority.LATER)
        await session.submit("soon")
        updates = await to_the_end(session.run("go"))
        order = [
            u.message.text if isinstance(u, Injected) else u.call.id
            for u in updates
            if isinstance(u, Injected | CallStarted)
        ]
        assert order == ["soon", "r", "s", "no hurry"]

    virtually(main())


@pytest.mark.covers("A-17")
def test_a_command_is_never_lost_by_an_abort_and_not_completed_by_leaving() -> None:
    async def main() -> None:
        class SlowContext(World):
            async def shrink(self, state, queued):  # type: ignore[no-untyped-def]
                if len(self.model.requests) == 1:
                    await asyncio.sleep(10)
                return await super().shrink(state, queued)

        world = SlowContext([says(call("Read", "r")), says("later")])
        session = EngineSession(world, CONFIG)
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, CallStarted):
                    await session.submit("do not forget")
                    asyncio.get_running_loop().call_later(5, run.interrupt, AbortReason.SUBMIT)
        assert run.result.terminal is Terminal.ABORTED_STREAMING
        assert [c.text for c in session.shared.inbox.waiting()] == ["do not forget"]
        assert session.completed_commands == []
        await to_the_end(session.run(()))  # go on without a new prompt
        assert [line(m) for m in session.state.history][-2:] == ["prompt: do not forget", "assistant: later"]
        assert [c.text for c in session.completed_commands] == ["do not forget"]

    virtually(main())


@pytest.mark.covers("J-04", "J-05")
def test_a_command_that_cannot_wait_ends_the_run_and_comes_first() -> None:
    async def main() -> None:
        world = World([says("a long story ", Pause(60_000), "that is never told"), says("stopped")])
        session = EngineSession(world, CONFIG)
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, Delta) and not session.shared.inbox.waiting():
                    await session.submit("some day", Priority.LATER)
                    await session.submit("soon")
                    await session.submit("stop!", Priority.NOW)
        assert (run.result.terminal, run.result.cause) == (Terminal.ABORTED_STREAMING, "submit")
        assert [c.text for c in session.shared.inbox.waiting()] == ["stop!", "some day", "soon"]
        await to_the_end(session.run())
        assert [line(m) for m in session.state.history][-3:] == ["prompt: stop!", "prompt: soon", "assistant: stopped"]
        assert_in_order(session)

    virtually(main())


def test_an_inbox_that_overflows_says_so() -> None:
    async def main() -> None:
        session = EngineSession(World([]), CONFIG)
        for number in range(1_000):
            await session.submit(str(number))
        with pytest.raises(UsageError, match="1000 prompts are already queued: wait until a turn takes them"):
            await session.submit("one too many")

    virtually(main())


def test_the_inbox_keeps_the_order_of_arrival() -> None:
    from mainspring.engine.shared_state import Inbox

    inbox = Inbox()
    first, second, third = InboxPrompt("1", "a"), InboxPrompt("2", "b", Priority.LATER), InboxPrompt("3", "c")
    for command in (first, second, third):
        inbox.put(command)
    assert inbox.waiting() == (first, second, third)
    assert inbox.waiting(Priority.NEXT) == (first, third)
    inbox.take((first,))
    assert inbox.waiting() == (second, third)


# --- policy, money, checkpoints ---------------------------------------------------------------------


@pytest.mark.covers("B-03")
def test_a_change_of_model_takes_effect_at_the_next_call_and_is_journaled() -> None:
    async def main() -> None:
        world = World([says(call("Read", "r")), says("done")])
        session = EngineSession(world, CONFIG)
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, CallStarted):
                    await session.change(EnginePolicy(model=SMALL))
        assert [request.model for request in world.model.requests] == ["big", "small"]
        changes = [record for record in world.journal.records if isinstance(record, PolicyRecord)]  # type: ignore[attr-defined]
        assert [change.model for change in changes] == [SMALL]

    virtually(main())


@pytest.mark.covers("H-09")
def test_a_child_draws_on_its_parents_ledger() -> None:
    async def main() -> None:
        root = Ledger(limit=10**9)
        child = EngineSession(World([says("done")]), CONFIG, ledger=root.child())
        await to_the_end(child.run("go"))
        assert root.account.spent == child.shared.ledger.account.spent == 100 * 1_000 + 20 * 5_000
        assert root.account.reserved == 0
        broke = EngineSession(World([]), CONFIG, ledger=root.child(limit=1))
        last = (await to_the_end(broke.run("go")))[-1]
        assert isinstance(last, Result)
        assert last.cause == "budget_usd"

    virtually(main())


@pytest.mark.covers("H-09", "N-18")
def test_an_agent_that_a_tool_runs_draws_on_the_same_ledger() -> None:
    class WithAgents(World):
        async def run_tool(self, call, asking):  # type: ignore[no-untyped-def]
            child = EngineSession(World([says("found it")]), replace(CONFIG, depth=1), ledger=asking.ledger.child())
            last = (await to_the_end(child.run("look")))[-1]
            assert isinstance(last, Result)
            return ToolOutcome(result(call.id, last.text))

    async def main() -> None:
        ledger = Ledger(limit=10**9)
        agents = says(call("Agent", "a"), call("Agent", "b"))
        session = EngineSession(WithAgents([agents, says("done")], safe=("Agent",)), CONFIG, ledger=ledger)
        last = (await to_the_end(session.run("go")))[-1]
        assert isinstance(last, Result)
        assert [line(m) for m in session.state.history][2:4] == ["result <a>: found it", "result <b>: found it"]
        assert ledger.account.spent == 4 * (100 * 1_000 + 20 * 5_000)  # two calls of ours, one of each child
        assert last.cost == ledger.account.spent // 2  # a result tells its own run's cost

    virtually(main())


def test_a_limit_of_three_cents_is_spent_to_within_one_more_call() -> None:
    """What is left at the end is less than the next call may cost at the least (settled 22)."""

    async def main() -> None:
        ledger = Ledger(limit=30_000_000)
        turns = [says("on", call("Read", f"r{number}", path=f"{number}.py")) for number in range(200)]
        session = EngineSession(World(turns), replace(CONFIG, thinking=False), ledger=ledger)
        last = (await to_the_end(session.run("go")))[-1]
        assert isinstance(last, Result)
        assert (last.cause, ledger.account.reserved) == ("budget_usd", 0)
        left = ledger.funds
        assert left is not None
        assert 0 <= left < least(session.state.tokens, 256, CONFIG.model.price)
        assert last.model_calls == 143  # of $0.0002 each: $0.0286 of $0.03

    virtually(main())


def test_a_reservation_that_a_sibling_took_first_ends_the_run() -> None:
    """Between the decision and the call a sibling takes the rest, and spends it: the ledger has the last word."""
    root = Ledger(limit=400_000_000)
    sibling = root.child()

    class Racing(MemoryJournal):
        async def append(self, record: Record) -> None:
            await super().append(record)
            if isinstance(record, EventRecord) and isinstance(record.event, ContextReady):
                assert sibling.reserve(399_999_999)  # the balance in this event is out of date now
                asyncio.get_running_loop().call_later(1, sibling.settle, 399_999_999, 399_999_999)

    async def main() -> None:
        world = World([], journal=Racing())
        session = EngineSession(world, CONFIG, ledger=root.child())
        last = (await to_the_end(session.run("go")))[-1]
        assert isinstance(last, Result)
        assert last.cause == "budget_usd"
        assert last.detail.startswith("$0.0000 is left, and the next call may take $0.32")
        assert last.detail.endswith(" tokens of prompt, 64,000 of reply): raise the limit")
        assert world.model.requests == []

    virtually(main())


@pytest.mark.covers("L-03")
def test_a_checkpoint_every_fifty_turns_and_a_sync_before_the_result() -> None:
    class Synced(MemoryJournal):
        syncs = 0

        async def sync(self) -> None:
            self.syncs += 1

    async def main() -> None:
        journal = Synced()
        world = World([*[says(call("Read", text=str(n))) for n in range(120)], says("done")], journal=journal)
        session = EngineSession(world, CONFIG)
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, Result):
                    assert journal.syncs == 1
        points = [record.checkpoint.state.turn for record in journal.records if isinstance(record, CheckpointRecord)]
        assert points == [50, 100, 121]

    virtually(main())


# --- side jobs --------------------------------------------------------------------------------------


@pytest.mark.covers("B-30", "N-20")
def test_memory_is_looked_for_while_the_model_talks_and_used_only_if_it_is_there() -> None:
    async def main() -> None:
        class Remembering(World):
            takes = 0.0

            async def recall(self, state):  # type: ignore[no-untyped-def]
                await asyncio.sleep(self.takes)
                return (user("remember the style guide", Origin.ATTACHMENT),)

        async def turns(takes: float) -> list[str]:
            world = Remembering([says(call("Read", "r"), Pause(50)), says("done", pace=10)])
            world.takes = takes
            session = EngineSession(world, CONFIG, side_jobs=world.side_jobs)
            await to_the_end(session.run("go"))
            assert_clean()
            return [line(m) for m in session.state.history]

        assert "attachment: remember the style guide" in await turns(0.01)
        assert "attachment: remember the style guide" not in await turns(9.0)

    virtually(main())


def test_a_side_job_that_fails_is_silent() -> None:
    class Failing(World):
        async def recall(self, state):  # type: ignore[no-untyped-def]
            raise RuntimeError("no index")

        async def summarize_tools(self, calls, results):  # type: ignore[no-untyped-def]
            raise RuntimeError("no small model")

    stage = Stage(Failing([says(call("Read", "r"), pace=1), says("done", pace=1)]))
    assert stage.ending == ("completed", "end_turn")
    assert not any(isinstance(update, ToolSummary) for update in stage.updates)


def test_side_jobs_are_bounded_and_end_with_the_run() -> None:
    async def main() -> None:
        from mainspring.engine.tasks import BackgroundJobs, result_if_done

        jobs = BackgroundJobs(most=2)
        started = [jobs.start(asyncio.sleep(9, "slow")) for _ in range(3)]
        assert [task is not None for task in started] == [True, True, False]
        assert result_if_done(started[0]) is None
        assert result_if_done(None) is None
        await jobs.end()
        assert result_if_done(started[0]) is None
        quick = jobs.start(asyncio.sleep(0, "quick"))
        await asyncio.sleep(1)
        assert result_if_done(quick) == "quick"
        assert_clean()

    virtually(main())


# --- the scripted world itself ----------------------------------------------------------------------


def test_a_step_left_over_is_a_failure() -> None:
    async def main() -> None:
        world = World([says("one"), says("two")], hooks=[], answers=["yes"])
        await to_the_end(EngineSession(world, CONFIG).run("go"))
        with pytest.raises(LeftOver, match="1 replies, 1 answers"):
            world.check()

    virtually(main())


def test_asked_once_too_often_the_script_says_so() -> None:
    stage = Stage(World([says(call("Read", "r"))]))
    assert stage.result.detail == "the script has no more replies"
    assert stage.ending == ("model_error", "invalid_request")


def test_waiting_for_nothing_is_an_error_and_not_a_hang() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        virtually(main())


def test_no_deltas_for_those_who_take_none() -> None:
    async def main() -> None:
        world = World([says("a long enough text to have several deltas")])
        session = EngineSession(world, CONFIG)
        updates = await to_the_end(session.run("go", deltas=False))
        assert not any(isinstance(update, Delta) for update in updates)
        assert not any(type(record).__name__ == "DeltaRecord" for record in world.journal.records)  # type: ignore[attr-defined]

    virtually(main())


def test_a_session_goes_on_after_max_turns_with_a_higher_limit() -> None:
    async def main() -> None:
        world = World([says(call("Read", "r")), says("done")])
        session = EngineSession(world, Config(model=TINY, max_turns=1))
        first = (await to_the_end(session.run("go")))[-1]
        assert isinstance(first, Result)
        assert first.terminal is Terminal.MAX_TURNS
        last = (await to_the_end(session.run((), config=replace(session.config, max_turns=5))))[-1]
        assert isinstance(last, Result)
        assert last.text == "done"

    virtually(main())
