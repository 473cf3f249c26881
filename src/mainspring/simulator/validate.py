"""A strict validator of requests to Anthropic's Messages API, without I/O.

    find_request_violations(body, headers) -> []          # the API would accept it

It replaces the API's own checks, so it shares no code with our own requests. Rules come from the documentation on
platform.claude.com and from the API's error messages as users have reported them, read on 2026-11-15. Where both are
silent the strict reading wins.

    headers, size, JSON, Unicode  >  the form (`shapes.py`)  >  the meaning (`message_rules.py`, `tool_rules.py`)

As in the API, the meaning is checked only if the form is valid, so a rule may rely on it.

Not checked here, because it needs earlier requests: whether thinking follows the same conversation in which it was
written, which newer models check. The server does that (`cache.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from mainspring.simulator import message_rules, shapes, tool_rules
from mainspring.simulator.forms import Violation
from mainspring.simulator.request import CheckedRequest, Endpoint

Broken = Iterator[tuple[str, str]]

LARGEST_REQUEST = 32 * 1024 * 1024  # bytes, documented as 32 MB
GOOD_HEADERS: Mapping[str, str] = {"anthropic-version": "2023-06-01", "content-type": "application/json"}

OF_HEADERS: dict[str, Callable[[Mapping[str, str]], Broken]] = {
    "headers.version": message_rules.check_version,
    "headers.content_type": message_rules.content_type,
    "headers.betas": message_rules.check_betas,
}
OF_BYTES = ("body.size", "body.json", "body.unicode")
OF_FORM = ("fields.unknown", "fields.missing", "fields.type", "fields.value", "fields.kind")
OF_MEANING: dict[str, Callable[[CheckedRequest], Broken]] = {
    "model.name": message_rules.model_named,
    "max_tokens": message_rules.max_tokens,
    "betas.needed": message_rules.betas_asked,
    "messages.some": message_rules.check_has_messages,
    "messages.roles": message_rules.check_roles,
    "messages.fields": message_rules.check_message_fields,
    "messages.user_first": message_rules.user_first,
    "messages.alternate": message_rules.check_alternation,
    "messages.content": message_rules.check_content,
    "blocks.place": message_rules.check_block_places,
    "cache.empty_text": tool_rules.check_no_mark_on_empty_text,
    "text.some": message_rules.text_some,
    "system.some": message_rules.system_some,
    "tools.name": tool_rules.check_tool_names,
    "tools.unique": tool_rules.unique_names,
    "tools.schema": tool_rules.check_tool_schemas,
    "tools.some_loaded": tool_rules.some_loaded,
    "tools.changed": tool_rules.check_tool_changes,
    "tools.domains": tool_rules.check_search_domains,
    "tool_choice": tool_rules.check_tool_choice,
    "tool_choice.forced": tool_rules.check_forced_choice,
    "tool_use.id": tool_rules.call_ids,
    "tool_use.name": tool_rules.call_names,
    "tool_use.unique": tool_rules.unique_calls,
    "tool_use.answered": tool_rules.check_results_follow,
    "tool_result.known": tool_rules.known_results,
    "tool_result.single": tool_rules.single_results,
    "tool_result.first": tool_rules.results_first,
    "tool_result.error_content": tool_rules.error_content,
    "tool_result.error_text": tool_rules.error_text,
    "server_tool.name": tool_rules.server_names,
    "server_tool.result": tool_rules.server_results,
    "server_tool.call": tool_rules.server_calls,
    "thinking.mode": tool_rules.check_thinking_mode,
    "thinking.mode_effort": tool_rules.mode_effort,
    "thinking.budget": tool_rules.check_thinking_budget,
    "thinking.signature": tool_rules.check_signatures,
    "thinking.model": tool_rules.bound_to_model,
    "thinking.asked": tool_rules.asked_for,
    "thinking.last": tool_rules.never_last,
    "thinking.leads": tool_rules.check_thinking_leads,
    "thinking.loop": tool_rules.opens_loop,
    "messages.user_last": message_rules.user_last,
    "messages.trailing_space": message_rules.trailing_space,
    "cache.count": tool_rules.check_mark_count,
    "cache.order": tool_rules.longest_first,
    "cache.thinking": tool_rules.check_no_mark_on_thinking,
    "media.type": message_rules.check_media_types,
    "media.base64": message_rules.check_base64,
    "media.size": message_rules.check_media_size,
    "media.url": message_rules.check_urls,
    "media.count": message_rules.check_media_count,
    "version.sampling": message_rules.no_sampling,
    "version.citations": message_rules.no_citations_by_users,
    "sampling.range": message_rules.sampling_range,
    "sampling.model": message_rules.sampling_model,
    "sampling.thinking": message_rules.sampling_thinking,
    "stop_sequences": message_rules.stop_sequences,
    "effort.model": message_rules.effort_model,
    "task_budget": message_rules.task_budget,
    "task_budget.model": message_rules.task_budget_model,
    "context_management": message_rules.context_edits,
}
RULES: tuple[str, ...] = (*OF_HEADERS, *OF_BYTES, *OF_FORM, *OF_MEANING)


def find_request_violations(
    body: bytes | Mapping[str, Any],
    headers: Mapping[str, str] = GOOD_HEADERS,
    *,
    endpoint: Endpoint = "/v1/messages",
    alternate: bool = True,
) -> list[Violation]:
    """The violations of a request, in the order of the API's checks.

    `alternate=False` allows neighbours of one role, as the API does; our own projection promises to join them.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    found = [Violation(path, rule, message) for rule, broken in OF_HEADERS.items() for path, message in broken(lower)]
    decoded, unreadable = decode_request_body(body)
    if unreadable is not None:
        return [*found, unreadable]
    form = shapes.CREATE if endpoint == "/v1/messages" else shapes.COUNT
    form(decoded, "", found)
    if any(violation.rule in OF_FORM for violation in found):
        return found
    request = CheckedRequest(decoded, lower, alternate=alternate)
    for rule, broken in OF_MEANING.items():
        for path, message in broken(request):
            found.append(Violation(path, rule, message))
    return found


def decode_request_body(body: bytes | Mapping[str, Any]) -> tuple[Any, Violation | None]:
    """The decoded body, or why there is none. A mapping is checked as the bytes it becomes."""
    try:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        if len(raw) > LARGEST_REQUEST:
            return None, Violation("", "body.size", "Request exceeds the maximum size")
        return msgspec.json.decode(raw), None
    except UnicodeError as error:
        return None, Violation("", "body.unicode", f"The request body is not valid JSON: {error}")
    except (msgspec.MsgspecError, TypeError, RecursionError) as error:
        rule = "body.unicode" if isinstance(body, bytes) and half_characters(body) else "body.json"
        return None, Violation("", rule, f"The request body is not valid JSON: {error}")


def half_characters(raw: bytes) -> bool:
    """Whether the only problem of a body is escaped lone surrogates."""
    try:
        json.dumps(json.loads(raw), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False
