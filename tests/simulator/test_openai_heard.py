"""Conversations drawn at random, in OpenAI's two spellings: taken as they are, and heard as what they are."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.simulator import openai_chat_request as chat_rules
from mainspring.simulator import openai_responses_request as responses_rules
from mainspring.simulator.replies import ReceivedConversation, blocks_of, strip_cache_marks
from mainspring.simulator.validate import OF_BYTES, OF_FORM
from simulator.bodies import PIXEL, Json, assistant, call, image, result, text, user
from simulator.openai_bodies import (
    CLOSED,
    IMAGE,
    MODEL,
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
from simulator.test_validate import anything, places

WORDS = st.text(min_size=1, max_size=20)
RULES = {*OF_BYTES, *OF_FORM, "headers.content_type", *chat_rules.RULES, *responses_rules.RULES}
BOTH = (chat_rules, responses_rules)


@st.composite
def conversations(draw: st.DrawFn) -> list[Json]:
    """In the form of the Messages API, without thinking."""
    ids = (f"call_{number}" for number in count(1))
    messages = [user(*draw(said()))]
    for _ in range(draw(st.integers(0, 4))):
        words = [text(draw(WORDS))] if draw(st.booleans()) else []
        calls = [call(next(ids), draw(st.sampled_from(["Read", "Write"]))) for _ in range(draw(st.integers(0, 3)))]
        if not words and not calls:
            continue
        results = [result(each["id"], draw(WORDS)) for each in calls]
        more = draw(said()) if not results or draw(st.booleans()) else []
        messages += [assistant(*words, *calls), user(*draw(st.permutations(results)), *more)]
    return messages


@st.composite
def said(draw: st.DrawFn) -> list[Json]:
    pictures = [image()] if draw(st.booleans()) else []
    return [text(draw(WORDS)), *pictures]


def as_chat(messages: list[Json]) -> Json:
    spelled: list[Json] = []
    for message in messages:
        kinds = {kind: [block for block in blocks_of(message) if block["type"] == kind] for kind in KINDS}
        if message["role"] == "assistant":
            words = "".join([block["text"] for block in kinds["text"]]) or None
            ids = [block["id"] for block in kinds["tool_use"]]
            calls = [calling(block["id"], name=block["name"])["tool_calls"][0] for block in kinds["tool_use"]]
            spelled.append(calling(*ids, content=words, tool_calls=calls) if ids else says(words, "assistant"))
            continue
        spelled += [answers(block["tool_use_id"], block["content"]) for block in kinds["tool_result"]]
        parts: list[Json] = [{"type": "text", "text": block["text"]} for block in kinds["text"]]
        parts += [{"type": "image_url", "image_url": {"url": IMAGE}} for _ in kinds["image"]]
        spelled += [says(parts)] if parts else []
    return chat(says("Be brief.", "developer"), *spelled, tools=[function(), function("Write", CLOSED, strict=True)])


def as_response(messages: list[Json]) -> Json:
    spelled: list[Json] = []
    for message in messages:
        for block in blocks_of(message):
            match block["type"], message["role"]:
                case "text", "user":
                    spelled.append(item([{"type": "input_text", "text": block["text"]}]))
                case "text", _:
                    spelled.append(item([{"type": "output_text", "text": block["text"]}], "assistant"))
                case "image", _:
                    spelled.append(item([{"type": "input_image", "image_url": IMAGE}]))
                case "tool_use", _:
                    spelled.append(called(block["id"], json.dumps(block["input"]), block["name"]))
                case _:
                    spelled.append(output(block["tool_use_id"], block["content"]))
    return respond(*spelled, instructions="Be brief.", tools=[flat(), flat("Write", CLOSED, strict=True)])


KINDS = ("text", "image", "tool_use", "tool_result")
SPELLINGS: list[tuple[Any, Callable[[list[Json]], Json]]] = [(chat_rules, as_chat), (responses_rules, as_response)]
spelled = pytest.mark.parametrize(("rules", "spell"), SPELLINGS, ids=["chat", "responses"])


@spelled
@given(messages=conversations())
def test_a_conversation_is_heard_as_it_was_meant(rules: Any, spell: Any, messages: list[Json]) -> None:
    body = spell(messages)
    assert rules.find_violations(body) == []
    heard = rules.to_messages(body)
    assert [(each["role"], strip_cache_marks(blocks_of(each))) for each in heard["messages"]] == [
        (each["role"], blocks_of(each)) for each in messages
    ]
    assert strip_cache_marks(heard["system"]) == [text("Be brief.")]
    assert [each["name"] for each in heard["tools"]] == ["Read", "Write"]
    assert heard["model"] == MODEL


@spelled
@given(messages=conversations(), value=anything, data=st.data())
def test_whatever_stands_where_is_judged_and_no_more(
    rules: Any, spell: Any, messages: list[Json], value: Any, data: st.DataObject
) -> None:
    changed = copy.deepcopy(spell(messages))
    container, key = data.draw(st.sampled_from(places(changed)))
    container[key] = value
    found = rules.find_violations(changed)
    assert {violation.rule for violation in found} <= RULES
    if not found:  # what is taken can be heard and answered
        talk = ReceivedConversation(rules.to_messages(changed))
        assert talk.key
        assert msgspec.json.encode(talk.body)


@given(st.binary(max_size=50) | anything.map(msgspec.json.encode))
def test_any_bytes_are_judged(raw: bytes) -> None:
    assert all(rules.find_violations(raw) != [] for rules in BOTH)


def test_reasoning_is_heard_as_thinking() -> None:
    summary = [{"type": "summary_text", "text": "Hm."}]
    heard = responses_rules.to_messages(respond(item(), thought(summary=summary), called(), output()))
    assert strip_cache_marks(heard["messages"][1]["content"][0]) == {
        "type": "thinking",
        "thinking": "Hm.",
        "signature": f"sig:{MODEL}:1",
    }


def test_a_picture_is_heard_with_its_type() -> None:
    assert image() == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    elsewhere = chat(says([{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]))
    source = chat_rules.to_messages(elsewhere)["messages"][0]["content"][0]["source"]
    assert source == {"type": "url", "url": "https://a.example/b.png"}
