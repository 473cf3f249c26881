"""Uses a tool on a file again and again, each time killed one system call later. Prints what each kill left.

A program of its own, so that it can fork. The tool writes in a thread, so only the calls of that thread count.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import Any

from processes.steps import Steps, left_over

from mainspring.testing.world import FakeToolContext
from mainspring.tools.base import Tool
from mainspring.tools.edit import EDIT
from mainspring.tools.read import READ
from mainspring.tools.write import WRITE

OLD = b"\xef\xbb\xbfone\r\ntwo\r\n\xff no newline"
INPUTS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "edit": (EDIT, {"file_path": "f", "old_string": "one\ntwo", "new_string": "1\n2\n3"}),
    "write": (WRITE, {"file_path": "f", "content": "all\nnew\n"}),
    "new": (WRITE, {"file_path": "made/new", "content": "all\nnew\n"}),
}


def killed_at(folder: Path, which: str, at: int) -> dict[str, object]:
    (folder / "f").write_bytes(OLD)
    (folder / "f").chmod(0o640)
    (folder / "made/new").unlink(missing_ok=True)
    tool, input = INPUTS[which]
    calling = FakeToolContext(str(folder))
    calling.now(READ, file_path="f")
    child = os.fork()
    if child == 0:
        steps = Steps(at, lambda: os.kill(os.getpid(), signal.SIGKILL))
        threading.setprofile(steps._see)
        calling.now(tool, **input)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    file = folder / input["file_path"]
    left = left_over(folder)
    for name in left:
        (folder / name).unlink()
    return {
        "killed": os.WIFSIGNALED(status),
        "content": file.read_bytes().hex() if file.exists() else None,
        "mode": stat.S_IMODE(file.stat().st_mode) if file.exists() else None,
        "left": len(left),
    }


def main() -> None:
    folder, which = Path(sys.argv[1]), sys.argv[2]
    rounds: list[dict[str, object]] = []
    while not rounds or rounds[-1]["killed"]:
        rounds.append(killed_at(folder, which, len(rounds)))
    print(json.dumps(rounds))


if __name__ == "__main__":
    main()
