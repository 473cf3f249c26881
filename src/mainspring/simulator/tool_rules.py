"""Rules about tools, thinking and cache breakpoints.

- Tools: their definitions, and that every call is answered directly after it.
- Thinking: when it may be requested, and which blocks may come back (K-01 to K-04).
- Cache breakpoints: their number, order and position.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import zip_longest

from mainspring.simulator.message_rules import Broken
from mainspring.simulator.request import CheckedRequest, Json, RequestTurn
from mainspring.simulator.shapes import SERVER_RESULTS, strip_model_date_suffix

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
ID = re.compile(r"[a-zA-Z0-9_-]+")

# --- definitions -----------------------------------------------------------------------------------


def check_tool_names(request: CheckedRequest) -> Broken:
    for number, tool in enumerate(request.tools):
        if NAME.fullmatch(tool["name"]) is None:
            yield f"tools.{number}.custom.name", f"String should match pattern '^{NAME.pattern}$'"


def unique_names(request: CheckedRequest) -> Broken:
    counted = Counter([tool["name"] for tool in request.tools])
    if len(counted) < len(request.tools):
        yield "tools", "Tool names must be unique."


def check_tool_schemas(request: CheckedRequest) -> Broken:
    for number, tool in enumerate(request.tools):
        schema = tool.get("input_schema")
        if schema is None:
            continue
        at = f"tools.{number}.custom.input_schema"
        if schema.get("type") != "object":
            yield f"{at}.type", "Input should be 'object'" if "type" in schema else "Field required"
        if not isinstance(schema.get("properties", {}), dict | None):
            yield f"{at}.properties", "Input should be a valid dictionary"
        if not isinstance(schema.get("required", []), list | None):
            yield f"{at}.required", "Input should be a valid list"


def some_loaded(request: CheckedRequest) -> Broken:
    if request.tools and all(tool.get("defer_loading") for tool in request.tools):
        yield "tools", "All tools have defer_loading set. At least one tool must be non-deferred."


def check_tool_changes(request: CheckedRequest) -> Broken:
    """A system message adds or removes tools that the request defines, in `tools` or earlier in `messages`."""
    known = {tool["name"] for tool in request.tools}
    for placed in request.kind("tool_addition", "tool_removal"):
        tool: Json = placed.block["tool"]
        if tool["type"] == "tool_definition":
            known.add(tool["definition"]["name"])
        elif tool["name"] not in known:
            yield placed.at("tool.tool_reference.name"), f"Tool '{tool['name']}' not found in provided tools"


def check_tool_choice(request: CheckedRequest) -> Broken:
    chosen = request.body.get("tool_choice")
    if chosen is None:
        return
    if not request.tools:
        yield "tool_choice", "tool_choice may only be specified while providing tools"
    elif chosen["type"] == "tool" and chosen["name"] not in [tool["name"] for tool in request.tools]:
        yield "tool_choice", f"Tool '{chosen['name']}' not found in provided tools"


def check_search_domains(request: CheckedRequest) -> Broken:
    """As documented for the web search and web fetch tools."""
    for at, tool in enumerate(request.tools):
        allowed: list[str] = tool.get("allowed_domains") or []
        blocked: list[str] = tool.get("blocked_domains") or []
        if allowed and blocked:
            yield f"tools.{at}", "only one of `allowed_domains` and `blocked_domains` can be specified"
        for domain in (*allowed, *blocked):
            if "://" in domain or not domain.isascii() or "*" in domain.partition("/")[0]:
                yield f"tools.{at}", f"'{domain}' is not a valid domain"


def check_forced_choice(request: CheckedRequest) -> Broken:
    """Adaptive thinking allows a forced call; a budget does not, and some models allow none at all."""
    chosen = request.body.get("tool_choice")
    if chosen is None or chosen["type"] not in ("any", "tool"):
        return
    if request.thinking == "enabled":
        yield "", "Thinking may not be enabled when tool_choice forces tool use."
    elif request.manner is not None and not request.manner.forced_tools:
        yield "tool_choice", 'type "tool" and "any" are not supported for this model.'


# --- calls -----------------------------------------------------------------------------------------


def call_ids(request: CheckedRequest) -> Broken:
    for placed in request.kind("tool_use", "server_tool_use"):
        if ID.fullmatch(placed.block["id"]) is None:
            yield placed.at("id"), f"String should match pattern '^{ID.pattern}$'"


def call_names(request: CheckedRequest) -> Broken:
    for placed in request.kind("tool_use"):
        if NAME.fullmatch(placed.block["name"]) is None:
            yield placed.at("name"), f"String should match pattern '^{NAME.pattern}$'"


def unique_calls(request: CheckedRequest) -> Broken:
    seen: set[str] = set()
    for placed in request.kind("tool_use", "server_tool_use"):
        if placed.block["id"] in seen:
            yield placed.path, "`tool_use` ids must be unique"
        seen.add(placed.block["id"])


def check_results_follow(request: CheckedRequest) -> Broken:
    """In the very next message."""
    for turn, after in zip_longest(request.turns, request.turns[1:]):
        results: set[str] = {placed.block["tool_use_id"] for placed in after.results} if after else set()
        missing = [placed.block["id"] for placed in turn.calls if placed.block["id"] not in results]
        if missing:
            said = f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}."
            needs = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
            yield turn.path, f"{said} {needs}"


def known_results(request: CheckedRequest) -> Broken:
    for before, turn in zip([None, *request.turns], request.turns, strict=False):
        calls: set[str] = {placed.block["id"] for placed in before.calls} if before else set()
        for placed in turn.results:
            call = placed.block["tool_use_id"]
            if call not in calls:
                said = f"unexpected `tool_use_id` found in `tool_result` blocks: {call}."
                needs = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                yield placed.path, f"{said} {needs}"


def single_results(request: CheckedRequest) -> Broken:
    for turn in request.turns:
        seen: set[str] = set()
        for placed in turn.results:
            call = placed.block["tool_use_id"]
            if call in seen:
                said = "each tool_use must have a single result. Found multiple `tool_result` blocks with id:"
                yield placed.path, f"{said} {call}"
            seen.add(call)


def results_first(request: CheckedRequest) -> Broken:
    for turn in request.turns:
        for placed in turn.blocks[len(turn.results) :]:
            if placed.kind == "tool_result":
                yield placed.path, "`tool_result` blocks must come first in the content of a message"


def error_content(request: CheckedRequest) -> Broken:
    for placed in request.kind("tool_result"):
        if placed.block.get("is_error") and not placed.block.get("content"):
            yield f"{placed.path}.tool_result", "content cannot be empty if `is_error` is true"


def error_text(request: CheckedRequest) -> Broken:
    for placed in request.kind("tool_result"):
        parts: list[Json] | str = placed.block.get("content", "")
        texts = isinstance(parts, str) or all(part["type"] == "text" for part in parts)
        if placed.block.get("is_error") and not texts:
            yield f"{placed.path}.tool_result", 'all content must be type "text" if `is_error` is true'


# --- server-side tools -----------------------------------------------------------------------------

RESULT_OF = {
    "web_search": "web_search_tool_result",
    "web_fetch": "web_fetch_tool_result",
    "code_execution": "code_execution_tool_result",
    "bash_code_execution": "bash_code_execution_tool_result",
    "text_editor_code_execution": "text_editor_code_execution_tool_result",
    "tool_search_tool_regex": "tool_search_tool_result",
    "tool_search_tool_bm25": "tool_search_tool_result",
}


def server_names(request: CheckedRequest) -> Broken:
    for placed in request.kind("server_tool_use"):
        if placed.block["name"] not in RESULT_OF:
            expected = ", ".join([f"'{name}'" for name in RESULT_OF])
            yield placed.at("name"), f"Input should be one of {expected}"


def server_results(request: CheckedRequest) -> Broken:
    """A result needs its call before it in the same message, of the same kind."""
    if SERVER_RESULTS.keys().isdisjoint(request.by_kind):
        return
    for turn in request.turns:
        open_calls: dict[str, str] = {}
        for placed in turn.blocks:
            block, kind = placed.block, placed.kind
            if kind == "server_tool_use":
                open_calls[block["id"]] = RESULT_OF.get(block["name"], kind)
            elif kind in SERVER_RESULTS and open_calls.pop(block["tool_use_id"], None) != kind:
                said = f"unexpected `tool_use_id` found in `{kind}` blocks: {block['tool_use_id']}."
                yield (
                    placed.path,
                    f"{said} Each `{kind}` block must have a corresponding `server_tool_use` block before it.",
                )


def server_calls(request: CheckedRequest) -> Broken:
    """A call needs its result in the same message. Only a paused turn may end without."""
    if "server_tool_use" not in request.by_kind:
        return
    for turn in request.turns:
        results = {placed.block["tool_use_id"] for placed in turn.blocks if placed.kind in SERVER_RESULTS}
        for placed in turn.blocks:
            paused_here = turn is request.last and placed is turn.blocks[-1]
            if placed.kind == "server_tool_use" and placed.block["id"] not in results and not paused_here:
                named = RESULT_OF.get(placed.block["name"], "result")
                said = f"`{placed.block['name']}` tool use with id `{placed.block['id']}` was found without a"
                yield placed.path, f"{said} corresponding `{named}` block"


THOUGHTS = ("thinking", "redacted_thinking")
LEAST_BUDGET = 1_024
SIGNED = "sig:"  # our simulators sign with `sig:<model>:...`; any other signature is opaque

USE_ADAPTIVE = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'


def check_thinking_mode(request: CheckedRequest) -> Broken:
    asked, manner = request.thinking, request.manner
    if asked is None or manner is None or asked in manner.thinking:
        return
    if asked == "adaptive":
        yield "", "adaptive thinking is not supported on this model"
    else:
        yield "", f'"thinking.type.{asked}" is not supported for this model. {USE_ADAPTIVE}'


def mode_effort(request: CheckedRequest) -> Broken:
    """High effort without thinking is a contradiction on the models that say so."""
    asked, effort = request.thinking, request.effort
    if asked in ("disabled", "between_tools") and effort and request.manner and effort not in request.manner.quiet:
        state = "disabled" if asked == "disabled" else "set to between_tools"
        said = f"output_config.effort '{effort}' is not supported when thinking is {state} on this model."
        yield "", f"{said} Use effort 'high' or below, or enable thinking."


def check_thinking_budget(request: CheckedRequest) -> Broken:
    if request.thinking != "enabled":
        return
    asked, most = request.body["thinking"]["budget_tokens"], request.body.get("max_tokens")
    if asked < LEAST_BUDGET:
        yield "thinking.enabled.budget_tokens", f"Input should be greater than or equal to {LEAST_BUDGET}"
    if most is not None and asked >= most:
        yield "", "`max_tokens` must be greater than `thinking.budget_tokens`."


def check_signatures(request: CheckedRequest) -> Broken:
    for placed in request.kind("thinking"):
        if not placed.block["signature"]:
            yield placed.path, "Invalid `signature` in `thinking` block"
    for placed in request.kind("redacted_thinking"):
        if not placed.block["data"]:
            yield placed.path, "Invalid `data` in `redacted_thinking` block"


def bound_to_model(request: CheckedRequest) -> Broken:
    for placed in request.kind("thinking"):
        signed: str = placed.block["signature"]
        if signed.startswith(SIGNED) and strip_model_date_suffix(signed.split(":")[1]) != strip_model_date_suffix(
            request.model
        ):
            yield placed.path, f"Invalid `signature` in `thinking` block: it was written by '{signed.split(':')[1]}'"


def asked_for(request: CheckedRequest) -> Broken:
    """K-01. Most newer models think if `thinking` is left out."""
    if request.thinking == "disabled":
        on = False
    else:
        on = request.thinking is not None or request.manner is None or request.manner.thinks_unasked
    if on:
        return
    for placed in request.kind(*THOUGHTS):
        said = f"When thinking is disabled, an `assistant` message cannot contain `{placed.kind}`."
        yield placed.path, f"{said} To use thinking blocks, enable `thinking` in your request."


def never_last(request: CheckedRequest) -> Broken:
    """K-02."""
    if not any(kind in request.by_kind for kind in THOUGHTS):
        return
    for turn in request.turns:
        if turn.blocks and turn.blocks[-1].kind in THOUGHTS:
            said = f"The final block in an assistant message cannot be `{turn.blocks[-1].kind}`."
            yield turn.path, said


def check_thinking_leads(request: CheckedRequest) -> Broken:
    """With a budget, thinking begins the message that has any. Adaptive thinking comes between calls, too."""
    if request.thinking != "enabled":
        return
    for turn in request.turns:
        kinds = [placed.kind for placed in turn.blocks]
        if any(kind in THOUGHTS for kind in kinds) and kinds[0] not in THOUGHTS:
            said = "If an assistant message contains any thinking blocks, the first block must be"
            yield turn.blocks[0].path, f"{said} `thinking` or `redacted_thinking`. Found `{kinds[0]}`."


def opens_loop(request: CheckedRequest) -> Broken:
    """With a budget, the turn that waits for results must have begun with thinking (K-03).

    A turn is all replies since the last user text; without interleaved thinking only the first of them thinks.
    """
    if request.thinking != "enabled":
        return
    loop = waiting_loop(request.turns)
    replies = [turn for turn in loop if turn.role == "assistant"]
    if not any(placed.kind == "tool_use" for turn in replies for placed in turn.blocks):
        return
    first = replies[0].blocks[0]
    if first.kind not in THOUGHTS:
        said = (
            f"Expected `thinking` or `redacted_thinking`, but found `{first.kind}`. When `thinking` is enabled, a final"
        )
        why = "`assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and"
        yield f"{first.path}.type", f"{said} {why} `tool_result` blocks)."


def waiting_loop(turns: list[RequestTurn]) -> list[RequestTurn]:
    """The turns after the last user text that does not answer a call."""
    start = 0
    for number, turn in enumerate(turns):
        if turn.role != "assistant" and all(placed.kind != "tool_result" for placed in turn.blocks):
            start = number + 1
    return turns[start:]


MOST_MARKS = 4


def check_mark_count(request: CheckedRequest) -> Broken:
    found = len(request.marks)
    if found > MOST_MARKS:
        yield "", f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {found}."


def longest_first(request: CheckedRequest) -> Broken:
    short = False
    for path, mark in request.marks:
        if mark.get("ttl") != "1h":
            short = True
        elif short:
            said = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
            yield (
                f"{path}.ttl",
                f"{said} Note that blocks are processed in the following order: tools, system, messages.",
            )


def check_no_mark_on_thinking(request: CheckedRequest) -> Broken:
    for placed in request.kind(*THOUGHTS):
        if "cache_control" in placed.block:
            yield placed.at("cache_control"), "Extra inputs are not permitted"


def check_no_mark_on_empty_text(request: CheckedRequest) -> Broken:
    for placed in request.texts:
        if placed.block.get("cache_control") and not placed.block["text"]:
            yield placed.path, "cache_control cannot be set for empty text blocks"
