"""The user's own servers in a folder that nobody trusts: nothing of the folder runs (security T1)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import serve  # noqa: F401  # a fixture
from cli.nursery import begun
from cli.stage import Serve

from mainspring.core.errors import UsageError
from mainspring.mcp.server_process import ServerDirectory
from mainspring.simulator.replies import Say
from mcp_servers.by_hand import by_hand

SEEN = "open({where!r}, 'w').write(json.dumps([os.getcwd(), os.environ['CLAUDE_PROJECT_DIR']]))\nserve()"


class Machine:
    """A user with settings of their own, and a repository that somebody else wrote."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.repo, self.home, self.bin = base / "repo", base / "home", base / "bin"
        for folder in (self.repo, self.home, self.bin):
            folder.mkdir()

    def sprung(self) -> set[str]:
        return {trace.suffix[1:] for trace in self.base.glob("sprung.*")}

    def trap(self, name: str) -> Path:
        """A program in the repository that leaves a trace when it runs."""
        place = self.repo / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"#!/bin/sh\n: > '{self.base}/sprung.{place.name}'\n")
        place.chmod(0o755)
        return place

    def module(self, name: str) -> None:
        place = self.repo / f"{name}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"open({f'{self.base}/sprung.{place.stem}'!r}, 'w').close()\n")

    def script(self, name: str) -> str:
        """One of the user's, such as npx, that is run by the first such program on PATH: a trap."""
        place = self.bin / f"outside_{name}"
        place.write_text(f"#!/usr/bin/env {self.trap(f'tools/{name}').name}\n")
        place.chmod(0o755)
        return str(place)

    def link(self, name: str) -> str:
        place = self.bin / name
        place.symlink_to(self.trap(f"deep/{name}"))
        return str(place)

    def has(self, **servers: dict[str, Any]) -> None:
        (self.home / "settings.json").write_text(json.dumps({"mcpServers": servers}))

    def run(self, *words: str, path: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "CLAUDE"))}
        own = {"MAINSPRING_HOME": str(self.home), "PATH": f"{path}{os.environ['PATH']}"}
        return subprocess.run(
            begun("mainspring", *words),
            capture_output=True,
            text=True,
            cwd=self.repo,
            env={**kept, **own, **env},
            timeout=60,
            check=False,
        )


def ways(machine: Machine) -> dict[str, dict[str, Any]]:
    """By which code of a repository could get to run. Each has a trap of its own name."""
    for name in ("relative", "whole", "round", "on_path"):
        machine.trap(f"tools/{name}")
    machine.module("beside")
    machine.module("lib/on_pythonpath")
    repo, python = str(machine.repo), sys.executable
    machine.link("link_on_path")
    return {
        "beside": {"command": python, "args": ["-m", "beside"]},
        "on_pythonpath": {"command": python, "args": ["-m", "on_pythonpath"]},
        "relative": {"command": "./tools/relative"},
        "whole": {"command": f"{repo}/tools/whole"},
        "round": {"command": f"{repo}/tools/../../repo/tools/round"},
        "link": {"command": machine.link("link")},
        "on_path": {"command": "on_path"},
        "link_on_path": {"command": "link_on_path"},
        "looked_for": {"command": machine.script("looked_for")},
        "own_path": {"command": machine.script("own_path"), "env": {"PATH": f"{repo}/tools:/usr/bin:/bin"}},
    }


# Here the program itself is not the repository's: it is started, elsewhere, and finds nothing.
STARTED = {"beside", "on_pythonpath", "looked_for", "own_path"}


@pytest.mark.covers("N-09")
def test_nothing_of_the_folder_runs(tmp_path: Path) -> None:
    """Where it is trusted, everything does: each of the traps is one. All in one run: to start it takes a second."""
    machine = Machine(tmp_path)
    servers = ways(machine)
    machine.has(**servers)
    path = f"{machine.repo}/tools:{machine.bin}:"
    done = machine.run("mcp", path=path, PYTHONPATH=f"{machine.repo}/lib")
    assert machine.sprung() == set()
    told = dict(line.split(": failed: ") for line in done.stdout.splitlines())
    assert told.keys() == servers.keys()
    for name, why in told.items():
        assert "run 'mainspring trust' to trust it" in why
        assert ("it was started in" in why) is (name in STARTED)
    assert machine.run("trust").returncode == 0
    machine.run("mcp", path=path, PYTHONPATH=f"{machine.repo}/lib")
    assert machine.sprung() == servers.keys()


def test_a_relative_path_in_args_counts_from_where_the_server_starts(tmp_path: Path) -> None:
    """So it is never the repository's, until that is trusted; and who meant that is told so."""
    machine = Machine(tmp_path)
    machine.module("server")
    machine.module("deep/tool")
    python = sys.executable
    machine.has(
        bare={"command": python, "args": ["server.py"]},
        dotted={"command": python, "args": ["-I", "./deep/tool.py"]},
        above={"command": python, "args": [f"../{machine.repo.name}/server.py"]},
        other={"command": python, "args": ["nowhere.py"]},
    )
    told = dict(line.split(": failed: ") for line in machine.run("mcp").stdout.splitlines())
    assert machine.sprung() == set()
    way_out = "is looked up there, not in the working folder: trust that folder, or give the full path"
    assert f"; 'server.py' in 'args' {way_out}" in told["bare"]
    assert f"; './deep/tool.py' in 'args' {way_out}" in told["dotted"]
    assert f"; '../{machine.repo.name}/server.py' in 'args' {way_out}" in told["above"]
    assert "'args'" not in told["other"]
    assert machine.run("trust").returncode == 0
    machine.run("mcp")
    assert machine.sprung() == {"server", "tool"}


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
    ground = ServerDirectory(str(tmp_path / "repo"), home=str(home))
    assert ground.folder() == f"{home}/mcp"
    (home / "mcp").chmod(0o770)
    with pytest.raises(UsageError, match="can be written by other users"):
        ground.folder()
    (home / "mcp").rmdir()
    (home / "mcp").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="is not a folder that you own"):
        ground.folder()
    assert ServerDirectory("/repo", home=None).folder() == "/"  # where nobody but the administrator writes
    assert ServerDirectory("/repo", home="/proc/none").folder() == "/"
    assert ServerDirectory("/repo", trusted=True, home=str(home)).folder() == "/repo"


def test_what_lies_in_a_working_folder() -> None:
    ground = ServerDirectory("/work/repo", folders=("/work/more",))
    env = {
        "PATH": "/usr/bin:/work/repo/bin:bin::/work/more:/work/repository/bin",
        "PYTHONPATH": "/work/repo/lib",
        "HOME": "/work/repo",
        "LANG": "C",
    }
    assert ground.safe(env) == {"PATH": "/usr/bin:/work/repository/bin", "HOME": "/work/repo", "LANG": "C"}
    assert ServerDirectory("/work/repo", trusted=True).safe(env) == env
    assert not ServerDirectory("/").is_theirs("/usr/bin/env")  # who works in '/' has only programs in it
