"""Compaction: the summary, what it keeps, how it fails; the trim and the media rung that need no model."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from providers.histories import disorderly, orderly
from tiers import examples

from context.layer_stage import (
    BIG,
    FREE,
    GOOD,
    Stage,
    always,
    failing,
    many,
    reads,
    results_in,
    says,
    state_of,
    text_of,
    true_tokens,
)
from mainspring.context.attachments import Summary
from mainspring.context.compactor import Compactor
from mainspring.context.groups import SAID, TurnGroups, select_user_quotes
from mainspring.context.layers import STRIPPED, LayerLimits
from mainspring.context.summary import FILE, MAX_OUTPUT, MOST, NOT_SAID, PREFACE, arrange_sections, cut_to_budget
from mainspring.context.tokens import SideCall, SideCallReply, TokenMeter, total_bytes
from mainspring.core.config import Config
from mainspring.core.effects import Compact, CompactionKind
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import (
    Assistant,
    Document,
    Image,
    Message,
    Origin,
    Stop,
    Text,
    ToolResult,
    User,
    result,
    user,
)
from mainspring.core.money import Usage
from mainspring.core.reasons import Cause, Failure, Terminal, Transition, Trouble
from mainspring.core.state import MAX_FAILURES, State
from mainspring.core.updates import Boundary
from mainspring.core.view import Fold, Replace, view

NEAR = Compact(CompactionKind.SUMMARY, Trouble.NEAR_LIMIT)
OFF = replace(LayerLimits(), per_result=10**9, per_message=10**9, snip=False, clear=False, collapse=False)
CONFIG = Config(model=FREE, advise_after=10**6, end_after=10**7)
TINY = replace(FREE, window=60_000)


def good(question: SideCall) -> SideCallReply:
    return SideCallReply(GOOD, Usage(input=100, output=200), 77)


def conversation(turns: int = 12, size: int = 9_000) -> State:
    messages: list[Message] = [user("Please mend the parser; the port is 7431.")]
    for turn in range(turns):
        messages += [reads(turn, size), result(f"call_{turn}", f"code {turn} " * (size // 8))]
        if turn % 5 == 4:
            messages.append(user(f"And mind rule {turn}."))
    return state_of(*messages)


def summed(state: State, answer: SideCallReply | Exception, effect: Compact = NEAR, **given: object) -> Summary:
    async def ask(question: SideCall) -> SideCallReply:
        if isinstance(answer, Exception):
            raise answer
        return answer

    context = Compactor(CONFIG, new_id=lambda: "new", ask=ask, limits=OFF, **given)  # type: ignore[arg-type]
    return asyncio.run(context.summarize(state, effect))


# --- what it makes ----------------------------------------------------------------------------------


@pytest.mark.covers("D-22", "D-23", "D-33")
def test_one_call_and_a_summary_stands_in_place_of_all_but_the_end() -> None:
    state = conversation()
    made = summed(state, good(SideCall((), 0)))
    (fold,) = made.edits
    assert isinstance(fold, Fold)
    assert (made.usage, made.cost, made.failed) == (Usage(input=100, output=200), 77, "")
    assert fold.first == state.history[0].id
    seen = view(state.history, made.edits)
    assert seen[0] is fold.summary
    tail = list(seen[1:])
    assert list(state.history)[-len(tail) :] == tail  # word for word, thinking and all
    assert isinstance(tail[0], User | Assistant)
    assert any(isinstance(message, Assistant) for message in tail)
    assert made.after < made.before / 2
    assert (
        abs(made.before - made.after - round((total_bytes(state.history) - total_bytes(seen)) / 3)) < made.before / 20
    )


def test_it_is_asked_with_the_conversation_itself_which_is_cached() -> None:
    state = conversation()
    asked: list[SideCall] = []

    async def ask(question: SideCall) -> SideCallReply:
        asked.append(question)
        return good(question)

    context = Compactor(CONFIG, new_id=lambda: "new", ask=ask, limits=OFF, steering=lambda: "Keep every port.")
    asyncio.run(context.summarize(state, NEAR, "Mind the tests."))
    (question,) = asked
    assert question.messages[:-1] == tuple(state.history)
    assert "## Last action" in question.messages[-1].text
    assert question.messages[-1].text.endswith("Also follow this:\nKeep every port.\nMind the tests.")
    assert question.marks[0] == state.history[-1].id
    assert not question.small
    assert question.max_output == MAX_OUTPUT


def test_the_schema_is_fixed() -> None:
    assert arrange_sections(GOOD) == GOOD
    odd = arrange_sections("I did this.\n**Files:**\na.py\n# Task\nmend")
    assert odd == (
        f"I did this.\n## Task\nmend\n## Decisions\n{NOT_SAID}\n## Files\na.py\n"
        f"## Open items\n{NOT_SAID}\n## Last action\n{NOT_SAID}"
    )


def test_the_users_words_outlive_every_summary() -> None:
    """Five summaries over one another: each prompt is still there, word for word, once."""
    said = [f"Rule {n}: the limit of service {n} is {7431 * (n + 1)}." for n in range(6)]
    stage = Stage(lambda turn: says("Done.") if turn % 21 == 0 else reads(turn), answers=good, limits=OFF)
    for words in said:
        stage.run(words)
        made = asyncio.run(stage.context.summarize(stage.state, NEAR))
        stage.state = replace(stage.state, edits=(*stage.state.edits, *made.edits))
    seen = text_of(view(stage.state.history, stage.state.edits))
    assert [seen.count(words) for words in said] == [1] * 6
    assert [seen.index(words) for words in said] == sorted(seen.index(words) for words in said)


def test_words_have_a_budget_and_the_first_and_the_newest_come_first() -> None:
    words = [f"{n} " + "x" * 98 for n in range(100)]
    kept = select_user_quotes(words, 1_050)
    assert [part.text.removeprefix(SAID).split()[0] for part in kept] == ["0", "[Left", *map(str, range(91, 100))]
    assert kept[1].text == "[Left out: 90 more messages of the user are not repeated here]"
    (long,) = select_user_quotes(["begin " + "y" * 50_000 + " end"], 3_000)
    assert long.text.startswith(SAID + "begin")
    assert long.text.endswith(" end")
    assert len(long.text) < 1_200
    assert select_user_quotes([], 100) == ()


def test_files_that_were_read_last_are_attached_again_within_a_budget() -> None:
    files = [("a.py", "limit = 5"), ("huge.py", "x" * 100_000), ("b.py", "y" * 15_000), ("c.py", "z" * 19_000)]
    files += [(f"{n}.py", "short") for n in range(9)]
    (fold,) = summed(conversation(30), good(SideCall((), 0)), files=lambda: files).edits
    assert isinstance(fold, Fold)
    texts = [part.text for part in fold.summary.content if isinstance(part, Text)]
    assert FILE.format(path="a.py", text="limit = 5") in texts
    attached = [text.split("'")[1] for text in texts if text.startswith("[A file")]
    assert attached == ["a.py", "b.py", "c.py", "0.py", "1.py"]
    assert texts[0] == PREFACE + GOOD


# --- how it fails -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ProviderError(Failure(Trouble.OVERLOADED, "busy")), "the summary failed: busy"),
        (SideCallReply("", failed="the stream broke"), "the stream broke"),
        (SideCallReply("  \n"), "the summary is empty"),
        (SideCallReply("no", stop=Stop.REFUSAL), "the model refused to write a summary"),
        (SideCallReply("cut off", stop=Stop.MAX_TOKENS), f"the summary is too long: more than {MOST:,} characters"),
        (SideCallReply("x" * (MOST + 1)), f"the summary is too long: more than {MOST:,} characters"),
    ],
)
def test_a_bad_answer_changes_nothing_and_is_paid_for(answer: SideCallReply | Exception, why: str) -> None:
    if isinstance(answer, SideCallReply):
        answer = replace(answer, usage=Usage(input=5), cost=3)
    made = summed(conversation(), answer)
    assert (made.failed, made.edits) == (why, ())
    assert made.cost == (3 if isinstance(answer, SideCallReply) else 0)


def test_a_summary_longer_than_what_it_replaces_is_refused() -> None:
    short = state_of(user("hi"), says("hello"), user("what now?"), says("this"), user("go on"))
    made = summed(short, SideCallReply("many words " * 200, cost=9))
    assert made.edits == ()
    assert made.failed.endswith("no room is made")
    assert (made.cost, made.before) == (9, made.after)


def test_nothing_to_sum_up_is_said_without_a_call() -> None:
    assert summed(state_of(user("hi")), AssertionError("asked")).failed == "there is nothing to compact"
    context = Compactor(CONFIG, new_id=lambda: "new")
    assert asyncio.run(context.summarize(conversation(), NEAR)).failed == "there is no model to write a summary"


SHORT = {
    "one exchange": (user("hi"), says("hello")),
    "a prompt that nobody answered": (user("hi"),),
    "two exchanges": (user("hi"), says("hello"), user("what now?"), says("this")),
}


@pytest.mark.covers("D-36")
@pytest.mark.parametrize("said", SHORT.values(), ids=SHORT)
def test_who_asks_for_a_summary_gets_one_however_short_the_conversation(said: tuple[Message, ...]) -> None:
    state = state_of(*said)
    asked = Compact(CompactionKind.SUMMARY, Trouble.NEAR_LIMIT, asked="")
    made = summed(state, SideCallReply("many words " * 200, cost=9), asked)
    assert made.failed == ""
    seen = view(state.history, made.edits)
    assert isinstance(seen[0], User)
    assert seen[0].origin is Origin.SUMMARY
    assert not set(seen) & {said[0]}
    again = replace(state, edits=made.edits)
    assert (
        len(said) > 2
        or summed(again, AssertionError("asked"), asked).failed == "there is nothing new since the last summary"
    )
    assert summed(state_of(), AssertionError("asked"), asked).failed == "it is empty"


@pytest.mark.covers("D-30")
def test_three_failures_open_the_breaker_and_the_trim_goes_on_without_a_model() -> None:
    stage = Stage(always(lambda turn: reads(turn, 30_000), 120), answers=lambda q: SideCallReply(""), limits=OFF)
    ended = stage.run()
    assert len(stage.questions) == MAX_FAILURES
    hows = [effect.how for effect, _ in stage.compactions]
    assert hows[: 2 * MAX_FAILURES] == [CompactionKind.SUMMARY, CompactionKind.TRIM] * MAX_FAILURES
    assert set(hows[2 * MAX_FAILURES :]) == {CompactionKind.TRIM}
    assert len(hows) > 2 * MAX_FAILURES
    assert ended.cause is Cause.END_TURN


def test_a_window_that_fills_up_at_once_ends_the_run_with_its_numbers() -> None:
    """Each turn brings more than the window holds; no compaction can help for long."""
    config = replace(CONFIG, model=TINY)
    stage = Stage(
        always(lambda turn: many(turn, 2, 200_000, "Read"), 40),
        config=config,
        answers=good,
        limits=OFF,
    )
    ended = stage.run()
    assert (ended.terminal, ended.cause) == (Terminal.PROMPT_TOO_LONG, Cause.REFILL)
    assert ended.detail == "the context is full again, soon after 3 compactions in a row"


# --- its own input always fits ------------------------------------------------------------------------


@settings(max_examples=examples(100))
@given(st.one_of(orderly(), disorderly()), st.integers(0, 3), st.integers(8_000, 60_000))
def test_the_question_fits_whatever_the_conversation_holds(messages: list[Message], big: int, budget: int) -> None:
    grown = [replace(m, content=(Text("é\n" * 60_000),)) if n % 4 == big and not isinstance(m, Assistant) else m
             for n, m in enumerate(messages)]  # fmt: skip
    scene = TurnGroups(TokenMeter(), 4, 60_000)
    scene.see(State(History(grown)))
    assert total_bytes(cut_to_budget(scene.groups, budget)) <= budget + 400 * len(grown)


def test_when_the_server_says_too_long_the_question_is_cut_first() -> None:
    def reply(turn: int) -> Assistant | Failure:
        return failing(Trouble.PROMPT_TOO_LONG) if turn == 13 else reads(turn, 40_000) if turn < 20 else says("Done.")

    stage = Stage(reply, answers=good, limits=OFF)
    stage.run("the first words")
    (question,) = stage.questions
    assert true_tokens(question.messages) < 0.7 * true_tokens(stage.requests[12])
    assert question.messages[0].text == "the first words"
    assert stage.transitions[13] is Transition.REACTIVE_COMPACT_RETRY


# --- without a model ----------------------------------------------------------------------------------


@pytest.mark.covers("D-20", "D-21")
def test_the_trim_keeps_the_front_and_the_end_and_says_what_is_gone() -> None:
    state = conversation(60, 9_000)
    made = summed(state, AssertionError("asked"), Compact(CompactionKind.TRIM, Trouble.NEAR_LIMIT))
    seen = view(state.history, made.edits)
    assert seen[0] == state.history[0]
    assert seen[-1] == state.history[-1]
    note = seen[1].text
    assert note.startswith("[")
    assert "messages were removed here" in note
    assert "Files that they were about: f0.py, f1.py" in note
    assert "And mind rule 4." in note
    assert made.after < 100_000  # half of the threshold, and what the estimate adds for safety
    assert len(state.history) == 1 + 120 + 12


def test_a_single_giant_turn_is_cut_by_the_trim() -> None:
    messages: list[Message] = [user("go"), many(1, 3, 10), *[result(f"call_1_{n}", "z" * 400_000) for n in range(3)]]
    state = state_of(*messages)
    made = summed(state, AssertionError("asked"), Compact(CompactionKind.TRIM, Trouble.PROMPT_TOO_LONG))
    assert all(isinstance(edit, Replace) for edit in made.edits)
    assert made.after < 170_000
    assert [len(found.text) < 3_000 for found in results_in(view(state.history, made.edits))].count(True) >= 2


def test_media_leaves_and_words_stay() -> None:
    png, pdf = Image("image/png", "aGk="), Document("application/pdf", "aGk=")
    state = state_of(
        User((Text("look at this"), png)), reads(1), ToolResult("call_1", (pdf, Text("a page"))), user("well?")
    )
    made = summed(state, AssertionError("asked"), Compact(CompactionKind.STRIP_MEDIA, Trouble.MEDIA))
    seen = view(state.history, made.edits)
    assert [part for message in seen if not isinstance(message, Assistant) for part in message.content] == [
        Text("look at this"), STRIPPED, STRIPPED, Text("a page"), Text("well?")
    ]  # fmt: skip
    again = replace(state, edits=made.edits)
    assert summed(again, AssertionError("asked"), Compact(CompactionKind.STRIP_MEDIA, Trouble.MEDIA)).failed


# --- the thresholds and the ladder ----------------------------------------------------------------------


@pytest.mark.covers("D-24", "D-25", "D-26", "D-28")
def test_the_worked_values() -> None:
    """A window of 200,000: the summary comes before the request that would exceed 167,000, and not earlier."""
    stage = Stage(always(lambda turn: reads(turn, 3_000), 220), answers=good, limits=OFF)
    stage.run()
    compacted = [at for at, ready in enumerate(stage.ready) if ready.tokens >= 167_000]
    assert compacted
    assert len(stage.compactions) == len(compacted)
    assert max(map(true_tokens, stage.requests)) < 167_000
    assert max(map(true_tokens, stage.requests)) > 165_000
    blocked = Stage(
        always(lambda turn: reads(turn, 3_000), 400),
        config=replace(CONFIG, auto_compact=False),
        answers=good,
        limits=OFF,
    )
    ended = blocked.run()
    assert ended.terminal is Terminal.BLOCKING_LIMIT
    assert 177_000 <= blocked.ready[-1].tokens < 178_500
    assert not blocked.questions


@pytest.mark.covers("D-18", "D-41")
def test_the_ladder_rung_by_rung() -> None:
    """Drain what is staged, strip media, one summary, then the trim because the summary failed; then it is shown."""
    limits = replace(OFF, collapse=True, stage=20_000)

    def reply(turn: int) -> Assistant | Failure:
        return says("Done.") if turn == 18 else reads(turn, 12_000) if turn < 18 else failing(Trouble.PROMPT_TOO_LONG)

    stage = Stage(reply, answers=lambda q: SideCallReply("A part.") if q.small else SideCallReply(""), limits=limits)
    stage.run()
    stage.media = (Image("image/png", "aGk="),)
    ended = stage.run("look at this")
    drained = min(3, stage.ready[18].staged)
    assert drained >= 1
    assert stage.transitions[18:] == [
        None,
        *[Transition.COLLAPSE_DRAIN_RETRY] * drained,
        Transition.STRIP_MEDIA_RETRY,
        Transition.TRIM_RETRY,
    ]
    hows = [effect.how for effect, _ in stage.compactions]
    assert hows == [
        *[CompactionKind.COLLAPSE] * drained,
        CompactionKind.STRIP_MEDIA,
        CompactionKind.SUMMARY,
        CompactionKind.TRIM,
    ]
    assert (ended.terminal, ended.cause) == (Terminal.PROMPT_TOO_LONG, Cause.WINDOW)


@pytest.mark.covers("D-35")
def test_a_boundary_is_shown_with_what_it_was_before_and_after() -> None:
    stage = Stage(always(lambda turn: reads(turn, 30_000), 25), answers=good, limits=OFF)
    stage.run()
    shown = [update for update in stage.updates if isinstance(update, Boundary)]
    assert [update.layer for update in shown] == ["summary"]
    assert shown[0].before >= 167_000
    assert shown[0].after < 40_000
    assert BIG.window == FREE.window
