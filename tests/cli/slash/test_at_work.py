"""`/tasks`, `/agents`, `/mcp`: what goes on beside the conversation, and how it is ended or begun again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp_servers.stage import SHOP

from cli.nursery import begun
from cli.slash.sitting import Sitting, here, sat
from cli.stage import PATIENCE, Serve
from mainspring.simulator.replies import RawStream, ReceivedRequest, Reply, Say

FREE = "--dangerously-skip-permissions"


def tool_use(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": input}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  # a state that tells nobody
            await asyncio.sleep(0.005)


# --- commands -----------------------------------------------------------------------------------------------------


def test_a_command_in_the_background_is_shown_and_ended(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "echo first; printf 'the \\033[31mlast\\n\\n'; sleep 300"
    call = tool_use("Bash", command=command, run_in_background=True, description="Waits")
    look = tool_use("BashOutput", bash_id="bash_1")
    stage = serve(Say.of(call), Say.of("It runs."), Say.of(look), Say.of("Seen."))
    here(stage, monkeypatch)
    (stage.home / "settings.toml").write_text("autoMemoryEnabled = false\n[sandbox]\nenabled = false\n")

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/tasks") == "No background tasks."
        await sitting.asked("go")
        [running] = sitting.talk.world.kit.background.running
        await until(lambda: running.child.stdout.end(100).endswith("last\n\n"))
        rows = (await sitting.said("/tasks")).split("\n")
        assert re.fullmatch(r"bash_1  running for \d+ s  Waits", rows[0])
        assert rows[1:] == ["    the [31mlast", "Type /tasks stop ID to stop one."]
        await sitting.asked("look")  # what was taken is in its file
        assert (await sitting.said("/tasks")).split("\n")[1] == "    the [31mlast"
        wrong = await sitting.said("/tasks stop bash_7")
        assert wrong == "No background task 'bash_7'. Running: 'bash_1'."
        for odd in ("/tasks stop", "/tasks end bash_1"):
            assert (await sitting.said(odd)).startswith("Usage: /tasks lists")
        assert await sitting.said("/tasks stop bash_1") == "Stopped 'bash_1'."
        assert running.status == "killed"
        assert await sitting.said("/tasks") == "No background tasks."
        gone = await sitting.said("/tasks stop bash_1")
        assert gone == "No background task 'bash_1'. Running: none."

    sat(play, FREE)


# --- agents -------------------------------------------------------------------------------------------------------


class Cast:
    """The session says its lines; its agent makes a call, and then never comes to an end."""

    def __init__(self) -> None:
        self.main: list[Reply] = [Say.of(AGENT), Say.of("It is on its way.")]
        self.agent: list[Reply] = [Say.of("I look.", tool_use("Glob", pattern="*.py")), RawStream(end="hang")]

    def __call__(self, received: ReceivedRequest) -> Reply:
        first = json.dumps(received.body["messages"][0])
        return (self.agent if "ERRAND" in first else self.main).pop(0)


AGENT = tool_use("Agent", description="count files", prompt="ERRAND", run_in_background=True)


def test_an_agent_in_the_background_is_shown_and_ended(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    cast = Cast()
    stage = serve(choose=cast)
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        await sitting.asked("go")
        await until(lambda: not cast.agent)  # it has asked a second time
        [away] = sitting.talk.world.agents.at_work()
        rows = (await sitting.said("/tasks")).split("\n")
        rows[0] = re.sub(r"for \d+ s", "for N s", rows[0])
        assert rows == [
            f"{away.agent_id}  running for N s  general-purpose: count files",
            "    Glob: *.py",
            "Type /tasks stop ID to stop one.",
        ]
        rows = (await sitting.said("/agents")).split("\n")
        assert rows[-3] == "Running in the background (/tasks stop ID stops one):"
        assert rows[-2].startswith(f"{away.agent_id}  running for ")
        assert await sitting.said(f"/tasks stop {away.agent_id}") == f"Stopped '{away.agent_id}'."
        assert sitting.talk.world.agents.away == 0
        assert sitting.talk.world.agents.at_work() == ()  # though no run has shown its end yet
        assert await sitting.said("/tasks") == "No background tasks."

    sat(play, FREE)


# --- servers ------------------------------------------------------------------------------------------------------


def named(path: Path, gate: Path) -> str:
    """A shop that is there, and one that opens only when a file is there."""
    command, *arguments = begun(SHOP)
    words = " ".join([command, *arguments])
    late = {"command": "/bin/sh", "args": ["-c", f"test -e '{gate}' && exec {words}"]}
    path.write_text(json.dumps({"mcpServers": {"shop": {"command": command, "args": arguments}, "late": late}}))
    return str(path)


def test_servers_with_their_states_and_one_that_is_tried_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)
    gate = stage.folder.parent / "open"
    (stage.home / "settings.toml").write_text("autoMemoryEnabled = false\n[sandbox]\nenabled = false\n")

    async def play(sitting: Sitting) -> None:
        assert sitting.talk.world.mcp is not None
        await sitting.talk.world.mcp.ready(PATIENCE)
        rows = (await sitting.said("/mcp")).split("\n")
        assert rows[0].startswith("shop: connected")
        assert re.match(r"  \d+ tools: ", rows[1])
        assert rows[2].startswith("late: failed: ")
        status = await sitting.said("/status")
        assert re.search(r"\nMCP +shop \(connected, \d+ tools\), late \(failed\)\n", status)
        assert (await sitting.said("/mcp reconnect late")).startswith("Cannot reconnect: the MCP server 'late'")
        gate.touch()
        assert await sitting.said("/mcp reconnect late") == "Connected to MCP server 'late'."
        assert "late: connected" in await sitting.said("/mcp")
        wrong = await sitting.said("/mcp reconnect nobody")
        assert wrong == "Cannot reconnect: no MCP server 'nobody'; configured: shop, late"
        assert (await sitting.said("/mcp restart")).startswith("Usage: /mcp lists the servers")

    sat(play, "--mcp-config", named(stage.folder.parent / "servers.json", gate))


def test_without_servers_there_is_nothing_to_connect(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert (await sitting.said("/mcp")).startswith("No MCP servers configured.")
        assert (await sitting.said("/mcp reconnect it")).startswith("No MCP servers configured.")

    sat(play)
