"""`mainspring doctor`: every kind of trouble is found and comes with its way out; no key is shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes.walls import LINUX, seen_folder

from cli.stage import PATIENCE, Serve
from mainspring.processes.probes import PROBES

KEY = "sk-ant-api03-the-key-of-this-test"
BEGIN = """
import sys
from mainspring.cli.flags import Options
from mainspring.cli.doctor import doctor
sys.exit(doctor(Options(words=("doctor",), given=tuple(sys.argv[1:]))))
"""

Done = subprocess.CompletedProcess[str]


class Office:
    """A home, a working folder, and an environment with a key."""

    def __init__(self, base: Path) -> None:
        self.home, self.work = base / "home", base / "work"
        self.work.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC", "CLAUDE"))}
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
    assert [name for name in found if name != "probes"] == expected
    assert only(found, "key", "ok")["says"] == "from ANTHROPIC_API_KEY; it is never shown"
    assert (office.home.stat().st_mode & 0o777, list(office.work.iterdir())) == (0o700, [])


def test_its_lines_fit_a_narrow_screen_and_paths_stay_whole(office: Office) -> None:
    office.user_settings('{"modell": "opus", "permissions": {"defaultMode": 3}, "env": 7}')
    done = office.doctor()
    assert done.returncode == 1
    for line in done.stdout.splitlines():
        assert len(line) <= 80 or len(line.split()[-1]) > 55, line  # a path is never broken
    assert f"{office.home}/settings.json:1:2" in done.stdout
    assert done.stdout.count("-> ") >= 3
    assert done.stdout.endswith("\n2 problems. After each arrow stands the way out.\n")


@LINUX
def test_the_probes_are_run_and_none_is_open() -> None:
    with seen_folder() as base:
        base.chmod(0o700)
        code, found = Office(base).report()
        assert list((base / "home").glob("doctor-*")) == []
    assert (code, only(found, "sandbox", "ok")["says"].startswith("on (bubblewrap")) == (0, True)
    assert only(found, "probes", "ok")["says"] == f"{len(PROBES)} ways out were tried, none is open"


# --- what can be wrong --------------------------------------------------------------------------------------------


def test_no_key(office: Office) -> None:
    del office.env["ANTHROPIC_API_KEY"]
    code, found = office.report()
    assert (code, only(found, "key", "problem")["says"]) == (1, "there is none")
    office.env["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    assert office.report()[0] == 0  # the server may need none


def test_a_key_file_that_others_can_read(office: Office) -> None:
    office.home.mkdir(mode=0o700)
    file = office.home / "key"
    file.write_text(KEY)
    file.chmod(0o644)
    assert "also there, and not used: key file" in office.report()[1]["key"][1]["says"]
    del office.env["ANTHROPIC_API_KEY"]
    code, found = office.report()
    assert (code, f"chmod 600 {file}" in only(found, "key", "problem")["way_out"]) == (1, True)
    file.chmod(0o600)
    assert office.report()[0] == 0


def test_a_helper_is_looked_at_and_not_run(office: Office) -> None:
    planted = office.work.parent / "ran"
    office.user_settings(json.dumps({"apiKeyHelper": f"/usr/bin/touch {planted}"}))
    code, found = office.report()
    assert (code, found["key"][0]["says"]) == (0, "from apiKeyHelper (asked with --online); it is never shown")
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
        "mend the name, or remove it",
        "put it into your own settings, if you want it",
        "look at the file, then 'mainspring trust' if you trust this folder",
    ]


def test_a_home_that_cannot_be_written(office: Office) -> None:
    office.home.write_text("not a folder")
    code, found = office.report()
    assert code == 1
    assert only(found, "sessions", "problem")["says"].startswith(f"'{office.home}/projects' cannot be written: ")


def test_a_home_that_is_open_to_others(office: Office) -> None:
    office.home.mkdir(mode=0o755)
    code, found = office.report()
    assert (code, only(found, "sessions", "note")["way_out"]) == (0, f"chmod 700 '{office.home}'")
    office.home.chmod(0o777)
    code, found = office.report()
    assert (code, only(found, "sessions", "problem")["way_out"]) == (1, f"chmod 700 '{office.home}'")


def test_a_sandbox_that_is_switched_off_and_one_that_is_required_and_not_there(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.user_settings('{"sandbox": {"enabled": false}}')
    code, found = office.report()
    assert (code, only(found, "sandbox", "note")["says"]) == (0, "off: switched off by the user's settings")
    # Bubblewrap is found by its path, so it is taken away by not being there for this process.
    office.user_settings('{"sandbox": {"failIfUnavailable": true}}')
    begin = BEGIN.replace("import sys", "import sys\nimport mainspring.processes.programs as p\np.USUAL = ()", 1)
    monkeypatch.setattr(sys.modules[__name__], "BEGIN", begin)
    office.env["PATH"] = str(office.work)
    code, found = office.report()
    assert code == 1
    assert "bubblewrap is not installed" in only(found, "sandbox", "problem")["says"]
    assert only(found, "git", "note")["way_out"] == "install the package 'git'"


# --- the server ---------------------------------------------------------------------------------------------------


def test_the_server_is_asked_only_on_request(office: Office, serve: Serve) -> None:
    stage = serve(api_key=KEY)
    office.env["ANTHROPIC_BASE_URL"] = stage.server.url
    assert "server" not in office.report()[1]
    assert stage.requests == []
    code, found = office.report("--online")
    assert (code, only(found, "server", "ok")["says"]) == (0, f"'{stage.server.url}' answers, and takes the key")
    assert len(stage.requests) == 1


def test_a_key_that_the_server_does_not_know(office: Office, serve: Serve) -> None:
    stage = serve(api_key="another")
    office.env["ANTHROPIC_BASE_URL"] = stage.server.url
    code, found = office.report("--online")
    assert (code, "get a new key" in only(found, "server", "problem")["way_out"]) == (1, True)


def test_a_server_that_is_not_there(office: Office) -> None:
    office.env["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    code, found = office.report("--online")
    assert (code, "ANTHROPIC_BASE_URL" in only(found, "server", "problem")["way_out"]) == (1, True)
