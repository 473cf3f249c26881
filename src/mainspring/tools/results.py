"""Tool results on their way to the model: answers of MCP servers, replacements by hooks, and size limits.

The answer of a server is untrusted: each part is checked. Hooks see a result and can replace it (stream-json 10): a
built-in tool has a shape of its own, an MCP tool has content blocks. `fit_answer` shortens text to the tool's limit
(security P8) and replaces NUL characters, for every tool.
"""

from __future__ import annotations

import os
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from mainspring.core.messages import Content, Document, Image, Text
from mainspring.core.updates import Rendering
from mainspring.hooks.events import HookResult
from mainspring.processes.output import SpillFolder, both_ends
from mainspring.providers.projection import DOCUMENTS, IMAGES, replace_oversized_media
from mainspring.secrets.held import mask_secrets
from mainspring.text import plural
from mainspring.tools.base import Tool, ToolAnswer, Workspace, without_nul

NOTHING = "(nothing)"
MOST_PARTS = 200  # of one answer
MOST_MEDIA = 20  # images and documents of one answer
MOST_DATA = 100_000  # characters of structured content that are kept beside the text
MOST_NAMED = 300  # characters of an address or a name


def build_mcp_answer(result: dict[str, Any], line: str) -> ToolAnswer:
    parts: list[Content] = [
        part for given in as_objects(result.get("content"))[:MOST_PARTS] for part in parse_mcp_content(given)
    ]
    media = [part for part in parts if not isinstance(part, Text)]
    if len(media) > MOST_MEDIA:
        parts = [part for part in parts if isinstance(part, Text) or part in media[:MOST_MEDIA]]
        parts.append(Text(f"[{len(media) - MOST_MEDIA} more images and documents were left out.]"))
    structured = result.get("structuredContent")
    if not parts and structured is not None:
        parts = [Text(encode_value(structured))]
    data = structured if structured is not None and len(encode_value(structured)) <= MOST_DATA else None
    said = "\n".join([part.text for part in parts if isinstance(part, Text)])
    shown = Rendering(line, said, "output" if said else "text")
    return ToolAnswer(
        tuple(separate_texts(parts)) or (Text(NOTHING),), data, is_error=result.get("isError") is True, shown=shown
    )


def separate_texts(parts: list[Content]) -> list[Content]:
    """Separate consecutive texts: the model sees them as one."""
    found: list[Content] = []
    for part in parts:
        if found and isinstance(part, Text) and isinstance(found[-1], Text):
            found[-1] = Text(f"{found[-1].text}\n{part.text}")
        else:
            found.append(part)
    return found


def parse_mcp_content(given: dict[str, Any]) -> list[Content]:
    match given.get("type"):
        case "text":
            return [Text(clean_mcp_text(given.get("text")))]
        case "image":
            return [
                replace_oversized_media(Image(text_or_empty(given.get("mimeType")), text_or_empty(given.get("data"))))
            ]
        case "audio":
            return [Text(f"[Sound of the type '{one_line_name(given.get('mimeType'))}' was here: it cannot be shown.]")]
        case "resource":
            return parse_resource(given.get("resource"))
        case "resource_link":
            words = [one_line_name(given.get(key)) for key in ("name", "title", "description") if given.get(key)]
            return [Text(f"[A resource: {one_line_name(given.get('uri'))}{''.join([f'; {word}' for word in words])}]")]
        case kind:
            return [Text(f"[Content of the type '{one_line_name(kind)}' was here: it cannot be shown.]")]


def parse_resource(given: Any) -> list[Content]:
    if not isinstance(given, dict):
        return [Text("[A resource was here: it is damaged.]")]
    found = cast("dict[str, Any]", given)
    head = f"[The resource {one_line_name(found.get('uri'))}]"
    if isinstance(found.get("text"), str):
        return [Text(f"{head}\n{clean_mcp_text(found['text'])}")]
    kind, data = text_or_empty(found.get("mimeType")), text_or_empty(found.get("blob"))
    if kind in IMAGES:
        return [Text(head), replace_oversized_media(Image(kind, data))]
    if kind in DOCUMENTS:
        return [Text(head), replace_oversized_media(Document(kind, data))]
    return [
        Text(f"{head[:-1]}, of the type '{one_line_name(kind)}' and {len(data) // 4 * 3:,} bytes: it cannot be shown]")
    ]


def shorten_content(parts: tuple[Content, ...], most: int) -> tuple[Content, ...]:
    """Keep at most `most` characters of text, from the beginning. For content outside of tool results, which have their
    own limit."""
    found: list[Content] = []
    room = most
    for part in parts:
        if not isinstance(part, Text):
            found.append(part)
        elif room > 0:
            cut = len(part.text) - room
            more = f"\n[Cut: {plural(cut, 'more character')}.]" if cut > 0 else ""
            found.append(Text(part.text[:room] + more) if more else part)
            room -= len(part.text)
    return tuple(found)


# --- helpers --------------------------------------------------------------------------------------------------------


def as_objects(value: Any) -> list[dict[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def clean_mcp_text(value: Any) -> str:
    """Without NUL, as for all tools, and without lone surrogates, which no request can contain."""
    return without_nul(text_or_empty(value)).encode(errors="replace").decode()


def one_line_name(value: Any) -> str:
    """On one line, and short: for names within our own messages."""
    return " ".join(clean_mcp_text(value).split())[:MOST_NAMED]


def encode_value(value: Any) -> str:
    try:
        return clean_mcp_text(msgspec.json.encode(value).decode())
    except (TypeError, ValueError, RecursionError):
        return repr(value)[:MOST_DATA]


MCP = "mcp__"  # the prefix of every MCP tool's name (stream-json 11)
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
    """The output that hooks set for the model. None: unchanged."""
    if opinion.output is None and name.startswith(MCP):
        return opinion.mcp_output
    return opinion.output


def replacement_content(output: Any, tool: Tool) -> tuple[Content, ...]:
    """Convert to content for the model: text, the tool's own shape, blocks of an MCP tool, or any JSON."""
    if isinstance(output, str):
        return (Text(output),)
    if tool.wording is not None and (words := tool.wording(output)):
        return (Text(words),)
    if tool.name.startswith(MCP) and (parts := parse_block_contents(output)):
        return parts
    import json

    return (Text(json.dumps(output, ensure_ascii=False)),)


def parse_block_contents(output: Any) -> tuple[Content, ...]:
    """Parse blocks as in `tool_response` or as a server sends them; empty if it is not a list of blocks."""
    held: Any = cast("dict[str, Any]", output).get("content") if isinstance(output, dict) else output
    blocks = as_objects(held)
    if not blocks or len(blocks) < len(held) or not all(isinstance(one.get("type"), str) for one in blocks):
        return ()
    return tuple([part for one in blocks for part in parse_media(one) or parse_mcp_content(one)])


def parse_media(given: dict[str, Any]) -> list[Content]:
    """Parse media as in the Messages API, where the data is in a source. Empty for other shapes."""
    kind, source = KINDS.get(given["type"]), given.get("source")
    if kind is None or not isinstance(source, dict):
        return []
    held = cast("dict[str, Any]", source)
    return [replace_oversized_media(kind(str(held.get("media_type", "")), str(held.get("data", ""))))]


def fit_answer(made: ToolAnswer, most: int, place: Workspace, call_id: str) -> ToolAnswer:
    """Limit the answer to `most` characters of text, and replace NUL characters."""
    texts = [part.text for part in made.content if isinstance(part, Text)]
    if any("\0" in text for text in texts):
        made = replace(made, content=tuple([_readable(part) for part in made.content]))
    if sum(map(len, texts)) <= most:
        return made
    whole = made.text
    name = f"{call_id[:48]}-{os.urandom(4).hex()}"  # the model chooses the ids of calls, and they may repeat
    stored = SpillFolder(place.spill, mask_secrets).put(name, whole)
    head = most * 2 // 3  # the beginning of a text usually says what it is about
    others = tuple([part for part in made.content if not isinstance(part, Text)])
    return replace(made, content=(Text(both_ends(whole, most, stored, head=head)), *others))


MARKER = "reminder"
HIDDEN = "........"


def without_nonce(made: ToolAnswer, nonce: str) -> ToolAnswer:
    """A program that the model runs can read the session's file, and so can the model: their output must not pass for a
    reminder of ours. Only the nonce is altered, and only next to text that looks like a reminder (settled 39)."""
    if not nonce or not any(nonce in part.text for part in made.content if isinstance(part, Text)):
        return made
    if MARKER not in made.text.lower():
        return made
    content = [
        replace(part, text=part.text.replace(nonce, HIDDEN)) if isinstance(part, Text) else part
        for part in made.content
    ]
    return replace(made, content=tuple(content))


def _readable(part: Content) -> Content:
    return replace(part, text=without_nul(part.text)) if isinstance(part, Text) else part
