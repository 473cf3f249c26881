"""A tool of a server as one of ours.

What a server says of its own tools grants nothing: `readOnlyHint` lets calls run side by side, but whether a call may
run is asked as for any other tool.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Bundle
from mainspring.mcp.base import ListedTool
from mainspring.mcp.schemas import compile_input_schema
from mainspring.mcp.server import McpServerConnection
from mainspring.providers.base import ToolSpec
from mainspring.tools.base import MOST_SHOWN, Input, Tool, ToolAnswer, ToolContext, ToolHandle
from mainspring.tools.json_schema import Schema
from mainspring.tools.results import build_mcp_answer
from mainspring.tools.structured_output import explain_schema_failure

SIZE = "anthropic/maxResultSizeChars"  # what a server asks for in `_meta`,
LARGEST = 500_000  # and the most that it gets: half a window
LONGEST_LINE = 80  # of the line about a call


class McpTool(Tool, frozen=True, kw_only=True, gc=True):
    """Its input stays a dict, and is checked against the schema that the server has for it now."""

    server: McpServerConnection
    listed: ListedTool  # as the model was told
    schema: Schema
    input: type[Input] = Input

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.about, self.listed.schema)

    def parse(self, input: dict[str, Any]) -> dict[str, Any]:
        now = self.server.tools.get(self.listed.name, self.listed)
        changed = now.schema != self.listed.schema
        why = explain_schema_failure(_understood(now) or self.schema if changed else self.schema, input)
        if not why:
            return input
        takes = f" The server has changed it; it takes now: {_shown(now)}." if changed else ""
        raise ToolError(f"The input of '{self.name}' {why}.{takes} Nothing was done: call it again.")


class NamedMcpTool(Bundle):
    """A tool that can be offered."""

    name: str  # for the model
    server: McpServerConnection
    listed: ListedTool
    schema: Schema

    @property
    def size(self) -> int:
        """Characters that the model is told."""
        return len(self.name) + len(self.listed.about) + len(_shown(self.listed))

    def offer(self, *, deferred: bool) -> ToolHandle:
        tool = make_mcp_tool(self, deferred=deferred)
        return ToolHandle(tool.spec, lambda: tool, deferred)


def make_mcp_tool(found: NamedMcpTool, *, deferred: bool) -> McpTool:
    server, listed = found.server, found.listed

    def line(given: dict[str, Any]) -> str:
        words = ", ".join([f"{key}={value!r}" for key, value in given.items()])
        return f"{server.name}: {listed.name}({words if len(words) <= LONGEST_LINE else words[:LONGEST_LINE] + '...'})"

    async def run(given: dict[str, Any], calling: ToolContext) -> ToolAnswer:
        if server.tools and listed.name not in server.tools:
            raise ToolError(f"The MCP server '{server.name}' has no tool '{listed.name}' any more. Nothing was done.")
        return build_mcp_answer(await server.call(listed.name, given, calling), line(given))

    return McpTool(
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


def most_shown(listed: ListedTool) -> int:
    """A server may ask for more room, never for less than all have."""
    wanted = listed.meta.get(SIZE)
    return max(MOST_SHOWN, min(wanted, LARGEST)) if type(wanted) is int else MOST_SHOWN


def _understood(listed: ListedTool) -> Schema | None:
    try:
        return compile_input_schema(listed.schema)
    except UsageError:
        return None


def _shown(listed: ListedTool) -> str:
    return msgspec.json.encode(listed.schema).decode()
