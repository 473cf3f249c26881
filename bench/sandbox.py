"""What the sandbox costs a command over the plain one, and whether our own size matters. It fails if an aim is missed.

The plain command, the sandboxed one and the one with a network take turns in one run, so that a slow moment of the
machine falls on all. The middle one of many differences counts (p50). `bench/README.md` says how to read the table.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from time import perf_counter

from mainspring.processes.child import Job
from mainspring.processes.children import Children
from mainspring.processes.probe_field import Around
from mainspring.processes.proxy_connect import Pass, Proxy
from mainspring.processes.proxy_namespace import Network
from mainspring.processes.sandbox import Rooms, Sandbox
from mainspring.processes.sandbox_probe import probe

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this folder's files would be found
from bench.figures import Figure, show

ROUNDS = 300
AIM = 8.0  # milliseconds over the plain command
LARGE = 400_000_000  # bytes that a fork would have to map
MORE = 1.0  # milliseconds that our size may add: what is left is noise


async def once(around: Around, folder: Path) -> float:
    """Milliseconds, from the decision to run it to its end."""
    start = perf_counter()
    job = Job(("/bin/bash", "--noprofile", "--norc", "-c", "true"), str(folder), {"PATH": "/usr/bin:/bin"})
    with around(job) as inner:
        ended = await Children().run(inner)
    assert ended.code == 0, ended.stdout.text
    return (perf_counter() - start) * 1_000


async def times(ways: dict[str, Around], folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, around in ways.items():
            found[name].append(await once(around, folder))
    return found


def over(found: dict[str, list[float]], name: str) -> float:
    return median(found[name]) - median(found["plain"])


async def figures(base: Path) -> list[Figure]:
    work = base / "work"
    for folder in (work / ".git/hooks", work / "src/deep", base / "temp", base / "state"):
        folder.mkdir(parents=True)
    for number in range(400):  # more than is looked into
        (work / f"src/deep/{number % 20}/{number}").mkdir(parents=True)
    answer = probe(str(base / "state"))
    if answer.program is None:
        sys.exit(f"there is no sandbox to measure: {answer.reason}")
    rooms = Rooms((str(work),), str(base / "temp"), str(base / "state"))
    async with Network(Proxy(Pass)) as way:
        closed, open_ = Sandbox(answer.program, rooms), Sandbox(answer.program, rooms, way=way)
        ways: dict[str, Around] = {"plain": nullcontext, "sandbox": closed.around, "with a network": open_.around}
        small = await times(ways, work)
        ballast = bytearray(os.urandom(4_096)) * (LARGE // 4_096)
        large = await times(ways, work)
        assert len(ballast) > LARGE - 4_096
        closed.close()
        open_.close()
    return [
        Figure("plain command, p50", median(small["plain"]), "ms"),
        Figure("sandbox over it, p50", over(small, "sandbox"), "ms", AIM),
        Figure("sandbox with a network over it, p50", over(small, "with a network"), "ms", AIM),
        Figure("sandbox over it, least", min(small["sandbox"]) - min(small["plain"]), "ms"),
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
