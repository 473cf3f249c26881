"""Requests to OpenAI's Chat Completions: the form, the rules, and the conversion to the Messages API.

    find_violations(body, headers) -> []          # the API would accept it

Like `validate.py`, it shares no code with our own requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.simulator.forms import (
    BREAKPOINT,
    EFFORTS,
    PARAMETERS,
    Kind,
    Violation,
    accept_anything,
    check_by_field,
    check_fields,
    check_list,
    check_metadata,
    check_non_empty,
    check_number,
    check_optional,
    is_list,
    one_of,
    text_or,
)
from mainspring.simulator.openai_errors import (
    ConversationBuilder,
    make_call_block,
    make_result_block,
    make_tool,
    parse_message_parts,
)
from mainspring.simulator.openai_rules import (
    COMMON,
    Broken,
    DeclaredTool,
    OpenAIRequest,
    ReceivedCall,
    Rule,
    judge_request,
    longest_id,
    output_cap,
    schema_named,
)
from mainspring.simulator.replies import Json
from mainspring.simulator.validate import GOOD_HEADERS

# --- forms ------------------------------------------------------------------------------------------------

_TEXT = check_fields({"type": str, "text": str}, BREAKPOINT)
_IMAGE = check_fields(
    {"type": str, "image_url": check_fields({"url": str}, {"detail": one_of("auto", "low", "high", "original")})},
    BREAKPOINT,
)
_FILE = check_fields({"type": str, "file": check_fields({"file_data": str, "filename": str})}, BREAKPOINT)
_REFUSAL = check_fields({"type": str, "refusal": str})
_TEXTS = text_or(check_non_empty(check_list(check_by_field("type", {"text": _TEXT}))))
_CALL = check_fields({"id": str, "type": one_of("function"), "function": check_fields({"name": str, "arguments": str})})
_NAMED: dict[str, Kind] = {"name": str}

# Answers may be sent back as they came, with fields that we never write.
_AS_IT_CAME: dict[str, Kind] = {
    "annotations": check_optional(check_list(accept_anything)),
    "audio": check_optional(one_of()),
    "function_call": check_optional(one_of()),
}
ASSISTANT: dict[str, Kind] = {
    **_NAMED,
    **_AS_IT_CAME,
    "content": check_optional(
        text_or(check_non_empty(check_list(check_by_field("type", {"text": _TEXT, "refusal": _REFUSAL}))))
    ),
    "refusal": check_optional(str),
    "tool_calls": check_non_empty(check_list(_CALL)),
}
_ROLES = {
    "system": check_fields({"role": str, "content": _TEXTS}, _NAMED),
    "developer": check_fields({"role": str, "content": _TEXTS}, _NAMED),
    "user": check_fields(
        {
            "role": str,
            "content": text_or(
                check_non_empty(check_list(check_by_field("type", {"text": _TEXT, "image_url": _IMAGE, "file": _FILE})))
            ),
        },
        _NAMED,
    ),
    "assistant": check_fields({"role": str}, ASSISTANT),
    "tool": check_fields({"role": str, "content": _TEXTS, "tool_call_id": str}),
}
# Servers that have a separate field for thinking expect it back there.
_THINKING_ROLES = {
    **_ROLES,
    "assistant": check_fields(
        {"role": str}, {**ASSISTANT, "reasoning_content": check_optional(str), "reasoning": check_optional(str)}
    ),
}
_FUNCTION = check_fields(
    {"name": str}, {"description": str, "parameters": accept_anything, "strict": check_optional(bool)}
)
_SCHEMA = check_fields({"name": str}, {"description": str, "schema": dict, "strict": check_optional(bool)})
_FORMAT = check_by_field(
    "type",
    {
        "text": check_fields({"type": str}),
        "json_object": check_fields({"type": str}),
        "json_schema": check_fields({"type": str, "json_schema": _SCHEMA}),
    },
)


def _choice(value: Any, path: str, found: list[Violation]) -> None:
    if isinstance(value, str):
        one_of("none", "auto", "required")(value, path, found)
    else:
        check_fields({"type": one_of("function"), "function": check_fields({"name": str})})(value, path, found)


_CREATE: dict[str, Kind] = {
    **PARAMETERS,
    "frequency_penalty": check_optional(check_number),
    "logit_bias": check_optional(dict),
    "logprobs": check_optional(bool),
    "max_completion_tokens": check_optional(int),
    "max_tokens": check_optional(int),
    "metadata": check_optional(check_metadata),
    "n": check_optional(int),
    "presence_penalty": check_optional(check_number),
    "reasoning_effort": check_optional(one_of(*EFFORTS)),
    "response_format": _FORMAT,
    "seed": check_optional(int),
    "stop": check_optional(text_or(check_list(str))),
    "stream_options": check_optional(check_fields({}, {"include_usage": bool, "include_obfuscation": bool})),
    "tool_choice": _choice,
    "tools": check_non_empty(
        check_list(check_by_field("type", {"function": check_fields({"type": str, "function": _FUNCTION})}))
    ),
    "verbosity": check_optional(one_of("low", "medium", "high")),
}
CREATE = check_fields({"model": str, "messages": check_list(check_by_field("role", _ROLES))}, _CREATE)
CREATE_THINKING = check_fields({"model": str, "messages": check_list(check_by_field("role", _THINKING_ROLES))}, _CREATE)

# --- rules ------------------------------------------------------------------------------------------------


def messages_some(asked: OpenAIRequest) -> Broken:
    if not asked.body["messages"]:
        yield "messages", "Invalid 'messages': empty array. Expected an array with minimum length 1."


def assistant_says(asked: OpenAIRequest) -> Broken:
    """Text or calls."""
    for place, message in enumerate(asked.body["messages"]):
        said = [message.get(field) for field in ("content", "refusal", "tool_calls")]
        if message["role"] == "assistant" and said == [None, None, None]:
            yield f"messages.{place}.content", "Invalid value for 'content': expected a string, got null."


def check_calls_answered(asked: OpenAIRequest) -> Broken:
    """By tool messages, directly after the calls."""
    for place, message in enumerate(asked.body["messages"]):
        ids = [called["id"] for called in message.get("tool_calls") or ()]
        given = results_behind(asked.body["messages"], place)
        missing = [each for each in ids if each not in given]
        if missing:
            must = "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            which = f"The following tool_call_ids did not have response messages: {', '.join(missing)}"
            yield f"messages.{place}.role", f"{must} 'tool_call_id'. {which}"


def results_behind(messages: list[Json], place: int) -> list[str]:
    found: list[str] = []
    for message in messages[place + 1 :]:
        if message["role"] != "tool":
            break
        found.append(message["tool_call_id"])
    return found


def no_orphans(asked: OpenAIRequest) -> Broken:
    waiting: list[str] = []
    for place, message in enumerate(asked.body["messages"]):
        if message["role"] != "tool":
            waiting = [called["id"] for called in message.get("tool_calls") or ()]
        elif message["tool_call_id"] in waiting:
            waiting.remove(message["tool_call_id"])
        else:
            said = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
            yield f"messages.{place}.role", f"Invalid parameter: {said}"


def one_answer(asked: OpenAIRequest) -> Broken:
    if asked.body.get("n") not in (None, 1):
        yield "n", "Invalid 'n': the simulator gives one answer."


def stream_options(asked: OpenAIRequest) -> Broken:
    if asked.body.get("stream_options") is not None and not asked.body.get("stream"):
        yield "stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled."


def max_tokens_model(asked: OpenAIRequest) -> Broken:
    both = "max_completion_tokens" in asked.body
    if asked.body.get("max_tokens") is not None and (asked.reasons or both):
        said = "Unsupported parameter: 'max_tokens' is not supported with this model."
        yield "max_tokens", f"{said} Use 'max_completion_tokens' instead."


def check_stops(asked: OpenAIRequest) -> Broken:
    stop = asked.body.get("stop")
    if is_list(stop) and not 0 < len(stop) <= 4:
        yield "stop", "Invalid 'stop': expected between 1 and 4 sequences."


def answer_schema(asked: OpenAIRequest) -> Broken:
    wanted: Json = asked.body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        yield from schema_named("response_format.json_schema", wanted["json_schema"])


RULES: dict[str, Rule] = {
    "messages.some": messages_some,
    "messages.content": assistant_says,
    **COMMON,
    "call.id_length": longest_id(40, "id"),
    "call.answered": check_calls_answered,
    "result.known": no_orphans,
    "n": one_answer,
    "stream_options": stream_options,
    "max_tokens": output_cap("max_tokens", "max_completion_tokens"),
    "max_tokens.model": max_tokens_model,
    "stop": check_stops,
    "schema": answer_schema,
}


def find_violations(
    body: bytes | Mapping[str, Any],
    headers: Mapping[str, str] = GOOD_HEADERS,
    lets_pass: frozenset[str] = frozenset(),
) -> list[Violation]:
    """The violations of a request, in the order of the API's checks."""
    return judge_request(
        body, headers, CREATE_THINKING if "reasoning_content" in lets_pass else CREATE, read_chat_request, RULES
    )


def read_chat_request(body: Json) -> OpenAIRequest:
    tools = [
        DeclaredTool(
            f"tools.{at}.function", each["function"]["name"], each["function"].get("parameters"), is_strict(each)
        )
        for at, each in enumerate(body.get("tools") or ())
    ]
    calls: list[ReceivedCall] = []
    images: list[tuple[str, str]] = []
    for place, message in enumerate(body["messages"]):
        for at, called in enumerate(message.get("tool_calls") or ()):
            path = f"messages.{place}.tool_calls.{at}"
            calls.append(ReceivedCall(path, called["id"], called["function"]["name"], called["function"]["arguments"]))
        content: Any = message.get("content")
        for at, part in enumerate(content if is_list(content) else ()):
            path = f"messages.{place}.content.{at}"
            if part["type"] == "image_url":
                images.append((f"{path}.image_url.url", part["image_url"]["url"]))
            elif part["type"] == "file":
                images.append((f"{path}.file.file_data", part["file"]["file_data"]))
    return OpenAIRequest(body, tools, calls, images)


def is_strict(given: Json) -> bool:
    return bool(given["function"].get("strict"))


# --- conversion ---------------------------------------------------------------------------------------------


def to_messages(body: Json) -> Json:
    talk = ConversationBuilder()
    for message in body["messages"]:
        if message["role"] == "tool":
            talk.add("user", make_result_block(message["tool_call_id"], message["content"]))
            continue
        calls = [
            make_call_block(called["id"], called["function"]["name"], called["function"]["arguments"])
            for called in message.get("tool_calls") or ()
        ]
        refused = [{"type": "text", "text": message["refusal"]}] if message.get("refusal") else []
        talk.add(message["role"], *parse_message_parts(message.get("content")), *refused, *calls)
    tools = [make_tool(each["function"]) for each in body.get("tools") or ()]
    effort = body.get("reasoning_effort")
    return talk.body(body, tools, {"effort": effort} if effort else {})
