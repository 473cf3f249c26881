"""Every call has exactly one result (F-20), and a state survives being stored."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.play import CONFIG, FULL, Play, failure, reply
from mainspring.core.errors import ProtocolError
from mainspring.core.events import Aborted, CallFailed, Submitted, ToolsDone
from mainspring.core.history import History
from mainspring.core.messages import Defect, Stop, ToolCall, result, user
from mainspring.core.pairing import NeverRan, find_unpaired_ids, open_calls
from mainspring.core.reasons import AbortReason, Trouble
from mainspring.core.state import State, Totals, checkpoint, decode_checkpoint, encode_checkpoint, restore
from mainspring.core.step import step
from mainspring.core.updates import Appended, Tombstone
from mainspring.core.value import Stamp
from mainspring.core.view import Drop


@pytest.mark.covers("F-11")
def test_results_stand_in_the_order_of_the_calls_whatever_finished_first() -> None:
    late_first = (result("2", "fast"), result("1", "slow"))
    play = Play([reply("", "1", "2"), reply("done")], tools=[late_first])
    assert play.said[1:3] == ["result <1>: slow", "result <2>: fast"]


@pytest.mark.parametrize(
    "results",
    [
        (result("9", "whose?"),),
        (result("1", "once"), result("1", "twice")),
    ],
    ids=["unknown", "twice"],
)
def test_results_that_do_not_fit_are_a_bug(results: tuple[object, ...]) -> None:
    with pytest.raises(ProtocolError, match="do not fit the calls"):
        Play([reply("", "1")], tools=[results])  # type: ignore[list-item]


def test_a_call_that_was_to_run_and_has_no_result_is_a_bug() -> None:
    with pytest.raises(ProtocolError, match="1 results for 2 calls that were to run"):
        Play([reply("", "1", "2")], tools=[(result("1", "x"),)])


@pytest.mark.covers("F-20", "F-21")
def test_calls_that_a_crash_left_open_are_closed_when_the_next_run_begins() -> None:
    crashed = Play([reply("done")])
    dangling = reply("", "1", "2")
    crashed.state = replace(
        crashed.state, history=crashed.state.history.append(dangling, result("1", "known"), user("memo"))
    )
    play = Play([reply("on")], after=crashed)
    assert [m.text for m in play.state.history][-3:] == [NeverRan.LOST, "go", "on"]
    assert find_unpaired_ids(play.state.history) == ()


def test_a_run_that_broke_off_is_cleared_up_by_the_next() -> None:
    """Whatever the state waits for, a submission begins a run, with what is known of the one before."""
    state = step(State(History()), Submitted((user("go"),)), CONFIG).state
    partial, known = reply("half", "1", "2", id="m"), replace(result("2", "done"), id="r")
    stamp = Stamp("second", 20)
    next_ = step(state, Submitted((user("again"),), partial, (known,), stamp=stamp), CONFIG)
    texts = [message.text for message in next_.state.history]
    assert texts == ["go", "half", NeverRan.LOST, "done", "again"]
    assert next_.state.totals == Totals()
    assert replace(partial, stop=Stop.UNFINISHED) == next_.state.history[1]
    assert (next_.state.history[2].id, next_.state.history[2].at) == ("second.2", 20)
    assert len(next_.updates) == 1
    empty = step(state, Submitted((), reply()), CONFIG).state
    assert [message.text for message in empty.history] == ["go"]


def test_open_calls_looks_at_the_last_reply_only() -> None:
    assert open_calls(History()) == ()
    assert open_calls(History([user("hi")])) == ()
    assert open_calls(History([reply("", "1"), reply("text")])) == ()
    one, two = (ToolCall(id, "Read", {"path": id}) for id in "12")
    assert open_calls(History([reply("", "1", "2")])) == (one, two)
    assert open_calls(History([reply("", "1", "2"), result("1", "x"), user("hi")])) == (two,)


def test_unpaired_names_what_is_wrong() -> None:
    assert find_unpaired_ids(()) == ()
    assert find_unpaired_ids((reply("", "1"), result("1", "x"))) == ()
    assert find_unpaired_ids((reply("", "1", "2"), result("2", "x"))) == ("1",)
    assert find_unpaired_ids((result("1", "x"), user("hi"))) == ("1",)
    assert find_unpaired_ids((reply("", "1"), result("1", "x"), result("1", "y"))) == ("1",)
    assert find_unpaired_ids((reply("", "1"), reply("", "1"))) == ("1", "1")


@pytest.mark.covers("F-20", "F-21")
@pytest.mark.parametrize(
    "play",
    [
        Play([reply("", "1", "2")], tools=[ToolsDone((), stopped="no")]),
        Play([reply("", "1")], config=replace(CONFIG, max_turns=1)),
        Play([Aborted(AbortReason.PARENT, reply("", "1", "2"))]),
        Play([CallFailed(failure(Trouble.SERVER), kept=reply("", "1")), reply("done")]),
        Play([CallFailed(failure(Trouble.AUTH), kept=reply("", "1")), failure(Trouble.AUTH)]),
    ],
    ids=["hook", "turns", "abort", "cut", "failure that keeps a call"],
)
def test_pairs_in_every_ending(play: Play) -> None:
    assert find_unpaired_ids(play.state.history) == ()


# --- checkpoints ------------------------------------------------------------------------------------


@pytest.mark.covers("A-27", "B-01")
@pytest.mark.parametrize(
    "play",
    [
        Play([reply("", "1"), reply("done?"), reply("done")], hooks=["no"]),
        Play(
            [failure(Trouble.OVERLOADED), reply("done")],
            config=replace(CONFIG, fallbacks=(replace(CONFIG.model, name="b"),)),
        ),
        Play(
            [reply("", ToolCall("1", "StructuredOutput", {"a": [1, None]}))],
            config=replace(CONFIG, structured_output=True),
        ),
        Play([reply("done")], contexts=[FULL, 100]),
    ],
)
def test_a_state_survives_being_stored_at_every_step(play: Play) -> None:
    state = play.before
    for event in play.events:
        state = step(state, event, play.config).state
        saved = decode_checkpoint(encode_checkpoint(checkpoint(state)))
        assert saved is not None
        assert restore(saved, state.history) == state
    assert state == play.state


def test_a_checkpoint_knows_where_it_stands_and_holds_no_message() -> None:
    play = Play([reply("a long answer that is not in the checkpoint", "1"), reply("done", id="last")])
    saved = checkpoint(replace(play.state, edits=(Drop(("x",)),)))
    assert (saved.version, saved.length, saved.last_id) == (1, 4, "last")
    assert len(saved.state.history) == 0
    stored = encode_checkpoint(saved)
    assert b"long answer" not in stored
    assert checkpoint(State(History())).last_id == ""


def test_a_checkpoint_of_another_version_or_of_another_place_is_not_taken() -> None:
    play = Play([reply("done", id="last")])
    stored = encode_checkpoint(checkpoint(play.state))
    assert decode_checkpoint(stored.replace(b'"version":1', b'"version":99')) is None
    saved = decode_checkpoint(stored)
    assert saved is not None
    tail = History([play.state.history[-1]])  # loaded from the middle on
    assert list(restore(saved, tail).history) == list(tail)
    for elsewhere in (History(), History([user("other")])):
        with pytest.raises(ProtocolError, match="was taken at message 'last', the history ends at ''"):
            restore(saved, elsewhere)


def test_a_call_id_used_twice_in_a_reply_is_refused() -> None:
    with pytest.raises(ProtocolError, match="uses a call id twice"):
        Play([reply("", "a", "a")])


def test_a_result_for_a_call_that_was_not_to_run_is_a_bug() -> None:
    broken = ToolCall("2", "Edit", {}, Defect.MALFORMED)
    with pytest.raises(ProtocolError, match="do not fit the calls"):
        Play([reply("", "1", broken)], tools=[(result("1", "x"), result("2", "y"))])


def test_a_made_up_result_is_a_stamped_error_and_each_is_shown() -> None:
    play = Play([Aborted(AbortReason.SUBMIT, reply("", "1", "2"))])
    event = play.events[-1].stamp
    made = [
        replace(
            result(call, NeverRan.INTERRUPTED, is_error=True, synthetic=True),
            id=f"{event.id}.{place}",
            at=event.at,
        )
        for call, place in (("1", 2), ("2", 3))
    ]
    assert list(play.state.history)[2:] == made
    assert play.shown == [Appended(message) for message in made]


def test_a_withdrawn_or_kept_reply_is_no_longer_pending_and_a_recovered_failure_no_longer_withheld() -> None:
    play = Play(
        [reply(), reply(stop=Stop.PAUSE_TURN, id="p"), failure(Trouble.PROMPT_TOO_LONG), reply("", "1"), reply("done")]
    )
    assert (play.state.pending, play.state.withheld) == (None, None)
    assert Tombstone("p", Trouble.PAUSED) in play.shown
    assert Play([reply(), reply("done")]).state.pending is None
    in_tools = Play([failure(Trouble.PROMPT_TOO_LONG), reply("", "1")], tools=[Aborted(AbortReason.HARD)])
    assert in_tools.state.withheld is None
