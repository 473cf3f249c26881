"""The context as a whole: whatever the layers did, requests stay valid, and long sessions stay under their window."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from providers.histories import disorderly, edits_of, orderly
from tiers import long

from context.layer_stage import BIG, FREE, GOOD, Stage, always, many, output, reads, runs, text_of, true_tokens
from mainspring.context.compactor import Compactor
from mainspring.context.groups import TurnGroups
from mainspring.context.layers import LayerLimits
from mainspring.context.tokens import SideCall, SideCallReply, TokenMeter
from mainspring.core.config import Config
from mainspring.core.effects import Compact, CompactionKind, Request
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User, user
from mainspring.core.models import Model, model_named
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.reasons import Cause, Trouble
from mainspring.core.state import State
from mainspring.core.view import Drop, Edit, Fold, Replace, from_the_front, out_of_view, prune, view
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation, ToolSpec
from mainspring.simulator.cache import PromptCache
from mainspring.simulator.validate import find_request_violations

SONNET = "claude-sonnet-5-5"
TOOLS = tuple([ToolSpec(name, f"{name}.", {"type": "object"}) for name in ("Read", "Bash", "Edit")])
# So small that the generated conversations are far too long for it: every layer has something to do.
LITTLE = replace(BIG, name=SONNET, window=1_200)
EAGER = replace(LayerLimits(), per_result=300, shown=120, per_message=600, keep=1, recent_turns=1, stage=200, tail=100)
STEPS = st.lists(st.sampled_from(["shrink", "stage", *CompactionKind]), min_size=1, max_size=8)


def request(model: str = SONNET) -> Request:
    thinks = model_named(model).adaptive_thinking
    return Request(model, 8_000, 1, "sdk", "", 0, overload_tries=1, adaptive=thinks)


def assert_valid(state: State, marks: tuple[str, ...], provider: Anthropic | None = None) -> dict[str, Any]:
    conversation = Conversation(state.history, state.edits, ("You are mainspring.",), TOOLS, marks)
    prepared = (provider or Anthropic()).prepare(request(), conversation)
    body = b"".join(prepared.body)
    assert find_request_violations(body, prepared.headers) == []
    decoded: dict[str, Any] = msgspec.json.decode(body)
    return decoded


async def answer(question: SideCall) -> SideCallReply:
    return SideCallReply("short" if question.small else GOOD)


# --- any sequence of layers over any conversation -----------------------------------------------------


def new_context(model: Model, ids: list[int], limits: LayerLimits = EAGER) -> Compactor:
    def new_id() -> str:
        ids.append(0)
        return f"new-{len(ids)}"

    return Compactor(Config(model=model), new_id=new_id, ask=answer, limits=limits)


async def play(state: State, steps: list[str], context: Compactor) -> list[State]:
    """The state after each step; each compaction is taken, whether it helped or not, and histories may forget."""
    states: list[State] = []
    for number, name in enumerate(steps):
        edits: tuple[Edit, ...] = ()
        if name == "shrink":
            edits = (await context.shrink(state, ())).edits
        elif name == "stage":
            await context.stage(state.model)
        else:
            edits = (await context.summarize(state, Compact(CompactionKind(name), Trouble.PROMPT_TOO_LONG))).edits
        edits = from_the_front(state.history, state.edits, edits)
        state = replace(state, edits=prune(state.history, (*state.edits, *edits)))
        if number % 3 == 2:
            state = replace(state, history=state.history.forget(out_of_view(state.history, state.edits)))
        states.append(state)
    return states


@pytest.mark.covers("D-06", "D-11")
@given(orderly(), STEPS)
def test_pairs_stay_whole_and_every_request_is_valid(messages: list[Message], steps: list[str]) -> None:
    context = new_context(LITTLE, [])
    for state in asyncio.run(play(State(History(messages), model=LITTLE), steps, context)):
        assert find_unpaired_ids(view(state.history, state.edits)) == ()
        assert_valid(state, context.marks(state))


@given(st.data(), st.one_of(orderly(), disorderly()), STEPS)
def test_requests_are_valid_after_any_accident(data: st.DataObject, messages: list[Message], steps: list[str]) -> None:
    state = State(History(messages), data.draw(edits_of(messages)), model=LITTLE)
    context = new_context(LITTLE, [])
    for after in asyncio.run(play(state, steps, context)):
        assert_valid(after, context.marks(after))


def picture(scene: TurnGroups) -> object:
    groups = [(group.kind, group.first, group.last, tuple(group.messages)) for group in scene.groups]
    waiting = [[(item.message.id, item.before) for item in items] for items in (scene.old, scene.newest)]
    return groups, waiting, scene.old_size, scene.border, scene.media, scene.meter.size


@given(st.data(), orderly(), STEPS)
def test_following_the_state_leads_to_the_same_scene_as_a_first_look(
    data: st.DataObject, messages: list[Message], steps: list[str]
) -> None:
    """Also while the conversation grows between the steps."""
    context = new_context(LITTLE, [])
    known = data.draw(st.integers(1, len(messages)))
    state = State(History(messages[:known]), model=LITTLE)
    for name in steps:
        state = asyncio.run(play(state, [name], context))[-1]
        more = data.draw(st.integers(0, 3))
        grown = state.history.append(*messages[len(state.history) : len(state.history) + more])
        state = replace(state, history=grown)
        asyncio.run(context.shrink(state, ()))  # its edits are not taken: the next look must find out
        context._scene.see(state)
        context._scene.settle()
        anew = TurnGroups(TokenMeter(), EAGER.keep, context._scene.keep_size)
        anew.see(state)
        anew.settle()
        assert picture(context._scene) == picture(anew)


# --- long sessions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompts", [2, long(10)])
def test_two_thousand_turns_under_one_window_every_request_valid(prompts: int) -> None:
    """Reads, logs, edits and batches; the user speaks now and then; what no view shows is forgotten on the way."""
    model = replace(model_named(SONNET), window=44_000)
    provider = Anthropic()
    bodies = 0

    def see(state: State) -> None:
        nonlocal bodies
        assert_valid(state, stage.context.marks(state), provider)
        bodies += 1

    def reply(turn: int) -> Assistant:
        if turn % 7 == 0:
            made = many(turn, 4, 3_000)
        elif turn % 5 == 0:
            made = runs(turn, 40_000)
        elif turn % 3 == 0:
            edit = {"file_path": "a.py", "old_string": "x" * 400, "new_string": "y" * 400, "size": 60}
            made = replace(runs(turn), blocks=(ToolCall(f"call_{turn}", "Edit", edit),))
        else:
            made = reads(turn, 6_000)
        return replace(made, model="big") if turn < prompts * 200 else replace(made, blocks=made.blocks[:1])

    config = Config(model=model, advise_after=10**6, end_after=10**7)
    stage = Stage(
        lambda turn: reply(turn) if turn % 200 else replace(runs(turn), blocks=runs(turn).blocks[:1]),
        config=config,
        answers=lambda question: SideCallReply("They worked." if question.small else GOOD),
        forget=True,
        see=see,
    )
    for run in range(prompts):
        ended = stage.run(f"Rule {run}: the port is {7_431 + run}.")
        assert ended.cause is Cause.END_TURN
    assert bodies == stage.turn == prompts * 200
    assert max(map(true_tokens, stage.requests)) < config.blocked_at(model)
    last = text_of(stage.requests[-1])
    assert [f"the port is {7_431 + run}." in last for run in range(prompts)] == [True] * prompts
    assert len(stage.state.edits) < 400  # as small as the window, whatever the length
    assert len(list(stage.state.history)) < 600  # of some 4,800: what no view shows is forgotten


@pytest.mark.covers("D-39")
def test_a_break_costs_what_stands_behind_it_and_no_more() -> None:
    """By the simulator's meter: what stands before the first result that is cleared is still read, and not written."""
    cache, now = PromptCache(), 0
    provider = Anthropic()
    read: list[tuple[int, int]] = []

    def see(state: State) -> None:
        nonlocal now
        now += 20_000
        body = assert_valid(state, stage.context.marks(state), provider)
        metered = cache.look(body, now)
        cache.keep(metered, now)
        read.append((metered.usage.cache_read, metered.usage.cache_write + metered.usage.input))

    config = Config(model=replace(BIG, name=SONNET), advise_after=10**6, end_after=10**7)
    limits = replace(LayerLimits(), snip=False, collapse=False)
    words = Text("The parser reads line by line and drops the last one when it has no newline. " * 8)

    def reply(turn: int) -> Assistant:
        read = reads(turn, 8_000)
        return replace(read, blocks=(words, *read.blocks[2:]))

    stage = Stage(always(reply, 80), config=config, limits=limits, see=see)
    stage.run()
    breaks = [turn for turn, ready in enumerate(stage.ready) if ready.shrunk]
    assert len(breaks) >= 4
    for number, at in enumerate(breaks[1:]):
        assert read[at][0] > 2_000 * (number + 1)  # the settled part grows, and is still found
        assert read[at][1] < 25_000
    calm = [new for turn, (_, new) in enumerate(read) if turn not in breaks and turn]
    assert max(calm) < 4_000  # otherwise only what is new is written


def test_a_dozen_calls_in_a_reply_do_not_lose_the_cached_prefix() -> None:
    cache, now = PromptCache(), 0
    written: list[int] = []

    def see(state: State) -> None:
        nonlocal now
        now += 20_000
        metered = cache.look(assert_valid(state, stage.context.marks(state)), now)
        cache.keep(metered, now)
        written.append(metered.usage.cache_write + metered.usage.input)

    stage = Stage(always(lambda turn: many(turn, 12, 1_500), 12), see=see)
    stage.run()
    assert max(written[1:]) < 8_000  # one turn's worth; the whole is 60,000 at the end
    assert true_tokens(stage.requests[-1]) > 50_000


def test_queued_messages_count() -> None:
    stage = Stage(always(reads, 3))
    stage.run()
    plain = asyncio.run(stage.context.shrink(stage.state, ())).tokens
    queued = asyncio.run(stage.context.shrink(stage.state, (user("x" * 30_000),))).tokens
    assert 8_500 < queued - plain < 11_000


def test_an_aborted_request_does_not_confuse_the_scene() -> None:
    """Edits that the state never took are made again."""
    config = Config(model=replace(FREE, window=60_000), advise_after=10**6, end_after=10**7)
    stage = Stage(always(lambda turn: reads(turn, 3_000), 40), config=config)
    stage.run()
    full = [at for at, ready in enumerate(stage.ready) if ready.edits]
    assert full
    lost = Stage(always(lambda turn: runs(turn, 90_000), 1))
    lost.run()
    without = replace(lost.state, edits=())
    again = asyncio.run(lost.context.shrink(without, ()))
    assert again.tokens >= lost.ready[-1].tokens
    assert [type(edit) for edit in lost.state.edits] == [Replace]


def kinds(state: State) -> set[type]:
    return {type(edit) for edit in state.edits}


def test_the_generated_conversations_reach_every_layer() -> None:
    """Else the properties above would hold for the wrong reason."""
    seen: set[type] = set()
    for steps in (
        ["shrink"],
        ["stage", "shrink"],
        [CompactionKind.TRIM],
        [CompactionKind.SUMMARY],
        ["shrink", "stage", "shrink", "shrink"],
    ):
        messages: list[Message] = [replace(user("go"), id="p")]
        for turn in range(12):
            made = reads(turn, 900) if turn % 2 else runs(turn, 900)
            messages.append(replace(made, id=f"r{turn}"))
            messages.append(
                ToolResult(f"call_{turn}", User(user(output(made.calls[0])).content).content, id=f"t{turn}")
            )
        context = new_context(LITTLE, [], replace(EAGER, collapse="stage" in steps))
        for state in asyncio.run(play(State(History(messages), model=LITTLE), list(map(str, steps)), context)):
            seen |= kinds(state)
    assert seen == {Drop, Fold, Replace}
