"""What happens to a run, in words for people."""

from __future__ import annotations

import time

import pytest

from mainspring.agent.loop_notices import LAYERS, TRANSITIONS, explain_context_edit, explain_request
from mainspring.cli.tui.notices import TROUBLES, WAITED, RetryNotice, describe_withdrawn
from mainspring.context.compactor import Compactor
from mainspring.core.config import Config
from mainspring.core.effects import CompactionKind
from mainspring.core.models import DEFAULT_MODEL
from mainspring.core.money import Usage
from mainspring.core.reasons import PASSING, Cause, Failure, Subtype, Terminal, Transition, Trouble
from mainspring.core.updates import Boundary, ReplyStarted, RequestStarted, Result, Retrying, Update
from tui.seeing import Watching

TOLD_BY_THE_BOUNDARY = {Transition.AUTO_COMPACT, Transition.AUTO_TRIM}


@pytest.mark.parametrize("why", Transition)
def test_each_reason_to_ask_again_has_its_words(why: Transition) -> None:
    words = explain_request(RequestStarted(2, "haiku", why))
    assert bool(words) == (why not in {Transition.NEXT_TURN} | TOLD_BY_THE_BOUNDARY)
    assert why.value not in words
    assert ("haiku" in words) == (why is Transition.MODEL_FALLBACK)


def test_the_first_request_of_a_run_is_nothing_to_tell_of() -> None:
    assert explain_request(RequestStarted(1, "haiku")) == ""


def test_each_trouble_has_its_words() -> None:
    assert TROUBLES.keys() == set(Trouble)
    assert WAITED.keys() == PASSING
    assert TRANSITIONS.keys() == set(Transition)
    assert all(words and "_" not in words for words in (*TROUBLES.values(), *WAITED.values()))


def test_each_way_to_make_room_has_its_words() -> None:
    context = Compactor(Config(model=DEFAULT_MODEL), new_id=str)
    assert LAYERS.keys() == {"tool_results", *CompactionKind, *[name for name, _ in context._layers]}


def test_lines_are_short_and_plain() -> None:
    assert explain_request(RequestStarted(2, "m", Transition.STREAM_RETRY)) == "(the connection broke: retrying)"
    assert explain_context_edit(Boundary("summary", 100_000, 20_000)) == (
        "(the conversation was compacted to make room, from 100,000 to 20,000 tokens)"
    )
    assert explain_context_edit(Boundary("own", freed=7)) == "(own to make room, 7 tokens less)"
    assert (
        describe_withdrawn(Trouble.STREAM_CUT, was_seen=True) == "(the text above was discarded: the connection broke)"
    )
    assert describe_withdrawn(Trouble.STREAM_CUT, was_seen=False) == "(a reply was discarded: the connection broke)"


# --- tries ----------------------------------------------------------------------------------------------------------

BUSY, AWAY = Failure(Trouble.OVERLOADED, "busy", 529), Failure(Trouble.NETWORK, "no route")
STARTED = ReplyStarted("r", "m", Usage())
GAVE_UP = Result(Terminal.MODEL_ERROR, Cause.OVERLOADED, Subtype.SUCCESS)


def test_how_many_tries_there_are_is_told_if_it_is_known() -> None:
    assert RetryNotice().see(Retrying(BUSY, 2, 4_000, most=10), 0.0) == "The server is overloaded: attempt 3 of 10"
    assert RetryNotice().see(Retrying(AWAY, 1, 4_000), 0.0) == "The server cannot be reached: attempt 2"


def test_a_long_wait_says_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status says when the next attempt starts; a heartbeat does not move it."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    clock = 1_800_000_000.0  # 08:00
    notice = RetryNotice(lambda: clock)
    words = "The server is overloaded: attempt 12 of 81 at 08:05"
    assert notice.see(Retrying(BUSY, 11, 300_000, 81), 0.0) == words
    clock += 30.4
    assert notice.see(Retrying(BUSY, 11, 270_000, 81, beat=1), 30.4) == words
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("over", [STARTED, RequestStarted(1, "m", Transition.MODEL_FALLBACK), GAVE_UP])
def test_tries_are_one_line_while_they_last_and_one_when_they_are_over(over: Update) -> None:
    seen = Watching(80).see(RequestStarted(1, "m"))
    for attempt in (1, 2, 3, 4):
        seen.see(Retrying(BUSY, attempt, 4_000, 10), Retrying(BUSY, attempt, 3_000, 10))
        assert seen.drawn()[-1][2:].startswith(
            f"The server is overloaded: attempt {attempt + 1} of 10, retrying in 3 s… ("
        )
        seen.time += 3.0
        assert seen.drawn()[-1][2:].startswith(
            f"The server is overloaded: attempt {attempt + 1} of 10, retrying now… ("
        )
    assert seen.paper.said == []
    assert seen.see(over).paper.said[0] == "(waited 12 s: the server was overloaded, 5 attempts)"
    assert "overloaded: try" not in "".join(seen.drawn())
    seen.see(STARTED)
    assert sum("waited" in line for line in seen.paper.said) == 1


def test_an_interruption_while_it_waits_leaves_the_line_too() -> None:
    seen = Watching().see(RequestStarted(1, "m"), Retrying(AWAY, 1, 4_000))
    seen.time = 2.0
    seen.shown.ends()
    assert seen.paper.said == ["(waited 2 s: the server could not be reached, 2 attempts)"]
