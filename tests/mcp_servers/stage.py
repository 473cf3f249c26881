"""Servers for a test, real ones, and hands that hold their tools."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cli.nursery import begun
from msgspec.structs import replace
from tools.desk import Desk

from mainspring.engine.shared_state import EnginePolicy
from mainspring.mcp.base import McpTimeouts
from mainspring.mcp.host_transport import Send
from mainspring.mcp.server_process import McpServerDefaults, ServerDirectory
from mainspring.mcp.servers import McpServers, SchemaPolicy
from mainspring.processes.children import Children
from mainspring.processes.environment import child_environment
from mainspring.settings.values import McpServer, SettingOrigin, SettingsSource
from mainspring.tools.base import Workspace
from mainspring.tools.toolset import Toolset

SHOP = str(Path(__file__).with_name("shop.py"))
LIBRARY = str(Path(__file__).with_name("library.py"))
HERE = SettingOrigin(SettingsSource.COMMAND_LINE, "a test")
PATIENCE = 60.0


def stdio(name: str = "shop", *args: str, command: str = sys.executable, **env: str) -> McpServer:
    return McpServer(name, "stdio", HERE, command=command, args=args or (SHOP,), env=env)


def program(name: str, code: str) -> McpServer:
    """A server that was written by hand, to misbehave."""
    return stdio(name, "-c", code)


def quick(server: McpServer) -> McpServer:
    """The same, begun by a fork where the official package would have to be loaded first."""
    if server.command != sys.executable or server.args[:1] not in ((SHOP,), (LIBRARY,)):
        return server
    command, *args = begun(*server.args)
    return replace(server, command=command, args=tuple(args))


def as_users_do(server: McpServer) -> McpServer:
    return server


def within_driver(*names: str) -> list[McpServer]:
    return [McpServer(name, "sdk", HERE) for name in names]


class Counter(Desk):
    """Servers, hands that hold their tools, and the engine's side of a call. Who is asked says no."""

    def __init__(self, servers: McpServers, folder: str, rules: tuple[str, ...]) -> None:
        super().__init__([], answers=('{"behavior": "deny", "message": "no"}',) * 10)
        self.servers = servers
        self.hands = Toolset([], place=Workspace(folder, spill=f"{folder}/spill"), attended=True)
        self.policy = EnginePolicy(rules=rules)
        self.warned: list[str] = []

    def answer(self, *answers: str) -> None:
        """What is said to the next questions."""
        self.answers = list(answers)

    async def settle(self) -> tuple[str, ...]:
        return self.hands.add(await self.servers.settle())

    async def text(self, name: str, /, **input: Any) -> str:
        return (await self.call(name, **input)).answer.text


@asynccontextmanager
async def counter(
    folder: Path,
    wanted: Sequence[McpServer],
    *,
    limits: McpTimeouts = McpTimeouts(first_turn=PATIENCE),  # noqa: B008  # a frozen value
    rules: tuple[str, ...] = ("allow mcp__shop",),
    schemas: SchemaPolicy = SchemaPolicy(),  # noqa: B008  # a frozen value
    is_away: Callable[[str], bool] = lambda _: False,
    relay: Send | None = None,
    start: Callable[[McpServer], McpServer] = quick,
) -> AsyncGenerator[Counter, None]:
    """Started and ended. All that the servers were is gone afterwards."""
    children = Children()
    host = McpServerDefaults(
        lambda: children, lambda: child_environment(os.environ), ServerDirectory(str(folder), trusted=True), relay
    )
    host.limits = limits
    warned: list[str] = []
    servers = McpServers([start(one) for one in wanted], host, schemas=schemas, is_away=is_away, warn=warned.append)
    made = Counter(servers, str(folder), rules)
    made.warned = warned
    servers.start()
    try:
        yield made
    finally:
        await servers.close()
        await children.close()


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for a state that tells nobody."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
