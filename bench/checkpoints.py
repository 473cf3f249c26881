"""What file checkpoints cost: CPU of the thread, bytes on disk, and the time until the first request is sent.

    .venv/bin/python bench/checkpoints.py [FILES ...]     # 10,000 files by default; 100000 for a large repository
    .venv/bin/python bench/checkpoints.py --bytes 1000000000   # a repository of so many bytes, in files of 100 KB

CPU time of the thread (`time.thread_time`) is hardly affected by other programs. The last row has the CPU of the event
loop until a request is handed to the transport, with checkpoints and without: the thread begins after that.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from mainspring.agent.checkpoints import FileCheckpoints, RewindPermissions
from mainspring.checkpoints.history import FileHistory
from mainspring.core.messages import Text, User
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker

ID = "11111111-2222-4333-8444-555555555555"
WORDS = ("def", "class", "return", "import", "value", "name", "self", "path", "file", "None", "while", "with")


def make_workspace(folder: Path, files: int, size: int) -> None:
    """Like source code: words, in folders of fifty files."""
    chance = Random(1)
    for number in range(files):
        place = folder / f"d{number // 2_500}" / f"d{number // 50 % 50}"
        if number % 50 == 0:
            place.mkdir(parents=True, exist_ok=True)
        text = f"# {number}\n" + " ".join(chance.choices(WORDS, k=min(size, 4_000) // 5))
        data = text.encode() + os.urandom(max(0, size - 4_000) // 4) + b"x" * (max(0, size - 4_000) * 3 // 4)
        (place / f"f{number}.py").write_bytes(data)
        os.utime(place / f"f{number}.py", (1_700_000_000,) * 2)


def thread_ms(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return (time.thread_time() - begin) * 1_000


def disk(folder: Path) -> int:
    return sum([one.stat().st_blocks * 512 for one in folder.rglob("*") if one.is_file()])


def measure(files: int, size: int) -> None:
    base = Path(tempfile.mkdtemp(prefix="mainspring-bench-"))
    work = base / "work"
    try:
        make_workspace(work, files, size)
        total = sum([one.stat().st_size for one in work.rglob("*") if one.is_file()])
        print(f"{files:,} files, {total:,} bytes")
        history = FileHistory(str(base / "home" / "projects" / "p" / f"{ID}.jsonl"))
        roots = (str(work),)
        first = thread_ms(lambda: history.take(roots, "prompt", 1, prompt="p0"))
        store = base / "home" / "file-history" / ID
        print(f"  first checkpoint            {first:>10,.0f} ms CPU   {disk(store):>14,} bytes on disk")
        history.take(roots, "prompt", 1, prompt="p")  # the times of all files are old now
        nothing = min([thread_ms(lambda: history.take(roots, "prompt", 2, prompt="q")) for _ in range(5)])
        print(f"  nothing changed             {nothing:>10,.1f} ms CPU")
        some = sorted(work.rglob("*.py"))[:: max(1, files // 10)][:10]
        costs: list[float] = []
        before = disk(store)
        for number in range(100):
            for file in some:
                with file.open("ab") as opened:
                    opened.write(b"# edited %d\n" % number)
            costs.append(thread_ms(lambda: history.take(roots, "prompt", 3, prompt="r")))
        print(f"  10 files changed            {sorted(costs)[50]:>10,.1f} ms CPU   (median of 100)")
        print(f"  100 such prompts                                  {disk(store) - before:>14,} bytes on disk")
        history.close()
        again = FileHistory(str(base / "home" / "projects" / "p" / f"{ID}.jsonl"))
        other = thread_ms(lambda: again.take(roots, "prompt", 4, prompt="s"))
        print(f"  first in another process    {other:>10,.1f} ms CPU")
        again.close()
    finally:
        shutil.rmtree(base)


def measure_path() -> None:
    """What the event loop does before a request is sent."""

    async def main() -> float:
        folder = tempfile.mkdtemp()
        gate, policy = PermissionChecker(folders=(folder,)), EnginePolicy()
        history = FileHistory(f"{folder}/home/projects/p/{ID}.jsonl")
        checkpoints = FileCheckpoints(
            history, RewindPermissions(gate, folder, lambda: policy), lambda: (folder,), print
        )
        begin = time.thread_time_ns()
        for number in range(1_000):
            checkpoints.before_request([User((Text("p"),), id=f"p{number}", at=1)])
        spent = (time.thread_time_ns() - begin) / 1_000_000
        os._exit(print(f"on the path to a request      {spent:.2f} us") or 0)

    asyncio.run(main())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=int)
    parser.add_argument("--bytes", type=int, default=0)
    given = parser.parse_args()
    if given.bytes:
        measure(given.bytes // 100_000, 100_000)
    else:
        for files in given.files or [10_000]:
            measure(files, 2_000)
    measure_path()


if __name__ == "__main__":
    main()
