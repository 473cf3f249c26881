"""The five tasks of docs/library.md, as programs, with a model server on loopback. None is longer than its peers."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.testing.plugin import LiveServer, call

PROGRAMS = Path(__file__).parents[2] / "examples/library"

# Lines that are not blank: the shorter one of pydantic-ai's and openai-agents' programs for the task.
LONGEST = {
    "one_answer": 3,
    "typed_result": 11,
    "streamed_chat": 12,
    "injected_database": 14,
    "guarded_shell": 24,
}


def test_no_program_is_longer_than_its_peers() -> None:
    sizes = {
        path.stem: len([line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()])
        for path in PROGRAMS.glob("*.py")
    }
    assert sizes.keys() == LONGEST.keys()
    assert {name: size for name, size in sizes.items() if size > LONGEST[name]} == {}


def run(name: str, server: LiveServer, said: str = "") -> str:
    environment = {**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url, "IS_SANDBOX": "1"}
    program = [sys.executable, "-W", "error", str(PROGRAMS / f"{name}.py")]
    done = subprocess.run(program, env=environment, input=said, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_one_answer(model_server: LiveServer) -> None:
    model_server.answers("5")
    assert run("one_answer", model_server) == "5\n"


def test_a_tool_with_a_typed_result(model_server: LiveServer) -> None:
    model_server.answers(call("temperature", city="Bonn"))
    model_server.answers(call("StructuredOutput", city="Bonn", celsius=7.5))
    assert run("typed_result", model_server) == "city='Bonn' celsius=7.5\n"


def test_a_streamed_chat(model_server: LiveServer) -> None:
    model_server.answers("Hello Ada, how are you today?")
    model_server.answers("Your name is Ada.")
    told = run("streamed_chat", model_server, "I am Ada.\nWho am I?\n\n")
    assert told == "> Hello Ada, how are you today?\n> Your name is Ada.\n> "


def test_an_injected_database_and_its_test_without_a_key() -> None:
    runpy.run_path(str(PROGRAMS / "injected_database.py"))["test_the_agent_finds_the_user"]()


def test_a_guarded_shell(model_server: LiveServer) -> None:
    model_server.answers(call("Bash", command="git push origin main"))
    model_server.answers(call("Bash", command="touch fixed.txt"))
    model_server.answers(call("reviewer", prompt="Look at fixed.txt."))
    model_server.answers("Looks good.")
    model_server.answers("Fixed.")
    told = run("guarded_shell", model_server, "y\n")
    assert "Bash {'command': 'touch fixed.txt'}? [y/N] Fixed. ($0." in told
    assert Path("fixed.txt").exists()
    assert "git push" not in told


@pytest.mark.parametrize("said", ["n\n", "\n"])
def test_a_person_who_does_not_agree(said: str, model_server: LiveServer) -> None:
    model_server.answers(call("Bash", command="touch fixed.txt"))
    model_server.answers("Then not.")
    assert "Then not." in run("guarded_shell", model_server, said)
    assert not Path("fixed.txt").exists()
