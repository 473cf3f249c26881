"""What a server answered to a call, as the model gets it. The answer is somebody else's: nothing in it is believed."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from mainspring.core.messages import Content, Document, Image, Text
from mainspring.core.updates import Rendering
from mainspring.providers.projection import DOCUMENTS, IMAGES, replace_oversized_media
from mainspring.tools.base import ToolAnswer, without_nul

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
    """Texts that follow each other are told apart: for the model they are one."""
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
            return [
                Text(f"[Sound of the type '{one_line_name(given.get('mimeType'))}' stood here: it cannot be shown.]")
            ]
        case "resource":
            return parse_resource(given.get("resource"))
        case "resource_link":
            words = [one_line_name(given.get(key)) for key in ("name", "title", "description") if given.get(key)]
            return [Text(f"[A resource: {one_line_name(given.get('uri'))}{''.join([f'; {word}' for word in words])}]")]
        case kind:
            return [Text(f"[Content of the type '{one_line_name(kind)}' stood here: it cannot be shown.]")]


def parse_resource(given: Any) -> list[Content]:
    if not isinstance(given, dict):
        return [Text("[A resource stood here: it is damaged.]")]
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
    """With so many characters of text at most, from the beginning. For what no call brings, which has its own limit."""
    found: list[Content] = []
    room = most
    for part in parts:
        if not isinstance(part, Text):
            found.append(part)
        elif room > 0:
            cut = len(part.text) - room
            more = f"\n[Cut: {cut:,} more characters stood here.]" if cut > 0 else ""
            found.append(Text(part.text[:room] + more) if more else part)
            room -= len(part.text)
    return tuple(found)


# --- small things ---------------------------------------------------------------------------------------------------


def as_objects(value: Any) -> list[dict[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def clean_mcp_text(value: Any) -> str:
    """Without NUL, as all tools have it, and without half characters, which no request can hold."""
    return without_nul(text_or_empty(value)).encode(errors="replace").decode()


def one_line_name(value: Any) -> str:
    """In one line, and not long: for what stands within our own words."""
    return " ".join(clean_mcp_text(value).split())[:MOST_NAMED]


def encode_value(value: Any) -> str:
    try:
        return clean_mcp_text(msgspec.json.encode(value).decode())
    except (TypeError, ValueError, RecursionError):
        return repr(value)[:MOST_DATA]
