"""The shell tools as a session has them, for tests: real bash, real processes, a folder of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from mainspring.processes.children import Children
from mainspring.processes.environment import child_environment
from mainspring.testing.world import FakeToolContext
from mainspring.tools.background import BackgroundCommand, BackgroundCommands, kill_tool, output_tool
from mainspring.tools.base import Tool, ToolAnswer
from mainspring.tools.bash import bash_tool

Result = TypeVar("Result")


class Hands(FakeToolContext):
    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(str(folder))
        self.place.spill = str(folder.parent / f"{folder.name}-spill")
        self.changes: list[tuple[str, str]] = []
        self.children = Children()
        self.background = BackgroundCommands(self.children, changed=self._note)
        self.tool: Tool = bash_tool(self.children, self.background, child_environment(os.environ), **settings)
        self.output_tool = output_tool(self.background, self.children)
        self.kill_tool = kill_tool(self.background)

    def _note(self, running: BackgroundCommand) -> None:
        self.changes.append((running.id, running.status))

    async def bash(self, command: str, **more: Any) -> ToolAnswer:
        return await self.use(self.tool, command=command, **more)

    async def output(self, id: str, **more: Any) -> ToolAnswer:
        return await self.use(self.output_tool, bash_id=id, **more)

    async def kill(self, id: str) -> ToolAnswer:
        return await self.use(self.kill_tool, shell_id=id)


def play(folder: Path, scene: Callable[[Hands], Awaitable[Result]], **settings: Any) -> Result:
    async def main() -> Result:
        hands = Hands(folder, **settings)
        try:
            return await scene(hands)
        finally:
            await hands.background.close()
            await hands.children.close()

    return asyncio.run(main())


def bash(folder: Path, command: str, **more: Any) -> ToolAnswer:
    return play(folder, lambda hands: hands.bash(command, **more))
