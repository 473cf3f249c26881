"""The five tasks of docs/compare.md, as programs of ours and of two peers, with a model server on loopback. None of
ours is longer than a peer's."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import compare_page
import pytest
from peers import AGENT_PEERS
from programs import MUST_BE_THERE

from mainspring.core.money import Usage
from mainspring.testing.plugin import LiveServer, call

ROOT = Path(__file__).parents[2]
OURS = ROOT / "examples/library"
PEERS = {"pydantic-ai": ROOT / "examples/peers/pydantic_ai", "openai-agents": ROOT / "examples/peers/openai_agents"}
LIBRARIES = ["mainspring", *[pytest.param(name, marks=pytest.mark.long) for name in PEERS]]
COSTLY = Usage(input=400_000, output=2_000)  # more than $0.50 at the price of each library's model


def test_no_program_is_longer_than_its_peers() -> None:
    counts = compare_page.count_all()
    assert len(counts) == 5
    assert {task: row for task, row in counts.items() if row["mainspring"] > min(row.values())} == {}


def test_the_page_shows_the_programs_as_they_are() -> None:
    assert compare_page.PAGE.read_text(encoding="utf-8") == compare_page.build(), "run `make docs`"


NO_SANDBOX = "commands run without a sandbox: "  # on a machine without bubblewrap, it is right to say so


def need_peers() -> Path:
    if AGENT_PEERS.is_made():
        return AGENT_PEERS.python
    why = "needs '.venv-agents' with the pinned libraries: make peers-agents"
    if os.environ.get(MUST_BE_THERE):
        pytest.fail(why)
    pytest.skip(why)


def start(library: str, task: str, server: LiveServer, said: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the program. `-W error` is for ours only: a peer may leave sockets open at exit."""
    keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
    keys |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    if library == "mainspring":
        command = [sys.executable, "-W", "error", str(OURS / f"{task}.py")]
    else:
        command = [str(need_peers()), str(PEERS[library] / f"{task}.py")]
    environment = {**os.environ, **keys, "IS_SANDBOX": "1"}
    return subprocess.run(command, env=environment, input=said, capture_output=True, text=True, timeout=90, check=False)


def run(library: str, task: str, server: LiveServer, said: str = "") -> str:
    done = start(library, task, server, said)
    errors = [line for line in done.stderr.splitlines() if not line.startswith(NO_SANDBOX)]
    assert (done.returncode, errors) == (0, []), done.stderr
    return done.stdout


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_answer(library: str, model_server: LiveServer) -> None:
    model_server.answers("5")
    assert run(library, "one_answer", model_server) == "5\n"


# How each library gets a typed result: by a tool of its own, or as JSON that the API enforces.
TYPED: dict[str, Any] = {
    "mainspring": call("StructuredOutput", "toolu_2", city="Bonn", celsius=7.5),
    "pydantic-ai": call("final_result", "toolu_2", city="Bonn", celsius=7.5),
    "openai-agents": '{"city": "Bonn", "celsius": 7.5}',
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_tool_with_a_typed_result(library: str, model_server: LiveServer) -> None:
    model_server.answers(call("temperature", city="Bonn"))
    model_server.answers(TYPED[library])
    assert run(library, "typed_result", model_server) == "city='Bonn' celsius=7.5\n"
    assert model_server.talks[-1].results("temperature")[0]["content"] in ("7.5", [{"type": "text", "text": "7.5"}])


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_streamed_chat(library: str, model_server: LiveServer) -> None:
    model_server.answers("Hello Ada, how are you today?")
    model_server.answers("Your name is Ada.")
    told = run(library, "streamed_chat", model_server, "I am Ada.\nWho am I?\n\n")
    assert told == "> Hello Ada, how are you today?\n> Your name is Ada.\n> "
    assert "I am Ada." in str(model_server.talks[-1].messages)  # the second request has the first prompt


def test_an_injected_database_and_its_test_without_a_key() -> None:
    runpy.run_path(str(OURS / "injected_database.py"))["test_the_agent_finds_the_user"]()


@pytest.mark.long
@pytest.mark.parametrize("library", PEERS)
def test_a_peers_injected_database_and_its_test_without_a_key(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    program = "import injected_database as program; program.test_the_agent_finds_the_user(); print('passed')"
    command = [str(need_peers()), "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(PEERS[library])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr


SHELL = {"mainspring": "Bash", "pydantic-ai": "bash", "openai-agents": "bash"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_guarded_shell(library: str, model_server: LiveServer) -> None:
    prompt = {"input" if library == "openai-agents" else "prompt": "Look at fixed.txt."}
    model_server.answers(call(SHELL[library], "toolu_1", command="git push origin main"))
    model_server.answers(call(SHELL[library], "toolu_2", command="touch fixed.txt"))
    model_server.answers(call("reviewer", "toolu_3", **prompt))
    model_server.answers("Looks good.")
    model_server.answers("Fixed.")
    told = run(library, "guarded_shell", model_server, "y\n")
    assert told.startswith(f"{SHELL[library]} {{")
    assert "touch fixed.txt" in told
    assert "? [y/N] Fixed. ($0." in told
    assert Path("fixed.txt").exists()
    assert "git push" not in told


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("said", ["n\n", "\n"])
def test_a_person_who_does_not_agree(said: str, library: str, model_server: LiveServer) -> None:
    model_server.answers(call(SHELL[library], command="touch fixed.txt"))
    model_server.answers("Then not.")
    assert "Then not." in run(library, "guarded_shell", model_server, said)
    assert not Path("fixed.txt").exists()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_budget_that_is_used_up(library: str, model_server: LiveServer) -> None:
    model_server.answers(call(SHELL[library], command="git status"), usage=COSTLY)
    model_server.answers("Not reached.")
    done = start(library, "guarded_shell", model_server)
    assert (done.stdout + done.stderr).startswith("Stopped: ")
    assert len(model_server.requests) == 1
