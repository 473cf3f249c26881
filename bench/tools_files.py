"""What the file tools cost, compared with bare ripgrep and with their targets. It fails when a target is missed.

Ratios are of best times within one run, measured alternately. The tree has 3,000 files in 150 directories, the big file
100 MB in lines of 82 bytes. `bench/README.md` explains the table.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any

from mainspring.testing.world import FakeToolContext
from mainspring.tools import _newlines, read_lines
from mainspring.tools.base import ToolAnswer
from mainspring.tools.edit import EDIT
from mainspring.tools.glob import GLOB
from mainspring.tools.grep import GREP
from mainspring.tools.read import READ
from mainspring.tools.read_lines import SETTLED
from mainspring.tools.search_child import find_ripgrep

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench.figures import Figure, best_speed, import_figures, scaled, show

MODULES = ("read", "write", "edit", "notebook", "glob", "grep")
FILES, FOLDERS = 3_000, 150
LINE = b"x" * 70 + b" some words\n"
BIG = 100_000_000  # bytes
SEARCHES = 30
COLD = 40  # reads of an unknown file
TURNS, COMMANDS = 50, 5
NEWEST = ("--files", "--sortr=modified")  # the same job: Glob shows the newest first
SLACK = 5.0  # milliseconds that a search may take in addition

Work = Callable[[], Awaitable[object]]


def make_tree(root: Path) -> None:
    body = "import os\n\n\ndef work(value):\n    total = value + 1\n    return total\n" * 30
    for number in range(FILES):
        folder = root / f"part{number % FOLDERS // 10}" / f"sub{number % FOLDERS}"
        folder.mkdir(parents=True, exist_ok=True)
        needle = "NEEDLE = 1\n" if number % 100 == 0 else ""
        (folder / f"file{number}.{'py' if number % 3 else 'txt'}").write_text(body + needle)
    (root / ".gitignore").write_text("*.log\nbuild/\n")


def make_big(file: Path) -> None:
    with file.open("wb") as out:
        for _ in range(BIG // len(LINE) // 1_000):
            out.write(LINE * 1_000)
        out.flush()
        os.fsync(out.fileno())  # or the kernel writes it to the disk while it is read, and uses a processor for that


async def best_of(works: dict[str, Work], repeats: int) -> dict[str, float]:
    """In milliseconds, alternately."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            start = perf_counter_ns()
            await work()
            best[name] = min(best[name], (perf_counter_ns() - start) / 1_000_000)
    return best


# --- searches -----------------------------------------------------------------------------------------------


def bare(root: Path, *arguments: str) -> Work:
    """ripgrep as a shell would start it, its output read and dropped."""
    program = find_ripgrep(FakeToolContext(str(root)).place)
    assert program is not None, "there is no ripgrep: install the development packages"

    async def work() -> None:
        command = [program, "--no-config", "--hidden", *arguments]
        subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True)  # noqa: ASYNC221  # nothing else runs

    return work


def ours(root: Path, tool: Any, **input: Any) -> Work:
    calling = FakeToolContext(str(root))

    async def work() -> ToolAnswer:
        return await calling.use(tool, **input)

    return work


async def search_figures(root: Path) -> list[Figure]:
    pairs: dict[str, tuple[Work, Work]] = {
        "Grep, names": (bare(root, "-l", "NEEDLE", "./"), ours(root, GREP, pattern="NEEDLE")),
        "Grep, lines": (
            bare(root, "-n", "NEEDLE", "./"),
            ours(root, GREP, pattern="NEEDLE", output_mode="content"),
        ),
        "Grep, many lines": (
            bare(root, "-n", "def work", "./"),
            ours(root, GREP, pattern="def work", output_mode="content"),
        ),
        "Grep, count": (bare(root, "-c", "total", "./"), ours(root, GREP, pattern="total", output_mode="count")),
        "Glob, some": (bare(root, *NEWEST, "-g", "file1*.py"), ours(root, GLOB, pattern="file1*.py")),
        "Glob, most": (bare(root, *NEWEST, "-g", "**/*.py"), ours(root, GLOB, pattern="**/*.py")),
    }
    unsorted = await best_of({"": bare(root, "--files", "-g", "**/*.py")}, SEARCHES)
    figures = [Figure("Glob, most: bare ripgrep, in no order", unsorted[""], "ms")]
    for name, (theirs, our) in pairs.items():
        best = await best_of({"bare": theirs, "ours": our}, SEARCHES)
        figures.append(Figure(f"{name}: bare ripgrep", best["bare"], "ms"))
        figures.append(Figure(f"{name}: ours", best["ours"], "ms", best["bare"] * 1.3 + SLACK))
    return figures


# --- reads --------------------------------------------------------------------------------------------------


async def read_figures(root: Path, big: Path) -> list[Figure]:
    count = BIG // len(LINE) // 1_000 * 1_000
    at = iter(range(count // 4, count, 997))

    def middle(calling: FakeToolContext) -> Work:
        return lambda: calling.use(READ, file_path=str(big), offset=next(at), limit=100)

    cold, head, lag = [], [], []
    for _ in range(COLD):
        forget()
        cold.append(
            await timed(lambda: FakeToolContext(str(root)).use(READ, file_path=str(big), offset=count // 2, limit=100))
        )
        await longest_wait(counting_now)  # for the rest
        forget()
        calling = FakeToolContext(str(root))
        head.append(await timed(lambda calling=calling: calling.use(READ, file_path=str(big))))  # type: ignore[misc]
        lag.append(await longest_wait(counting_now))
    counted = await bare_counts(big)
    best = await best_of({"middle": middle(calling)}, 200)
    tracemalloc.start()
    await middle(calling)()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    copied = await best_of({"counting": counting(big), "reading": reading(big)}, 5)
    return [
        Figure("100 MB: the middle, with nothing known: reads half", min(cold), "ms", 5),
        Figure("100 MB: the same, the median", sorted(cold)[COLD // 2], "ms"),
        Figure("100 MB: half of it counted by two bare threads, after a rest", min(counted), "ms"),
        Figure("100 MB: the same, the median", sorted(counted)[COLD // 2], "ms"),
        Figure("100 MB: to read half of it and count nothing", copied["reading"], "ms"),
        Figure("100 MB: 'wc -l', for comparison", copied["counting"], "ms"),
        Figure("100 MB: its beginning, with nothing known", min(head), "ms", 5),
        Figure("100 MB: longest wait of the loop while it is counted", min(lag), "ms"),
        Figure("100 MB: a window anywhere, after that", best["middle"], "ms", 5),
        Figure("100 MB: memory for that window", peak / 1_000_000, "MB", 2),
        *await ten_reads(root),
    ]


async def bare_counts(big: Path) -> list[float]:
    """What the machine can do: native code, two threads, each half of the half. With a pause before each, as before a
    real read: processors that were idle start slowly."""
    fd, blocks, times = os.open(big, os.O_RDONLY), BIG // 4 // read_lines.BLOCK, list[float]()

    def count(start: int) -> None:
        _newlines.count(fd, start, blocks, read_lines.BLOCK)

    for _ in range(COLD):
        await asyncio.sleep(0.01)
        start = perf_counter_ns()
        second = threading.Thread(target=count, args=(blocks * read_lines.BLOCK,))
        second.start()
        count(0)
        second.join()
        times.append((perf_counter_ns() - start) / 1_000_000)
    os.close(fd)
    return times


async def timed(work: Work) -> float:
    """In milliseconds."""
    start = perf_counter_ns()
    await work()
    return (perf_counter_ns() - start) / 1_000_000


def forget() -> None:
    """Forget everything about the file, as in a new process."""
    read_lines._kept.clear()  # noqa: SLF001  # no tool needs a way to forget


def counting_now() -> bool:
    return any(thread.name == "count-lines" for thread in threading.enumerate())


async def longest_wait(goes_on: Callable[[], bool]) -> float:
    """How late the event loop handles what is due, in milliseconds."""
    longest = 0.0
    while goes_on():
        start = perf_counter_ns()
        await asyncio.sleep(0.001)
        longest = max(longest, (perf_counter_ns() - start) / 1_000_000 - 1)
    return longest


def reading(big: Path) -> Work:
    async def work() -> None:
        fd = os.open(big, os.O_RDONLY)
        for start in range(0, BIG // 2, read_lines.BLOCK):
            os.pread(fd, read_lines.BLOCK, start)
        os.close(fd)

    return work


def counting(big: Path) -> Work:
    async def work() -> None:
        command = ["wc", "-l", str(big)]
        subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: ASYNC221  # nothing else runs

    return work


async def ten_reads(root: Path) -> list[Figure]:
    names = [str(root / f"part{number // 10}" / f"sub{number}" / f"file{number}.txt") for number in range(0, 30, 3)]

    async def reads() -> None:
        calling = FakeToolContext(str(root))
        await asyncio.gather(*[calling.use(READ, file_path=name) for name in names])

    best = await best_of({"ten": reads}, 200)
    return [Figure("ten Reads of 180 lines at once", best["ten"], "ms", 5)]


# --- edits --------------------------------------------------------------------------------------------------


async def edit_figures(root: Path) -> list[Figure]:
    file = root / "edited.py"
    file.write_text("value = 1\n" * 500 + "unique = 0\n" + "value = 2\n" * 500)
    calling = FakeToolContext(str(root))
    await calling.use(READ, file_path=str(file))
    count = iter(range(10_000))

    async def edit() -> ToolAnswer:
        number = next(count)
        old, new = f"unique = {number}\n", f"unique = {number + 1}\n"
        return await calling.use(EDIT, file_path=str(file), old_string=old, new_string=new)

    async def synced() -> None:
        fd = os.open(root / "synced", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"x" * 10_000)
        os.fsync(fd)
        os.close(fd)

    best = await best_of({"edit": edit, "sync": synced}, 50)
    return [
        Figure("a write and its sync alone", best["sync"], "ms"),
        Figure("Edit in 1,000 lines, over that", best["edit"] - best["sync"], "ms", 10),
    ]


def figures(root: Path, big: Path) -> Iterator[Figure]:
    speed = best_speed()
    yield Figure("yardstick", speed, "us")
    yield from import_figures(
        "asyncio, mainspring.tools.base", "mainspring.tools." + ", mainspring.tools.".join(MODULES)
    )
    yield from asyncio.run(search_figures(root))
    for figure in asyncio.run(read_figures(root, big)):
        yield figure if figure.aim is None or figure.unit != "ms" else figure._replace(aim=scaled(figure.aim, speed))
    yield from asyncio.run(edit_figures(root))


def main() -> None:
    with TemporaryDirectory() as name:
        root, big = Path(name).resolve() / "tree", Path(name).resolve() / "big.log"
        make_tree(root)
        make_big(big)
        while time.time_ns() - big.stat().st_ctime_ns <= SETTLED:
            time.sleep(0.1)  # the index of a file that changed just now is not kept
        if not show(figures(root, big)):
            sys.exit(1)


if __name__ == "__main__":
    main()
