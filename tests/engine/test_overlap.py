"""How much of the tools' time is hidden behind the stream (P-03, P-06), for five shapes of a reply."""

from __future__ import annotations

import pytest

from engine.stage import Stage
from mainspring.core.updates import RequestStarted
from mainspring.providers.scripted import ScriptedReply
from mainspring.testing import Pause, World, call, says

TALK = Pause(200)  # the model goes on talking

SHAPES: dict[str, tuple[ScriptedReply, int, int, int]] = {
    # the reply, its length in ms, the tools' time in ms, and how long after the reply the last one is done
    "one read, then text": (says(call("Read", ms=100), TALK), 200, 100, 0),
    "five reads, then text": (says(*[call("Read", ms=100) for _ in range(5)], TALK), 200, 500, 0),
    "text, then one read": (says(TALK, call("Read", ms=100)), 200, 100, 100),
    "reads between text": (
        says(call("Read", ms=100), TALK, call("Read", ms=150), Pause(50), call("Read", ms=80)),
        250,
        330,
        100,
    ),
    "read, write, read": (
        says(call("Read", ms=100), call("Edit", ms=50), call("Read", ms=100), TALK),
        200,
        250,
        150,
    ),
}


@pytest.mark.covers("P-03", "P-06", "F-01", "F-19")
def test_share_of_tool_time_hidden_behind_the_stream(capsys: pytest.CaptureFixture[str]) -> None:
    figures = []
    for name, (reply, length, tools, after) in SHAPES.items():
        stage = Stage(World([reply, says("Done.")]))
        requests = [update for update in stage.updates if isinstance(update, RequestStarted)]
        assert len(requests) == 2
        done = max(until for _, _, until in stage.world.ran)
        assert max(0, done - length) == after, name
        assert sum(until - begun for _, begun, until in stage.world.ran) == tools
        hidden = 1 - after / tools
        figures.append(f"{name} {hidden:.0%}")
    with capsys.disabled():
        print(f"\ntool time hidden behind the stream: {'; '.join(figures)}")
