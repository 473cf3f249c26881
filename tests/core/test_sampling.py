"""Sampling settings in the core: when a call is forced, and when the model thinks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.play import CONFIG, Play, reply
from mainspring.core.config import Sampling
from mainspring.core.effects import CallModel, Request
from mainspring.core.messages import ToolCall
from mainspring.core.models import model_named


def requests_of(play: Play) -> list[Request]:
    return [effect.request for effect in play.effects if isinstance(effect, CallModel)]


def test_a_forced_call_is_forced_in_the_first_turn_only() -> None:
    """Else no run could end (law 1)."""
    calls = reply("", ToolCall("1", "add", {}))
    play = Play([calls, reply("5")], config=replace(CONFIG, sampling=Sampling(tool_choice="add", temperature=0)))
    assert [asked.sampling for asked in requests_of(play)] == [
        Sampling(tool_choice="add", temperature=0),
        Sampling(temperature=0),
    ]


@pytest.mark.parametrize(
    ("sampling", "thinks"),
    [
        (None, True),
        (Sampling(seed=1, stop=("x",), tool_choice="auto", temperature=1, top_p=0.95), True),
        (Sampling(temperature=0), False),
        (Sampling(top_p=0.9), False),
        (Sampling(tool_choice="required"), False),
    ],
)
def test_a_thinking_budget_gives_way(sampling: Sampling | None, thinks: bool) -> None:
    """The Messages API refuses both together."""
    config = replace(CONFIG, model=model_named("claude-haiku-4-5"), sampling=sampling)
    assert (requests_of(Play([reply("5")], config=config))[0].thinking is not None) is thinks
