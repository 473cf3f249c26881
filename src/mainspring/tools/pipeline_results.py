"""What hooks see of a result, and what they put in its place (stream-json 10): a tool of ours has a shape of its own,
one of an MCP server has blocks of content.
"""

from __future__ import annotations

from typing import Any, cast

from mainspring.core.messages import Content, Document, Image, Text
from mainspring.hooks.events import HookResult
from mainspring.tools.base import Tool, ToolAnswer

MCP = "mcp__"  # begins the name of every tool of a server (stream-json 11)
KINDS: dict[str, type[Image | Document]] = {"image": Image, "document": Document}


def tool_response(made: ToolAnswer, name: str) -> Any:
    if name.startswith(MCP):
        return [content_to_block(part) for part in made.content]
    return made.text if made.data is None else made.data


def content_to_block(part: Content) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": type(part).__name__.lower(), "source": source}


def output_of(opinion: HookResult, name: str) -> Any:
    """What hooks want the model to see. None: what there is."""
    if opinion.output is None and name.startswith(MCP):
        return opinion.mcp_output
    return opinion.output


def replacement_content(output: Any, tool: Tool) -> tuple[Content, ...]:
    """As the model gets it: text, what the tool itself returns, blocks of a server's tool, or any JSON."""
    if isinstance(output, str):
        return (Text(output),)
    if tool.wording is not None and (words := tool.wording(output)):
        return (Text(words),)
    if tool.name.startswith(MCP) and (parts := parse_block_contents(output)):
        return parts
    import json

    return (Text(json.dumps(output, ensure_ascii=False)),)


def parse_block_contents(output: Any) -> tuple[Content, ...]:
    """Of blocks, as `tool_response` shows them or as a server sends them; nothing, if it is no list of such."""
    from mainspring.tools.results import as_objects, parse_mcp_content  # loaded: its tool has run

    held: Any = cast("dict[str, Any]", output).get("content") if isinstance(output, dict) else output
    blocks = as_objects(held)
    if not blocks or len(blocks) < len(held) or not all(isinstance(one.get("type"), str) for one in blocks):
        return ()
    return tuple([part for one in blocks for part in parse_media(one) or parse_mcp_content(one)])


def parse_media(given: dict[str, Any]) -> list[Content]:
    """As the model's service has them, where the data stands in a source. Nothing, if it is something else."""
    kind, source = KINDS.get(given["type"]), given.get("source")
    if kind is None or not isinstance(source, dict):
        return []
    from mainspring.providers.projection import replace_oversized_media

    held = cast("dict[str, Any]", source)
    return [replace_oversized_media(kind(str(held.get("media_type", "")), str(held.get("data", ""))))]
