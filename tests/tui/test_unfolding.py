"""What was cut of the last calls is whole in the transcript (Ctrl-O)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from mainspring.cli.tui.notices import MOST_KEPT
from mainspring.core.updates import Rendering
from tui.seeing import Watching


def rows(number: int) -> str:
    return "\n".join([f"row {at}" for at in range(number)])


def ran(seen: Watching, name: str, number: int) -> Watching:
    return seen.calls("Bash", name, name).done(rows(number), Rendering(name, rows(number), "output"), name)


@settings(max_examples=examples(30))
@given(st.lists(st.integers(1, 8), max_size=80))
def test_no_mark_of_the_last_fifty_calls_is_dead(calls: list[int]) -> None:
    seen = Watching().reply()
    for at, number in enumerate(calls):
        ran(seen, f"call-{at}", number)
    for at, number in enumerate(calls):
        whole = [f"● Bash(call-{at})", *[("  ⎿  " if row == 0 else "     ") + f"row {row}" for row in range(number)]]
        assert seen.whole(f"call-{at}") == (whole if at >= len(calls) - MOST_KEPT else [])


def test_another_conversation_has_calls_of_its_own() -> None:
    seen = ran(Watching().reply(), "one", 9)
    seen.shown.forget()
    assert seen.whole("one") == []


def test_what_is_whole_is_not_endless() -> None:
    seen = Watching().reply().calls("Bash", "seq").done("\n".join(map(str, range(5_000))))
    assert seen.whole("c")[-1] == "     … 3,000 more lines in the session file"
