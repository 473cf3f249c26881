"""A key that comes in by any way is in no file, list or log where it should not be, also with `--debug` and in traces.

Each way stores or gives the key as a user does. Then a session runs commands that print their environment and the
list of processes, and fails once with an error that repeats the key; its log, file, trace, export and lists are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from cli.stage import Serve, Stage, until
from cli.terminal import CTRL_D, Terminal
from cli.terminal import SitAt as SitAtPlain
from cli.terminal import sit_at as sit_at_plain
from processes.traces import asleep, new_nap, with_word
from tui.person import PASTE, PASTED, SitAt, sit_at
from tui.test_setup_screen import choose as pick
from tui.test_setup_screen import enter_until

from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say

__all__ = ["sit_at", "sit_at_plain"]  # fixtures

KEY = "sk-ant-api03-every-way-in-aaaabbbbccccdddd"
CREDENTIALS, KEY_FILE = "credentials.json", "key"  # where a stored key may be


def choose(received: ReceivedRequest) -> Reply:
    if "fail please" in str(received.body["messages"]):
        return Refuse(400, "invalid_request_error", f"the request with {KEY} is wrong")
    if received.talk.results():
        return Say.of("Done.")
    look = "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; ps -ef"
    return Say.of({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": look}})


def by_environment(stage: Stage, _: Any, __: Any) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": KEY}


def by_standard_input(stage: Stage, _: Any, __: Any) -> dict[str, str]:
    done = stage.run("login", "anthropic", "--key-stdin", input=f"{KEY}\n".encode())
    assert (done.returncode, KEY.encode() in done.stdout + done.stderr) == (0, False)
    return {}


def by_login_in_a_terminal(stage: Stage, sit_at: SitAt, _: Any) -> dict[str, str]:
    person = sit_at(stage, "login", "anthropic")
    person.see("(not shown):")
    person.type(f"{KEY}\r")
    person.see("Anthropic is set up.")
    assert person.end() == 0
    assert KEY.encode() not in person.raw
    return {}


def by_the_start_screen(stage: Stage, sit_at: SitAt, _: Any) -> dict[str, str]:
    person = sit_at(stage, "--debug-file", str(stage.home / "start.log"), **no_server())
    pick(person, "Another server")
    person.see("The address of the server")
    person.type(f"{stage.server.url}/v1")
    enter_until(person, "paste your API key")
    person.type(f"{PASTE}{KEY}{PASTED}")
    enter_until(person, "type to filter")
    person.type("gpt-5-mini")
    person.until(lambda: [line for line in person.screen if "local/" in line] == ["❯ local/gpt-5-mini"])
    enter_until(person, "The server is set up.")
    person.type(CTRL_D)
    assert person.end() == 0
    assert KEY.encode() not in person.raw
    return no_server()


def by_a_plain_start(stage: Stage, _: Any, sit_at_plain: SitAtPlain) -> dict[str, str]:
    terminal = sit_at_plain(stage, "--debug-file", str(stage.home / "start.log"), **no_server())
    answer_by_number(terminal, "Another server", "Provider (1-")
    terminal.see("Address of the server: ")
    terminal.type(f"{stage.server.url}/v1\r")
    terminal.see("(not shown): ")
    terminal.type(f"{KEY}\r")
    answer_by_number(terminal, "local/gpt-5-mini", "Model for new sessions (1-")
    terminal.see("The server is set up.")
    terminal.see("> ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert KEY.encode() not in terminal.raw
    return no_server()


def answer_by_number(terminal: Terminal, label: str, question: str) -> None:
    shown = terminal.see(question)
    number = next(line.strip().partition(".")[0] for line in shown.splitlines() if f". {label}" in line)
    terminal.type(f"{number}\r")


def no_server() -> dict[str, str]:
    """No key and no server in the environment."""
    keys = {name: "" for name in os.environ if name.endswith("_API_KEY")}
    return {**keys, "ANTHROPIC_BASE_URL": "", "OLLAMA_BASE_URL": "http://127.0.0.1:9"}


def by_the_key_file(stage: Stage, _: Any, __: Any) -> dict[str, str]:
    stage.home.mkdir(mode=0o700, exist_ok=True)
    file = stage.home / KEY_FILE
    file.touch(0o600)
    file.write_text(f"{KEY}\n")
    return {}


WAYS = [
    by_environment, by_standard_input, by_login_in_a_terminal, by_the_start_screen, by_a_plain_start, by_the_key_file,
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_the_key_is_nowhere_else(
    serve: Serve, sit_at: SitAt, sit_at_plain: SitAtPlain, way: Callable[..., dict[str, str]]
) -> None:
    stage = serve(choose=choose, api_key=KEY)
    stage.home.mkdir(mode=0o700, exist_ok=True)
    env = way(stage, sit_at, sit_at_plain)
    said = b""

    def run(*words: str, code: int | None = 0) -> None:
        nonlocal said
        done = stage.run(*words, env=env)
        assert code is None or done.returncode == code, done.stderr
        said += done.stdout + done.stderr

    stream = ("--output-format=stream-json", "--verbose")
    run("-p", "look around", "--debug-file=first.log", "--allowedTools=Bash", *stream)
    assert b'"result":"Done."' in said  # the key works
    run("-p", "fail please", "--debug", code=1)
    run("-p", "fail please", "--debug-to-stderr", code=1)
    run("trace", "--html", "trace.html")
    for words in ("trace --text", "trace --json", "sessions", "config", "doctor", "login --status"):
        run(*words.split(), code=None)
    newest = max((stage.home / "projects").rglob("*.jsonl"), key=lambda file: file.stat().st_mtime).stem
    run("export", newest, "--json")
    assert KEY.encode() not in said
    kept = [file for file in stage.folder.parent.rglob("*") if file.is_file()]
    assert stage.home in {folder for file in kept for folder in file.parents}
    holding = {file.name for file in kept if KEY.encode() in file.read_bytes()}
    assert holding <= {CREDENTIALS, KEY_FILE}, holding
    assert {".log", ".html", ".jsonl"} <= {file.suffix for file in kept}  # all of them were looked at


def test_the_key_is_in_no_list_of_processes(serve: Serve) -> None:
    """What every user may read of a running session and of its commands."""
    nap = new_nap()
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": f"sleep {nap}"}}
    stage = serve(Say.of(call))
    running = stage.start("-p", "wait", "--allowedTools=Bash", env={"ANTHROPIC_API_KEY": KEY})
    try:
        until(lambda: bool(asleep(nap)))
        assert with_word(KEY) == []
    finally:
        running.terminate()
        running.communicate(timeout=40)
