"""What a turn costs at different lengths of the history, in instructions: they hardly move on a busy machine."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from tempfile import mkdtemp

from programs import need

from wire.quick_server import QuickServer

TURNS = 10  # in each window
SCRIPT = Path(__file__).parent / "turns.py"


async def counted(
    names: list[str], sizes: tuple[int, ...], folder: Path, root: Path | None = None
) -> dict[str, list[int]]:
    """By the name of each play: instructions of a turn behind a history of each size. `root`: another checkout."""
    valgrind, script = need("valgrind"), SCRIPT if root is None else root / "tests/wire/turns.py"
    paths = [script.parents[1], *([root / "src"] if root is not None else [])]
    folder = Path(mkdtemp(dir=folder))
    out = folder / "counts"
    async with QuickServer() as server:
        process = await asyncio.create_subprocess_exec(
            *(valgrind, "--tool=callgrind", f"--callgrind-out-file={out}", "--dump-before=getppid", sys.executable),
            *(str(script), server.url, str(folder), ",".join(map(str, sizes)), str(TURNS), *names),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(map(str, paths))},
        )
        try:
            _, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, err.decode()[-4_000:]
    return by_name(names, len(sizes), out)


def by_name(names: list[str], sizes: int, out: Path) -> dict[str, list[int]]:
    """A count is written at each mark, so every second one is that of a window."""
    found: list[int] = []
    for number in range(2, 2 * len(names) * sizes + 1, 2):
        total = re.search(r"^totals: (\d+)", Path(f"{out}.{number}").read_text(encoding="utf-8"), re.MULTILINE)
        assert total is not None
        found.append(int(total[1]) // TURNS)
    assert not Path(f"{out}.{2 * len(names) * sizes + 1}").exists()
    return {name: found[sizes * n : sizes * (n + 1)] for n, name in enumerate(names)}


def growth(counts: list[int]) -> float:
    return round(counts[-1] / counts[0], 3)


async def memory_left(kind: str, first: int, last: int, folder: Path) -> tuple[int, int]:
    """Bytes that one session took between two of its prompts: as traced, and as resident."""
    async with QuickServer() as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(SCRIPT.parent / "memory.py"), server.url, str(folder), kind, str(first), str(last)),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SCRIPT.parents[1])},
        )
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, err.decode()[-4_000:]
    traced, resident = out.split()
    return int(traced), int(resident)
