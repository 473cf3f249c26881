"""One exact test for each terminal and each cause (settled 20)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.play import CONFIG, FULL, Answer, Play, failure, reply
from mainspring.core.config import RunSource
from mainspring.core.effects import CallModel, Compact, CompactionKind, Finish
from mainspring.core.events import CallFailed, Compacted, ContextReady, Replied, StopDecision, ToolsDone
from mainspring.core.messages import Defect, Stop, Thinking, ToolCall, result
from mainspring.core.money import Usage
from mainspring.core.pairing import NeverRan
from mainspring.core.reasons import GIVE_UP, SUBTYPES, Cause, Failure, Subtype, Terminal, Trouble
from mainspring.core.updates import Boundary, Failed, MaxTurnsReached, Result, Tombstone


@pytest.mark.covers("A-04", "C-06", "M-07", "M-09", "M-10", "M-19", "H-14", "E-14", "Q-01")
def test_completed_end_turn_with_the_whole_result() -> None:
    play = Play([reply("look", "1"), reply("edit", "2"), reply("done")])
    assert play.result == Result(
        Terminal.COMPLETED,
        Cause.END_TURN,
        Subtype.SUCCESS,
        text="done",
        stop=Stop.END_TURN,
        turns=3,
        model_calls=3,
        messages=2,
        usage=Usage(input=300, output=30),
        cost=300 * 1_000 + 30 * 5_000,
        duration=play.events[-1].stamp.at - play.events[0].stamp.at,
    )
    assert play.result.num_turns == 3
    assert play.result.duration > 0


@pytest.mark.covers("H-12", "C-06")
def test_completed_token_budget_when_the_run_has_used_its_tokens() -> None:
    play = Play([reply("", "1"), reply("", "2")], config=replace(CONFIG, max_tokens=220))
    assert play.ending == ("completed", "token_budget")
    assert play.result.usage.total == 220
    within = Play([reply("", "1"), reply("", "2"), reply("done")], config=replace(CONFIG, max_tokens=221))
    assert within.ending == ("completed", "end_turn")


@pytest.mark.covers("D-36")
def test_compacted_and_not_compacted_when_somebody_asked_for_it() -> None:
    first = Play([reply("one")])
    play = Play(compactions=[True], after=first, compact="keep the numbers")
    assert play.ending == ("completed", "compacted")
    assert play.result.subtype == "success"
    assert [effect.asked for effect in play.effects if isinstance(effect, Compact)] == ["keep the numbers"]
    assert not [effect for effect in play.effects if isinstance(effect, CallModel)]
    assert [update.layer for update in play.updates if isinstance(update, Boundary)] == [CompactionKind.SUMMARY]
    failed = Play(compactions=[False], after=first, compact="")
    assert failed.ending == ("model_error", "not_compacted")
    assert failed.result.detail == "the summary call failed"
    for after_it in (99, 100, 130):  # the user asked for a summary, and not for room
        longer = Play(compactions=[Compacted(before=100, after=after_it)], after=first, compact="")
        assert longer.ending == ("completed", "compacted")
    poor = Play(contexts=[ContextReady(100_000, funds=1)], after=first, compact="")
    assert poor.ending == ("completed", "budget_usd")
    assert "may take $0.1650 (100,000 tokens of prompt, 8,000 of reply)" in poor.result.detail
    after = Play([reply("three")], after=play)
    assert after.ending == ("completed", "end_turn")


@pytest.mark.covers("G-11", "M-10")
def test_completed_output_limit_keeps_the_text_and_shows_the_failure() -> None:
    play = Play([reply(f"part {n}", stop=Stop.MAX_TOKENS, output=9_000) for n in range(4)])
    assert play.ending == ("completed", "output_limit")
    assert play.result.subtype == "error_during_execution"
    assert play.result.detail == "the reply hit the output limit of 64,000 tokens: ask for a smaller answer"
    assert play.result.stop == "max_tokens"
    assert play.result.text == "part 0part 1part 2part 3"  # one answer, cut off three times
    assert [update.failure.kind for update in play.updates if isinstance(update, Failed)] == [Trouble.MAX_OUTPUT]


@pytest.mark.covers("M-16", "G-11")
@pytest.mark.parametrize(
    ("max_output", "funds", "cap", "way_out"),
    [
        (None, None, 64_000, ""),  # the model's own
        (9_000, None, 9_000, "raise it, or "),
        (None, 100_000_000, 19_975, "raise the money limit, which allows no more, or "),
    ],
)
def test_an_output_limit_is_no_success_where_an_object_was_wanted(
    max_output: int | None, funds: int | None, cap: int, way_out: str
) -> None:
    """The caller reads `structured_output` and nothing else: it is there, or the run has failed."""
    config = replace(CONFIG, structured_output=True, max_output=max_output)
    cut = ToolCall("o", "StructuredOutput", {}, Defect.CUT)
    replies = [reply("half", replace(cut, id=f"o{n}"), stop=Stop.MAX_TOKENS, output=9_000) for n in range(4)]
    play = Play(replies, contexts=[ContextReady(100, funds=funds)] * 4, config=config)
    assert play.ending == ("completed", "structured_output")
    assert (play.result.subtype, play.result.stop) == ("error_max_structured_output_retries", "max_tokens")
    assert play.result.output is None
    assert play.result.detail == f"the reply hit the output limit of {cap:,} tokens: {way_out}ask for a smaller object"


@pytest.mark.covers("M-16", "M-10")
@pytest.mark.parametrize("calls", [(), ("1",)], ids=["words", "a call"])
def test_a_refusal_is_no_success_where_an_object_was_wanted(calls: tuple[str, ...]) -> None:
    """Why is told by the stop reason, which is the same with a schema and without one."""
    refused = [reply("no", *calls, stop=Stop.REFUSAL)] * (1 if calls else 2)
    play = Play(refused, config=replace(CONFIG, structured_output=True))
    assert play.ending == ("completed", "structured_output")
    assert (play.result.subtype, play.result.stop) == ("error_max_structured_output_retries", "refusal")
    assert play.result.detail == "the model refused to answer: ask in other words, or ask another model"


@pytest.mark.covers("M-16", "H-12")
def test_a_token_limit_is_no_success_where_an_object_was_wanted() -> None:
    config = replace(CONFIG, structured_output=True, max_tokens=100)
    play = Play([reply("words")], config=config)
    assert play.ending == ("completed", "structured_output")
    assert play.result.detail == "the run has used up its 100 tokens: raise the limit"


def test_a_hook_that_ends_the_run_is_obeyed_also_where_an_object_was_wanted() -> None:
    """Somebody ordered this end: it is no failure, and the terminal says who."""
    stopped = ToolsDone((), stopped="not on my watch")
    play = Play([reply("", "1")], tools=[stopped], config=replace(CONFIG, structured_output=True))
    assert (play.ending, play.result.subtype) == (("hook_stopped", "hook"), "success")


@pytest.mark.covers("M-10")
def test_completed_refusal_after_one_retry() -> None:
    play = Play([reply("no", stop=Stop.REFUSAL, id="m1"), reply("still no", stop=Stop.REFUSAL, id="m2")])
    assert play.ending == ("completed", "refusal")
    assert (play.result.subtype, play.result.stop, play.result.text) == ("success", "refusal", "still no")
    assert play.said == ["assistant: still no"]


def test_a_refusal_with_a_call_ends_without_starting_it() -> None:
    play = Play([reply("no", "1", stop=Stop.REFUSAL)])
    assert play.ending == ("completed", "refusal")
    assert play.said == ["assistant: no <1>", f"synthetic <1>: {NeverRan.STOPPED}"]


@pytest.mark.covers("H-09", "H-11", "H-13", "M-07")
def test_completed_budget_usd_before_a_call_that_could_exceed_it() -> None:
    play = Play([], contexts=[ContextReady(100, funds=100)])
    assert play.ending == ("completed", "budget_usd")
    assert play.result.subtype == "error_max_budget_usd"
    assert play.result.model_calls == 0
    # 100 tokens at 1,250 nano-dollars, and 256 at 5,000
    assert play.result.detail == (
        "$0.0000 is left, and the next call may take $0.0015 (100 tokens of prompt, 256 of reply): raise the limit"
    )


@pytest.mark.covers("H-09")
def test_completed_budget_usd_when_the_ledger_refuses_the_reservation() -> None:
    play = Play([failure(Trouble.FUNDS)], contexts=[ContextReady(100, funds=10**12)])
    assert play.ending == ("completed", "budget_usd")
    assert play.result.detail == "funds happened"  # the ledger knows what was missing


@pytest.mark.covers("H-10")
@pytest.mark.parametrize(("funds", "ends"), [(0, True), (-5, True), (1, False), (None, False)])
def test_a_budget_end_starts_nothing_new_and_uses_the_results_that_exist(funds: int | None, ends: bool) -> None:
    early, late = result("1", "read early"), result("2", "read late")
    replies: list[Answer] = [Replied(reply("", "1", "2"), funds=funds)]
    play = Play(replies if ends else [*replies, reply("done")], tools=[(early,) if ends else (early, late)])
    if ends:
        assert play.ending == ("completed", "budget_usd")
        # the reply's prompt of 100 and output of 10 are the next prompt
        assert play.result.detail.startswith("$0.0000 is left, and the next call may take $0.0015 (110 tokens of")
        assert play.said[1:] == ["result <1>: read early", f"synthetic <2>: {NeverRan.STOPPED}"]
    else:
        assert play.ending == ("completed", "end_turn")


@pytest.mark.covers("M-07", "M-16")
def test_completed_structured_output_after_five_failed_attempts() -> None:
    play = Play([reply("words")] * 5, config=replace(CONFIG, structured_output=True))
    assert play.ending == ("completed", "structured_output")
    assert play.result.subtype == "error_max_structured_output_retries"


def test_completed_structured_output_after_five_invalid_calls() -> None:
    wrong = [reply("", ToolCall(str(n), "StructuredOutput", {"n": n})) for n in range(5)]
    refused = [(result(str(n), "no", is_error=True),) for n in range(5)]
    play = Play(wrong, tools=refused, config=replace(CONFIG, structured_output=True))
    assert play.ending == ("completed", "structured_output")
    assert play.result.turns == 5


def test_invalid_outputs_count_with_missing_ones() -> None:
    wrong = [reply("", ToolCall(str(n), "StructuredOutput", {})) for n in range(3)]
    refused = [(result(str(n), "no", is_error=True),) for n in range(3)]
    config = replace(CONFIG, structured_output=True)
    play = Play([*wrong, reply("words"), reply("words")], tools=refused, config=config)
    assert play.ending == ("completed", "structured_output")


def test_completed_empty_answer() -> None:
    play = Play([reply(id="m1"), reply(id="m2"), reply(id="m3")])
    assert play.ending == ("completed", "empty_answer")
    assert play.result.subtype == "error_during_execution"
    assert [u.id for u in play.updates if isinstance(u, Tombstone)] == ["m1", "m2", "m3"]


def test_completed_empty_answer_when_the_model_only_thinks() -> None:
    play = Play([reply(blocks=(Thinking("hm"),))] * 3)
    assert play.ending == ("completed", "empty_answer")


def test_completed_no_progress_when_the_server_pauses_for_ever() -> None:
    play = Play([reply(f"{n}", stop=Stop.PAUSE_TURN) for n in range(11)])
    assert play.ending == ("completed", "no_progress")
    assert play.result.text == "012345678910"


@pytest.mark.covers("C-03")
@pytest.mark.parametrize(
    "kind",
    [Trouble.RATE_LIMIT, Trouble.OVERLOADED, Trouble.AUTH, Trouble.INVALID_REQUEST, Trouble.SERVER, Trouble.NETWORK],
)
def test_model_error(kind: Trouble) -> None:
    broken = failure(kind)
    play = Play([broken])
    assert play.ending == ("model_error", kind)
    assert play.result.subtype == "error_during_execution"
    assert play.result.detail == f"{kind} happened"
    assert play.effects[-1] == Finish(Terminal.MODEL_ERROR, Cause(kind), f"{kind} happened")
    assert play.shown == [Failed(broken)]


@pytest.mark.covers("C-03", "E-11", "E-12")
def test_model_error_of_a_cut_stream_keeps_its_own_cause_and_the_finished_text() -> None:
    cut = CallFailed(failure(Trouble.OVERLOADED), kept=reply("half", id="m"), usage=Usage(input=7))
    play = Play([cut] * 10)
    assert play.ending == ("model_error", "overloaded")
    assert play.said == ["assistant: half"]
    assert play.result.usage == Usage(input=70)
    assert play.shown == [Tombstone("m", Trouble.STREAM_CUT)] * 9 + [Failed(cut.failure)]


def test_model_error_malformed_tool_use() -> None:
    broken = ToolCall("1", "Edit", {}, Defect.MALFORMED)
    play = Play([reply("", replace(broken, id=str(n))) for n in range(4)])
    assert play.ending == ("model_error", "malformed_tool_use")
    assert play.said[-1] == f"synthetic <3>: {NeverRan.MALFORMED}"


@pytest.mark.covers("C-05", "G-04", "E-12", "E-13")
def test_prompt_too_long_is_shown_only_when_the_ladder_ends() -> None:
    too_long = failure(Trouble.PROMPT_TOO_LONG)
    play = Play([too_long] * 3)
    assert play.ending == ("prompt_too_long", "window")
    assert play.shown[-1] == Failed(too_long)
    assert sum(isinstance(update, Failed) for update in play.updates) == 1


def test_prompt_too_long_after_a_context_window_stop() -> None:
    play = Play([reply(f"{n}", stop=Stop.CONTEXT_WINDOW) for n in range(3)])
    assert play.ending == ("prompt_too_long", "window")
    assert play.result.text == "012"


@pytest.mark.covers("D-30", "G-15", "B-04")
def test_the_breaker_opens_after_three_failed_summaries_in_a_row() -> None:
    turns = 5
    replies = [reply("", str(n)) for n in range(turns)]
    play = Play(
        [*replies, reply("done")],
        contexts=[FULL] * 20,
        compactions=[False] * 20,
        config=replace(CONFIG, max_turns=20),
    )
    assert [how for how, _ in play.compacts].count("summary") == 3
    assert [how for how, _ in play.compacts].count("trim") == turns + 1
    assert play.state.compaction.failures == 3


@pytest.mark.covers("D-30")
def test_a_summary_that_works_closes_the_breaker_again() -> None:
    # two failures, then one that works; each failed summary is followed by a trim
    outcomes = [False, False, False, False, True]
    play = Play([reply("", "1"), reply("", "2"), reply("done")], contexts=[FULL] * 9, compactions=outcomes)
    assert play.state.compaction.failures == 0


def test_three_compactions_without_progress_end_the_run() -> None:
    # every turn fills the window again at once
    contexts = [FULL, 100] * 3 + [FULL]
    play = Play([reply("", str(n)) for n in range(3)], contexts=contexts)
    assert play.ending == ("prompt_too_long", "refill")
    assert play.result.detail == "the context is full again, soon after 3 compactions in a row"
    assert len(play.compacts) == 3
    assert play.updates[-1:] == [update for update in play.updates if isinstance(update, Failed | Result)]


def test_compactions_with_turns_between_them_go_on_for_ever() -> None:
    pause = [100] * 2
    contexts = [FULL, 100, *pause] * 8
    play = Play([*[reply("", str(n)) for n in range(23)], reply("done")], contexts=contexts)
    assert play.ending == ("completed", "end_turn")
    assert len(play.compacts) == 8
    assert play.state.compaction.streak == 1


@pytest.mark.covers("C-02", "G-07")
def test_image_error() -> None:
    media = failure(Trouble.MEDIA)
    play = Play([media] * 3, contexts=[ContextReady(100, media=1)] * 3)
    assert play.ending == ("image_error", "media")


@pytest.mark.covers("C-01", "D-26")
@pytest.mark.parametrize(("tokens", "ends"), [(176_999, False), (177_000, True), (190_000, True)])
def test_blocking_limit(tokens: int, ends: bool) -> None:
    config = replace(CONFIG, auto_compact=False)
    play = Play([] if ends else [reply("done")], contexts=[tokens], config=config)
    assert play.ending == (("blocking_limit", "window") if ends else ("completed", "end_turn"))
    assert play.result.detail == (f"{tokens:,} tokens in context" if ends else "")


@pytest.mark.covers("C-01")
def test_with_auto_compaction_the_blocking_limit_never_ends_a_run() -> None:
    play = Play([reply("done")], contexts=[199_000] * 3)
    assert play.ending == ("completed", "end_turn")


@pytest.mark.covers("A-11", "A-10")
@pytest.mark.parametrize("auto", [True, False])
def test_the_run_that_writes_a_summary_is_exempt(auto: bool) -> None:
    config = replace(CONFIG, source=RunSource.COMPACT, auto_compact=auto)
    play = Play([reply("summary")], contexts=[199_000], config=config)
    assert play.ending == ("completed", "end_turn")
    assert play.compacts == []


@pytest.mark.covers("C-10", "B-32", "H-08", "M-07", "B-10", "A-22", "A-23", "A-24")
def test_max_turns_runs_the_tools_of_the_last_call() -> None:
    play = Play([reply("", "1"), reply("", "2")], config=replace(CONFIG, max_turns=2))
    assert play.ending == ("max_turns", "limit")
    assert play.result.subtype == "error_max_turns"
    assert (play.result.turns, play.result.model_calls, play.result.num_turns) == (2, 2, 3)
    assert play.said[-1] == "result <2>: did 2"
    assert play.updates[-2:] == [MaxTurnsReached(2, 2), play.result]


@pytest.mark.covers("C-09", "I-10", "I-03")
def test_hook_stopped_answers_what_never_ran() -> None:
    play = Play([reply("", "1", "2")], tools=[ToolsDone((result("1", "ok"),), stopped="not on my watch")])
    assert play.ending == ("hook_stopped", "hook")
    assert (play.result.detail, play.result.subtype) == ("not on my watch", "success")
    assert play.said[1:] == ["result <1>: ok", f"synthetic <2>: {NeverRan.STOPPED}"]


@pytest.mark.covers("C-07", "I-09")
def test_stop_hook_prevented() -> None:
    play = Play([reply("done")], hooks=[StopDecision(blocks=("fix it",), prevent="enough")])
    assert play.ending == ("stop_hook_prevented", "hook")
    assert (play.result.detail, play.result.text) == ("enough", "done")
    assert play.said == ["assistant: done"]


@pytest.mark.covers("C-18")
def test_the_tables_of_endings_are_whole() -> None:
    assert len(Terminal) == 10
    assert set(SUBTYPES) == set(Cause)
    assert set(Trouble) - set(GIVE_UP) == {Trouble.NEAR_LIMIT, Trouble.STREAM_CUT}


@pytest.mark.covers("G-13")
def test_no_stop_hooks_after_a_failure() -> None:
    play = Play([failure(Trouble.SERVER)], hooks=["never asked"])
    assert [type(effect).__name__ for effect in play.effects] == ["PrepareContext", "CallModel", "Finish"]
    assert next(play.hooks) == "never asked"


@pytest.mark.covers("D-30")
def test_a_trim_that_works_does_not_close_the_breaker() -> None:
    """Every fourth turn the window is full, the summary fails and the trim works: three summaries, and no more."""
    contexts = [context for _ in range(10) for context in (FULL, 100, 100, 100, 100)]
    play = Play(
        [*[reply("", str(n)) for n in range(39)], reply("done")],
        contexts=contexts,
        compactions=[False, True] * 3 + [True] * 20,
    )
    assert [how for how, _ in play.compacts].count("summary") == 3
    assert play.state.compaction.failures == 3


@pytest.mark.covers("D-29")
def test_between_the_two_thresholds_reactive_compaction_does_the_work() -> None:
    """Auto-compaction is off, the context stands in the gap, and the model says that it is too long."""
    config = replace(CONFIG, auto_compact=False)
    play = Play([failure(Trouble.PROMPT_TOO_LONG), reply("done")], contexts=[FULL, 20_000], config=config)
    assert play.compacts == [("summary", "prompt_too_long")]


def test_a_refill_that_began_with_a_failure_shows_it() -> None:
    too_long = failure(Trouble.PROMPT_TOO_LONG)
    turns = [answer for n in range(3) for answer in (too_long, reply("", str(n)))]
    play = Play([*turns, too_long])
    assert play.ending == ("prompt_too_long", "refill")
    assert play.updates[-2] == Failed(too_long)


def test_continuations_count_as_time_for_the_refill_detector() -> None:
    config = replace(CONFIG, token_budget=500_000)
    play = Play([reply("more", output=600)] * 3, contexts=[FULL, 100] * 3 + [FULL], config=config)
    assert play.ending == ("prompt_too_long", "refill")
    spaced = [FULL, 100, 100, 100] * 5
    calm = Play([reply("more", output=25_000)] * 18, contexts=spaced, config=config)
    assert calm.ending == ("completed", "token_budget")


def test_a_summary_without_money_is_not_started() -> None:
    play = Play([], contexts=[ContextReady(FULL, funds=0), ContextReady(100, funds=0)])
    assert play.compacts == [("trim", "near_limit")]  # that costs nothing
    assert play.ending == ("completed", "budget_usd")
    assert play.result.model_calls == 0


def test_a_summary_reserves_its_money() -> None:
    play = Play([reply("done")], contexts=[ContextReady(FULL, funds=10**12), 100])
    assert play.effects[1] == Compact(CompactionKind.SUMMARY, Trouble.NEAR_LIMIT, FULL * 1_250 + 20_000 * 5_000)


@pytest.mark.covers("H-12")
def test_the_token_limit_holds_for_every_retry() -> None:
    play = Play([reply("x", stop=Stop.PAUSE_TURN)], config=replace(CONFIG, max_tokens=100))
    assert play.ending == ("completed", "token_budget")


@pytest.mark.covers("H-01", "H-06")
def test_only_what_the_model_wrote_for_the_user_counts_as_written() -> None:
    summary = Compacted(before=FULL, after=100, usage=Usage(output=900))
    config = replace(CONFIG, token_budget=1_000)
    withdrawn = reply(output=900)
    play = Play(
        [withdrawn, reply("a", output=600), reply("b", output=600)],
        contexts=[FULL, 100],
        compactions=[summary],
        config=config,
    )
    assert [str(t) for t in play.transitions] == ["auto_compact", "empty_answer_retry", "token_budget_continuation"]
    assert play.state.totals.written == 1_200


@pytest.mark.covers("M-10")
def test_a_reply_that_was_withdrawn_still_says_why_it_stopped() -> None:
    refused = Play([reply(stop=Stop.REFUSAL, id="m1"), reply(stop=Stop.REFUSAL, id="m2")])
    assert (refused.ending, refused.result.stop) == (("completed", "refusal"), "refusal")
    assert refused.shown[-2:] == [Tombstone("m2", Trouble.REFUSAL), Failed(Failure(Trouble.REFUSAL))]


@pytest.mark.covers("H-08")
def test_turns_with_an_invalid_output_count_as_turns() -> None:
    wrong = ToolCall("o", "StructuredOutput", {})
    config = replace(CONFIG, structured_output=True, max_turns=1)
    refused = (result("o", "no", is_error=True), result("1", "ok"))
    play = Play([reply("", wrong, "1")], tools=[refused], config=config)
    assert play.ending == ("max_turns", "limit")
