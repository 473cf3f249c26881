"""A workspace, a place outside that looks the same, and the file tools with everything that decides about them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processes.steps import snapshot

from mainspring.core.messages import ToolCall
from mainspring.core.updates import Update
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker
from mainspring.tools.base import Workspace
from mainspring.tools.edit import EDIT
from mainspring.tools.glob import GLOB
from mainspring.tools.grep import GREP
from mainspring.tools.notebook import NOTEBOOK_EDIT
from mainspring.tools.pipeline import InvocationResult
from mainspring.tools.read import READ
from mainspring.tools.toolset import Toolset
from mainspring.tools.write import WRITE

SECRET, INSIDE = "SECRET", "inside"
TOOLS = (READ, WRITE, EDIT, NOTEBOOK_EDIT, GLOB, GREP)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0"
# Each of them reads or changes something in the folder 'd' of the workspace.
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "Read": ("Read", {"file_path": "d/f"}),
    "Read an image": ("Read", {"file_path": "d/i.png"}),
    "Read what is missing": ("Read", {"file_path": "d/g"}),
    "Write": ("Write", {"file_path": "d/f", "content": "written"}),
    "Write a new file": ("Write", {"file_path": "d/new", "content": "written"}),
    "Write into new folders": ("Write", {"file_path": "d/x/y/new", "content": "written"}),
    "Edit": ("Edit", {"file_path": "d/f", "old_string": "word", "new_string": "written"}),
    "Edit a new file": ("Edit", {"file_path": "d/new", "old_string": "", "new_string": "written"}),
    "NotebookEdit": ("NotebookEdit", {"notebook_path": "d/n.ipynb", "cell_id": "one", "new_source": "written"}),
    "Glob": ("Glob", {"pattern": "**/*", "path": "d"}),
    "Glob below": ("Glob", {"pattern": "d/**/*"}),
    "Grep": ("Grep", {"pattern": "word", "path": "d", "output_mode": "content"}),
    "Grep a file": ("Grep", {"pattern": "word", "path": "d/f", "output_mode": "content"}),
    "Grep all": ("Grep", {"pattern": "word", "output_mode": "content"}),
    "Grep names": ("Grep", {"pattern": SECRET}),
    "Grep counts": ("Grep", {"pattern": SECRET, "output_mode": "count"}),
}


def notebook(word: str) -> str:
    cell: dict[str, Any] = {
        "id": "one",
        "cell_type": "code",
        "source": word,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


class Swapped:
    """Made anew in its folder each time."""

    def __init__(self, base: Path) -> None:
        self.base, self.work, self.out = base, base / "work", base / "out"
        shutil.rmtree(base, ignore_errors=True)
        for folder, word in ((self.work / "d", INSIDE), (self.out, SECRET)):
            folder.mkdir(parents=True)
            (folder / "f").write_text(f"a word: {word}\n")
            (folder / "n.ipynb").write_text(notebook(f"a word: {word}"))
            (folder / "i.png").write_bytes(PNG + word.encode())
        (self.out / "only-outside").write_text(f"a word: {SECRET}\n")
        (self.out / "g.txt").write_text(SECRET)
        self.before = snapshot(self.out)

    def more(self) -> None:
        """Skills, commands, agents and memory, which lie in the folder as well, by links and by `@path`."""
        for folder, word in ((self.work / "d", INSIDE), (self.out, SECRET)):
            for name in ("skills/s/SKILL.md", "commands/c.md", "agents/a.md", "CLAUDE.md"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(f"---\ndescription: of {name}\n---\na word: {word}\n")
        (self.work / ".claude").mkdir()
        for sort in ("skills", "commands", "agents"):
            (self.work / ".claude" / sort).symlink_to(f"../d/{sort}")
        (self.work / "CLAUDE.md").write_text("See @d/f.\n")
        self.before = snapshot(self.out)

    def swap(self) -> None:
        """The folder for a link that leads out."""
        (self.work / "d").rename(self.base / "aside")
        (self.work / "d").symlink_to(self.out)

    def untouched(self) -> bool:
        return snapshot(self.out) == self.before


def told(done: InvocationResult) -> str:
    """Everything that anybody gets to see of an answer."""
    return f"{done.answer.content} {done.answer.data} {done.answer.shown}"


def leaks(done: InvocationResult) -> bool:
    return leaks_in(told(done))


def leaks_in(seen: str) -> bool:
    return any(sign in seen for sign in (f": {SECRET}", "only-outside", "g.txt", "U0VDUkVU"))


class Pipeline:
    """The file tools, with an answer for each question. `meanwhile` happens before the answer."""

    def __init__(self, work: Path, meanwhile: Callable[[], object] = lambda: None, *rules: str, mode: str = "default"):
        self.hands = Toolset(
            TOOLS, place=Workspace(str(work)), gate=PermissionChecker(folders=(str(work),)), attended=True
        )
        self.policy = EnginePolicy(mode, rules=rules)
        self.failures: dict[str, int] = {}
        self.meanwhile = meanwhile

    async def ask(self, text: str, about: Any = None) -> str:  # whatever it is
        self.meanwhile()
        return "allow"

    async def note_decision(self, decision: str, reason: str, classifier: tuple[str, str] | None = None) -> None: ...

    def progress(self, text: str) -> None: ...

    def show(self, update: Update) -> None: ...

    async def room(self) -> None: ...

    async def call(self, name: str, input: dict[str, Any]) -> InvocationResult:
        return await self.hands.run(ToolCall("call-1", name, input), self)
