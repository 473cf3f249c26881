"""The CI action: its last step, run as a runner would, with a model on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from mainspring.testing.plugin import LiveServer, call, model_server

__all__ = ["model_server"]

ROOT = Path(__file__).parents[2]
STEP = dedent((ROOT / "action.yml").read_text("utf-8").split("      run: |\n")[1])
PROMPT = '$(touch owned) `touch owned` "; touch owned; $HOME'


def run_step(server: LiveServer, folder: Path, **inputs: str) -> tuple[int, dict[str, str]]:
    """The exit code, and the outputs."""
    outputs = folder / "outputs"
    outputs.touch()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MAINSPRING_HOME": str(folder / "home"),
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": server.url,
        "IS_SANDBOX": "1",
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(outputs),
        "PROMPT": PROMPT,
        "MODEL": "",
        "TOOLS": "Read",
        "ALLOWED": "",
        "BUDGET": "1.00",
        "TURNS": "5",
        **inputs,
    }
    (folder / "work").mkdir()
    ended = subprocess.run(["bash", "-c", STEP], cwd=folder / "work", env=environment, timeout=60, check=False)
    found = re.findall(r"^(\w+)(?:=(.*)|<<(\w+)\n((?:.*\n)*?)\3)$", outputs.read_text("utf-8"), re.MULTILINE)
    return ended.returncode, {name: plain or text.rstrip("\n") for name, plain, _, text in found}


def test_the_answer_is_an_output_and_the_prompt_is_no_script(model_server: LiveServer, tmp_path: Path) -> None:
    model_server.answers(call("Bash", command="touch owned"))  # the tool was not given
    model_server.answers("Two lines:\nresult<<END\n")
    code, outputs = run_step(model_server, tmp_path)
    assert (code, outputs["result"].splitlines()) == (0, ["Two lines:", "result<<END"])
    assert float(outputs["cost"]) > 0
    assert list((tmp_path / "work").iterdir()) == []
    assert PROMPT in str(model_server.requests[0].body)
    assert [tool["name"] for tool in model_server.requests[0].body["tools"]] == ["Read"]


@pytest.mark.long
def test_a_failure_is_the_exit_code_and_its_text_an_output(model_server: LiveServer, tmp_path: Path) -> None:
    model_server.refuses(400, "invalid_request_error", "No such model.")
    code, outputs = run_step(model_server, tmp_path)
    assert code == 1
    assert "No such model." in outputs["result"]
