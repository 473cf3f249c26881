"""One exact test for each reason to go round again: what fired it, what was shown, what was asked next."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.play import CONFIG, FULL, MODEL, SMALL, TINY, Play, compacted, failure, reply
from mainspring.core.config import RESUME, Config
from mainspring.core.effects import CallModel, Compact, CompactionKind, Effect, PrepareContext, Priority, RunTools
from mainspring.core.events import CallFailed, Compacted, ContextReady, Event
from mainspring.core.ladder import GIVE_OUTPUT, GO_ON, LADDER, PICK_UP, SAY_SOMETHING, SEND_AGAIN
from mainspring.core.messages import (
    Defect,
    Origin,
    RedactedThinking,
    ServerBlock,
    Stop,
    Text,
    Thinking,
    ToolCall,
    result,
    user,
)
from mainspring.core.pairing import NeverRan
from mainspring.core.reasons import Transition, Trouble
from mainspring.core.state import (
    MAX_FAILURES,
    Compaction,
    checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    for_next_run,
    restore,
)
from mainspring.core.updates import Appended, Boundary, RequestStarted, Tombstone

PROMPT_TOO_LONG = failure(Trouble.PROMPT_TOO_LONG)
LOW_CAP = replace(CONFIG, max_output=8_000)


def appended(play: Play) -> list[tuple[str, str]]:
    return [
        (u.message.origin if hasattr(u.message, "origin") else "result", u.message.text)
        for u in play.shown
        if isinstance(u, Appended)
    ]


@pytest.mark.covers("B-11", "B-13", "B-14", "B-22", "B-23", "C-11", "B-10")
def test_next_turn() -> None:
    play = Play([reply("look", "1"), reply("done")])
    assert play.transitions == [Transition.NEXT_TURN]
    assert [type(effect) for effect in play.effects[:4]] == [PrepareContext, CallModel, RunTools, PrepareContext]
    assert [update for update in play.updates if isinstance(update, RequestStarted)] == [
        RequestStarted(1, "big"),
        RequestStarted(2, "big", Transition.NEXT_TURN),
    ]
    assert play.said == ["assistant: look <1>", "result <1>: did 1", "assistant: done"]
    assert play.ending == ("completed", "end_turn")
    assert play.result.turns == 2


@pytest.mark.covers("B-14", "B-05", "B-06", "B-07")
def test_next_turn_makes_the_rungs_whole_again() -> None:
    cut = reply("part", stop=Stop.MAX_TOKENS, output=8_000)
    play = Play([cut, cut, reply("", "1"), cut, reply("done")], config=LOW_CAP)
    assert play.transitions == [
        Transition.MAX_OUTPUT_TOKENS_ESCALATE,
        Transition.MAX_OUTPUT_TOKENS_RECOVERY,
        Transition.NEXT_TURN,
        Transition.MAX_OUTPUT_TOKENS_ESCALATE,
    ]
    assert [call.request.max_output for call in play.requests] == [8_000, 64_000, 64_000, 8_000, 64_000]


@pytest.mark.covers("C-12", "G-02", "D-18", "E-10", "E-12", "Q-05")
def test_collapse_drain_retry() -> None:
    staged = ContextReady(100, staged=2)
    play = Play(
        [PROMPT_TOO_LONG, PROMPT_TOO_LONG, reply("done")],
        contexts=[staged, replace(staged, staged=1), replace(staged, staged=0)],
    )
    assert play.transitions == [Transition.COLLAPSE_DRAIN_RETRY] * 2
    assert play.compacts == [("collapse", "prompt_too_long")] * 2
    assert play.shown == [Boundary("collapse", FULL, 20_000, FULL - 20_000)] * 2


@pytest.mark.covers("G-02")
def test_with_no_collapse_staged_the_drain_rung_is_skipped() -> None:
    play = Play([PROMPT_TOO_LONG, reply("done")])
    assert play.transitions == [Transition.REACTIVE_COMPACT_RETRY]


@pytest.mark.covers("G-05")
def test_strip_media_retry() -> None:
    play = Play([PROMPT_TOO_LONG, reply("done")], contexts=[ContextReady(100, media=3)])
    assert play.transitions == [Transition.STRIP_MEDIA_RETRY]
    assert play.compacts == [("strip_media", "prompt_too_long")]


@pytest.mark.covers("C-13", "G-03", "E-10", "E-12", "Q-05")
def test_reactive_compact_retry_is_invisible_when_it_works() -> None:
    play = Play([PROMPT_TOO_LONG, reply("done")])
    assert play.transitions == [Transition.REACTIVE_COMPACT_RETRY]
    assert play.shown == [Boundary("summary", FULL, 20_000, FULL - 20_000)]
    assert play.ending == ("completed", "end_turn")
    assert play.result.model_calls == 3  # the failed call, the summary, the retry


@pytest.mark.covers("G-01", "G-04", "E-10", "E-12", "G-15", "D-21")
def test_the_whole_ladder_of_a_prompt_too_long() -> None:
    play = Play(
        [PROMPT_TOO_LONG] * 7,
        contexts=[ContextReady(100, staged=5 - n, media=1) for n in range(9)],
    )
    assert play.transitions == [
        *[Transition.COLLAPSE_DRAIN_RETRY] * 3,
        Transition.STRIP_MEDIA_RETRY,
        Transition.REACTIVE_COMPACT_RETRY,
        Transition.TRIM_RETRY,
    ]
    assert play.ending == ("prompt_too_long", "window")


@pytest.mark.covers("G-06", "D-21", "G-15")
def test_trim_retry_when_the_summary_itself_fails() -> None:
    play = Play([PROMPT_TOO_LONG, reply("done")], compactions=[False, True])
    assert play.transitions == [Transition.REACTIVE_COMPACT_RETRY, Transition.TRIM_RETRY]
    assert play.compacts == [("summary", "prompt_too_long"), ("trim", "prompt_too_long")]
    assert play.ending == ("completed", "end_turn")


@pytest.mark.covers("G-07", "G-08")
def test_media_errors_strip_the_media_then_compact_on_their_own_account() -> None:
    media = failure(Trouble.MEDIA)
    play = Play([PROMPT_TOO_LONG, media, media, reply("done")], contexts=[100, ContextReady(100, media=1), 100])
    assert play.transitions == [
        Transition.REACTIVE_COMPACT_RETRY,
        Transition.STRIP_MEDIA_RETRY,
        Transition.REACTIVE_COMPACT_RETRY,
    ]
    assert play.compacts[-1] == ("summary", "media")


@pytest.mark.covers("C-14", "G-09", "B-07")
def test_max_output_tokens_escalate_asks_the_same_again_and_withdraws_the_cut_reply() -> None:
    play = Play([reply("cut", stop=Stop.MAX_TOKENS, id="m1"), reply("done")], config=LOW_CAP)
    assert play.transitions == [Transition.MAX_OUTPUT_TOKENS_ESCALATE]
    assert [call.request.max_output for call in play.requests] == [8_000, 64_000]
    assert play.shown == [Tombstone("m1", Trouble.MAX_OUTPUT)]
    assert play.said == ["assistant: done"]


@pytest.mark.covers("G-09")
@pytest.mark.parametrize(("cap", "escalates"), [(8_000, True), (8_192, True), (8_193, False), (None, False)])
def test_only_a_low_cap_is_escalated(cap: int | None, escalates: bool) -> None:
    play = Play([reply("cut", stop=Stop.MAX_TOKENS), reply("done")], config=replace(CONFIG, max_output=cap))
    assert (play.transitions == [Transition.MAX_OUTPUT_TOKENS_ESCALATE]) is escalates


@pytest.mark.covers("G-09")
def test_a_model_that_cannot_say_more_is_not_escalated() -> None:
    terse = replace(MODEL, max_output=8_000)
    play = Play([reply("cut", stop=Stop.MAX_TOKENS), reply("done")], config=replace(CONFIG, model=terse))
    assert play.transitions == [Transition.MAX_OUTPUT_TOKENS_RECOVERY]


@pytest.mark.covers("C-15", "G-10", "B-05")
def test_max_output_tokens_recovery_keeps_the_text_and_asks_to_resume() -> None:
    play = Play([reply("first half", stop=Stop.MAX_TOKENS, output=64_000), reply("second half")])
    assert play.transitions == [Transition.MAX_OUTPUT_TOKENS_RECOVERY]
    assert play.said == ["assistant: first half", f"recovery: {RESUME}", "assistant: second half"]
    assert appended(play) == [("recovery", RESUME)]


@pytest.mark.covers("G-10", "G-15")
def test_output_recovery_ends_after_three() -> None:
    play = Play([reply(f"part {n}", stop=Stop.MAX_TOKENS, output=64_000) for n in range(4)])
    assert play.transitions == [Transition.MAX_OUTPUT_TOKENS_RECOVERY] * 3
    assert play.ending == ("completed", "output_limit")


@pytest.mark.covers("G-12")
@pytest.mark.parametrize("output", [1, 499, 500, 64_000])
def test_output_recovery_is_given_three_continuations_however_little_they_bring(output: int) -> None:
    play = Play([reply("a", stop=Stop.MAX_TOKENS, output=output) for _ in range(4)])
    assert play.transitions == [Transition.MAX_OUTPUT_TOKENS_RECOVERY] * 3
    assert play.ending == ("completed", "output_limit")


def test_a_reply_that_spent_all_its_output_on_thinking_is_withdrawn_and_asked_to_go_on() -> None:
    thought = reply(blocks=(Thinking("hm"),), stop=Stop.MAX_TOKENS, output=64_000, id="m1")
    play = Play([thought, reply("done")])
    assert play.shown[0] == Tombstone("m1", Trouble.MAX_OUTPUT)
    assert play.said == [f"recovery: {RESUME}", "assistant: done"]


def test_a_cut_call_is_never_run_and_the_model_is_told() -> None:
    cut = ToolCall("2", "Write", {}, Defect.CUT)
    play = Play([reply("writing", cut, stop=Stop.MAX_TOKENS, output=9_000), reply("done")])
    assert play.transitions == [Transition.MAX_OUTPUT_TOKENS_RECOVERY]
    assert play.said[:3] == ["assistant: writing <2>", f"synthetic <2>: {NeverRan.CUT}", f"recovery: {RESUME}"]


def test_finished_calls_before_a_cut_one_do_run() -> None:
    cut = ToolCall("2", "Write", {}, Defect.CUT)
    play = Play([reply("", "1", cut, stop=Stop.MAX_TOKENS), reply("done")])
    assert [effect.calls for effect in play.effects if isinstance(effect, RunTools)] == [
        (ToolCall("1", "Read", {"path": "1"}),)
    ]
    assert play.said[1:3] == ["result <1>: did 1", f"synthetic <2>: {NeverRan.CUT}"]
    assert play.transitions == [Transition.NEXT_TURN]


@pytest.mark.covers("C-16", "I-07", "Q-04")
def test_stop_hook_blocking() -> None:
    play = Play([reply("done?"), reply("fixed")], hooks=["3 lint errors"])
    assert play.transitions == [Transition.STOP_HOOK_BLOCKING]
    assert play.said == ["assistant: done?", "hook: 3 lint errors", "assistant: fixed"]
    assert appended(play) == [("hook", "3 lint errors")]
    assert play.ending == ("completed", "end_turn")


@pytest.mark.covers("C-17", "H-02", "H-06")
def test_token_budget_continuation() -> None:
    play = Play(
        [reply("a", output=600), reply("b", output=300)],
        config=replace(CONFIG, token_budget=1_000),
    )
    assert play.transitions == [Transition.TOKEN_BUDGET_CONTINUATION]
    words = "You have written 600 of the 1,000 tokens asked for (60 %). Keep working; do not summarize yet."
    assert appended(play) == [("budget", words)]
    assert play.ending == ("completed", "token_budget")


@pytest.mark.covers("B-17", "B-04", "D-25", "D-32", "D-35")
def test_auto_compact() -> None:
    play = Play([reply("done")], contexts=[FULL, 20_000])
    assert play.transitions == [Transition.AUTO_COMPACT]
    assert play.effects[1] == Compact(CompactionKind.SUMMARY, Trouble.NEAR_LIMIT)
    assert play.shown == [Boundary("summary", FULL, 20_000, FULL - 20_000)]
    assert play.result.model_calls == 2  # the summary and the answer


@pytest.mark.covers("D-32")
def test_after_a_summary_that_leaves_the_context_full_the_model_is_asked() -> None:
    play = Play([reply("done")], contexts=[FULL] * 2)
    assert play.transitions == [Transition.AUTO_COMPACT]
    assert play.compacts == [("summary", "near_limit")]  # no trim on top of it
    assert play.ending == ("completed", "end_turn")


@pytest.mark.covers("D-21")
def test_auto_trim_when_the_summary_fails() -> None:
    play = Play([reply("done")], contexts=[FULL, 100], compactions=[False, True])
    assert play.transitions == [Transition.AUTO_COMPACT, Transition.AUTO_TRIM]
    assert play.compacts == [("summary", "near_limit"), ("trim", "near_limit")]


def test_near_the_limit_with_nothing_that_helps_the_model_is_asked_all_the_same() -> None:
    play = Play([reply("done")], contexts=[FULL], compactions=[False, False])
    assert play.transitions == [Transition.AUTO_COMPACT, Transition.AUTO_TRIM]
    assert play.ending == ("completed", "end_turn")


@pytest.mark.parametrize(
    ("after", "worked"),
    [(153_000, True), (153_001, False), (FULL, False), (FULL + 1, False)],
)
def test_a_summary_that_frees_less_than_a_tenth_has_failed(after: int, worked: bool) -> None:
    play = Play([reply("done")], contexts=[FULL, 100], compactions=[compacted(after=after), True])
    assert (play.transitions == [Transition.AUTO_COMPACT]) is worked
    assert play.state.compaction.failures == (0 if worked else 1)
    assert len(play.compacts) == (1 if worked else 2)


@pytest.mark.parametrize(
    ("context", "after", "worked"),
    [
        (ContextReady(100, staged=1), 168_300, True),  # a hundredth is enough for a collapse
        (ContextReady(100, staged=1), 168_301, False),
        (ContextReady(100, media=1), FULL, True),  # and nothing for stripped media,
        (ContextReady(100, media=1), FULL + 1, False),  # but it must not grow
    ],
)
def test_a_collapse_or_stripped_media_may_free_less(context: ContextReady, after: int, worked: bool) -> None:
    play = Play([PROMPT_TOO_LONG, reply("done")], contexts=[context] * 3, compactions=[compacted(after=after)])
    assert len(play.compacts) == (1 if worked else 2)


def test_context_window_retry_keeps_what_was_said_and_makes_room() -> None:
    play = Play([reply("half", stop=Stop.CONTEXT_WINDOW), reply("rest")])
    assert play.transitions == [Transition.CONTEXT_WINDOW_RETRY]
    assert play.compacts == [("summary", "context_window")]
    assert play.said == ["assistant: half", f"recovery: {RESUME}", "assistant: rest"]


def test_context_window_retry_falls_to_a_trim_and_asks_only_once() -> None:
    play = Play([reply("half", stop=Stop.CONTEXT_WINDOW), reply("rest")], compactions=[False, True])
    assert play.transitions == [Transition.CONTEXT_WINDOW_RETRY, Transition.TRIM_RETRY]
    assert play.said == ["assistant: half", f"recovery: {RESUME}", "assistant: rest"]


def test_context_window_stop_with_nothing_said_is_withdrawn() -> None:
    play = Play([reply(stop=Stop.CONTEXT_WINDOW, id="m1"), reply("answer")])
    assert play.said == ["assistant: answer"]
    assert play.shown[0] == Tombstone("m1", Trouble.CONTEXT_WINDOW)


@pytest.mark.covers("E-05", "E-16")
def test_truncated_response_recovery_keeps_finished_blocks_and_never_runs_the_cut_call() -> None:
    cut = CallFailed(
        failure(Trouble.NETWORK, inside_call=True), kept=reply("I will write", id="m1", stop=Stop.UNFINISHED)
    )
    play = Play([cut, reply("done")])
    assert play.transitions == [Transition.TRUNCATED_RESPONSE_RECOVERY]
    assert play.said == ["assistant: I will write", f"recovery: {GO_ON}", "assistant: done"]


@pytest.mark.covers("E-05", "E-07", "E-16")
def test_stream_retry_withdraws_a_reply_cut_in_its_text() -> None:
    cut = CallFailed(failure(Trouble.NETWORK), kept=reply("Once upon", id="m1", stop=Stop.UNFINISHED))
    play = Play([cut, reply("done")])
    assert play.transitions == [Transition.STREAM_RETRY]
    assert play.shown == [Tombstone("m1", Trouble.STREAM_CUT)]
    assert play.said == ["assistant: done"]


def test_a_stream_cut_inside_a_call_with_nothing_finished_is_retried() -> None:
    cut = CallFailed(failure(Trouble.SERVER, inside_call=True), kept=reply(id="m1", stop=Stop.UNFINISHED))
    assert Play([cut, reply("done")]).transitions == [Transition.STREAM_RETRY]


def test_a_call_that_was_finished_before_the_cut_is_kept_and_run_once() -> None:
    cut = CallFailed(failure(Trouble.OVERLOADED), kept=reply("look", "1", stop=Stop.UNFINISHED))
    play = Play([cut, reply("done")])
    assert play.transitions == [Transition.NEXT_TURN]
    assert play.said == ["assistant: look <1>", "result <1>: did 1", "assistant: done"]
    assert play.shown == []


@pytest.mark.covers("E-04", "E-05", "E-09", "G-20", "G-21")
def test_model_fallback_after_overload() -> None:
    play = Play([failure(Trouble.OVERLOADED), reply("done")], config=replace(CONFIG, fallbacks=(SMALL,)))
    assert play.transitions == [Transition.MODEL_FALLBACK]
    assert [(r.request.model, r.request.overload_tries) for r in play.requests] == [("big", 3), ("small", 10)]
    assert play.shown == []


@pytest.mark.covers("E-05", "E-06", "E-07")
@pytest.mark.parametrize(("kind", "attempts"), [(Trouble.SERVER, 10), (Trouble.OVERLOADED, 3)])
def test_model_fallback_after_a_stream_that_keeps_breaking(kind: Trouble, attempts: int) -> None:
    """As often as a reply that never began: overload is given three attempts while there is another model."""
    cuts = [CallFailed(failure(kind), kept=reply("x", id=f"m{n}")) for n in range(attempts)]
    play = Play([*cuts, reply("done")], config=replace(CONFIG, fallbacks=(SMALL,)))
    assert play.transitions == [Transition.STREAM_RETRY] * (attempts - 1) + [Transition.MODEL_FALLBACK]
    assert play.shown == [Tombstone(f"m{n}", Trouble.STREAM_CUT) for n in range(attempts)]
    assert [r.request.model for r in play.requests] == ["big"] * attempts + ["small"]
    assert play.said == ["assistant: done"]  # nothing of the failed attempts is left
    told = [(r.request.retried.attempts, r.request.retried.most) for r in play.requests if r.request.retried]
    assert told == [(n, attempts) for n in range(1, attempts)]
    assert play.requests[-1].request.retried is None  # the other model is asked for the first time


@pytest.mark.covers("E-05", "E-16")
@pytest.mark.parametrize("retries", [0, 1, 4, 9, 20])
def test_a_stream_that_keeps_breaking_is_asked_for_up_to_the_retry_limit(retries: int) -> None:
    cuts = [CallFailed(failure(Trouble.NETWORK), kept=reply("x", id=f"m{n}")) for n in range(retries + 1)]
    config = replace(CONFIG, max_retries=retries)
    assert Play(cuts, config=config).ending == ("model_error", "network")
    assert Play([*cuts[1:], reply("done")], config=config).ending == ("completed", "end_turn")


def test_both_ways_to_go_on_after_a_cut_share_one_count() -> None:
    """Three times what was said before the cut call is kept; the count that is shown goes on all the while."""
    cuts = [CallFailed(failure(Trouble.NETWORK, inside_call=True), kept=reply("x", id=f"m{n}")) for n in range(10)]
    play = Play(cuts)
    assert play.transitions == [Transition.TRUNCATED_RESPONSE_RECOVERY] * 3 + [Transition.STREAM_RETRY] * 6
    assert [r.request.retried.attempts for r in play.requests if r.request.retried] == list(range(1, 10))
    assert play.ending == ("model_error", "network")


class Full(Play):
    """A prompt that finds the window full. Its summaries fail, or work; everything else makes room."""

    def __init__(self, after: Play | None = None, config: Config = CONFIG, *, works: bool = False) -> None:
        self.works = works
        super().__init__([reply("done")], contexts=[FULL, 100], after=after, config=config)

    def answer(self, effect: Effect) -> Event:
        if isinstance(effect, Compact):
            return compacted(worked=self.works or effect.how is not CompactionKind.SUMMARY)
        return super().answer(effect)


def full_runs(runs: int, first: Play | None = None, config: Config = CONFIG, *, works: bool = False) -> list[Play]:
    plays: list[Play] = []
    for _ in range(runs):
        plays.append(Full(plays[-1] if plays else first, config, works=works))
    return plays


def summaries(plays: list[Play]) -> int:
    return sum(how is CompactionKind.SUMMARY for play in plays for how, _ in play.compacts)


@pytest.mark.covers("D-30")
def test_the_breaker_of_compaction_belongs_to_the_session() -> None:
    """Sixty-four prompts that each find the window full: three failed summaries in all."""
    plays = full_runs(64)
    assert summaries(plays) == MAX_FAILURES
    assert all(play.ending == ("completed", "end_turn") for play in plays)


@pytest.mark.covers("D-30", "D-36")
def test_the_breaker_closes_when_a_summary_works_that_the_user_asked_for() -> None:
    open_ = full_runs(4)[-1]
    failed = Play(compactions=[False], after=open_, compact="")
    assert failed.ending == ("model_error", "not_compacted")
    assert summaries(full_runs(1, failed)) == 0
    made = Play(compactions=[True], after=failed, compact="")
    assert made.ending == ("completed", "compacted")
    assert summaries(full_runs(2, made, works=True)) == 2


@pytest.mark.covers("D-30")
def test_the_breaker_is_of_one_model() -> None:
    open_ = full_runs(4)[-1]
    assert summaries(full_runs(5, open_, replace(CONFIG, model=SMALL))) == MAX_FAILURES


@pytest.mark.covers("D-30")
def test_the_breaker_is_in_the_checkpoint() -> None:
    open_ = full_runs(4)[-1]
    saved = decode_checkpoint(encode_checkpoint(checkpoint(open_.state)))
    assert saved is not None
    assert restore(saved, open_.state.history).compaction == open_.state.compaction
    assert for_next_run(open_.state.compaction) == Compaction(MAX_FAILURES, "big")


def test_a_failed_summary_that_the_user_asked_for_does_not_open_the_breaker() -> None:
    play = Play([reply("one")])
    for _ in range(5):
        play = Play(compactions=[False], after=play, compact="")
    assert play.state.compaction.failures == 0


def test_attempts_that_failed_before_a_reply_began_count_too() -> None:
    """The provider counts on from what it was told, and says which attempt broke off."""
    first = CallFailed(failure(Trouble.NETWORK), kept=reply("x", id="m1"), attempt=4)
    second = CallFailed(failure(Trouble.NETWORK), kept=reply("x", id="m2"), attempt=9)
    play = Play([first, second, reply("done")])
    assert [r.request.retried.attempts for r in play.requests if r.request.retried] == [4, 9]
    last = CallFailed(failure(Trouble.NETWORK), kept=reply("x", id="m3"), attempt=10)
    assert Play([first, last]).ending == ("model_error", "network")


def test_every_retry_reserves_money_anew() -> None:
    """Each attempt that broke off has cost something; the next is paid for out of what is left, or is not started."""
    cuts = [CallFailed(failure(Trouble.NETWORK), kept=reply("x", id=f"m{n}"), funds=10**7 - n) for n in range(1, 4)]
    play = Play([*cuts, reply("done")], contexts=[ContextReady(1_000, funds=10**7)])
    reserves = [r.request.reserve for r in play.requests]
    assert reserves == sorted(reserves, reverse=True)
    assert all(0 < reserve <= 10**7 - n for n, reserve in enumerate(reserves))
    poor = Play([replace(cuts[0], funds=5)], contexts=[ContextReady(1_000, funds=10**7)])
    assert poor.ending == ("completed", "budget_usd")


def test_the_next_model_of_the_chain_has_all_its_attempts_and_progress_gives_them_back() -> None:
    cut = [CallFailed(failure(Trouble.NETWORK), kept=reply("x", id=f"m{n}")) for n in range(30)]
    play = Play(cut[:20], config=replace(CONFIG, fallbacks=(SMALL,)))
    assert [r.request.model for r in play.requests] == ["big"] * 10 + ["small"] * 10
    assert play.ending == ("model_error", "network")
    done = Play([*cut[:9], reply("", "1"), *cut[9:18], reply("done")])
    assert done.ending == ("completed", "end_turn")
    assert done.requests[10].request.retried is None


def test_a_stream_retry_that_runs_into_something_else_does_not_wait() -> None:
    cut = CallFailed(failure(Trouble.NETWORK), kept=reply("x", id="m"))
    play = Play([cut, reply("half", stop=Stop.MAX_TOKENS), reply("done")])
    assert [r.request.retried is not None for r in play.requests] == [False, True, False]


@pytest.mark.covers("E-12")
@pytest.mark.parametrize("kind", [Trouble.INVALID_REQUEST, Trouble.AUTH])
def test_an_error_in_mid_stream_that_does_not_pass_is_not_asked_again(kind: Trouble) -> None:
    play = Play([CallFailed(failure(kind), kept=reply("half", id="m"))], config=replace(CONFIG, fallbacks=(SMALL,)))
    assert play.ending == ("model_error", kind)
    assert play.said == ["assistant: half"]


@pytest.mark.parametrize("kind", [Trouble.OVERLOADED, Trouble.RATE_LIMIT, Trouble.SERVER, Trouble.NETWORK])
def test_the_chain_of_fallbacks_is_walked_once_and_the_primary_returns_with_the_next_run(kind: Trouble) -> None:
    config = replace(CONFIG, fallbacks=(SMALL, TINY))
    play = Play([failure(kind)] * 3, config=config)
    assert [r.request.model for r in play.requests] == ["big", "small", "tiny"]
    assert play.ending == ("model_error", kind)
    again = Play([reply("done")], config=config, after=play)
    assert [r.request.model for r in again.requests] == ["big"]


def test_a_fallback_stays_for_the_run_and_its_own_window_counts() -> None:
    config = replace(CONFIG, fallbacks=(TINY,))
    play = Play([failure(Trouble.OVERLOADED), reply("", "1"), reply("done")], contexts=[70_000] * 3, config=config)
    assert [r.request.model for r in play.requests] == ["big", "tiny", "tiny"]
    assert Transition.AUTO_COMPACT in play.transitions  # 70,000 is much for a window of 100,000


def test_empty_answer_retry() -> None:
    play = Play([reply(id="m1"), reply("here")])
    assert play.transitions == [Transition.EMPTY_ANSWER_RETRY]
    assert play.shown[0] == Tombstone("m1", Trouble.EMPTY)
    assert appended(play) == [("recovery", SAY_SOMETHING)]
    assert play.said == [f"recovery: {SAY_SOMETHING}", "assistant: here"]


def test_blank_text_is_an_empty_answer() -> None:
    assert Play([reply(" \n"), reply("here")]).transitions == [Transition.EMPTY_ANSWER_RETRY]


def test_thinking_only_retry() -> None:
    play = Play([reply(blocks=(Thinking("hm", "sig"),), id="m1"), reply("here")])
    assert play.transitions == [Transition.THINKING_ONLY_RETRY]
    assert play.shown[0] == Tombstone("m1", Trouble.THINKING_ONLY)


def test_malformed_tool_use_retry_answers_the_call_with_what_was_wrong() -> None:
    broken = ToolCall("1", "Edit", {}, Defect.MALFORMED)
    play = Play([reply("", broken), reply("done")])
    assert play.transitions == [Transition.MALFORMED_TOOL_USE_RETRY]
    assert play.said == ["assistant:  <1>", f"synthetic <1>: {NeverRan.MALFORMED}", "assistant: done"]


def test_malformed_tool_use_retry_when_the_provider_could_not_read_a_call_at_all() -> None:
    play = Play([CallFailed(failure(Trouble.MALFORMED_CALL), kept=reply("I call", id="m1")), reply("done")])
    assert play.transitions == [Transition.MALFORMED_TOOL_USE_RETRY]
    assert play.said == ["assistant: I call", f"recovery: {SEND_AGAIN}", "assistant: done"]


def test_a_malformed_call_beside_a_good_one_does_not_hold_it_up() -> None:
    broken = ToolCall("2", "Edit", {}, Defect.MALFORMED)
    play = Play([reply("", "1", broken), reply("done")])
    assert play.transitions == [Transition.NEXT_TURN]
    assert play.said[1:3] == ["result <1>: did 1", f"synthetic <2>: {NeverRan.MALFORMED}"]


def test_refusal_retry() -> None:
    play = Play([reply("no", stop=Stop.REFUSAL, id="m1"), reply("yes")])
    assert play.transitions == [Transition.REFUSAL_RETRY]
    assert play.shown == [Tombstone("m1", Trouble.REFUSAL)]
    assert play.said == ["assistant: yes"]


def test_pause_turn_continue_hands_the_reply_back_as_it_is() -> None:
    at_work = (Text("searching"), ServerBlock("server_tool_use", "{}"))
    play = Play([reply(blocks=at_work, stop=Stop.PAUSE_TURN), reply("found")])
    assert play.transitions == [Transition.PAUSE_TURN_CONTINUE]
    assert play.said == ["assistant: searching", "assistant: found"]
    assert play.shown == []


def test_pause_turn_continue_asks_a_model_that_was_not_at_work_to_go_on() -> None:
    """A request cannot end with words of the model; what makes it whole is part of the history, so it stays."""
    play = Play([reply("searching", stop=Stop.PAUSE_TURN), reply("found")])
    assert play.transitions == [Transition.PAUSE_TURN_CONTINUE]
    assert play.said == ["assistant: searching", f"recovery: {PICK_UP}", "assistant: found"]


STRUCTURED = replace(CONFIG, structured_output=True)


@pytest.mark.covers("M-16")
def test_structured_output_retry() -> None:
    given = ToolCall("1", "StructuredOutput", {"answer": 42})
    play = Play([reply("forty-two"), reply("", given)], config=STRUCTURED)
    assert play.transitions == [Transition.STRUCTURED_OUTPUT_RETRY]
    assert play.said[:2] == ["assistant: forty-two", f"recovery: {GIVE_OUTPUT}"]
    assert play.ending == ("completed", "end_turn")
    assert play.result.output == {"answer": 42}
    assert play.result.text == '{"answer":42}'


@pytest.mark.covers("M-16")
def test_an_invalid_structured_output_is_tried_again_without_more_words() -> None:
    wrong, right = (ToolCall(id, "StructuredOutput", {"answer": id}) for id in "12")
    refused = (result("1", "answer: expected a number", is_error=True),)
    play = Play([reply("", wrong), reply("", right)], tools=[refused], config=STRUCTURED)
    assert play.transitions == [Transition.STRUCTURED_OUTPUT_RETRY]
    assert play.said[1] == "result <1>: answer: expected a number"
    assert play.result.output == {"answer": "2"}


def test_work_before_the_structured_output_goes_on_as_usual() -> None:
    given = ToolCall("2", "StructuredOutput", {})
    play = Play([reply("", "1"), reply("", given)], config=STRUCTURED)
    assert play.transitions == [Transition.NEXT_TURN]
    assert play.result.output == {}


@pytest.mark.covers("B-29")
def test_a_turn_with_a_sleep_reaches_further_down_the_inbox() -> None:
    play = Play([reply("", ToolCall("1", "Sleep", {})), reply("", "2"), reply("done")])
    prepared = [effect for effect in play.effects if isinstance(effect, PrepareContext)]
    assert [effect.take for effect in prepared] == [Priority.NEXT, Priority.LATER, Priority.NEXT]


@pytest.mark.covers("C-18")
def test_every_transition_is_reached_by_a_rung_or_is_one_of_the_three_others() -> None:
    rungs = {rung.name for row in LADDER.values() for rung in row}
    assert set(Transition) - rungs == {
        Transition.NEXT_TURN,
        Transition.STOP_HOOK_BLOCKING,
        Transition.TOKEN_BUDGET_CONTINUATION,
    }
    assert set(LADDER) == set(Trouble)


def test_near_the_limit_after_a_recovery_the_model_is_still_asked() -> None:
    """The retry that a reactive compaction made possible must happen, even if the context stayed near its limit."""
    play = Play([PROMPT_TOO_LONG, reply("done")], contexts=[100, FULL], compactions=[True, False])
    assert play.compacts == [("summary", "prompt_too_long"), ("summary", "near_limit")]
    assert play.ending == ("completed", "end_turn")


def test_when_no_compaction_helps_the_failure_comes_out() -> None:
    play = Play([PROMPT_TOO_LONG], compactions=[False, False])
    assert play.transitions == [Transition.REACTIVE_COMPACT_RETRY, Transition.TRIM_RETRY]
    assert play.ending == ("prompt_too_long", "window")
    assert play.result.model_calls == 2  # the failed call and the failed summary


@pytest.mark.covers("B-17", "B-21", "B-23", "B-25")
def test_the_phases_of_a_turn_in_their_order() -> None:
    """Pre-flight, call, recovery, tools, results with what was queued meanwhile, and the check whether to go on."""
    memo = replace(user("a file changed", Origin.ATTACHMENT), id="memo")
    play = Play(
        [PROMPT_TOO_LONG, reply("look", "1"), reply("done")],
        contexts=[100, 100, ContextReady(100, injected=(memo,))],
    )
    assert [type(effect).__name__ for effect in play.effects] == [
        *("PrepareContext", "CallModel", "Compact"),
        *("PrepareContext", "CallModel", "RunTools"),
        *("PrepareContext", "CallModel", "RunStopHooks", "Finish"),
    ]
    assert play.said == ["assistant: look <1>", "result <1>: did 1", "attachment: a file changed", "assistant: done"]


@pytest.mark.covers("B-16")
def test_the_seven_reasons_of_the_checklist_come_first() -> None:
    """B-16 names seven; Z-16 lets further ones stand behind them, each with a counter of its own."""
    assert [str(name) for name in Transition][:7] == [
        "next_turn",
        "collapse_drain_retry",
        "reactive_compact_retry",
        "max_output_tokens_escalate",
        "max_output_tokens_recovery",
        "stop_hook_blocking",
        "token_budget_continuation",
    ]


@pytest.mark.covers("B-06", "B-15")
def test_a_reactive_compaction_leaves_its_guard_and_no_failures_behind() -> None:
    play = Play([PROMPT_TOO_LONG, reply("done")])
    assert play.state.climbed == ((Trouble.PROMPT_TOO_LONG, Transition.REACTIVE_COMPACT_RETRY),)
    assert play.state.compaction == Compaction(failures=0, streak=1, last=1)


@pytest.mark.covers("G-06")
def test_without_a_model_there_is_still_a_way_down() -> None:
    """The breaker is open: a full context is trimmed, and no summary is asked for."""
    play = Play(
        [*[reply("", str(n)) for n in range(3)], PROMPT_TOO_LONG, reply("done")],
        contexts=[FULL, FULL, FULL, 100],
        compactions=[False] * 6 + [True],
        config=replace(CONFIG, max_turns=9),
    )
    assert play.compacts[-1] == ("trim", "prompt_too_long")
    assert [how for how, _ in play.compacts].count("summary") == 3


def test_a_collapse_that_did_not_help_is_not_tried_again() -> None:
    play = Play([PROMPT_TOO_LONG, reply("done")], contexts=[ContextReady(100, staged=3)], compactions=[False, True])
    assert play.compacts == [("collapse", "prompt_too_long"), ("summary", "prompt_too_long")]


def test_a_compaction_that_reports_no_size_is_none() -> None:
    play = Play([PROMPT_TOO_LONG, reply("done")], compactions=[Compacted(), True])
    assert play.transitions == [Transition.REACTIVE_COMPACT_RETRY, Transition.TRIM_RETRY]


def test_a_paused_turn_that_has_only_thought_is_handed_back_too() -> None:
    thought = reply(blocks=(Thinking("hm", "sig"), ServerBlock("web_search", "{}")), stop=Stop.PAUSE_TURN)
    play = Play([thought, reply("found")])
    assert play.transitions == [Transition.PAUSE_TURN_CONTINUE]
    assert play.said == ["assistant: ", "assistant: found"]
    assert play.shown == []


def test_hidden_thinking_counts_as_thinking() -> None:
    play = Play([reply(blocks=(RedactedThinking("x"),)), reply("here")])
    assert play.transitions == [Transition.THINKING_ONLY_RETRY]


def test_an_escalated_cap_does_not_outlive_the_model_it_was_for() -> None:
    cut = reply("x", stop=Stop.MAX_TOKENS, output=8_000)
    play = Play([cut, cut, reply("done")], contexts=[100, ContextReady(100, model=TINY)], config=LOW_CAP)
    assert [(r.request.model, r.request.max_output) for r in play.requests] == [
        ("big", 8_000),
        ("big", 64_000),
        ("tiny", 8_000),
    ]


def test_a_fallback_outlasts_the_users_earlier_choice_but_not_a_new_one() -> None:
    chosen, other = ContextReady(100, model=SMALL), ContextReady(100, model=replace(SMALL, name="other"))
    play = Play(
        [failure(Trouble.OVERLOADED), reply("", "1"), reply("done")],
        contexts=[chosen, chosen, other],
        config=replace(CONFIG, fallbacks=(TINY,)),
    )
    assert [r.request.model for r in play.requests] == ["small", "tiny", "other"]


@pytest.mark.covers("O-10")
def test_without_reactive_compaction_turns_are_trimmed_at_once() -> None:
    config = replace(CONFIG, reactive_compact=False)
    play = Play([failure(Trouble.PROMPT_TOO_LONG), reply("done")], compactions=[True], config=config)
    assert [how for how, _ in play.compacts] == ["trim"]
    near = Play([reply("done")], contexts=[FULL, 100], compactions=[True], config=config)
    assert [how for how, _ in near.compacts] == ["summary"]
