"""MCP servers on the way to a session: whether anybody named one, and what stands in their place if nobody did.

Every start comes through here, so what the servers themselves take (`mcp.py`) is loaded only where there are some.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mainspring.agent import rights
from mainspring.agent.mind import trusts
from mainspring.agent.model import Environment
from mainspring.agent.options import SessionOptions
from mainspring.settings.home import home_folder
from mainspring.settings.values import Settings

if TYPE_CHECKING:
    from mainspring.agent.config import ResolvedConfig
    from mainspring.agent.mcp import Found, Wired
    from mainspring.context.slash import Entry
    from mainspring.core.messages import User
    from mainspring.tools.hands import Hands
    from mainspring.tools.kit import Kit
    from mainspring.tools.mcp.named import May
    from mainspring.tools.mcp.relayed import Send


def named_servers(options: SessionOptions, settings: Settings, environment: Environment, cwd: str) -> Found | None:
    """Who names none does not pay for them."""
    if not (options.mcp_servers or settings.mcp.servers or os.path.lexists(f"{cwd}/.mcp.json")):
        return None
    from mainspring.agent.mcp import Place, configured, hold_keys

    hold_keys(options, settings, environment, cwd)
    found = configured(Place(options, settings, environment, cwd, lambda: trusts(home_folder(environment), cwd)))
    for problem in found.problems:
        options.tell(problem)
    return found if found.servers else None


class NoServers:
    """Where nobody named any, which is most often."""

    tools: tuple[str, ...] = ()
    instructions = ""

    async def open(self, *, wait: bool) -> None:
        pass

    async def settle(self) -> None:
        pass

    async def arrive(self, tool: str) -> str:  # noqa: ARG002  # as `Wired` has it
        return ""

    def states(self) -> list[dict[str, str]]:
        return []

    def words(self) -> tuple[Entry, ...]:
        return ()

    def knows(self, word: str, words: str) -> bool:  # noqa: ARG002  # as `Wired` has it
        return False

    async def brought(self, said: str, may: May) -> tuple[User, ...]:  # noqa: ARG002
        return ()

    async def close(self) -> None:
        pass


def wired(config: ResolvedConfig, kit: Kit, hands: Hands, relay: Send | None = None) -> Wired | NoServers:
    """`relay` reaches the servers within the program that drives us."""
    if config.servers is None:
        return NoServers()
    from mainspring.agent.mcp import Wired, new_servers, taken_away

    is_away = taken_away(rights.taken_away(config.options, config.settings))
    window = config.loop.model.window
    servers = new_servers(
        config.servers,
        kit,
        config.environment,
        window=window,
        is_away=is_away,
        warn=config.options.tell,
        relay=relay,
    )
    return Wired(servers, hands)
