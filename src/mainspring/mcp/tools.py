"""A tool of an MCP server as a `Tool`, and its input schema.

A server's claims about its own tools grant nothing: `readOnlyHint` lets calls run side by side, but calls need
permission as for any other tool. `compile_input_schema` decides whether a tool can be offered, and checks inputs.
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
    """The schema that inputs are checked against. Raises `UsageError` with the reason why the tool cannot be offered.

    The server checks regular expressions: they are in another language's dialect, and one that never ends would block
    mainspring instead of the server.
    """
    if schema.get("type") != "object":
        raise UsageError('its schema does not say \'"type": "object"\' at the top')
    for key in FOREIGN:
        if key in schema:
            raise UsageError(f"its schema has '{key}' at the top, which no model API accepts")
    try:
        size = len(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"its schema is not valid JSON: {error}") from None
    if size > LARGEST_SCHEMA:
        raise UsageError(f"its schema has {size:,} bytes, the limit is {LARGEST_SCHEMA:,}")
    return Schema(without_patterns(schema))


def without_patterns(schema: Any, depth: int = 0) -> Any:
    """A name in `properties` may also be 'pattern': that is not a keyword."""
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


SIZE = "anthropic/maxResultSizeChars"  # the size that a server asks for in `_meta`,
LARGEST = 500_000  # and the most that it gets: half a window
LONGEST_LINE = 80  # characters of the line about a call


class McpTool(Tool, frozen=True, kw_only=True, gc=True):
    """The input stays a dict, and is checked against the server's current schema."""

    server: McpServerConnection
    listed: ListedTool  # as it was sent to the model
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
        """Characters that are sent to the model."""
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
    """A server may ask for a larger limit, never for a smaller one."""
    wanted = listed.meta.get(SIZE)
    return max(MOST_SHOWN, min(wanted, LARGEST)) if type(wanted) is int else MOST_SHOWN


def _understood(listed: ListedTool) -> Schema | None:
    try:
        return compile_input_schema(listed.schema)
    except UsageError:
        return None


def _shown(listed: ListedTool) -> str:
    return msgspec.json.encode(listed.schema).decode()
