"""A session with real tools, a real file and somebody who wants to go back; and the same, killed between system calls.

As a program of its own (`python -m tools.rewind_stage FOLDER WHICH STRIDE`) it forks: each child is killed so many
system calls later, in the thread of the tool, of the checkpoint or of the event loop; then another process goes back.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from processes.steps import Steps, left_over

from mainspring.agent.checkpoints import FileCheckpoints, RewindPermissions
from mainspring.checkpoints.history import FileHistory
from mainspring.checkpoints.scan import CheckpointLimits
from mainspring.core.messages import Text, User
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker
from mainspring.processes.atomic_write import digest
from mainspring.processes.paths import resolve_path
from mainspring.tools.edit import EDIT
from mainspring.tools.notebook import NOTEBOOK_EDIT
from mainspring.tools.pipeline import InvocationResult
from mainspring.tools.read import READ
from mainspring.tools.write import WRITE
from tools.desk import Desk

ID = "11111111-2222-4333-8444-555555555555"
OLD, NEW = b"\xef\xbb\xbfone\r\ntwo\r\n\xff no newline", "all\nnew\n"


class Bench:
    """Made while an event loop runs. A second one of the same folder goes on with the session, as another process."""

    def __init__(
        self, folder: Path, *, limits: CheckpointLimits | None = None, rules: tuple[str, ...] = (), home: str = ""
    ) -> None:
        """`home`: if it is the workspace, only what tools change is stored."""
        self.work, self.file = folder / "work", folder / "home" / "projects" / "p" / f"{ID}.jsonl"
        self.work.mkdir(exist_ok=True)
        self.desk = Desk((READ, WRITE, EDIT, NOTEBOOK_EDIT), cwd=str(self.work))
        self.desk.hands.gate = PermissionChecker(folders=(str(self.work),))
        gate, policy = self.desk.hands.gate, EnginePolicy(rules=rules)
        self.told: list[str] = []
        self.history = FileHistory(str(self.file), limits=limits, home=home)
        writable = RewindPermissions(gate, str(self.work), lambda: policy)
        self.rewinding = FileCheckpoints(self.history, writable, lambda: (str(self.work),), self.told.append)
        self.desk.hands.place.keep = self.rewinding.keep
        self.desk.hands.place.before_writing = self.rewinding.before_writing

    async def prompt(self, id: str) -> None:
        """As a session does it with its request."""
        self.rewinding.before_request([User((Text(id),), id=id, at=1)])

    async def end(self) -> None:
        """The run is over: what comes now is the user's."""
        self.rewinding.end_run(works_on=False)
        await self.rewinding.list()

    async def close(self) -> None:
        await self.rewinding.close()

    async def call(self, name: str, **input: Any) -> InvocationResult:
        done = await self.desk.call(name, **input)
        assert not done.answer.is_error, done.answer.text
        return done

    async def write(self, name: str, content: str) -> None:
        """Over whatever is there."""
        if (self.work / name).exists():
            await self.call("Read", file_path=name)
        await self.call("Write", file_path=name, content=content)

    async def replace(self, file: Path, old: bytes, new: bytes) -> None:
        """As a tool does it that somebody has allowed to."""
        place, path = self.desk.hands.place, resolve_path(str(file), "/")
        await self.rewinding.before_writing()
        await asyncio.to_thread(lambda: place.put(path, new, before=digest(old)))

    async def back(self, prompt: str) -> dict[str, Any]:
        return await self.rewinding.rewind_files(prompt)

    def packed(self) -> int:
        """Bytes of what is stored."""
        return sum([file.stat().st_size for file in (self.file.parents[2] / "file-history" / ID).rglob("packs/*")])


# --- killed -----------------------------------------------------------------------------------------


def watched(at: int) -> None:
    """From here on, in all threads: those that work for the loop are new ones."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
    steps = Steps(at, lambda: os.kill(os.getpid(), signal.SIGKILL))
    threading.setprofile(steps._see)
    sys.setprofile(steps._see)


async def life(folder: Path, which: str, at: int) -> None:
    """Of the process that is killed."""
    bench = Bench(folder)
    (bench.work / "f").write_bytes(OLD)
    (bench.work / "f").chmod(0o640)
    name = "made/new" if which == "new" else "f"
    if which != "new":
        await bench.call("Read", file_path="f")
    if which == "back":
        await bench.prompt("p")
        await bench.write(name, NEW)
        await bench.prompt("q")  # nothing is changed after it but by the way back
        await bench.rewinding.list()
        watched(at)
        await bench.back("p")
    else:
        watched(at)
        await bench.prompt("p")
        await bench.call("Write", file_path=name, content=NEW)
    sys.setprofile(None)
    os._exit(0)


async def after(folder: Path, which: str) -> dict[str, Any]:
    """What another process finds, and where it gets to."""
    file = folder / "work" / ("made/new" if which == "new" else "f")
    found = file.read_bytes().hex() if file.exists() else None
    bench = Bench(folder)
    forth = None
    if which == "back":
        await bench.rewinding.recover()
        await bench.back("q")
        forth = file.read_bytes().hex()
    changed = None
    if [one.prompt_id for one in await bench.rewinding.list()]:
        changed = len((await bench.back("p"))["filesChanged"])
    await bench.close()
    return {
        "found": found,
        "forth": forth,
        "changed": changed,  # None: there is no checkpoint, so nothing may have been written
        "end": file.read_bytes().hex() if file.exists() else None,
        "mode": file.stat().st_mode & 0o777 if file.exists() else None,
        "left": len(left_over(bench.work)),
    }


def killed_at(folder: Path, which: str, at: int) -> dict[str, Any]:
    folder.mkdir()
    child = os.fork()
    if child == 0:
        asyncio.run(life(folder, which, at))
    status = os.waitpid(child, 0)[1]
    return {"killed": os.WIFSIGNALED(status), **asyncio.run(after(folder, which))}


def main() -> None:
    rounds: list[dict[str, Any]] = []
    stride = int(sys.argv[3])
    while not rounds or rounds[-1]["killed"]:
        rounds.append(killed_at(Path(sys.argv[1]) / f"{len(rounds)}", sys.argv[2], len(rounds) * stride))
    print(json.dumps(rounds))


if __name__ == "__main__":
    main()
