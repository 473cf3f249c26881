"""The judge as a whole: what is right always passes, one thing wrong is always seen, and nothing upsets it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tiers import examples

from mainspring.simulator.shapes import manner_of, strip_model_date_suffix
from mainspring.simulator.validate import RULES, find_request_violations
from simulator.bodies import Json, assistant, call, image, mark, pages, result, searched, text, thought, tool, user
from simulator.requests import Drawn, requests

Draw = Callable[[st.SearchStrategy[Any]], Any]


@given(requests())
def test_what_is_right_passes(drawn: Drawn) -> None:
    body, headers = drawn
    assert find_request_violations(msgspec.json.encode(body), headers) == []
    assert find_request_violations(body, headers) == []


@given(requests())
def test_what_may_be_sent_may_be_counted(drawn: Drawn) -> None:
    body, headers = drawn
    counted = {
        name: value
        for name, value in body.items()
        if name not in ("max_tokens", "stream", "metadata", "stop_sequences")
    }
    assert find_request_violations(counted, headers, endpoint="/v1/messages/count_tokens") == []


# --- one thing wrong -------------------------------------------------------------------------------


class Mutation(NamedTuple):
    name: str
    rule: str
    change: Callable[[Json, Draw], object]  # on a body that was right


def messages(body: Json, role: str) -> list[Json]:
    return [message for message in body["messages"] if message["role"] == role]


def blocks(message: Json) -> list[Json]:
    if isinstance(message["content"], str):
        message["content"] = [text(message["content"])]
    content: list[Json] = message["content"]
    return content


def some_user(body: Json, draw: Draw) -> list[Json]:
    return blocks(draw(st.sampled_from(messages(body, "user"))))


def some_reply(body: Json, draw: Draw) -> list[Json]:
    """One that is not the last message: a paused turn may do what others may not."""
    answer_to_all(body)
    return blocks(draw(st.sampled_from(messages(body, "assistant"))))


def answer_to_all(body: Json) -> None:
    """A reply and a user's message at the end, whatever was there before."""
    if body["messages"][-1]["role"] == "user":
        body["messages"].append(assistant(*leading(body), text("Well.")))
    elif blocks(body["messages"][-1])[-1]["type"] == "server_tool_use":
        blocks(body["messages"][-1]).append(pages("srvtoolu_last"))
    body["messages"].append(user(text("Go on.")))


def leading(body: Json) -> list[Json]:
    on = body.get("thinking", {}).get("type") == "enabled"
    return [thought(body["model"])] if on else []


def last_user(body: Json) -> list[Json]:
    answer_to_all(body)
    return blocks(body["messages"][-1])


def loop(body: Json, called: Json, *answer: Json) -> None:
    """A call and what the user said to it, at the end."""
    answer_to_all(body)
    body["messages"] += [assistant(*leading(body), called), user(*answer)]


def then(body: Json, message: Json) -> None:
    answer_to_all(body)
    body["messages"].append(message)


def same_id_twice(body: Json, _: Draw) -> None:
    loop(body, call("x"), result("x"))
    loop(body, call("x"), result("x"))


def silenced(body: Json, draw: Draw) -> None:
    some_reply(body, draw).insert(0, thought(body["model"]))
    body["thinking"] = {"type": "disabled"}


def nested(value: Any) -> list[Json]:
    """All objects whose fields are known to the protocol."""
    found = [value, *value["messages"]]
    return found + [
        block for message in value["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]


def prefilled(body: Json, _: Draw) -> None:
    manner = manner_of(body["model"])
    assume(body.get("thinking", {}).get("type") == "enabled" or (manner is not None and not manner.prefill))
    answer_to_all(body)
    body["messages"].append(assistant("Well"))


def foreign_mode(body: Json, draw: Draw) -> None:
    manner = manner_of(body["model"])
    assert manner is not None
    mode = draw(st.sampled_from(sorted({"adaptive", "enabled", "disabled", "between_tools"} - manner.thinking)))
    body["thinking"] = {"type": mode, **({"budget_tokens": 1_024} if mode == "enabled" else {})}


def dropped_thinking(body: Json, _: Draw) -> None:
    assume("enabled" in getattr(manner_of(body["model"]), "thinking", ()))
    body["thinking"] = {"type": "enabled", "budget_tokens": 1_024}
    answer_to_all(body)
    body["messages"] += [assistant(text("Let me look."), call("fresh")), user(result("fresh"))]


def of_another(model: str) -> str:
    return "claude-opus-5" if strip_model_date_suffix(model) != "claude-opus-5" else "claude-opus-5-5"


CLEARING = {"type": "clear_tool_uses_20250919"}

KNOWN = "claude-sonnet-5-5"  # of other models the limit may not be

MUTATIONS = [
    Mutation("an unknown field", "fields.unknown", lambda b, d: d(st.sampled_from(nested(b))).update(surprise=1)),
    Mutation("an unknown block", "fields.kind", lambda b, d: some_user(b, d).append({"type": "hologram"})),
    Mutation("a block without type", "fields.kind", lambda b, d: some_user(b, d).append({"text": "a"})),
    Mutation(
        "a field left out",
        "fields.missing",
        lambda b, d: b.pop(d(st.sampled_from(["model", "messages", "max_tokens"]))),
    ),
    Mutation(
        "a call without input",
        "fields.missing",
        lambda b, d: some_reply(b, d).append({"type": "tool_use", "id": "a", "name": "b"}),
    ),
    Mutation("a number as a string", "fields.type", lambda b, _: b.update(max_tokens="1000")),
    Mutation("null as content", "fields.type", lambda b, d: d(st.sampled_from(b["messages"])).update(content=None)),
    Mutation(
        "no limit",
        "max_tokens",
        lambda b, d: b.update(model=KNOWN, max_tokens=d(st.sampled_from([0, -1, 10**7]))),
    ),
    Mutation("no messages", "messages.some", lambda b, _: b.update(messages=[])),
    Mutation("a tool's message", "messages.roles", lambda b, d: d(st.sampled_from(b["messages"])).update(role="tool")),
    Mutation("an assistant first", "messages.user_first", lambda b, _: b["messages"].insert(0, assistant("Hello."))),
    Mutation("two users in a row", "messages.alternate", lambda b, _: then(b, user("And?"))),
    Mutation(
        "nothing said", "messages.content", lambda b, d: d(st.sampled_from(messages(b, "user"))).update(content=[])
    ),
    Mutation("an empty text", "text.some", lambda b, d: some_user(b, d).append(text(""))),
    Mutation("a blank text", "text.some", lambda b, d: some_reply(b, d).insert(0, text(" \n\t"))),
    Mutation("a prefilled reply", "messages.user_last", prefilled),
    Mutation(
        "a reply ending in space",
        "messages.trailing_space",
        lambda b, _: then(b, assistant("So: ")),
    ),
    Mutation("an unanswered call", "tool_use.answered", lambda b, d: some_reply(b, d).append(call("fresh"))),
    Mutation("a result without a call", "tool_result.known", lambda b, d: some_user(b, d).insert(0, result("nowhere"))),
    Mutation(
        "two results for a call",
        "tool_result.single",
        lambda b, _: loop(b, call("fresh"), result("fresh"), result("fresh")),
    ),
    Mutation(
        "text before a result", "tool_result.first", lambda b, _: loop(b, call("fresh"), text("So:"), result("fresh"))
    ),
    Mutation(
        "an id used twice",
        "tool_use.unique",
        same_id_twice,
    ),
    Mutation("an id with a dot", "tool_use.id", lambda b, _: loop(b, call("a.b"), result("a.b"))),
    Mutation("a name with a space", "tool_use.name", lambda b, _: loop(b, call("fresh", "Read it"), result("fresh"))),
    Mutation(
        "an error without words",
        "tool_result.error_content",
        lambda b, _: loop(b, call("f"), result("f", "", is_error=True)),
    ),
    Mutation(
        "an error with a picture",
        "tool_result.error_text",
        lambda b, _: loop(b, call("f"), result("f", [image()], is_error=True)),
    ),
    Mutation("a call by the user", "blocks.place", lambda b, d: some_user(b, d).append(call("fresh"))),
    Mutation("a picture by the model", "blocks.place", lambda b, d: some_reply(b, d).insert(0, image())),
    Mutation("thinking by the user", "blocks.place", lambda b, d: some_user(b, d).append(thought(b["model"]))),
    Mutation("thinking at the end", "thinking.last", lambda b, d: some_reply(b, d).append(thought(b["model"]))),
    Mutation(
        "thinking by another model",
        "thinking.model",
        lambda b, d: some_reply(b, d).insert(0, thought(of_another(b["model"]))),
    ),
    Mutation(
        "thinking without signature",
        "thinking.signature",
        lambda b, d: some_reply(b, d).insert(0, {**thought(), "signature": ""}),
    ),
    Mutation(
        "thinking nobody asked for",
        "thinking.asked",
        silenced,
    ),
    Mutation("a mode the model has not", "thinking.mode", foreign_mode),
    Mutation(
        "a tiny budget", "thinking.budget", lambda b, _: b.update(thinking={"type": "enabled", "budget_tokens": 1_023})
    ),
    Mutation("a loop without its thinking", "thinking.loop", dropped_thinking),
    Mutation("five marks", "cache.count", lambda b, _: last_user(b).extend([text(**mark("5m"))] * 5)),
    Mutation(
        "a long mark after a short one",
        "cache.order",
        lambda b, _: last_user(b).extend([text(**mark()), text(**mark("1h"))]),
    ),
    Mutation(
        "a mark on thinking", "cache.thinking", lambda b, d: some_reply(b, d).insert(0, thought(b["model"], **mark()))
    ),
    Mutation("a mark on nothing", "cache.empty_text", lambda b, _: last_user(b).append(text("", **mark()))),
    Mutation("a bitmap", "media.type", lambda b, d: some_user(b, d).append(image(media_type="image/bmp"))),
    Mutation("no base64", "media.base64", lambda b, d: some_user(b, d).append(image("not base64!"))),
    Mutation("601 pictures", "media.count", lambda b, _: last_user(b).extend([image()] * 601)),
    Mutation("a tool twice", "tools.unique", lambda b, _: b.update(tools=[tool("a"), *b.get("tools", ()), tool("a")])),
    Mutation("a tool with an odd name", "tools.name", lambda b, _: b.setdefault("tools", []).append(tool("a/b"))),
    Mutation(
        "a tool for lists",
        "tools.schema",
        lambda b, _: b.setdefault("tools", []).append(tool("t", input_schema={"type": "array"})),
    ),
    Mutation(
        "a choice of no tool",
        "tool_choice",
        lambda b, _: b.update(tools=[tool()], tool_choice={"type": "tool", "name": "x"}),
    ),
    Mutation("a server's result alone", "server_tool.result", lambda b, d: some_reply(b, d).insert(0, pages("alone"))),
    Mutation("a server's call alone", "server_tool.call", lambda b, d: some_reply(b, d).insert(0, searched("alone"))),
    Mutation(
        "a server's tool nobody knows",
        "server_tool.name",
        lambda b, d: some_reply(b, d).insert(0, searched("s", "guess")),
    ),
    Mutation("an empty system", "system.some", lambda b, d: b.update(system=d(st.sampled_from(["", []])))),
    Mutation("too hot", "sampling.range", lambda b, _: b.update(temperature=1.5)),
    Mutation("a blank stop sequence", "stop_sequences", lambda b, _: b.update(stop_sequences=["\n"])),
    Mutation(
        "a small task budget",
        "task_budget",
        lambda b, _: b.update(output_config={"task_budget": {"type": "tokens", "total": 1}}),
    ),
    Mutation(
        "an unknown edit of the context",
        "fields.kind",
        lambda b, _: b.update(context_management={"edits": [{"type": "clear_everything"}]}),
    ),
    Mutation(
        "an edit that keeps less than nothing",
        "context_management",
        lambda b, _: b.update(context_management={"edits": [{**CLEARING, "keep": {"type": "tool_uses", "value": -1}}]}),
    ),
    Mutation("half a character", "body.unicode", lambda b, d: some_user(b, d).append(text("\ud800"))),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.name for mutation in MUTATIONS])
@settings(max_examples=examples(12))
@given(drawn=requests(), data=st.data())
def test_one_thing_wrong_is_seen(mutation: Mutation, drawn: Drawn, data: st.DataObject) -> None:
    body, headers = drawn
    changed = copy.deepcopy(body)
    mutation.change(changed, data.draw)
    assert mutation.rule in {violation.rule for violation in find_request_violations(changed, headers)}


@given(requests(), st.sampled_from(["anthropic-version", "content-type"]))
def test_a_header_left_out_is_seen(drawn: Drawn, name: str) -> None:
    body, headers = drawn
    del headers[name]
    assert [violation.path for violation in find_request_violations(body, headers)] == [name]


@given(requests())
def test_a_beta_left_out_is_seen(drawn: Drawn) -> None:
    body, headers = drawn
    headers.pop("anthropic-beta", None)
    needed = ("task_budget" in body.get("output_config", {})) + ("context_management" in body)
    assert [violation.rule for violation in find_request_violations(body, headers)] == ["betas.needed"] * needed


# --- anything at all -------------------------------------------------------------------------------

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner), max_leaves=5
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a body with every key in it."""
    here = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    return [(value, key) for key, _ in here] + [place for _, inner in here for place in places(inner)]


@given(requests(), anything, st.data())
def test_whatever_stands_where_is_judged_and_no_more(drawn: Drawn, value: Any, data: st.DataObject) -> None:
    body, headers = drawn
    changed = copy.deepcopy(body)
    container, key = data.draw(st.sampled_from(places(changed)))
    container[key] = value
    assert {violation.rule for violation in find_request_violations(changed, headers)} <= set(RULES)


@given(st.binary(max_size=50) | anything.map(msgspec.json.encode))
def test_any_bytes_are_judged(raw: bytes) -> None:
    assert find_request_violations(raw) != []
