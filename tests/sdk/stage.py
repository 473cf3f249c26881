"""A session within this process, and a model server beside it: what the tests of the library are played on.

async def main(stage: Stage) -> None:
    told = [message async for message in query(prompt="hello", options=stage.options())]

play(main, tmp_path, Say.of("Hi."))
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mainspring.sdk import AssistantMessage, Message, Options, TextBlock, ToolResultBlock, UserMessage, query
from mainspring.simulator.replies import Reply
from mainspring.simulator.scripts import Choose
from mainspring.simulator.server import ModelServer

PATIENCE = 40  # seconds; only what hangs takes so long


class Stage:
    def __init__(self, server: ModelServer, folder: Path) -> None:
        self.server, self.folder = server, folder / "work"
        self.home = folder / "home"
        self.folder.mkdir(exist_ok=True)

    def options(self, **chosen: Any) -> Options:
        env = {"ANTHROPIC_BASE_URL": self.server.url, "ANTHROPIC_API_KEY": "sk-of-the-tests"}
        env |= {"CLAUDE_CONFIG_DIR": str(self.home), "IS_SANDBOX": "1"} | chosen.pop("env", {})
        return Options(cwd=chosen.pop("cwd", self.folder), env=env, **chosen)

    async def ask(self, prompt: str = "go", **chosen: Any) -> list[Message]:
        return [message async for message in query(prompt=prompt, options=self.options(**chosen))]


def play(main: Callable[[Stage], Awaitable[None]], folder: Path, *replies: Reply, choose: Choose | None = None) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE), ModelServer(list(replies), choose=choose) as server:
            await main(Stage(server, folder))

    asyncio.run(bounded())


def texts(told: list[Message]) -> list[str]:
    blocks = [block for message in told if isinstance(message, AssistantMessage) for block in message.content]
    return [block.text for block in blocks if isinstance(block, TextBlock)]


def outcomes(told: list[Message]) -> list[ToolResultBlock]:
    said = [message for message in told if isinstance(message, UserMessage) and isinstance(message.content, list)]
    return [block for message in said for block in message.content if isinstance(block, ToolResultBlock)]


def call(name: str, id: str = "", /, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{id or name}", "name": name, "input": input}
