"""What OpenAI's two protocols write alike: names, ids, arguments, pictures, words for what they have no place for."""

from __future__ import annotations

import zlib

from mainspring.core.messages import Content, Document, Image, Text, ToolCall
from mainspring.providers.anthropic.json import NO_WORDS, encode_json_safely
from mainspring.providers.message_order import PlacedToolResult, clean_tool_name, is_empty
from mainspring.providers.projection import replace_oversized_media

NAME_LENGTH = 64  # of a function, by OpenAI's own rule; an MCP tool's full name may be longer
ID_LENGTH = 40  # of a call, in chat completions; responses take 64
FAILED = "[The call failed.]"  # no field says so
NO_FILES = Text("[A document stood here. This server takes no documents.]")
FILE_NAME = "document.pdf"


def wire_name(name: str) -> str:
    return shorten_name(clean_tool_name(name), NAME_LENGTH) or "unknown"


def wire_id(call_id: str) -> str:
    return shorten_name(call_id, ID_LENGTH)


def shorten_name(name: str, most: int) -> str:
    """Not longer than that, and still another one than every other."""
    if len(name) <= most:
        return name
    return f"{name[: most - 9]}_{zlib.crc32(name.encode()):08x}"


def encode_arguments(call: ToolCall) -> str:
    return encode_json_safely(call.input).decode()


def content_or_text(part: Content, *, files: bool) -> Content:
    """What stands for a part: itself, or words."""
    if isinstance(part, Document) and not files:
        return NO_FILES
    return replace_oversized_media(part)


def data_url(part: Image | Document) -> str:
    return f"data:{part.media_type};base64,{part.data}"


def words_of(answer: PlacedToolResult) -> str:
    """A result as text. That it is an error must be said in words."""
    text = "\n".join([part.text for part in answer.content if isinstance(part, Text) and not is_empty(part)])
    return f"{FAILED}\n{text or NO_WORDS}" if answer.is_error else text or NO_WORDS


def escape_json_string(text: str) -> bytes:
    """The inside of a JSON string: a string may be written in several pieces."""
    return encode_json_safely(text)[1:-1]
