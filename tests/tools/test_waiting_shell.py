"""A shell that waits while the model writes the command: it does nothing before the decision, and is used only where it
is what would be started then (decision 0096)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from processes.traces import descriptors, until, with_word
from sandbox.walls import ENV, LINUX, Box, seen_folder

from mainspring.core.messages import Text
from mainspring.permissions.policy import PermissionPolicy
from mainspring.processes.children import Children
from mainspring.processes.process_tree import read_process
from mainspring.testing.world import FakeToolContext
from mainspring.tools import waiting_shell
from mainspring.tools.background import BackgroundCommands
from mainspring.tools.base import Tool
from mainspring.tools.bash import bash_tool
from mainspring.tools.shell import SandboxExclusions, walls_of

pytestmark = [LINUX, pytest.mark.needs("bwrap")]


@pytest.fixture
def base() -> Iterator[Path]:
    with seen_folder() as folder:
        yield folder


class Shells(FakeToolContext):
    """A Bash tool whose sandbox is real, and which counts the programs that are started for it."""

    def __init__(self, box: Box, **env: str) -> None:
        super().__init__(str(box.work))
        self.box, self.policy = box, PermissionPolicy()
        self.children = Children(around=box.sandbox.around, around_waiting=box.sandbox.around_waiting)
        self.tool = self.another(**env)

    def another(self, **env: str) -> Tool:
        walls = walls_of(SandboxExclusions(commands=("hostname:*",)))
        return bash_tool(self.children, BackgroundCommands(self.children), ENV | env, walls=walls)

    async def prepare(self) -> None:
        assert self.tool.prepare is not None
        self.tool.prepare(self.place)
        await until(lambda: self.children.waiting is not None)
        quiet = 0
        while quiet < 3:  # it sleeps whenever one looks: it has come to its gate
            quiet = quiet + 1 if len(waiting_in(self.box.base)) == 2 else 0
            await asyncio.sleep(0.01)

    async def bash(self, command: str, **more: Any) -> str:
        answer = await self.use(self.tool, command=command, **more)
        return "\n".join([block.text for block in answer.content if isinstance(block, Text)])


def waiting_in(base: Path) -> list[int]:
    """The sleeping bubblewraps of this folder: one outside, and one inside."""
    pids = with_word(str(base / "work"))
    found = [process for pid in pids if (process := read_process(pid)) is not None]
    return [process.pid for process in found if state_of(process.pid) == ("bwrap", "S")]


def state_of(pid: int) -> tuple[str, str]:
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").partition("(")[2].rpartition(") ")
    except OSError:
        return "", ""
    return name, rest[:1]


def play(box: Box, scene: Callable[[Shells], Awaitable[None]], **env: str) -> None:
    async def main() -> None:
        shells = Shells(box, **env)
        try:
            await scene(shells)
        finally:
            await shells.children.close()
        assert shells.children.waiting is None
        assert with_word(str(box.work)) == []

    before = descriptors()
    asyncio.run(main())
    box.sandbox.close()
    assert descriptors() == before
    assert [name for name in box.names() if name in (".mcp.json", ".claude", ".envrc")] == []


def test_none_starts_after_the_end_of_the_session(base: Path) -> None:
    """A reply may break off, and the session end, in the moment between the first word of a call and the start."""
    box = Box(base)

    async def main() -> Children:
        shells = Shells(box)
        assert shells.tool.prepare is not None
        shells.tool.prepare(shells.place)
        await shells.children.close()
        after = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(2 * waiting_shell.DELAY, after.set_result, None)
        await after  # the loop runs what was due before
        return shells.children

    before = descriptors()
    children = asyncio.run(main())
    left = children.waiting
    if left is not None:
        children.kill()
    box.sandbox.close()
    assert left is None
    assert descriptors() == before


LOOK = "pwd; echo $#; ls -la --time-style=+ . /run | grep -v total; ls /proc/self/fd /proc/$$/fd; exit 3"


def test_a_command_runs_in_it_as_in_a_fresh_one(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same result, from a program that was there before: none is started after the decision."""
    box = Box(base)
    started = list[object]()

    class Counting(subprocess.Popen[bytes]):
        def __init__(self, argv: Any, **more: Any) -> None:
            started.append(argv)
            super().__init__(argv, **more)

    async def scene(shells: Shells) -> None:
        fresh = await shells.bash(LOOK)
        await shells.bash("mkdir -p inner; cd inner")
        monkeypatch.setattr(subprocess, "Popen", Counting)
        await shells.prepare()
        assert len(started) == 1
        assert await shells.bash('cd .. ; printf \'%s\\n\' "a\'b" | cat; echo "$0"') == "a'b\nbash"
        assert len(started) == 1
        await shells.bash("rmdir inner")
        await shells.prepare()
        assert await shells.bash(LOOK) == fresh
        assert len(started) == 3  # `rmdir` had none that waited

    play(box, scene)


def test_nothing_happens_before_the_decision(base: Path) -> None:
    """No placeholder, no program in the sandbox, no file that a shell reads at its start; and then they do."""
    box = Box(base)
    profile = base / "work" / "profile"
    profile.write_text("echo was read; touch was-read\n")

    async def scene(shells: Shells) -> None:
        await shells.prepare()
        assert [state_of(pid)[0] for pid in with_word(str(box.work))] == ["bwrap", "bwrap"]
        assert box.names() == ["profile"]
        assert await shells.bash("echo hello") == "was read\nhello"
        assert box.names() == ["profile", "was-read"]

    play(box, scene, BASH_ENV=str(profile))


@pytest.mark.parametrize("command", ["git init -q .", "hostname", "true; git log"])
def test_a_command_with_another_profile_starts_afresh(base: Path, command: str) -> None:
    """And what waited is not in the way: `git init` needs to be alone in the folder."""
    box = Box(base)

    async def scene(shells: Shells) -> None:
        await shells.prepare()
        waited = set(waiting_in(base))
        await shells.bash(command)
        assert shells.children.waiting is None
        await until(lambda: not waited & {*with_word(str(box.work))})
        if "init" in command:
            assert (box.work / ".git" / "HEAD").exists()
            await shells.prepare()
            await shells.bash("git config user.name Me")  # it needs to be alone, too
            assert "name = Me" in (box.work / ".git" / "config").read_text()

    play(box, scene)


Change = Callable[[Path], object]


def replace_file(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text("secret: 2\n")
    new.rename(path)


def link_again(path: Path) -> None:
    """The same file, by the same name; but the mount over it is gone."""
    os.link(path, path.with_suffix(".link"))
    path.unlink()
    path.with_suffix(".link").rename(path)


def replace_folder(path: Path, name: str) -> None:
    path.rename(path.with_name("moved"))
    path.mkdir()
    (path / name).write_text("secret: 3")


CHANGES: dict[str, Change] = {
    "a protected file was created": lambda work: (work / ".mcp.json").write_text("{}"),
    "a repository was created": lambda work: subprocess.run(["git", "init", "-q", str(work)], check=True),
    "a denied file was replaced": lambda work: replace_file(work / "key.txt"),
    "a denied file was linked again": lambda work: link_again(work / "key.txt"),
    "a denied folder was replaced": lambda work: replace_folder(work / "keys", "key"),
    "the folder was replaced": lambda work: replace_folder(work, "key.txt"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_meanwhile_holds_for_the_command(base: Path, change: str) -> None:
    (base / "work" / "keys").mkdir(parents=True)
    (base / "work" / "keys" / "key").write_text("secret: 0")
    (base / "work" / "key.txt").write_text("secret: 1")
    box = Box(base, denied=(str(base / "work" / "key.txt"), str(base / "work" / "keys")))

    async def scene(shells: Shells) -> None:
        await shells.prepare()
        waited = set(waiting_in(base))
        CHANGES[change](box.work)
        said = await shells.bash("cat key.txt keys/*; echo x > .mcp.json; echo y >> .git/config; touch here; ls -A")
        assert "secret" not in said
        assert "here" in said
        await until(lambda: not waited & {*with_word(str(box.work))})
        assert (box.work / "here").exists()
        if "protected" in change:
            assert (box.work / ".mcp.json").read_text() == "{}"
            (box.work / ".mcp.json").unlink()
        if "repository" in change:
            assert "y" not in (box.work / ".git" / "config").read_text().splitlines()

    play(box, scene)


def test_other_rules_environments_and_folders_are_compared(base: Path) -> None:
    box = Box(base)
    (box.work / "inner").mkdir()
    policies = [PermissionPolicy()]

    def with_policy(job: Any) -> Any:
        return job._replace(built_from=(job.built_from, policies[-1]))

    async def scene(shells: Shells) -> None:
        await shells.prepare()
        waiting = shells.children.waiting
        assert waiting is not None
        tool = shells.tool
        job = waiting.child.job._replace(handed=b"true", gate=None, passed=())
        assert waiting.fits(job)
        built: Any = job.built_from
        for other in (
            built._replace(env={**built.env, "MORE": "1"}),
            built._replace(cwd=str(box.work / "inner")),
            built._replace(mounts=f"{built.mounts}\n1 2 3"),
            built._replace(files={**built.files, built.cwd: (0, 0)}),
            None,
        ):
            assert not waiting.fits(job._replace(built_from=other))
        assert not waiting.fits(job._replace(handed=b""))
        assert not waiting.fits(job._replace(limits=job.limits._replace(processes=9)))
        mine, waiting.child.job = waiting.child.job, with_policy(waiting.child.job)
        assert waiting.fits(with_policy(job))
        policies.append(replace(policies[0], root="/elsewhere"))
        assert not waiting.fits(with_policy(job))
        waiting.child.job = mine
        assert shells.tool is tool

    play(box, scene)


def test_there_is_one_for_a_session_and_not_for_ever(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(base)

    async def scene(shells: Shells) -> None:
        await shells.prepare()
        first = shells.children.waiting
        other = shells.another()
        assert other.prepare is not None
        for tool in (shells.tool, other):
            assert tool.prepare is not None
            tool.prepare(shells.place)
        await asyncio.sleep(3 * waiting_shell.DELAY)  # so long that a second one would have been started
        assert shells.children.waiting is first
        assert len(waiting_in(base)) == 2
        assert await shells.use(other, command="true")  # it needs one of its own, and leaves this
        assert shells.children.waiting is first
        assert await shells.bash("echo mine") == "mine"
        monkeypatch.setattr(waiting_shell, "PATIENCE", 0.01)
        assert shells.tool.prepare is not None
        shells.tool.prepare(shells.place)
        await asyncio.sleep(2 * waiting_shell.DELAY)
        await until(lambda: shells.children.waiting is None and not with_word(str(box.work)))
        assert await shells.bash("echo fresh") == "fresh"

    play(box, scene)


def test_one_that_was_killed_is_replaced_and_a_long_command_refused_as_ever(base: Path) -> None:
    box = Box(base)

    async def scene(shells: Shells) -> None:
        await shells.prepare()
        waiting = shells.children.waiting
        assert waiting is not None
        os.kill(waiting.child.pid, signal.SIGKILL)
        await waiting.child.exited.wait()
        assert await shells.bash("echo fresh") == "fresh"
        await shells.prepare()
        with pytest.raises(Exception, match="too long for this system"):
            await shells.bash(f"true {'x' * 140_000}")
        assert await shells.bash("echo fresh") == "fresh"

    play(box, scene)


AGENT = """
import asyncio, os, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from sandbox.walls import Box
from tools.test_waiting_shell import Shells
async def main():
    shells = Shells(Box(Path(sys.argv[1])))
    await shells.prepare()
    if not os.fork():
        os.execv("/bin/sleep", ["sleep", "0.1"])
    if (copy := os.fork()) == 0:
        while True:  # a copy of the agent that lives on
            __import__("time").sleep(1)
    print(copy, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def test_it_ends_with_us_also_when_we_are_killed(base: Path) -> None:
    """And leaves nothing, even if a copy of our process goes on."""
    tests = str(Path(__file__).parents[1])
    agent = subprocess.Popen([sys.executable, "-c", AGENT, str(base), tests], stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    copy = int(agent.stdout.readline())
    try:
        assert len(waiting_in(base)) == 2
        agent.kill()
        agent.wait()
        asyncio.run(until(lambda: with_word(str(base / "work")) == []))
        assert list((base / "work").iterdir()) == []
    finally:
        os.kill(copy, signal.SIGKILL)
        agent.stdout.close()
