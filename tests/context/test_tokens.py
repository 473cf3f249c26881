"""How large the next prompt is (D-31)."""

from __future__ import annotations

import gc
import sys
from types import FrameType

import pytest
from msgspec.structs import replace

from context.layer_stage import BYTES_PER_TOKEN, FIXED, FREE, Stage, always, reads, runs, stamped, true_tokens
from mainspring.context.compactor import Compactor
from mainspring.context.groups import TurnGroups
from mainspring.context.tokens import LEAST, MOST, TokenMeter, TokenScale, message_bytes, total_bytes
from mainspring.core.config import Config
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Stop, Text, ToolCall, result, user
from mainspring.core.money import Usage
from mainspring.core.state import State


def asked(text: str, prompt: int, output: int = 10) -> Assistant:
    return Assistant((Text(text),), "big", usage=Usage(input=prompt, output=output))


@pytest.mark.covers("D-31")
def test_the_count_is_the_last_report_and_an_estimate_for_what_was_added() -> None:
    meter = TokenMeter(fixed=9_000)
    assert meter.count("big") == 3_150  # nothing is reported: 9,000 bytes at three a token, and a twentieth more
    meter.reply(asked("hello", 5_000, 40), 100)
    assert meter.count("big") == 5_040
    meter.add(3_000)
    assert meter.count("big") == 5_040 + 1_050
    meter.remove(1_500)
    assert meter.count("big") == 5_040 + 1_050 - 475


@pytest.mark.covers("D-31")
def test_it_learns_from_the_api_and_stays_a_little_high() -> None:
    """Off by at most a twentieth after some turns, and never below what the server then counts."""
    stage = Stage(always(lambda turn: reads(turn, 3_000 + turn * 100), 40))
    stage.run()
    guessed = [ready.tokens for ready in stage.ready]
    truth = [true_tokens(request) for request in stage.requests]
    assert all(guess >= true for guess, true in zip(guessed[1:], truth[1:], strict=True))
    added = [true - before for true, before in zip(truth[31:], truth[30:], strict=False)]
    errors = [guess - true for guess, true in zip(guessed[31:], truth[31:], strict=True)]
    assert max(error / new for error, new in zip(errors, added, strict=True)) < 0.08
    meter = stage.context._scene.meter
    assert abs(meter.scale("big").ratio - BYTES_PER_TOKEN) < 0.1
    assert meter.scale("big-20251001") is meter.scale("big")
    assert meter.scale("another").ratio == 3.0


def test_odd_reports_do_not_move_the_scale_out_of_bounds() -> None:
    scale = TokenScale()
    for _ in range(100):
        scale.learn(100_000, 200)  # five hundred bytes a token: not learned from
        scale.learn(150, 1_000)  # seven tokens a byte: not learned from
    assert scale.ratio == 3.0
    for _ in range(100):
        scale.learn(9_000, 1_000)
        scale.learn(9_900, 1_000)
    assert scale.ratio == MOST
    for _ in range(100):
        scale.learn(1_100, 1_000)
    assert scale.ratio == LEAST


def test_a_guess_of_our_own_is_not_taken_for_a_report() -> None:
    meter = TokenMeter()
    meter.reply(replace(asked("cut off", 90_000), stop=Stop.UNFINISHED), 300)
    assert meter.count("big") == 105


def test_text_is_weighed_in_bytes() -> None:
    assert message_bytes(user("漢字")) - message_bytes(user("")) == 6
    assert message_bytes(user("half \ud83d")) > message_bytes(user(""))
    assert message_bytes(Assistant((ToolCall("c", "Read", {"bad": "\ud800"}),))) > 0


def test_after_a_resume_the_report_counts_unless_it_must_be_older_than_the_last_summary() -> None:
    history = History(stamped(user("x" * 30_000), asked("so", 8_600)))
    scene = TurnGroups(TokenMeter(), 4, 60_000)
    scene.see(State(history))
    assert scene.meter.count("big") == 8_610
    old = History(stamped(user("x" * 30_000), asked("so", 150_000)))
    scene = TurnGroups(TokenMeter(), 4, 60_000)
    scene.see(State(old))
    assert scene.meter.count("big") == round(total_bytes(old) * 1.05 / 3)


def turns(number: int, start: int = 0) -> list[Message]:
    made: list[Message] = []
    for turn in range(start, start + number):
        made.append(replace(runs(turn), id=f"r{turn}", usage=Usage(input=1_000 + turn, output=5)))
        made.append(replace(result(f"call_{turn}", "x" * 900), id=f"t{turn}"))
    return made


def calls_made_by_a_turn(length: int) -> int:
    """Function calls that one more turn costs, in a session of so many."""
    huge = replace(FREE, window=10**9)
    context = Compactor(Config(model=huge), new_id=lambda: "new")
    history = History([replace(user("go"), id="p"), *turns(length)])
    drive(context, State(history, model=huge))
    history = history.append(*turns(1, length))
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()  # a collection in between calls whoever asked to be told of it: hypothesis does
    sys.setprofile(count)
    try:
        drive(context, State(history, model=huge))
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def drive(context: Compactor, state: State) -> None:
    """Nothing is awaited in there, so no loop is needed."""
    try:
        context.shrink(state, ()).send(None)
    except StopIteration:
        return
    raise AssertionError("the layers waited for something")


@pytest.mark.covers("D-12")
def test_a_turn_costs_the_same_however_long_the_session_is() -> None:
    assert calls_made_by_a_turn(5_000) == calls_made_by_a_turn(50)


def test_the_first_prompt_is_estimated_with_system_and_tools() -> None:
    stage = Stage(always(reads, 0), fixed=round(FIXED * BYTES_PER_TOKEN))
    stage.run("hello")
    assert stage.ready[0].tokens >= true_tokens(stage.requests[0])
