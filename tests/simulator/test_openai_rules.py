"""What OpenAI's two protocols take and refuse: requests that are right, and for each rule some that break it."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.simulator import openai_chat_request as chat_rules
from mainspring.simulator import openai_responses_request as responses_rules
from mainspring.simulator.forms import Violation
from mainspring.simulator.openai_errors import violation_to_error
from simulator.bodies import Json
from simulator.openai_bodies import (
    CLOSED,
    IMAGE,
    PLAIN,
    SCHEMA,
    answers,
    called,
    calling,
    chat,
    flat,
    function,
    item,
    output,
    respond,
    says,
    thought,
)

FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": CLOSED, "strict": True}}
OPEN_FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}
BARE_ARRAY: Json = {"type": "object", "properties": {"names": {"type": "array"}}}
CHOSEN = {"type": "function", "function": {"name": "Read"}}

RIGHT_CHATS: dict[str, Json] = {
    "a word": chat(),
    "a system prompt": chat(says("Be brief.", "system"), says()),
    "a developer's": chat(says([{"type": "text", "text": "Be brief."}], "developer"), says()),
    "an image": chat(
        says([{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": IMAGE}}])
    ),
    "parallel calls": chat(says(), calling("call_1", "call_2"), answers("call_2"), answers("call_1")),
    "words and calls": chat(says(), calling(content="Let me look."), answers(), says("Go on.")),
    "tools": chat(tools=[function(), function("Write")], tool_choice="auto", parallel_tool_calls=True),
    "a strict tool": chat(tools=[function(parameters=CLOSED, strict=True)], tool_choice=CHOSEN),
    "a stream": chat(stream=True, stream_options={"include_usage": True}),
    "a schema": chat(response_format=FORMAT),
    "settings": chat(max_completion_tokens=10, reasoning_effort="low", user="u", metadata={"a": "b"}, store=False),
    "another server's": chat(model=PLAIN, max_tokens=10, temperature=0, top_p=0.9, seed=7, stop=["END"]),
    "an answer as it came": chat(says(), says("Yes.", "assistant", refusal=None, annotations=[], audio=None), says()),
}
WRONG_CHATS: list[tuple[str, Json]] = [
    ("messages.some", {**chat(), "messages": []}),
    ("fields.missing", {"model": "m"}),
    ("fields.missing", chat({"content": "nobody's"})),
    ("fields.kind", chat(says("x", "robot"))),
    ("fields.unknown", chat(max_turns=3)),
    ("fields.unknown", chat(says(), says("x", "assistant", reasoning_content="Hm."), says())),
    ("fields.type", chat(says(5))),
    ("fields.type", chat(says(), calling(arguments={"file_path": "a.py"}), answers())),
    ("fields.value", chat(says([]))),
    ("fields.value", chat(tools=[])),
    ("fields.value", chat(tool_choice="any", tools=[function()])),
    ("fields.kind", chat(says(), answers(content=[{"type": "image_url", "image_url": {"url": IMAGE}}]))),
    ("messages.content", chat(says(), {"role": "assistant", "content": None}, says())),
    ("model.name", chat(model=" ")),
    ("tools.count", chat(tools=[function(f"t{number}") for number in range(129)])),
    ("tools.name", chat(tools=[function("no spaces")])),
    ("tools.name", chat(tools=[function("x" * 65)])),
    ("tools.unique", chat(tools=[function(), function()])),
    ("tools.schema", chat(tools=[function(parameters={"type": "string"})])),
    ("tools.schema", chat(tools=[function(parameters=BARE_ARRAY)])),
    ("tools.strict", chat(tools=[function(strict=True)])),
    ("tool_choice.tools", chat(tool_choice="auto")),
    ("tool_choice.tools", chat(parallel_tool_calls=False)),
    ("tool_choice.known", chat(tools=[function("Write")], tool_choice=CHOSEN)),
    ("call.name", chat(says(), calling(name="no spaces"), answers())),
    ("call.unique", chat(says(), calling(), answers(), calling(), answers())),
    ("call.arguments", chat(says(), calling(arguments='{"file_path":'), answers())),
    ("call.arguments", chat(says(), calling(arguments="[]"), answers())),
    ("call.id_length", chat(says(), calling("x" * 41), answers("x" * 41))),
    ("call.id_length", chat(says(), calling(""), answers(""))),
    ("call.answered", chat(says(), calling())),
    ("call.answered", chat(says(), calling("call_1", "call_2"), answers("call_1"))),
    ("call.answered", chat(says(), calling(), says("no"), answers())),
    ("result.known", chat(says(), answers())),
    ("result.known", chat(says(), calling(), answers(), answers())),
    ("media.address", chat(says([{"type": "image_url", "image_url": {"url": "ftp://x"}}]))),
    ("media.address", chat(says([{"type": "image_url", "image_url": {"url": "data:image/png;base64,???"}}]))),
    ("sampling.range", chat(model=PLAIN, temperature=3)),
    ("sampling.model", chat(temperature=0)),
    ("n", chat(n=2)),
    ("stream_options", chat(stream_options={"include_usage": True})),
    ("max_tokens", chat(max_completion_tokens=0)),
    ("max_tokens.model", chat(max_tokens=10)),
    ("stop", chat(model=PLAIN, stop=["a", "b", "c", "d", "e"])),
    ("schema", chat(response_format=OPEN_FORMAT)),
]

RIGHT_RESPONSES: dict[str, Json] = {
    "a word": {**respond(), "input": "Hello."},
    "an item": respond(),
    "an item without a type": respond({"role": "user", "content": [{"type": "input_text", "text": "Hi."}]}),
    "instructions": respond(instructions="Be brief."),
    "an image": respond(item([{"type": "input_image", "image_url": IMAGE, "detail": "auto"}])),
    "calls": respond(item(), called("call_1"), called("call_2"), output("call_2"), output("call_1")),
    "an image as a result": respond(item(), called(), output(words=[{"type": "input_image", "image_url": IMAGE}])),
    "reasoning": respond(item(), thought(), called(), output(), store=False),
    "reasoning, and what it led to by its id": respond(item(), thought(), called(id="fc_1_1r"), output()),
    "reasoning twice": respond(item(), thought(), thought("rs_1_1"), called(id="fc_1_2r"), output()),
    "a message of the model": respond(
        item(), item([{"type": "output_text", "text": "Yes.", "annotations": []}], "assistant", id="msg_1_0"), item()
    ),
    "tools": respond(tools=[flat()], tool_choice={"type": "function", "name": "Read"}),
    "a search": respond(
        tools=[{"type": "web_search", "filters": {"allowed_domains": ["a.test"]}}, flat()],
        max_tool_calls=3,
        include=["web_search_call.action.sources"],
    ),
    "a stream": respond(stream=True, include=["reasoning.encrypted_content"], reasoning={"summary": "auto"}),
    "a schema": respond(text={"format": {"type": "json_schema", "name": "city", "schema": CLOSED, "strict": True}}),
}
WRONG_RESPONSES: list[tuple[str, Json]] = [
    ("input.some", {**respond(), "input": []}),
    ("input.some", {**respond(), "input": ""}),
    ("fields.missing", {"model": "m"}),
    ("fields.missing", respond({"type": "reasoning", "id": "rs_1"}, called(), output())),
    ("fields.missing", respond(tools=[{"type": "function", "name": "Read", "parameters": SCHEMA}])),
    ("fields.unknown", respond(messages=[])),
    ("fields.unknown", respond(max_completion_tokens=5)),
    ("fields.kind", respond({"type": "web_search_call", "id": "ws_1"})),
    ("fields.kind", respond(item([{"type": "text", "text": "of the other protocol"}]))),
    ("fields.type", respond(item(), called(arguments={}), output())),
    ("fields.value", respond(include=["everything"])),
    ("previous.known", respond(previous_response_id="resp_1")),
    ("tools.schema", respond(tools=[flat(parameters={})])),
    ("fields.unknown", respond(tools=[{"type": "web_search", "max_uses": 5}])),
    ("search.domains", respond(tools=[{"type": "web_search", "filters": {"blocked_domains": ["https://a.test"]}}])),
    ("search.domains", respond(tools=[{"type": "web_search", "filters": {"allowed_domains": ["*.a.test"]}}])),
    ("search.domains", respond(tools=[{"type": "web_search", "filters": {"allowed_domains": ["a.test"] * 101}}])),
    ("tools.strict", respond(tools=[flat(strict=True)])),
    ("tool_choice.known", respond(tools=[flat()], tool_choice={"type": "function", "name": "Write"})),
    ("call.unique", respond(item(), called(), output(), called(), output())),
    ("call.arguments", respond(item(), called(arguments="{"), output())),
    ("call.id_length", respond(item(), called("x" * 65), output("x" * 65))),
    ("item.id", respond(item(), called(id="call_1"), output())),
    ("item.id", respond(item(), thought("msg_1"), called(), output())),
    ("item.unique", respond(item(), thought(), called("a"), output("a"), thought(), called("b"), output("b"))),
    ("item.known", respond(item(), {"type": "item_reference", "id": "msg_1"})),
    ("item.known", respond(item(), thought(encrypted_content=None), called(), output(), store=False)),
    ("call.answered", respond(item(), called())),
    ("call.answered", respond(item(), output(), called())),
    ("result.known", respond(item(), output())),
    ("result.known", respond(item(), called(), output(), output())),
    ("reasoning.followed", respond(item(), thought())),
    ("reasoning.followed", respond(item(), thought(), item("Never mind."))),
    ("reasoning.kept", respond(item(), called(id="fc_1_1r"), output())),
    ("reasoning.kept", respond(item(), thought("rs_2_0"), called(id="fc_1_1r"), output())),
    ("reasoning.model", respond(item(), thought(model="gpt-5.5"), called(), output())),
    ("reasoning.model", respond(item(), thought(encrypted_content="EqQBCg"), called(), output())),
    ("media.address", respond(item([{"type": "input_image", "image_url": "x"}]))),
    ("sampling.model", respond(top_p=0.5)),
    ("max_tokens", respond(max_output_tokens=15)),
    ("schema", respond(text={"format": {"type": "json_schema", "name": "no spaces", "schema": CLOSED}})),
]


@pytest.mark.parametrize("name", RIGHT_CHATS)
def test_chats_that_are_right(name: str) -> None:
    assert chat_rules.find_violations(RIGHT_CHATS[name]) == []


@pytest.mark.parametrize(("rule", "body"), WRONG_CHATS)
def test_chats_that_are_wrong(rule: str, body: Json) -> None:
    found = chat_rules.find_violations(body)
    assert found, f"nobody minds, '{rule}' should"
    assert found[0].rule == rule, found


@pytest.mark.parametrize("name", RIGHT_RESPONSES)
def test_responses_that_are_right(name: str) -> None:
    assert responses_rules.find_violations(RIGHT_RESPONSES[name]) == []


@pytest.mark.parametrize(("rule", "body"), WRONG_RESPONSES)
def test_responses_that_are_wrong(rule: str, body: Json) -> None:
    found = responses_rules.find_violations(body)
    assert found, f"nobody minds, '{rule}' should"
    assert found[0].rule == rule, found


def test_every_rule_of_chats_is_broken_above() -> None:
    assert set(chat_rules.RULES) - {rule for rule, _ in WRONG_CHATS} == set()


def test_every_rule_of_responses_alone_is_broken_above() -> None:
    """Those that both have are shown with chats."""
    own = set(responses_rules.RULES) - set(chat_rules.RULES)
    assert own - {rule for rule, _ in WRONG_RESPONSES} == set()


def test_headers_and_bytes_are_judged_first() -> None:
    both = (chat_rules.find_violations, responses_rules.find_violations)
    assert [judge(b"{", {})[0].rule for judge in both] == ["headers.content_type"] * 2
    assert [judge(b"{")[0].rule for judge in both] == ["body.json"] * 2
    assert [judge(b'{"model": "\\ud800"}')[0].rule for judge in both] == ["body.unicode"] * 2


def test_a_server_that_thinks_aloud_takes_its_thoughts_back() -> None:
    body = chat(says(), says("x", "assistant", reasoning_content="Hm."), says())
    assert chat_rules.find_violations(body, lets_pass=frozenset({"reasoning_content"})) == []


@pytest.mark.parametrize(
    ("violation", "code", "param", "said"),
    [
        (
            Violation("tools.0.x", "fields.unknown", ""),
            "unknown_parameter",
            "tools[0].x",
            "Unknown parameter: 'tools[0].x'.",
        ),
        (
            Violation("model", "fields.missing", ""),
            "missing_required_parameter",
            "model",
            "Missing required parameter: 'model'.",
        ),
        (Violation("n", "fields.type", "Not so"), "invalid_type", "n", "Invalid type for 'n'. Not so."),
        (Violation("input", "reasoning.model", "No."), "invalid_encrypted_content", "input", "No."),
        (Violation("input", "reasoning.followed", "No."), "null", "input", "No."),
    ],
)
def test_how_it_is_said(violation: Violation, code: str, param: str, said: str) -> None:
    refuse: Any = violation_to_error(violation)
    assert (refuse.status, refuse.code, refuse.param, refuse.message) == (400, code, param, said)
