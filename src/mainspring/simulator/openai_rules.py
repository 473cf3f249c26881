"""Rules that OpenAI's two protocols share, about tools, calls, media and parameters; and the validation of a request.

`openai_chat_request.py` and `openai_responses_request.py` add their own rules.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mainspring.simulator.forms import Check, Violation, is_list, is_object
from mainspring.simulator.message_rules import content_type
from mainspring.simulator.replies import Json
from mainspring.simulator.validate import OF_FORM, decode_request_body

Broken = Iterator[tuple[str, str]]
Rule = Callable[["OpenAIRequest"], Broken]

# --- the request as rules see it ------------------------------------------------------------------------------


class DeclaredTool(NamedTuple):
    path: str  # of the function
    name: str
    schema: Any
    strict: bool


class ReceivedCall(NamedTuple):
    """A call in the conversation."""

    path: str
    id: str
    name: str
    arguments: str


class OpenAIRequest(NamedTuple):
    """A request whose form is right."""

    body: Json
    tools: list[DeclaredTool]
    calls: list[ReceivedCall]
    images: list[tuple[str, str]]  # the path, and the address

    @property
    def model(self) -> str:
        return str(self.body["model"])

    @property
    def reasons(self) -> bool:
        """Whether this is one of OpenAI's reasoning models. No rules are known for others."""
        return REASONING.match(self.model) is not None


REASONING = re.compile(r"(o[1-9]|gpt-[5-9])(?!.*chat)")
NAME = re.compile(r"[a-zA-Z0-9_-]+")
LONGEST_NAME = 64
MOST_TOOLS = 128


# --- rules about tools ----------------------------------------------------------------------------------------


def tool_names(asked: OpenAIRequest) -> Broken:
    for tool in asked.tools:
        yield from name_rule(f"{tool.path}.name", tool.name)


def name_rule(path: str, name: str) -> Broken:
    if NAME.fullmatch(name) is None:
        yield path, f"Invalid '{path}': string does not match pattern '^{NAME.pattern}$'."
    elif len(name) > LONGEST_NAME:
        yield path, f"Invalid '{path}': string too long. Expected a maximum length {LONGEST_NAME}, but got {len(name)}."


def tool_unique(asked: OpenAIRequest) -> Broken:
    twice = [name for name, times in Counter(tool.name for tool in asked.tools).items() if times > 1]
    if twice:
        yield "tools", f"Function names must be unique: '{twice[0]}'."


def tool_count(asked: OpenAIRequest) -> Broken:
    if len(asked.tools) > MOST_TOOLS:
        yield "tools", f"Invalid 'tools': array too long. Expected at most {MOST_TOOLS}, but got {len(asked.tools)}."


def tool_schemas(asked: OpenAIRequest) -> Broken:
    for tool in asked.tools:
        if tool.schema is None:
            continue
        path, begins = f"{tool.path}.parameters", f"Invalid schema for function '{tool.name}'"
        if not is_object(tool.schema) or tool.schema.get("type") != "object":
            yield path, f"{begins}: schema must be a JSON Schema of 'type: \"object\"'."
        else:
            for place in arrays_without_items(tool.schema, ()):
                yield path, f"{begins}: In context={place}, array schema missing items."


def arrays_without_items(schema: Any, place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not is_object(schema):
        return
    if schema.get("type") == "array" and "items" not in schema:
        yield place
    for name, inner in held_in(schema, "properties"):
        yield from arrays_without_items(inner, (*place, "properties", name))
    yield from arrays_without_items(schema.get("items"), (*place, "items"))


def held_in(schema: Json, holder: str) -> Iterable[tuple[str, Any]]:
    """The schemas below a keyword, by name. A schema is foreign data, and may contain anything."""
    held = schema.get(holder)
    return held.items() if is_object(held) else ()


def tool_strict(asked: OpenAIRequest) -> Broken:
    for tool in asked.tools:
        if tool.strict:
            yield from check_strict_schema(f"{tool.path}.parameters", f"function '{tool.name}'", tool.schema)


def check_strict_schema(path: str, whose: str, schema: Any) -> Broken:
    """Structured output: closed objects, and no optional fields."""
    for place, inner in objects_in(schema, ()):
        begins = f"Invalid schema for {whose}: In context={place}"
        required = inner.get("required", [])
        names = sorted([name for name, _ in held_in(inner, "properties")])
        if inner.get("additionalProperties") is not False:
            yield path, f"{begins}, 'additionalProperties' is required to be supplied and to be false."
        elif not is_list(required) or sorted(map(str, required)) != names:
            yield path, f"{begins}, 'required' is required to be supplied and to include every key in properties."


def objects_in(schema: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    if is_list(schema):
        for position, inner in enumerate(schema):
            yield from objects_in(inner, (*place, str(position)))
    if not is_object(schema):
        return
    if schema.get("type") == "object":
        yield place, schema
    for holder in ("properties", "$defs"):
        for name, inner in held_in(schema, holder):
            yield from objects_in(inner, (*place, holder, name))
    for holder in ("items", "anyOf"):
        yield from objects_in(schema.get(holder), (*place, holder))


def only_with_tools(asked: OpenAIRequest) -> Broken:
    for name in ("tool_choice", "parallel_tool_calls"):
        if asked.body.get(name) is not None and not asked.tools:
            yield name, f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."


def chosen_tool(asked: OpenAIRequest) -> Broken:
    choice = asked.body.get("tool_choice")
    if is_object(choice):
        name = choice.get("name") or choice.get("function", {}).get("name")
        if name not in [tool.name for tool in asked.tools]:
            yield "tool_choice", f"Tool choice '{name}' not found in 'tools' parameter."


# --- rules about calls ----------------------------------------------------------------------------------------


def call_names(asked: OpenAIRequest) -> Broken:
    for call in asked.calls:
        yield from name_rule(f"{call.path}.name", call.name)


def call_unique(asked: OpenAIRequest) -> Broken:
    """In the whole conversation: the API only documents it within one reply, and this is the strict reading."""
    seen: set[str] = set()
    for call in asked.calls:
        if call.id in seen:
            yield call.path, f"Duplicate value for the id of a call: '{call.id}'."
        seen.add(call.id)


def call_arguments(asked: OpenAIRequest) -> Broken:
    """OpenAI accepts any text. Servers that put it into a template (vLLM, llama.cpp) fail if it is not an object."""
    for call in asked.calls:
        decoded, _ = decode_request_body(call.arguments.encode("utf-8", "surrogatepass"))
        if not is_object(decoded):
            yield f"{call.path}.arguments", "The arguments of a call must be the JSON of an object."


def longest_id(most: int, field: str) -> Rule:
    def rule(asked: OpenAIRequest) -> Broken:
        for call in asked.calls:
            path = f"{call.path}.{field}"
            if not 0 < len(call.id) <= most:
                yield path, f"Invalid '{path}': expected a length between 1 and {most}, but got {len(call.id)} instead."

    return rule


# --- rules about media and parameters ------------------------------------------------------------------------------

_INLINE = re.compile(r"data:(image/(?:png|jpeg|gif|webp)|application/pdf);base64,(.*)", re.DOTALL)


def image_addresses(asked: OpenAIRequest) -> Broken:
    for path, address in asked.images:
        found = _INLINE.fullmatch(address)
        if found is None and not address.startswith(("https://", "http://")):
            yield path, f"Invalid '{path}': expected a URL or a base64-encoded data URL with an image MIME type."
        elif found is not None and not is_base64(found[2]):
            yield path, f"Invalid '{path}': expected base64-encoded data."


def is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def model_named(asked: OpenAIRequest) -> Broken:
    if not asked.model.strip():
        yield "model", "you must provide a model parameter"


def sampling_range(asked: OpenAIRequest) -> Broken:
    for name, most in (("temperature", 2), ("top_p", 1)):
        value = asked.body.get(name)
        if value is not None and not 0 <= value <= most:
            yield name, f"Invalid '{name}': expected a value between 0 and {most}, but got {value} instead."


def sampling_model(asked: OpenAIRequest) -> Broken:
    for name in ("temperature", "top_p"):
        if asked.reasons and asked.body.get(name) not in (None, 1):
            yield name, f"Unsupported parameter: '{name}' is not supported with this model."


def output_cap(*names: str) -> Rule:
    def rule(asked: OpenAIRequest) -> Broken:
        for name in names:
            value = asked.body.get(name)
            if value is not None and value < 1:
                yield name, f"Invalid '{name}': integer below minimum value. Expected a value >= 1, but got {value}."

    return rule


def schema_named(path: str, wanted: Json) -> Broken:
    """A schema for the answer."""
    yield from name_rule(f"{path}.name", wanted["name"])
    if wanted.get("strict"):
        yield from check_strict_schema(f"{path}.schema", f"response_format '{wanted['name']}'", wanted.get("schema"))


# In the order of the checks, before the rules of each protocol.
COMMON: dict[str, Rule] = {
    "model.name": model_named,
    "tools.count": tool_count,
    "tools.name": tool_names,
    "tools.unique": tool_unique,
    "tools.schema": tool_schemas,
    "tools.strict": tool_strict,
    "tool_choice.tools": only_with_tools,
    "tool_choice.known": chosen_tool,
    "call.name": call_names,
    "call.unique": call_unique,
    "call.arguments": call_arguments,
    "media.address": image_addresses,
    "sampling.range": sampling_range,
    "sampling.model": sampling_model,
}


# --- validation -----------------------------------------------------------------------------------------------


def judge_request(
    raw: bytes | Mapping[str, Any],
    headers: Mapping[str, str],
    form: Check,
    seen: Callable[[Json], OpenAIRequest],
    rules: Mapping[str, Rule],
) -> list[Violation]:
    """As for the Messages API: headers and bytes, then the form, and the meaning only if the form is valid."""
    lower = {name.lower(): value for name, value in headers.items()}
    found = [Violation(path, "headers.content_type", message) for path, message in content_type(lower)]
    decoded, unreadable = decode_request_body(raw)
    if unreadable is not None:
        return [*found, unreadable]
    form(decoded, "", found)
    if any(violation.rule in OF_FORM for violation in found):
        return found
    asked = seen(decoded)
    for rule, broken in rules.items():
        found += [Violation(path, rule, message) for path, message in broken(asked)]
    return found
