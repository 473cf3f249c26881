"""Runs of `Agent` and `ask` are traced like those of every other front end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainspring import Agent, ask, tool
from mainspring.providers.scripted import Scripted, call, says
from telemetry.recording import recorded


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def script() -> Scripted:
    return Scripted([says(call("add", a=2, b=3)), says("5")])


def test_a_question_is_a_part_of_the_callers_span() -> None:
    async def main() -> None:
        with recording.tracer.start_as_current_span("the caller"):
            answer = await ask("What is 2 + 3?", model=script(), tools=[add], persist=False)
        assert answer.text == "5"

    with recorded() as recording:
        asyncio.run(main())
    model = recording.spans[2].name
    assert recording.tree() == [
        "the caller",
        "  invoke_agent mainspring",
        f"    {model}",
        "    execute_tool add",
        f"    {model}",
    ]


def test_a_run_from_plain_code_too() -> None:
    agent = Agent(model=script(), tools=[add], persist=False)
    with recorded() as recording, recording.tracer.start_as_current_span("the caller"):
        assert agent.run_sync("What is 2 + 3?").text == "5"
    caller, run, *_ = recording.spans
    assert run.parent is not None
    assert run.parent.span_id == caller.context.span_id
