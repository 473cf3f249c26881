"""What is told of a command is told of that one, whatever runs beside it; and what is told of walls that fell."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes.traces import until

from mainspring.agent.sandbox import SandboxConfig, SessionSandbox
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker
from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.children import Children
from mainspring.settings.values import SandboxOptions as Wanted
from sandbox.test_sandbox_git import NAMES, TREE, git
from sandbox.walls import ENV, LINUX, Box, seen_folder

pytestmark = LINUX
WAITS = "touch {0}; until [ -e go-{0} ]; do sleep 0.01; done; "
EVIL = f"({TREE} echo ../../../evil > commondir)"  # a worktree that leads elsewhere


@pytest.fixture
def box() -> Iterator[Box]:
    with seen_folder() as base:
        box = Box(base, env=NAMES)
        git(box.work, "init", "-q", "-b", "main", ".")
        yield box
        box.sandbox.close()


def test_notes_of_commands_that_run_beside_each_other(box: Box) -> None:
    async def main() -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
        children = Children(around=box.sandbox.around)
        quiet = asyncio.create_task(children.run(box.job(WAITS.format("quiet"))))
        loud = asyncio.create_task(children.run(box.job(WAITS.format("loud") + EVIL, SandboxAccess.GIT)))
        for name in ("quiet", "loud"):
            await until((box.work / name).exists)
        (box.work / "go-loud").touch()
        said = (await loud).notes
        later = (await children.run(box.job("true"))).notes
        (box.work / "go-quiet").touch()
        return [(await quiet).notes, later], said

    others, said = asyncio.run(main())
    assert others == [(), ()]
    assert [".git/worktrees/t' is a new worktree" in note for note in said] == [True]


def test_a_session_tells_each_call_its_own(box: Box) -> None:
    """As `Bash` asks, when a command has ended: those of this one, and only what is new."""
    gate = PermissionChecker((), folders=(str(box.work),))
    sandboxing = SessionSandbox(
        SandboxConfig(
            Wanted(),
            (str(box.work),),
            str(box.base / "state"),
            os.environ["PATH"],
            policy=lambda: gate.policy(EnginePolicy()),
            unreadable=lambda: ((), True),
        )
    )

    async def call(children: Children, name: str, command: str, walls: SandboxAccess) -> tuple[str, ...]:
        argv = ("/bin/bash", "-c", WAITS.format(name) + command)
        ended = await children.run(ProcessSpec(argv, str(box.work), ENV | NAMES, walls=walls))
        return sandboxing.notes(ended.notes)

    async def main() -> list[tuple[str, ...]]:
        children = Children(around=sandboxing.around)
        calls = [
            asyncio.create_task(call(children, "quiet", "true", SandboxAccess.USUAL)),
            asyncio.create_task(call(children, "loud", EVIL, SandboxAccess.GIT)),
            asyncio.create_task(call(children, "last", "true", SandboxAccess.USUAL)),
        ]
        found: list[tuple[str, ...]] = []
        for name in ("quiet", "loud", "last"):
            await until((box.work / name).exists)
        for name, task in (("last", calls[2]), ("loud", calls[1]), ("quiet", calls[0])):
            (box.work / f"go-{name}").touch()
            found.append(await task)
        await sandboxing.close()
        return found

    last, loud, quiet = asyncio.run(main())
    assert (last, len(loud), quiet) == ((), 1, ())
    assert "is a new worktree" in loud[0]


# --- walls that fell ----------------------------------------------------------------------------------------------


def replace(path: Path, text: str) -> None:
    """As editors and git do it."""
    new = path.with_name("replacing")
    new.write_text(text)
    new.rename(path)


@pytest.mark.parametrize(
    ("place", "walls"),
    [(".mcp.json", SandboxAccess.USUAL), (".git/config", SandboxAccess.GIT)],
    ids=["a file", "a configuration"],
)
def test_what_is_replaced_from_outside_is_told(box: Box, place: str, walls: SandboxAccess) -> None:
    """The kernel takes a mount away, in all namespaces, with the file that it is on."""
    path = box.work / place
    path.write_text("[core]\n\trepositoryformatversion = 0\n")

    async def main(*, replaced: bool) -> tuple[int, tuple[str, ...]]:
        children = Children(around=box.sandbox.around)
        names = [box.work / "a", box.work / "go-a"]
        task = asyncio.create_task(children.run(box.job(WAITS.format("a") + f"echo >> {place}", walls)))
        await until(names[0].exists)
        if replaced:
            replace(path, path.read_text())
        names[1].touch()
        ended = await task
        for name in names:
            name.unlink()
        return ended.code, ended.notes

    assert asyncio.run(main(replaced=False)) == (1, ())
    code, notes = asyncio.run(main(replaced=True))
    assert code == 0  # it could: nothing that we know of keeps it from that
    assert [note.partition(" while")[0] for note in notes] == [f"'{path}' was replaced from outside"]


def test_a_held_place_that_somebody_removes_is_told(box: Box) -> None:
    """`git clean -d` outside removes empty folders, ours too."""
    path = box.work / ".mcp.json"

    async def main() -> tuple[str, ...]:
        children = Children(around=box.sandbox.around)
        task = asyncio.create_task(children.run(box.job(WAITS.format("a") + "echo x > .mcp.json")))
        await until((box.work / "a").exists)
        path.rmdir()
        (box.work / "go-a").touch()
        return (await task).notes

    (note,) = asyncio.run(main())
    assert note.startswith(f"'{path}' was replaced from outside")
