"""Tools of the program, offered by a server within it: `mcp__SERVER__TOOL` (stream-json 11).

    @tool("add", "Adds two numbers.", {"a": float, "b": float})
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    options = Options(mcp_servers={"sums": create_sdk_mcp_server("sums", tools=[add])}, allowed_tools=["mcp__sums"])

Simpler, and without a server: `@tool` on a typed function, and the function in `Options.tools`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mainspring.core.errors import UsageError
from mainspring.core.value import as_object_or_none
from mainspring.sdk.mcp_server import SdkMcpServer
from mainspring.sdk.typed_dicts import McpSdkServerConfig
from mainspring.tools.base import Tool
from mainspring.tools.custom import tool
from mainspring.tools.sdk_mcp_tool import SdkMcpTool, ToolAnnotations, json_schema

__all__ = ["McpSdkServerConfig", "SdkMcpTool", "ToolAnnotations", "create_sdk_mcp_server", "tool"]


def create_sdk_mcp_server(
    name: str, version: str = "1.0.0", tools: list[SdkMcpTool[Any]] | None = None
) -> McpSdkServerConfig:
    """An MCP server in this process, for `Options.mcp_servers`. `tool(name, description, schema)` makes its tools."""
    server = SdkMcpServer(name, version)
    for one in tools or ():
        check_tool(name, one)
        server.add(describe_sdk_tool(one), one.handler)
    return {"type": "sdk", "name": name, "instance": server}


def check_tool(server: str, one: object) -> None:
    if isinstance(one, Tool):
        raise UsageError(
            f"the server '{server}' has '{one.name}', which is a tool by itself: put it into 'Options.tools', or make "
            "it with 'tool(name, description, schema)'"
        )
    if not isinstance(one, SdkMcpTool):
        raise UsageError(f"the server '{server}' has {one!r}: make its tools with 'tool(name, description, schema)'")


def describe_sdk_tool(one: SdkMcpTool[Any]) -> dict[str, Any]:
    """As a server lists it."""
    shown: dict[str, Any] = {
        "name": one.name,
        "description": one.description,
        "inputSchema": json_schema(one.name, one.input_schema),
    }
    hints = hints_of(one.annotations)
    most = hints.pop("maxResultSizeChars", None)
    if hints:
        shown["annotations"] = hints
    if most is not None:
        shown["_meta"] = {"anthropic/maxResultSizeChars": most}
    return shown


def hints_of(given: Any) -> dict[str, Any]:
    """With the names of the protocol: from our class, a dict, or the class of the `mcp` package."""
    if given is None or given == {}:
        return {}
    of_others = getattr(given, "model_dump", None)
    said = of_others(by_alias=True) if of_others is not None else as_object_or_none(given) or asdict(given)
    return {name: value for name, value in said.items() if value is not None}
