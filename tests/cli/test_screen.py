"""What a conversation shows of a call that takes long."""

from __future__ import annotations

import pytest

from mainspring.cli.output import Output
from mainspring.cli.screen import Screen
from mainspring.cli.wrap import AsItIs
from mainspring.core.messages import ToolCall
from mainspring.core.models import DEFAULT_MODEL
from mainspring.core.updates import CallProgress, CallStarted


def test_a_long_call_is_heard_of_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    time = 0.0
    screen = Screen(Output(colour=False, wrap=AsItIs()), DEFAULT_MODEL, now=lambda: time)
    screen.show(CallStarted(ToolCall("1", "Bash", {"command": "make"})))
    for time in (0.5, 1.9, 2.1, 2.5, 4.0, 4.2):  # the clock
        screen.show(CallProgress("1", f"step one\nat {time}\x1b[2J\n\n"))
    screen.show(CallProgress("1", "\n"))
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [line for line in shown if line.startswith("at")] == shown
    assert len(shown) == 2
    assert "\x1b" not in "".join(shown)
