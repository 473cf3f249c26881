"""A session within this process, and a model server beside it: what the tests of the library are played on.

async def main(stage: Stage) -> None:
    told = [message async for message in query(prompt="hello", options=stage.options())]

play(main, tmp_path, Say.of("Hi."))
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from mainspring.sdk import AssistantMessage, Message, Options, TextBlock, ToolResultBlock, UserMessage, query
from mainspring.simulator.replies import Reply
from mainspring.simulator.scripts import Choose
from mainspring.simulator.server import ModelServer
from mainspring.testing.clock import VirtualLoop, virtually

PATIENCE = 40  # seconds; only what hangs takes so long
T = TypeVar("T")


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


def play(
    main: Callable[[Stage], Awaitable[None]],
    folder: Path,
    *replies: Reply,
    choose: Choose | None = None,
    seconds: float = PATIENCE,
) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(seconds), ModelServer(list(replies), choose=choose) as server:
            await main(Stage(server, folder))

    asyncio.run(bounded())


class InlineExecutor(ThreadPoolExecutor):
    """Work for a thread is done at once: a virtual clock does not wait for threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # the caller gets it, as from a thread
            done.set_exception(error)
        return done


def play_virtually(main: Callable[[Stage], Coroutine[Any, Any, T]], folder: Path, *, choose: Choose) -> T:
    """On a virtual clock, which is the server's, too. The session must start no process."""
    loop = VirtualLoop()
    loop.set_default_executor(InlineExecutor())

    async def served() -> T:
        async with ModelServer(choose=choose, clock=loop.milliseconds) as server:
            return await main(Stage(server, folder))

    return virtually(served(), loop)


def texts(told: list[Message]) -> list[str]:
    blocks = [block for message in told if isinstance(message, AssistantMessage) for block in message.content]
    return [block.text for block in blocks if isinstance(block, TextBlock)]


def outcomes(told: list[Message]) -> list[ToolResultBlock]:
    said = [message for message in told if isinstance(message, UserMessage) and isinstance(message.content, list)]
    return [block for message in said for block in message.content if isinstance(block, ToolResultBlock)]


def call(name: str, id: str = "", /, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{id or name}", "name": name, "input": input}
