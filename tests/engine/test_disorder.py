"""What a review with fresh eyes broke: races, crashes and misuse, each with the smallest world that shows it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator

import pytest
from core.play import line
from msgspec.structs import replace

from engine.stage import CONFIG, Stage, assert_clean, assert_in_order
from mainspring.context.attachments import PreparedContext
from mainspring.core.config import Siblings
from mainspring.core.errors import MainspringError
from mainspring.core.events import ContextReady, HooksDone, Replied, StopDecision, Submitted, ToolsDone
from mainspring.core.history import History
from mainspring.core.messages import (
    Assistant,
    RedactedThinking,
    ServerBlock,
    Stop,
    Text,
    Thinking,
    ToolCall,
    result,
    user,
)
from mainspring.core.money import Usage
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.reasons import AbortReason, Failure, Terminal, Trouble
from mainspring.core.state import State
from mainspring.core.updates import (
    Appended,
    BlockDone,
    BlockKind,
    CallDone,
    CallStarted,
    Delta,
    Injected,
    QuestionAsked,
    RequestStarted,
    Result,
    Retrying,
    ToolSummary,
    Update,
)
from mainspring.engine.deps import ToolOutcome
from mainspring.engine.driver import Driver
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import EnginePolicy, Ledger, SharedState
from mainspring.engine.tasks import Channel
from mainspring.providers.base import Batch, BlockDelta, BlockFinished, Retry, StreamEnded, StreamStarted
from mainspring.sessions.records import (
    BlockRecord,
    CommandRecord,
    DeltaRecord,
    EventRecord,
    IntentRecord,
    MemoryJournal,
    NoteRecord,
    OutcomeRecord,
    Record,
    RetryRecord,
    SaidRecord,
    ToolSummaryRecord,
)
from mainspring.testing import Break, Pause, World, call, fails, says, virtually


class Slow(MemoryJournal):
    """Takes a while over the records of one kind."""

    def __init__(self, kind: type[Record], seconds: float) -> None:
        super().__init__()
        self.kind, self.seconds = kind, seconds

    async def append(self, record: Record) -> None:
        if isinstance(record, self.kind):
            await asyncio.sleep(self.seconds)
        await super().append(record)

    def kept(self, kind: type[Record]) -> list[Record]:
        return [record for record in self.records if isinstance(record, kind)]


def outcomes(journal: MemoryJournal) -> Counter[str]:
    return Counter(record.result.call_id for record in journal.records if isinstance(record, OutcomeRecord))


# --- one outcome for each call ----------------------------------------------------------------------


@pytest.mark.covers("F-15", "F-20", "F-06")
def test_cancelled_siblings_are_recorded_once_and_never_run() -> None:
    journal = Slow(OutcomeRecord, 0.005)
    safe = ("Bash", "Edit")
    calls = [call("Bash", f"b{n}", ms=1, fails=n < 3) for n in range(1, 13)]
    world = World([says(*calls), says("Done.")], safe=safe, journal=journal)
    stage = Stage(world, config=replace(CONFIG, siblings=Siblings.CASCADE))
    ran = [id for id, _, _ in world.ran]
    assert len(ran) == len(set(ran)) == 10  # as many as may run at once
    assert all(times == 1 for times in outcomes(journal).values())
    assert [id for id in ("b11", "b12") if id in ran] == []
    assert_in_order(stage.session)


def test_an_outcome_that_is_being_written_is_waited_for() -> None:
    async def main() -> None:
        journal = Slow(OutcomeRecord, 3.0)
        session = EngineSession(World([says(call("Edit", "e", text="file written"))], journal=journal), CONFIG)
        loop = asyncio.get_running_loop()
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, CallStarted):
                    loop.call_later(0.5, run.interrupt)
        assert [line(m) for m in session.state.history][2] == "result <e>: file written"
        assert outcomes(journal) == {"e": 1}

    virtually(main())


def test_a_tool_that_ends_after_it_was_given_up_leaves_a_note_and_nothing_else() -> None:
    class Stubborn(World):
        async def _act(self, call, asking):  # type: ignore[no-untyped-def]
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                await asyncio.sleep(3)
            return await super()._act(call, asking)

    async def main() -> None:
        journal = Slow(OutcomeRecord, 0)
        session = EngineSession(Stubborn([says(call("Read", "r", text="really done"))], journal=journal), CONFIG)
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, CallStarted):
                    run.interrupt()
        await asyncio.sleep(10)
        assert outcomes(journal) == {"r": 1}
        notes = [record.text for record in journal.records if isinstance(record, NoteRecord)]
        assert notes == ["'r' ended after it was given up: really done"]
        assert_clean()

    virtually(main())


def test_a_tool_that_cancels_itself_has_crashed() -> None:
    class Odd(World):
        async def _act(self, call, asking):  # type: ignore[no-untyped-def]
            raise asyncio.CancelledError("my own affair")

    stage = Stage(Odd([says(call("Read", "r")), says("Done.")]))
    assert stage.said[1] == "result <r>: The tool itself failed: CancelledError('my own affair')"


@pytest.mark.parametrize("nonsense", [None, 5, "text"])
def test_a_tool_that_returns_nonsense_has_crashed(nonsense: object) -> None:
    class Odd(World):
        async def run_tool(self, call, asking):  # type: ignore[no-untyped-def]
            return nonsense

    stage = Stage(Odd([says(call("Read", "r")), says("Done.")]))
    assert stage.said[1].startswith("result <r>: The tool itself failed: AttributeError")


def test_a_stop_without_a_reason_is_a_stop() -> None:
    stage = Stage(World([says(call("Read", "r", stop=""), call("Read", "s", ms=5), call("Edit", "e"))]))
    assert stage.ending == ("hook_stopped", "hook")
    assert "e" not in [id for id, _, _ in stage.world.ran]


# --- questions are withdrawn ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        says(call("Read", "q", ask="May I?"), Pause(5), stop=Stop.REFUSAL),
        says(call("Read", "q", ask="May I?"), call("Read", "s", ms=5, stop="denied")),
    ],
    ids=["a refusal", "a hook that stops the run"],
)
def test_an_end_withdraws_the_questions_that_are_open(reply: object) -> None:
    """Settled 11 and 12."""
    stage = Stage(World([reply]))  # type: ignore[list-item]
    assert any(isinstance(update, QuestionAsked) for update in stage.updates)
    assert stage.result.duration < 100
    assert find_unpaired_ids(stage.session.state.history) == ()


# --- a run that broke off ---------------------------------------------------------------------------


class Crash(Exception):
    pass


class CrashOnce(World):
    """Its stop hooks, or its second request, break once."""

    crashed = False

    async def stop_hooks(self, state, effect):  # type: ignore[no-untyped-def]
        if not self.crashed:
            self.crashed = True
            raise Crash
        return StopDecision()


def test_a_session_that_crashed_goes_on_and_replays() -> None:
    async def main() -> None:
        session = EngineSession(CrashOnce([says("one"), says("two")]), CONFIG)
        with pytest.raises(Crash):
            async with session.run("go") as run:
                async for _ in run:
                    pass
        async with session.run("again") as run:
            async for _ in run:
                pass
        assert run.result.text == "two"
        assert_in_order(session)

    virtually(main())


async def broken(stream: AsyncGenerator[Batch, None]) -> AsyncGenerator[Batch, None]:
    async for batch in stream:
        if isinstance(batch[0], StreamEnded):
            raise Crash
        yield batch


def test_what_was_shown_before_a_crash_is_in_the_history_of_the_next_run() -> None:
    """The reply was about to end, one tool was done and one ran, when the provider broke."""

    class Breaking(World):
        def stream(self, request, state, policy):  # type: ignore[no-untyped-def]
            stream = super().stream(request, state, policy)
            return broken(stream) if not self.model.requests else stream

    async def main() -> None:
        first = says("Look.", call("Read", "quick", ms=1), call("Read", "slow", ms=500), Pause(20))
        session = EngineSession(Breaking([first, says("on")]), CONFIG)
        with pytest.raises(Crash):
            await to_the_end(session)
        await to_the_end(session)
        said = [line(m) for m in session.state.history]
        assert said[1:3] == ["assistant: Look. <quick> <slow>", "result <quick>: Read is done"]
        assert said[3].startswith("result <slow>: The call was interrupted while it ran")
        assert said[4:] == ["prompt: go", "assistant: on"]
        assert_in_order(session)

    virtually(main())


async def to_the_end(session: EngineSession) -> list[Update]:
    async with session.run("go") as run:
        return [update async for update in run]


def test_a_journal_failure_ends_everything_at_once() -> None:
    class Failing(MemoryJournal):
        async def append(self, record: Record) -> None:
            if isinstance(record, OutcomeRecord):
                raise Crash
            await super().append(record)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        hour = says(call("Read", "a", ms=5), call("Read", "b", ms=3_600_000), call("Read", "c", ask="May I?"))
        session = EngineSession(World([hour], journal=Failing()), CONFIG)
        with pytest.raises(Crash):
            await to_the_end(session)
        assert loop.time() < 1
        assert_clean()

    virtually(main())


# --- things that do not listen ----------------------------------------------------------------------


class Deaf(World):
    """Its hooks and its memory do not hear that they are cancelled."""

    async def stop_hooks(self, state, effect):  # type: ignore[no-untyped-def]
        await deafly(3_600)
        return StopDecision()

    async def recall(self, state):  # type: ignore[no-untyped-def]
        await deafly(3_600)
        return ()


async def deafly(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        try:
            await asyncio.sleep(until - loop.time())
        except asyncio.CancelledError:
            continue


def test_an_interrupt_does_not_wait_for_ever() -> None:
    async def main() -> None:
        world = Deaf([says("done")])
        session = EngineSession(world, CONFIG, side_jobs=world.side_jobs)
        loop = asyncio.get_running_loop()
        run = session.run("go")
        loop.call_later(1, run.interrupt)
        async with run:
            async for _ in run:
                pass
        assert run.result.terminal is Terminal.ABORTED_STREAMING
        assert loop.time() == pytest.approx(5)  # a second, the grace of the hook, the grace of the side job
        assert_in_order(session)
        await asyncio.sleep(7_200)
        assert_clean()

    virtually(main())


def test_a_dependency_that_cancels_itself_is_a_crash_and_not_our_cancellation() -> None:
    class Odd(World):
        async def stop_hooks(self, state, effect):  # type: ignore[no-untyped-def]
            raise asyncio.CancelledError

    async def main() -> None:
        session = EngineSession(Odd([says("done")]), CONFIG)
        with pytest.raises(MainspringError, match="'RunStopHooks' was cancelled from within"):
            await to_the_end(session)
        assert_clean()

    virtually(main())


def test_a_child_stopped_by_its_parent_says_so_and_has_time_to() -> None:
    """A tool runs a session of its own; the parent is interrupted while the child's tool does not listen."""
    children: list[EngineSession] = []
    inner = says(call("Read", "inner"))

    class Parent(World):
        async def run_tool(self, call, asking):  # type: ignore[no-untyped-def]
            child = EngineSession(DeafTool([inner]), replace(CONFIG, depth=1))
            children.append(child)
            await to_the_end(child)
            raise AssertionError("the parent was interrupted before this")

    class DeafTool(World):
        async def _act(self, call, asking):  # type: ignore[no-untyped-def]
            await deafly(3_600)
            return await super()._act(call, asking)

    async def main() -> None:
        session = EngineSession(Parent([says(call("Agent", "a"))]), CONFIG)
        loop = asyncio.get_running_loop()
        run = session.run("go")
        loop.call_later(1, run.interrupt)
        async with run:
            async for _ in run:
                pass
        (child,) = children
        assert line(child.state.history[-1]) == "interruption: [Tool use interrupted by the parent agent]"
        assert line(session.state.history[2]).startswith("result <a>: The call was interrupted while it ran")
        await asyncio.sleep(7_200)
        assert_clean()

    virtually(main())


# --- what was shown ---------------------------------------------------------------------------------


def test_commands_are_shown_only_with_the_context_that_holds_them() -> None:
    """Interrupted at every round: a command is in the history if and only if it was shown, and never twice."""

    async def main(at: float) -> None:
        session = EngineSession(World([says("done", pace=1)], journal=Slow(SaidRecord, 0.001)), CONFIG)
        await session.submit("first")
        await session.submit("second")
        shown: list[str] = []
        run = session.run("go")
        asyncio.get_running_loop().call_later(at, run.interrupt)
        async with run:
            async for update in run:
                if isinstance(update, Injected):
                    shown.append(update.message.text)
        said = [line(m) for m in session.state.history]
        waiting = [command.text for command in session.shared.inbox.waiting()]
        assert [words for words in ("first", "second") if f"prompt: {words}" in said] == shown
        assert sorted(shown + waiting) == ["first", "second"]
        assert_in_order(session)

    for step in range(40):
        virtually(main(step / 4_000))


def test_a_command_is_withdrawn_or_said_and_never_both() -> None:
    """Withdrawn at every moment of a run, beside another one that stays."""
    outcomes: set[bool] = set()

    async def main(at: float) -> None:
        world = World([says("done", pace=1), says("more", pace=1)], journal=Slow(SaidRecord, 0.001))
        session = EngineSession(world, CONFIG)
        await session.submit("stays")
        command = await session.submit("goes")
        withdrawn: list[bool] = []

        async def withdraw() -> None:
            await asyncio.sleep(at)
            withdrawn.append(await session.withdraw(command))

        withdrawing = asyncio.ensure_future(withdraw())
        async with session.run("go") as run:
            async for _ in run:
                pass
        await withdrawing
        said = [line(m) for m in session.state.history]
        assert ("prompt: goes" in said) is not withdrawn[0]
        assert "prompt: stays" in said
        assert session.shared.inbox.waiting() == ()
        assert not await session.withdraw(command), "once"
        outcomes.add(withdrawn[0])
        assert_in_order(session)

    for step in range(40):
        virtually(main(step / 4_000))
    assert outcomes == {True, False}


def test_one_read_may_span_blocks() -> None:
    async def one_read() -> AsyncGenerator[Batch, None]:
        thinking, text = BlockFinished(Thinking("hmm", "s")), BlockFinished(Text("Hello"))
        yield (
            StreamStarted(),
            BlockDelta(BlockKind.THINKING, "hmm"),
            thinking,
            BlockDelta(BlockKind.TEXT, "Hello"),
            text,
            StreamEnded(),
        )

    class OneRead(World):
        def stream(self, request, state, policy):  # type: ignore[no-untyped-def]
            return one_read()

    stage = Stage(OneRead([]))
    shown = [(u.index, u.kind, u.text) for u in stage.updates if isinstance(u, Delta)]
    assert shown == [(0, "thinking", "hmm"), (1, "text", "Hello")]
    records = [r for r in stage.world.journal.records if isinstance(r, DeltaRecord)]  # type: ignore[attr-defined]
    assert [r.deltas for r in records] == [tuple(u for u in stage.updates if isinstance(u, Delta))]


def test_text_after_a_finished_call_survives_a_cut() -> None:
    cut = says(
        "Look.",
        call("Read", "r"),
        Pause(5),
        BlockDelta(BlockKind.TEXT, "This was shown"),
        Break(Failure(Trouble.NETWORK)),
    )
    stage = Stage(World([cut, says("Done.")]))
    reply = stage.session.state.history[1]
    assert isinstance(reply, Assistant)
    assert reply.blocks[-1] == Text("This was shown")


class Witness(Channel[Update]):
    """Looks into the journal whenever something is shown: it must be there already."""

    def __init__(self, journal: MemoryJournal) -> None:
        super().__init__(capacity=10_000)
        self.journal = journal
        self.kinds: set[str] = set()

    def push(self, item: Update) -> None:
        records = self.journal.records
        last_event = next((r for r in reversed(records) if isinstance(r, EventRecord)), None)
        match item:
            case Delta():
                assert any(isinstance(r, DeltaRecord) and item in r.deltas for r in records)
            case BlockDone():
                assert any(isinstance(r, BlockRecord) and r.block == item.block for r in records)
            case CallStarted():
                assert any(isinstance(r, IntentRecord) and r.call == item.call for r in records)
            case CallDone():
                assert any(isinstance(r, OutcomeRecord) and r.result == item.result for r in records)
            case Appended() | Injected():
                assert any(isinstance(r, SaidRecord) and r.message == item.message for r in records)
            case QuestionAsked():
                assert any(getattr(r, "id", None) == item.id for r in records)
            case Retrying():
                assert any(isinstance(r, RetryRecord) and r.failure == item.failure for r in records)
            case ToolSummary():
                assert any(isinstance(r, ToolSummaryRecord) and r.text == item.text for r in records)
            case _:
                assert last_event is not None  # what the core decided follows from an event that is written down
        self.kinds.add(type(item).__name__)
        super().push(item)


def test_everything_is_journaled_before_it_is_shown() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        world = World(
            [
                says(
                    Retry(Failure(Trouble.OVERLOADED), 1, 5),
                    Pause(5),
                    "I look.",
                    call("Read", "r", ask="May I?"),
                    pace=1,
                ),
                fails(Trouble.NETWORK, "", "half"),
                says("Done?", pace=9),
                says("Done.", pace=9),
            ],
            answers=["yes"],
            hooks=[StopDecision(("no",))],
            journal=journal,
        )
        world.summary_of_tools, world.summary_takes = "looked", 3
        shared = SharedState(History())
        session = EngineSession(world, CONFIG)
        session.shared = shared
        await session.submit("and this")
        witness = Witness(journal)
        driver = Driver(State(History()), CONFIG, world, shared, witness, side_jobs=world.side_jobs)
        await driver.run(Submitted((replace(user("go"), id="p"),)))
        assert driver.result is not None
        assert witness.kinds >= {
            *(
                "Delta",
                "BlockDone",
                "CallStarted",
                "CallDone",
                "QuestionAsked",
                "QuestionAnswered",
                "Injected",
                "Retrying",
            ),
            *("ToolSummary", "RequestStarted", "Appended", "Tombstone", "ReplyDone", "Result"),
        }
        states = [r.state for r in journal.records if isinstance(r, CommandRecord)]
        assert states == ["queued", "started", "completed"]

    virtually(main())


# --- ends that come at the same time ----------------------------------------------------------------


def test_the_first_reason_counts() -> None:
    async def main() -> None:
        session = EngineSession(World([says("x", Pause(1_000), "y")]), CONFIG)
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, RequestStarted):
                    run.interrupt(AbortReason.TIMEOUT)
                    run.interrupt(AbortReason.HARD)
        assert run.result.cause == "timeout"

    virtually(main())


def test_leaving_at_the_result_completes_the_commands_and_a_failing_sync_does_not() -> None:
    class NoSync(MemoryJournal):
        async def sync(self) -> None:
            raise Crash

    async def main() -> None:
        world = World([says("done")])
        world.summary_takes = 50
        session = EngineSession(world, CONFIG, side_jobs=world.side_jobs)
        await session.submit("cmd")
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, Result):
                    break
        assert [c.text for c in session.completed_commands] == ["cmd"]
        broken = EngineSession(World([says("done")], journal=NoSync()), CONFIG)
        await broken.submit("cmd")
        with pytest.raises(Crash):
            await to_the_end(broken)
        assert broken.completed_commands == []

    virtually(main())


def test_an_interrupted_request_is_paid_for_by_estimate() -> None:
    """Before anything of a reply came: see `test_cut_off.py`."""

    async def main() -> None:
        ledger = Ledger(limit=10**12)
        silent = says(StreamStarted(Usage(input=100_000)), Pause(10_000), "never")
        session = EngineSession(World([silent], contexts=[PreparedContext(100_000)]), CONFIG, ledger=ledger)
        run = session.run("go")
        asyncio.get_running_loop().call_later(5, run.interrupt)
        async with run:
            async for _ in run:
                pass
        assert run.result.estimated
        assert run.result.cost == ledger.account.spent == 100_000 * 1_000

    virtually(main())


def test_going_back_to_the_configured_model() -> None:
    async def main() -> None:
        world = World([says("a"), says("b"), says("c")])
        session = EngineSession(world, CONFIG)
        await to_the_end(session)
        await session.change(EnginePolicy(model=replace(CONFIG.model, name="other")))
        await to_the_end(session)
        await session.change(EnginePolicy())
        await to_the_end(session)
        assert [request.model for request in world.model.requests] == ["big", "other", "big"]

    virtually(main())


def test_the_policy_reaches_the_model_and_the_tools() -> None:
    seen: list[object] = []

    class Asking(World):
        def stream(self, request, state, policy):  # type: ignore[no-untyped-def]
            seen.append(policy.tools)
            return super().stream(request, state, policy)

        async def run_tool(self, call, asking):  # type: ignore[no-untyped-def]
            seen.append(asking.policy.mode)
            return await super().run_tool(call, asking)

    async def main() -> None:
        session = EngineSession(Asking([says(call("Read", "r")), says("done")]), CONFIG)
        await session.change(EnginePolicy(mode="plan", tools=("Read",)))
        await to_the_end(session)
        assert seen == [("Read",), "plan", ("Read",)]

    virtually(main())


def test_a_crash_while_the_consumer_raises_is_not_left_unlooked_at() -> None:
    async def main() -> None:
        session = EngineSession(CrashOnce([says("one")]), CONFIG)
        with pytest.raises(ZeroDivisionError):
            async with session.run("go") as run:
                async for update in run:
                    if isinstance(update, BlockDone):
                        await asyncio.sleep(1)
                        raise ZeroDivisionError
        assert_clean()

    virtually(main())


def test_an_estimate_counts_what_the_model_wrote() -> None:
    """Thirty characters of each kind are ten tokens each; a signature is not written by the model."""
    blocks = (
        Thinking("t" * 30, "signature" * 99),
        RedactedThinking("r" * 30),
        ServerBlock("search", "s" * 30),
        Text("x" * 30),
        ToolCall("c", "Read", {"p": "i" * 21}),  # {'p': '...'} is thirty characters
    )

    async def main() -> None:
        session = EngineSession(World([says(*blocks, Pause(1_000), "never")]), CONFIG)
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, CallStarted):
                    run.interrupt()
        assert run.result.usage.output == 50

    virtually(main())


# --- what a second review broke ---------------------------------------------------------------------


class FailOnce(MemoryJournal):
    """Cannot write one record: the first that the test picks."""

    def __init__(self, kind: type[Record], event: type[object] | None = None) -> None:
        super().__init__()
        self.kind, self.event = kind, event
        self.failed = False

    async def append(self, record: Record) -> None:
        picked = isinstance(record, self.kind) and (
            self.event is None or (isinstance(record, EventRecord) and isinstance(record.event, self.event))
        )
        if picked and not self.failed:
            self.failed = True
            raise Crash
        await super().append(record)


@pytest.mark.parametrize("event", [Replied, ToolsDone, ContextReady, HooksDone])
def test_an_event_that_could_not_be_written_takes_nothing_shown_with_it(event: type[object]) -> None:
    async def main() -> None:
        journal = FailOnce(EventRecord, event)
        look = says("Look.", call("Read", "r"), Pause(20))
        session = EngineSession(World([look, *[says("on")] * 3], journal=journal), CONFIG)
        with pytest.raises(Crash):
            await to_the_end(session)
        await to_the_end(session)
        await to_the_end(session)
        said = [line(m) for m in session.state.history]
        if event in (Replied, ToolsDone, HooksDone):
            assert said[1:3] == ["assistant: Look. <r>", "result <r>: Read is done"]
        assert_in_order(session)
        assert outcomes(journal) == {"r": 1}

    virtually(main())


def test_two_crashes_in_a_row_lose_nothing() -> None:
    async def main() -> None:
        journal = FailOnce(EventRecord, ToolsDone)
        session = EngineSession(World([says("Look.", call("Read", "r")), says("on")], journal=journal), CONFIG)
        with pytest.raises(Crash):
            await to_the_end(session)
        journal.failed, journal.event = False, Submitted
        with pytest.raises(Crash):
            await to_the_end(session)
        await to_the_end(session)
        said = [line(m) for m in session.state.history]
        assert said == ["prompt: go", "assistant: Look. <r>", "result <r>: Read is done", "prompt: go", "assistant: on"]
        assert_in_order(session)

    virtually(main())


def test_a_journal_failure_during_an_interrupt_is_raised_and_nobody_is_told_a_lie() -> None:
    async def main() -> None:
        journal = FailOnce(OutcomeRecord)
        session = EngineSession(World([says(call("Edit", "e", ms=50)), says("on")], journal=journal), CONFIG)
        with pytest.raises(Crash):
            async with session.run("go") as run:
                async for update in run:
                    if isinstance(update, CallStarted):
                        run.interrupt()
        await to_the_end(session)
        assert "is not known" in session.state.history[2].text
        assert_in_order(session)

    virtually(main())


@pytest.mark.parametrize(
    "calls",
    [
        (call("Read", "q", ms=50, ask="May I?"), Pause(5), Stop.REFUSAL),
        (call("Read", "q", ms=50, ask="May I?"), call("Read", "s", ms=5, stop="denied"), Stop.TOOL_USE),
    ],
)
def test_a_question_asked_too_late_is_withdrawn(calls: tuple[object, ...]) -> None:
    *parts, stop = calls
    stage = Stage(World([says(*parts, stop=stop)]))  # type: ignore[arg-type]
    assert stage.result.duration < 100


def test_a_stream_that_does_not_listen_starts_nothing_after_the_end() -> None:
    class DeafStream(World):
        def stream(self, request, state, policy):  # type: ignore[no-untyped-def]
            return deaf_stream()

    async def deaf_stream() -> AsyncGenerator[Batch, None]:
        yield StreamStarted(), BlockDelta(BlockKind.TEXT, "I talk")
        for number in range(3):
            await deafly(5)
            yield (BlockFinished(call("Read", f"late{number}")),)

    async def main() -> None:
        ledger = Ledger(limit=10**12)
        world = DeafStream([])
        session = EngineSession(world, CONFIG, ledger=ledger)
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, Delta):
                    run.interrupt()
        assert ledger.account.reserved == 0
        assert ledger.account.spent == run.result.cost
        await asyncio.sleep(60)
        assert world.ran == []
        assert ledger.account.spent == run.result.cost
        assert_clean()

    virtually(main())


def test_an_estimate_never_exceeds_what_was_reserved() -> None:
    async def main() -> None:
        limit = 100 * 1_250 + 1_000 * 5_000
        ledger = Ledger(limit=limit)
        session = EngineSession(
            World([says(BlockDelta(BlockKind.TEXT, "x" * 5_000), Pause(1_000), "y")]), CONFIG, ledger=ledger
        )
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, Delta):
                    run.interrupt()
        assert ledger.account.spent == run.result.cost <= limit

    virtually(main())


def test_an_interrupted_summary_is_paid_for_in_the_result_too() -> None:
    class Slowly(World):
        async def summarize(self, state, effect):  # type: ignore[no-untyped-def]
            await asyncio.sleep(60)
            return await super().summarize(state, effect)

    async def main() -> None:
        ledger = Ledger(limit=10**12)
        session = EngineSession(Slowly([], contexts=[PreparedContext(170_000)]), CONFIG, ledger=ledger)
        run = session.run("go")
        asyncio.get_running_loop().call_later(1, run.interrupt)
        async with run:
            async for _ in run:
                pass
        assert run.result.cost == ledger.account.spent == 170_000 * 1_250 + 20_000 * 5_000
        assert run.result.estimated
        assert_in_order(session)

    virtually(main())


def test_a_result_for_another_call_is_the_tools_failure() -> None:
    class Confused(World):
        async def run_tool(self, call, asking):  # type: ignore[no-untyped-def]
            return ToolOutcome(replace(result("other", "?"), id="mine"))

    stage = Stage(Confused([says(call("Read", "r")), says("Done.")]))
    assert "a result for 'other' in answer to 'r'" in stage.said[1]


def test_a_command_whose_record_could_not_be_written_is_not_taken_twice() -> None:
    async def main() -> None:
        session = EngineSession(World([says("one"), says("two")], journal=FailOnce(SaidRecord)), CONFIG)
        await session.submit("once")
        with pytest.raises(Crash):
            await to_the_end(session)
        await to_the_end(session)
        assert [line(m) for m in session.state.history].count("prompt: once") == 1
        assert_in_order(session)

    virtually(main())


def test_input_that_confuses_the_concurrency_check_is_not_safe_and_no_crash() -> None:
    class Picky(World):
        def is_concurrent(self, call):  # type: ignore[no-untyped-def]
            return bool(call.input["path"])

    stage = Stage(Picky([says(call("Read", "r")), says("Done.")]))
    assert stage.ending == ("completed", "end_turn")


def test_a_bad_prompt_does_not_lock_the_session() -> None:
    async def main() -> None:
        session = EngineSession(World([says("fine")]), CONFIG)
        with pytest.raises(TypeError):
            async with session.run(None) as run:  # type: ignore[arg-type]
                await run.__anext__()
        await to_the_end(session)
        assert len(session.state.history) == 2

    virtually(main())


def test_a_dependency_that_answers_an_interrupt_with_an_error_does_not_turn_it_into_a_crash() -> None:
    class Sour(World):
        async def stop_hooks(self, state, effect):  # type: ignore[no-untyped-def]
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise OSError("socket closed") from None

    async def main() -> None:
        session = EngineSession(Sour([says("done")]), CONFIG)
        run = session.run("go")
        asyncio.get_running_loop().call_later(1, run.interrupt)
        async with run:
            async for _ in run:
                pass
        assert run.result.terminal is Terminal.ABORTED_STREAMING
        notes = [r.text for r in session.deps.journal.records if isinstance(r, NoteRecord)]  # type: ignore[attr-defined]
        assert notes == ["OSError('socket closed')"]
        assert_in_order(session)

    virtually(main())


def test_nothing_comes_after_the_result_and_an_interrupted_run_completes_no_command() -> None:
    class Chatty(World):
        async def summarize_tools(self, calls, results):  # type: ignore[no-untyped-def]
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return "I was cut off"

    stage = Stage(Chatty([says(call("Read", "r")), says("Done.")]))
    assert isinstance(stage.updates[-1], Result)

    async def main() -> None:
        session = EngineSession(World([says("x", Pause(1_000), "y")]), CONFIG)
        await session.submit("cmd")
        async with session.run("go") as run:
            async for update in run:
                if isinstance(update, Delta):
                    run.interrupt()
        assert session.completed_commands == []

    virtually(main())


@pytest.mark.covers("F-08")
def test_an_unsafe_call_waits_for_the_end_of_every_reply() -> None:
    talk = Pause(50)
    stage = Stage(World([says(call("Edit", "a"), talk), says(call("Edit", "b"), talk), says("Done.")]))
    assert stage.world.ran == [("a", 50, 50), ("b", 100, 100)]
