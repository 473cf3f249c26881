"""How much of the tools' time passes while the model talks."""

from __future__ import annotations

from mainspring.cli.commands.demo_screen import DemoSpan, TurnTimer, format_timeline


class Clock:
    now = 1_000

    def __call__(self) -> int:
        return self.now


def test_only_what_passes_during_the_reply_is_hidden() -> None:
    clock = Clock()
    turn = TurnTimer(clock)

    def at(milliseconds: int) -> None:
        clock.now = 1_000 + milliseconds

    at(10)
    turn.note_talk()
    at(20)
    turn.started("a", "Read a")
    at(30)
    turn.started("b", "Bash b")
    at(50)
    turn.done("a")
    at(90)
    turn.note_talk()
    at(130)
    turn.done("b")
    turn.started("c", "Edit c")
    at(135)
    turn.done("c")
    assert turn.spans == [
        DemoSpan("the reply", 10, 90),
        DemoSpan("Read a", 20, 50),
        DemoSpan("Bash b", 30, 130),
        DemoSpan("Edit c", 130, 135),
    ]
    assert (turn.tool_time, turn.hidden) == (30 + 100 + 5, 30 + 60)


def test_a_turn_in_which_nothing_happened() -> None:
    turn = TurnTimer(Clock())
    assert (turn.spans, turn.tool_time, turn.hidden) == ([], 0, 0)


def test_the_timeline_is_to_scale_and_fits() -> None:
    lines = format_timeline(
        [
            DemoSpan("the reply", 0, 180),
            DemoSpan("Read a", 90, 90),
            DemoSpan("Edit", 360, 360),
            DemoSpan("x" * 90, 90, 360),
        ]
    )
    assert [line[27:63].rstrip() for line in lines] == ["=" * 18, " " * 9 + "=", " " * 35 + "=", " " * 9 + "=" * 27]
    assert [line[63:] for line in lines[:2]] == ["    0 -  180 ms", "   90 -   90 ms"]
    assert {len(line) for line in lines} == {78}


def test_a_timeline_without_any_time() -> None:
    assert format_timeline([DemoSpan("Read a", 0, 0)])[0].split() == ["Read", "a", "=", "0", "-", "0", "ms"]
