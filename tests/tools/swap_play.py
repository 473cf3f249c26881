"""A command in the sandbox swaps folders and files for links as fast as it can, while all that opens files works.

As a program of its own: `python -m tools.swap_play FOLDER OPERATIONS PYTHON SEARCH WALLS [USER]`. It prints, as JSON,
how often each operation came to its end and how often it was refused, and what got out of the workspace.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from processes.steps import snapshot
from sandbox.walls import bubblewrap

from mainspring.agent.slash_commands import make_mention_attacher
from mainspring.context import agent_types
from mainspring.context.memory import MemoryLocations
from mainspring.context.sources import ContextSourceOptions, ContextSources
from mainspring.core.config import Config
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.messages import ToolCall
from mainspring.core.updates import Update
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker, RuleText
from mainspring.processes.child import SandboxAccess
from mainspring.processes.environment import child_environment
from mainspring.providers.scripted import Scripted
from mainspring.sandbox.sandbox import ProbeResult, SandboxBackend, SandboxLayout, build_sandbox
from mainspring.tools.base import Workspace
from mainspring.tools.builtin import BuiltinTools
from mainspring.tools.pipeline import InvocationResult
from mainspring.tools.search_child import find_ripgrep
from mainspring.tools.toolset import Toolset
from tools.rewind_stage import Bench
from tools.swapping import CALLS, PNG, SECRET, notebook, told

DENIED = "CLOSED-TO-ALL"
NAMES = ("Bash", "Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep")
FILES = 24  # of a folder that is swapped
SIGNS = (f": {SECRET}", DENIED, "only-outside", "only-closed", "U0VDUkVU")  # the last one: in base64

# Two names change places in one system call, so that neither is ever missing.
SWAPPER = """
import ctypes, os, sys
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
at = sys.argv[1]
pairs = [(f"{at}/{one}".encode(), f"{at}/{one}-link".encode()) for one in ("d", "e", "k/f", "k/n.ipynb")]
count = 0
while not os.path.exists(f"{at}/stop"):
    for one, other in pairs:
        if renameat2(-100, one, -100, other, 2):
            sys.exit(os.strerror(ctypes.get_errno()))
    count += 1
    if count % 1000 == 1:
        with open(f"{at}/swaps.new", "w") as file:
            file.write(str(count))
        os.rename(f"{at}/swaps.new", f"{at}/swaps")
"""


class Field:
    """The workspace `work`: `d` changes places with a link to `out`, `e` with one to `work/closed`, which a rule keeps
    from being read, and files in `k` with links to files in `out`. With Landlock nothing can be renamed at the top of a
    workspace that has something protected: there all of it is a folder lower, and links lead to it."""

    def __init__(self, base: Path, walls: str) -> None:
        self.base, self.work, self.out = base, base / "work", base / "out"
        self.at = self.work / "x" if walls == "landlock" else self.work  # what is swapped is in there
        for name in ("d", "e", "k"):
            self.fill(self.at / name, "inside")
            if self.at != self.work:
                (self.work / name).symlink_to(f"x/{name}")
        self.fill(self.out, SECRET)
        self.fill(self.work / "closed", DENIED)
        (self.out / "only-outside").write_text(f"a word: {SECRET}")
        (self.work / "closed/only-closed").write_text(f"a word: {DENIED}")
        (self.at / "d-link").symlink_to(self.out)
        (self.at / "e-link").symlink_to(self.work / "closed")
        for name in ("f", "n.ipynb"):
            (self.at / f"k/{name}-link").symlink_to(self.out / name)
        for sort in ("skills", "commands", "agents"):
            (self.work / ".claude").mkdir(exist_ok=True)
            (self.work / ".claude" / sort).symlink_to(f"../d/{sort}")
        (self.work / "CLAUDE.md").write_text("See @d/f and @k/f and @e/f.\n")
        for name in ("temp", "state", "spill", "user"):
            (base / name).mkdir()
        self.before = self.closed()

    @staticmethod
    def fill(folder: Path, word: str) -> None:
        for sort in ("skills/s", "commands", "agents"):
            (folder / sort).mkdir(parents=True)
        for name in ("f", "CLAUDE.md", *[f"f{number}" for number in range(FILES)]):
            (folder / name).write_text(f"a word: {word}\n")
        for name in ("skills/s/SKILL.md", "commands/c.md", "agents/a.md"):
            (folder / name).write_text(f"---\ndescription: of {name}\n---\na word: {word}\n")
        (folder / "n.ipynb").write_text(notebook(f"a word: {word}"))
        (folder / "i.png").write_bytes(PNG + word.encode())

    def closed(self) -> dict[str, tuple[int, bytes]]:
        """What nobody may change."""
        inside = snapshot(self.work / "closed")
        return snapshot(self.out) | {f"closed/{name}": was for name, was in inside.items()}

    def touched(self) -> list[str]:
        """What of it is not what it was."""
        now = self.closed()
        return sorted({name for name in self.before.keys() | now.keys() if self.before.get(name) != now.get(name)})


class Play:
    def __init__(self, field: Field, python: str, walls: str) -> None:
        self.field, self.python = field, python
        work, base = str(field.work), field.base
        rooms = SandboxLayout((work,), str(base / "temp"), str(base / "state"), denied=(f"{work}/closed",))
        program = python if walls == "landlock" else bubblewrap(base / "state")
        self.sandbox = build_sandbox(ProbeResult(program, kind=SandboxBackend(walls)), rooms)
        place = Workspace(work, home=str(base / "user"), spill=str(base / "spill"))
        self.swapper = f"{shlex.quote(python)} -I swapper.py {field.at}"
        rules = (RuleText("deny", "Read(./closed/**)", "project"), RuleText("allow", f"Bash({self.swapper})", "user"))
        self.gate = PermissionChecker(rules, folders=(work,), home=place.home)
        self.kit = BuiltinTools(
            place, child_environment(os.environ), around=self.sandbox.around, walls=lambda *_: SandboxAccess.USUAL
        )
        self.hands = Toolset(self.kit.offers(NAMES), place=place, gate=self.gate)
        self.policy = EnginePolicy("acceptEdits")
        self.failures: dict[str, int] = {}
        self.session = EngineSession(AgentDeps(Scripted([]), self.hands), Config())
        self.session.shared.policy = self.policy
        self.bench = Bench(base, home=str(self.field.work))
        self.bench.desk.hands.gate = self.gate
        self.bench.desk.policy = self.policy
        self.bench.desk.hands.attended = False
        self.tally: Counter[str] = Counter()
        self.got_out: list[str] = []

    # --- the engine's side of a call; nobody can be asked ---

    async def note_decision(self, decision: str, reason: str, classifier: tuple[str, str] | None = None) -> None: ...

    def progress(self, text: str) -> None: ...

    def show(self, update: Update) -> None: ...

    async def room(self) -> None: ...

    async def ask(self, text: str, about: Any = None) -> str:
        raise AssertionError(text)

    async def call(self, name: str, **input: Any) -> InvocationResult:
        return await self.hands.run(ToolCall("call-1", name, input), self)

    # --- operations: what anybody gets to see, and whether it was refused ---

    async def tool(self, name: str, input: dict[str, Any]) -> tuple[str, bool]:
        field = {"Write": "file_path", "Edit": "file_path", "NotebookEdit": "notebook_path"}.get(name)
        seen = told(await self.call("Read", file_path=input[field])) if field else ""
        done = await self.call(name, **input)
        return seen + told(done), done.answer.is_error

    async def mention(self) -> tuple[str, bool]:
        attach = make_mention_attacher(self.surroundings(), self.gate, self.session, str(self.field.work))
        heard = await attach("Look at @d/f, @e/f, @k/f, @d/i.png, @d/ and @e/ please")
        return f"{heard.attached} {list(heard)}", any(one.why_not for one in heard.attached)

    async def memory(self) -> tuple[str, bool]:
        memory = self.surroundings().memory
        for folder in ("d", "e"):
            memory.touched(f"{self.field.work}/{folder}")
        return f"{memory.attachments}", len(memory.files) < 5

    async def skill(self) -> tuple[str, bool]:
        found = self.surroundings()
        try:
            return f"{found.skills.attachment} {found.skills.load('s').text} {found.slash.text('c', '')}", False
        except (ToolError, UsageError) as error:
            return str(error), True

    async def agent(self) -> tuple[str, bool]:
        found = agent_types.find_agent_types(self.surroundings().memory.places("agents"))
        return f"{found.kinds}", "a" not in found.kinds

    async def changed(self) -> tuple[str, bool]:
        """A file that was read is not what it was."""
        from mainspring.context.file_changes import FileChanges
        from mainspring.processes.paths import PathRefused, resolve_path

        await self.call("Read", file_path="d/f1")
        changes = FileChanges(self.kit.place.read)
        try:
            changes.saw(resolve_path("d/f1", str(self.field.work)))
        except PathRefused:
            return "", True
        news = changes.news()
        return f"{news}", news is not None

    async def rewind(self) -> tuple[str, bool]:
        id = os.urandom(8).hex()
        await self.bench.prompt(id)
        for name in ("d/f2", "d/rewound"):
            await self.bench.desk.call("Read", file_path=name)
            await self.bench.desk.call("Write", file_path=name, content=id)
        try:
            return f"{await self.bench.back(id)}", False
        except UsageError as error:
            return str(error), True

    def surroundings(self) -> ContextSources:
        """As at the start of a session in a folder that nobody trusts, and that a program has chosen."""
        may_read = self.gate.readable(str(self.field.work), self.policy)
        where = MemoryLocations(
            str(self.field.work), user=str(self.field.base / "user"), driven=True, may_read=may_read
        )
        return ContextSources(ContextSourceOptions(where, read=lambda: self.kit.place.read))

    def operations(self) -> dict[str, Callable[[], Awaitable[tuple[str, bool]]]]:
        def through(name: str, input: dict[str, Any]) -> Callable[[], Awaitable[tuple[str, bool]]]:
            return lambda: self.tool(name, input)

        made = {what: through(*call) for what, call in CALLS.items()}
        for folder in ("e", "k"):
            made[f"Read in {folder}"] = through("Read", {"file_path": f"{folder}/f"})
            made[f"Write in {folder}"] = through("Write", {"file_path": f"{folder}/f", "content": "a word: inside\n"})
            made[f"Grep in {folder}"] = through("Grep", {"pattern": "word", "path": folder, "output_mode": "content"})
            made[f"Glob in {folder}"] = through("Glob", {"pattern": "**/*", "path": folder})
        made["NotebookEdit in k"] = through("NotebookEdit", CALLS["NotebookEdit"][1] | {"notebook_path": "k/n.ipynb"})
        own = ("mention", "memory", "skill", "agent", "changed", "rewind")
        return made | {name: getattr(self, name) for name in own}

    # --- the play ---

    async def run(self, count: int) -> dict[str, Any]:
        (self.field.work / "swapper.py").write_text(SWAPPER)
        started = await self.call("Bash", command=self.swapper, run_in_background=True)
        assert not started.answer.is_error, started.answer.text
        try:
            await self.swaps_after(0)
            operations = self.operations()
            quick = [name for name in operations if not name.startswith(("Grep", "Glob"))]
            order = [*operations, *quick, *quick, *quick, *quick]  # a search takes as long as thirty of the others
            for number in range(count):
                await self.one(order[number % len(order)], operations)
            swaps = await self.swaps_after(self.swaps())  # it still runs
            (self.field.at / "stop").touch()
            return {
                "operations": count,
                "swaps": swaps,
                "got_out": self.got_out + [f"changed: {name}" for name in self.field.touched()],
                "tally": dict(self.tally),
            }
        finally:
            await self.kit.close()
            self.sandbox.close()

    async def one(self, what: str, operations: dict[str, Callable[[], Awaitable[tuple[str, bool]]]]) -> None:
        seen, refused = await operations[what]()
        self.tally[f"{what}: {'refused' if refused else 'done'}"] += 1
        if any(sign in seen for sign in SIGNS):
            self.got_out.append(f"{what}: {seen[:2000]}")

    def swaps(self) -> int:
        """How often everything was swapped so far."""
        counted = self.field.at / "swaps"
        return int(counted.read_text()) if counted.exists() else 0

    async def swaps_after(self, so_far: int) -> int:
        end = time.monotonic() + 30
        while self.swaps() <= so_far:
            assert time.monotonic() < end, "nobody swaps anything"
            await asyncio.sleep(0.01)
        return self.swaps()


def become(user: int) -> None:
    """Another one, who can still look at its own descriptors."""
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable


def search_by(search: str, bin: Path) -> None:
    """`script`: ripgrep is one that starts another program, so Landlock cannot confine it. `python`: there is none."""
    if search == "ripgrep":
        return
    bin.mkdir()
    start, name = (sys.executable, "python") if search == "python" else (str(find_ripgrep(Workspace(str(bin)))), "rg")
    (bin / name).write_text(f'#!/bin/sh\nexec {shlex.quote(start)} "$@"\n')
    (bin / name).chmod(0o755)
    if search == "python":
        sys.executable = str(bin / name)
    os.environ["PATH"] = "" if search == "python" else f"{bin}:{os.environ['PATH']}"
    found = find_ripgrep(Workspace(str(bin / "none")))
    assert found == (None if search == "python" else str(bin / name)), found


def main(folder: str, count: str, python: str, search: str, walls: str, user: str = "") -> None:
    base = Path(folder)
    search_by(search, base / "bin")
    if user:
        played(base / "first", 60, python, walls)  # all is loaded now: it may lie where this user cannot read
        shutil.rmtree(base / "first")
        os.chown(base, int(user), int(user))
        become(int(user))
    os.chdir(base)
    print(json.dumps(played(base / "play", int(count), python, walls)))


def played(base: Path, count: int, python: str, walls: str) -> dict[str, Any]:
    base.mkdir()
    field = Field(base, walls)

    async def play() -> dict[str, Any]:
        return await Play(field, python, walls).run(count)

    return asyncio.run(play())


if __name__ == "__main__":
    main(*sys.argv[1:])
