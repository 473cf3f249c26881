"""Many sessions at once in one process: a smaller run of bench/fleet.py, and one against the server that validates."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.test_killed import reply_in_turns
from mainspring import Agent, Fleet, FleetTask
from mainspring.testing.plugin import LiveServer

BENCH = Path(__file__).parents[2] / "bench/fleet.py"
MOST_KB = 150  # of a session, with its file open


def note(text: str) -> str:
    """Write a note."""
    return text


@pytest.mark.long
def test_a_session_takes_little_memory() -> None:
    command = [sys.executable, str(BENCH), "--sessions", "300", "--turns", "5", "--delay", "0.5"]
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600).stdout
    last = shown.splitlines()[-1].split()
    assert last[:2] == ["mainspring", "300"]
    assert int(last[5]) <= MOST_KB


@pytest.mark.long
def test_every_request_of_two_hundred_sessions_is_valid(model_server: LiveServer, tmp_path: Path) -> None:
    model_server.rule(reply_in_turns(10, "note"))

    async def main() -> None:
        env = {"ANTHROPIC_BASE_URL": model_server.url, "ANTHROPIC_API_KEY": "k"}
        fleet = Fleet(Agent("claude-haiku-4-5", tools=[note], env=env), max_concurrent=200, out=tmp_path)
        results = [one async for one in fleet.run([FleetTask(f"t{n}", f"task {n}.") for n in range(200)])]
        assert sorted(one.text for one in results) == sorted(f"Task {n} is done." for n in range(200))
        assert {one.turns for one in results} == {10}

    asyncio.run(main())
    assert len(model_server.requests) == 2_000
    assert model_server.violations == []
