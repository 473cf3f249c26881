"""The frames about the loop itself, with the real clients: these pass them on as system messages, and nothing else
changes (settled 41)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mainspring.simulator.replies import Say
from pipe.raw import PATIENCE, Frame
from pipe.stage import PROGRAM, Serve, Stage, call

# Reads until the limit of turns; under a small window, so that context edits break the prefix.
TURNS = 25
READS = [Say.of(f"Look {n}.", call("Read", f"{n}", file_path=f"{n}.txt")) for n in range(TURNS)]
WINDOW = {"context-window": "40000"}
OURS = {"mainspring_turn", "mainspring_max_turns", "mainspring_prefix_break", "mainspring_context_edit"}


def staged(serve: Serve) -> Stage:
    stage = serve(*READS)
    for n in range(TURNS):
        (stage.folder / f"{n}.txt").write_text(f"file {n}\n" + "words and words\n" * 500)
    return stage


def check(frames: list[Frame]) -> None:
    """`frames`: the system messages and the result, as the client gives them to the program."""
    systems = [frame for frame in frames if frame["type"] == "system"]
    assert systems[0]["subtype"] == "init"
    assert {frame["subtype"] for frame in systems[1:]} == OURS
    turns = [frame for frame in systems if frame["subtype"] == "mainspring_turn"]
    assert [turn["turn"] for turn in turns] == list(range(1, TURNS + 1))
    assert [turn["continue_reason"] for turn in turns] == [None, *["next_turn"] * (TURNS - 1)]
    breaks = [frame for frame in systems if frame["subtype"] == "mainspring_prefix_break"]
    assert {broken["reason"] for broken in breaks} == {"context_edited"}
    assert all("microcompact" in broken["layers"] for broken in breaks)
    [limit] = [frame for frame in systems if frame["subtype"] == "mainspring_max_turns"]
    assert (limit["max_turns"], limit["turns"]) == (TURNS, TURNS)
    assert frames[-1]["type"] == "result"
    assert frames[-1]["subtype"] == "error_max_turns"


@pytest.mark.of_the_pipe  # `extra_args` are flags of the command
@pytest.mark.covers("A-22", "B-14", "D-39")
def test_the_python_sdk_passes_them_on_as_system_messages(serve: Serve) -> None:
    told = staged(serve).ask("read all", max_turns=TURNS, extra_args=WINDOW)
    assert len(told.outcomes) == TURNS
    systems = [told.init, *[frame for name in sorted(OURS) for frame in told.system(name)]]
    check([*systems, {"type": "result", "subtype": told.result.subtype}])
    assert told.stderr == []


PEER = Path(__file__).parents[2] / ".node-peers" / "node_modules" / "@anthropic-ai" / "claude-agent-sdk" / "sdk.mjs"
DRIVE = """
const [sdk, program, prompt, options] = process.argv.slice(2);
const { query } = await import(sdk);
const asked = query({ prompt, options: { pathToClaudeCodeExecutable: program, ...JSON.parse(options) } });
try { for await (const message of asked) console.log(JSON.stringify(message)); } catch { process.exitCode = 3; }
"""


@pytest.mark.long
@pytest.mark.of_the_pipe
@pytest.mark.covers("A-22", "B-14", "D-39")
def test_the_typescript_sdk_passes_them_on_as_system_messages(serve: Serve, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not PEER.is_file():
        pytest.skip("needs Node.js and its packages: make peers")
    stage, script = staged(serve), tmp_path / "drive.mjs"
    script.write_text(DRIVE)
    options: dict[str, Any] = {"cwd": str(stage.folder), "maxTurns": TURNS, "extraArgs": WINDOW}
    done = subprocess.run(
        [node, str(script), PEER.as_uri(), PROGRAM, "read all", json.dumps(options)],
        capture_output=True,
        env=dict(os.environ) | stage.environment,
        timeout=PATIENCE,
        check=False,
    )
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    check([frame for frame in frames if frame["type"] in {"system", "result"}])
    assert sum(frame["type"] == "user" for frame in frames) == TURNS
    assert done.returncode == 3, "the client raises after a result that is an error, as it always does"
