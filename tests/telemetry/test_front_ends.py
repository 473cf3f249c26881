"""One line switches tracing on for every front end; without it, nothing is loaded and nothing is called."""

from __future__ import annotations

import json
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from agent.stage import Stage, play
from engine.stage import CONFIG

from mainspring.engine.driver import Driver
from mainspring.engine.session import EngineSession
from mainspring.providers.scripted import call, says
from mainspring.simulator.replies import Say
from mainspring.testing import World, virtually
from telemetry.recording import recorded

TRACED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from telemetry.recording import recorded
from mainspring.cli.main import main
with recorded() as recording:
    code = main(sys.argv[1:])
print(*recording.tree(), sep="\\n", file=sys.stderr)
sys.exit(code)
"""
PROMPT = {"type": "user", "message": {"role": "user", "content": "hi"}}
FRONT_ENDS = {
    "print": (["-p", "hi"], b""),
    "pipe": (
        ["-p", "--output-format=stream-json", "--verbose", "--input-format=stream-json"],
        json.dumps(PROMPT).encode() + b"\n",
    ),
}


@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_the_runs_of_the_command_are_traced(tmp_path: Path, front_end: str) -> None:
    arguments, given = FRONT_ENDS[front_end]

    async def main(stage: Stage) -> None:
        process = await create_subprocess_exec(
            *(sys.executable, "-c", TRACED, str(Path(__file__).parents[1]), *arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=stage.folder,
            env=stage.environment,
        )
        _, err = await process.communicate(given)
        assert process.returncode == 0, err.decode()
        lines = err.decode().splitlines()
        assert lines[-2:] == ["invoke_agent mainspring", "  chat claude-sonnet-5-5"]

    play(main, tmp_path, Say.of("Hi."))


def test_without_a_listener_the_driver_has_no_observer(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a run pays for one comparison per event, and nothing per update."""
    made: list[Driver] = []
    new = Driver.__init__

    def keep(driver: Driver, *args: Any, **named: Any) -> None:
        new(driver, *args, **named)
        made.append(driver)

    monkeypatch.setattr(Driver, "__init__", keep)

    async def main() -> None:
        async with EngineSession(World([says(call("Read")), says("Done.")]), CONFIG).run("go") as run:
            async for _ in run:
                pass

    virtually(main())
    [driver] = made
    assert driver.observer is None
    assert driver._push == driver._channel.push


def count_telemetry_calls(turns: int) -> int:
    """How often a run of so many turns calls a function of the package."""
    world = World([*[says("A longer text with a few deltas.", call("Read")) for _ in range(turns)], says("Done.")])

    async def main() -> None:
        async with EngineSession(world, CONFIG).run("go") as run:
            async for _ in run:
                pass

    counted: list[str] = []

    def profile(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and "/mainspring/telemetry/" in frame.f_code.co_filename:
            counted.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        virtually(main())
    finally:
        sys.setprofile(before)
    return len(counted)


def test_without_a_listener_a_turn_calls_nothing() -> None:
    few, many = count_telemetry_calls(1), count_telemetry_calls(9)
    assert few == many
    assert few < 10  # when the run starts: whether anything listens
    with recorded():
        assert count_telemetry_calls(9) > 100  # so the count can tell


SDK_WITHOUT_TRACING = """
import asyncio, sys
from mainspring import Options, query
async def main():
    return [message async for message in query(prompt="hi", options=Options(setting_sources=["user"]))]
assert asyncio.run(main())
print(*[name for name in sys.modules if name.startswith(("mainspring.telemetry", "opentelemetry"))])
"""


def test_without_tracing_the_sdk_loads_none_of_it(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        process = await create_subprocess_exec(
            *(sys.executable, "-c", SDK_WITHOUT_TRACING), stdout=PIPE, cwd=stage.folder, env=stage.environment
        )
        out, _ = await process.communicate()
        assert (process.returncode, out.decode().split()) == (0, ["mainspring.telemetry"])

    play(main, tmp_path, Say.of("Hi."))
