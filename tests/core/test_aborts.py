"""Interrupts: what was shown stays, what ran keeps its result, what never ran is answered (J)."""

from __future__ import annotations

import pytest

from core.play import FULL, Play, reply
from mainspring.core.events import Aborted
from mainspring.core.messages import Stop, Text, result
from mainspring.core.money import Usage
from mainspring.core.pairing import NeverRan, find_unpaired_ids
from mainspring.core.reasons import AbortReason
from mainspring.core.updates import Appended

HARD = Aborted(AbortReason.HARD)


@pytest.mark.covers("C-04", "J-01", "J-02", "J-03", "F-17", "F-20", "F-21")
def test_aborted_streaming_keeps_the_partial_text_and_the_early_results() -> None:
    partial = reply("let me", "1", "2", stop=Stop.UNFINISHED)
    abort = Aborted(AbortReason.HARD, partial, (result("1", "read early"),), Usage(input=50, output=5))
    play = Play([abort])
    assert play.ending == ("aborted_streaming", "hard")
    assert play.result.subtype == "error_during_execution"
    assert play.said == [
        "assistant: let me <1> <2>",
        "result <1>: read early",
        f"synthetic <2>: {NeverRan.INTERRUPTED}",
        "interruption: [Request interrupted by user]",
    ]
    assert play.result.usage == Usage(input=50, output=5)  # an estimate, booked all the same,
    assert play.result.estimated  # and marked so
    assert play.result.stop == "unfinished"
    assert play.result.text == "let me"
    assert [type(update) for update in play.shown] == [Appended, Appended]


@pytest.mark.covers("C-08", "J-01", "J-06", "F-17", "F-20")
def test_aborted_tools() -> None:
    play = Play([reply("", "1", "2")], tools=[Aborted(AbortReason.HARD, results=(result("2", "done"),))])
    assert play.ending == ("aborted_tools", "hard")
    assert play.result.interrupted
    assert not Play([reply("done")]).result.interrupted
    assert play.said == [
        "assistant:  <1> <2>",
        f"synthetic <1>: {NeverRan.INTERRUPTED}",
        "result <2>: done",
        "interruption: [Request interrupted by user for tool use]",
    ]


@pytest.mark.covers("J-04", "J-05")
def test_a_submitted_message_is_its_own_explanation() -> None:
    streaming = Play([Aborted(AbortReason.SUBMIT, reply("half"))])
    assert streaming.ending == ("aborted_streaming", "submit")
    assert streaming.said == ["assistant: half"]
    tools = Play([reply("", "1")], tools=[Aborted(AbortReason.SUBMIT)])
    assert tools.ending == ("aborted_tools", "submit")
    assert not tools.result.estimated
    assert streaming.result.stop == "unfinished"  # whatever the driver said
    assert tools.said[-1] == f"synthetic <1>: {NeverRan.INTERRUPTED}"


@pytest.mark.covers("J-04")
@pytest.mark.parametrize(
    ("reason", "streaming", "tools"),
    [
        (AbortReason.TIMEOUT, "[Request interrupted: out of time]", "[Tool use interrupted: out of time]"),
        (
            AbortReason.PARENT,
            "[Request interrupted by the parent agent]",
            "[Tool use interrupted by the parent agent]",
        ),
    ],
)
def test_other_reasons_are_named(reason: AbortReason, streaming: str, tools: str) -> None:
    first = Play([Aborted(reason)])
    assert (first.ending, first.said) == (("aborted_streaming", reason), [f"interruption: {streaming}"])
    second = Play([reply("", "1")], tools=[Aborted(reason)])
    assert (second.ending, second.said[-1]) == (("aborted_tools", reason), f"interruption: {tools}")


@pytest.mark.covers("J-01")
@pytest.mark.parametrize(
    "play",
    [
        Play([], contexts=[HARD]),
        Play([], contexts=[FULL], compactions=[HARD]),
        Play([reply("done")], hooks=[HARD]),
    ],
    ids=["context", "compaction", "stop hooks"],
)
def test_an_abort_elsewhere_counts_as_streaming(play: Play) -> None:
    assert play.ending == ("aborted_streaming", "hard")
    assert play.said[-1] == "interruption: [Request interrupted by user]"


def test_an_empty_partial_leaves_nothing_behind() -> None:
    play = Play([Aborted(AbortReason.SUBMIT, reply())])
    assert play.said == []


@pytest.mark.covers("F-20")
def test_the_session_goes_on_after_an_abort() -> None:
    aborted = Play([reply("", "1")], tools=[HARD])
    again = Play([reply("", "2"), reply("done")], after=aborted)
    assert again.ending == ("completed", "end_turn")
    assert find_unpaired_ids(again.state.history) == ()
    assert again.result.turns == 2  # counters start afresh
    assert again.result.usage == Usage(input=200, output=20)


def test_a_partial_of_text_only_is_kept_whole() -> None:
    play = Play([Aborted(AbortReason.SUBMIT, reply("a", blocks=(Text("b"),)))])
    assert play.result.text == "ab"
