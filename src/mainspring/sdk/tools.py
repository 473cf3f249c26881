"""Tools of the program, offered by a server within it: `mcp__SERVER__TOOL` (stream-json 11).

    @tool("add", "Adds two numbers.", {"a": float, "b": float})
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    options = Options(mcp_servers={"sums": create_sdk_mcp_server("sums", tools=[add])}, allowed_tools=["mcp__sums"])

Simpler, and without a server: `mainspring.tool` on a typed function, and the function in `Options.tools`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypedDict, TypeVar

import msgspec

from mainspring.core.errors import UsageError
from mainspring.core.value import as_object_or_none
from mainspring.sdk.mcp_server import SdkMcpServer
from mainspring.tools.json_type import JsonType

T = TypeVar("T")
Handler = Callable[[Any], Awaitable[dict[str, Any]]]


@dataclass
class ToolAnnotations:
    """Hints about a tool for permission decisions. They are the program's claims."""

    title: str | None = None
    readOnlyHint: bool | None = None  # noqa: N815
    destructiveHint: bool | None = None  # noqa: N815
    idempotentHint: bool | None = None  # noqa: N815
    openWorldHint: bool | None = None  # noqa: N815
    maxResultSizeChars: int | None = None  # noqa: N815


@dataclass
class SdkMcpTool(Generic[T]):
    name: str
    description: str
    input_schema: type[T] | dict[str, Any]
    handler: Handler
    annotations: Any = None


class McpSdkServerConfig(TypedDict):
    type: str
    name: str
    instance: Any


def tool(
    name: str, description: str, input_schema: type | dict[str, Any], annotations: Any = None
) -> Callable[[Handler], SdkMcpTool[Any]]:
    """`input_schema`: names and their types, a TypedDict, or JSON Schema."""
    json_schema(name, input_schema)  # raises if it is invalid

    def made(handler: Handler) -> SdkMcpTool[Any]:
        return SdkMcpTool(name, description, input_schema, handler, annotations)

    return made


def create_sdk_mcp_server(
    name: str, version: str = "1.0.0", tools: list[SdkMcpTool[Any]] | None = None
) -> McpSdkServerConfig:
    server = SdkMcpServer(name, version)
    for one in tools or ():
        check_tool(name, one)
        server.add(describe_sdk_tool(one), one.handler)
    return {"type": "sdk", "name": name, "instance": server}


def check_tool(server: str, one: object) -> None:
    if not isinstance(one, SdkMcpTool):
        raise UsageError(f"the server '{server}' has {one!r}: make its tools with 'mainspring.sdk.tool'")


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


def json_schema(tool: str, given: Any) -> dict[str, Any]:
    """A string among the types is refused: as an annotation it would be evaluated as Python, whatever the schema's
    source.
    """
    known = as_object_or_none(given)
    if known is not None and known.get("type") == "object":
        return known if "properties" in known else {**known, "properties": {}}
    if known is not None and any(isinstance(kind, str) for kind in known.values()):
        raise UsageError(f"the input of the tool '{tool}' is not a JSON Schema of an object, and has strings for types")
    try:
        fields: list[Any] = [*known.items()] if known is not None else []
        made = JsonType(given if known is None else msgspec.defstruct("Input", fields), "its type").schema
    except (TypeError, NameError, UsageError) as error:
        raise UsageError(f"the input of the tool '{tool}' cannot be described: {error}") from None
    if made.get("type") != "object":
        raise UsageError(f"the input of the tool '{tool}' is not an object: use names and types, or a TypedDict")
    return made
