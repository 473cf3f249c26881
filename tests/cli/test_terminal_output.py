"""What others wrote reaches no terminal as a control sequence: every command, on a pty, in a folder full of them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.stage import COMMAND, PATIENCE, Serve, Stage
from cli.terminal import OWN_TERMINAL
from mainspring.simulator.replies import Refuse, Say
from mainspring.text import escape_controls

EVIL = "\x1b]52;c;aGk=\x07\x9b31m\x1b[2J\u202e\x7f\x08\x90"
OWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?2004[hl]")  # colours, marks around pastes
OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def on_a_terminal(stage: Stage, *arguments: str, typed: bytes = b"", **extra: str) -> str:
    ours, theirs = pty.openpty()
    environment = stage.environment | {"TERM": "xterm-256color"} | extra
    process = subprocess.Popen(
        [*OWN_TERMINAL, *COMMAND, *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=stage.folder, env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    if typed:
        os.write(ours, typed)
    shown = b""
    try:
        while select.select([ours], [], [], PATIENCE)[0]:
            try:
                more = os.read(ours, 65_536)
            except OSError:
                break
            shown += more
    finally:
        if process.poll() is None and not select.select([ours], [], [], 1)[0]:
            process.kill()
        process.wait(PATIENCE)
        os.close(ours)
    return shown.decode("utf-8", "surrogateescape")


def check(shown: str, why: str) -> None:
    left = OWN.sub("", shown)
    found = OBEYED.search(left)
    assert found is None, f"{why}: {left[max(0, found.start() - 60) : found.end() + 60]!r}"
    assert not re.search("[\ud800-\udfff]", left), f"{why}: bytes that are no text"


def plant(stage: Stage) -> None:
    """In every place of the folder and the home that others may have written."""
    ours, home = stage.folder / ".claude", stage.home
    for folder in (ours, home):
        for part in ("agents", "skills", "commands"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        head = f"---\nname: a{EVIL}\ndescription: does {EVIL}\n---\nDo {EVIL}.\n"
        (folder / "agents" / f"agent{EVIL}.md").write_text(head)
        (folder / "commands" / f"command{EVIL}.md").write_text(head)
        (folder / "skills" / f"skill{EVIL}").mkdir(exist_ok=True)
        (folder / "skills" / f"skill{EVIL}" / "SKILL.md").write_text(head)
    project = {
        EVIL: EVIL,
        "model": f"m{EVIL}",
        "env": {f"A{EVIL}": EVIL},
        "permissions": {"allow": [f"Bash({EVIL})"], "deny": [f"Nope{EVIL}("], "defaultMode": f"x{EVIL}"},
        "hooks": {f"Event{EVIL}": [{"matcher": f"({EVIL}", "hooks": [{"type": "command", "command": f"echo {EVIL}"}]}]},
        "statusLine": {"type": EVIL, "command": EVIL},
        "outputStyle": EVIL,
    }
    (ours / "settings.json").write_text(json.dumps(project, ensure_ascii=False))
    (ours / "settings.local.json").write_text('{"a' + EVIL + '": broken')
    servers = {f"server{EVIL}": {"command": f"/no{EVIL}", "args": [EVIL]}, "other": {"type": EVIL, "url": EVIL}}
    (stage.folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}, ensure_ascii=False))
    (stage.folder / "CLAUDE.md").write_text(f"Remember {EVIL}\n@./no{EVIL}.md\n")


@pytest.fixture
def evil(serve: Serve) -> Stage:
    """With a session whose prompt, answer and name hold them."""
    stage = serve(*[Say.of(f"Answer {EVIL}")] * 12)
    stage.home.mkdir(parents=True, exist_ok=True)
    assert stage.run("-p", f"Prompt {EVIL}").returncode == 0
    [file] = stage.sessions()
    with file.open("a") as appended:
        title = {"type": "custom-title", "customTitle": f"title{EVIL}", "sessionId": file.stem}
        appended.write(json.dumps(title, ensure_ascii=False) + "\n")
    plant(stage)
    return stage


COMMANDS: list[tuple[str, ...]] = [
    ("config",),
    ("doctor",),
    ("doctor", "--json"),
    ("sessions",),
    ("context",),
    ("context", "--json"),
    ("trace", "--text"),
    ("trace", "--json"),
    ("replay", f"/no{EVIL}"),
    ("fork", f"title{EVIL}", "--list"),
    ("compare", f"title{EVIL}", f"title{EVIL}"),
    ("mcp",),
    ("mcp", "--json"),
    ("models",),
    ("models", f"no{EVIL}"),
    ("trust", "--list"),
    ("trust", f"/no{EVIL}"),
    ("permissions",),
    ("permissions", "explain", "Bash", f"echo {EVIL}"),
    ("permissions", "explain", f"Tool{EVIL}", "x"),
    ("-p", f"Say {EVIL}"),
    ("-p", "x", "--output-format", "stream-json", "--verbose"),
    ("-p", "x", "--output-format", "json"),
    ("-p", "x", "--resume", f"no{EVIL}"),
    ("-p", "x", "--model", f"no{EVIL}"),
    ("-p", "x", "--settings", f"/no{EVIL}.json"),
    ("-p", "x", "--settings", '{"' + EVIL + '": ' + EVIL),
    ("-p", "x", "--mcp-config", f"/no{EVIL}.json"),
    ("-p", "x", "--add-dir", f"/no{EVIL}"),
    ("-p", "x", "--permission-mode", EVIL),
    ("-p", "x", "--output-format", EVIL),
    (f"--flag{EVIL}",),
    (f"word{EVIL}",),
    ("config", EVIL),
    ("simulate", f"--flag{EVIL}"),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=[" ".join(one).replace(EVIL, "_") for one in COMMANDS])
def test_a_command(evil: Stage, arguments: tuple[str, ...]) -> None:
    check(on_a_terminal(evil, *arguments), " ".join(arguments[:3]))


def test_a_plain_conversation(evil: Stage) -> None:
    for local in (evil.folder / ".claude").glob("settings*.json"):
        local.unlink()
    check(on_a_terminal(evil, "--plain", "hello", typed=b"/status\r/mcp\r/skills\r/exit\r", NO_COLOR="1"), "--plain")


def test_an_error_of_the_server(serve: Serve) -> None:
    stage = serve(Refuse(400, "invalid_request_error", f"bad {EVIL}"))
    check(on_a_terminal(stage, "-p", "x"), "the server's words")


def test_the_environment_and_bytes_that_are_no_text(evil: Stage) -> None:
    check(on_a_terminal(evil, "-p", "x", ANTHROPIC_BASE_URL=f"http://{EVIL}"), "an address")
    odd = os.fsdecode(b"/no\x9b31m\xff")
    check(on_a_terminal(evil, "-p", "x", "--settings", odd), "bytes")
    check(on_a_terminal(evil, "trust", odd, LC_ALL="C", PYTHONUTF8="0"), "bytes, in the C locale")


def test_a_traceback(tmp_path: Path) -> None:
    """What nobody foresaw, with the words of others in it."""
    script = (
        "import sys; from mainspring.cli import main\n"
        f"def fail(argv): raise RuntimeError({EVIL!r})\n"
        "main.run_to_exit = fail\n"
        "main.main([])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=tmp_path, check=False)
    assert b"RuntimeError" in done.stderr
    check(done.stderr.decode(), "a traceback")


@given(st.text())
def test_json_keeps_its_value(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    written = json.dumps({text: text}, ensure_ascii=False)
    assert json.loads(escape_controls(written)) == {text: text}
    check(escape_controls(text.replace("\r", "")), "escaped")


def test_frames_on_a_terminal_are_the_same_frames(evil: Stage) -> None:
    shown = on_a_terminal(evil, "-p", "x", "--output-format", "stream-json", "--verbose")
    frames = [json.loads(line) for line in shown.splitlines() if line.startswith("{")]
    assert frames[-1]["result"] == f"Answer {EVIL}"
