"""What the model sees: a pure function of history and edits (settled 1)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.play import FULL, Play, compacted, reply
from mainspring.core.events import ContextReady, Shrunk
from mainspring.core.history import History
from mainspring.core.messages import Origin, Text, User, result, user
from mainspring.core.updates import Boundary
from mainspring.core.view import Drop, Edit, Fold, Replace, from_the_front, out_of_view, prune, replaced_since, view


def message(id: str) -> User:
    return replace(user(f"text of {id}"), id=id)


def summary(id: str) -> User:
    return replace(user(f"summary {id}", Origin.SUMMARY), id=id)


LETTERS = History([message(letter) for letter in "abcdefgh"])


def seen(*edits: Edit, history: History = LETTERS) -> str:
    return " ".join(m.id for m in view(history, edits))


@pytest.mark.covers("D-20", "L-09", "B-26")
def test_the_view_shrinks_and_the_history_does_not() -> None:
    assert seen() == "a b c d e f g h"
    assert seen(Drop(("b", "c"))) == "a d e f g h"
    assert seen(Fold("a", "d", summary("S"))) == "S e f g h"
    assert seen(Fold("c", "d", summary("S"))) == "a b S e f g h"
    assert len(LETTERS) == 8


def test_a_replaced_result_keeps_its_place_and_its_pair() -> None:
    long = replace(result("call", "100 KB of log", is_error=True), id="r")
    history = History([message("a"), long, message("b")])
    short = (Text("[Old tool result cleared]"),)
    assert view(history, (Replace("r", short),)) == (message("a"), replace(long, content=short), message("b"))
    assert view(history, (Replace("r", (Text("first"),)), Replace("r", short)))[1].text == "[Old tool result cleared]"
    assert view(history, (Replace("a", short),))[0] == message("a")  # only results are replaced


def test_which_results_were_replaced_since() -> None:
    one, two, drop = Replace("e", (Text("cut"),)), Replace("f", ()), Drop(("c",))
    same = (drop, one)
    assert replaced_since(same, same) == ()
    assert replaced_since((drop, one), (drop, one)) == ()
    assert replaced_since((drop,), (drop, one, two)) == (one, two)
    assert replaced_since((drop,), (drop, one, Drop(("a",)))) is None  # something left the view
    assert replaced_since((drop, one), (drop,)) is None
    assert replaced_since((one,), (two, one)) is None


def test_a_later_fold_swallows_the_earlier_ones_it_covers() -> None:
    first, second = Fold("a", "c", summary("S")), Fold("a", "f", summary("T"))
    assert seen(first, second) == "T g h"
    assert seen(Fold("c", "d", summary("S")), second) == "T g h"
    assert seen(Fold("a", "b", summary("S")), Fold("d", "e", summary("T"))) == "S c T f g h"
    assert seen(first, Fold("c", "e", summary("T"))) == "S T f g h"  # overlapping: both are told
    assert seen(first, Fold("a", "b", summary("T"))) == "S T d e f g h"  # a later, shorter one uncovers nothing
    assert seen(first, Drop(("S",))) == "d e f g h"
    assert seen(first, Fold("a", "c", summary("T"))) == "T d e f g h"
    assert seen(Drop(("b", "e")), first) == "S d f g h"


def test_a_history_that_begins_after_or_within_a_fold() -> None:
    tail = History([message(letter) for letter in "fgh"])
    assert seen(Fold("a", "d", summary("S")), history=tail) == "S f g h"
    assert seen(Fold("a", "g", summary("S")), history=tail) == "S h"
    assert seen(Fold("a", "b", summary("S")), Fold("c", "d", summary("T")), history=tail) == "S T f g h"
    assert seen(Fold("a", "b", summary("S")), Fold("a", "f", summary("T")), history=tail) == "T g h"
    assert seen(Fold("a", "b", summary("S")), Fold("c", "f", summary("T")), history=tail) == "S T g h"
    assert seen(Fold("a", "b", summary("S")), Fold("f", "g", summary("T")), history=tail) == "S T h"
    both = (Fold("a", "b", summary("S")), Fold("c", "d", summary("T")))
    assert seen(*both, Fold("a", "f", summary("U")), history=tail) == "U g h"
    assert seen(*both, Fold("c", "f", summary("U")), history=tail) == "S U g h"
    assert seen(Fold("g", "z", summary("S")), history=tail) == "f g h"  # its end is unknown: no hole
    assert seen(Fold("a", "d", summary("S")), history=History()) == "S"
    assert seen(Drop(("z",)), Replace("z", ()), history=tail) == "f g h"


def test_pruning_forgets_what_a_fold_has_swallowed() -> None:
    early, late = Fold("a", "b", summary("S")), Fold("a", "d", summary("T"))
    edits = (early, Drop(("b", "c")), Drop(("c", "e")), Replace("d", ()), Replace("f", ()), late)
    assert prune(LETTERS, edits) == (Drop(("c", "e")), Replace("f", ()), late)
    assert prune(LETTERS, ()) == ()
    middle = Fold("c", "d", summary("S"))
    assert prune(LETTERS, (Replace("a", ()), Replace("c", ()), middle)) == (Replace("a", ()), middle)


def test_pruning_forgets_what_a_later_edit_undid() -> None:
    short, shorter = (Text("short"),), (Text("shorter"),)
    assert prune(LETTERS, (Replace("e", short), Replace("e", shorter))) == (Replace("e", shorter),)
    assert prune(LETTERS, (Replace("e", short), Drop(("e",)), Replace("e", shorter))) == (Drop(("e",)),)
    assert prune(LETTERS, (Drop(("c",)), Drop(("c", "d")), Drop(("d",)))) == (Drop(("c", "d")), Drop(("d",)))


edit_strategy = st.one_of(
    st.builds(Drop, st.lists(st.sampled_from("abcdefghSz"), max_size=3).map(tuple)),
    st.builds(Replace, st.sampled_from("abcdefghz"), st.sampled_from([(Text("short"),), (Text("shorter"),)])),
    st.builds(Fold, st.sampled_from("abcdefghz"), st.sampled_from("abcdefghz"), st.sampled_from("STUV").map(summary)),
)


@given(st.lists(edit_strategy, max_size=6).map(tuple), st.integers(0, 8), st.integers(0, 8))
def test_any_edits_on_any_part_of_a_history(edits: tuple[Edit, ...], start: int, end: int) -> None:
    """Total, never a message twice, order kept, and pruning changes nothing."""
    results = [replace(result("x", "long"), id=letter) if letter in "beg" else message(letter) for letter in "abcdefgh"]
    history = History(results[start:end])
    now = view(history, edits)
    originals = [m.id for m in now if m.id.islower()]
    assert originals == sorted(set(originals))
    assert set(originals) <= {m.id for m in history}
    assert view(history, prune(history, edits)) == now


# --- what need not stay in memory -------------------------------------------------------------------


def test_a_history_that_has_forgotten_counts_as_before() -> None:
    short = LETTERS.forget(3)
    assert (len(short), short.begin, [m.id for m in short]) == (8, 3, list("defgh"))
    assert [m.id for m in short.newest_first()] == list("hgfed")
    assert (short[3].id, short[-5].id, short[-1].id) == ("d", "d", "h")
    assert [m.id for m in short.since(0)] == list("defgh")
    assert [m.id for m in short.since(6)] == list("gh")
    for position in (2, -6, 8):
        with pytest.raises(IndexError, match="8, 3 of them forgotten"):
            short[position]
    longer = short.append(message("i"))
    assert (len(longer), longer.begin, longer.extends(short), longer[8].id) == (9, 3, True, "i")
    fork = short.append(message("j"))
    assert [m.id for m in fork] == list("defghj")
    assert [m.id for m in longer] == list("defghi")
    assert short.forget(2) is short
    assert list(short.forget(9)) == []
    assert len(short.forget(9)) == 8
    assert len(LETTERS) == 8  # whoever holds the old one keeps it all
    assert LETTERS[0].id == "a"


def test_what_was_forgotten_is_not_compared() -> None:
    assert LETTERS.forget(3) == LETTERS
    assert History([message("z"), *LETTERS.since(1)]).forget(1) == LETTERS
    assert LETTERS.forget(3) != LETTERS.append(message("i"))
    assert LETTERS.forget(3).append(message("i")) != LETTERS.append(message("j"))


def test_what_stands_behind_a_summary_is_out_of_view() -> None:
    assert out_of_view(LETTERS, ()) == 0
    assert out_of_view(LETTERS, (Fold("a", "c", summary("S")),)) == 3
    assert out_of_view(LETTERS, (Fold("b", "c", summary("S")),)) == 0
    assert out_of_view(LETTERS, (Fold("a", "c", summary("S")), Fold("d", "e", summary("T")))) == 5
    assert out_of_view(LETTERS, (Fold("a", "c", summary("S")), Drop(("d",)))) == 3
    whole = (Fold("a", "h", summary("S")),)  # the last message stays: it is how the end of a history is known
    assert out_of_view(LETTERS, whole) == 7
    assert seen(*whole, history=LETTERS.forget(7)) == "S"
    assert out_of_view(LETTERS.forget(7), whole) == 7
    assert out_of_view(History(), ()) == 0


def test_a_summary_of_all_that_is_here_begins_where_the_first_earlier_one_does() -> None:
    """Also in a history that was loaded from a checkpoint, and so has forgotten nothing itself."""
    edits = (Fold("a", "b", summary("S")), Fold("c", "e", summary("T")))
    new = (Drop(("h",)), Fold("f", "g", summary("U")), Fold("g", "g", summary("V")))
    tail = History([message(letter) for letter in "fgh"])
    for short in (LETTERS.forget(5), tail):
        front = from_the_front(short, edits, new)
        assert front == (new[0], Fold("a", "g", summary("U")), new[2])
        assert view(short, edits + front) == view(LETTERS, edits + front)
    assert from_the_front(tail, (), new) == new
    assert from_the_front(History(), edits, new) == new


@given(
    st.lists(edit_strategy, max_size=4).map(tuple),
    st.lists(edit_strategy.filter(lambda edit: not isinstance(edit, Fold)), max_size=3).map(tuple),
    st.integers(0, 8),
)
@example((Fold("a", "a", summary("S")), Fold("b", "h", summary("T"))), (), 0)
@example((Fold("a", "a", summary("S")), Fold("b", "g", summary("T")), Fold("h", "h", summary("U"))), (), 1)
@example((Fold("a", "h", summary("S")), Fold("b", "h", summary("T"))), (Drop(("S",)),), 0)
@example((Fold("a", "b", summary("S")), Fold("z", "a", summary("T"))), (), 0)
def test_forgetting_changes_no_view(before: tuple[Edit, ...], after: tuple[Edit, ...], last: int) -> None:
    """Neither now nor later: with more edits, more messages, and another summary of all that is in view."""
    edits = prune(LETTERS, before)
    short = LETTERS.forget(out_of_view(LETTERS, edits))
    assert view(short, edits) == view(LETTERS, edits)
    assert view(short, prune(short, edits)) == view(LETTERS, edits)
    longer, whole = short.append(message("i")), LETTERS.append(message("i"))
    assert view(longer, edits + after) == view(whole, edits + after)
    here = [m.id for m in longer]
    covering = from_the_front(longer, edits, (Drop(("h",)), Fold(here[0], here[last % len(here)], summary("Z"))))
    assert view(longer, edits + after + covering) == view(whole, edits + after + covering)


# --- edits in the loop ------------------------------------------------------------------------------


@pytest.mark.covers("B-26", "D-07")
def test_edits_of_the_layers_are_kept_and_each_is_shown() -> None:
    ready = ContextReady(100, edits=(Drop(("a",)),), injected=(message("memo"),), shrunk=(Shrunk("snip", 900),))
    play = Play([reply("", "1"), reply("done")], contexts=[ready, ContextReady(100, edits=(Drop(("b",)),))])
    assert play.state.edits == (Drop(("a",)), Drop(("b",)))
    assert play.shown == [Boundary("snip", freed=900)]
    assert play.said[0] == "prompt: text of memo"
    assert play.result.messages == 1  # the tool result; what was injected does not count as a turn


def test_the_edits_of_a_compaction_are_pruned_and_survive_the_run() -> None:
    first = Play([reply("", "1"), reply("done")])
    prompt = first.state.history[0].id
    fold = Fold(prompt, "r-1", summary("S"))
    early = ContextReady(FULL, edits=(Replace("r-1", ()),))
    second = Play(
        [reply("more")], contexts=[early, 100], compactions=[replace(compacted(), edits=(fold,))], after=first
    )
    assert second.state.edits == (fold,)
    assert view(second.state.history, second.state.edits)[0] == fold.summary
    third = Play([reply("on")], after=second)
    assert third.state.edits == (fold,)
