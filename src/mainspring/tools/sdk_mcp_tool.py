"""A tool for a server within the program, as `claude-agent-sdk` has it: a name, a description, a schema, and a function
that gets a dict. `tool(name, description, schema)` makes it, `mainspring.sdk.create_sdk_mcp_server` takes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from mainspring.core.errors import UsageError
from mainspring.core.value import as_object_or_none
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
    """A tool of an MCP server in this process, made by `tool(name, description, schema)`."""

    name: str
    description: str
    input_schema: type[T] | dict[str, Any]
    handler: Handler
    annotations: Any = None


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
