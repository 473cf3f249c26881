"""Encode the parts of a conversation as JSON for OpenAI's two protocols.

Both share the rules for names, ids, arguments and images, and the texts for parts that they cannot express.

Chat completions: an assistant message is one object with three fields: thinking (if the server wants it back), text,
and calls, in this order. A result is a message of its own; user parts share one. So the bytes between two parts follow
from the forms of both:

    user     in the list of a user's message            `{"role":"user","content":[..`
    thought  in the string of the thinking              `{"role":"assistant","reasoning_content":"..`
    details  in the list of thinking details            `{"role":"assistant","reasoning_details":[..`
    text     in the string of the text                  `{"role":"assistant","content":"..`
    call     in the list of calls                       `{"role":"assistant","content":null,"tool_calls":[..`
    signed   in a call that has begun with a signature  `{"role":"assistant","content":null,"tool_calls":[{..,`
    answer   between messages: a result is complete     `{"role":"tool",..}`

Responses: a list of items. A text, thinking, a call and a result are items of their own. User parts share one, so
before a part it matters only whether such an item is still open: the forms are `user` and `item`. Thinking is sent back
as it came, encrypted. Its id and its content together are the signature.
"""

from __future__ import annotations

import zlib
from functools import partial

from mainspring.core.messages import Block, Content, Document, Image, Text, Thinking, ToolCall
from mainspring.providers.anthropic.json import NO_WORDS, encode_json_safely
from mainspring.providers.base import ToolSpec, WebSearchSpec
from mainspring.providers.message_order import REASONING, PlacedPart, PlacedToolResult, clean_tool_name, is_empty
from mainspring.providers.openai.quirks import FIELD, encode_details, has_details
from mainspring.providers.projection import Encode, replace_oversized_media

NAME_LENGTH = 64  # of a function, by OpenAI's own rule; an MCP tool's full name may be longer
ID_LENGTH = 40  # of a call, in chat completions; responses accept 64
FAILED = "[The call failed.]"  # no field for errors
NO_FILES = Text("[A document stood here. This server takes no documents.]")
FILE_NAME = "document.pdf"


def wire_name(name: str) -> str:
    return shorten_name(clean_tool_name(name), NAME_LENGTH) or "unknown"


def wire_id(call_id: str) -> str:
    return shorten_name(call_id, ID_LENGTH)


def shorten_name(name: str, most: int) -> str:
    """A unique name that is not longer than the limit."""
    if len(name) <= most:
        return name
    return f"{name[: most - 9]}_{zlib.crc32(name.encode()):08x}"


def encode_arguments(call: ToolCall) -> str:
    return encode_json_safely(call.input).decode()


def content_or_text(part: Content, *, files: bool) -> Content:
    """The part itself, or a text in its place."""
    if isinstance(part, Document) and not files:
        return NO_FILES
    return replace_oversized_media(part)


def data_url(part: Image | Document) -> str:
    return f"data:{part.media_type};base64,{part.data}"


def words_of(answer: PlacedToolResult) -> str:
    """A result as text. An error must be marked in the text."""
    text = "\n".join([part.text for part in answer.content if isinstance(part, Text) and not is_empty(part)])
    return f"{FAILED}\n{text or NO_WORDS}" if answer.is_error else text or NO_WORDS


def escape_json_string(text: str) -> bytes:
    """The inside of a JSON string: a string may be written in several pieces."""
    return encode_json_safely(text)[1:-1]


# Gemini signs the first call of each reply, and refuses one that comes back without its signature. For calls that it
# did not make, it accepts the placeholder from its documentation.
GOOGLE = "google "  # marks such a signature in our records
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
    """Also thinking that came in a field of its own: the signature is that field's name."""
    return chat_accepts_block(block) or (isinstance(block, Thinking) and block.signature in REASONING)


def signs_call(block: Block) -> bool:
    """Whether the block is only the signature of the next call."""
    return isinstance(block, Thinking) and block.signature.startswith(GOOGLE)


def make_chat_encoder(*, files: bool, signed: bool = False) -> Encode:
    return partial(encode_chat_part, files=files, signed=signed)


def encode_chat_part(placed: PlacedPart, before: str | None, *, files: bool, signed: bool = False) -> bytes:
    """`signed`: a reply's first call needs a signature, if necessary a placeholder."""
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
    """The end of the previous message."""
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


RESPONSES_CLOSE = {"user": b"]}", "item": b""}


def responses_form_of(placed: PlacedPart) -> str:
    return "user" if placed.role == "user" and not isinstance(placed.part, PlacedToolResult) else "item"


def responses_accepts_block(block: Block) -> bool:
    """Of thinking, accept only blocks that came as an item: the server cannot read other protocols' fields or
    signatures.
    """
    if isinstance(block, Thinking):
        return " " in block.signature and not signs_call(block) and not has_details(block)
    return isinstance(block, Text | ToolCall)


def make_responses_encoder(*, files: bool) -> Encode:
    return partial(encode_responses_part, files=files)


def encode_responses_part(placed: PlacedPart, before: str | None, *, files: bool) -> bytes:
    part = placed.part
    if responses_form_of(placed) == "user":
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
    return RESPONSES_CLOSE[before] + b"," if before is not None else b""


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
    """As plain text if there is nothing else: more servers accept that."""
    output: object = words_of(answer)
    media = [part for part in answer.content if not isinstance(part, Text)]
    if media:
        output = [{"type": "input_text", "text": output}, *[content_object(part, files=files) for part in media]]
    return {"type": "function_call_output", "call_id": wire_id(answer.call_id), "output": output}


def make_signature(item_id: str, encrypted: str) -> str:
    """Encrypted content is base64, so the blank can only be ours. It is present without an id, too: it marks an
    item.
    """
    return f"{item_id} {encrypted}" if encrypted else ""


def reasoning_object(thinking: Thinking) -> dict[str, object]:
    item_id, _, encrypted = thinking.signature.rpartition(" ")
    named = {"id": item_id} if item_id else {}
    summary = [{"type": "summary_text", "text": thinking.text}] if thinking.text else []
    return {"type": "reasoning", **named, "summary": summary, "encrypted_content": encrypted}


def responses_tool_json(tool: ToolSpec) -> bytes:
    """Not strict: strict mode allows no optional fields, and the protocol's default is strict."""
    if tool.search is not None:
        return encode_json_safely(search_object(tool.search))
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": tool.schema}
    return encode_json_safely({"type": "function", **function, "strict": False})


def search_object(search: WebSearchSpec) -> dict[str, object]:
    """The number of searches is limited by a parameter of the request: `max_tool_calls`."""
    filters = {"allowed_domains": search.allowed} if search.allowed else {"blocked_domains": search.blocked}
    return {"type": "web_search", **({"filters": filters} if search.allowed or search.blocked else {})}
