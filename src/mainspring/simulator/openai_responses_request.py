"""Requests to OpenAI's Responses: the form, the rules, and the conversion to the Messages API.

    find_violations(body, headers) -> []          # the API would accept it

The simulator stores nothing between requests, as with `store: false`: references to stored items are not found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import zip_longest
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
    check_non_empty,
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
    schema_named,
)
from mainspring.simulator.replies import Json
from mainspring.simulator.validate import GOOD_HEADERS

# --- forms ------------------------------------------------------------------------------------------------

_STATUS: dict[str, Kind] = {"status": check_optional(one_of("in_progress", "completed", "incomplete"))}
_MESSAGE: dict[str, Kind] = {**_STATUS, "type": one_of("message")}
_GIVEN = {
    "input_text": check_fields({"type": str, "text": str}, BREAKPOINT),
    "input_image": check_fields(
        {"type": str, "image_url": str}, {**BREAKPOINT, "detail": one_of("auto", "low", "high", "original")}
    ),
    "input_file": check_fields({"type": str, "file_data": str, "filename": str}, BREAKPOINT),
}
_WRITTEN = {
    "output_text": check_fields(
        {"type": str, "text": str},
        {"annotations": check_list(accept_anything), "logprobs": check_list(accept_anything)},
    ),
    "refusal": check_fields({"type": str, "refusal": str}),
}
_BY_USER = check_fields(
    {"role": str, "content": text_or(check_non_empty(check_list(check_by_field("type", _GIVEN))))}, _MESSAGE
)
_BY_MODEL = check_fields(
    {"role": str, "content": text_or(check_non_empty(check_list(check_by_field("type", _WRITTEN))))},
    {**_MESSAGE, "id": str, "phase": check_optional(one_of("commentary", "final_answer"))},
)
_SUMMARY = check_list(check_fields({"type": one_of("summary_text"), "text": str}))
_ITEMS = {
    "message": check_by_field(
        "role", {"user": _BY_USER, "system": _BY_USER, "developer": _BY_USER, "assistant": _BY_MODEL}
    ),
    "function_call": check_fields(
        {"type": str, "call_id": str, "name": str, "arguments": str}, {**_STATUS, "id": str, "async": bool}
    ),
    "function_call_output": check_fields(
        {"type": str, "call_id": str, "output": text_or(check_list(check_by_field("type", _GIVEN)))},
        {**_STATUS, "id": check_optional(str)},
    ),
    "reasoning": check_fields(
        {"type": str, "id": str, "summary": _SUMMARY},
        {
            **_STATUS,
            "content": check_list(check_fields({"type": one_of("reasoning_text"), "text": str})),
            "encrypted_content": check_optional(str),
        },
    ),
    "item_reference": check_fields({"type": str, "id": str}),
}
_TOOL = check_fields(
    {"type": str, "name": str, "parameters": accept_anything, "strict": check_optional(bool)},
    {"description": check_optional(str), "async": bool, "defer_loading": bool, "output_schema": check_optional(dict)},
)
_DOMAINS = check_optional(check_list(str))
_SEARCH = check_fields(
    {"type": str},
    {
        "filters": check_optional(check_fields({}, {"allowed_domains": _DOMAINS, "blocked_domains": _DOMAINS})),
        "search_context_size": one_of("low", "medium", "high"),
        "user_location": check_optional(
            check_fields({"type": one_of("approximate")}, dict.fromkeys(("city", "country", "region", "timezone"), str))
        ),
    },
)
_FORMAT = check_by_field(
    "type",
    {
        "text": check_fields({"type": str}),
        "json_object": check_fields({"type": str}),
        "json_schema": check_fields(
            {"type": str, "name": str, "schema": dict}, {"description": str, "strict": check_optional(bool)}
        ),
    },
)
_SUMMARIES = one_of("auto", "concise", "detailed")
_REASONING = check_fields(
    {},
    {
        "effort": check_optional(one_of(*EFFORTS)),
        "summary": check_optional(_SUMMARIES),
        "context": check_optional(one_of("auto", "current_turn", "all_turns")),
        "mode": str,
    },
)
INCLUDABLE = (
    "reasoning.encrypted_content",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "web_search_call.action.sources",
)


def _choice(value: Any, path: str, found: list[Violation]) -> None:
    if isinstance(value, str):
        one_of("none", "auto", "required")(value, path, found)
    else:
        check_fields({"type": one_of("function"), "name": str})(value, path, found)


CREATE = check_fields(
    {"model": str, "input": text_or(check_list(check_by_field("type", _ITEMS, "message")))},
    {
        **PARAMETERS,
        "include": check_optional(check_list(one_of(*INCLUDABLE))),
        "instructions": check_optional(str),
        "max_output_tokens": check_optional(int),
        "max_tool_calls": check_optional(int),
        "previous_response_id": check_optional(str),
        "reasoning": check_optional(_REASONING),
        "stream_options": check_optional(check_fields({}, {"include_obfuscation": bool})),
        "text": check_fields({}, {"format": _FORMAT, "verbosity": check_optional(one_of("low", "medium", "high"))}),
        "tool_choice": _choice,
        "tools": check_list(check_by_field("type", {"function": _TOOL, "web_search": _SEARCH})),
        "truncation": check_optional(one_of("auto", "disabled")),
    },
)

# --- rules ------------------------------------------------------------------------------------------------

PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
LEAST_OUTPUT = 16
LONGEST_CALL_ID = 64
_SIGNED = re.compile(r"sig:(.+):\d+")
_BEHIND_REASONING = re.compile(r"(?:fc|msg)_(.+)_(\d+)r")  # the ids of `openai_responses.py`


def items_of(body: Json) -> list[Json]:
    given: str | list[Json] = body["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def kind_of(item: Json) -> str:
    return str(item.get("type", "message"))


MOST_DOMAINS = 100


def search_domains(asked: OpenAIRequest) -> Broken:
    for at, tool in enumerate(asked.body.get("tools") or ()):
        filters: Json = (tool.get("filters") or {}) if tool["type"] == "web_search" else {}
        for name, domains in filters.items():
            path = f"tools[{at}].filters.{name}"
            for domain in domains or ():
                if "/" in domain or "*" in domain or not domain.isascii():
                    yield path, f"Invalid '{path}': '{domain}' is not a domain."
            if len(domains or ()) > MOST_DOMAINS:
                yield path, f"Invalid '{path}': array too long. Expected at most {MOST_DOMAINS}."


def input_some(asked: OpenAIRequest) -> Broken:
    if not asked.body["input"]:
        yield "input", "Invalid 'input': empty. Expected at least one item."


def nothing_kept(asked: OpenAIRequest) -> Broken:
    before = asked.body.get("previous_response_id")
    if before is not None:
        yield "previous_response_id", f"Previous response with id '{before}' not found."


def item_ids(asked: OpenAIRequest) -> Broken:
    for number, item in enumerate(items_of(asked.body)):
        prefix, given = PREFIXES.get(kind_of(item), ""), item.get("id")
        if given is not None and not given.startswith(prefix):
            said = f"Invalid 'input[{number}].id': '{given}'. Expected an ID that begins with '{prefix}'."
            yield f"input.{number}.id", said


def unique_items(asked: OpenAIRequest) -> Broken:
    counted = Counter([item["id"] for item in items_of(asked.body) if item.get("id") is not None])
    for twice in [name for name, times in counted.items() if times > 1]:
        yield "input", f"Duplicate item found with id {twice}. Remove duplicate items from your input and try again."


def check_references(asked: OpenAIRequest) -> Broken:
    """Also thinking without its content, if nothing is stored."""
    stores = asked.body.get("store") is not False
    for item in items_of(asked.body):
        bare = kind_of(item) == "reasoning" and not stores and not item.get("encrypted_content")
        if bare or kind_of(item) == "item_reference":
            why = "" if stores else " Items are not persisted when `store` is set to false."
            yield "input", f"Item with id '{item['id']}' not found.{why}"


def check_outputs_given(asked: OpenAIRequest) -> Broken:
    items = items_of(asked.body)
    for number, item in enumerate(items):
        if kind_of(item) == "function_call":
            later = [other["call_id"] for other in items[number:] if kind_of(other) == "function_call_output"]
            if item["call_id"] not in later:
                yield "input", f"No tool output found for function call {item['call_id']}."


def known_results(asked: OpenAIRequest) -> Broken:
    """After its call, and once."""
    waiting: list[str] = []
    for item in items_of(asked.body):
        if kind_of(item) == "function_call":
            waiting.append(item["call_id"])
        elif kind_of(item) == "function_call_output":
            if item["call_id"] in waiting:
                waiting.remove(item["call_id"])
            else:
                yield "input", f"No tool call found for function call output with call_id {item['call_id']}."


def reasoning_followed(asked: OpenAIRequest) -> Broken:
    """By the item that it led to: a message of the model, a call, or more reasoning."""
    items = items_of(asked.body)
    for item, behind in zip_longest(items, items[1:]):
        leads = behind is not None and (
            kind_of(behind) in ("function_call", "reasoning") or behind.get("role") == "assistant"
        )
        if kind_of(item) == "reasoning" and not leads:
            said = f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
            yield "input", said


def reasoning_kept(asked: OpenAIRequest) -> Broken:
    """An item with its id needs the reasoning that it followed."""
    before = ""
    for item in items_of(asked.body):
        found = _BEHIND_REASONING.fullmatch(item.get("id") or "")
        if found is not None:
            needed = f"rs_{found[1]}_{int(found[2]) - 1}"
            if before != needed:
                kind = kind_of(item)
                said = f"Item '{item['id']}' of type '{kind}' was provided without its required 'reasoning' item"
                yield "input", f"{said}: '{needed}'."
        before = item.get("id") or ""


def reasoning_model(asked: OpenAIRequest) -> Broken:
    for item in items_of(asked.body):
        found = _SIGNED.fullmatch(item.get("encrypted_content") or "")
        if kind_of(item) == "reasoning" and item.get("encrypted_content") and (not found or found[1] != asked.model):
            yield "input", f"The encrypted content for item {item['id']} could not be verified."


def output_cap(asked: OpenAIRequest) -> Broken:
    most = asked.body.get("max_output_tokens")
    if most is not None and most < LEAST_OUTPUT:
        said = f"Expected a value >= {LEAST_OUTPUT}, but got {most} instead."
        yield "max_output_tokens", f"Invalid 'max_output_tokens': integer below minimum value. {said}"


def answer_schema(asked: OpenAIRequest) -> Broken:
    text: Json = asked.body.get("text") or {}
    wanted: Json = text.get("format") or {}
    if wanted.get("type") == "json_schema":
        yield from schema_named("text.format", wanted)


RULES: dict[str, Rule] = {
    "input.some": input_some,
    "previous.known": nothing_kept,
    **COMMON,
    "search.domains": search_domains,
    "call.id_length": longest_id(LONGEST_CALL_ID, "call_id"),
    "item.id": item_ids,
    "item.unique": unique_items,
    "item.known": check_references,
    "call.answered": check_outputs_given,
    "result.known": known_results,
    "reasoning.followed": reasoning_followed,
    "reasoning.kept": reasoning_kept,
    "reasoning.model": reasoning_model,
    "max_tokens": output_cap,
    "schema": answer_schema,
}


def find_violations(
    body: bytes | Mapping[str, Any],
    headers: Mapping[str, str] = GOOD_HEADERS,
    _: frozenset[str] = frozenset(),
) -> list[Violation]:
    """The violations of a request, in the order of the API's checks."""
    return judge_request(body, headers, CREATE, read_responses_request, RULES)


def read_responses_request(body: Json) -> OpenAIRequest:
    tools = [
        DeclaredTool(f"tools.{at}", each["name"], each["parameters"], bool(each["strict"]))
        for at, each in enumerate(body.get("tools") or ())
        if each["type"] == "function"
    ]
    calls: list[ReceivedCall] = []
    images: list[tuple[str, str]] = []
    for number, item in enumerate(items_of(body)):
        if kind_of(item) == "function_call":
            calls.append(ReceivedCall(f"input.{number}", item["call_id"], item["name"], item["arguments"]))
        for field in ("content", "output"):
            held: Any = item.get(field)
            for at, part in enumerate(held if is_list(held) else ()):
                path = f"input.{number}.{field}.{at}"
                images += [(f"{path}.{name}", part[name]) for name in ("image_url", "file_data") if name in part]
    return OpenAIRequest(body, tools, calls, images)


# --- conversion ---------------------------------------------------------------------------------------------


def to_messages(body: Json) -> Json:
    talk = ConversationBuilder()
    if body.get("instructions"):
        talk.add("system", {"type": "text", "text": body["instructions"]})
    for item in items_of(body):
        match kind_of(item):
            case "message":
                talk.add(item["role"], *parse_message_parts(item["content"]))
            case "function_call":
                talk.add("assistant", make_call_block(item["call_id"], item["name"], item["arguments"]))
            case "function_call_output":
                talk.add("user", make_result_block(item["call_id"], item["output"]))
            case "reasoning":
                words = "".join([part["text"] for part in item["summary"]])
                thought = {"type": "thinking", "thinking": words, "signature": item.get("encrypted_content") or ""}
                talk.add("assistant", thought)
            case other:
                raise AssertionError(f"'{other}' is not an item of a request")
    tools = [
        make_tool(each) if each["type"] == "function" else {"type": "web_search_20250305", "name": "web_search"}
        for each in body.get("tools") or ()
    ]
    return talk.body(body, tools, body.get("reasoning") or {})
