"""What several hooks say together."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.hooks.events import NOTHING, Decision, HookPoint, HookResult, NoHooks, merge_hook_results

STRICTNESS: dict[Decision | None, int] = {"deny": 3, "ask": 2, None: 1, "allow": 0}

texts = st.text(max_size=5)
opinions = st.builds(
    HookResult,
    decision=st.sampled_from([None, "allow", "deny", "ask"]),
    block=st.booleans(),
    reason=texts,
    input=st.none() | st.dictionaries(texts, st.integers(), max_size=2),
    output=st.none() | texts,
    context=st.lists(texts, max_size=2).map(tuple),
    message=texts,
    stop=st.none() | texts,
    mcp_output=st.none() | texts,
)


@pytest.mark.covers("I-12")
@given(st.lists(opinions, max_size=6), st.randoms(use_true_random=False))
def test_the_decision_does_not_depend_on_the_order_and_is_never_weaker_than_the_strictest(
    said: list[HookResult], chance: random.Random
) -> None:
    result = merge_hook_results(said)
    shuffled = list(said)
    chance.shuffle(shuffled)
    other = merge_hook_results(shuffled)
    assert (other.decision, other.block) == (result.decision, result.block)
    assert (other.stop is None) == (result.stop is None)
    assert sorted(other.context) == sorted(result.context)
    strict = [opinion.decision for opinion in said if opinion.decision is not None]
    if strict:
        assert STRICTNESS[result.decision] >= max(STRICTNESS[one] for one in strict)
    assert result.block == any(opinion.block for opinion in said)
    assert (result.stop is not None) == any(opinion.stop is not None for opinion in said)


@given(opinions)
def test_one_alone_says_what_it_says(opinion: HookResult) -> None:
    assert merge_hook_results([opinion]) == merge_hook_results([NOTHING, opinion, NOTHING]) == opinion


def test_nobody_says_nothing() -> None:
    assert merge_hook_results([]) == merge_hook_results([NOTHING, NOTHING]) == NOTHING
    assert NoHooks().any_at(HookPoint.STOP) is False
    assert asyncio.run(NoHooks().ask(HookPoint.STOP, {})) == NOTHING
    asyncio.run(NoHooks().close())


def test_reasons_are_those_of_the_ones_who_decided_and_the_rest_is_joined() -> None:
    said = [
        HookResult("allow", reason="harmless", context=("a",), message="first"),
        HookResult("deny", reason="no", input={"x": 1}, stop="enough"),
        HookResult("deny", reason="never", context=("b", "c"), output="o", message="second", mcp_output="m"),
        HookResult("ask", reason="perhaps", input={"x": 2}, stop="later"),
    ]
    assert merge_hook_results(said) == HookResult(
        "deny", False, "no; never", {"x": 2}, "o", ("a", "b", "c"), "first\nsecond", "enough", "m"
    )


def test_the_reasons_of_those_who_block_are_kept() -> None:
    said = [
        HookResult(context=("c",), reason="idle talk"),
        HookResult(block=True, reason="lint"),
        HookResult(block=True),
    ]
    assert merge_hook_results(said) == HookResult(block=True, reason="lint", context=("c",))
    assert merge_hook_results([HookResult(reason="one"), HookResult(reason="two")]).reason == "one; two"


@pytest.mark.covers("I-12")
def test_a_yes_does_not_hold_for_an_input_that_another_hook_made() -> None:
    """It was given for what its hook has seen: the rewritten input is decided by the rules alone."""
    assert merge_hook_results([HookResult("allow"), HookResult(input={"command": "other"})]).decision is None
    assert (
        merge_hook_results([HookResult("allow"), HookResult("allow", input={"command": "other"})]).decision == "allow"
    )
    assert merge_hook_results([HookResult("deny"), HookResult(input={"command": "other"})]).decision == "deny"
