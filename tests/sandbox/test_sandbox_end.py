"""The end of a command in the sandbox (security X2): it hears TERM, has its grace, and nothing is left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from processes.traces import descriptors, new_nap, until, with_word

from mainspring.processes.child import ProcessLimits, SandboxAccess
from mainspring.processes.children import GRACE, Children
from sandbox.walls import LINUX, Box, seen_folder

pytestmark = LINUX
BOTH = pytest.mark.parametrize("walls", [SandboxAccess.USUAL, SandboxAccess.GIT])


@pytest.fixture
def box() -> Iterator[Box]:
    with seen_folder() as base:
        box = Box(base)
        yield box
        box.sandbox.close()


@BOTH
def test_term_reaches_the_command_inside(box: Box, walls: SandboxAccess) -> None:
    """It does what it wanted to do at its end, and its own code gets through. The shell waits in `read`: a child that
    it waits for gets TERM, too, and if that one is first, the shell reports it, or ends with its code."""
    nap = new_nap()

    async def main() -> tuple[int, str]:
        children = Children(around=box.sandbox.around)
        trap = "trap 'echo asked; touch asked; exit 5' TERM"
        waits = "mkfifo pipe; exec 3<>pipe; rm pipe; touch started; read -u 3"
        child = children.start(box.job(f"{trap}; : {nap}; {waits}", walls))
        await until((box.work / "started").exists)
        await children.end(child)
        assert child.code is not None
        return child.code, child.stdout.text

    before = descriptors()
    assert asyncio.run(main()) == (5, "asked\n")
    assert box.names() == ["asked", "started"]
    assert with_word(nap) == []
    assert descriptors() == before + 2  # the guard's lock and its input, until the sandbox is closed


def test_a_deaf_command_is_ended_after_its_grace(box: Box) -> None:
    nap = new_nap()

    async def main() -> tuple[int, float]:
        children = Children(around=box.sandbox.around)
        child = children.start(
            box.job(f"trap '' TERM; (setsid sleep {nap} &); touch started; sleep {nap}; sleep {nap}")
        )
        await until((box.work / "started").exists)
        began = time.monotonic()
        await children.end(child)
        assert child.code is not None
        return child.code, time.monotonic() - began

    code, seconds = asyncio.run(main())
    assert code == -9
    assert GRACE <= seconds < GRACE + 10
    assert with_word(nap) == []


def test_a_limit_asks_first(box: Box) -> None:
    async def main() -> tuple[bool, str]:
        job = box.job("trap 'echo late; exit' TERM; sleep 100 & wait")._replace(limits=ProcessLimits(1.0))
        ended = await Children(around=box.sandbox.around).run(job)
        return ended.timed_out, ended.stdout.text

    assert asyncio.run(main()) == (True, "late\n")
