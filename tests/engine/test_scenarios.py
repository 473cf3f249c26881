"""What a consumer sees, exactly: the worked examples Q-01 to Q-05 and the recoveries, through the whole engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from msgspec.structs import replace

from engine.stage import CONFIG, WITH_FALLBACK, Stage, assert_in_order
from mainspring.context.attachments import PreparedContext, Summary
from mainspring.core.config import Siblings, StopHooks
from mainspring.core.events import StopDecision
from mainspring.core.ladder import GO_ON
from mainspring.core.messages import Defect, Stop, ToolCall
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import Delta
from mainspring.providers.base import Batch, Retry
from mainspring.testing import Break, Pause, World, call, fails, says


@pytest.mark.covers("A-19", "Q-01", "B-31", "B-08", "A-01", "A-21", "E-01")
def test_null_pointer_read_edit_done() -> None:
    """Q-01: three calls, two tools, one question, a summary that resolves while the next reply streams."""
    world = World(
        [
            says("I will look.", call("Read", "r")),
            says("Fixing.", call("Edit", "e", ask="Edit a.py?"), pace=10),
            says("Fixed.", pace=10),
        ],
        answers=["yes"],
    )
    world.summary_of_tools, world.summary_takes = "Read a.py", 5
    stage = Stage(world)
    assert stage.seen == [
        "request 1",
        "block 'I will look.'",
        "block <r>",
        "start <r>",
        "done <r>",
        "request 2 next_turn",
        "summary 'Read a.py'",
        "block 'Fixing.'",
        "block <e>",
        "start <e>",
        "asked 'Edit a.py?'",
        "answered 'yes'",
        "done <e>",
        "request 3 next_turn",
        "summary 'Read a.py'",
        "block 'Fixed.'",
        "completed end_turn",
    ]
    assert_in_order(stage.session)


@pytest.mark.covers("Q-02")
def test_failing_tests() -> None:
    """Q-02: Bash, two Reads, Edit then Bash, text: four turns, three with tools."""
    stage = Stage(
        World(
            [
                says(call("Bash", "b1", text="1 failed", fails=True)),
                says(call("Read", "r1", ms=20), call("Read", "r2", ms=10), pace=1),
                says(call("Edit", "e1"), call("Bash", "b2", text="passed")),
                says("Fixed."),
            ]
        )
    )
    assert stage.seen == [
        "request 1",
        "block <b1>",
        "start <b1>",
        "done <b1>",
        "request 2 next_turn",
        "block <r1>",
        "start <r1>",
        "block <r2>",
        "start <r2>",
        "done <r2>",
        "done <r1>",
        "request 3 next_turn",
        "block <e1>",
        "block <b2>",
        "start <e1>",
        "done <e1>",
        "start <b2>",
        "done <b2>",
        "request 4 next_turn",
        "block 'Fixed.'",
        "completed end_turn",
    ]
    assert stage.said[3:5] == ["result <r1>: Read is done", "result <r2>: Read is done"]  # in the order of the calls
    assert stage.result.turns == 4


@pytest.mark.covers("F-06")
def test_at_most_ten_run_at_once() -> None:
    """Known wrong in the sketch (b): the limit was ignored."""
    stage = Stage(World([says(*[call("Read", f"r{n}", ms=10) for n in range(14)]), says("Done.")]))
    assert [begun for _, begun, _ in stage.world.ran] == [0] * 10 + [10] * 4


@pytest.mark.covers("F-02")
def test_the_classic_way_runs_batches_after_the_reply() -> None:
    reply = says(call("Read", "r1", ms=100), Pause(10), call("Read", "r2", ms=100), call("Edit", "w", ms=5), Pause(40))
    stage = Stage(World([reply, says("Done.")]), config=replace(CONFIG, early_safe=False))
    assert stage.world.ran == [("r1", 50, 150), ("r2", 50, 150), ("w", 150, 155)]


@pytest.mark.covers(
    "B-19", "B-20", "E-03", "Q-03", "F-01", "F-04", "F-05", "F-07", "F-08", "F-09", "F-10", "F-12", "F-19", "P-08"
)
def test_three_reads_and_two_writes_to_the_millisecond() -> None:
    """Q-03. Reads start at the end of their block, while the model still talks; writes after the reply, one by one."""
    reply = says(
        call("Read", "r1", ms=100),
        Pause(10),
        call("Read", "r2", ms=100),
        Pause(10),
        call("Edit", "w1", ms=30),
        Pause(10),
        call("Read", "r3", ms=50),
        Pause(10),
        call("Edit", "w2", ms=30),
        Pause(10),
    )
    stage = Stage(World([reply, says("Done.")]))
    assert stage.world.ran == [
        ("r1", 0, 100),
        ("r2", 10, 110),
        ("w1", 110, 140),  # after the reply (50) and after the reads before it
        ("r3", 140, 190),  # never before the write that precedes it
        ("w2", 190, 220),
    ]


@pytest.mark.covers("Q-04", "A-05")
def test_stop_hook_found_three_lint_errors() -> None:
    stage = Stage(World([says("Done."), says("Now it is.")], hooks=[StopDecision(("3 lint errors",))]))
    assert stage.seen == [
        "request 1",
        "block 'Done.'",
        "hook '3 lint errors'",
        "request 1 stop_hook_blocking",
        "block 'Now it is.'",
        "completed end_turn",
    ]


@pytest.mark.covers("Q-05", "E-10", "E-12")
def test_a_prompt_too_long_is_compacted_and_nobody_hears_of_an_error() -> None:
    stage = Stage(World([fails(Trouble.PROMPT_TOO_LONG), says("Done.")]))
    assert stage.seen == [
        "request 1",
        "boundary summary",
        "request 1 reactive_compact_retry",
        "block 'Done.'",
        "completed end_turn",
    ]


# --- streams that fail ------------------------------------------------------------------------------


@pytest.mark.covers("E-05", "E-07")
def test_a_stream_cut_after_deltas_is_withdrawn_by_its_id() -> None:
    """Known wrong in the sketch (f)."""
    stage = Stage(World([fails(Trouble.NETWORK, "", "Once upon a time"), says("Done.")]))
    assert stage.seen == [
        "request 1",
        "block 'Once upon a time'",
        "tombstone stream_cut",
        "request 1 stream_retry",
        "block 'Done.'",
        "completed end_turn",
    ]


def test_a_call_that_was_finished_before_the_cut_runs_once() -> None:
    broken = fails(Trouble.NETWORK, "", "Look.", call("Read", "r", ms=5), Pause(20))
    stage = Stage(World([broken, says("Done.")]))
    assert stage.said == ["assistant: Look. <r>", "result <r>: Read is done", "assistant: Done."]
    assert [id for id, _, _ in stage.world.ran] == ["r"]


def test_a_stream_without_its_end_is_never_an_answer() -> None:
    async def nothing() -> AsyncGenerator[Batch, None]:
        return
        yield ()

    class Silent(World):
        def stream(self, request, state, policy):  # type: ignore[no-untyped-def]
            if len(self.model.requests) == 0:
                self.model.requests.append(request)
                return nothing()
            return super().stream(request, state, policy)

    stage = Stage(Silent([says("never played"), says("Done.")]), config=WITH_FALLBACK)
    assert stage.seen == ["request 1", "request 1 model_fallback", "block 'Done.'", "completed end_turn"]


def test_fallback_after_overload() -> None:
    stage = Stage(World([fails(Trouble.OVERLOADED), says("Done.")]), config=WITH_FALLBACK)
    assert [request.model for request in stage.world.model.requests] == ["big", "small"]
    assert stage.ending == ("completed", "end_turn")


def test_waits_of_the_provider_are_shown() -> None:
    wait = Retry(Failure(Trouble.OVERLOADED), 1, 500)
    stage = Stage(World([says(wait, Pause(500), "Done.")]))
    assert stage.seen == ["request 1", "retrying overloaded 1 500", "block 'Done.'", "completed end_turn"]


def test_an_output_limit_inside_a_call_never_runs_it() -> None:
    """Known wrong in the sketch (e)."""
    cut = ToolCall("c", "Write", {}, Defect.CUT)
    limit = says("Writing.", call("Read", "r"), cut, stop=Stop.MAX_TOKENS, usage=Usage(output=9_000))
    stage = Stage(World([limit, says("Done.")]))
    assert [id for id, _, _ in stage.world.ran] == ["r"]
    assert stage.said[1] == "result <r>: Read is done"
    assert stage.said[2].startswith("synthetic <c>: This call was cut off")


# --- tools ------------------------------------------------------------------------------------------


@pytest.mark.covers("F-15", "F-16", "F-17")
def test_a_failed_command_cancels_the_commands_behind_it_and_nothing_else() -> None:
    batch = says(call("Bash", "b1", fails=True), call("Edit", "e"), call("Bash", "b2"), call("Read", "r"))
    stage = Stage(World([batch, says("Done.")]), config=replace(CONFIG, siblings=Siblings.CASCADE))
    assert [id for id, _, _ in stage.world.ran] == ["b1", "e", "r"]
    assert "synthetic <b2>: Not run: an earlier command of the same reply failed." in stage.said


def test_a_failed_command_leaves_its_siblings_alone() -> None:
    """Settled 21: unless it is configured otherwise."""
    batch = says(call("Bash", "b1", fails=True), call("Edit", "e"), call("Bash", "b2"), call("Read", "r"))
    stage = Stage(World([batch, says("Done.")]))
    assert [id for id, _, _ in stage.world.ran] == ["b1", "e", "b2", "r"]
    assert not [words for words in stage.said if words.startswith("synthetic")]


def test_a_tool_that_crashes_is_a_result_the_model_sees() -> None:
    stage = Stage(World([says(call("Read", "r", raises="disk on fire")), says("Done.")]))
    assert stage.said[1] == "result <r>: The tool itself failed: RuntimeError: disk on fire"
    assert stage.ending == ("completed", "end_turn")


@pytest.mark.covers("C-09", "I-10")
def test_an_early_call_that_stops_the_run_lets_the_reply_finish_and_starts_nothing_new() -> None:
    """Settled 11."""
    first, late, last = call("Read", "r", stop="denied"), call("Read", "late"), call("Edit", "e")
    stage = Stage(World([says(first, Pause(10), late, Pause(10), "More text.", last)]))
    assert [id for id, _, _ in stage.world.ran] == ["r"]
    assert stage.ending == ("hook_stopped", "hook")
    assert stage.result.detail == "denied"
    assert [words for words in stage.said if words.startswith("synthetic")] == [
        "synthetic <late>: The run ended before this call was started. It had no effect.",
        "synthetic <e>: The run ended before this call was started. It had no effect.",
    ]


@pytest.mark.covers("F-11")
def test_the_same_id_twice_is_two_calls_and_both_are_answered() -> None:
    stage = Stage(World([says(call("Read", "x"), call("Read", "x")), says(call("Read", "x")), says("Done.")]))
    ids = [id for id, _, _ in stage.world.ran]
    assert len(set(ids)) == 3
    assert ids[0] == "x"
    assert_in_order(stage.session)


def test_input_deltas_are_shown_but_nothing_runs_before_its_block_is_finished() -> None:
    stage = Stage(World([says("Hi.", call("Read", "r", file_path="a.py")), says("Done.")]))
    kinds = [update.kind for update in stage.updates if isinstance(update, Delta)]
    assert kinds[0] == "text"
    assert "input" in kinds
    started = stage.seen.index("start <r>")
    assert stage.seen.index("block <r>") < started


# --- money ------------------------------------------------------------------------------------------


@pytest.mark.covers("H-09")
def test_money_is_reserved_before_a_call_and_settled_after_it() -> None:
    world = World([says(call("Read", "r"), usage=Usage(input=100, output=1_800)), says("never asked")])
    from mainspring.engine.session import EngineSession
    from mainspring.engine.shared_state import Ledger
    from mainspring.testing import virtually

    async def main() -> None:
        ledger = Ledger(limit=100 * 1_250 + 2_000 * 5_000)  # the dearest prompt and 2,000 tokens
        session = EngineSession(world, CONFIG, ledger=ledger)
        async with session.run("go") as run:
            async for _ in run:
                assert ledger.funds is not None
                assert ledger.funds >= 0
        assert world.model.requests[0].max_output == 2_000
        assert run.result.cause == "budget_usd"
        assert ledger.account.spent == 100 * 1_000 + 1_800 * 5_000
        assert ledger.account.reserved == 0

    virtually(main())


def test_compaction_near_the_limit_through_the_engine() -> None:
    full, small = PreparedContext(170_000), PreparedContext(10_000)
    made = Summary(before=170_000, after=9_000, cost=7)
    stage = Stage(World([says("Done.")], contexts=[full, small], summaries=[made]))
    assert stage.seen[:2] == ["boundary summary", "request 1 auto_compact"]
    assert stage.session.shared.ledger.account.spent == stage.result.cost == 7 + 100 * 1_000 + 20 * 5_000


def test_capped_stop_hooks_through_the_engine() -> None:
    config = replace(CONFIG, stop_hooks=StopHooks.CAPPED)
    stage = Stage(World([says("x") for _ in range(10)], hooks=[StopDecision(("no",))] * 9), config=config)
    assert stage.ending == ("completed", "end_turn")


def test_an_unfinished_break_inside_a_call() -> None:
    from mainspring.core.updates import BlockKind
    from mainspring.providers.base import BlockDelta

    inside = says("I will write.", BlockDelta(BlockKind.INPUT, '{"file'), Break(Failure(Trouble.NETWORK)))
    stage = Stage(World([inside, says("Done.")]))
    assert stage.seen[2:4] == [f"recovery {GO_ON!r}", "request 1 truncated_response_recovery"]
