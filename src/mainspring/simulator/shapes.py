"""The form of a request: its fields, their types, and which are required; and what each model accepts.

As documented for `POST /v1/messages`, read on 2026-11-15, without betas except those that `message_rules.py` names.
Strict: fields that are not in these tables are not permitted, as in the API.

The table of models has what `core/models.py` does not know, as documented by Anthropic, read on 2026-11-15. It is
separate from the table for our own requests: a mistake there must not be excused here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from mainspring.core.models import MODELS, Model
from mainspring.simulator.forms import (
    Check,
    Found,
    Kind,
    accept_anything,
    check_exact_type,
    check_fields,
    check_list,
    check_number,
    check_optional,
    is_list,
    is_object,
    one_of,
    tagged_object,
    text_or,
)

# --- blocks ----------------------------------------------------------------------------------------

CACHE = check_optional(check_fields({"type": one_of("ephemeral")}, {"ttl": one_of("5m", "1h")}))
MARK: dict[str, Kind] = {"cache_control": CACHE}
CITING = check_optional(check_fields({}, {"enabled": bool}))

_CITED: dict[str, Kind] = {"type": str, "cited_text": str}
_IN_DOCUMENT: dict[str, Kind] = {**_CITED, "document_index": int, "document_title": check_optional(str)}
_FROM: dict[str, Kind] = {"file_id": check_optional(str)}  # in the replies, so it comes back
CITATION = tagged_object(
    {
        "char_location": check_fields({**_IN_DOCUMENT, "start_char_index": int, "end_char_index": int}, _FROM),
        "page_location": check_fields({**_IN_DOCUMENT, "start_page_number": int, "end_page_number": int}, _FROM),
        "content_block_location": check_fields(
            {**_IN_DOCUMENT, "start_block_index": int, "end_block_index": int}, _FROM
        ),
        "web_search_result_location": check_fields(
            {**_CITED, "encrypted_index": str, "title": check_optional(str), "url": str},
        ),
        "search_result_location": check_fields(
            {
                **_CITED,
                "search_result_index": int,
                "source": str,
                "title": check_optional(str),
                "start_block_index": int,
                "end_block_index": int,
            }
        ),
    }
)

TEXT = check_fields({"type": str, "text": str}, {**MARK, "citations": check_optional(check_list(CITATION))})

_FILE = check_fields({"type": str, "file_id": str})
_URL = check_fields({"type": str, "url": str})
_BASE64 = check_fields({"type": str, "media_type": str, "data": str})
IMAGE = check_fields({"type": str, "source": tagged_object({"base64": _BASE64, "url": _URL, "file": _FILE})}, MARK)
_PARTS = check_fields({"type": str, "content": text_or(check_list(tagged_object({"text": TEXT, "image": IMAGE})))})
DOCUMENT = check_fields(
    {
        "type": str,
        "source": tagged_object({"base64": _BASE64, "text": _BASE64, "content": _PARTS, "url": _URL, "file": _FILE}),
    },
    {**MARK, "citations": CITING, "context": check_optional(str), "title": check_optional(str)},
)
SEARCH_RESULT = check_fields(
    {"type": str, "source": str, "title": str, "content": check_list(tagged_object({"text": TEXT}))},
    {**MARK, "citations": CITING},
)
TOOL_REFERENCE = check_fields({"type": str, "tool_name": str}, MARK)

_BY_CODE = check_fields({"type": str, "tool_id": str})
CALLER = tagged_object(
    {
        "direct": check_fields({"type": str}),
        "code_execution_20250825": _BY_CODE,
        "code_execution_20260120": _BY_CODE,
        "code_execution_20260521": _BY_CODE,
    }
)
TOOL_USE = check_fields({"type": str, "id": str, "name": str, "input": dict}, {**MARK, "caller": CALLER})
SERVER_TOOL_USE = TOOL_USE
_IN_RESULT = {
    "text": TEXT,
    "image": IMAGE,
    "document": DOCUMENT,
    "search_result": SEARCH_RESULT,
    "tool_reference": TOOL_REFERENCE,
}
TOOL_RESULT = check_fields(
    {"type": str, "tool_use_id": str},
    {**MARK, "content": text_or(check_list(tagged_object(_IN_RESULT))), "is_error": bool},
)
# Thinking cannot have a breakpoint; `tool_rules.py` has a rule of its own for that.
THINKING = check_fields({"type": str, "thinking": str, "signature": str}, {"cache_control": accept_anything})
REDACTED_THINKING = check_fields({"type": str, "data": str}, {"cache_control": accept_anything})


def _failure(*more: str) -> Check:
    return check_fields({"type": str, "error_code": str}, dict.fromkeys(more, check_optional(str)))


_RAN: dict[str, Kind] = {"type": str, "stderr": str, "return_code": int}
_OUTPUT = check_list(check_fields({"type": str, "file_id": str}))
_FOUND_PAGE = check_fields(
    {"type": str, "url": str, "title": str, "encrypted_content": str}, {"page_age": check_optional(str)}
)
_LINES = ("lines", "new_lines", "new_start", "old_lines", "old_start")


def _pages_or_failure(value: Any, path: str, found: Found) -> None:
    """A successful search has a list, a failed one an object."""
    if is_list(value):
        check_list(tagged_object({"web_search_result": _FOUND_PAGE}))(value, path, found)
    else:
        tagged_object({"web_search_tool_result_error": _failure()})(value, path, found)


# The allowed `content`, by the kind of the result.
SERVER_RESULTS: dict[str, Check] = {
    "web_search_tool_result": _pages_or_failure,
    "web_fetch_tool_result": tagged_object(
        {
            "web_fetch_result": check_fields(
                {"type": str, "url": str, "content": DOCUMENT}, {"retrieved_at": check_optional(str)}
            ),
            "web_fetch_tool_result_error": _failure(),
        }
    ),
    "code_execution_tool_result": tagged_object(
        {
            "code_execution_result": check_fields({**_RAN, "stdout": str, "content": _OUTPUT}),
            "encrypted_code_execution_result": check_fields({**_RAN, "encrypted_stdout": str, "content": _OUTPUT}),
            "code_execution_tool_result_error": _failure(),
        }
    ),
    "bash_code_execution_tool_result": tagged_object(
        {
            "bash_code_execution_result": check_fields({**_RAN, "stdout": str, "content": _OUTPUT}),
            "bash_code_execution_tool_result_error": _failure(),
        }
    ),
    "text_editor_code_execution_tool_result": tagged_object(
        {
            "text_editor_code_execution_view_result": check_fields(
                {"type": str, "content": str, "file_type": one_of("text", "image", "pdf")},
                dict.fromkeys(("num_lines", "start_line", "total_lines"), check_optional(int)),
            ),
            "text_editor_code_execution_create_result": check_fields({"type": str, "is_file_update": bool}),
            "text_editor_code_execution_str_replace_result": check_fields(
                {"type": str}, dict.fromkeys(_LINES, accept_anything)
            ),
            "text_editor_code_execution_tool_result_error": _failure("error_message"),
        }
    ),
    "tool_search_tool_result": tagged_object(
        {
            "tool_search_tool_search_result": check_fields(
                {"type": str, "tool_references": check_list(tagged_object({"tool_reference": TOOL_REFERENCE}))}
            ),
            "tool_search_tool_result_error": _failure("error_message"),
        }
    ),
}

SPOKEN_BLOCKS: dict[str, Check] = {
    "text": TEXT,
    "image": IMAGE,
    "document": DOCUMENT,
    "search_result": SEARCH_RESULT,
    "container_upload": check_fields({"type": str, "file_id": str}, MARK),
    "tool_use": TOOL_USE,
    "tool_result": TOOL_RESULT,
    "thinking": THINKING,
    "redacted_thinking": REDACTED_THINKING,
    "server_tool_use": SERVER_TOOL_USE,
    **{
        kind: check_fields({"type": str, "tool_use_id": str, "content": content}, {**MARK, "caller": CALLER})
        for kind, content in SERVER_RESULTS.items()
    },
}

# --- tools -----------------------------------------------------------------------------------------

_ANY_TOOL: dict[str, Kind] = {**MARK, "allowed_callers": check_list(str), "defer_loading": bool, "strict": bool}
_EXAMPLES: dict[str, Kind] = {"input_examples": check_list(dict)}
CUSTOM_TOOL = check_fields(
    {"name": str, "input_schema": dict},
    {
        **_ANY_TOOL,
        **_EXAMPLES,
        "type": accept_anything,
        "description": str,
        "eager_input_streaming": check_optional(bool),
    },
)
_DOMAINS: dict[str, Kind] = {
    "allowed_domains": check_optional(check_list(str)),
    "blocked_domains": check_optional(check_list(str)),
    "max_uses": check_optional(int),
    "response_inclusion": one_of("full", "excluded"),
}
_WHERE: dict[str, Kind] = dict.fromkeys(("city", "country", "region", "timezone"), check_optional(str))
_SEARCHING: dict[str, Kind] = {
    **_DOMAINS,
    "user_location": check_optional(check_fields({"type": one_of("approximate")}, _WHERE)),
}
_FETCHING: dict[str, Kind] = {
    **_DOMAINS,
    "citations": CITING,
    "max_content_tokens": check_optional(int),
    "use_cache": bool,
}
# The tools that Anthropic defines: their name, their extra fields, and their versions.
_NAMED: tuple[tuple[str, dict[str, Kind], tuple[str, ...]], ...] = (
    ("bash", _EXAMPLES, ("bash_20250124",)),
    ("str_replace_editor", _EXAMPLES, ("text_editor_20250124",)),
    ("str_replace_based_edit_tool", _EXAMPLES, ("text_editor_20250429",)),
    ("str_replace_based_edit_tool", {**_EXAMPLES, "max_characters": check_optional(int)}, ("text_editor_20250728",)),
    ("memory", _EXAMPLES, ("memory_20250818",)),
    ("web_search", _SEARCHING, ("web_search_20250305", "web_search_20260209", "web_search_20260318")),
    ("web_fetch", _FETCHING, ("web_fetch_20250910", "web_fetch_20260209", "web_fetch_20260309", "web_fetch_20260318")),
    (
        "code_execution",
        {},
        tuple(f"code_execution_{day}" for day in (20250522, 20250825, 20260120, 20260521)),
    ),
    ("tool_search_tool_regex", {}, ("tool_search_tool_regex", "tool_search_tool_regex_20251119")),
    ("tool_search_tool_bm25", {}, ("tool_search_tool_bm25", "tool_search_tool_bm25_20251119")),
)
NAMED_TOOLS: dict[str, Check] = {
    version: check_fields({"type": str, "name": one_of(name)}, {**_ANY_TOOL, **more})
    for name, more, versions in _NAMED
    for version in versions
}


def check_tool(value: Any, path: str, found: Found) -> None:
    if is_object(value) and value.get("type") in (None, "custom"):
        CUSTOM_TOOL(value, f"{path}.custom", found)
    else:
        tagged_object(NAMED_TOOLS)(value, path, found)


# --- messages --------------------------------------------------------------------------------------

_NAMED_TOOL = check_fields({"type": str, "name": str})
_INLINE_TOOL = check_fields({"type": str, "definition": check_tool})
BLOCKS: dict[str, Check] = {
    **SPOKEN_BLOCKS,
    # in system messages: which tools the model has from here on
    "tool_addition": check_fields(
        {"type": str, "tool": tagged_object({"tool_reference": _NAMED_TOOL, "tool_definition": _INLINE_TOOL})}, MARK
    ),
    "tool_removal": check_fields({"type": str, "tool": tagged_object({"tool_reference": _NAMED_TOOL})}, MARK),
}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
MESSAGE = check_fields(
    {"role": str, "content": text_or(check_list(tagged_object(BLOCKS)))},
    {
        "clear_at": check_optional(one_of("next_user_message", "never")),
        "output_config": check_optional(check_fields({}, {"effort": check_optional(one_of(*EFFORTS))})),
    },
)

# --- parameters ------------------------------------------------------------------------------------

_DISPLAY: dict[str, Kind] = {"display": check_optional(one_of("summarized", "omitted", "updates"))}
_BINDING = check_fields({"prefix_mismatch_behavior": one_of("error", "drop_block")})
THOUGHT: dict[str, Check] = {
    "enabled": check_fields({"type": str, "budget_tokens": int}, _DISPLAY),
    "adaptive": check_fields({"type": str}, {**_DISPLAY, "block_binding": _BINDING}),
    "between_tools": check_fields({"type": str}, {"block_binding": _BINDING}),
    "disabled": check_fields({"type": str}),
}
_ALONE: dict[str, Kind] = {"disable_parallel_tool_use": bool}
CHOICE = tagged_object(
    {
        "auto": check_fields({"type": str}, _ALONE),
        "any": check_fields({"type": str}, _ALONE),
        "tool": check_fields({"type": str, "name": str}, _ALONE),
        "none": check_fields({"type": str}),
    }
)
OUTPUT = check_fields(
    {},
    {
        "effort": check_optional(one_of(*EFFORTS)),
        "format": check_optional(check_fields({"type": one_of("json_schema"), "schema": dict})),
        "task_budget": check_optional(
            check_fields({"type": one_of("tokens"), "total": int}, {"remaining": check_optional(int)})
        ),
    },
)

_TOKENS = check_fields({"type": one_of("input_tokens"), "value": int})
_USES = check_fields({"type": one_of("tool_uses"), "value": int})


def _all_or_named(value: Any, path: str, found: Found) -> None:
    """For all tools or none, or for the named ones."""
    (check_list(str) if is_list(value) else check_exact_type(bool))(value, path, found)


_TURNS = check_fields({"type": one_of("thinking_turns"), "value": int})


def _all_or_turns(value: Any, path: str, found: Found) -> None:
    (one_of("all") if isinstance(value, str) else _TURNS)(value, path, found)


# The first one is simulated, the second only accepted: it has no visible effect. The API has others.
EDITS: dict[str, Check] = {
    "clear_tool_uses_20250919": check_fields(
        {"type": str},
        {
            "trigger": tagged_object({"input_tokens": _TOKENS, "tool_uses": _USES}),
            "keep": _USES,
            "clear_at_least": check_optional(_TOKENS),
            "exclude_tools": check_optional(check_list(str)),
            "clear_tool_inputs": check_optional(_all_or_named),
        },
    ),
    "clear_thinking_20251015": check_fields({"type": str}, {"keep": _all_or_turns}),
}
MANAGED = check_optional(check_fields({}, {"edits": check_list(tagged_object(EDITS))}))

_BOTH_NEED: dict[str, Kind] = {"model": str, "messages": check_list(MESSAGE)}
_BOTH_TAKE: dict[str, Kind] = {
    **MARK,
    "context_management": MANAGED,
    "output_config": OUTPUT,
    "system": text_or(check_list(tagged_object({"text": TEXT}))),
    "thinking": tagged_object(THOUGHT),
    "tool_choice": CHOICE,
    "tools": check_list(check_tool),
}
CREATE = check_fields(
    {**_BOTH_NEED, "max_tokens": int},
    {
        **_BOTH_TAKE,
        "container": check_optional(str),
        "inference_geo": check_optional(str),
        "metadata": check_fields({}, {"user_id": check_optional(str)}),
        "service_tier": one_of("auto", "standard_only"),
        "stop_sequences": check_list(str),
        "stream": bool,
        "temperature": check_number,
        "top_k": int,
        "top_p": check_number,
    },
)
COUNT = check_fields(_BOTH_NEED, _BOTH_TAKE)


ALL_EFFORTS = frozenset(EFFORTS)
UP_TO_HIGH = frozenset({"low", "medium", "high"})
_DATE = re.compile(r"-20\d{6}$")


class ModelQuirks(NamedTuple):
    thinking: frozenset[str]  # values of `thinking.type`
    efforts: frozenset[str] = ALL_EFFORTS
    quiet: frozenset[str] = ALL_EFFORTS  # efforts at which thinking may be turned off or down
    thinks_unasked: bool = True  # when `thinking` is left out
    forced_tools: bool = True  # tool_choice "any" and "tool"
    sampling: bool = False  # temperature, top_p, top_k
    prefill: bool = False  # a conversation may end with the assistant
    binds: bool = False  # thinking is invalid after any change before it (`cache.py`)
    least_cached: int = 1_024  # tokens; a shorter prefix is not cached
    system_messages: bool = True  # in mid-conversation, after a user message: since Opus 4.8
    effort_messages: bool = True  # system messages that change the effort from there on


# The shortest cached prefix: 512 tokens for Opus 5, Fable 5 and Mythos 5, 1,024 for Sonnet, 4,096 for Opus 4.5 and
# Haiku 4.5. For the newest models the pages we could read say nothing; they get the values of their predecessors.
ADAPTIVE = ModelQuirks(frozenset({"adaptive", "disabled"}))
ALWAYS = ModelQuirks(frozenset({"adaptive"}), forced_tools=False, least_cached=512)
BUDGETED = ModelQuirks(
    frozenset({"enabled", "disabled"}),
    efforts=frozenset(),
    thinks_unasked=False,
    sampling=True,
    prefill=True,
    system_messages=False,
    effort_messages=False,
)
MANNERS: dict[str, ModelQuirks] = {
    "claude-fable-5-1": ALWAYS._replace(binds=True),
    # forced tools: refused in June 2026, said to be accepted since; the strict reading
    "claude-fable-5": ALWAYS._replace(effort_messages=False),
    "claude-mythos-5-1": ALWAYS,
    "claude-mythos-5": ALWAYS._replace(effort_messages=False),
    "claude-opus-5-5": ALWAYS._replace(binds=True),
    "claude-opus-5": ADAPTIVE._replace(quiet=UP_TO_HIGH, least_cached=512),
    "claude-sonnet-5-5": ModelQuirks(
        frozenset({"adaptive", "between_tools"}), quiet=UP_TO_HIGH, forced_tools=False, binds=True
    ),
    "claude-sonnet-5": ADAPTIVE._replace(effort_messages=False),
    "claude-haiku-5-5": ADAPTIVE._replace(quiet=UP_TO_HIGH, binds=True, least_cached=4_096),
    "claude-opus-4-5": BUDGETED._replace(efforts=UP_TO_HIGH, least_cached=4_096),
    "claude-sonnet-4-5": BUDGETED,
    "claude-haiku-4-5": BUDGETED._replace(least_cached=4_096),
}


def strip_model_date_suffix(model: str) -> str:
    return _DATE.sub("", model)


@lru_cache
def manner_of(model: str) -> ModelQuirks | None:
    """None for an unknown model: no rule that depends on the model applies to it."""
    name = strip_model_date_suffix(model)
    later = ALWAYS if name.startswith(("claude-fable-", "claude-mythos-")) else None
    return MANNERS.get(name, later)


def listed_model(model: str) -> Model | None:
    """The row of the core's table; None if there is none."""
    return MODELS.get(strip_model_date_suffix(model))
