"""MCP servers within the program: our own small ones, and those that are made with the official `mcp` package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.core.errors import UsageError
from mainspring.sdk.server import Object, Server

if TYPE_CHECKING:
    from mainspring.sdk.foreign_server import ForeignServer


class Servers:
    def __init__(self, given: Mapping[str, Any] | str | Path) -> None:
        named: Mapping[str, Any] = {} if isinstance(given, str | Path) else given
        self._here: dict[str, Any] = {name: one["instance"] for name, one in named.items() if one.get("type") == "sdk"}
        self._foreign: dict[str, ForeignServer] = {}

    async def hear(self, name: str, message: Object) -> Object:
        instance = self._here.get(name)
        if instance is None:
            raise UsageError(f"there is no MCP server '{name}' in this program")
        if isinstance(instance, Server):
            return await instance.hear(message)
        from mainspring.sdk.foreign_server import ForeignServer

        if name not in self._foreign:
            self._foreign[name] = ForeignServer(instance)
        return await self._foreign[name].hear(message)

    async def close(self) -> None:
        foreign, self._foreign = self._foreign, {}
        for one in foreign.values():
            await one.close()
