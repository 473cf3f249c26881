"""Servers of the command itself: `mainspring -p` against a model server on this machine, and `mainspring mcp`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import serve  # noqa: F401  # a fixture
from cli.nursery import begun
from cli.stage import Serve, frames, until
from cli.test_start_path import loaded_by
from processes.traces import new_nap, with_word

from mainspring.simulator.replies import Say
from mcp_servers.by_hand import by_hand
from mcp_servers.stage import SHOP

ADD = {"type": "tool_use", "id": "toolu_1", "name": "mcp__shop__add", "input": {"a": 2, "b": 3}}


def config(**servers: Any) -> str:
    return json.dumps({"mcpServers": servers})


def shop(*more: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SHOP, *more]}


def hand(code: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-c", by_hand(code)]}


@pytest.mark.covers("N-09")
def test_a_run_with_a_server(serve: Serve) -> None:  # noqa: F811
    stage = serve(Say.of("Let me see.", ADD), Say.of("It is 5."))
    flags = ("--mcp-config", config(shop=shop()), "--allowedTools", "mcp__shop", "--output-format", "stream-json")
    done = stage.run("-p", "2 and 3?", *flags)
    assert (done.returncode, done.stderr) == (0, b"")
    init, *others = frames(done.stdout)
    assert init["mcp_servers"] == [{"name": "shop", "status": "connected", "source": "command line"}]
    assert "mcp__shop__add" in init["tools"]
    first, second = [request.body for request in stage.requests]
    assert "mcp__shop__add" in [tool["name"] for tool in first["tools"]]
    system = json.dumps(first["system"])
    assert system.count("Count the change.") == 1
    assert '<mcp-server name=\\"shop\\">' in system
    (result,) = [part for part in second["messages"][-1]["content"] if part["type"] == "tool_result"]
    assert "5" in json.dumps(result["content"])
    assert first["tools"] == second["tools"]
    assert first["system"] == second["system"]
    assert others[-1]["result"] == "It is 5."


def test_a_server_that_fails_is_told_and_the_run_goes_on(serve: Serve) -> None:  # noqa: F811
    stage = serve(Say.of("Hello."))
    broken = {"command": "no-such-program"}
    done = stage.run("-p", "hello", "--mcp-config", config(bad=broken, worse={"type": "sdk"}, good=hand("serve()")))
    assert (done.returncode, done.stdout) == (0, b"Hello.\n")
    told = done.stderr.decode().splitlines()
    assert len(told) == 2
    assert told[0].startswith("mainspring: --mcp-config: the MCP server 'worse', field 'type': ")
    assert told[1].startswith("mainspring: the MCP server 'bad' cannot be used: 'no-such-program' not found")
    assert "mcp__good__hello" in [tool["name"] for tool in stage.requests[0].body["tools"]]


def test_without_a_rule_nobody_may_use_it(serve: Serve) -> None:  # noqa: F811
    """It says of itself that it only reads."""
    stage = serve(Say.of("Let me see.", ADD), Say.of("I may not."))
    command, *args = begun(SHOP)
    stage.run("-p", "2 and 3?", "--mcp-config", config(shop={"command": command, "args": args}))
    (result,) = [part for part in stage.requests[1].body["messages"][-1]["content"] if part["type"] == "tool_result"]
    assert result["is_error"]
    assert "needs permission" in json.dumps(result["content"])


def test_a_project_starts_nothing_before_it_is_trusted(serve: Serve) -> None:  # noqa: F811
    stage = serve(Say.of("Hello."), Say.of("Hello."))
    started = stage.folder / "started"
    code = f"open({str(started)!r}, 'w').close()\nserve()"
    (stage.folder / ".mcp.json").write_text(config(theirs=hand(code)))
    done = stage.run("-p", "hello")
    assert b"MCP servers (theirs) are not started, because this directory is not trusted" in done.stderr
    assert not started.exists()
    assert stage.run("trust").returncode == 0
    assert stage.run("-p", "hello").stderr == b""
    assert started.exists()


def test_killing_the_command_leaves_no_server(serve: Serve) -> None:  # noqa: F811
    nap = new_nap()
    call = {"type": "tool_use", "id": "toolu_1", "name": "mcp__odd__hello", "input": {}}
    stage = serve(Say.of("Let me see.", call))
    begun = stage.folder / "begun"
    odd = hand(f"# {nap}\nserve(lambda *_: (open({str(begun)!r}, 'w').close(), time.sleep(1000)))")
    (stage.folder / "servers.json").write_text(config(odd=odd))
    command = stage.start("-p", "go", "--mcp-config", "servers.json", "--allowedTools", "mcp__odd")
    try:
        until(begun.exists)
        assert len(with_word(nap)) == 2  # the keeper and the server
    finally:
        command.send_signal(signal.SIGKILL)
        command.communicate()
    until(lambda: with_word(nap) == [], seconds=10)


def test_an_interrupt_ends_the_call_and_the_server(serve: Serve) -> None:  # noqa: F811
    nap = new_nap()
    call = {"type": "tool_use", "id": "toolu_1", "name": "mcp__shop__hang", "input": {"folder": "."}}
    stage = serve(Say.of("Let me see.", call))
    assert stage.run("trust").returncode == 0  # the server is to work in this folder
    command = stage.start("-p", "go", "--mcp-config", config(shop=shop("stdio", nap)), "--allowedTools", "mcp__shop")
    try:
        until((stage.folder / "begun").exists)
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=30)
    finally:
        command.kill()
    assert (stage.folder / "cancelled").exists()
    assert with_word(nap) == []


def test_the_package_is_not_there(serve: Serve) -> None:  # noqa: F811
    stage = serve(Say.of("Hello."))
    flags = ("-p", "hello", "--mcp-config", config(good=hand("serve()")))
    command = stage.start(*flags, set_up="sys.modules['mcp'] = None")
    out, told = command.communicate(timeout=60)
    assert (command.returncode, out) == (0, b"Hello.\n")
    assert b"the MCP server 'good' cannot be used: MCP servers need the package 'mcp'" in told
    assert b"pip install 'mainspring[mcp]'" in told


def test_who_has_no_servers_does_not_pay_for_them(serve: Serve) -> None:  # noqa: F811
    stage = serve(Say.of("Hello."))
    run = "from mainspring.cli.main import main; main(['-p', 'hello'])"
    environment = {"ANTHROPIC_BASE_URL": stage.server.url, "MAINSPRING_HOME": str(stage.home)}
    loaded = loaded_by(run, stage.folder, PYTHONPATH=os.environ.get("PYTHONPATH", ""), **environment)
    assert len(stage.requests) == 1
    assert {name for name in loaded if "mcp" in name.split(".")} == set()
    assert not loaded & {"mainspring.settings.mcp_servers", "anyio", "pydantic", "httpx2"}


# --- `mainspring mcp` -----------------------------------------------------------------------------------------------


def listed(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        begun("mainspring", "mcp", *flags),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "MAINSPRING_HOME": str(folder / "home")},
        timeout=60,
        check=False,
    )


def test_the_list_of_servers(tmp_path: Path) -> None:
    servers = config(good=hand("serve()"), bad=hand("sys.exit(3)"), off={"command": "x", "disabled": True})
    done = listed(tmp_path, "--mcp-config", servers)
    home = tmp_path / "home/mcp"
    elsewhere = f"it was started in '{home}' because this folder is not trusted: run 'mainspring trust' to trust it"
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "good: connected (by hand 1)",
        "  1 tool: hello",
        f"bad: failed: it ended with exit code 3; {elsewhere}",
        "off: disabled",
    ]
    fine = listed(tmp_path, "--mcp-config", config(good=hand("serve()")), "--json")
    assert fine.returncode == 0
    (good,) = json.loads(fine.stdout)["mcpServers"]
    assert (good["name"], good["status"], good["tools"]) == (
        "good",
        "connected",
        [{"name": "hello", "annotations": {}}],
    )


def test_there_are_none(tmp_path: Path) -> None:
    done = listed(tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("No MCP servers configured. Add them to '.mcp.json'")


def test_a_server_that_was_added_by_the_command_is_used(serve: Serve) -> None:  # noqa: F811
    stage = serve(Say.of("Let me see.", ADD), Say.of("It is 5."))
    done = stage.run("mcp", "add", "shop", "--", sys.executable, SHOP)
    assert (done.returncode, done.stderr) == (0, b"")
    got = stage.run("mcp", "get", "shop")
    assert b"shop: connected" in got.stdout
    assert b"local (only you, in this folder)" in got.stdout
    done = stage.run("-p", "2 and 3?", "--allowedTools", "mcp__shop", "--output-format", "stream-json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert frames(done.stdout)[0]["mcp_servers"] == [{"name": "shop", "status": "connected", "source": "user"}]
    assert "mcp__shop__add" in [tool["name"] for tool in stage.requests[0].body["tools"]]
    left_out = stage.run("mcp", "list", "--setting-sources", "user,project")
    assert b"No MCP servers configured" in left_out.stdout
    assert stage.run("mcp", "remove", "shop").returncode == 0
    assert b"No MCP servers configured" in stage.run("mcp").stdout
