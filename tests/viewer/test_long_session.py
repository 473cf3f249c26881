"""What the viewer spends on a turn of a stored session, in instructions: they hardly move on a busy machine."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from programs import need
from wire.counting import counted
from wire.quick_server import QuickServer

from mainspring.sdk import Client, Options, ResultError

RUN = 50  # turns
FEW, MANY = 100, 500
READ = "import sys; from mainspring.viewer.trace import Trace; Trace(sys.argv[1]).look()"

# Counted on 2026-11-19 with valgrind 3.19 and Python 3.11.7, as those of `tests/wire/test_turn_cost.py`: nine lines, a
# result of 1 kB among them. It was 1,378,000, and more in a longer session, when every checkpoint was decoded. On a
# busy machine it is less, down to 817,000: a read of the socket brings more of a reply, so there are fewer lines.
A_TURN = 1_037_000
YARDSTICK = 3_980_740
ROOM = 1.06 if sys.version_info[:2] == (3, 11) else 1.5  # other versions weigh calls and loops in another way


async def record(folder: Path, turns: int) -> Path:
    """A session of an agent that reads a file each turn."""
    work, home = folder / f"work-{turns}", folder / f"home-{turns}"
    work.mkdir(parents=True)
    for number in range(turns + turns // RUN + 1):
        (work / f"{number:04x}").write_text("some line of a file\n" * 50)
    async with QuickServer() as server:
        env = {"ANTHROPIC_BASE_URL": f"{server.url}/read", "ANTHROPIC_API_KEY": "key", "CLAUDE_CONFIG_DIR": str(home)}
        options = Options(
            cwd=work, env=env | {"IS_SANDBOX": "1"}, model="claude-sonnet-5", max_turns=RUN, tools=["Read"]
        )
        async with Client(options) as client:
            for number in range(turns // RUN):
                await client.query(f"Prompt {number}: look at the next parts.")
                with suppress(ResultError):  # the limit of turns
                    async for _ in client.receive_response():
                        pass
    (file,) = home.glob("projects/*/*.jsonl")
    return file


def count_read(file: Path, folder: Path) -> int:
    """Instructions of a process that reads the session."""
    out = folder / f"{file.stem}.counts"
    command = [need("valgrind"), "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable, "-c", READ]
    env = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0"}
    subprocess.run([*command, str(file)], check=True, capture_output=True, env=env)
    total = re.search(r"^totals: (\d+)", out.read_text(encoding="utf-8"), re.MULTILINE)
    assert total is not None
    return int(total[1])


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="valgrind does not run here")
def test_reading_a_turn_is_held_to_a_count_of_instructions(tmp_path: Path) -> None:
    sizes = [count_read(asyncio.run(record(tmp_path, turns)), tmp_path) for turns in (FEW, MANY)]
    (yardstick,) = asyncio.run(counted(["budget", "yardstick"], (20,), tmp_path))["yardstick"]
    turn = (sizes[1] - sizes[0]) // (MANY - FEW)
    print(turn, yardstick)
    assert turn <= ROOM * A_TURN * yardstick / YARDSTICK
