"""The parts of a conversation as JSON of OpenAI's chat completions.

A message of the model is one object with three fields: what it thought (where a server wants that back), its text, and
its calls, in this order. A result is a message of its own; parts of users share one. So what must be closed before a
part, and opened for it, follows from the forms of the two:

    user     in the list of a user's message            `{"role":"user","content":[..`
    thought  in the string of what the model thought    `{"role":"assistant","reasoning_content":"..`
    text     in the string of its text                  `{"role":"assistant","content":"..`
    call     in the list of its calls                   `{"role":"assistant","content":null,"tool_calls":[..`
    answer   between messages: a result is complete     `{"role":"tool",..}`
"""

from __future__ import annotations

from functools import partial

from mainspring.core.messages import Block, Content, Document, Image, Text, Thinking, ToolCall
from mainspring.providers.anthropic_json import as_bytes
from mainspring.providers.base import ToolSpec
from mainspring.providers.openai_json import (
    FILE_NAME,
    address,
    arguments,
    in_string,
    shown,
    wire_id,
    wire_name,
    words_of,
)
from mainspring.providers.placing import Answer, Placed
from mainspring.providers.projection import Encode

REASONING = ("reasoning_content", "reasoning")  # the fields in which servers send what a model thinks
PARAGRAPH = in_string("\n\n")  # between two texts of one message

CLOSE = {"user": b"]}", "thought": b'"}', "text": b'"}', "call": b"]}", "answer": b""}


def form_of(placed: Placed) -> str:
    part = placed.part
    if isinstance(part, Answer):
        return "answer"
    if placed.role == "user":
        return "user"
    if isinstance(part, ToolCall):
        return "call"
    return "thought" if isinstance(part, Thinking) else "text"


def takes(block: Block) -> bool:
    return isinstance(block, Text | ToolCall)


def takes_reasoning(block: Block) -> bool:
    """Also what the model thought, if it came in a field of its own: the signature is that field's name."""
    return isinstance(block, Text | ToolCall) or (isinstance(block, Thinking) and block.signature in REASONING)


def encoding(*, files: bool) -> Encode:
    return partial(encode, files=files)


def encode(placed: Placed, before: str | None, *, files: bool) -> bytes:
    part, form = placed.part, form_of(placed)
    if isinstance(part, Answer):
        return ended(before) + answer_json(part)
    if form == "user":
        assert isinstance(part, Text | Image | Document)
        return (b"," if before == "user" else ended(before) + b'{"role":"user","content":[') + content_json(part, files)
    if isinstance(part, ToolCall):
        return to_calls(before) + call_json(part)
    if isinstance(part, Thinking):
        field = part.signature.encode()
        return (PARAGRAPH if before == form else ended(before) + b'{"role":"assistant","' + field + b'":"') + in_string(
            part.text
        )
    assert isinstance(part, Text), f"{part} has no place in a chat"
    return to_text(before) + in_string(part.text)


def ended(before: str | None) -> bytes:
    """The end of the message before."""
    return CLOSE[before] + b"," if before is not None else b""


def to_calls(before: str | None) -> bytes:
    if before == "call":
        return b","
    if before == "text":
        return b'","tool_calls":['
    if before == "thought":
        return b'","content":null,"tool_calls":['
    return ended(before) + b'{"role":"assistant","content":null,"tool_calls":['


def to_text(before: str | None) -> bytes:
    if before == "text":
        return PARAGRAPH
    if before == "thought":
        return b'","content":"'
    return ended(before) + b'{"role":"assistant","content":"'


def content_json(part: Content, files: bool) -> bytes:
    part = shown(part, files=files)
    if isinstance(part, Text):
        return as_bytes({"type": "text", "text": part.text})
    if isinstance(part, Image):
        return as_bytes({"type": "image_url", "image_url": {"url": address(part)}})
    return as_bytes({"type": "file", "file": {"filename": FILE_NAME, "file_data": address(part)}})


def call_json(call: ToolCall) -> bytes:
    function = {"name": wire_name(call.name), "arguments": arguments(call)}
    return as_bytes({"id": wire_id(call.id), "type": "function", "function": function})


def answer_json(answer: Answer) -> bytes:
    return as_bytes({"role": "tool", "tool_call_id": wire_id(answer.call_id), "content": words_of(answer)})


def tool_json(tool: ToolSpec) -> bytes:
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": tool.schema}
    return as_bytes({"type": "function", "function": function})


def system_json(text: str) -> bytes:
    return as_bytes({"role": "system", "content": text})
