"""A tool of a server as one of ours.

What a server says of its own tools grants nothing: `readOnlyHint` lets calls run side by side, but whether a call may
run is asked as for any other tool.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Bundle
from mainspring.providers.base import ToolSpec
from mainspring.tools.base import MOST_SHOWN, Answer, Calling, Input, Offer, Tool
from mainspring.tools.json_schema import Schema
from mainspring.tools.mcp.results import answered
from mainspring.tools.mcp.schemas import understood
from mainspring.tools.mcp.server import Server
from mainspring.tools.mcp.values import Listed
from mainspring.tools.structured import unfit

SIZE = "anthropic/maxResultSizeChars"  # what a server asks for in `_meta`,
LARGEST = 500_000  # and the most that it gets: half a window
LONGEST_LINE = 80  # of the line about a call


class RemoteTool(Tool, frozen=True, kw_only=True, gc=True):
    """Its input stays a dict, and is checked against the schema that the server has for it now."""

    server: Server
    listed: Listed  # as the model was told
    schema: Schema
    input: type[Input] = Input

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.about, self.listed.schema)

    def parse(self, input: dict[str, Any]) -> dict[str, Any]:
        now = self.server.tools.get(self.listed.name, self.listed)
        changed = now.schema != self.listed.schema
        why = unfit(_understood(now) or self.schema if changed else self.schema, input)
        if not why:
            return input
        takes = f" The server has changed it; it takes now: {_shown(now)}." if changed else ""
        raise ToolError(f"The input of '{self.name}' {why}.{takes} Nothing was done: call it again.")


class Named(Bundle):
    """A tool that can be offered."""

    name: str  # for the model
    server: Server
    listed: Listed
    schema: Schema

    @property
    def size(self) -> int:
        """Characters that the model is told."""
        return len(self.name) + len(self.listed.about) + len(_shown(self.listed))

    def offer(self, *, deferred: bool) -> Offer:
        tool = made(self, deferred=deferred)
        return Offer(tool.spec, lambda: tool, deferred)


def made(found: Named, *, deferred: bool) -> RemoteTool:
    server, listed = found.server, found.listed

    def line(given: dict[str, Any]) -> str:
        words = ", ".join([f"{key}={value!r}" for key, value in given.items()])
        return f"{server.name}: {listed.name}({words if len(words) <= LONGEST_LINE else words[:LONGEST_LINE] + '...'})"

    async def run(given: dict[str, Any], calling: Calling) -> Answer:
        if server.tools and listed.name not in server.tools:
            raise ToolError(f"The MCP server '{server.name}' has no tool '{listed.name}' any more. Nothing was done.")
        return answered(await server.call(listed.name, given, calling), line(given))

    return RemoteTool(
        name=found.name,
        about=listed.about or f"A tool of the MCP server '{server.name}'.",
        run=run,
        concurrent=listed.only_reads,
        most_shown=most_shown(listed),
        summary=line,
        deferred=deferred,
        server=server,
        listed=listed,
        schema=found.schema,
    )


def most_shown(listed: Listed) -> int:
    """A server may ask for more room, never for less than all have."""
    wanted = listed.meta.get(SIZE)
    return max(MOST_SHOWN, min(wanted, LARGEST)) if type(wanted) is int else MOST_SHOWN


def _understood(listed: Listed) -> Schema | None:
    try:
        return understood(listed.schema)
    except UsageError:
        return None


def _shown(listed: Listed) -> str:
    return msgspec.json.encode(listed.schema).decode()
