"""A call's surroundings, for tests of tools: a working folder, and what the rules let a search see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mainspring.core.updates import Update
from mainspring.processes.paths import Resolved, resolve_path
from mainspring.tools.base import Tool, ToolAnswer, ToolContext, Workspace


def _everything(_path: str) -> bool:
    return True


class FakeToolContext(ToolContext):
    """As the pipeline gives it to a tool. What the tool shows and asks is kept; `answers` are given in their order."""

    def __init__(
        self, cwd: str, *, may_read: Callable[[str], bool] = _everything, answers: tuple[str, ...] = ()
    ) -> None:
        self._place = Workspace(cwd)
        self._may_read = may_read
        self._answers = list(answers)
        self.shown: list[str] = []
        self.asked: list[str] = []
        self.updates: list[Update] = []

    @property
    def id(self) -> str:
        return "call-1"

    @property
    def place(self) -> Workspace:
        return self._place

    @property
    def approved(self) -> bool:
        return False

    @property
    def cwd(self) -> str:
        return self._place.cwd

    def resolve(self, path: str) -> Resolved:
        """Where it leads now: nobody decides here."""
        return resolve_path(path, self._place.cwd, home=self._place.home or None)

    @property
    def has_read_rules(self) -> bool:
        return self._may_read is not _everything

    def may_read(self, path: str) -> bool:
        return self._may_read(path)

    def progress(self, text: str) -> None:
        self.shown.append(text)

    async def ask(self, text: str, about: Any = None) -> str:  # noqa: ARG002  # the words are enough
        self.asked.append(text)
        return self._answers.pop(0)

    def show(self, update: Update) -> None:
        self.updates.append(update)

    async def room(self) -> None:
        pass

    async def use(self, tool: Tool, **input: Any) -> ToolAnswer:
        """One call, from the input as a model sends it. What the model should hear is raised as a `ToolError`."""
        return await tool.run(tool.parse(input), self)

    def now(self, tool: Tool, **input: Any) -> ToolAnswer:
        """The same, where no event loop runs."""
        return asyncio.run(self.use(tool, **input))
