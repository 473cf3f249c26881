"""Every rule of the judge: a request that breaks it, and its nearest neighbour that does not."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from mainspring.core.models import MODELS
from mainspring.simulator.message_rules import (
    CLEARED_MESSAGES,
    CONTEXT_MANAGEMENT,
    DISPLAY_UPDATES,
    EFFORT_MESSAGES,
    INLINE_TOOLS,
    LARGEST_IMAGE,
    TASK_BUDGETS,
    THINKING_BINDING,
    TOOL_CHANGES,
)
from mainspring.simulator.request import Endpoint
from mainspring.simulator.shapes import MANNERS
from mainspring.simulator.validate import GOOD_HEADERS, LARGEST_REQUEST, RULES, find_request_violations
from simulator.bodies import (
    ADAPTIVE,
    BUDGETED,
    DISABLING,
    PAPER,
    Json,
    ask,
    assistant,
    budget,
    call,
    image,
    mark,
    pages,
    paper,
    redacted,
    result,
    searched,
    text,
    thought,
    tool,
    user,
)

LOOP = (user("Read it."), assistant(call()), user(result()))
TASK_BUDGET = {"type": "tokens", "total": 20_000}


def clearing(**more: Any) -> Json:
    return {"edits": [{"type": "clear_tool_uses_20250919", **more}]}


def system(*content: Json, **more: Any) -> Json:
    return {"role": "system", "content": list(content), **more}


def changed_tool(name: str, kind: str = "tool_addition") -> Json:
    return system({"type": kind, "tool": {"type": "tool_reference", "name": name}})


LOW = {"effort": "low"}
CITED = {
    "type": "char_location",
    "cited_text": "a",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 1,
}
NEWEST = {**GOOD_HEADERS, "anthropic-version": "2026-10-21"}


def found(*content: Json) -> Json:
    return {"type": "search_result", "source": "here", "title": "A", "content": list(content)}


def searching(**fields: Any) -> Json:
    return {"type": "web_search_20250305", "name": "web_search", **fields}


class Case(NamedTuple):
    """The wrong request breaks this rule, there, and says so; the right one breaks none."""

    rule: str
    path: str
    says: str
    wrong: Any
    right: Any
    headers: Mapping[str, str] = GOOD_HEADERS  # of both
    wrong_headers: Mapping[str, str] | None = None  # where the headers are what differs
    endpoint: Endpoint = "/v1/messages"


def replaced(name: str, value: str | None) -> dict[str, str]:
    headers = {**GOOD_HEADERS, name: value or ""}
    return {other: given for other, given in headers.items() if other != name or value is not None}


def betas(*names: str) -> dict[str, str]:
    return {**GOOD_HEADERS, "anthropic-beta": ",".join(names)}


def schema(**more: Any) -> Json:
    return ask(tools=[{"name": "Read", "input_schema": more}])


CASES = [
    # --- system messages that change something in mid-conversation
    Case(
        "betas.needed",
        "messages.1.output_config",
        EFFORT_MESSAGES[0],
        ask(user("a"), system(output_config=LOW)),
        ask(user("a"), system(output_config=LOW)),
        betas(EFFORT_MESSAGES[0]),
        dict(GOOD_HEADERS),
    ),
    Case(
        "betas.needed",
        "messages.1.output_config",
        EFFORT_MESSAGES[0],
        ask(user("a"), system(text("b"), output_config=LOW)),
        ask(user("a"), system(text("b"), output_config=LOW)),
        betas(EFFORT_MESSAGES[1]),
        dict(GOOD_HEADERS),
    ),
    Case(
        "betas.needed",
        "messages.1.clear_at",
        CLEARED_MESSAGES,
        ask(user("a"), system(text("b"), clear_at="next_user_message")),
        ask(user("a"), system(text("b"), clear_at="next_user_message")),
        betas(CLEARED_MESSAGES),
        dict(GOOD_HEADERS),
    ),
    Case(
        "betas.needed",
        "messages.1.content.0",
        TOOL_CHANGES,
        ask(user("a"), changed_tool("Read"), tools=[tool()]),
        ask(user("a"), changed_tool("Read"), tools=[tool()]),
        betas(TOOL_CHANGES),
        dict(GOOD_HEADERS),
    ),
    Case(
        "betas.needed",
        "messages.1.content.0",
        INLINE_TOOLS,
        ask(user("a"), system({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool()}})),
        ask(user("a"), system({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool()}})),
        betas(INLINE_TOOLS),
        betas(TOOL_CHANGES),
    ),
    Case(
        "betas.needed",
        "thinking.adaptive.display",
        DISPLAY_UPDATES,
        ask(thinking={"type": "adaptive", "display": "updates"}),
        ask(thinking={"type": "adaptive", "display": "updates"}),
        betas(DISPLAY_UPDATES),
        dict(GOOD_HEADERS),
    ),
    Case(
        "fields.value",
        "thinking.adaptive.display",
        "'summarized'",
        ask(thinking={"type": "adaptive", "display": "loud"}),
        ask(thinking={"type": "adaptive", "display": "omitted"}),
    ),
    Case(
        "messages.fields",
        "messages.0.output_config",
        "not permitted",
        ask({**user("a"), "output_config": LOW}),
        ask(user("a"), assistant("b"), system(output_config=LOW), user("c")),
        betas(*EFFORT_MESSAGES),
    ),
    Case(
        "messages.fields",
        "messages.1",
        "a model that supports per-turn effort",
        ask(user("a"), system(output_config=LOW), model="claude-sonnet-5"),
        ask(user("a"), system(output_config=LOW), model="claude-opus-5"),
        betas(*EFFORT_MESSAGES),
    ),
    Case(
        "fields.unknown",
        "messages.1.output_config.format",
        "not permitted",
        ask(user("a"), system(output_config={"format": {"type": "json_schema", "schema": {}}})),
        ask(user("a"), system(text("b"), output_config={})),
        betas(*EFFORT_MESSAGES),
    ),
    Case(
        "messages.roles",
        "messages.2.role",
        "immediately after a user message",
        ask(user("a"), assistant("b"), system(text("c"), output_config=LOW), user("d")),
        ask(user("a"), assistant("b"), system(output_config=LOW), user("d")),
        betas(*EFFORT_MESSAGES),
    ),
    Case(
        "messages.content",
        "messages.1",
        "non-empty content",
        ask(user("a"), system(output_config={})),
        ask(user("a"), system(output_config=LOW)),
        betas(*EFFORT_MESSAGES),
    ),
    Case(
        "tools.changed",
        "messages.1.content.0.tool_removal.tool.tool_reference.name",
        "'Write' not found",
        ask(user("a"), changed_tool("Write", "tool_removal"), tools=[tool()]),
        ask(user("a"), changed_tool("Read", "tool_removal"), tools=[tool()]),
        betas(TOOL_CHANGES),
    ),
    Case(
        "blocks.place",
        "messages.0.content.0",
        "`tool_addition` blocks can only be in `system` messages",
        ask({**changed_tool("Read"), "role": "user"}, tools=[tool()]),
        ask(user("a"), changed_tool("Read"), tools=[tool()]),
        betas(TOOL_CHANGES),
    ),
    # --- headers and bytes
    Case(
        "headers.version",
        "anthropic-version",
        "required",
        ask(),
        ask(),
        GOOD_HEADERS,
        replaced("anthropic-version", None),
    ),
    Case(
        "headers.version",
        "anthropic-version",
        "valid version",
        ask(),
        ask(),
        GOOD_HEADERS,
        replaced("anthropic-version", "1"),
    ),
    Case(
        "version.sampling",
        "top_p",
        "Extra inputs",
        ask(model=BUDGETED, top_p=1),
        ask(model=BUDGETED),
        NEWEST,
    ),
    Case(
        "version.citations",
        "messages.0.content.0.text.citations",
        "Extra inputs",
        ask(user(text("as it says", citations=[CITED]))),
        ask(user("as it says"), assistant(text("as it says", citations=[CITED])), user("Yes.")),
        NEWEST,
    ),
    Case(
        "version.citations",
        "messages.0.content.0.search_result.content.0.text.citations",
        "Extra inputs",
        ask(user(found(text("as it says", citations=[CITED])))),
        ask(user(found(text("as it says")))),
        NEWEST,
    ),
    Case(
        "headers.content_type",
        "content-type",
        "text/plain",
        ask(),
        ask(),
        GOOD_HEADERS,
        replaced("content-type", "text/plain"),
    ),
    Case(
        "headers.content_type",
        "content-type",
        "not ''",
        ask(),
        ask(),
        replaced("content-type", "Application/JSON; charset=utf-8"),
        replaced("content-type", None),
    ),
    Case("headers.betas", "anthropic-beta", "`a_b`", ask(), ask(), betas("a-2026-01-01", "b"), betas("a-2026", "a_b")),
    Case("headers.betas", "anthropic-beta", "``", ask(), ask(), betas("a"), betas("a", "")),
    Case(
        "body.size",
        "",
        "maximum size",
        json.dumps(ask(user("x" * LARGEST_REQUEST))).encode(),
        json.dumps(ask(user("x" * (LARGEST_REQUEST - 1_000)))).encode(),
    ),
    Case("body.json", "", "not valid JSON", b'{"model": ', json.dumps(ask()).encode()),
    Case("body.json", "", "not valid JSON", b'{"max_tokens": NaN}', json.dumps(ask()).encode()),
    Case("body.json", "", "not valid JSON", b"[" * 100_000, json.dumps(ask()).encode()),
    Case("body.json", "", "not valid JSON", ask(user(text("a", citations=object()))), ask(user(text("a")))),
    Case("body.unicode", "", "not valid JSON", json.dumps(ask(user("\ud83d!"))).encode(), json.dumps(ask()).encode()),
    Case("body.unicode", "", "not valid JSON", ask(user("\ude00")), ask(user("\U0001f600"))),
    Case("body.unicode", "", "not valid JSON", b'{"model": "\xff"}', json.dumps(ask()).encode()),
    # --- form
    Case("fields.type", "", "valid dictionary", b"[]", json.dumps(ask()).encode()),
    Case("fields.unknown", "wisdom", "not permitted", ask(wisdom=1), ask()),
    Case("fields.unknown", "messages.0.id", "not permitted", ask({**user("a"), "id": "1"}), ask(user("a"))),
    Case("fields.unknown", "messages.0.content.0.text.id", "not permitted", ask(user(text(id="1"))), ask(user(text()))),
    Case(
        "fields.unknown",
        "messages.2.content.0.tool_result.content.0.text.x",
        "not permitted",
        ask(*LOOP[:2], user(result(content=[text(x=1)]))),
        ask(*LOOP[:2], user(result(content=[text()]))),
    ),
    Case("fields.unknown", "tools.0.custom.schema", "not permitted", ask(tools=[tool(schema={})]), ask(tools=[tool()])),
    Case(
        "fields.unknown",
        "output_config.zeal",
        "not permitted",
        ask(output_config={"zeal": "high"}),
        ask(output_config={"effort": "high"}),
    ),
    Case("fields.missing", "max_tokens", "required", {"model": "m", "messages": [user("a")]}, ask()),
    Case("fields.missing", "model", "required", {"max_tokens": 1, "messages": [user("a")]}, ask()),
    Case("fields.missing", "messages", "required", {"max_tokens": 1, "model": "m"}, ask()),
    Case("fields.missing", "messages.0.content", "required", ask({"role": "user"}), ask(user("a"))),
    Case(
        "fields.missing", "messages.0.content.0.text.text", "required", ask(user({"type": "text"})), ask(user(text()))
    ),
    Case(
        "fields.missing",
        "messages.1.content.0.thinking.signature",
        "required",
        ask(user("a"), assistant({"type": "thinking", "thinking": "Hm."}, text()), user("b")),
        ask(user("a"), assistant(thought(), text()), user("b")),
    ),
    Case(
        "fields.missing", "tools.0.custom.input_schema", "required", ask(tools=[{"name": "a"}]), ask(tools=[tool("a")])
    ),
    Case("fields.type", "max_tokens", "valid integer", ask(max_tokens=True), ask(max_tokens=1)),
    Case("fields.type", "max_tokens", "valid integer", ask(max_tokens=1.0), ask(max_tokens=1)),
    Case("fields.type", "model", "valid string", ask(model=5), ask()),
    Case("fields.type", "messages", "valid list", ask(messages={}), ask()),
    Case("fields.type", "messages.0", "valid dictionary", ask(messages=["Hello."]), ask()),
    Case("fields.type", "messages.0.content", "valid list", ask({"role": "user", "content": 5}), ask(user("5"))),
    Case("fields.type", "temperature", "valid number", ask(temperature="1"), ask(temperature=1)),
    Case("fields.type", "stream", "valid boolean", ask(stream="yes"), ask(stream=True)),
    Case(
        "fields.type",
        "messages.1.content.0.tool_use.input",
        "valid dictionary",
        ask(user("a"), assistant({**call(), "input": "{}"}), user(result())),
        ask(user("a"), assistant({**call(), "input": {}}), user(result())),
    ),
    Case(
        "fields.type",
        "tools.0.custom.description",
        "valid string",
        ask(tools=[tool(description=1)]),
        ask(tools=[tool()]),
    ),
    Case("fields.type", "system.0", "valid dictionary", ask(system=["Be brief."]), ask(system=[text("Be brief.")])),
    Case(
        "fields.value", "service_tier", "'auto' or 'standard_only'", ask(service_tier="fast"), ask(service_tier="auto")
    ),
    Case(
        "fields.value",
        "output_config.effort",
        "'low', 'medium', 'high', 'xhigh' or 'max'",
        ask(output_config={"effort": "enormous"}),
        ask(output_config={"effort": "max"}),
    ),
    Case(
        "fields.value",
        "messages.0.content.0.text.cache_control.ttl",
        "'5m' or '1h'",
        ask(user(text(**mark("2h")))),
        ask(user(text(**mark("1h")))),
    ),
    Case(
        "fields.value",
        "messages.0.content.0.text.cache_control.type",
        "'ephemeral'",
        ask(user(text(cache_control={"type": "eternal"}))),
        ask(user(text(cache_control=None))),
    ),
    Case(
        "fields.value",
        "tools.0.web_search_20250305.name",
        "'web_search'",
        ask(tools=[{"type": "web_search_20250305", "name": "search"}]),
        ask(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
    ),
    Case("fields.kind", "messages.0.content.0", "'video'", ask(user({"type": "video"})), ask(user(image()))),
    Case("fields.kind", "messages.0.content.0", "extract tag", ask(user({"text": "a"})), ask(user(text("a")))),
    Case(
        "fields.kind",
        "messages.2.content.0.tool_result.content.0",
        "'tool_use'",
        ask(*LOOP[:2], user(result(content=[call()]))),
        ask(*LOOP[:2], user(result(content=[paper()]))),
    ),
    Case("fields.kind", "thinking", "'hard'", ask(thinking={"type": "hard"}), ask(thinking={"type": "adaptive"})),
    Case(
        "fields.kind",
        "tool_choice",
        "'all'",
        ask(tools=[tool()], tool_choice={"type": "all"}),
        ask(tools=[tool()], tool_choice={"type": "none"}),
    ),
    Case(
        "fields.kind",
        "tools.0",
        "'saw_1'",
        ask(tools=[{"type": "saw_1", "name": "a"}]),
        ask(tools=[tool(type="custom")]),
    ),
    Case("fields.kind", "system.0", "'image'", ask(system=[image()]), ask(system=[text()])),
    Case(
        "fields.unknown",
        "max_tokens",
        "not permitted",
        ask(),
        {"model": ADAPTIVE, "messages": [user("a")]},
        endpoint="/v1/messages/count_tokens",
    ),
    # --- parameters
    Case("model.name", "model", "at least 1", ask(model=""), ask(model="a-model-nobody-described")),
    Case("max_tokens", "max_tokens", "equal to 1", ask(max_tokens=0), ask(max_tokens=1)),
    Case("max_tokens", "max_tokens", "128001 > 128000", ask(max_tokens=128_001), ask(max_tokens=128_000)),
    Case(
        "max_tokens",
        "max_tokens",
        "64001 > 64000, which is the maximum allowed number of output tokens for claude-haiku-4-5-20251001",
        ask(model="claude-haiku-4-5-20251001", max_tokens=64_001),
        ask(model="who-knows", max_tokens=64_001),
    ),
    Case("sampling.range", "temperature", "between", ask(model="x", temperature=1.1), ask(model="x", temperature=0.9)),
    Case("sampling.range", "top_p", "between", ask(model="x", top_p=-0.1), ask(model="x", top_p=0)),
    Case("sampling.model", "temperature", "this model", ask(temperature=0.5), ask(temperature=1.0)),
    Case("sampling.model", "top_k", "this model", ask(top_k=5), ask(model=BUDGETED, top_k=5)),
    Case(
        "sampling.thinking", "temperature", "set to 1", ask(**budget(), temperature=0.5), ask(**budget(), temperature=1)
    ),
    Case("sampling.thinking", "top_p", "0.95", ask(**budget(), top_p=0.9), ask(**budget(), top_p=0.95)),
    Case("sampling.thinking", "top_k", "unset", ask(**budget(), top_k=5), ask(**budget())),
    Case(
        "stop_sequences",
        "stop_sequences.1",
        "whitespace",
        ask(stop_sequences=["a", " "]),
        ask(stop_sequences=["a", " b"]),
    ),
    Case(
        "effort.model",
        "output_config.effort",
        "does not support the effort parameter",
        ask(model=BUDGETED, output_config={"effort": "low"}),
        ask(model=BUDGETED, output_config={"format": {"type": "json_schema", "schema": {}}}),
    ),
    Case(
        "effort.model",
        "output_config.effort",
        "'xhigh' is not supported",
        ask(model="claude-opus-4-5", output_config={"effort": "xhigh"}),
        ask(model="claude-opus-4-5", output_config={"effort": "high"}),
    ),
    Case(
        "task_budget",
        "output_config.task_budget.total",
        "20000",
        ask(output_config={"task_budget": {"type": "tokens", "total": 19_999}}),
        ask(output_config={"task_budget": TASK_BUDGET}),
        betas(TASK_BUDGETS),
    ),
    Case(
        "task_budget",
        "output_config.task_budget.remaining",
        "between",
        ask(output_config={"task_budget": {**TASK_BUDGET, "remaining": 20_001}}),
        ask(output_config={"task_budget": {**TASK_BUDGET, "remaining": 20_000}}),
        betas(TASK_BUDGETS),
    ),
    Case(
        "task_budget.model",
        "output_config.task_budget",
        "not supported",
        ask(model=BUDGETED, output_config={"task_budget": TASK_BUDGET}),
        ask(output_config={"task_budget": TASK_BUDGET}),
        betas(TASK_BUDGETS),
    ),
    Case(
        "betas.needed",
        "output_config.task_budget",
        TASK_BUDGETS,
        ask(output_config={"task_budget": TASK_BUDGET}),
        ask(output_config={"task_budget": TASK_BUDGET}),
        betas("other", TASK_BUDGETS),
        betas("other"),
    ),
    Case(
        "betas.needed",
        "thinking.block_binding",
        THINKING_BINDING,
        ask(thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}),
        ask(thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}),
        betas(THINKING_BINDING),
        dict(GOOD_HEADERS),
    ),
    Case(
        "betas.needed",
        "context_management",
        CONTEXT_MANAGEMENT,
        ask(context_management=clearing()),
        ask(context_management=clearing()),
        betas(CONTEXT_MANAGEMENT),
        dict(GOOD_HEADERS),
    ),
    Case(
        "context_management",
        "context_management.edits.0.clear_tool_uses_20250919.trigger.value",
        "equal to 1",
        ask(context_management=clearing(trigger={"type": "tool_uses", "value": 0})),
        ask(context_management=clearing(trigger={"type": "tool_uses", "value": 1})),
        betas(CONTEXT_MANAGEMENT),
    ),
    Case(
        "context_management",
        "context_management.edits.0.clear_tool_uses_20250919.clear_at_least.value",
        "equal to 0",
        ask(context_management=clearing(clear_at_least={"type": "input_tokens", "value": -1})),
        ask(context_management=clearing(clear_at_least={"type": "input_tokens", "value": 0})),
        betas(CONTEXT_MANAGEMENT),
    ),
    Case(
        "fields.kind",
        "context_management.edits.0",
        "clear_everything",
        ask(context_management={"edits": [{"type": "clear_everything"}]}),
        ask(context_management={"edits": []}),
        betas(CONTEXT_MANAGEMENT),
    ),
    Case(
        "fields.value",
        "context_management.edits.0.clear_tool_uses_20250919.keep.type",
        "tool_uses",
        ask(context_management=clearing(keep={"type": "input_tokens", "value": 1})),
        ask(context_management=clearing(keep={"type": "tool_uses", "value": 1})),
        betas(CONTEXT_MANAGEMENT),
    ),
    # --- conversation
    Case("messages.some", "messages", "at least one", {**ask(), "messages": []}, ask()),
    Case(
        "messages.some",
        "messages",
        "at most 100000",
        ask(*[user("a"), assistant("b")] * 50_000, user("c")),
        ask(*[user("a"), assistant("b")] * 49_999, user("c")),
    ),
    Case(
        "messages.roles",
        "messages.1.role",
        "can only be placed",
        ask(user("a"), {"role": "system", "content": "b"}, user("c")),
        ask(user("a"), {"role": "system", "content": "b"}, assistant("c"), user("d")),
    ),
    Case(
        "messages.roles",
        "messages.2.role",
        "can only be placed",
        ask(user("a"), assistant("b"), {"role": "system", "content": "c"}),
        ask(user("a"), assistant("b"), user("c"), {"role": "system", "content": "d"}),
    ),
    Case(
        "messages.roles",
        "messages.1.role",
        'Unexpected role "system"',
        ask(user("a"), {"role": "system", "content": "b"}, model="claude-sonnet-4-5"),
        ask(user("a"), model="claude-sonnet-4-5"),
    ),
    Case(
        "messages.roles",
        "messages.1.role",
        'Unexpected role "tool"',
        ask(user("a"), {"role": "tool", "content": "b"}, user("c")),
        ask(user("a"), assistant("b"), user("c")),
    ),
    Case("messages.user_first", "messages", "first message", ask(assistant("a"), user("b")), ask(user("b"))),
    Case(
        "messages.alternate",
        "messages.1",
        "alternate",
        ask(user("a"), user("b")),
        ask(user("a"), assistant("b"), user("c")),
    ),
    Case("messages.content", "messages.0", "non-empty content", ask(user("")), ask(user("a"))),
    Case("messages.content", "messages.0", "non-empty content", ask({"role": "user", "content": []}), ask(user("a"))),
    Case(
        "messages.content",
        "messages.1",
        "non-empty content",
        ask(user("a"), assistant(""), user("b"), model=BUDGETED),
        ask(user("a"), assistant(""), model=BUDGETED),
    ),
    Case("text.some", "messages.0.content.0", "non-empty", ask(user(text(""))), ask(user(text("a")))),
    Case("text.some", "messages.0.content", "non-whitespace", ask(user(" \n")), ask(user(" \na"))),
    Case("text.some", "system.1", "non-whitespace", ask(system=[text("a"), text("\t")]), ask(system=[text("a")])),
    Case(
        "text.some",
        "messages.2.content.0.tool_result.content.1",
        "non-empty",
        ask(*LOOP[:2], user(result(content=[text("a"), text("")]))),
        ask(*LOOP[:2], user(result(content=[text("a"), image()]))),
    ),
    Case("system.some", "system", "non-empty", ask(system=""), ask(system="Be brief.")),
    Case("system.some", "system", "non-empty", ask(system=[]), ask(system=[text("Be brief.")])),
    Case(
        "messages.user_last",
        "",
        "must end with a user message",
        ask(user("a"), assistant("b")),
        ask(user("a"), assistant("b"), model=BUDGETED),
    ),
    Case(
        "messages.user_last",
        "",
        "must end with a user message",
        ask(user("a"), assistant(searched(), pages(), text("b"))),
        ask(user("a"), assistant(text("b"), searched(), pages())),
    ),
    Case(
        "messages.user_last",
        "",
        "must end with a user message",
        ask(user("a"), assistant(thought(BUDGETED), text()), **budget()),
        ask(user("a"), assistant(thought(BUDGETED), text()), user("b"), **budget()),
    ),
    Case(
        "messages.trailing_space",
        "messages",
        "trailing whitespace",
        ask(user("a"), assistant("b "), model=BUDGETED),
        ask(user("a"), assistant("b "), user("c"), model=BUDGETED),
    ),
    Case(
        "blocks.place",
        "messages.0.content.0",
        "`assistant` messages",
        ask(user(thought(), text())),
        ask(user("a"), assistant(thought(), text()), user("b")),
    ),
    Case(
        "blocks.place",
        "messages.1.content.0",
        "`image` blocks can only be in `user` messages",
        ask(user("a"), assistant(image()), user("b")),
        ask(user("a"), assistant("b"), user(image())),
    ),
    Case(
        "blocks.place",
        "messages.0.content.0",
        "`web_search_tool_result` blocks",
        ask(user(pages())),
        ask(user("a"), assistant(searched(), pages()), user("b")),
    ),
    # --- tools
    Case("tools.name", "tools.0.custom.name", "pattern", ask(tools=[tool("Read it")]), ask(tools=[tool("Read-it_1")])),
    Case("tools.name", "tools.0.custom.name", "pattern", ask(tools=[tool("a" * 129)]), ask(tools=[tool("a" * 128)])),
    Case("tools.unique", "tools", "unique", ask(tools=[tool("a"), tool("a")]), ask(tools=[tool("a"), tool("A")])),
    Case("tools.schema", "tools.0.custom.input_schema.type", "required", schema(properties={}), schema(type="object")),
    Case("tools.schema", "tools.0.custom.input_schema.type", "'object'", schema(type="array"), schema(type="object")),
    Case(
        "tools.schema",
        "tools.0.custom.input_schema.properties",
        "dictionary",
        schema(type="object", properties=[]),
        schema(type="object", properties={}),
    ),
    Case(
        "tools.schema",
        "tools.0.custom.input_schema.required",
        "list",
        schema(type="object", required="a"),
        schema(type="object", required=["a"]),
    ),
    Case(
        "tools.some_loaded",
        "tools",
        "defer_loading",
        ask(tools=[tool("a", defer_loading=True)]),
        ask(tools=[tool("a", defer_loading=True), tool("b")]),
    ),
    Case(
        "tools.domains",
        "tools.0",
        "only one of",
        ask(tools=[searching(allowed_domains=["a.test"], blocked_domains=["b.test"])]),
        ask(tools=[searching(allowed_domains=["a.test"], blocked_domains=[])]),
    ),
    Case(
        "tools.domains",
        "tools.0",
        "'https://a.test' is not",
        ask(tools=[searching(allowed_domains=["https://a.test"])]),
        ask(tools=[searching(allowed_domains=["a.test/blog"], max_uses=3)]),
    ),
    Case("tool_choice", "tool_choice", "providing tools", ask(tool_choice={"type": "auto"}), ask(tools=[tool()])),
    Case(
        "tool_choice",
        "tool_choice",
        "'Write' not found",
        ask(tools=[tool()], tool_choice={"type": "tool", "name": "Write"}, model=DISABLING),
        ask(tools=[tool()], tool_choice={"type": "tool", "name": "Read"}, model=DISABLING),
    ),
    Case(
        "tool_choice.forced",
        "",
        "Thinking may not be enabled",
        ask(tools=[tool()], tool_choice={"type": "any"}, **budget()),
        ask(tools=[tool()], tool_choice={"type": "any"}, model=BUDGETED),
    ),
    Case(
        "tool_choice.forced",
        "tool_choice",
        "not supported for this model",
        ask(tools=[tool()], tool_choice={"type": "any"}, thinking={"type": "adaptive"}),
        ask(tools=[tool()], tool_choice={"type": "any"}, thinking={"type": "adaptive"}, model=DISABLING),
    ),
    # --- calls and results
    Case(
        "tool_use.id",
        "messages.1.content.0.tool_use.id",
        "pattern",
        ask(user("a"), assistant(call("toolu.1")), user(result("toolu.1"))),
        ask(user("a"), assistant(call("toolu-1")), user(result("toolu-1"))),
    ),
    Case(
        "tool_use.id",
        "messages.1.content.0.tool_use.id",
        "pattern",
        ask(user("a"), assistant(call("")), user(result(""))),
        ask(user("a"), assistant(call("a")), user(result("a"))),
    ),
    Case(
        "tool_use.name",
        "messages.1.content.0.tool_use.name",
        "pattern",
        ask(user("a"), assistant(call(name="Read!")), user(result())),
        ask(user("a"), assistant(call(name="a-tool-no-longer-there")), user(result())),
    ),
    Case(
        "tool_use.unique",
        "messages.3.content.0",
        "unique",
        ask(*LOOP, assistant(call()), user(result())),
        ask(*LOOP, assistant(call("toolu_2")), user(result("toolu_2"))),
    ),
    Case(
        "tool_use.answered",
        "messages.1",
        "immediately after: toolu_1. Each",
        ask(user("a"), assistant(call()), user("b")),
        ask(user("a"), assistant(call()), user(result(), text("b"))),
    ),
    Case(
        "tool_use.answered",
        "messages.1",
        "immediately after: toolu_2.",
        ask(user("a"), assistant(call(), call("toolu_2")), user(result()), assistant("c"), user(result("toolu_2"))),
        ask(user("a"), assistant(call(), call("toolu_2")), user(result("toolu_2"), result())),
    ),
    Case(
        "tool_use.answered",
        "messages.1",
        "toolu_1",
        ask(user("a"), assistant(call()), model=BUDGETED),
        ask(user("a"), assistant(call()), user(result()), model=BUDGETED),
    ),
    Case(
        "tool_result.known",
        "messages.0.content.0",
        "unexpected `tool_use_id` found in `tool_result` blocks: toolu_1.",
        ask(user(result())),
        ask(*LOOP),
    ),
    Case(
        "tool_result.known",
        "messages.4.content.0",
        "toolu_1",
        ask(*LOOP, assistant("b"), user(result())),
        ask(*LOOP, assistant("b"), user("c")),
    ),
    Case(
        "tool_result.single",
        "messages.2.content.1",
        "single result",
        ask(*LOOP[:2], user(result(), result())),
        ask(user("a"), assistant(call(), call("b")), user(result(), result("b"))),
    ),
    Case(
        "tool_result.first",
        "messages.2.content.1",
        "come first",
        ask(*LOOP[:2], user(text("Here:"), result())),
        ask(*LOOP[:2], user(result(), text("There."))),
    ),
    Case(
        "tool_result.error_content",
        "messages.2.content.0.tool_result",
        "cannot be empty",
        ask(*LOOP[:2], user(result(content="", is_error=True))),
        ask(*LOOP[:2], user(result(content="", is_error=False))),
    ),
    Case(
        "tool_result.error_content",
        "messages.2.content.0.tool_result",
        "cannot be empty",
        ask(*LOOP[:2], user({"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True})),
        ask(*LOOP[:2], user({"type": "tool_result", "tool_use_id": "toolu_1"})),
    ),
    Case(
        "tool_result.error_text",
        "messages.2.content.0.tool_result",
        'type "text"',
        ask(*LOOP[:2], user(result(content=[text(), image()], is_error=True))),
        ask(*LOOP[:2], user(result(content=[text(), text()], is_error=True))),
    ),
    Case(
        "server_tool.name",
        "messages.1.content.0.server_tool_use.name",
        "'web_search'",
        ask(user("a"), assistant(searched(name="guess"))),
        ask(user("a"), assistant(searched())),
    ),
    Case(
        "server_tool.result",
        "messages.1.content.0",
        "`server_tool_use` block before it",
        ask(user("a"), assistant(pages(), searched(), text()), user("b")),
        ask(user("a"), assistant(searched(), pages(), text()), user("b")),
    ),
    Case(
        "server_tool.result",
        "messages.1.content.1",
        "unexpected `tool_use_id`",
        ask(user("a"), assistant(searched(name="web_fetch"), pages()), user("b")),
        ask(user("a"), assistant(searched(name="web_search"), pages()), user("b")),
    ),
    Case(
        "server_tool.call",
        "messages.1.content.0",
        "without a corresponding `web_search_tool_result` block",
        ask(user("a"), assistant(searched()), user("b")),
        ask(user("a"), assistant(searched())),
    ),
    # --- thinking
    Case(
        "thinking.mode",
        "",
        '"thinking.type.enabled" is not supported for this model',
        ask(max_tokens=4_000, thinking={"type": "enabled", "budget_tokens": 2_000}),
        ask(**budget()),
    ),
    Case(
        "thinking.mode",
        "",
        "adaptive thinking is not supported",
        ask(model=BUDGETED, thinking={"type": "adaptive"}),
        ask(thinking={"type": "adaptive", "display": "summarized"}),
    ),
    Case(
        "thinking.mode",
        "",
        '"thinking.type.disabled"',
        ask(model="claude-fable-5-1", thinking={"type": "disabled"}),
        ask(model=DISABLING, thinking={"type": "disabled"}),
    ),
    Case(
        "thinking.mode",
        "",
        '"thinking.type.disabled"',
        ask(model="claude-mythos-6", thinking={"type": "disabled"}),
        ask(model="a-model-nobody-described", thinking={"type": "disabled"}),
    ),
    Case(
        "thinking.mode",
        "",
        '"thinking.type.between_tools"',
        ask(model="claude-opus-5-5", thinking={"type": "between_tools"}),
        ask(model="claude-sonnet-5-5", thinking={"type": "between_tools"}),
    ),
    Case(
        "thinking.mode_effort",
        "",
        "effort 'xhigh' is not supported when thinking is disabled",
        ask(model="claude-opus-5", thinking={"type": "disabled"}, output_config={"effort": "xhigh"}),
        ask(model="claude-opus-5", thinking={"type": "disabled"}, output_config={"effort": "high"}),
    ),
    Case("thinking.budget", "thinking.enabled.budget_tokens", "1024", ask(**budget(1_023)), ask(**budget(1_024))),
    Case("thinking.budget", "", "greater than", ask(**budget(4_000)), ask(**budget(3_999))),
    Case(
        "thinking.signature",
        "messages.1.content.0",
        "Invalid `signature`",
        ask(user("a"), assistant({**thought(), "signature": ""}, text()), user("b")),
        ask(user("a"), assistant({**thought(), "signature": "opaque"}, text()), user("b")),
    ),
    Case(
        "thinking.signature",
        "messages.1.content.0",
        "Invalid `data`",
        ask(user("a"), assistant({**redacted(), "data": ""}, text()), user("b")),
        ask(user("a"), assistant(redacted(), text()), user("b")),
    ),
    Case(
        "thinking.model",
        "messages.1.content.0",
        "written by 'claude-opus-5'",
        ask(user("a"), assistant(thought("claude-opus-5"), text()), user("b")),
        ask(user("a"), assistant(thought(f"{ADAPTIVE}-20260928"), text()), user("b")),
    ),
    Case(
        "thinking.asked",
        "messages.1.content.0",
        "cannot contain `thinking`",
        ask(
            user("a"), assistant(thought(DISABLING), text()), user("b"), model=DISABLING, thinking={"type": "disabled"}
        ),
        ask(user("a"), assistant(thought(DISABLING), text()), user("b"), model=DISABLING),
    ),
    Case(
        "thinking.asked",
        "messages.1.content.0",
        "cannot contain `redacted_thinking`",
        ask(user("a"), assistant(redacted(), text()), user("b"), model=BUDGETED),
        ask(user("a"), assistant(redacted(), text()), user("b"), **budget()),
    ),
    Case(
        "thinking.last",
        "messages.1",
        "cannot be `thinking`",
        ask(user("a"), assistant(text(), thought()), user("b")),
        ask(user("a"), assistant(text(), thought(), text()), user("b")),
    ),
    Case(
        "thinking.leads",
        "messages.1.content.0",
        "Found `text`",
        ask(user("a"), assistant(text(), thought(BUDGETED), text()), user("b"), **budget()),
        ask(user("a"), assistant(thought(BUDGETED), text(), thought(BUDGETED), text()), user("b"), **budget()),
    ),
    Case(
        "thinking.loop",
        "messages.1.content.0.type",
        "found `tool_use`",
        ask(*LOOP, **budget()),
        ask(LOOP[0], assistant(redacted(), call()), LOOP[2], **budget()),
    ),
    Case(
        "thinking.loop",
        "messages.5.content.0.type",
        "found `text`",
        ask(*LOOP, assistant("b"), user("c"), assistant(text(), call("d")), user(result("d")), **budget()),
        ask(
            *(*LOOP, assistant("b"), user("c"), assistant(thought(BUDGETED), call("d")), user(result("d"), text("e"))),
            *(assistant(call("f")), user(result("f"))),
            **budget(),
        ),
    ),
    # --- caching
    Case(
        "cache.count",
        "",
        "Found 5",
        ask(user(text(**mark()), text(**mark())), tools=[tool(**mark())], system=[text(**mark())], **mark()),
        ask(user(text(**mark()), text()), tools=[tool(**mark())], system=[text(**mark())], **mark()),
    ),
    Case(
        "cache.order",
        "messages.0.content.0.cache_control.ttl",
        "must not come after",
        ask(user(text(**mark("1h"))), system=[text(**mark())]),
        ask(user(text(**mark())), system=[text(**mark("1h"))]),
    ),
    Case(
        "cache.order",
        "system.0.cache_control.ttl",
        "must not come after",
        ask(tools=[tool(**mark("5m"))], system=[text(**mark("1h"))]),
        ask(tools=[tool(**mark("1h"))], system=[text(**mark("1h"))]),
    ),
    Case(
        "cache.order",
        "messages.2.content.0.cache_control.ttl",
        "must not come after",
        ask(*LOOP[:2], user(result(content=[text(**mark())], **mark("1h")))),
        ask(*LOOP[:2], user(result(content=[text(**mark("1h"))], **mark()))),
    ),
    Case(
        "cache.thinking",
        "messages.1.content.0.thinking.cache_control",
        "not permitted",
        ask(user("a"), assistant(thought(**mark()), text()), user("b")),
        ask(user("a"), assistant(thought(), text(**mark())), user("b")),
    ),
    Case(
        "cache.empty_text",
        "messages.0.content.0",
        "empty text",
        ask(user(text("", **mark()))),
        ask(user(text(**mark()))),
    ),
    # --- media
    Case(
        "media.type",
        "messages.0.content.0.image.source.base64.media_type",
        "'image/webp'",
        ask(user(image(media_type="image/svg+xml"))),
        ask(user(image(media_type="image/webp"))),
    ),
    Case(
        "media.type",
        "messages.2.content.0.tool_result.content.0.document.source.base64.media_type",
        "'application/pdf'",
        ask(*LOOP[:2], user(result(content=[paper(media_type="text/csv")]))),
        ask(*LOOP[:2], user(result(content=[paper()]))),
    ),
    Case(
        "media.base64",
        "messages.0.content.0.image.source.base64",
        "base64",
        ask(user(image("YQ="))),
        ask(user(image("YQ=="))),
    ),
    Case(
        "media.base64",
        "messages.0.content.0.image.source.base64",
        "base64",
        ask(user(image("YW\nE="))),
        ask(user(image("YWE="))),
    ),
    Case(
        "media.base64",
        "messages.0.content.0.document.source.base64",
        "base64",
        ask(user(paper(""))),
        ask(user(paper())),
    ),
    Case(
        "media.size",
        "messages.0.content.0.image.source.base64",
        f"{LARGEST_IMAGE + 4} bytes > {LARGEST_IMAGE} bytes",
        ask(user(image("A" * (LARGEST_IMAGE + 4)))),
        ask(user(image("A" * LARGEST_IMAGE))),
    ),
    Case(
        "media.type",
        "messages.0.content.0.document.source.text.media_type",
        "'text/plain'",
        ask(user({"type": "document", "source": {"type": "text", "media_type": "text/html", "data": "a"}})),
        ask(user({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}})),
    ),
    Case(
        "text.some",
        "messages.0.content.0.document.source.content.content.0",
        "non-empty",
        ask(user({"type": "document", "source": {"type": "content", "content": [text("")]}})),
        ask(user({"type": "document", "source": {"type": "content", "content": [text("a"), image()]}})),
    ),
    Case(
        "media.url",
        "messages.0.content.0.image.source.url.url",
        "URLs",
        ask(user({"type": "image", "source": {"type": "url", "url": "file:///a.png"}})),
        ask(user({"type": "image", "source": {"type": "url", "url": "https://a.example/a.png"}})),
    ),
    Case(
        "media.count",
        "",
        "Too much media: 2 document pages + 99 images > 100",
        ask(user(*[image()] * 99, paper()), model=BUDGETED),
        ask(user(*[image()] * 98, paper()), model=BUDGETED),
    ),
    Case(
        "media.count",
        "",
        "0 document pages + 601 images > 600",
        ask(user(*[image()] * 601)),
        ask(user(*[image()] * 600)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case.rule}-{number}" for number, case in enumerate(CASES)])
def test_a_rule_and_its_nearest_neighbour(case: Case) -> None:
    wrong_headers = case.headers if case.wrong_headers is None else case.wrong_headers
    found = find_request_violations(case.wrong, wrong_headers, endpoint=case.endpoint)
    broken = [violation for violation in found if violation.rule == case.rule and violation.path == case.path]
    assert broken, found
    assert case.says in broken[0].message
    assert find_request_violations(case.right, case.headers, endpoint=case.endpoint) == []


def test_every_rule_has_a_case() -> None:
    assert set(RULES) == {case.rule for case in CASES}
    assert len(RULES) == len(set(RULES))


def test_every_model_of_the_core_has_its_manner() -> None:
    ours = {name: model for name, model in MODELS.items() if name.startswith("claude-")}
    assert MANNERS.keys() >= ours.keys()
    for name, model in ours.items():
        assert ("adaptive" in MANNERS[name].thinking) == model.adaptive_thinking
        assert ("enabled" in MANNERS[name].thinking) == (model.thinking_budget > 0)


def test_neighbours_of_one_role_are_one_turn_to_the_api() -> None:
    """So a call and its result may stand in messages of their own, as long as nothing comes between."""
    body = ask(user("a"), assistant("b"), assistant(call()), user(result()), user("c"))
    assert [violation.rule for violation in find_request_violations(body)] == ["messages.alternate"] * 2
    assert find_request_violations(body, alternate=False) == []
    late = ask(user("a"), assistant(call()), user("c"), user(result()))
    assert [violation.rule for violation in find_request_violations(late, alternate=False)] == ["tool_result.first"]


def test_names_of_headers_have_no_case() -> None:
    assert find_request_violations(ask(), {"Anthropic-Version": "2023-06-01", "Content-Type": "application/json"}) == []


def test_what_the_api_says_names_the_place() -> None:
    [violation] = find_request_violations(ask(max_tokens=0))
    assert violation.said == "max_tokens: Input should be greater than or equal to 1"
    [violation] = find_request_violations(ask(user("a"), assistant("b")))
    assert violation.said.startswith("This model does not support")


def test_meaning_is_looked_at_only_when_the_form_is_right() -> None:
    found = find_request_violations(ask(user(""), wisdom=1), {})
    assert [violation.rule for violation in found] == ["headers.version", "headers.content_type", "fields.unknown"]


def test_pages_are_counted_without_their_tree() -> None:
    assert b"/Type /Pages" in base64.b64decode(PAPER)
    found = find_request_violations(ask(user(*[paper()] * 301)))
    assert [violation.message for violation in found] == ["Too much media: 602 document pages + 0 images > 600"]


def test_tools_that_anthropic_defines() -> None:
    tools = [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 10_000},
        {"type": "web_search_20260209", "name": "web_search", "max_uses": 3, "user_location": {"type": "approximate"}},
        {"type": "web_fetch_20250910", "name": "web_fetch", "citations": {"enabled": True}},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
        {"type": "memory_20250818", "name": "memory"},
    ]
    assert find_request_violations(ask(tools=tools)) == []


def test_blocks_that_the_server_wrote_come_back_as_they_were() -> None:
    blocks = [
        text("It rains.", citations=[cited("web_search_result_location", encrypted_index="e", title=None, url="u")]),
        text("Page 1.", citations=[cited("page_location", **document(), start_page_number=1, end_page_number=2)]),
        text("Nothing to cite.", citations=None),
        searched(),
        pages(),
        searched("s2"),
        {**pages("s2"), "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}},
        searched("s3", "web_fetch"),
        server_result("s3", "web_fetch", {"type": "web_fetch_result", "url": "u", "content": paper()}),
        searched("s4", "bash_code_execution"),
        server_result("s4", "bash_code_execution", ran("bash_code_execution_result", stdout="")),
        searched("s5", "code_execution"),
        server_result("s5", "code_execution", ran("encrypted_code_execution_result", encrypted_stdout="e")),
        searched("s6", "text_editor_code_execution"),
        server_result(
            "s6",
            "text_editor_code_execution",
            {"type": "text_editor_code_execution_create_result", "is_file_update": True},
        ),
        searched("s7", "tool_search_tool_bm25"),
        server_result(
            "s7", "tool_search", {"type": "tool_search_tool_search_result", "tool_references": [reference()]}
        ),
        call(caller={"type": "direct"}),
    ]
    assert find_request_violations(ask(user("a"), assistant(*blocks), user(result(content=[reference()])))) == []


def cited(kind: str, **more: Any) -> Json:
    return {"type": kind, "cited_text": "a", **more}


def document() -> Json:
    return {"document_index": 0, "document_title": None, "file_id": None}


def reference() -> Json:
    return {"type": "tool_reference", "tool_name": "Read"}


def server_result(id: str, name: str, content: Json) -> Json:
    kind = "tool_search_tool_result" if name == "tool_search" else f"{name}_tool_result"
    return {"type": kind, "tool_use_id": id, "content": content}


def ran(kind: str, **more: str) -> Json:
    output = {"type": "code_execution_output", "file_id": "file_1"}
    return {"type": kind, "stderr": "", "return_code": 0, "content": [output], **more}
