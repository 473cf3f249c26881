"""A conversation put together again in the form of the Messages API, from messages or items of OpenAI's protocols.

Neighbours of one role become one message, so that a conversation reads the same whichever way it came, and replies
that were recorded over one protocol can be replayed over another.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mainspring.simulator.forms import is_object
from mainspring.simulator.received import Json
from mainspring.simulator.replies import make_text_block

_INLINE = re.compile(r"data:([^;]+);base64,(.*)", re.DOTALL)
CAPS = ("max_output_tokens", "max_completion_tokens", "max_tokens")
MARK: Json = {"cache_control": {"type": "ephemeral"}}


class ConversationBuilder:
    """Grows block by block."""

    def __init__(self) -> None:
        self.system: list[Json] = []
        self.messages: list[Json] = []

    def add(self, role: str, *blocks: Json) -> None:
        """OpenAI caches every prefix by itself, so each block is marked as one that a cached prefix may end with."""
        marked = [{**block, **MARK} for block in blocks]
        if role in ("system", "developer"):
            self.system += marked
        elif not marked:
            return
        elif self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += marked
        else:
            self.messages.append({"role": role, "content": marked})

    def body(self, asked: Json, tools: list[Json], settings: Json) -> Json:
        """The request, with its parameters. `settings` are those whose change empties the cache."""
        user = asked.get("safety_identifier") or asked.get("user")
        return {
            "model": asked["model"],
            "messages": self.messages,
            "stream": bool(asked.get("stream")),
            "max_tokens": next((asked[name] for name in CAPS if asked.get(name)), None),
            **({"system": self.system} if self.system else {}),
            **({"tools": [{**tool, **MARK} for tool in tools]} if tools else {}),
            **({"thinking": settings} if settings else {}),
            **({"metadata": {"user_id": user}} if user else {}),
        }


def parse_message_parts(content: Any) -> list[Json]:
    """What a message holds: text, images, documents; of both protocols."""
    if content is None:
        return []
    if isinstance(content, str):
        return [make_text_block(content)]
    return [block for part in content if (block := part_to_block(part)) is not None]


def part_to_block(part: Json) -> Json | None:
    match part["type"]:
        case "text" | "input_text" | "output_text":
            return make_text_block(part["text"])
        case "refusal":
            return make_text_block(part["refusal"])
        case "image_url":
            return make_image_block(part["image_url"]["url"])
        case "input_image":
            return make_image_block(part["image_url"])
        case "file":
            return make_document_block(part["file"]["file_data"])
        case "input_file":
            return make_document_block(part["file_data"])
        case _:
            return None


def make_image_block(address: str) -> Json:
    return {"type": "image", "source": make_source(address)}


def make_document_block(address: str) -> Json:
    return {"type": "document", "source": make_source(address)}


def make_source(address: str) -> Json:
    found = _INLINE.fullmatch(address)
    if found is None:
        return {"type": "url", "url": address}
    return {"type": "base64", "media_type": found[1], "data": found[2]}


def make_call_block(id: str, name: str, arguments: str) -> Json:
    try:
        decoded = msgspec.json.decode(arguments)
    except ValueError:
        decoded = None
    return {"type": "tool_use", "id": id, "name": name, "input": decoded if is_object(decoded) else {}}


def make_result_block(id: str, content: Any) -> Json:
    held = content if isinstance(content, str) else parse_message_parts(content)
    return {"type": "tool_result", "tool_use_id": id, "content": held}


def make_tool(function: Json) -> Json:
    return {
        "name": function["name"],
        "description": function.get("description") or "",
        "input_schema": function.get("parameters") or {"type": "object"},
    }
