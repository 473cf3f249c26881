"""Pieces of requests in the API's own form, and requests that are right."""

from __future__ import annotations

import base64
from typing import Any

Json = dict[str, Any]

ADAPTIVE = "claude-sonnet-5-5"
BUDGETED = "claude-haiku-4-5"
DISABLING = "claude-sonnet-5"  # thinks, and may be told not to
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n, and so on").decode()
PAPER = base64.b64encode(b"%PDF-1.7 << /Type /Pages >> << /Type /Page >> << /Type/Page >>").decode()


def text(words: str = "Hello.", **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def thought(model: str = ADAPTIVE, **more: Any) -> Json:
    return {"type": "thinking", "thinking": "Hm.", "signature": f"sig:{model}:1", **more}


def redacted() -> Json:
    return {"type": "redacted_thinking", "data": "b3BhcXVl"}


def call(id: str = "toolu_1", name: str = "Read", **more: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": {"file_path": "a.py"}, **more}


def result(id: str = "toolu_1", content: Any = "x = 1", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def image(data: str = PIXEL, media_type: str = "image/png") -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def paper(data: str = PAPER, media_type: str = "application/pdf") -> Json:
    return {"type": "document", "source": {"type": "base64", "media_type": media_type, "data": data}}


def searched(id: str = "srvtoolu_1", name: str = "web_search") -> Json:
    return {"type": "server_tool_use", "id": id, "name": name, "input": {"query": "weather"}}


def pages(id: str = "srvtoolu_1", kind: str = "web_search_tool_result") -> Json:
    page = {"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "e30="}
    return {"type": kind, "tool_use_id": id, "content": [page]}


def user(*content: Json | str) -> Json:
    return {"role": "user", "content": said(content)}


def assistant(*content: Json | str) -> Json:
    return {"role": "assistant", "content": said(content)}


def said(content: tuple[Json | str, ...]) -> Any:
    return content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)


def tool(name: str = "Read", **more: Any) -> Json:
    schema = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}
    return {"name": name, "description": "Reads a file.", "input_schema": schema, **more}


def ask(*messages: Json, **more: Any) -> Json:
    """A whole request."""
    return {"model": ADAPTIVE, "max_tokens": 1_000, "messages": list(messages or [user("Hello.")]), **more}


def mark(ttl: str | None = None) -> Json:
    return {"cache_control": {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}}


def budget(tokens: int = 2_000) -> Json:
    return {"model": BUDGETED, "max_tokens": 4_000, "thinking": {"type": "enabled", "budget_tokens": tokens}}
