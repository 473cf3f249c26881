"""What was cut of calls can be looked at: turn by turn, the newest first, and only once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from mainspring.cli.tui.notices import MOST_KEPT
from mainspring.core.reasons import Transition
from mainspring.core.updates import Rendering, RequestStarted
from tui.seeing import Watching

NEXT = RequestStarted(2, "m", Transition.NEXT_TURN)


def rows(number: int) -> str:
    return "\n".join([f"row {at}" for at in range(number)])


def ran(seen: Watching, name: str, number: int) -> Watching:
    return seen.calls("Bash", name).done(rows(number), Rendering(name, rows(number), "output"))


def unfolded(seen: Watching) -> list[str]:
    before = len(seen.paper.said)
    seen.shown.unfold()
    return seen.paper.said[before:]


def heads(seen: Watching) -> list[str]:
    return [line for line in unfolded(seen) if not line.startswith("     ") and "⎿" not in line]


def test_each_press_unfolds_the_turn_before() -> None:
    seen = Watching().reply()
    assert not seen.shown.unfold()
    ran(ran(seen, "one", 9), "two", 6).see(NEXT)
    seen.time = 60.0
    ran(seen, "three", 7).see(NEXT)
    ran(seen, "short", 2).see(NEXT)
    seen.time = 64.0
    assert unfolded(seen) == [
        "Full output of 1 call, 4 s ago · earlier calls: (ctrl+o)", "● Bash(three)", "  ⎿  row 0",
        *[f"     row {at}" for at in range(1, 7)],
    ]  # fmt: skip
    assert heads(seen) == ["Full output of 2 calls, 1 min 4 s ago", "● Bash(one)", "● Bash(two)"]
    assert not seen.shown.unfold()


def test_what_comes_later_in_a_turn_is_unfolded_as_well() -> None:
    seen = ran(Watching().reply(), "one", 9)
    assert heads(seen)[1:] == ["● Bash(one)"]
    assert heads(ran(seen, "two", 9))[1:] == ["● Bash(two)"]


@pytest.mark.parametrize(
    ("name", "line", "text", "shown", "cut"),
    [
        ("Bash", "ls", rows(4), Rendering("ls", rows(4), "output"), False),
        ("Bash", "ls", rows(5), Rendering("ls", rows(5), "output"), True),
        ("Grep", "Grep x", "a\nb", Rendering("Found 2 files", "a\nb"), True),
        ("Read", "Read x", rows(80), Rendering("Read 80 lines"), False),
        ("TaskList", "Tasks", rows(80), Rendering("Tasks: 1", rows(80)), False),
        ("WebFetch", "Fetch x", rows(80), Rendering("Received 7 bytes"), True),
        ("EnterPlanMode", "Plan", "Now explore.", Rendering("Plan mode"), False),
    ],
)
def test_only_what_was_cut_is_unfolded(name: str, line: str, text: str, shown: Rendering, cut: bool) -> None:
    assert Watching().reply().calls(name, line).done(text, shown).shown.unfold() == cut


def test_what_was_cut_for_want_of_room_is_unfolded() -> None:
    line = "word " * 30
    assert not Watching(100).reply().calls("X").done(line).shown.unfold()
    assert Watching(20).reply().calls("X").done(line).shown.unfold()


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(st.integers(1, 8), st.booleans()), max_size=80))
def test_no_mark_of_the_last_fifty_calls_is_dead(calls: list[tuple[int, bool]]) -> None:
    seen = Watching().reply()
    for at, (number, is_last) in enumerate(calls):
        ran(seen, f"call-{at}", number)
        if is_last:
            seen.see(NEXT)
    marked = [at for at, (number, _) in enumerate(calls) if number > 4 and at >= len(calls) - MOST_KEPT]
    assert sum("(ctrl+o)" in line for line in seen.paper.lines) >= len(marked)
    found: list[str] = []
    while more := unfolded(seen):
        found += [line for line in more if line.startswith("● Bash(")]
    assert sorted(found) == sorted([f"● Bash(call-{at})" for at in marked])


def test_another_conversation_has_calls_of_its_own() -> None:
    seen = ran(Watching().reply(), "one", 9)
    seen.shown.forget()
    assert not seen.shown.unfold()


def test_what_is_unfolded_is_not_endless() -> None:
    seen = Watching().reply().calls("Bash", "seq").done("\n".join(map(str, range(5_000))))
    seen.shown.unfold()
    assert seen.paper.said[-1] == "     … 3,000 more lines in the session file"
