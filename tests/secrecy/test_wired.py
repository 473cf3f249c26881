"""Keys, refusals and hardening as the command has them: real processes, and a server that takes one key."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli.stage import COMMAND, PATIENCE, Serve, Stage

from mainspring.simulator.replies import Say

KEY = "kq-the-key-of-this-test-0123456789"


def call(number: int, name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": input}


def run(stage: Stage, *flags: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "-p", "go", *flags],
        cwd=stage.folder,
        env=stage.environment | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def keys(stage: Stage) -> list[tuple[str, str]]:
    headers = [dict(request.headers) for request in stage.requests]
    return [(one.get("x-api-key", ""), one.get("authorization", "")) for one in headers]


def counting_helper(stage: Stage) -> None:
    """Prints another key each time."""
    base = stage.folder.parent
    script = base / "helper"
    script.write_text(f"#!/bin/sh\necho >> {base}/asked\necho key-number-$(wc -l < {base}/asked)\n")
    script.chmod(0o755)
    stage.home.mkdir(mode=0o700)
    (stage.home / "settings.json").write_text(json.dumps({"apiKeyHelper": str(script)}))


def both(number: int) -> tuple[str, str]:
    return f"key-number-{number}", f"Bearer key-number-{number}"


# --- keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.setting("apiKeyHelper")
def test_a_helper_is_asked_once_and_again_when_its_key_is_refused(serve: Serve) -> None:
    stage = serve(Say.of("Done."), api_key="key-number-2")
    counting_helper(stage)
    done = run(stage, ANTHROPIC_API_KEY=KEY)  # the helper stands above it
    assert (done.returncode, done.stdout, done.stderr) == (0, "Done.\n", "")
    assert keys(stage) == [both(1), both(2)]


@pytest.mark.parametrize(("milliseconds", "asked"), [("1", [both(1), both(2)]), ("", [both(1), both(1)])])
def test_a_helper_is_asked_again_when_its_key_is_old(serve: Serve, milliseconds: str, asked: object) -> None:
    stage = serve(Say.of("Look.", call(1, "Bash", command="echo hi", description="x")), Say.of("Done."))
    counting_helper(stage)
    assert run(stage, CLAUDE_CODE_API_KEY_HELPER_TTL_MS=milliseconds).returncode == 0
    assert keys(stage) == asked


def test_a_helper_that_fails_ends_the_run_and_says_why(serve: Serve) -> None:
    stage = serve(Say.of("Done."))
    stage.home.mkdir(mode=0o700)
    (stage.home / "settings.json").write_text('{"apiKeyHelper": "/bin/false"}')
    done = run(stage)
    assert (done.returncode, done.stdout, stage.requests) == (1, "", [])
    assert "'apiKeyHelper' ended with 1: run it in a terminal to find the problem" in done.stderr
    (stage.home / "settings.json").write_text('{"apiKeyHelper": "echo $KEY"}')
    done = run(stage)
    assert (done.returncode, "put the command into a script" in done.stderr) == (1, True)


def test_a_key_file_is_used_and_one_that_others_can_read_is_not(serve: Serve) -> None:
    stage = serve(Say.of("Done."), api_key=KEY)
    stage.home.mkdir(mode=0o700)
    file = stage.home / "key"
    file.write_text(KEY)
    file.chmod(0o640)
    done = run(stage)
    assert (done.returncode, f"chmod 600 {file}" in done.stderr, stage.requests) == (1, True, [])
    file.chmod(0o600)
    assert run(stage).stdout == "Done.\n"


# --- what a model may do with them --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Bash", "Write", "Grep"])
def test_a_key_in_an_input_is_refused_before_anything_happens(serve: Serve, name: str) -> None:
    inputs = {
        "Bash": {"command": f"touch ran; echo {KEY}", "description": "x"},
        "Write": {"file_path": "ran", "content": f"key = '{KEY}'"},
        "Grep": {"pattern": KEY},
    }
    stage = serve(Say.of("So.", call(1, name, **inputs[name])), Say.of("Done."))
    assert run(stage, "--allowedTools", "Bash,Write,Grep", ANTHROPIC_API_KEY=KEY).returncode == 0
    assert list(stage.folder.iterdir()) == []
    (result,) = stage.requests[1].talk.messages[-1]["content"]
    assert (result["is_error"], "contains a key of the program that runs you" in str(result["content"])) == (True, True)


def test_our_process_is_closed_while_it_runs(serve: Serve) -> None:
    look = "grep core /proc/$PPID/limits > limits.txt"
    stage = serve(Say.of("Look.", call(1, "Bash", command=look, description="x")), Say.of("Done."))
    assert run(stage, "--allowedTools", "Bash", "--settings", '{"sandbox": {"enabled": false}}').returncode == 0
    assert (stage.folder / "limits.txt").read_text().split()[4] == "0"


def test_a_crash_shows_no_key(tmp_path: Path) -> None:
    code = (
        "import sys, mainspring.cli.main as m; from mainspring.secrets.held import hold_secrets; "
        f"hold_secrets({KEY!r}); m.run_session = lambda options: 1 / int({KEY!r}); m.main([])"
    )
    env = {**os.environ, "MAINSPRING_HOME": str(tmp_path)}
    import sys

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "ValueError: invalid literal for int() with base 10: '[redacted]'" in done.stderr


def test_doctor_is_a_command(serve: Serve) -> None:
    stage = serve(Say.of("Done."), api_key=KEY)
    done = subprocess.run(
        [*COMMAND, "doctor", "--json", "--online"],
        cwd=stage.folder,
        env=stage.environment | {"ANTHROPIC_API_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], told["checks"][-1]["name"]) == (0, True, "server")
    assert KEY not in done.stdout
