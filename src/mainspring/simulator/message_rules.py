"""Rules about messages, headers, media and parameters, one function each: a well-formed request in, violations out.

- Messages: roles, positions of blocks, text.
- Headers that decide how a body is read.
- Images and documents. Not checked: pixels, and whether the bytes match their media type.
- Parameters: model, limits, sampling, effort, budgets, betas.
- The API's version 2026-10-21, as its migration page lists the changes. Its third change, no documents in assistant
  messages, applies to every version here.

`validate.py` names the rules and orders them.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from mainspring.core.models import UNKNOWN
from mainspring.simulator.request import CheckedRequest, PlacedBlock, RequestTurn
from mainspring.simulator.shapes import SERVER_RESULTS, listed_model

Broken = Iterator[tuple[str, str]]  # the path, and the message

TASK_BUDGETS = "task-budgets-2026-03-13"
THINKING_BINDING = "thinking-binding-controls-2026-08-01"
CONTEXT_MANAGEMENT = "context-management-2025-06-27"
EFFORT_MESSAGES = (
    "mid-conversation-output-config-2026-07-01",
    "per-turn-control-2026-07-01",
)  # Claude Code: the second
CLEARED_MESSAGES = "mid-conversation-system-clear-at-2026-08-21"
TOOL_CHANGES = "mid-conversation-tool-changes-2026-07-01"
INLINE_TOOLS = "inline-tools-2026-09-15"
DISPLAY_UPDATES = "thinking-display-updates-2026-08-18"
LEAST_TASK_BUDGET = 20_000  # tokens, as documented


def model_named(request: CheckedRequest) -> Broken:
    if not request.model.strip():
        yield "model", "String should have at least 1 character"


def max_tokens(request: CheckedRequest) -> Broken:
    asked = request.body.get("max_tokens")
    if asked is None:
        return
    listed = listed_model(request.model)
    if asked < 1:
        yield "max_tokens", "Input should be greater than or equal to 1"
    elif listed is not None and asked > listed.max_output:
        most = f"the maximum allowed number of output tokens for {request.model}"
        yield "max_tokens", f"{asked} > {listed.max_output}, which is {most}"


def sampling_range(request: CheckedRequest) -> Broken:
    for name, least, most in (("temperature", 0, 1), ("top_p", 0, 1), ("top_k", 0, 1_000_000)):
        value = request.body.get(name)
        if value is not None and not least <= value <= most:
            yield name, f"Input should be between {least} and {most}"


def sampling_model(request: CheckedRequest) -> Broken:
    if request.manner is None or request.manner.sampling:
        return
    for name in ("temperature", "top_p", "top_k"):
        value = request.body.get(name)
        if value is not None and (name == "top_k" or value != 1):
            yield name, f"`{name}` may only be set to its default for this model"


def sampling_thinking(request: CheckedRequest) -> Broken:
    """With a thinking budget: temperature 1, top_p from 0.95, no top_k."""
    if request.thinking != "enabled":
        return
    if request.body.get("temperature", 1) != 1:
        yield "temperature", "`temperature` may only be set to 1 when thinking is enabled."
    if request.body.get("top_p", 1) < 0.95:
        yield "top_p", "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."
    if "top_k" in request.body:
        yield "top_k", "`top_k` must be unset when thinking is enabled."


def stop_sequences(request: CheckedRequest) -> Broken:
    for number, text in enumerate(request.body.get("stop_sequences", ())):
        if not text.strip():
            yield f"stop_sequences.{number}", "each stop sequence must contain non-whitespace"


def effort_model(request: CheckedRequest) -> Broken:
    if request.effort is None or request.manner is None or request.effort in request.manner.efforts:
        return
    if request.manner.efforts:
        yield "output_config.effort", f"effort '{request.effort}' is not supported by this model."
    else:
        yield "output_config.effort", "This model does not support the effort parameter."


def task_budget(request: CheckedRequest) -> Broken:
    budget = request.output.get("task_budget")
    if not budget:
        return
    total, remaining = budget["total"], budget.get("remaining")
    if total < LEAST_TASK_BUDGET:
        yield "output_config.task_budget.total", f"Input should be greater than or equal to {LEAST_TASK_BUDGET}"
    if remaining is not None and not 0 <= remaining <= total:
        yield "output_config.task_budget.remaining", "Input should be between 0 and `total`"


def task_budget_model(request: CheckedRequest) -> Broken:
    listed = listed_model(request.model)
    if request.output.get("task_budget") and listed is not None and not listed.adaptive_thinking:
        yield "output_config.task_budget", "task budgets are not supported on this model."


def context_edits(request: CheckedRequest) -> Broken:
    managed: dict[str, Any] = request.body.get("context_management") or {}
    edits: list[dict[str, Any]] = managed.get("edits", [])
    for number, edit in enumerate(edits):
        for name, least in (("trigger", 1), ("keep", 0), ("clear_at_least", 0)):
            if isinstance(edit.get(name), dict) and edit[name]["value"] < least:
                path = f"context_management.edits.{number}.{edit['type']}.{name}.value"
                yield path, f"Input should be greater than or equal to {least}"


def betas_asked(request: CheckedRequest) -> Broken:
    """A beta field is unknown without its header."""
    if request.output.get("task_budget") and TASK_BUDGETS not in request.betas:
        yield "output_config.task_budget", f"Extra inputs are not permitted (it needs the beta '{TASK_BUDGETS}')"
    config = request.body.get("thinking")
    if config and "block_binding" in config and THINKING_BINDING not in request.betas:
        yield "thinking.block_binding", f"Extra inputs are not permitted (it needs the beta '{THINKING_BINDING}')"
    if config and config.get("display") == "updates" and DISPLAY_UPDATES not in request.betas:
        said = f"Input should be 'summarized' or 'omitted' ('updates' needs the beta '{DISPLAY_UPDATES}')"
        yield f"thinking.{config['type']}.display", said
    if request.body.get("context_management") and CONTEXT_MANAGEMENT not in request.betas:
        yield "context_management", f"Extra inputs are not permitted (it needs the beta '{CONTEXT_MANAGEMENT}')"
    for number, message in enumerate(request.messages):
        if "output_config" in message and request.betas.isdisjoint(EFFORT_MESSAGES):
            said = f"Extra inputs are not permitted (it needs the beta '{EFFORT_MESSAGES[0]}')"
            yield f"messages.{number}.output_config", said
        if "clear_at" in message and CLEARED_MESSAGES not in request.betas:
            said = f"Extra inputs are not permitted (it needs the beta '{CLEARED_MESSAGES}')"
            yield f"messages.{number}.clear_at", said
    for placed in request.kind("tool_addition", "tool_removal"):
        needed = INLINE_TOOLS if placed.block["tool"]["type"] == "tool_definition" else TOOL_CHANGES
        if needed not in request.betas:
            yield placed.path, f"`{placed.kind}` blocks need the beta '{needed}'"


MOST_MESSAGES = 100_000
BY_USER = ("image", "document", "search_result", "container_upload", "tool_result")
BY_SYSTEM = ("tool_addition", "tool_removal")
BY_BOTH = ("text",)  # all other kinds belong to the assistant


def check_has_messages(request: CheckedRequest) -> Broken:
    if not request.messages:
        yield "messages", "at least one message is required"
    elif len(request.messages) > MOST_MESSAGES:
        yield "messages", f"at most {MOST_MESSAGES} messages are allowed"


def check_roles(request: CheckedRequest) -> Broken:
    """A system message in mid-conversation follows a user message, and precedes a reply or the end.

    One without content, which changes the effort, may be anywhere, unless it is beside another system message.
    """
    said: list[str] = [message["role"] for message in request.messages]
    takes_system = request.manner is None or request.manner.system_messages
    for number, role in enumerate(said):
        if role == "system" and takes_system:
            beside = [*said[max(number - 1, 0) : number], *said[number + 1 : number + 2]]
            if changes_effort_only(request.messages[number]) and "system" not in beside:
                continue
            if number == 0 or said[number - 1] != "user" or said[number + 1 : number + 2] not in ([], ["assistant"]):
                where = "immediately after a user message, and before an assistant message or at the end"
                yield f"messages.{number}.role", f"system messages can only be placed {where}"
        elif role not in ("user", "assistant"):
            allowed = 'Allowed roles are "user" or "assistant"'
            yield f"messages.{number}.role", f'Unexpected role "{role}". {allowed}'


def changes_effort_only(message: Mapping[str, Any]) -> bool:
    return not message["content"] and bool(message.get("output_config"))


def check_message_fields(request: CheckedRequest) -> Broken:
    """`output_config` and `clear_at` belong to system messages; the first needs a model that knows it."""
    for number, message in enumerate(request.messages):
        if message["role"] != "system":
            for name in ("output_config", "clear_at"):
                if name in message:
                    yield f"messages.{number}.{name}", "Extra inputs are not permitted"
            continue
        changed: dict[str, Any] = message.get("output_config") or {}
        effort: str | None = changed.get("effort")
        if effort is None or request.manner is None:
            continue
        if not request.manner.effort_messages:
            said = "output_config.effort requires a model that supports per-turn effort"
            yield f"messages.{number}", said
        elif effort not in request.manner.efforts:
            yield f"messages.{number}.output_config.effort", f"effort '{effort}' is not supported by this model."


def user_first(request: CheckedRequest) -> Broken:
    if request.messages and request.messages[0]["role"] != "user":
        yield "messages", 'first message must use the "user" role'


def check_alternation(request: CheckedRequest) -> Broken:
    """The API joins neighbours of one role. Our requests must come joined."""
    if not request.alternate:
        return
    for number, (before, after) in enumerate(pairwise(request.messages), 1):
        if before["role"] == after["role"]:
            said = f'roles must alternate between "user" and "assistant", but found multiple "{after["role"]}" in a row'
            yield f"messages.{number}", said


def check_content(request: CheckedRequest) -> Broken:
    last = len(request.messages) - 1
    for number, message in enumerate(request.messages):
        if changes_effort_only(message):
            continue
        if not message["content"] and (number < last or message["role"] != "assistant"):
            said = "all messages must have non-empty content except for the optional final assistant message"
            yield f"messages.{number}", said


def check_block_places(request: CheckedRequest) -> Broken:
    for kind, blocks in request.by_kind.items():
        if kind in BY_BOTH:
            continue
        proper = "user" if kind in BY_USER else "system" if kind in BY_SYSTEM else "assistant"
        for placed in blocks:
            if placed.role != proper:
                yield placed.path, f"`{kind}` blocks can only be in `{proper}` messages"


def text_some(request: CheckedRequest) -> Broken:
    for placed in request.texts:
        text = placed.block["text"]
        if not text:
            yield placed.path, "text content blocks must be non-empty"
        elif text.isspace():
            yield placed.path, "text content blocks must contain non-whitespace text"


def system_some(request: CheckedRequest) -> Broken:
    if "system" in request.body and not request.body["system"]:
        yield "system", "text content blocks must be non-empty"


def is_paused(turn: RequestTurn) -> bool:
    """Ends with a server-side tool: the API paused this turn, and continues it when it is sent back."""
    return bool(turn.blocks) and turn.blocks[-1].kind in ("server_tool_use", *SERVER_RESULTS)


def user_last(request: CheckedRequest) -> Broken:
    turn = request.last
    if turn is None or turn.role != "assistant" or is_paused(turn):
        return
    if request.thinking == "enabled" or (request.manner is not None and not request.manner.prefill):
        said = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield "", said


def trailing_space(request: CheckedRequest) -> Broken:
    turn = request.last
    if turn is None or turn.role != "assistant" or not turn.blocks or turn.blocks[-1].kind != "text":
        return
    text: str = turn.blocks[-1].block["text"]
    if text != text.rstrip():
        yield "messages", "final assistant content cannot end with trailing whitespace"


VERSIONS = ("2026-10-21", "2023-06-01", "2023-01-01")
_BETA = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def check_version(headers: Mapping[str, str]) -> Broken:
    given = headers.get("anthropic-version")
    if given is None:
        yield "anthropic-version", "header is required"
    elif given not in VERSIONS:
        yield "anthropic-version", f'"{given}" is not a valid version'


def content_type(headers: Mapping[str, str]) -> Broken:
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != "application/json":
        yield "content-type", f"Input should be 'application/json', not '{given}'"


def check_betas(headers: Mapping[str, str]) -> Broken:
    given = headers.get("anthropic-beta")
    if given is None:
        return
    wrong = [name.strip() for name in given.split(",") if _BETA.fullmatch(name.strip()) is None]
    if wrong:
        values = ", ".join([f"`{name}`" for name in wrong])
        yield "anthropic-beta", f"Unexpected value(s) {values} for the `anthropic-beta` header."


IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
LARGEST_IMAGE = 10 * 1024 * 1024  # of base64, as the API counts; it was 5 MB until the spring of 2026
SMALL_WINDOW = 200_000
MOST_MEDIA, MOST_MEDIA_SMALL = 600, 100  # images and pages in a request; the second if the window is small

_PAGE = re.compile(rb"/Type\s*/Page\b")

# The allowed media types, by the kind of the block and of its source.
TYPES = {
    ("image", "base64"): IMAGE_TYPES,
    ("document", "base64"): ("application/pdf",),
    ("document", "text"): ("text/plain",),
}


def check_media_types(request: CheckedRequest) -> Broken:
    for placed in request.media:
        source = placed.block["source"]
        allowed = TYPES.get((placed.kind, source["type"]))
        if allowed and source["media_type"] not in allowed:
            names = " or ".join([f"'{name}'" for name in allowed])
            yield placed.at(f"source.{source['type']}.media_type"), f"Input should be {names}"


def check_base64(request: CheckedRequest) -> Broken:
    for placed in iter_base64_media(request):
        data: str = placed.block["source"]["data"]
        if not data or decode_base64(data) is None:
            yield placed.at("source.base64"), "invalid base64 data"


def check_media_size(request: CheckedRequest) -> Broken:
    for placed in iter_base64_media(request):
        length = len(placed.block["source"]["data"])
        if placed.kind == "image" and length > LARGEST_IMAGE:
            said = f"image exceeds 10 MB maximum: {length} bytes > {LARGEST_IMAGE} bytes"
            yield placed.at("source.base64"), said


def check_urls(request: CheckedRequest) -> Broken:
    for placed in request.media:
        source = placed.block["source"]
        if source["type"] == "url" and not source["url"].startswith(("https://", "http://")):
            yield placed.at("source.url.url"), "Only HTTPS URLs are supported."


def check_media_count(request: CheckedRequest) -> Broken:
    if not request.media:
        return
    images = sum([placed.kind == "image" for placed in request.media])
    pages = sum([pages_of(placed) for placed in request.media if placed.kind == "document"])
    window = (listed_model(request.model) or UNKNOWN).window
    most = MOST_MEDIA_SMALL if window <= SMALL_WINDOW else MOST_MEDIA
    if images + pages > most:
        yield "", f"Too much media: {pages} document pages + {images} images > {most}"


def pages_of(placed: PlacedBlock) -> int:
    """The pages that can be counted without parsing the PDF: at least one."""
    source = placed.block["source"]
    if source["type"] != "base64":
        return 0
    return max(1, len(_PAGE.findall(decode_base64(source["data"]) or b"")))


def iter_base64_media(request: CheckedRequest) -> Iterator[PlacedBlock]:
    return (placed for placed in request.media if placed.block["source"]["type"] == "base64")


def decode_base64(data: str) -> bytes | None:
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):
        return None


NEWEST = "2026-10-21"


def is_newest(request: CheckedRequest) -> bool:
    return request.headers.get("anthropic-version") == NEWEST


def no_sampling(request: CheckedRequest) -> Broken:
    """Not even with its default value."""
    if is_newest(request):
        for name in ("temperature", "top_p", "top_k"):
            if name in request.body:
                yield name, "Extra inputs are not permitted"


def no_citations_by_users(request: CheckedRequest) -> Broken:
    """The model's citations may come back; a user message has none."""
    if is_newest(request):
        for placed in (*request.kind("text"), *request.inner):
            if placed.role == "user" and placed.kind == "text" and placed.block.get("citations"):
                yield placed.at("citations"), "Extra inputs are not permitted"
