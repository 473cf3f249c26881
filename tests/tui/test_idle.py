"""A terminal at rest does nothing, and the trust page."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cli.stage import Serve
from cli.terminal import without_notes

from mainspring.simulator.replies import Say
from tui.person import CTRL_D, SitAt


@pytest.mark.long
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs the program strace")
def test_an_idle_terminal_does_not_wake_up(serve: Serve, sit_at: SitAt, tmp_path: Path) -> None:
    stage = serve(Say.of("Hello."))
    without_notes(stage)
    person = sit_at(stage)
    person.say("hi")
    person.see("Hello.", "1 turn ·")
    log = tmp_path / "strace.log"
    watch = ["timeout", "-s", "INT", "13", "strace", "-f", "-ttt", "-p", str(person.process.pid), "-o", str(log)]
    subprocess.run(watch, check=False, capture_output=True)
    calls = [line.split(None, 2) for line in log.read_text().splitlines()]
    begin = float(calls[0][1])
    late = [call for call in calls if 2 < float(call[1]) - begin < 11]  # the end of the turn is drawn before
    assert late == []
    person.type(CTRL_D)
    assert person.end() == 0


def test_the_trust_page_comes_first_and_names_each_server(serve: Serve, sit_at: SitAt) -> None:
    """Nothing stands above it, and what it enables begins at once."""
    stage = serve()
    settings = stage.folder / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    line = {"type": "command", "command": "echo MY-STATUS"}
    settings.write_text(json.dumps({"statusLine": line, "env": {"A": "b"}}))
    servers = {"files": {"command": "no-such-server", "args": ["--all"]}, "web": {"type": "http", "url": "http://x/"}}
    (stage.folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    person = sit_at(stage, columns=100)
    text = person.see("Do you trust this folder?", "❯ 1. No, continue without them")
    assert "• MCP server 'files' (no-such-server --all)" in text
    assert "• MCP server 'web' (http://x/)" in text
    assert "not trusted" not in text
    assert "ilter" not in text
    person.answer("2", "Do you trust this folder?")
    person.see("is trusted. Now", "MY-STATUS")
    assert "not used, because" not in person.text
