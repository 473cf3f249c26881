"""What the sandbox costs a command over the plain one, and whether our own size matters. It fails if a target is
missed.

The plain command and the sandboxed ones (closed, with a network, with the git profile, with Landlock) alternate in one
run, so that a slow moment of the machine affects all. The median of many differences counts (p50). `bench/README.md`
explains the table.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.children import Around, AroundWaiting, Children
from mainspring.processes.process_tree import new_mark
from mainspring.sandbox.landlock import LandlockSandbox
from mainspring.sandbox.proxy import AllowedHost, ProxyNetwork, SandboxProxy
from mainspring.sandbox.sandbox import Sandbox, SandboxLayout, probe_sandbox
from mainspring.tools.shell import answer_pair, waiting_bash_arguments
from mainspring.tools.waiting_shell import close_pair

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import Figure, show

BLOCKS = 15  # small and large alternate, too
ROUNDS = 20  # of each in a block
AIM = 8.0  # milliseconds over the plain command
WAITED = 1.0  # the same, if it was started while the model wrote the command
LARGE = 400_000_000  # bytes that a fork would have to map
MORE = 1.0  # milliseconds that our size may add: the rest is noise


WRITING = 0.05  # seconds in which a model writes a short command: ten tokens of 200 a second


class Kind(NamedTuple):
    around: Around | None
    walls: SandboxAccess = SandboxAccess.USUAL
    around_waiting: AroundWaiting | None = None


async def once(kind: Kind, folder: Path) -> float:
    """Milliseconds, from the decision to run it to its end."""
    children = Children(around=kind.around, around_waiting=kind.around_waiting)
    argv = ("/bin/bash", "--noprofile", "--norc", "-c", "true")
    job = ProcessSpec(argv, str(folder), {"PATH": "/usr/bin:/bin"}, merged=True, walls=kind.walls)
    waiting = None
    if kind.around_waiting is not None:
        answer, mark, command = answer_pair(), new_mark(), os.memfd_create("command")
        words = waiting_bash_arguments(command, mark, answer[1])
        early = job._replace(argv=("/bin/bash", *words), passed=(answer[1], command), mark=mark)
        waiting = children.start_waiting(early, command, 60.0)
        assert waiting is not None
        waiting.unused = lambda: None
        await asyncio.sleep(WRITING)
    start = perf_counter()
    child = children.start(job._replace(handed=b"true" if waiting else b""), waiting)
    ended = await children.finish(child)
    assert ended.code == 0, ended.stdout.text
    assert waiting is None or child is waiting.child
    if waiting is not None:
        close_pair(answer)
    return (perf_counter() - start) * 1_000


Times = dict[str, list[float]]


async def block(ways: dict[str, Kind], folder: Path, found: Times) -> None:
    for _ in range(ROUNDS):
        for name, kind in ways.items():
            found.setdefault(name, []).append(await once(kind, folder))


async def times(ways: dict[str, Kind], folder: Path) -> tuple[Times, Times]:
    """As we are, and with much memory."""
    small: Times = {}
    large: Times = {}
    for _ in range(BLOCKS):
        await block(ways, folder, small)
        ballast = bytearray(os.urandom(4_096)) * (LARGE // 4_096)
        await block(ways, folder, large)
        assert len(ballast) > LARGE - 4_096
        del ballast
    return small, large


def over(found: Times, name: str) -> float:
    return median(found[name]) - median(found["plain"])


async def figures(base: Path) -> list[Figure]:
    work = base / "work"
    for folder in (work / "src/deep", base / "temp", base / "state"):
        folder.mkdir(parents=True)
    subprocess.run(["/usr/bin/git", "init", "-q", str(work)], check=True)  # noqa: ASYNC221  # nothing else is going on
    for number in range(400):  # more than the sandbox examines
        (work / f"src/deep/{number % 20}/{number}").mkdir(parents=True)
    answer = probe_sandbox(str(base / "state"))
    if answer.program is None:
        sys.exit(f"there is no sandbox to measure: {answer.reason}")
    rooms = SandboxLayout((str(work),), str(base / "temp"), str(base / "state"))
    async with ProxyNetwork(SandboxProxy(AllowedHost)) as way:
        closed, open_ = Sandbox(answer.program, rooms), Sandbox(answer.program, rooms, way=way)
        low = LandlockSandbox(sys.executable, rooms)
        ways = {
            "plain": Kind(None),
            "sandbox": Kind(closed.around),
            "waiting": Kind(closed.around, around_waiting=closed.around_waiting),
            "with a network": Kind(open_.around),
            "git": Kind(closed.around, SandboxAccess.GIT),
            "landlock": Kind(low.around),
        }
        small, large = await times(ways, work)
        closed.close()
        open_.close()
    return [
        Figure("plain command, p50", median(small["plain"]), "ms"),
        Figure("sandbox over it, p50", over(small, "sandbox"), "ms", AIM),
        Figure("sandbox that waited over it, p50", over(small, "waiting"), "ms"),
        Figure("sandbox that waited over it, least", min(small["waiting"]) - min(small["plain"]), "ms", WAITED),
        Figure("sandbox with a network over it, p50", over(small, "with a network"), "ms", AIM),
        Figure("git room over it, p50", over(small, "git"), "ms"),
        Figure("landlock over it, p50", over(small, "landlock"), "ms"),
        Figure("sandbox over it, least", min(small["sandbox"]) - min(small["plain"]), "ms"),
        Figure("git room over it, least", min(small["git"]) - min(small["plain"]), "ms"),
        Figure("landlock over it, least", min(small["landlock"]) - min(small["plain"]), "ms"),
        Figure("sandbox over it at 400 MB, p50", over(large, "sandbox"), "ms", AIM),
        Figure("what 400 MB add, p50", over(large, "sandbox") - over(small, "sandbox"), "ms", MORE),
    ]


def main() -> bool:
    homes = [folder for folder in ("/srv", str(Path.home())) if os.access(folder, os.W_OK)]
    base = Path(tempfile.mkdtemp(prefix="mainspring-bench-", dir=homes[0]))
    try:
        return show(asyncio.run(figures(base)))
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
