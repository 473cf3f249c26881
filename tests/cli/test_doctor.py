"""`mainspring doctor`: every kind of trouble is found and comes with its way out; no key is shown."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sandbox.walls import LINUX, seen_folder

from cli.stage import PATIENCE, Serve
from mainspring.agent.doctor_parts import MANAGERS, command_for_program
from mainspring.cli.commands.doctor import offer_to_install
from mainspring.core.models import MODELS
from mainspring.processes.environment import find_program
from mainspring.sandbox.probes import PROBES

KEY = "sk-ant-api03-the-key-of-this-test"
BEGIN = """
import sys
from mainspring.cli.subcommands import main
sys.exit(main(["doctor", *sys.argv[1:]]))
"""

OTHERS = ("ANTHROPIC", "CLAUDE", "OPENAI", "OPENROUTER", "GEMINI", "OLLAMA")  # what this machine may have set

Done = subprocess.CompletedProcess[str]


class Office:
    """A home, a working folder, and an environment with a key."""

    def __init__(self, base: Path) -> None:
        self.home, self.work = base / "home", base / "work"
        self.work.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        self.env = kept | {"MAINSPRING_HOME": str(self.home), "HOME": str(base), "ANTHROPIC_API_KEY": KEY}

    def doctor(self, *flags: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-c", BEGIN, *flags],
            cwd=self.work,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.stderr, KEY in done.stdout, KEY[-6:] in done.stdout) == ("", False, False)
        return done

    def report(self, *flags: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
        """The exit code, and what was found by name."""
        done = self.doctor("--json", *flags)
        told = json.loads(done.stdout)
        assert told["ok"] is (done.returncode == 0)
        found: dict[str, list[dict[str, Any]]] = {}
        for check in told["checks"]:
            found.setdefault(check["name"], []).append(check)
            assert check["way_out"] or check["state"] == "ok", check  # whatever is wrong says the way out
        return done.returncode, found

    def user_settings(self, text: str) -> Path:
        self.home.mkdir(mode=0o700, exist_ok=True)
        file = self.home / "settings.json"
        file.write_text(text)
        return file


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def only(found: dict[str, list[dict[str, Any]]], name: str, state: str) -> dict[str, Any]:
    (one,) = [check for check in found[name] if check["state"] == state]
    return one


# --- all is well --------------------------------------------------------------------------------------------------


def test_all_is_well_and_everything_was_looked_at(office: Office) -> None:
    code, found = office.report()
    assert code == 0
    expected = ["program", "terminal", "process", "sessions", "disk", "settings", "key", "ripgrep", "git", "sandbox"]
    assert [name for name in found if name != "probes"] == [*expected, "web search"]
    assert only(found, "key", "ok")["says"] == "from ANTHROPIC_API_KEY"
    assert (office.home.stat().st_mode & 0o777, list(office.work.iterdir())) == (0o700, [])


def test_its_lines_fit_a_narrow_screen_and_paths_stay_whole(office: Office) -> None:
    office.user_settings('{"modell": "opus", "permissions": {"defaultMode": 3}, "env": 7}')
    done = office.doctor()
    assert done.returncode == 1
    for line in done.stdout.splitlines():
        assert len(line) <= 80 or len(line.split()[-1]) > 55, line  # a path is never broken
    assert f"{office.home}/settings.json:1:2" in done.stdout
    assert done.stdout.count("-> ") >= 3
    assert done.stdout.endswith("\n2 problems found.\n")


@pytest.mark.long
@pytest.mark.needs("bwrap")
@LINUX
def test_the_probes_are_run_and_none_is_open() -> None:
    with seen_folder() as base:
        base.chmod(0o700)
        code, found = Office(base).report()
        assert list((base / "home").glob("doctor-*")) == []
    assert (code, only(found, "sandbox", "ok")["says"].startswith("on (bubblewrap")) == (0, True)
    assert only(found, "probes", "ok")["says"] == f"{len(PROBES)} escapes tried, all blocked"


# --- what can be wrong --------------------------------------------------------------------------------------------


def test_no_key(office: Office) -> None:
    del office.env["ANTHROPIC_API_KEY"]
    code, found = office.report()
    assert (code, only(found, "key", "problem")["says"]) == (1, "no API key")
    office.env["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    assert office.report()[0] == 0  # the server may need none


def test_a_key_file_that_others_can_read(office: Office) -> None:
    office.home.mkdir(mode=0o700)
    file = office.home / "key"
    file.write_text(KEY)
    file.chmod(0o644)
    assert "also set, but not used: key file" in office.report()[1]["key"][1]["says"]
    del office.env["ANTHROPIC_API_KEY"]
    code, found = office.report()
    assert (code, f"chmod 600 {file}" in only(found, "key", "problem")["way_out"]) == (1, True)
    file.chmod(0o600)
    assert office.report()[0] == 0


def test_a_helper_is_looked_at_and_not_run(office: Office) -> None:
    planted = office.work.parent / "ran"
    office.user_settings(json.dumps({"apiKeyHelper": f"/usr/bin/touch {planted}"}))
    code, found = office.report()
    assert (code, found["key"][0]["says"]) == (0, "from apiKeyHelper (only run with --online)")
    office.user_settings(json.dumps({"apiKeyHelper": "echo $KEY"}))
    code, found = office.report()
    assert (code, "put the command into a script" in only(found, "key", "problem")["way_out"]) == (1, True)
    assert not planted.exists()


def test_settings_are_named_with_their_place(office: Office) -> None:
    file = office.user_settings('{"model": 3}')
    project = office.work / ".mainspring"
    project.mkdir()
    (project / "settings.json").write_text('{"apiKeyHelper": "x", "hooks": {}, "modell": 1}')
    code, found = office.report()
    assert code == 1
    assert only(found, "settings", "problem")["says"].startswith(f"{file}:1:2: 'model' is not used")
    notes = [check["way_out"] for check in found["settings"] if check["state"] == "note"]
    assert notes == [
        "correct the name, or remove it",
        "move it to your user settings if you want it",
        "review the file, then run 'mainspring trust' if you trust this folder",
    ]


def test_a_home_that_cannot_be_written(office: Office) -> None:
    office.home.write_text("not a folder")
    code, found = office.report()
    assert code == 1
    assert only(found, "sessions", "problem")["says"].startswith(f"cannot write to '{office.home}/projects': ")


def test_a_home_that_is_open_to_others(office: Office) -> None:
    office.home.mkdir(mode=0o755)
    code, found = office.report()
    assert (code, only(found, "sessions", "note")["way_out"]) == (0, f"run: chmod 700 '{office.home}'")
    office.home.chmod(0o777)
    code, found = office.report()
    assert (code, only(found, "sessions", "problem")["way_out"]) == (1, f"run: chmod 700 '{office.home}'")


def test_a_sandbox_that_is_switched_off_and_one_that_is_required_and_not_there(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.user_settings('{"sandbox": {"enabled": false}}')
    code, found = office.report()
    assert (code, only(found, "sandbox", "note")["says"]) == (0, "off: switched off by the user's settings")
    # Bubblewrap is found by its path, so it is taken away by not being there for this process.
    office.user_settings('{"sandbox": {"failIfUnavailable": true}}')
    begin = BEGIN.replace("import sys", "import sys\nimport mainspring.processes.environment as p\np.USUAL = ()", 1)
    monkeypatch.setattr(sys.modules[__name__], "BEGIN", begin)
    office.env["PATH"] = str(office.work)
    code, found = office.report()
    assert code == 1
    assert "bubblewrap is not installed" in only(found, "sandbox", "problem")["says"]
    assert only(found, "git", "note")["way_out"] == "install git"


# --- the server ---------------------------------------------------------------------------------------------------


def test_the_server_is_asked_only_on_request(office: Office, serve: Serve) -> None:
    stage = serve(api_key=KEY)
    office.env["ANTHROPIC_BASE_URL"] = stage.server.url
    assert "server" not in office.report()[1]
    assert stage.requests == []
    code, found = office.report("--online")
    assert (code, only(found, "server", "ok")["says"]) == (0, f"'{stage.server.url}' answers and accepts the key")
    assert len(stage.requests) == 1


def test_a_key_that_the_server_does_not_know(office: Office, serve: Serve) -> None:
    stage = serve(api_key="another")
    office.env["ANTHROPIC_BASE_URL"] = stage.server.url
    code, found = office.report("--online")
    assert (code, "store a new key" in only(found, "server", "problem")["way_out"]) == (1, True)


def test_a_server_that_is_not_there(office: Office) -> None:
    office.env["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    code, found = office.report("--online")
    assert (code, "ANTHROPIC_BASE_URL" in only(found, "server", "problem")["way_out"]) == (1, True)


# --- servers of other providers -----------------------------------------------------------------------------------

OTHER = "sk-or-the-other-key-of-this-test"


def says(found: dict[str, list[dict[str, Any]]], name: str) -> list[tuple[str, str, str]]:
    return [(check["state"], check["says"], check["way_out"]) for check in found.get(name, [])]


def test_every_server_that_is_set_up_is_looked_at_and_nobody_is_asked(office: Office) -> None:
    mine = {"base_url": "http://10.0.0.9/v1", "key_env": "MY_KEY"}
    open_to_all = {"base_url": "http://10.0.0.8/v1"}
    odd = {"base_url": "10.0.0.7", "key_env": "MY_KEY"}
    entries = {"mine/a": mine, "open/b": open_to_all, "odd/c": odd}
    office.user_settings(json.dumps({"model": "ollama/qwen3", "env": {"OPENROUTER_API_KEY": OTHER}, "models": entries}))
    code, found = office.report()
    assert (code, OTHER in json.dumps(found)) == (1, False)
    *right, wrong = says(found, "server")
    assert right == [
        (
            "ok",
            "'openrouter' at 'https://openrouter.ai/api/v1': API key from OPENROUTER_API_KEY",
            "",
        ),
        ("problem", "'mine/a' at 'http://10.0.0.9/v1': no API key", "set MY_KEY"),
        ("ok", "'open/b' at 'http://10.0.0.8/v1': no API key (may not need one)", ""),
        ("problem", says(found, "server")[3][1], "correct 'models.odd/c.base_url' in your settings"),
    ]
    assert wrong == ("ok", "'ollama' at 'http://localhost:11434': no API key (may not need one)", "")


def test_who_asks_nobody_at_anthropic_needs_no_key_of_it(office: Office) -> None:
    del office.env["ANTHROPIC_API_KEY"]
    office.user_settings(json.dumps({"model": "ollama/qwen3"}))
    code, found = office.report()
    assert (code, says(found, "key")) == (0, [("ok", "none for Anthropic; 'ollama/qwen3' does not need one", "")])
    office.user_settings(json.dumps({"model": "openai/gpt-5"}))
    code, found = office.report()
    way_out = only(found, "server", "problem")["way_out"]
    assert (code, way_out) == (1, "run 'mainspring login openai', or set OPENAI_API_KEY")


def test_a_model_of_a_provider_that_nobody_knows(office: Office) -> None:
    office.user_settings(json.dumps({"model": "azure/x"}))
    code, found = office.report()
    assert (code, only(found, "server", "problem")["says"]) == (1, "'azure/x': there is no provider 'azure'")
    assert "'models.azure/x.base_url' in your settings" in only(found, "server", "problem")["way_out"]


def test_other_servers_are_asked_on_request(office: Office, serve: Serve) -> None:
    stage = serve(api_key=OTHER)
    del office.env["ANTHROPIC_API_KEY"]
    office.env |= {"OPENAI_BASE_URL": stage.server.url, "OPENAI_API_KEY": OTHER}
    listed = {"base_url": f"{stage.server.url}/v1/", "key_env": "OPENAI_API_KEY"}
    office.user_settings(json.dumps({"model": "openai/gpt-none", "models": {"mine/claude-sonnet-5-5": listed}}))
    code, found = office.report("--online")
    assert (code, OTHER in json.dumps(found)) == (0, False)
    name, count = f"'{stage.server.url}'", len(MODELS)
    assert (f"{name} answers and accepts the key: {count} models") in [said for _, said, _ in says(found, "server")]
    notes = [check for check in says(found, "server") if check[0] == "note"]
    way_out = "run 'mainspring models --ask' to see its models"
    assert notes == [("note", f"{name} does not list 'gpt-none', which a run would use", way_out)]
    assert {request.path for request in stage.requests} == {"/v1/models"}
    assert {request.headers["authorization"] for request in stage.requests} == {f"Bearer {OTHER}"}


@contextmanager
def refusing(times: int) -> Iterator[str]:
    """A server that takes no key."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for _ in range(times):
                client, _ = listening.accept()
                with client:
                    client.recv(65_536)
                    client.sendall(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def test_another_server_that_does_not_take_the_key_and_one_that_wants_one(office: Office) -> None:
    del office.env["ANTHROPIC_API_KEY"]
    office.user_settings(json.dumps({"model": "ollama/qwen3"}))
    with refusing(2) as url:
        office.env |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": OTHER, "OLLAMA_BASE_URL": url}
        code, found = office.report("--online")
    refused, keyless = [check for check in says(found, "server") if check[0] == "problem"]
    assert code == 1
    assert refused[1:] == (f"'{url}': answered 401: the key was not accepted", "check OPENAI_API_KEY")
    assert keyless[1] == f"'{url}': answered 401: a key is required, and none is set"
    assert keyless[2] == "set 'base_url' and 'key_env' of 'models.ollama/NAME' in your settings"


def test_a_local_server_that_does_not_run(office: Office) -> None:
    del office.env["ANTHROPIC_API_KEY"]
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        office.env["OLLAMA_BASE_URL"] = url
        office.user_settings(json.dumps({"model": "ollama/qwen3"}))
        code, found = office.report("--online")
    wrong = only(found, "server", "problem")
    assert (code, wrong["says"].startswith(f"'{url}': no answer: connecting to '{url[7:]}'")) == (1, True), wrong
    assert wrong["way_out"] == "'ollama serve' starts it. Its address is set by OLLAMA_BASE_URL"


# --- rules --------------------------------------------------------------------------------------------------------


def test_rules_that_cannot_be_read_are_named_with_their_file(office: Office) -> None:
    rules = {"allow": ["bash", "Read"], "deny": ["Bash(rm:*", "Bash(sudo:*)"], "ask": ["Write(\u0007)"]}
    file = office.user_settings(json.dumps({"permissions": rules}))
    code, found = office.report()
    wrong = [(said, way_out) for state, said, way_out in says(found, "settings") if state == "problem"]
    mend = "fix the rule or remove it: until then"
    assert code == 1
    assert wrong == [
        (
            f"{file}: 'permissions.deny': the rule 'Bash(rm:*' has no closing parenthesis at its end",
            f"{mend} every call of its tool asks for approval",
        ),
        (
            f"{file}: 'permissions.ask': the rule 'Write()' contains a control character",
            f"{mend} every call of its tool asks for approval",
        ),
        (
            f"{file}: 'permissions.allow': the rule 'bash' names no tool: write 'Bash'",
            f"{mend} it allows nothing",
        ),
    ]


def test_config_names_them_too(office: Office) -> None:
    file = office.user_settings(json.dumps({"permissions": {"allow": ["bash", "Read"]}}))
    command = [sys.executable, "-m", "mainspring", "config"]
    done = subprocess.run(command, cwd=office.work, env=office.env, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("broken")]
    named, _, way_out = line.partition(". To fix it: ")
    assert named == f"broken: {file}: 'permissions.allow': the rule 'bash' names no tool: write 'Bash'"
    assert way_out == "fix the rule or remove it: until then it allows nothing"


# --- missing parts ------------------------------------------------------------------------------------------------

WITHOUT_PDF = f"import sys; sys.modules['pypdf'] = None\n{BEGIN}"  # as if it were not installed


def test_a_missing_part_says_what_it_costs_and_the_command_that_installs_it(office: Office) -> None:
    command = [sys.executable, "-c", WITHOUT_PDF, "--json"]
    done = subprocess.run(command, cwd=office.work, env=office.env, capture_output=True, text=True, check=False)
    [extra] = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "extra"]
    assert extra["says"] == "the extra 'pdf' is not installed; Read cannot show single pages of a PDF"
    assert extra["way_out"] == f"run: {sys.executable} -m pip install 'pypdf>=7'"
    assert done.returncode == 0  # nothing is broken


def test_a_program_is_installed_by_the_package_manager_of_the_system(tmp_path: Path) -> None:
    for name in ("apk", "dnf"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    known = [name for name in MANAGERS if find_program(name, path=str(tmp_path), outside=())]
    command = command_for_program("git", str(tmp_path), ())
    assert known
    assert command[-1] == "git"
    assert command[0] == "sudo" or os.geteuid() == 0 or known[0] == "brew"
    assert command[-1 - len(MANAGERS[known[0]][1:]) : -1] == MANAGERS[known[0]][1:]


def test_no_package_manager_of_a_project_is_used(tmp_path: Path) -> None:
    (tmp_path / "brew").write_text("#!/bin/sh\n")
    (tmp_path / "brew").chmod(0o755)
    assert str(tmp_path) not in str(command_for_program("git", str(tmp_path), (str(tmp_path),)))


@pytest.mark.parametrize(("answer", "ran"), [("y", True), ("YES ", True), ("", False), ("n", False), ("maybe", False)])
def test_only_a_yes_installs(answer: str, *, ran: bool, tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(question: str) -> str:
        asked.append(question)
        return answer

    made = list(offer_to_install([("touch", str(tmp_path / "done"))], ask))
    assert asked == [f"Run 'touch {tmp_path}/done'? [y/N] "]
    assert ((tmp_path / "done").exists(), [worked for _, worked in made]) == (ran, [True] if ran else [])


def test_a_command_that_fails_or_is_missing_is_reported(tmp_path: Path) -> None:
    made = list(offer_to_install([("false",), (str(tmp_path / "none"),)], lambda _: "y"))
    assert [worked for _, worked in made] == [False, False]


def test_at_a_terminal_it_asks_before_it_runs_anything(office: Office) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", WITHOUT_PDF]
    process = subprocess.Popen(command, cwd=office.work, env=office.env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    screen = ""
    with suppress(OSError):  # the end: the terminal is closed
        while True:
            screen += os.read(ours, 4096).decode()
            if screen.endswith("[y/N] "):
                os.write(ours, b"n\n")
    os.close(ours)
    assert process.wait() == 0
    assert screen.count("[y/N]") >= 1
    assert "-m pip install 'pypdf>=7''? [y/N] n" in screen
    assert "Done" not in screen


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "by the model's service, at $10 per 1,000 searches and their tokens"),
        ({"webSearch": {"command": "true"}}, "by the command in 'webSearch.command'"),
        ({"model": "ollama/qwen3"}, "not offered: the Chat Completions protocol has no web search"),
        (
            {"models": {"claude-sonnet-5-5": {"web_search": False}}},
            "not offered: your settings disable it for 'claude-sonnet-5-5'",
        ),
    ],
)
def test_who_searches_the_web(office: Office, settings: dict[str, object], said: str) -> None:
    office.user_settings(json.dumps(settings))
    assert only(office.report()[1], "web search", "ok")["says"] == said
