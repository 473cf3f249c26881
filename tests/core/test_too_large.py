"""A request that is too large in bytes: its ladder, and what becomes of a message that no rung makes smaller."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.play import CONFIG, FULL, Play, failure, reply
from mainspring.core.effects import Compact
from mainspring.core.events import Compacted, ContextReady
from mainspring.core.messages import Document, Origin, Text, User, user
from mainspring.core.moves import LARGE, in_words
from mainspring.core.reasons import Transition, Trouble
from mainspring.core.updates import Appended, Failed
from mainspring.core.view import Drop, Fold, view

TOO_LARGE = failure(Trouble.TOO_LARGE)
MEDIA = ContextReady(100, media=2)
GIANT = "x" * 3 * 1024 * 1024


def in_view(play: Play) -> list[str]:
    return [message.text for message in view(play.state.history, play.state.edits)]


@pytest.mark.covers("G-01", "G-15", "E-10", "E-12")
def test_the_whole_ladder_of_a_request_that_is_too_large() -> None:
    """Media first, whatever else is prepared: they are what weighs most in bytes."""
    play = Play([TOO_LARGE] * 4, contexts=[replace(MEDIA, staged=3)] * 9)
    assert play.transitions == [
        Transition.STRIP_MEDIA_RETRY,
        Transition.REACTIVE_COMPACT_RETRY,
        Transition.TRIM_RETRY,
    ]
    assert play.compacts == [(how, "request_too_large") for how in ("strip_media", "summary", "trim")]
    assert play.ending == ("prompt_too_long", "request_too_large")
    assert play.result.subtype == "error_during_execution"
    assert play.shown[-1] == Failed(TOO_LARGE)  # a short prompt is not to blame, so nothing is left out
    assert play.state.edits == ()


@pytest.mark.covers("E-12")
def test_without_the_media_it_passes_and_nobody_hears_of_it() -> None:
    play = Play([TOO_LARGE, reply("done")], contexts=[MEDIA], compactions=[Compacted(before=100, after=100)])
    assert play.transitions == [Transition.STRIP_MEDIA_RETRY]
    assert play.ending == ("completed", "end_turn")
    assert not any(isinstance(update, Failed) for update in play.updates)


def test_each_rung_is_used_once_until_there_is_progress() -> None:
    turn = [TOO_LARGE, TOO_LARGE, TOO_LARGE]
    play = Play([*turn, reply("", "1"), *turn, reply("done")], contexts=[MEDIA] * 9)
    once = [Transition.STRIP_MEDIA_RETRY, Transition.REACTIVE_COMPACT_RETRY, Transition.TRIM_RETRY]
    assert play.transitions == [*once, Transition.NEXT_TURN, *once]


@pytest.mark.parametrize("kind", [Trouble.TOO_LARGE, Trouble.PROMPT_TOO_LONG])
def test_a_giant_prompt_ends_its_run_and_not_its_session(kind: Trouble) -> None:
    first = Play([reply("hello")])
    play = Play([failure(kind)], prompt=GIANT, compactions=[False, False], after=first)
    assert play.result.terminal == "prompt_too_long"
    words = "A message of 3.0 MB will be left out from now on: put it into a file, and name the file instead"
    assert play.result.detail == f"{kind} happened. {words}"
    note = "[A message of 3.0 MB stood before this. It was too large to be sent, and is left out.]"
    [appended, failed] = play.shown
    assert isinstance(appended, Appended)
    assert appended.message == play.state.history[-1]
    assert failed == Failed(failure(kind, play.result.detail))
    assert in_view(play) == ["go", "hello", note]
    assert len(play.state.history) == 4, "histories only grow"
    after = Play([reply("here I am")], after=play, prompt="still there?")
    assert after.ending == ("completed", "end_turn")
    assert in_view(after) == ["go", "hello", note, "still there?", "here I am"]


def test_all_that_is_too_large_is_left_out_at_once() -> None:
    """Also what an earlier run left behind, which ended before anything could be done about it."""
    giants = [replace(user(GIANT), id=f"g{n}") for n in range(2)]
    before = Play([reply("hello")])
    before.state = replace(before.state, history=before.state.history.append(*giants))
    play = Play([TOO_LARGE], compactions=[False, False], after=before)
    assert "2 messages of 6.0 MB in all will be left out" in play.result.detail
    assert play.state.edits == (Drop(("g1", "g0")),)
    assert in_view(play)[-2] == "go", "what was short stays"


@pytest.mark.parametrize(("share", "gone"), [(3, True), (5, False)])
def test_a_message_must_be_a_good_part_of_what_is_in_view(share: int, gone: bool) -> None:
    """Else it is not what is in the way, and to lose it would not help."""
    first = Play([reply("y" * LARGE * 2 * (share - 1), "1"), reply("done")])
    play = Play([TOO_LARGE], prompt="x" * LARGE * 2, compactions=[False, False], after=first)
    assert ("x" * LARGE * 2 not in in_view(play)) is gone


@pytest.mark.parametrize(("length", "gone"), [(LARGE, True), (LARGE // 2, False)])
def test_a_short_message_is_never_left_out(length: int, gone: bool) -> None:
    play = Play([TOO_LARGE], prompt="x" * length, compactions=[False, False])
    assert bool(play.state.edits) is gone


def test_what_stands_in_place_of_a_giant_message_is_left_out_too() -> None:
    """To strip its media, another message was put in its place, with all of its words."""
    words = User((Text(GIANT), Text("[a document stood here]")), Origin.PROMPT, id="stripped")

    def strip(prompt: User) -> Compacted:
        return Compacted((Fold(prompt.id, prompt.id, words),), before=FULL, after=FULL)

    prompt = User((Text(GIANT), Document("application/pdf", "JVBE")), id="prompt9")
    before = Play([reply("hello")])
    before.state = replace(before.state, history=before.state.history.append(prompt))
    play = Play([TOO_LARGE] * 2, contexts=[MEDIA, 100], compactions=[strip(prompt), False, False], after=before)
    assert any(isinstance(effect, Compact) for effect in play.effects)
    assert play.state.edits[-1] == Drop(("stripped",))
    assert not any(GIANT in text for text in in_view(play))


def test_without_compaction_a_giant_prompt_does_not_block_the_session() -> None:
    config = replace(CONFIG, auto_compact=False)
    play = Play([], prompt=GIANT, contexts=[800_000], config=config)
    assert play.ending == ("blocking_limit", "window")
    assert play.result.detail.startswith("800,000 tokens in context. A message of 3.0 MB will be left out")
    after = Play([reply("done")], after=play, config=config)
    assert after.ending == ("completed", "end_turn")
    assert not any(GIANT in text for text in in_view(after))


@pytest.mark.parametrize(("tokens", "gone"), [(200_000, False), (200_001, True)])
def test_a_prompt_that_no_money_could_have_sent_is_left_out(tokens: int, gone: bool) -> None:
    """Within the window it stays: a higher limit would do."""
    play = Play([], prompt=GIANT, contexts=[ContextReady(tokens, funds=1_000)] * 2, compactions=[False] * 2)
    assert play.ending == ("completed", "budget_usd")
    assert ("A message of 3.0 MB will be left out" in play.result.detail) is gone
    assert (GIANT not in in_view(play)) is gone


@pytest.mark.parametrize(
    ("size", "words"),
    [(10_000, "10 kB"), (100_000, "98 kB"), (110_000, "0.1 MB"), (40_000_000, "38.1 MB"), (2**31, "2,048.0 MB")],
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert in_words(size) == words
