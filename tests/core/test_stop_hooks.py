"""What stop hooks lead to, under both policies (Z-11, Z-12)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.play import CONFIG, Play, failure, reply
from mainspring.core.config import COMPATIBLE, DEFAULT, RunSource, Siblings, StopHooks
from mainspring.core.effects import RunStopHooks
from mainspring.core.events import StopDecision
from mainspring.core.reasons import Transition, Trouble

CAPPED = replace(CONFIG, stop_hooks=StopHooks.CAPPED)


def hook_runs(play: Play) -> list[bool]:
    return [effect.active for effect in play.effects if isinstance(effect, RunStopHooks)]


@pytest.mark.covers("I-05")
def test_they_run_when_the_model_ends_without_a_call() -> None:
    play = Play([reply("", "1"), reply("done")])
    assert hook_runs(play) == [False]


@pytest.mark.covers("I-08", "B-09")
def test_once_they_do_not_run_on_the_retry_they_caused() -> None:
    play = Play([reply("done?"), reply("done!")], hooks=["no", "no"])
    assert hook_runs(play) == [False]
    assert play.ending == ("completed", "end_turn")
    assert play.result.text == "done!"


@pytest.mark.covers("I-08", "B-09")
def test_once_a_tool_result_lets_them_look_again() -> None:
    play = Play([reply("done?"), reply("fixing", "1"), reply("done!")], hooks=["lint", StopDecision()])
    assert hook_runs(play) == [False, False]
    assert play.transitions == [Transition.STOP_HOOK_BLOCKING, Transition.NEXT_TURN]


@pytest.mark.covers("I-08")
def test_once_their_objections_are_counted_for_the_run() -> None:
    rounds = 9
    replies = [answer for n in range(rounds) for answer in (reply("done?"), reply("", str(n)))]
    play = Play([*replies, reply("done")], hooks=["no"] * 20)
    assert len(hook_runs(play)) == rounds
    assert play.ending == ("completed", "end_turn")


@pytest.mark.covers("I-08")
def test_capped_they_run_again_and_are_told_so_until_the_cap() -> None:
    play = Play([reply(f"answer {n}") for n in range(10)], hooks=["no"] * 20, config=CAPPED)
    assert hook_runs(play) == [False, *[True] * 8]
    assert play.ending == ("completed", "end_turn")
    assert play.result.text == "answer 9"  # the last text is kept
    assert play.result.num_turns == 10  # as the Claude Agent SDK counts


def test_all_objections_of_one_round_reach_the_model() -> None:
    play = Play([reply("done?"), reply("done!")], hooks=[StopDecision(("lint", "types"))])
    assert play.said[1:3] == ["hook: lint", "hook: types"]
    event = play.events[3].stamp.id
    assert [play.state.history[place].id for place in (2, 3)] == [f"{event}.2", f"{event}.3"]
    assert play.state.stop_blocks == 1


@pytest.mark.covers("G-14")
def test_the_guards_of_recovery_survive_a_blocking_hook() -> None:
    too_long = failure(Trouble.PROMPT_TOO_LONG)
    play = Play([too_long, reply("done?"), too_long, too_long], hooks=["no"])
    assert play.transitions == [
        Transition.REACTIVE_COMPACT_RETRY,
        Transition.STOP_HOOK_BLOCKING,
        Transition.TRIM_RETRY,  # not a second summary
    ]
    assert play.ending == ("prompt_too_long", "window")


def test_the_two_presets() -> None:
    assert (DEFAULT.stop_hooks, DEFAULT.siblings, DEFAULT.source) == (StopHooks.ONCE, Siblings.ISOLATE, RunSource.REPL)
    assert (COMPATIBLE.stop_hooks, COMPATIBLE.siblings, COMPATIBLE.max_stop_blocks) == (
        StopHooks.CAPPED,
        Siblings.ISOLATE,
        9,
    )
