"""Layers 0 to 3: what leaves the view, when, and what stays."""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from context.layer_stage import (
    BIG,
    FREE,
    GOOD,
    Stage,
    always,
    many,
    output,
    reads,
    results_in,
    runs,
    says,
    text_of,
)
from mainspring.context.layers import CLEARED, LayerLimits, limits_for_window
from mainspring.context.tokens import SideCallReply
from mainspring.core.config import Config, RunSource
from mainspring.core.effects import Compact, CompactionKind
from mainspring.core.events import Shrunk
from mainspring.core.messages import Assistant, Message, Stop, Thinking, ToolCall, ToolResult
from mainspring.core.models import per_million
from mainspring.core.reasons import Trouble
from mainspring.core.updates import Boundary
from mainspring.core.view import Drop, Fold, Replace, view
from mainspring.providers.scripted import call

PATIENT = {"advise_after": 10**6, "end_after": 10**7}
FOR_MONEY = Config(model=BIG, **PATIENT)  # type: ignore[arg-type]  # numbers both
SMALL_WINDOW = Config(model=replace(FREE, window=60_000), **PATIENT)  # type: ignore[arg-type]


def layers_of(stage: Stage) -> list[str]:
    return [part.layer for ready in stage.ready for part in ready.shrunk]


# --- layer 0: the budget of results -----------------------------------------------------------------


@pytest.mark.covers("D-03", "D-05")
def test_a_large_result_is_stored_and_shown_with_both_its_ends(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    stage = Stage(always(lambda turn: runs(turn, 99_000), 2), folder=str(folder))
    stage.run()
    first, again = (results_in(request)[0].text for request in stage.requests[1:])
    assert len(first) < 12_500
    assert first.startswith("begin call_1 ")
    assert first.endswith("end call_1")
    assert again == first  # later requests replace alike,
    assert [type(edit) for edit in stage.state.edits] == [Replace, Replace]  # and not twice
    path = re.findall(r"all of it is in '([^']+)'", first)[0]
    assert Path(path).read_text() == output(call("Bash", "call_1", size=99_000))
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    freed = [part for ready in stage.ready for part in ready.shrunk]
    assert all(part.layer == "tool_results" and 24_000 < part.freed < 32_000 for part in freed)


@pytest.mark.covers("D-05")
def test_after_a_resume_results_are_replaced_alike(tmp_path: Path) -> None:
    stage = Stage(always(lambda turn: runs(turn, 99_000), 1), folder=str(tmp_path))
    stage.run()
    before = results_in(stage.requests[1])
    stage.context = stage.new_context(folder=str(tmp_path))
    stage.run("and now?")
    assert results_in(stage.requests[-1]) == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_result_that_cannot_be_stored_is_cut_all_the_same() -> None:
    stage = Stage(always(lambda turn: runs(turn, 99_000), 1), folder="/proc/nowhere")
    stage.run()
    (cut,) = results_in(stage.requests[1])
    assert len(cut.text) < 12_500
    assert "all of it is in" not in cut.text


@pytest.mark.covers("D-04")
def test_tools_that_limit_themselves_are_exempt() -> None:
    stage = Stage(always(lambda turn: reads(turn, 99_000), 1))
    stage.run()
    assert len(results_in(stage.requests[1])[0].text) > 98_000


@pytest.mark.covers("D-03")
def test_the_results_of_one_reply_have_a_limit_together() -> None:
    """Twelve of 15,000 characters are each within bounds; the largest go first, until 100,000 are left."""
    stage = Stage(always(lambda turn: many(turn, 12, 15_000 + turn), 1))
    stage.run()
    sizes = [len(result.text) for result in results_in(stage.requests[1])]
    assert 90_000 < sum(sizes) < 182_000
    assert all(size > 11_900 for size in sizes)
    few = Stage(always(lambda turn: many(turn, 6, 15_000), 1))
    few.run()
    assert [len(result.text) > 14_900 for result in results_in(few.requests[1])] == [True] * 6


def test_a_small_window_has_small_limits() -> None:
    assert limits_for_window(LayerLimits(), 200_000) == limits_for_window(LayerLimits(), 10**6) == LayerLimits()
    assert limits_for_window(LayerLimits(), 20_000).per_result == 3_200


# --- layer 2: clearing ------------------------------------------------------------------------------


@pytest.mark.covers("D-10", "D-11", "D-12", "D-13", "D-15")
def test_old_results_are_cleared_pairs_and_thinking_stay(tmp_path: Path) -> None:
    """No model is there to be asked. Thinking is word for word what it was."""
    mixed = always(lambda turn: reads(turn) if turn % 2 else runs(turn), 30)
    stage = Stage(mixed, config=FOR_MONEY, folder=str(tmp_path), limits=replace(LayerLimits(), snip=False))
    stage.run()
    last = stage.requests[-1]
    results = results_in(last)
    cleared = [result for result in results if result.text.startswith(CLEARED)]
    assert len(results) == 30
    assert len(cleared) > 10
    assert not any(result.text.startswith(CLEARED) for result in results[-2:])
    thoughts = [block for message in last if isinstance(message, Assistant) for block in message.blocks]
    assert [block.signature for block in thoughts if isinstance(block, Thinking)] == [
        f"sig:{n}" for n in range(1, 30, 2)
    ]
    assert {result.text for result in cleared[::2]} == {CLEARED}  # a file can be read again
    for result in cleared[1::2]:
        path = re.fullmatch(re.escape(CLEARED) + r" It is in '([^']+)'\.", result.text)
        assert path is not None
        assert Path(path[1]).read_text().endswith(f"end {result.call_id}")
    assert layers_of(stage).count("microcompact") >= 1


def test_results_that_the_model_has_not_seen_are_never_cleared() -> None:
    """Twelve a turn, and at most eight are kept: but those of the last reply all reach the model first."""
    stage = Stage(always(lambda turn: many(turn, 12, 6_000, "Read"), 20), config=FOR_MONEY)
    stage.run()
    for turn, request in enumerate(stage.requests[1:], 1):
        newest = [result for result in results_in(request) if result.call_id.startswith(f"call_{turn}_")]
        assert len(newest) == 12
        assert not any(result.text == CLEARED for result in newest)
    assert layers_of(stage).count("microcompact") > 5


def test_clearing_waits_until_it_pays() -> None:
    """Rent is a tenth of a token's price per turn; the price 1.15 for each one behind the first that is cleared."""
    stage = Stage(
        always(lambda turn: reads(turn, 8_000), 60), config=FOR_MONEY, limits=replace(LayerLimits(), snip=False)
    )
    stage.run()
    breaks = [turn for turn, ready in enumerate(stage.ready) if any(p.layer == "microcompact" for p in ready.shrunk)]
    gaps = [later - turn for turn, later in pairwise(breaks)]
    assert len(breaks) >= 4
    assert min(gaps) >= 4  # not every turn: each break has its price
    free = Stage(always(lambda turn: reads(turn, 8_000), 60), config=replace(FOR_MONEY, model=FREE))
    free.run()
    assert layers_of(free) == []  # reading costs nothing there, and there is room


def test_where_reading_is_free_only_need_clears() -> None:
    stage = Stage(always(lambda turn: reads(turn, 8_000), 60), config=SMALL_WINDOW)
    stage.run()
    assert "microcompact" in layers_of(stage)
    limit = stage.config.compact_at(stage.config.model)
    assert max(ready.tokens for ready in stage.ready) < limit + 8_000
    assert not stage.compactions  # cheap and local first: no summary was needed


def test_where_the_cache_has_expired_clearing_waits_for_nothing() -> None:
    """The whole prompt must be written again in any case: without the old results that costs less."""

    def stage_of(turns: int, pause: int) -> Stage:
        stage = Stage(always(lambda turn: reads(turn, 8_000), turns), config=FOR_MONEY)
        stage.now = 1_000
        stage.run()
        assert layers_of(stage) == []  # so soon it does not pay
        stage.now += pause
        stage.run("go on")
        return stage

    assert layers_of(stage_of(9, 5 * 60_000)) == []
    expired = stage_of(9, 5 * 60_000 + 1)
    assert layers_of(expired) == ["microcompact"]
    before, after = expired.requests[-2:]
    assert [result.text == CLEARED for result in results_in(before)] == [False] * 9
    assert [result.text == CLEARED for result in results_in(after)][:2] == [True] * 2
    assert not any(result.text == CLEARED for result in results_in(after)[-2:])


def test_another_model_has_nothing_in_its_cache() -> None:
    stage = Stage(always(lambda turn: reads(turn, 8_000), 9), config=FOR_MONEY)
    stage.run()
    stage.state = replace(stage.state, model=replace(BIG, name="other"))
    for cleared in (["microcompact"], []):  # once
        ready = asyncio.run(stage.context.shrink(stage.state, ()))
        assert [part.layer for part in ready.shrunk] == cleared
        stage.state = replace(stage.state, edits=(*stage.state.edits, *ready.edits))


def test_files_are_kept_longer_than_outputs_and_those_that_are_edited_longest() -> None:
    def kept(reply: Callable[[int], Assistant]) -> list[int]:
        """How many large results were in view, turn by turn, before anything was cleared."""
        stage = Stage(always(reply, 40), config=FOR_MONEY, limits=replace(LayerLimits(), snip=False))
        stage.run()
        first = next(at for at, ready in enumerate(stage.ready) if ready.shrunk)
        shown = results_in(stage.requests[first])
        return [first, sum(len(result.text) > 1_000 for result in shown)]

    def edits_the_first_file(turn: int) -> Assistant:
        edit = ToolCall(f"edit_{turn}", "Edit", {"file_path": "f1.py", "size": 100})
        read = reads(turn)
        return replace(read, blocks=(*read.blocks, edit))

    outputs, files, edited = kept(runs), kept(reads), kept(edits_the_first_file)
    assert outputs < files < edited


@pytest.mark.covers("D-16")
def test_a_run_that_sums_up_is_left_alone() -> None:
    config = replace(SMALL_WINDOW, source=RunSource.COMPACT)
    stage = Stage(always(lambda turn: runs(turn, 40_000), 8), config=config)
    stage.run()
    assert layers_of(stage) == []


# --- layer 1: snip ----------------------------------------------------------------------------------


@pytest.mark.covers("D-06", "D-07", "D-08")
def test_old_turns_leave_whole_and_the_count_knows() -> None:
    stage = Stage(always(lambda turn: reads(turn, 6_000), 120), config=FOR_MONEY)
    stage.run("the first words")
    snips = [(ready, part) for ready in stage.ready for part in ready.shrunk if part.layer == "snip"]
    assert snips
    assert [update.freed for update in stage.updates if isinstance(update, Boundary) and update.layer == "snip"] == [
        part.freed for _, part in snips
    ]
    assert all(part.freed > 0 for _, part in snips)
    last = stage.requests[-1]
    assert len(last) < len(stage.state.history) / 2
    assert last[0].text == "the first words"
    assert unanswered(last) == set()
    newest = list(stage.state.history)[-20:]
    assert [message.id for message in last][-15:] == [message.id for message in newest][-16:-1]


@pytest.mark.covers("D-08")
def test_what_snip_freed_enters_the_check_of_the_threshold() -> None:
    """What would be over the limit is below it by what snip reports, and no summary is asked for."""
    limits = replace(LayerLimits(), clear=False, collapse=False)
    stage = Stage(
        always(lambda turn: reads(turn, 4_000), 60),
        config=SMALL_WINDOW,
        answers=lambda q: SideCallReply(GOOD),
        limits=limits,
    )
    stage.run()
    limit = stage.config.compact_at(stage.config.model)
    snips = [(ready.tokens, part.freed) for ready in stage.ready for part in ready.shrunk if part.layer == "snip"]
    assert snips
    assert all(tokens < limit <= tokens + freed for tokens, freed in snips)
    assert stage.compactions == []


@pytest.mark.covers("D-09")
def test_snip_can_be_switched_off() -> None:
    stage = Stage(
        always(lambda turn: reads(turn, 6_000), 120), config=FOR_MONEY, limits=replace(LayerLimits(), snip=False)
    )
    stage.run()
    assert "snip" not in layers_of(stage)
    assert not any(isinstance(edit, Drop) for edit in stage.state.edits)


def test_turns_that_changed_something_are_not_snipped() -> None:
    """What an edit came to is short, so it is never cleared, and its turn stays."""

    def reply(turn: int) -> Assistant:
        if turn % 3 == 0:
            edit = ToolCall(f"call_{turn}", "Edit", {"file_path": "a.py", "size": 30})
            return Assistant((edit,), "big", Stop.TOOL_USE)
        return reads(turn, 6_000)

    stage = Stage(always(reply, 120), config=FOR_MONEY)
    stage.run()
    assert "snip" in layers_of(stage)
    left = {result.call_id for result in results_in(stage.requests[-1])}
    assert left >= {f"call_{turn}" for turn in range(3, 120, 3)}


# --- layer 3: collapses -----------------------------------------------------------------------------

WORDY = "We found that the parser drops the last line when it has no newline. " * 6


def wordy(turn: int) -> Assistant:
    read = reads(turn, 6_000)
    return replace(read, blocks=(*read.blocks[:1], *says(f"{WORDY} ({turn})").blocks, *read.blocks[2:]))


@pytest.mark.covers("D-17", "D-18")
def test_spans_of_old_turns_stand_as_prepared_summaries() -> None:
    answers = lambda question: SideCallReply("They looked at the parser.")  # noqa: E731
    stage = Stage(always(wordy, 150), config=FOR_MONEY, answers=answers)
    stage.run("mend the parser")
    assert "collapse" in layers_of(stage)
    assert all(question.small for question in stage.questions)  # the summary of everything was not needed
    last = stage.requests[-1]
    assert text_of(last).count("[The user's own words]\nmend the parser") == 1
    assert "[Some turns of this conversation were summarized]\nThey looked at the parser." in text_of(last)
    assert unanswered(last) == set()


@pytest.mark.covers("D-17")
def test_a_collapse_is_written_when_it_pays() -> None:
    """By the prices of both models: the dearer the one that writes it, the later it is asked, or never in this
    session."""
    asked: list[int] = []
    for dollars in (0, 1, 5, 100):
        small = per_million(dollars, 5 * dollars)
        stage = Stage(always(wordy, 60), config=FOR_MONEY, answers=lambda q: SideCallReply("A part."), small=small)
        stage.run()
        asked.append(len(stage.questions))
    assert asked[0] > 0
    assert asked == sorted(asked, reverse=True)
    assert asked[-1] == 0


@pytest.mark.covers("D-18")
def test_on_demand_they_are_drained_one_at_a_time() -> None:
    config = Config(model=FREE, **PATIENT)  # type: ignore[arg-type]  # numbers both
    limits = replace(LayerLimits(), clear=False, stage=20_000)
    stage = Stage(always(wordy, 40), config=config, answers=lambda q: SideCallReply("A part."), limits=limits)
    stage.run()
    staged = stage.ready[-1].staged
    assert staged >= 2
    for left in range(staged, 0, -1):
        effect = Compact(CompactionKind.COLLAPSE, Trouble.PROMPT_TOO_LONG)
        made = asyncio.run(stage.context.summarize(stage.state, effect))
        (fold,) = made.edits
        assert isinstance(fold, Fold)
        assert made.after < made.before
        stage.state = replace(stage.state, edits=(*stage.state.edits, fold))
        prepared = asyncio.run(stage.context.shrink(stage.state, ()))
        assert prepared.staged == left - 1
    made = asyncio.run(stage.context.summarize(stage.state, Compact(CompactionKind.COLLAPSE, Trouble.PROMPT_TOO_LONG)))
    assert made.failed == "nothing is staged"
    assert text_of(view(stage.state.history, stage.state.edits)).count("A part.") == staged


@pytest.mark.covers("D-19")
def test_collapse_can_be_switched_off() -> None:
    stage = Stage(
        always(wordy, 100),
        config=FOR_MONEY,
        answers=lambda q: SideCallReply("x"),
        limits=replace(LayerLimits(), collapse=False),
    )
    stage.run()
    assert stage.questions == []
    assert {ready.staged for ready in stage.ready} == {0}


def test_three_bad_answers_in_a_row_end_the_staging() -> None:
    stage = Stage(always(wordy, 100), config=FOR_MONEY, answers=lambda q: SideCallReply(""))
    stage.run()
    assert len(stage.questions) == 3


@pytest.mark.covers("D-01", "D-02", "D-41")
def test_the_order_is_budget_snip_clearing_collapse() -> None:
    def reply(turn: int) -> Assistant:
        return runs(turn, 50_000) if turn % 10 == 0 else wordy(turn) if turn % 2 else reads(turn, 6_000)

    stage = Stage(always(reply, 200), config=FOR_MONEY, answers=lambda q: SideCallReply("They looked at it."))
    stage.run()
    order = ["tool_results", "snip", "microcompact", "collapse"]
    together = [[part.layer for part in ready.shrunk] for ready in stage.ready]
    assert set(chain(*together)) == set(order)
    assert all(layers == [layer for layer in order if layer in layers] for layers in together)


def test_boundaries_name_the_layer_and_what_it_freed() -> None:
    stage = Stage(always(lambda turn: reads(turn, 6_000), 60), config=FOR_MONEY)
    stage.run()
    shown = [update for update in stage.updates if isinstance(update, Boundary)]
    said = [Shrunk(update.layer, update.freed) for update in shown]
    assert said == [part for ready in stage.ready for part in ready.shrunk]


def unanswered(messages: tuple[Message, ...]) -> set[str]:
    calls = {call.id for message in messages if isinstance(message, Assistant) for call in message.calls}
    return calls ^ {message.call_id for message in messages if isinstance(message, ToolResult)}


@pytest.mark.covers("P-04")
def test_the_prefix_is_broken_every_five_to_twenty_turns() -> None:
    """Reads of some 16 KB, as in a usual session: that often is worth its price, and no more."""
    stage = Stage(
        always(lambda turn: reads(turn, 16_000), 120), config=Config(model=BIG, advise_after=10**6, end_after=10**7)
    )
    stage.run("go")
    breaks = sum(any(part.layer == "microcompact" for part in ready.shrunk) for ready in stage.ready)
    assert 5 <= 120 / breaks <= 20
