"""OpenAI's errors: bodies, statuses, headers and messages; and the conversion of its conversations to the Messages API.

Statuses and codes are as documented on developers.openai.com, read on 2026-11-15; messages as users have reported them.

`ConversationBuilder` joins neighbours of one role, so that a conversation is the same over every protocol, and replies
that were recorded over one protocol can be replayed over another.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
from msgspec.json import encode
from msgspec.structs import replace

from mainspring.simulator.forms import Violation, is_object
from mainspring.simulator.protocol import RefusalResponse
from mainspring.simulator.replies import Json, Refuse, make_text_block

# --- invalid requests ---------------------------------------------------------------------------------------

# Errors of the form: the code, and how the message begins. The details follow.
OF_FORM: dict[str, tuple[str, str]] = {
    "fields.unknown": ("unknown_parameter", "Unknown parameter: '{}'."),
    "fields.missing": ("missing_required_parameter", "Missing required parameter: '{}'."),
    "fields.type": ("invalid_type", "Invalid type for '{}'. {}."),
    "fields.value": ("invalid_value", "Invalid value for '{}'. {}."),
    "fields.kind": ("invalid_value", "Invalid value for '{}'. {}."),
}
# The code of a rule; most have none.
CODES = {
    "reasoning.model": "invalid_encrypted_content",
    "previous.known": "previous_response_not_found",
    "tools.schema": "invalid_function_parameters",
    "tools.strict": "invalid_function_parameters",
    "sampling.model": "unsupported_parameter",
    "max_tokens.model": "unsupported_parameter",
    "call.id_length": "string_above_max_length",
    "messages.some": "empty_array",
}


def param_of(path: str) -> str:
    """`messages.1.content.0` in OpenAI's notation: `messages[1].content[0]`."""
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", path)


def violation_to_error(violation: Violation) -> Refuse:
    param = param_of(violation.path)
    if violation.rule == "body.size":
        return Refuse(413, "invalid_request_error", violation.message, code="request_too_large")
    code, words = OF_FORM.get(violation.rule, (CODES.get(violation.rule, NO_CODE), "{1}"))
    return Refuse(400, "invalid_request_error", words.format(param, violation.message), code=code, param=param)


# --- refusals that a script or a fault gives in Anthropic's format -------------------------------------------

NO_CODE = "null"  # encoded as null


class ErrorShape(NamedTuple):
    type: str  # in the script
    begins: str  # in its message
    status: int
    written: str  # the type on the wire
    code: str
    message: str = ""  # empty: as in the script


MOST = 10_000
LIMITS = {
    "x-ratelimit-limit-requests": str(MOST),
    "x-ratelimit-remaining-requests": str(MOST - 1),
    "x-ratelimit-reset-requests": "6ms",
}
USED_UP = {**LIMITS, "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s"}
_SIGNATURE = "messages.1.content.0: Invalid `signature`"
_ENCRYPTED = "The encrypted content for item rs_1 could not be verified."
_IMAGE = "You uploaded an unsupported image. Please make sure your image is valid."
_BUSY = "The server is currently overloaded with other requests. Sorry about that! Please try again later."
_SORRY = "The server had an error while processing your request. Sorry about that!"

ROWS = (
    ErrorShape("rate_limit_error", "", 429, "requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    ErrorShape("overloaded_error", "", 503, "service_unavailable_error", "server_is_overloaded", _BUSY),
    ErrorShape("api_error", "", 500, "server_error", NO_CODE, _SORRY),
    ErrorShape(
        "authentication_error", "", 401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."
    ),
    ErrorShape("request_too_large", "", 413, "invalid_request_error", "request_too_large"),
    ErrorShape("not_found_error", "", 404, "invalid_request_error", NO_CODE),
    ErrorShape("invalid_request_error", "prompt is too long", 400, "invalid_request_error", "context_length_exceeded"),
    ErrorShape(
        "invalid_request_error", "messages.0.content.0.image", 400, "invalid_request_error", "invalid_image", _IMAGE
    ),
    ErrorShape(
        "invalid_request_error", _SIGNATURE, 400, "invalid_request_error", "invalid_encrypted_content", _ENCRYPTED
    ),
)
_TOO_LONG = re.compile(r"prompt is too long: (\d+) tokens > (\d+) maximum")


def to_openai_error(refuse: Refuse) -> Refuse:
    """In OpenAI's format. An error with a code is already OpenAI's."""
    if refuse.code:
        return refuse
    for row in ROWS:
        if row.type == refuse.type and refuse.message.startswith(row.begins):
            status = row.status if refuse.status in (400, 401, 404, 413, 429, 500, 529) else refuse.status
            words = _TOO_LONG.sub(too_long, row.message or refuse.message)
            return replace(refuse, status=status, type=row.written, code=row.code, message=words)
    return replace(refuse, code=NO_CODE)


def too_long(found: re.Match[str]) -> str:
    asked, most = found.groups()
    resulted = f"However, your messages resulted in {asked} tokens. Please reduce the length of the messages."
    return f"This model's maximum context length is {most} tokens. {resulted}"


def error_of(refuse: Refuse) -> Json:
    said = to_openai_error(refuse)
    return {
        "message": said.message,
        "type": said.type,
        "param": said.param or None,
        "code": None if said.code == NO_CODE else said.code,
    }


def make_openai_refusal(refuse: Refuse, request_id: str) -> RefusalResponse:
    said = to_openai_error(refuse)
    limits = USED_UP if said.status == 429 else {}
    return RefusalResponse(
        said.status, {**make_openai_headers(request_id), **limits, **said.headers}, encode({"error": error_of(refuse)})
    )


def make_openai_headers(request_id: str) -> dict[str, str]:
    return {"x-request-id": request_id, "openai-version": "2020-10-01", "openai-processing-ms": "12", **LIMITS}


_INLINE = re.compile(r"data:([^;]+);base64,(.*)", re.DOTALL)
CAPS = ("max_output_tokens", "max_completion_tokens", "max_tokens")
MARK: Json = {"cache_control": {"type": "ephemeral"}}


class ConversationBuilder:
    """Grows block by block."""

    def __init__(self) -> None:
        self.system: list[Json] = []
        self.messages: list[Json] = []

    def add(self, role: str, *blocks: Json) -> None:
        """OpenAI caches every prefix by itself, so each block may end a cached prefix."""
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
        """The request with its parameters. `settings`: those whose change invalidates the cache."""
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
    """The content of a message: text, images, documents; for both protocols."""
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
