"""The user's own servers in a folder that nobody trusts: nothing of the folder runs (T1)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cli.conftest import serve  # noqa: F401  # a fixture
from cli.stage import Serve

from mainspring.core.errors import UsageError
from mainspring.simulator.replies import Say
from mainspring.tools.mcp.ground import Ground
from mcp_servers.by_hand import by_hand

COMMAND = [sys.executable, "-m", "mainspring"]
SEEN = "open({where!r}, 'w').write(json.dumps([os.getcwd(), os.environ['CLAUDE_PROJECT_DIR']]))\nserve()"


class Machine:
    """A user with settings of their own, and a repository that somebody else wrote."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.repo, self.home, self.bin = base / "repo", base / "home", base / "bin"
        for folder in (self.repo, self.home, self.bin):
            folder.mkdir()
        self.sprung = base / "sprung"

    def trap(self, name: str) -> Path:
        """A program in the repository that leaves a trace when it runs."""
        place = self.repo / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"#!/bin/sh\n: > '{self.sprung}'\n")
        place.chmod(0o755)
        return place

    def module(self, name: str) -> None:
        place = self.repo / f"{name}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"open({str(self.sprung)!r}, 'w').close()\n")

    def has(self, **servers: dict[str, Any]) -> None:
        (self.home / "settings.json").write_text(json.dumps({"mcpServers": servers}))

    def run(self, *words: str, path: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "CLAUDE"))}
        own = {"MAINSPRING_HOME": str(self.home), "PATH": f"{path}{os.environ['PATH']}"}
        return subprocess.run(
            [*COMMAND, *words],
            capture_output=True,
            text=True,
            cwd=self.repo,
            env={**kept, **own, **env},
            timeout=60,
            check=False,
        )


class Way(NamedTuple):
    """One by which code of a repository could get to run."""

    server: dict[str, Any]
    path: str = ""
    env: tuple[str, ...] = ()
    said: str = ""  # where the program itself is the repository's


def ways(machine: Machine) -> dict[str, Way]:
    repo = str(machine.repo)
    script = machine.bin / "outside"  # such as npx, which is a script for the first `node` on PATH
    script.write_text("#!/usr/bin/env caught\n")
    script.chmod(0o755)
    (machine.bin / "linked").symlink_to(machine.trap("deep/linked"))
    machine.trap("tools/caught")
    machine.module("caught_module")
    machine.module("lib/other_module")
    refused = "'mainspring trust' trusts it"
    python = sys.executable
    return {
        "a module beside us": Way({"command": python, "args": ["-m", "caught_module"]}),
        "a module on PYTHONPATH": Way(
            {"command": python, "args": ["-m", "other_module"]}, env=(f"PYTHONPATH={repo}/lib",)
        ),
        "a relative path": Way({"command": "./tools/caught"}, said=refused),
        "a whole path": Way({"command": f"{repo}/tools/caught"}, said=refused),
        "a way round": Way({"command": f"{repo}/tools/../../repo/tools/caught"}, said=refused),
        "a link to it": Way({"command": f"{machine.bin}/linked"}, said=refused),
        "a folder on PATH": Way({"command": "caught"}, path=f"{repo}/tools:", said=refused),
        "a link on PATH": Way({"command": "linked"}, path=f"{machine.bin}:", said=refused),
        "what a script looks for": Way({"command": f"{script}"}, path=f"{repo}/tools:"),
        "its own PATH": Way({"command": f"{script}", "env": {"PATH": f"{repo}/tools:/usr/bin:/bin"}}),
    }


NAMES = (
    "a module beside us", "a module on PYTHONPATH", "a relative path", "a whole path", "a way round", "a link to it",
    "a folder on PATH", "a link on PATH", "what a script looks for", "its own PATH",
)  # fmt: skip


@pytest.mark.covers("N-09")
@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_folder_runs(tmp_path: Path, name: str) -> None:
    """Where it is trusted, everything does: each of the traps is one."""
    machine = Machine(tmp_path)
    all_ways = ways(machine)
    assert tuple(all_ways) == NAMES
    way = all_ways[name]
    machine.has(own=way.server)
    env = dict([one.split("=") for one in way.env])
    done = machine.run("mcp", path=way.path, **env)
    assert not machine.sprung.exists()
    assert done.stdout.startswith("own: failed: ")
    assert "'mainspring trust' trusts it" in done.stdout
    assert ("it was started in" in done.stdout) is not bool(way.said)
    assert machine.run("trust").returncode == 0
    machine.run("mcp", path=way.path, **env)
    assert machine.sprung.exists()


def test_servers_start_in_a_folder_of_ours_until_it_is_trusted(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    where = tmp_path / "where"
    code = by_hand(SEEN.format(where=str(where)))
    machine.has(own={"command": sys.executable, "args": ["-c", code]})
    assert machine.run("mcp").returncode == 0
    ours = machine.home / "mcp"
    assert json.loads(where.read_text()) == [str(ours), str(machine.repo)]
    assert ours.stat().st_mode & 0o777 == 0o700
    machine.run("trust")
    assert machine.run("mcp").returncode == 0
    assert json.loads(where.read_text()) == [str(machine.repo), str(machine.repo)]


def test_a_session_starts_them_there_too(serve: Serve) -> None:  # noqa: F811
    stage = serve(Say.of("Hello."))
    where = stage.folder.parent / "where"
    own = {"command": sys.executable, "args": ["-c", by_hand(SEEN.format(where=str(where)))]}
    done = stage.run("-p", "hello", "--mcp-config", json.dumps({"mcpServers": {"own": own}}))
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(where.read_text()) == [str(stage.home / "mcp"), str(stage.folder)]


def test_a_folder_that_others_can_write_to_is_none_of_ours(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ground = Ground(str(tmp_path / "repo"), home=str(home))
    assert ground.folder() == f"{home}/mcp"
    (home / "mcp").chmod(0o770)
    with pytest.raises(UsageError, match="can be written by others"):
        ground.folder()
    (home / "mcp").rmdir()
    (home / "mcp").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="is no folder of ours"):
        ground.folder()
    assert Ground("/repo", home=None).folder() == "/"  # where nobody but the administrator writes
    assert Ground("/repo", home="/proc/none").folder() == "/"
    assert Ground("/repo", trusted=True, home=str(home)).folder() == "/repo"


def test_what_lies_in_a_working_folder() -> None:
    ground = Ground("/work/repo", folders=("/work/more",))
    env = {
        "PATH": "/usr/bin:/work/repo/bin:bin::/work/more:/work/repository/bin",
        "PYTHONPATH": "/work/repo/lib",
        "HOME": "/work/repo",
        "LANG": "C",
    }
    assert ground.safe(env) == {"PATH": "/usr/bin:/work/repository/bin", "HOME": "/work/repo", "LANG": "C"}
    assert Ground("/work/repo", trusted=True).safe(env) == env
    assert not Ground("/").is_theirs("/usr/bin/env")  # who works in '/' has only programs in it
