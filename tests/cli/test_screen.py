"""What a conversation shows of a call that takes long, and of what a run came to."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mainspring.cli.output import NoWrap, TerminalOutput
from mainspring.cli.plain import PlainScreen
from mainspring.core.messages import Text, ToolCall, ToolResult
from mainspring.core.models import DEFAULT_MODEL
from mainspring.core.money import Usage
from mainspring.core.reasons import Cause, Subtype, Terminal
from mainspring.core.updates import CallDone, CallProgress, CallStarted, Result


def test_a_long_call_is_heard_of_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    time = 0.0
    screen = PlainScreen(TerminalOutput(colour=False, wrap=NoWrap()), DEFAULT_MODEL, now=lambda: time)
    screen.show(CallStarted(ToolCall("1", "Bash", {"command": "make"})))
    for time in (0.5, 1.9, 2.1, 2.5, 4.2, 6.2, 9.0):  # the clock: a line after 2 s, the next 4 s later
        screen.show(CallProgress("1", f"step one\nat {time}\x1b[2J\n\n"))
    screen.show(CallProgress("1", "\n"))
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [line for line in shown if line.startswith("Progress: at")] == shown
    assert len(shown) == 2
    assert "\x1b" not in "".join(shown)


@pytest.mark.parametrize("estimated", [False, True])
def test_figures_that_were_guessed_are_shown_as_such(estimated: bool, capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen(TerminalOutput(colour=False, wrap=NoWrap()), DEFAULT_MODEL)
    spent = Usage(input=1_200, output=30, estimated=estimated)
    ended = Result(Terminal.COMPLETED, Cause.END_TURN, Subtype.SUCCESS, turns=1, usage=spent, cost=5_000_000)
    screen.show(replace(ended, estimated=estimated))
    told = "about 1,200 tokens in, 30 out, about $0.0050" if estimated else "1,200 tokens in, 30 out, $0.0050"
    assert capsys.readouterr().out.splitlines()[-1] == f"[1 turn, 0.0 s, {told}]"


@pytest.mark.parametrize(("lines", "more"), [(1, ""), (2, " (+1 line)"), (3, " (+2 lines)")])
def test_one_line_is_not_many(lines: int, more: str, capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen(TerminalOutput(colour=False, wrap=NoWrap()), DEFAULT_MODEL)
    screen.show(CallDone(ToolResult("1", (Text("\n".join(["hello"] * lines)),))))
    assert capsys.readouterr().out == f"Result: hello{more}\n"


@pytest.mark.parametrize(("turns", "told"), [(0, "0 turns"), (1, "1 turn"), (2, "2 turns")])
def test_one_turn_is_not_many(turns: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen(TerminalOutput(colour=False, wrap=NoWrap()), DEFAULT_MODEL)
    screen.show(Result(Terminal.COMPLETED, Cause.END_TURN, Subtype.SUCCESS, turns=turns))
    assert capsys.readouterr().out.startswith(f"[{told}, ")
