"""The parts of a conversation as JSON of OpenAI's Responses: a list of items.

A text of the model, what it thought, a call and a result are items of their own. Parts of users share one, so before a
part it matters only whether such an item is still open: the forms are `user` and `item`.

What the model thought is sent back as it came, encrypted. Its id and its content together are the signature.
"""

from __future__ import annotations

from functools import partial

from mainspring.core.messages import Block, Content, Document, Image, Text, Thinking, ToolCall
from mainspring.providers.anthropic.json import encode_json_safely
from mainspring.providers.base import ToolSpec
from mainspring.providers.message_order import PlacedPart, PlacedToolResult
from mainspring.providers.openai.json import (
    FILE_NAME,
    content_or_text,
    data_url,
    encode_arguments,
    wire_id,
    wire_name,
    words_of,
)
from mainspring.providers.openai.openai_chat_json import signs_call
from mainspring.providers.openai.openai_details import has_details
from mainspring.providers.projection import Encode

CLOSE = {"user": b"]}", "item": b""}


def form_of(placed: PlacedPart) -> str:
    return "user" if placed.role == "user" and not isinstance(placed.part, PlacedToolResult) else "item"


def responses_accepts_block(block: Block) -> bool:
    """Of what was thought, only what came as an item: the server can read no other protocol's field or signature."""
    if isinstance(block, Thinking):
        return " " in block.signature and not signs_call(block) and not has_details(block)
    return isinstance(block, Text | ToolCall)


def make_responses_encoder(*, files: bool) -> Encode:
    return partial(encode_responses_part, files=files)


def encode_responses_part(placed: PlacedPart, before: str | None, *, files: bool) -> bytes:
    part = placed.part
    if form_of(placed) == "user":
        assert isinstance(part, Text | Image | Document)
        begin = b"," if before == "user" else close_item(before) + b'{"type":"message","role":"user","content":['
        return begin + encode_json_safely(content_object(part, files=files))
    if isinstance(part, PlacedToolResult):
        return close_item(before) + encode_json_safely(answer_object(part, files=files))
    if isinstance(part, ToolCall):
        return close_item(before) + encode_json_safely(call_object(part))
    if isinstance(part, Thinking):
        return close_item(before) + encode_json_safely(reasoning_object(part))
    assert isinstance(part, Text), f"{part} has no place among the items"
    return close_item(before) + encode_json_safely({"type": "message", "role": "assistant", "content": part.text})


def close_item(before: str | None) -> bytes:
    return CLOSE[before] + b"," if before is not None else b""


def content_object(part: Content, *, files: bool) -> dict[str, object]:
    part = content_or_text(part, files=files)
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": data_url(part)}
    return {"type": "input_file", "filename": FILE_NAME, "file_data": data_url(part)}


def call_object(call: ToolCall) -> dict[str, object]:
    named = {"call_id": wire_id(call.id), "name": wire_name(call.name)}
    return {"type": "function_call", **named, "arguments": encode_arguments(call)}


def answer_object(answer: PlacedToolResult, *, files: bool) -> dict[str, object]:
    """As plain text where there is nothing else: more servers take that."""
    output: object = words_of(answer)
    media = [part for part in answer.content if not isinstance(part, Text)]
    if media:
        output = [{"type": "input_text", "text": output}, *[content_object(part, files=files) for part in media]]
    return {"type": "function_call_output", "call_id": wire_id(answer.call_id), "output": output}


def make_signature(item_id: str, encrypted: str) -> str:
    """Encrypted content is base64, so the blank can only be ours. It is there without an id, too: by it we know later
    that this was an item."""
    return f"{item_id} {encrypted}" if encrypted else ""


def reasoning_object(thinking: Thinking) -> dict[str, object]:
    item_id, _, encrypted = thinking.signature.rpartition(" ")
    named = {"id": item_id} if item_id else {}
    summary = [{"type": "summary_text", "text": thinking.text}] if thinking.text else []
    return {"type": "reasoning", **named, "summary": summary, "encrypted_content": encrypted}


def tool_json(tool: ToolSpec) -> bytes:
    """Not strict: that allows no optional fields, and it is what the protocol takes for granted."""
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": tool.schema}
    return encode_json_safely({"type": "function", **function, "strict": False})
