"""Writes a file again and again, each time killed one system call later. Prints what each kill left.

A program of its own, so that it can fork: nothing else runs in it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from mainspring.processes import atomic_write
from mainspring.processes.paths import resolve_path
from processes.steps import Steps, left_over


def one_round(folder: Path, target: str, at: int) -> dict[str, object]:
    for name in ("f", "new", "made/new", "made"):
        path = folder / name
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    (folder / "f").write_text("old")
    path_ = resolve_path(target, str(folder))
    digest = atomic_write.digest(b"old")  # in any case: it loads what would count as system calls otherwise
    before = digest if target == "f" else None
    child = os.fork()
    if child == 0:
        with Steps(at, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            atomic_write.write_atomically(path_, b"new", before=before)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    file = folder / target
    left = left_over(folder)
    for name in left:
        (folder / name).unlink()
    return {
        "killed": os.WIFSIGNALED(status),
        "content": file.read_text() if file.exists() else None,
        "left": len(left),
    }


def main() -> None:
    folder, target, named = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if named:
        atomic_write._NAMELESS = 0
    rounds: list[dict[str, object]] = []
    while not rounds or rounds[-1]["killed"]:
        rounds.append(one_round(folder, target, len(rounds)))
    print(json.dumps(rounds))


if __name__ == "__main__":
    main()
