"""The whole of `tests/wire/test_flat_turns.py`: every class of model and every front end, behind longer histories."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from wire.counting import counted, growth

pytestmark = [
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(sys.platform != "linux", reason="valgrind does not run here"),
]

WARMING = "adaptive"
MOST = 1.06  # times the short one's count: the request has to be copied and sent, and nothing else may grow
MODELS = ["adaptive, thinking", "budget", "budget, thinking", "no thinking", "chat", "responses", "toolless"]
SHARED = ["two sessions", "prompts", "budget prompts"]
SDK, COMMAND = ["sdk", "sdk, budget", "sdk prompts"], ["command", "pipe"]


@pytest.mark.parametrize("names", [MODELS, SHARED], ids=["models", "sessions"])
def test_a_turn_of_the_library_costs_the_same(tmp_path: Path, names: list[str]) -> None:
    counts = asyncio.run(counted([WARMING, *names], (20, 2_000), tmp_path))
    assert {name: growth(counts[name]) for name in names if growth(counts[name]) > MOST} == {}


def test_a_turn_with_context_layers_costs_the_same(tmp_path: Path) -> None:
    """From a length on at which there are old collapses."""
    counts = asyncio.run(counted([WARMING, "context layers"], (200, 720), tmp_path))
    assert growth(counts["context layers"]) <= MOST


@pytest.mark.parametrize("names", [SDK, COMMAND], ids=["sdk", "command"])
def test_a_turn_of_an_agent_session_costs_the_same(tmp_path: Path, names: list[str]) -> None:
    """From a length on at which the context layers are at work. One that is budgeted has a window of 200,000 tokens."""
    counts = asyncio.run(counted([WARMING, *names], (300, 1_500), tmp_path))
    assert {name: growth(counts[name]) for name in names if growth(counts[name]) > MOST} == {}
