"""The frames about the loop itself, with the real clients: these pass them on as system messages, and nothing else
changes (settled 41)."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.stage import until

from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say
from pipe.raw import Frame, prompt
from pipe.stage import Serve, Stage, bash, call
from pipe.typescript import Client

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


@pytest.mark.long
@pytest.mark.of_the_pipe
@pytest.mark.covers("A-22", "B-14", "D-39")
def test_the_typescript_sdk_passes_them_on_as_system_messages(serve: Serve, tmp_path: Path) -> None:
    stage = staged(serve)
    with Client(stage, tmp_path, "read all", maxTurns=TURNS, extraArgs=WINDOW) as client:
        frames = client.read_all()
    check([frame for frame in frames if frame["type"] in {"system", "result"}])
    assert sum(frame["type"] == "user" for frame in frames) == TURNS
    assert client.code == 3, "the client raises after a result that is an error, as it always does"


# Frames that one request to the model does not show: of long waits, of prompts that join a run, of side calls.
FLAGS = {"retry": "unattended", "tool-use-summaries": None}
RESETS = 31  # seconds; a wait has a heartbeat every 30
STEERED = "11111111-1111-4111-8111-111111111111"
WAIT = "touch began; for n in $(seq 2000); do [ -e go ] && exit; sleep 0.02; done"  # until the test says 'go'


def answer(received: ReceivedRequest) -> Reply:
    if "haiku" in str(received.body["model"]):
        is_summary = "tool calls that a coding agent made" in received.talk.prompt
        return Say.of("Waited for a file" if is_summary else "next: now run the tests")
    return Say.of("Both done. " * 40, pace_ms=10) if received.talk.results() else Say.of(bash(WAIT))


@pytest.mark.long
@pytest.mark.of_the_pipe
@pytest.mark.covers("B-31", "G-24", "O-04")
def test_the_typescript_sdk_passes_on_waits_steering_and_side_calls(serve: Serve, tmp_path: Path) -> None:
    """Every other frame of ours, and the two that Claude Code sends too, in one run. The program waits as it does for
    a user; the client gives each frame to its caller, and fails over none."""
    refused = [Refuse(429, "rate_limit_error", "Slow down", {"retry-after": str(RESETS)})]
    stage = serve(choose=lambda received: refused.pop() if refused else answer(received))
    options = {"permissionMode": "bypassPermissions", "allowDangerouslySkipPermissions": True, "extraArgs": FLAGS}
    with Client(stage, tmp_path, None, promptSuggestions=True, **options) as client:
        client.send(prompt("the first"))
        client.until("system/mainspring_heartbeat")
        until((stage.folder / "began").exists)
        client.send(prompt("And the second.", uuid=STEERED, delivery="steer"))
        client.until("system/mainspring_prompt")
        (stage.folder / "go").touch()
        client.until("result")
        client.until("prompt_suggestion")
        client.end_input()
        frames = client.read_all()
    assert client.code == 0
    [beat] = [frame for frame in frames if frame.get("subtype") == "mainspring_heartbeat"]
    [retry] = [frame for frame in frames if frame.get("subtype") == "api_retry"]
    assert (beat["attempt"], beat["heartbeat"], beat["error_status"]) == (1, 1, 429)
    assert 0 < beat["retry_delay_ms"] < retry["retry_delay_ms"] - 29_000
    told = [frame for frame in frames if frame.get("subtype") == "mainspring_prompt"]
    assert [(frame["status"], frame["prompt_id"]) for frame in told] == [("queued", STEERED), ("delivered", STEERED)]
    [summary] = [frame for frame in frames if frame["type"] == "tool_use_summary"]
    assert (summary["summary"], summary["preceding_tool_use_ids"]) == ("Waited for a file", ["toolu_Bash"])
    [suggestion] = [frame for frame in frames if frame["type"] == "prompt_suggestion"]
    assert suggestion["suggestion"] == "now run the tests"
    [result] = [frame for frame in frames if frame["type"] == "result"]
    assert (result["subtype"], result["is_error"]) == ("success", False)
    assert "And the second." in stage.said(2)
