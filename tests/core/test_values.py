"""Histories, ids, configuration, errors: the small parts."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.play import CONFIG, MODEL, TINY, Play, failure, reply
from mainspring.core.config import AUTOCOMPACT_BUFFER_TOKENS, MANUAL_COMPACT_BUFFER_TOKENS, Config, Effort
from mainspring.core.errors import (
    CallerMistakes,
    MainspringError,
    ProtocolError,
    ProviderError,
    ToolError,
    UsageError,
)
from mainspring.core.events import Aborted, ContextReady, Replied, Submitted
from mainspring.core.history import History
from mainspring.core.messages import Image, RedactedThinking, Text, Thinking, ToolCall, User, result, user
from mainspring.core.models import MODELS, Model, has_price, model_named, same_model
from mainspring.core.reasons import AbortReason, Failure, Trouble
from mainspring.core.state import State
from mainspring.core.step import step
from mainspring.core.updates import Result
from mainspring.core.value import Stamp

# --- History ----------------------------------------------------------------------------------------

A, B, C = user("a"), user("b"), user("c")


@pytest.mark.covers("B-02", "B-26")
def test_a_history_grows_and_what_it_was_stays() -> None:
    empty = History()
    one = empty.append(A)
    two = one.append(B)
    assert (list(empty), list(one), list(two)) == ([], [A], [A, B])
    assert (len(empty), len(one), len(two)) == (0, 1, 2)
    assert two.append() is two
    assert list(two.newest_first()) == [B, A]
    assert repr(two) == "History(2 messages)"


@pytest.mark.covers("A-08")
def test_a_fork_leaves_the_other_branch_alone() -> None:
    trunk = History([A])
    left = trunk.append(B)
    right = trunk.append(C)
    assert (list(left), list(right), list(trunk)) == ([A, B], [A, C], [A])
    assert list(right.append(A)) == [A, C, A]


def test_messages_are_reached_by_position_within_the_history_only() -> None:
    short = History([A])
    short.append(B)
    assert (short[0], short[-1]) == (A, A)
    for position in (1, -2):
        with pytest.raises(IndexError, match=f"message {position} of a history of 1"):
            short[position]


def test_histories_are_equal_by_content() -> None:
    assert History([A, B]) == History([A]).append(B)
    assert History([A]) != History([B])
    assert History([A]) != History([A, A])
    trunk = History([A])
    assert trunk.append(B).append(A) == History([A, B, A])
    longer = trunk.append(C)
    assert longer == longer.append()
    assert trunk.append(B) == trunk.append(B)  # one extended the list, the other had to copy it
    assert trunk.append(B) != trunk.append(C)
    assert (History() == []) is False
    with pytest.raises(TypeError):
        hash(History())


@given(st.lists(st.tuples(st.integers(0, 20), st.text(max_size=3)), max_size=40))
def test_any_forest_of_forks_behaves_like_tuples(moves: list[tuple[int, str]]) -> None:
    branches: list[tuple[History, tuple[User, ...]]] = [(History(), ())]
    for which, text in moves:
        history, model = branches[which % len(branches)]
        message = user(text)
        branches.append((history.append(message), (*model, message)))
    for history, model in branches:
        assert tuple(history) == model
        assert tuple(history.newest_first()) == model[::-1]
        assert history == History(model)


# --- ids --------------------------------------------------------------------------------------------


def test_a_derived_id_is_still_a_uuid_and_unlike_its_neighbours() -> None:
    stamp = Stamp(str(uuid.uuid4()), 5)
    ids = [stamp.derive(n) for n in range(300)]
    assert all(str(uuid.UUID(made)) == made for made in ids)
    assert len(set(ids)) == 300
    assert all(uuid.UUID(made).version == 8 for made in ids)  # never one of the driver's own
    assert Stamp("not a uuid").derive(7) == "not a uuid.7"
    odd = "00000000-0000-4000-8000-000000Z_0000"  # as long as one
    assert Stamp(odd).derive(7) == f"{odd}.7"


def test_ids_of_a_source_that_counts_do_not_meet() -> None:
    def counted(number: int) -> str:
        return f"00000000-0000-4000-8000-{number:012x}"

    derived = [Stamp(counted(event)).derive(place) for event, place in ((1, 1), (2, 3), (3, 4), (4, 9))]
    assert len({*derived, *map(counted, range(20))}) == 24
    assert Stamp(counted(0xFFFF_FFFF)).derive(1) == "00000000-0000-8000-8000-000000000000"


def test_what_the_core_says_is_stamped_by_the_event_and_its_place() -> None:
    play = Play([reply("done?"), reply("done")], hooks=["no"])
    hook = play.state.history[2]
    blamed = play.events[3].stamp
    assert (hook.id, hook.at) == (f"{blamed.id}.2", blamed.at)
    ids = [message.id for message in play.state.history]
    assert len(set(ids)) == len(ids)


# --- Config -----------------------------------------------------------------------------------------


@pytest.mark.covers("D-24", "D-25", "D-26", "D-27", "D-28")
@pytest.mark.parametrize(
    ("model", "setting", "compact_at", "blocked_at"),
    [
        (MODEL, None, 167_000, 177_000),
        (MODEL, 8_000, 179_000, 189_000),  # a smaller cap reserves less
        (MODEL, 100_000, 167_000, 177_000),
        (TINY, None, 67_000, 77_000),
        (Model("local", 32_000, 32_000), None, 21_029, 24_534),  # a small window keeps its proportions
        (Model("pocket", 8_000, 8_000), None, 5_258, 6_134),
        (MODELS["claude-sonnet-5-5"], None, 967_000, 977_000),
    ],
)
def test_thresholds(model: Model, setting: int | None, compact_at: int, blocked_at: int) -> None:
    config = Config(model=model, max_output=setting)
    assert (config.compact_at(model), config.blocked_at(model)) == (compact_at, blocked_at)
    assert (AUTOCOMPACT_BUFFER_TOKENS, MANUAL_COMPACT_BUFFER_TOKENS) == (13_000, 3_000)


def test_the_output_cap_is_the_setting_within_what_the_model_can() -> None:
    assert Config(max_output=4_000).output_cap(MODEL) == 4_000
    assert Config(max_output=999_999).output_cap(MODEL) == 64_000
    assert Config().output_cap(TINY) == 32_000


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fallbacks": (MODEL,) * 6}, "'fallbacks' names 6 models; at most 5 are tried"),
        ({"max_turns": 0}, "'max_turns' is 0; a run needs at least 1"),
        ({"token_budget": 0}, "'token_budget' is 0; give a positive number, or leave it out for no limit"),
        ({"max_tokens": -1}, "'max_tokens' is -1;"),
        ({"task_budget": 0}, "'task_budget' is 0;"),
        ({"max_output": 0}, "'max_output' is 0;"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        Config(**wrong)  # type: ignore[arg-type]
    Config(fallbacks=(MODEL,) * 5, max_turns=1, token_budget=1, max_tokens=1, task_budget=1, max_output=1)


@pytest.mark.covers("A-26")
def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        CONFIG.max_turns = 3  # type: ignore[misc]


# --- requests ---------------------------------------------------------------------------------------


@pytest.mark.covers("B-18", "A-28", "A-10", "A-09", "K-05", "K-06", "K-08", "A-26")
def test_a_request_says_how_to_ask() -> None:
    thinker = MODELS["claude-opus-4-5"]
    config = Config(model=thinker, source="agent:7", chain="c1", depth=2, effort=Effort.XHIGH)
    request = Play([reply("done")], config=config).requests[0].request
    assert (request.model, request.turn, request.source) == ("claude-opus-4-5", 1, "agent:7")
    assert (request.chain, request.depth, request.effort) == ("c1", 2, "xhigh")
    assert (request.thinking, request.adaptive, request.overload_tries) == (32_000, False, 10)


@pytest.mark.covers("K-05")
@pytest.mark.parametrize(
    ("model", "on", "thinking", "adaptive"),
    [
        (MODELS["claude-sonnet-5-5"], True, None, True),
        (MODELS["claude-sonnet-5-5"], False, None, False),
        (MODELS["claude-haiku-4-5"], True, 8_000, False),
        (MODELS["claude-haiku-4-5"], False, None, False),
        (MODEL, True, None, False),
        (replace(MODELS["claude-opus-4-5"], max_output=8_192), True, 7_192, False),  # it must leave room for the answer
        (replace(MODELS["claude-opus-4-5"], max_output=2_023), True, None, False),
        (replace(MODELS["claude-opus-4-5"], max_output=2_024), True, 1_024, False),
    ],
)
def test_thinking_by_model(model: Model, on: bool, thinking: int | None, adaptive: bool) -> None:
    request = Play([reply("done")], config=Config(model=model, thinking=on)).requests[0].request
    assert (request.thinking, request.adaptive) == (thinking, adaptive)


# --- messages, errors, protocol ---------------------------------------------------------------------


def test_the_text_of_a_message_is_its_text_blocks() -> None:
    blocks = (Thinking("hm"), Text("a"), RedactedThinking("x"), ToolCall("1", "Read", {}), Text("b"))
    assert reply(blocks=blocks).text == "ab"
    assert result("1", "ok").text == "ok"
    assert User((Text("see "), Image("image/png", "AA=="), Text("this"))).text == "see this"


def test_the_family_of_errors() -> None:
    assert all(issubclass(kind, MainspringError) for kind in (UsageError, ProviderError, ToolError, ProtocolError))
    failed = Failure(Trouble.AUTH, "no key")
    assert (str(ProviderError(failed)), ProviderError(failed).failure) == ("no key", failed)
    assert str(ProviderError(Failure(Trouble.AUTH))) == "auth"


def test_an_event_that_nobody_waits_for_is_a_bug_and_says_so() -> None:
    with pytest.raises(ProtocolError, match="Replied while waiting for an answer to None"):
        step(State(History()), Replied(reply("hi")), CONFIG)
    for kind in (Trouble.NEAR_LIMIT, Trouble.STREAM_CUT):
        with pytest.raises(ProtocolError, match=f"'{kind}' is for the core to find"):
            Play([failure(kind)])
    play = Play([reply("hi")])
    with pytest.raises(ProtocolError, match="ContextReady while waiting for an answer to Finish"):
        step(play.state, ContextReady(1), CONFIG)


def test_a_result_of_a_run_that_said_nothing_has_no_text() -> None:
    first = Play([reply("earlier answer")])
    play = Play([failure(Trouble.AUTH)], after=first)
    assert (play.result.text, play.result.stop) == ("", None)  # the earlier run's answer is not this one's
    silent = step(first.state, Submitted(()), CONFIG)  # to go on without a new word is a run too
    ended = step(silent.state, Aborted(AbortReason.SUBMIT), CONFIG).updates[-1]
    assert isinstance(ended, Result)
    assert (ended.text, ended.stop) == ("", None)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("gpt-5", "gpt-5", True),
        ("openai/gpt-5", "gpt-5-2025-08-07", True),
        ("claude-haiku-4-5-20251001", "anthropic/claude-haiku-4-5", True),
        ("gpt-5", "gpt-5-mini", False),
        ("openai/gpt-5", "openai/gpt-4o", False),
    ],
)
def test_the_same_model_by_another_name(one: str, other: str, same: bool) -> None:
    assert same_model(one, other) is same_model(other, one) is same


def test_a_model_behind_the_name_of_a_provider() -> None:
    assert model_named("openrouter/anthropic/claude-sonnet-5-5").price == model_named("claude-sonnet-5-5").price
    assert model_named("openai/gpt-5").name == "openai/gpt-5"


def test_a_price_is_known_unless_it_is_assumed_or_nothing() -> None:
    assert has_price(MODEL)
    assert not has_price(model_named("a-model-of-nobody"))
    assert not has_price(Model("free", 1_000, 1_000))


def test_people_see_the_command_that_they_typed() -> None:
    expanded = User((Text("Review the change in /work."),), typed="/review")
    assert (expanded.shown_text, expanded.text) == ("/review", "Review the change in /work.")
    assert user("hello").shown_text == "hello"


def test_retries_are_none_or_more() -> None:
    assert Config(max_retries=0).max_retries == 0
    with pytest.raises(UsageError, match="'max_retries' is -1; give 0 for none"):
        Config(max_retries=-1)


OURS = """
def public(work):
    with CallerMistakes():
        work()

def inner():
    raise UsageError("wrong")
"""


def test_the_traceback_of_a_mistake_ends_at_its_line() -> None:
    ours: dict[str, Any] = {"__name__": "mainspring.some", "CallerMistakes": CallerMistakes, "UsageError": UsageError}
    exec(OURS, ours)
    public, inner = ours["public"], ours["inner"]
    public(lambda: None)
    with pytest.raises(UsageError) as raised:
        public(inner)
    assert len(raised.traceback) == 1
    with pytest.raises(UsageError) as raised:
        public(lambda: [inner()])  # code of the caller is on the way
    assert len(raised.traceback) == 4
    with pytest.raises(ZeroDivisionError) as other:
        public(lambda: 1 / 0)
    assert len(other.traceback) == 3
