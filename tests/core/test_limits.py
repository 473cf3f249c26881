"""Budgets, the progress guard, and the number that law 1 promises."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.play import CONFIG, FULL, MODEL, Play, compacted, failure, reply
from mainspring.core.config import Config
from mainspring.core.effects import AnnouncedBudget
from mainspring.core.ladder import LADDER, most_model_calls
from mainspring.core.limits import (
    ADVICE,
    budget_goes_on,
    continue_budget,
    fingerprint,
    most_continuations,
    nudge,
    watch,
)
from mainspring.core.messages import Image, Stop, ToolCall, ToolResult, result
from mainspring.core.reasons import Trouble
from mainspring.core.state import Budget, Repeat


def asked(budget: int | None) -> Config:
    return replace(CONFIG, token_budget=budget)


@pytest.mark.covers("H-01", "H-04", "H-06")
def test_the_model_goes_on_until_nine_tenths_are_written() -> None:
    play = Play([reply("", output=9_000, blocks=(reply("x").blocks[0],)) for _ in range(10)], config=asked(100_000))
    assert play.result.usage.output == 90_000
    assert play.ending == ("completed", "token_budget")


@pytest.mark.covers("H-04")
@pytest.mark.parametrize(("written", "goes_on"), [(89_999, True), (90_000, False), (90_001, False)])
def test_exactly_nine_tenths_stop(written: int, goes_on: bool) -> None:
    assert budget_goes_on(Budget(), written, 100_000) is goes_on


@pytest.mark.covers("H-05")
@pytest.mark.parametrize(
    ("continuations", "last", "current", "goes_on"),
    [
        (2, 0, 0, True),  # too early to tell
        (3, 499, 499, False),
        (3, 500, 499, True),
        (3, 499, 500, True),
        (9, 0, 0, False),
    ],
)
def test_diminishing_returns(continuations: int, last: int, current: int, goes_on: bool) -> None:
    budget = Budget(continuations, at=1_000, delta=last)
    assert budget_goes_on(budget, 1_000 + current, 1_000_000) is goes_on


@pytest.mark.covers("H-05", "H-02")
def test_a_model_with_nothing_to_add_is_asked_three_times() -> None:
    play = Play([reply("that is all", output=10)] * 4, config=asked(500_000))
    assert [str(t) for t in play.transitions] == ["token_budget_continuation"] * 3
    assert play.ending == ("completed", "token_budget")


def test_each_look_remembers_what_was_new() -> None:
    assert continue_budget(Budget(1, at=100, delta=7), 350) == Budget(2, at=350, delta=250)
    assert nudge(600, 1_000).startswith("You have written 600 of the 1,000 tokens asked for (60 %)")
    assert "(99 %)" in nudge(999, 1_000)


@pytest.mark.covers("H-03")
def test_sub_agents_never_continue() -> None:
    config = replace(asked(500_000), source="agent:reviewer")
    assert Play([reply("done")], config=config).ending == ("completed", "end_turn")


@pytest.mark.covers("H-07")
def test_without_a_budget_the_check_is_skipped() -> None:
    assert Play([reply("done")], config=asked(None)).ending == ("completed", "end_turn")


def test_a_continuation_makes_the_rungs_whole_and_lets_hooks_look_again() -> None:
    play = Play(
        [reply("", output=1), reply("a", output=1), reply("b", output=700), *[reply("c", output=1)] * 3],
        hooks=["no"],
        config=asked(100_000),
    )
    assert [str(t) for t in play.transitions][:3] == [
        "empty_answer_retry",
        "stop_hook_blocking",
        "token_budget_continuation",
    ]
    assert play.state.climbed == ()
    assert play.state.stop_hook_active is False


@pytest.mark.covers("A-13", "D-34")
def test_the_task_budget_is_carried_over_a_compaction() -> None:
    play = Play(
        [reply("", "1"), reply("", "2"), reply("", "3"), reply("done")],
        contexts=[100, FULL, 100, 100, FULL, 100],
        compactions=[compacted(before=170_000), compacted(before=900_000, after=1)],
        config=replace(CONFIG, task_budget=1_000_000),
    )
    assert [call.request.task_budget for call in play.requests] == [
        AnnouncedBudget(1_000_000, 1_000_000),
        AnnouncedBudget(1_000_000, 830_000),
        AnnouncedBudget(1_000_000, 830_000),
        AnnouncedBudget(1_000_000, 0),
    ]


@pytest.mark.covers("A-13")
def test_without_a_task_budget_none_is_sent() -> None:
    assert Play([reply("done")]).requests[0].request.task_budget is None


# --- the progress guard -----------------------------------------------------------------------------

SAME = ToolCall("1", "Read", {"path": "x"})


def stuck(times: int, name: str = "Read") -> Play:
    replies = [reply("", ToolCall(str(n), name, {"path": "x"})) for n in range(times)]
    results = [(result(str(n), "no such file", is_error=True),) for n in range(times)]
    ends = times >= 20 and name == "Read"
    return Play(replies if ends else [*replies, reply("done")], tools=results)


def test_the_tenth_repetition_is_advised_against_and_the_twentieth_ends_the_run() -> None:
    play = stuck(20)
    advice = [line for line in play.said if line.startswith("advice")]
    assert advice == [f"advice: {ADVICE.format(times=10)}"]
    assert play.ending == ("completed", "no_progress")
    assert play.result.subtype == "error_during_execution"
    assert play.result.detail == "the same call with the same result 20 times in a row"
    assert play.result.turns == 20
    assert stuck(19).ending == ("completed", "end_turn")
    assert not [line for line in stuck(9).said if line.startswith("advice")]


def test_patient_tools_may_repeat_themselves() -> None:
    assert stuck(30, "Sleep").ending == ("completed", "end_turn")
    assert stuck(30, "BashOutput").ending == ("completed", "end_turn")


def test_another_call_in_between_starts_the_count_again() -> None:
    results = {"1": result("1", "same"), "2": result("2", "other"), "3": result("3", "zz")}
    sleep = ToolCall("3", "Sleep", {})
    progress = watch(Repeat(), (SAME, SAME, ToolCall("2", "Read", {}), SAME, sleep, SAME), results, ("Sleep",))
    assert progress.times == (1, 1, 1, 1, 1)
    assert progress.repeat == Repeat(fingerprint(SAME, results["1"]), 1)


def test_a_fingerprint_sees_name_input_result_and_error() -> None:
    prints = {
        fingerprint(SAME, result("1", "a")),
        fingerprint(replace(SAME, name="Glob"), result("1", "a")),
        fingerprint(replace(SAME, input={"path": "y"}), result("1", "a")),
        fingerprint(SAME, result("1", "b")),
        fingerprint(SAME, result("1", "a", is_error=True)),
    }
    assert len(prints) == 5
    odd, odder = (replace(SAME, input={"path": path}) for path in ("\udcff", "\udcfe"))
    assert fingerprint(odd, result("1", "a")) != fingerprint(odder, result("1", "a"))
    assert fingerprint(odd, result("1", "a")) != fingerprint(SAME, result("1", "a"))
    assert fingerprint(SAME, result("1", "\udcff")) != fingerprint(SAME, result("1", "a"))  # half a character
    picture, other = (replace(result("1", ""), content=(Image("image/png", data),)) for data in ("AA==", "AB=="))
    assert fingerprint(SAME, picture) != fingerprint(SAME, other)
    assert fingerprint(SAME, result("1", "a")) == fingerprint(replace(SAME, id="2"), result("2", "a"))


def many(turn: int, *paths: str) -> tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]:
    """The calls of one reply, and their results, which depend on the path alone."""
    calls = [ToolCall(f"{turn}.{n}", "Read", {"path": path}) for n, path in enumerate(paths)]
    return tuple(calls), tuple(result(call.id, call.input["path"]) for call in calls)


def played(*replies: tuple[str, ...], ends: bool = False) -> Play:
    """Each reply is named by the paths that it reads."""
    turns = [many(turn, *paths) for turn, paths in enumerate(replies)]
    answers = [reply("", *calls) for calls, _ in turns]
    return Play(answers if ends else [*answers, reply("done")], tools=[results for _, results in turns])


@pytest.mark.parametrize("calls", [10, 20, 100])
def test_equal_calls_in_one_reply_are_one_reply(calls: int) -> None:
    """The model asked for all of them before it saw any result, so it did not repeat itself."""
    play = played(("x",) * calls)
    assert play.ending == ("completed", "end_turn")
    assert not [line for line in play.said if line.startswith("advice")]


def test_replies_are_counted_and_not_calls() -> None:
    """Ten replies of two equal calls each are advised against, twenty end the run."""
    twice = ("x", "x")
    assert not [line for line in played(*[twice] * 9).said if line.startswith("advice")]
    assert [line for line in played(*[twice] * 10).said if line.startswith("advice")]
    assert played(*[twice] * 19).ending == ("completed", "end_turn")
    assert played(*[twice] * 20, ends=True).ending == ("completed", "no_progress")


def test_a_reply_that_also_does_something_else_is_no_repetition() -> None:
    assert played(*[("x", "y")] * 30).ending == ("completed", "end_turn")
    assert played(*[("x", "y", "x")] * 19, ("x",)).ending == ("completed", "end_turn")
    mixed = [("x",)] * 9 + [("x", "y")]  # the tenth time in a row, and only then another one
    assert [line for line in played(*mixed).said if line.startswith("advice")]


# --- law 1 as a number ------------------------------------------------------------------------------


@pytest.mark.covers("G-15", "A-24")
def test_the_bound_is_what_the_tables_say() -> None:
    # near limit 1, prompt too long 7, too large 4, context window 3, media 3, output 4, cut stream 12, empty 2,
    # thinking 2, malformed 3, refusal 1, pause 10, and the call itself; structured output 4 and stop hooks 9 count for
    # the run
    per_turn, per_run, per_model = 53, 4 + 9, 1 + 12
    assert most_model_calls(replace(CONFIG, max_turns=1)) == per_turn + per_run
    assert most_model_calls(replace(CONFIG, max_turns=10)) == 10 * per_turn + per_run
    assert (
        most_model_calls(replace(CONFIG, max_turns=1, fallbacks=(MODEL, MODEL))) == per_turn + per_run + 2 * per_model
    )
    assert most_model_calls(replace(CONFIG, max_turns=1, max_retries=0)) == per_turn - 9 + per_run
    assert most_model_calls(replace(CONFIG, max_turns=1, max_retries=30)) == per_turn + 21 + per_run
    assert most_continuations(5_000) == most_continuations(5_555) == 23
    assert most_model_calls(replace(CONFIG, max_turns=1, token_budget=5_000)) == 24 * per_turn + per_run


@pytest.mark.covers("G-15")
def test_every_rung_has_a_limit() -> None:
    for trouble, row in LADDER.items():
        for rung in row:
            assert 1 <= rung.most(CONFIG) <= 10, (trouble, rung.name)


def test_the_model_in_force_is_the_one_the_user_chose_last() -> None:
    from mainspring.core.events import ContextReady

    chosen = replace(MODEL, name="chosen")
    play = Play([reply("", "1"), reply("done")], contexts=[100, ContextReady(100, model=chosen)])
    assert [call.request.model for call in play.requests] == ["big", "chosen"]


@pytest.mark.covers("D-25", "D-28")
@pytest.mark.parametrize(("tokens", "compacts"), [(166_999, 0), (167_000, 1)])
def test_compaction_starts_exactly_at_the_threshold(tokens: int, compacts: int) -> None:
    assert len(Play([reply("done")], contexts=[tokens, 100]).compacts) == compacts


def test_a_streak_of_compactions_is_forgotten_after_three_quiet_turns() -> None:
    """Compactions in turns 1, 2 and 3; then one in turn 5 would end the run, one in turn 6 does not."""
    busy = [FULL, 100] * 3
    soon = Play([reply("", str(n)) for n in range(4)], contexts=[*busy, 100, FULL])
    assert soon.ending == ("prompt_too_long", "refill")
    late = Play([*[reply("", str(n)) for n in range(5)], reply("done")], contexts=[*busy, 100, 100, FULL, 100])
    assert late.ending == ("completed", "end_turn")


def test_a_fallback_starts_with_its_own_output_cap() -> None:
    config = replace(CONFIG, max_output=8_000, fallbacks=(MODEL,))
    play = Play([reply("a", stop=Stop.MAX_TOKENS), failure(Trouble.OVERLOADED), reply("done")], config=config)
    assert [call.request.max_output for call in play.requests] == [8_000, 64_000, 8_000]
