"""The parts of a conversation as JSON of OpenAI's chat completions.

A message of the model is one object with three fields: what it thought (where a server wants that back), its text, and
its calls, in this order. A result is a message of its own; parts of users share one. So what must be closed before a
part, and opened for it, follows from the forms of the two:

    user     in the list of a user's message            `{"role":"user","content":[..`
    thought  in the string of what the model thought    `{"role":"assistant","reasoning_content":"..`
    details  in the list of what is known of that       `{"role":"assistant","reasoning_details":[..`
    text     in the string of its text                  `{"role":"assistant","content":"..`
    call     in the list of its calls                   `{"role":"assistant","content":null,"tool_calls":[..`
    signed   in a call that has begun with a signature  `{"role":"assistant","content":null,"tool_calls":[{..,`
    answer   between messages: a result is complete     `{"role":"tool",..}`
"""

from __future__ import annotations

from functools import partial

from mainspring.core.messages import Block, Content, Document, Image, Text, Thinking, ToolCall
from mainspring.providers.anthropic.json import encode_json_safely
from mainspring.providers.base import ToolSpec
from mainspring.providers.message_order import REASONING, PlacedPart, PlacedToolResult
from mainspring.providers.openai.json import (
    FILE_NAME,
    content_or_text,
    data_url,
    encode_arguments,
    escape_json_string,
    wire_id,
    wire_name,
    words_of,
)
from mainspring.providers.openai.openai_details import FIELD, encode_details, has_details
from mainspring.providers.projection import Encode

# Gemini signs the first call of each reply, and refuses one that comes back without it. What its documentation names
# for calls that it did not make itself is accepted in place of a signature.
GOOGLE = "google "  # before such a signature, in ours
UNSIGNED = "skip_thought_signature_validator"
PARAGRAPH = escape_json_string("\n\n")  # between two texts of one message

CLOSE = {"user": b"]}", "thought": b'"}', "details": b"]}", "text": b'"}', "call": b"]}", "answer": b""}


def form_of(placed: PlacedPart) -> str:
    part = placed.part
    if isinstance(part, PlacedToolResult):
        return "answer"
    if placed.role == "user":
        return "user"
    if isinstance(part, ToolCall):
        return "call"
    if isinstance(part, Thinking):
        return "signed" if signs_call(part) else "details" if has_details(part) else "thought"
    return "text"


def chat_accepts_block(block: Block) -> bool:
    return isinstance(block, Text | ToolCall) or signs_call(block) or has_details(block)


def takes_reasoning(block: Block) -> bool:
    """Also what the model thought, if it came in a field of its own: the signature is that field's name."""
    return chat_accepts_block(block) or (isinstance(block, Thinking) and block.signature in REASONING)


def signs_call(block: Block) -> bool:
    """Whether it is nothing but the signature of the call behind it."""
    return isinstance(block, Thinking) and block.signature.startswith(GOOGLE)


def make_chat_encoder(*, files: bool, signed: bool = False) -> Encode:
    return partial(encode_chat_part, files=files, signed=signed)


def encode_chat_part(placed: PlacedPart, before: str | None, *, files: bool, signed: bool = False) -> bytes:
    """`signed`: a reply's first call has a signature, if need be one that is none."""
    part, form = placed.part, form_of(placed)
    if isinstance(part, PlacedToolResult):
        return close_message(before) + answer_json(part)
    if form == "user":
        assert isinstance(part, Text | Image | Document)
        return (b"," if before == "user" else close_message(before) + b'{"role":"user","content":[') + content_json(
            part, files
        )
    if isinstance(part, ToolCall):
        if before == "signed":
            return call_json(part)[1:]
        sign = signed and before != "call"
        return open_tool_calls(before) + (signature_json(UNSIGNED) + call_json(part)[1:] if sign else call_json(part))
    if form == "signed":
        assert isinstance(part, Thinking)
        return open_tool_calls(before) + signature_json(part.signature.removeprefix(GOOGLE))
    if form == "details":
        assert isinstance(part, Thinking)
        opened = b"," if before == form else close_message(before) + b'{"role":"assistant","' + FIELD.encode() + b'":['
        return opened + encode_details(part)
    if isinstance(part, Thinking):
        field = part.signature.encode()
        return (
            PARAGRAPH if before == form else close_message(before) + b'{"role":"assistant","' + field + b'":"'
        ) + escape_json_string(part.text)
    assert isinstance(part, Text), f"{part} has no place in a chat"
    return open_text(before) + escape_json_string(part.text)


def close_message(before: str | None) -> bytes:
    """The end of the message before."""
    return CLOSE[before] + b"," if before is not None else b""


def open_tool_calls(before: str | None) -> bytes:
    if before == "call":
        return b","
    if before == "text":
        return b'","tool_calls":['
    if before == "thought":
        return b'","content":null,"tool_calls":['
    if before == "details":
        return b'],"content":null,"tool_calls":['
    return close_message(before) + b'{"role":"assistant","content":null,"tool_calls":['


def open_text(before: str | None) -> bytes:
    if before == "text":
        return PARAGRAPH
    if before == "thought":
        return b'","content":"'
    if before == "details":
        return b'],"content":"'
    return close_message(before) + b'{"role":"assistant","content":"'


def content_json(part: Content, files: bool) -> bytes:
    part = content_or_text(part, files=files)
    if isinstance(part, Text):
        return encode_json_safely({"type": "text", "text": part.text})
    if isinstance(part, Image):
        return encode_json_safely({"type": "image_url", "image_url": {"url": data_url(part)}})
    return encode_json_safely({"type": "file", "file": {"filename": FILE_NAME, "file_data": data_url(part)}})


def signature_json(signature: str) -> bytes:
    """The beginning of a call."""
    return encode_json_safely({"extra_content": {"google": {"thought_signature": signature}}})[:-1] + b","


def call_json(call: ToolCall) -> bytes:
    function = {"name": wire_name(call.name), "arguments": encode_arguments(call)}
    return encode_json_safely({"id": wire_id(call.id), "type": "function", "function": function})


def answer_json(answer: PlacedToolResult) -> bytes:
    return encode_json_safely({"role": "tool", "tool_call_id": wire_id(answer.call_id), "content": words_of(answer)})


def tool_json(tool: ToolSpec) -> bytes:
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": tool.schema}
    return encode_json_safely({"type": "function", "function": function})


def system_json(text: str) -> bytes:
    return encode_json_safely({"role": "system", "content": text})
