"""MCP servers within the program: our own small ones, and those that are made with the official `mcp` package.

The servers are the program's, and may be used by several sessions; what runs in them is kept here, for one session.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.core.errors import UsageError
from mainspring.sdk.mcp_server import Object, SdkMcpServer, SdkMcpSession

if TYPE_CHECKING:
    from mainspring.sdk.official_mcp_server import ForeignServer


class SdkMcpServers:
    def __init__(self, given: Mapping[str, Any] | str | Path) -> None:
        named: Mapping[str, Any] = {} if isinstance(given, str | Path) else given
        here = {name: one["instance"] for name, one in named.items() if one.get("type") == "sdk"}
        self._ours = {name: SdkMcpSession(one) for name, one in here.items() if isinstance(one, SdkMcpServer)}
        self._others: dict[str, Any] = {name: one for name, one in here.items() if name not in self._ours}
        self._foreign: dict[str, ForeignServer] = {}

    async def hear(self, name: str, message: Object) -> Object:
        """Raises `UsageError` if there is no such server, `ConnectionError` if it does not run."""
        if name in self._ours:
            return await self._ours[name].hear(message)
        if name not in self._others:
            raise UsageError(f"there is no MCP server '{name}' in this program")
        return await (await self._begun(name, message)).hear(message)

    async def _begun(self, name: str, message: Object) -> ForeignServer:
        """One that has ended is made anew for whoever greets it; others are told, as a new one would not know them."""
        from mainspring.sdk.official_mcp_server import ForeignServer

        known = self._foreign.get(name)
        if known is not None and (not known.over or message.get("method") != "initialize"):
            return known
        self._foreign[name] = ForeignServer(self._others[name])
        if known is not None:
            await known.close()
        return self._foreign[name]

    async def close(self) -> None:
        foreign, self._foreign = self._foreign, {}
        for one in foreign.values():
            await one.close()
