"""A tool of a server as one of ours.

What a server says of its own tools grants nothing: `readOnlyHint` lets calls run side by side, but whether a call may
run is asked as for any other tool.

The schema of a tool that a server brings: whether it can be offered, and how inputs are checked against it.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Bundle
from mainspring.mcp.base import ListedTool
from mainspring.mcp.server import McpServerConnection
from mainspring.providers.base import ToolSpec
from mainspring.tools.base import MOST_SHOWN, Input, Tool, ToolAnswer, ToolContext, ToolHandle
from mainspring.tools.json_schema import Schema
from mainspring.tools.results import build_mcp_answer
from mainspring.tools.structured_output import FOREIGN, explain_schema_failure

LARGEST_SCHEMA = 100_000  # characters of one schema: 30,000 tokens


def compile_input_schema(schema: dict[str, Any]) -> Schema:
    """What an input is checked against. Raises `UsageError`, with why the tool cannot be offered.

    Regular expressions are left to the server: they are in the dialect of another language, and one that takes for
    ever would stop us, not the server.
    """
    if schema.get("type") != "object":
        raise UsageError('its schema does not say \'"type": "object"\' at the top')
    for key in FOREIGN:
        if key in schema:
            raise UsageError(f"its schema has '{key}' at the top, which no model's service takes")
    try:
        size = len(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"its schema is no JSON: {error}") from None
    if size > LARGEST_SCHEMA:
        raise UsageError(f"its schema has {size:,} bytes; {LARGEST_SCHEMA:,} is the most")
    return Schema(without_patterns(schema))


def without_patterns(schema: Any, depth: int = 0) -> Any:
    """A name in `properties` may be 'pattern', too: that is no keyword."""
    if depth > 100 or not isinstance(schema, dict):
        return schema
    given = cast("dict[str, Any]", schema)
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key == "pattern" and isinstance(value, str):
            continue
        if key == "patternProperties" or (key == "additionalProperties" and "patternProperties" in given):
            continue
        found[key] = _inner(key, value, depth)
    return found


NAMED = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})  # names with schemas
LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
ONE = frozenset({"items", "additionalProperties", "not", "propertyNames", "contains", "if", "then", "else"})


def _inner(key: str, value: Any, depth: int) -> Any:
    if key in NAMED and isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        return {name: without_patterns(one, depth + 1) for name, one in inner.items()}
    if key in LISTS and isinstance(value, list):
        return [without_patterns(one, depth + 1) for one in cast("list[object]", value)]
    return without_patterns(value, depth + 1) if key in ONE else value


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
