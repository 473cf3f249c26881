"""`ListMcpResourcesTool` and `ReadMcpResourceTool`: what servers have to read, beside their tools. Offered where a
server says that it has any.

To list is to ask servers that the user chose for what they tell everybody. To read is another thing: the address is the
model's, a server may make a request of it, and so it is asked for like a fetch from the web, unless a rule allows it.
Nothing is kept: a list is asked for when somebody wants to see it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.mcp.base import McpListKind
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer
from mainspring.tools.results import as_objects, build_mcp_answer, one_line_name

if TYPE_CHECKING:
    from mainspring.mcp.server import McpServerConnection
    from mainspring.mcp.servers import McpServers

LIST, READ = "ListMcpResourcesTool", "ReadMcpResourceTool"
NAMES = (LIST, READ)
SHOWN = ("uri", "uriTemplate", "name", "title", "mimeType", "description")  # of a resource, as far as it has them


class ListResourcesInput(Input, frozen=True):
    server: Annotated[str, "Of this MCP server alone; else of all."] = ""


class ReadResourceInput(Input, frozen=True):
    server: Annotated[str, Meta(min_length=1), "The MCP server."]
    uri: Annotated[str, Meta(min_length=1, max_length=4_000), "As it is listed, or made by a template."]


def resource_tools(servers: McpServers) -> tuple[Tool, Tool]:
    async def listed(given: ListResourcesInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001  # every tool gets it
        asked = [servers.with_resources(given.server)] if given.server else servers.all_with_resources()
        found = await asyncio.gather(
            *[list_resource_lines(server) for server in asked], return_exceptions=not given.server
        )
        told: list[str] = []
        for server, one in zip(asked, found, strict=True):
            if isinstance(one, ToolError):
                told.append(str(one))
            elif isinstance(one, BaseException):
                raise one
            else:
                told += one or [f"The MCP server '{server.name}' has no resources now."]
        return make_answer("\n".join(told) or "No MCP server has resources.", shown=Rendering(list_line(given), ""))

    async def read(given: ReadResourceInput, calling: ToolContext) -> ToolAnswer:
        server = servers.with_resources(given.server)
        return read_answer(await server.read(given.uri, calling), read_line(given))

    return (
        Tool(
            name=LIST,
            about="List what MCP servers have to read: a line of JSON for each resource, or template of addresses.",
            input=ListResourcesInput,
            run=listed,
            read_only=True,
            summary=list_line,
        ),
        Tool(
            name=READ,
            about="Read a resource of an MCP server.",
            input=ReadResourceInput,
            run=read,
            concurrent=True,
            repeatable=True,
            summary=read_line,
        ),
    )


def list_line(given: ListResourcesInput) -> str:
    return f"List resources of {given.server or 'all MCP servers'}"


def read_line(given: ReadResourceInput) -> str:
    return f"Read {one_line_name(given.uri)} of {given.server}"


async def list_resource_lines(server: McpServerConnection) -> list[str]:
    """A server that knows no templates may refuse to list them, and one that has them alone may refuse the others."""
    found = await asyncio.gather(*[one_list(server, sort) for sort in (McpListKind.RESOURCES, McpListKind.TEMPLATES)])
    (resources, wrong), (templates, also_wrong) = found
    if wrong is not None and (also_wrong is not None or not templates):
        raise wrong
    return [*resources, *templates]


async def one_list(server: McpServerConnection, sort: McpListKind) -> tuple[list[str], ToolError | None]:
    try:
        found, more = await server.resources(sort)
    except ToolError as error:
        return [], error
    rows = [msgspec.json.encode({"server": server.name, **shown_resource_fields(one)}).decode() for one in found]
    if more:
        rows.append(f"[The MCP server '{server.name}' has more: the first {len(found):,} are here.]")
    return rows, None


def shown_resource_fields(resource: dict[str, Any]) -> dict[str, str]:
    return {key: words for key in SHOWN if (words := one_line_name(resource.get(key)))}


def read_answer(result: dict[str, Any], line: str) -> ToolAnswer:
    """Text and images as they are; what cannot be shown is named with its size."""
    found = as_objects(result.get("contents"))
    if not found:
        raise ToolError("The resource is empty: the MCP server answered with no contents.")
    return build_mcp_answer({"content": [{"type": "resource", "resource": one} for one in found]}, line)
