"""Laws 2 and 4 for OpenAI's two protocols, over histories in which the model, and with it the protocol, was switched.

Every request is judged by the simulator's rules, which know nothing of our code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tiers import examples

from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import (
    Assistant,
    Document,
    Image,
    Message,
    ServerBlock,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    result,
    user,
)
from mainspring.core.models import model_named
from mainspring.core.pairing import NeverRan
from mainspring.core.view import Drop, Edit, Fold, Replace
from mainspring.engine.session_deps import default_cache_marks
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation, PrefixBreak, ToolSpec
from mainspring.providers.http_provider import HttpProvider
from mainspring.providers.message_order import ProjectionTarget
from mainspring.providers.openai import json
from mainspring.providers.openai.json import FAILED, NO_FILES
from mainspring.providers.openai.provider import OPENAI, PLAIN, OpenAI, OpenAIChat, OpenAIResponses
from mainspring.providers.projection import Encode, RequestProjection
from mainspring.simulator import openai_chat_request, openai_responses_request, validate
from providers.histories import PNG, disorderly, edits_of, orderly

GPT, CLAUDE, LOCAL = "gpt-5.5", "claude-sonnet-5-5", "some-local-model"
TOOLS = (ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}}),)
ASKED = st.sampled_from([GPT, "gpt-5.4", CLAUDE, LOCAL])
BACK = replace(PLAIN, reasoning_back=True)
PNG_ADDRESS = f"data:image/png;base64,{PNG}"

Kind = type[OpenAI]
both = pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses], ids=["chat", "responses"])
KINDS = st.sampled_from([OpenAIChat, OpenAIResponses])

Judge = Callable[[bytes, dict[str, str]], list[Any]]


def judge_of(provider: HttpProvider) -> Judge:
    if isinstance(provider, OpenAIResponses):
        return openai_responses_request.find_violations
    if isinstance(provider, OpenAIChat):
        passes = frozenset({"reasoning_content"}) if provider.manners.reasoning_back else frozenset[str]()
        return lambda body, headers: openai_chat_request.find_violations(body, headers, passes)
    return validate.find_request_violations


def switched(messages: list[Message]) -> list[Message]:
    """The same, as if some replies had come from other protocols: reasoning items, and thoughts in a chat's field. One
    model may be asked by any of them."""
    return [
        as_from_openai(message, n) if isinstance(message, Assistant) else message for n, message in enumerate(messages)
    ]


def as_from_openai(reply: Assistant, number: int) -> Assistant:
    model = {"claude-haiku-4-5": GPT, "claude-fable-5-1": "gpt-5.4"}.get(reply.model, reply.model)
    way = number % 3 if model == CLAUDE else 0 if model == LOCAL else 1 if model != reply.model else 2
    if way == 2:
        return reply
    blocks = [
        Thinking(block.text, f"rs_{number}_{at} sig:{model}:1" if way else "reasoning_content")
        if isinstance(block, Thinking) and block.signature
        else block
        for at, block in enumerate(reply.blocks)
    ]
    return replace(reply, model=model, blocks=tuple(blocks))


histories = st.one_of(orderly(), disorderly()).map(switched)


def request(name: str = GPT, max_output: int = 32_000) -> Request:
    model = model_named(name)
    return Request(name, max_output, 1, "sdk", "", 0, overload_tries=1, adaptive=model.adaptive_thinking)


def conversation(messages: list[Message] | History, edits: tuple[Edit, ...] = ()) -> Conversation:
    history = messages if isinstance(messages, History) else History(messages)
    return Conversation(history, edits, ("You are mainspring.",), TOOLS, default_cache_marks(history))


def sent(provider: HttpProvider, asked: Request, talk: Conversation) -> dict[str, Any]:
    prepared = provider.prepare(asked, talk)
    body = b"".join(prepared.body)
    assert len(body) == prepared.body.size
    assert judge_of(provider)(body, prepared.headers) == []
    decoded: dict[str, Any] = msgspec.json.decode(body)
    return decoded


def told(kind: Kind, *messages: Message, model: str = GPT, **more: Any) -> list[dict[str, Any]]:
    """The messages, or the items, of a request."""
    stamped = [replace(message, id=message.id or f"m{n}") for n, message in enumerate(messages)]
    provider = kind(**({"manners": OPENAI} | more))
    body = sent(provider, request(model), Conversation(History(stamped)))
    found: list[dict[str, Any]] = body["messages" if kind is OpenAIChat else "input"]
    return found


# --- law 2, for anything ------------------------------------------------------------------------


@pytest.mark.covers("B-27", "E-08", "K-01", "K-02")
@given(st.data(), histories, ASKED, KINDS, st.sampled_from([OPENAI, PLAIN, BACK]))
def test_every_request_is_valid(
    data: st.DataObject, messages: list[Message], model: str, kind: Kind, manners: Any
) -> None:
    edits = data.draw(edits_of(messages))
    asked = request(LOCAL if manners is not OPENAI and kind is OpenAIChat else model)
    sent(kind(manners=manners), asked, conversation(messages, edits))


@given(st.data(), histories, st.booleans())
def test_what_came_from_openai_is_valid_for_anthropic(
    data: st.DataObject, messages: list[Message], thinks: bool
) -> None:
    edits = data.draw(edits_of(messages))
    asked = replace(request(CLAUDE), adaptive=thinks)
    sent(Anthropic(base_url="http://127.0.0.1:1"), asked, conversation(messages, edits))


@settings(max_examples=examples(30))
@given(orderly().map(switched), KINDS)
def test_every_truncation_of_a_session_gives_a_valid_request(messages: list[Message], kind: Kind) -> None:
    for start in range(len(messages) + 1):
        for end in range(start, len(messages) + 1):
            sent(kind(manners=OPENAI), request(), conversation(messages[start:end]))


SPELLINGS: dict[Kind, tuple[Encode, Any, ProjectionTarget]] = {
    OpenAIChat: (
        json.make_chat_encoder(files=True),
        json.form_of,
        ProjectionTarget(GPT, takes=json.chat_accepts_block, calls_last=True, media_apart=True),
    ),
    OpenAIResponses: (
        json.make_responses_encoder(files=True),
        json.responses_form_of,
        ProjectionTarget(GPT, thinking=True, takes=json.responses_accepts_block),
    ),
}


@given(st.data(), histories, KINDS)
def test_growing_and_making_anew_lead_to_the_same_request(
    data: st.DataObject, messages: list[Message], kind: Kind
) -> None:
    encode, form_of, target = SPELLINGS[kind]
    known = data.draw(st.integers(0, len(messages)))
    edits = data.draw(edits_of(messages[:known]))
    grown, history = RequestProjection(encode, form_of), History(messages[:known])
    while True:
        quick = grown.project(history, edits, target)
        assert quick == RequestProjection(encode, form_of).project(history, edits, target)
        if len(history) == len(messages):
            break
        step = data.draw(st.integers(1, len(messages) - len(history)))
        history = history.append(*messages[len(history) : len(history) + step])


@both
def test_a_call_behind_its_result_is_told_alike_however_the_request_grew(kind: Kind) -> None:
    encode, form_of, target = SPELLINGS[kind]
    messages: list[Message] = [
        replace(user("go"), id="m0"),
        replace(user("on"), id="m1"),
        Assistant((), CLAUDE, id="m2"),
        replace(result("t1", "early"), id="m3"),
        Assistant((ToolCall("t1", "Read", {}),), CLAUDE, id="m4"),
        replace(user("and?"), id="m5"),
    ]
    grown, history = RequestProjection(encode, form_of), History()
    for message in messages:
        history = history.append(message)
        assert grown.project(history, (), target) == RequestProjection(encode, form_of).project(history, (), target)


@settings(max_examples=examples(60))
@given(st.data(), orderly().map(switched))
def test_switching_protocols_in_mid_session_is_valid_both_ways(data: st.DataObject, messages: list[Message]) -> None:
    """One history, asked about at each length by one of three providers, each of which remembers what it sent."""
    providers: list[tuple[HttpProvider, str]] = [
        (Anthropic(base_url="http://127.0.0.1:1"), CLAUDE),
        (OpenAIResponses(manners=OPENAI), GPT),
        (OpenAIResponses(manners=OPENAI), "gpt-5.4"),
        (OpenAIChat(manners=OPENAI), GPT),
        (OpenAIChat(manners=BACK), LOCAL),
    ]
    history = History()
    for message in messages:
        history = history.append(message)
        provider, model = data.draw(st.sampled_from(providers))
        sent(provider, request(model), conversation(history))


# --- law 2, case by case ------------------------------------------------------------------------

ROUND = (user("go"), Assistant((ToolCall("t1", "Read", {"file_path": "a"}),), GPT))


def answers(kind: Kind, *content: Any, is_error: bool = False) -> list[dict[str, Any]]:
    """What follows the call."""
    return told(kind, *ROUND, ToolResult("t1", tuple(content), is_error))[2:]


@both
def test_results_are_text_and_an_error_says_so(kind: Kind) -> None:
    field = "content" if kind is OpenAIChat else "output"
    assert answers(kind, Text("one"), Text(" "), Text("two"))[0][field] == "one\ntwo"
    assert answers(kind, Text("no such file"), is_error=True)[0][field] == f"{FAILED}\nno such file"
    assert answers(kind)[0][field] == "(no output)"
    assert answers(kind, is_error=True)[0][field] == f"{FAILED}\n(no output)"


@both
def test_a_call_without_a_result_is_told_that_nobody_knows(kind: Kind) -> None:
    answer = told(kind, *ROUND, user("and now?"))[2]
    assert answer["content" if kind is OpenAIChat else "output"] == f"{FAILED}\n{NeverRan.LOST}"


def test_pictures_of_results_follow_the_last_of_them_in_a_chat() -> None:
    calls = Assistant((ToolCall("t1", "Read", {}), ToolCall("t2", "Read", {})), GPT)
    shown = ToolResult("t1", (Text("a cat"), Image("image/png", PNG)))
    got = told(OpenAIChat, user("go"), calls, shown, result("t2", "two"), user("nice"))
    assert [message["role"] for message in got] == ["user", "assistant", "tool", "tool", "user"]
    assert [call["id"] for call in got[1]["tool_calls"]] == ["t1", "t2"]
    assert got[2]["content"].startswith("a cat\n[An image or document")
    assert got[4]["content"] == [
        {"type": "image_url", "image_url": {"url": PNG_ADDRESS}},
        {"type": "text", "text": "nice"},
    ]


def test_pictures_of_results_stay_with_them_in_a_response() -> None:
    (answer,) = answers(OpenAIResponses, Text("a cat"), Image("image/png", PNG))
    assert answer["output"] == [
        {"type": "input_text", "text": "a cat"},
        {"type": "input_image", "image_url": PNG_ADDRESS},
    ]


@both
def test_documents_go_to_servers_that_take_them(kind: Kind) -> None:
    pdf = User((Document("application/pdf", "JVBERi0xLjQ="),))
    (with_files,) = told(kind, pdf)
    data = "data:application/pdf;base64,JVBERi0xLjQ="
    if kind is OpenAIChat:
        part: Any = {"type": "file", "file": {"filename": "document.pdf", "file_data": data}}
    else:
        part = {"type": "input_file", "filename": "document.pdf", "file_data": data}
    assert with_files["content"] == [part]
    (without,) = told(kind, pdf, manners=PLAIN, model=LOCAL)
    assert without["content"][0]["text"] == NO_FILES.text


@both
def test_media_that_no_server_takes_are_named_in_words(kind: Kind) -> None:
    (only,) = told(kind, User((Image("image/tiff", PNG), Image("image/png", "???"))))
    assert ["image/tiff" in only["content"][0]["text"], "damaged" in only["content"][1]["text"]] == [True, True]


def test_a_chat_reply_is_one_message_with_its_calls_at_the_end() -> None:
    blocks = (Text("a"), ToolCall("t1", "Read", {}), Text("b"), ToolCall("t2", "Read", {}))
    got = told(OpenAIChat, user("go"), Assistant(blocks, GPT), result("t1", "1"), result("t2", "2"))
    assert got[1]["content"] == "a\n\nb"
    assert [call["id"] for call in got[1]["tool_calls"]] == ["t1", "t2"]
    assert [message["role"] for message in got] == ["user", "assistant", "tool", "tool"]
    silent = told(OpenAIChat, *ROUND, result("t1", "1"))
    assert silent[1]["content"] is None


def test_a_response_s_items_keep_their_order() -> None:
    thinks, thinks_on = Thinking("hm", "rs_1 sig:gpt-5.5:1"), Thinking("", "rs_2 sig:gpt-5.5:2")
    blocks = (thinks, Text("a"), thinks_on, ToolCall("t1", "Read", {}), Text("b"))
    got = told(OpenAIResponses, user("go"), Assistant(blocks, GPT), result("t1", "1"))
    kinds = [(item["type"], item.get("role")) for item in got]
    assert kinds == [
        ("message", "user"),
        ("reasoning", None),
        ("message", "assistant"),
        ("reasoning", None),
        ("function_call", None),
        ("message", "assistant"),
        ("function_call_output", None),
    ]
    assert got[1] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "sig:gpt-5.5:1",
    }
    assert got[3]["summary"] == []


@pytest.mark.covers("E-08", "K-03")
@both
def test_what_another_protocol_signed_is_dropped_and_all_else_is_carried(kind: Kind) -> None:
    server = ServerBlock("web_search_tool_result", '{"type":"x"}')
    foreign = Assistant(
        (Thinking("hm", "sig:claude-sonnet-5-5:1"), server, Text("So."), ToolCall("t1", "Read", {})), CLAUDE
    )
    got = told(kind, user("go"), foreign, result("t1", "found"))
    whole = msgspec.json.encode(got).decode()
    assert ["So." in whole, "found" in whole, "hm" in whole, "web_search" in whole] == [True, True, False, False]


@pytest.mark.covers("E-08")
def test_reasoning_goes_back_only_to_the_model_that_wrote_it() -> None:
    reply = Assistant((Thinking("hm", "rs_1 sig:gpt-5.5:1"), Text("So.")), GPT)
    kinds = {
        model: [item["type"] for item in told(OpenAIResponses, user("go"), reply, user("on"), model=model)]
        for model in (GPT, "gpt-5.4")
    }
    assert kinds == {GPT: ["message", "reasoning", "message", "message"], "gpt-5.4": ["message"] * 3}
    chat = told(OpenAIChat, user("go"), reply, user("on"))
    assert chat[1] == {"role": "assistant", "content": "So."}


SIGNATURES = {
    "Anthropic's": (Anthropic, "sig:claude-sonnet-5-5:1"),
    "an item's": (OpenAIResponses, "rs_1 sig:claude-sonnet-5-5:1"),
    "a field's name": (OpenAIChat, "reasoning_content"),
    "another field's name": (OpenAIChat, "reasoning"),
    "a call's": (OpenAIChat, "google sig"),
    "details'": (OpenAIChat, 'reasoning_details [{"type":"reasoning.text","text":"hm"}]'),
}


@pytest.mark.covers("E-08")
@pytest.mark.parametrize(("own", "signature"), SIGNATURES.values(), ids=SIGNATURES)
def test_what_a_model_thought_goes_back_by_the_protocol_it_came_by(own: type[HttpProvider], signature: str) -> None:
    """The model is the same: a gateway has it under one name for each protocol."""
    reply = Assistant((Thinking("hm", signature), Text("So.")), CLAUDE, id="a")
    talk = conversation([replace(user("go"), id="u"), reply, replace(user("on"), id="v")])
    providers = (Anthropic(base_url="http://127.0.0.1:1"), OpenAIResponses(manners=OPENAI), OpenAIChat(manners=OPENAI))
    shown = [type(each) for each in providers if b"hm" in b"".join(each.prepare(request(CLAUDE), talk).body)]
    assert set(shown) <= {own}
    for provider in providers:
        if not isinstance(provider, own):
            sent(provider, request(CLAUDE), talk)
    assert shown == [own] or own is OpenAIChat  # which takes it where it is wanted: see below


def test_reasoning_without_an_id_is_told_from_what_another_protocol_signed() -> None:
    assert [json.make_signature(*each) for each in (("", "gA"), ("rs_1", "gA"), ("rs_1", ""))] == [
        " gA",
        "rs_1 gA",
        "",
    ]
    thoughts = [Thinking("hm", signature) for signature in (" gA", "rs_1 gA", "gA")]
    assert [json.responses_accepts_block(thought) for thought in thoughts] == [True, True, False]
    assert json.reasoning_object(thoughts[0]) == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gA",
    }


def test_thoughts_in_a_field_go_back_only_where_they_are_wanted() -> None:
    reply = Assistant((Thinking("hm", "reasoning_content"), Text("So."), ToolCall("t1", "Read", {})), LOCAL)
    talk = (user("go"), reply, result("t1", "1"))
    plain, back = [told(OpenAIChat, *talk, model=LOCAL, manners=each)[1] for each in (PLAIN, BACK)]
    assert "reasoning_content" not in plain
    assert back == {**plain, "reasoning_content": "hm"}
    other = told(OpenAIChat, *talk, model=GPT, manners=replace(OPENAI, reasoning_back=True))[1]
    assert other == plain
    item_kinds = [item["type"] for item in told(OpenAIResponses, *talk, model=LOCAL)]
    assert item_kinds == ["message", "message", "function_call", "function_call_output"]


@both
def test_ids_and_names_that_are_too_long_are_cut_and_stay_apart(kind: Kind) -> None:
    ids = [f"toolu_{'x' * 60}_{n}" for n in range(2)]
    name = "mcp__a_server_with_a_long_name__" + "a_tool_with_a_long_name_" * 3
    calls = Assistant(tuple([ToolCall(each, name, {}) for each in ids]), CLAUDE)
    got = told(kind, user("go"), calls, result(ids[0], "one"), result(ids[1], "two"))
    if kind is OpenAIChat:
        sent_ids = [call["id"] for call in got[1]["tool_calls"]]
        answered = [message["tool_call_id"] for message in got[2:]]
    else:
        sent_ids = [item["call_id"] for item in got[1:3]]
        answered = [item["call_id"] for item in got[3:]]
    assert sent_ids == answered
    assert len(set(sent_ids)) == 2


@both
def test_text_that_no_utf8_can_express_is_mended(kind: Kind) -> None:
    call = ToolCall("t1", "Read", {"file_path": "\ud83d"})
    got = told(kind, user("half \ud83d"), Assistant((Text("more \ud83d"), call), GPT), result("t1", "ok"))
    assert got[0]["content"][0]["text"] == "half ?"
    assert "more ?" in msgspec.json.encode(got[1]).decode()


# --- law 4 --------------------------------------------------------------------------------------


def turn(history: History, number: int) -> History:
    call = ToolCall(f"t{number}", "Read", {"file_path": f"{number}.py"})
    thought = Thinking("hm", f"rs_{number} sig:{GPT}:{number}")
    reply = Assistant((thought, Text("Let me look."), call), GPT, Stop.TOOL_USE, id=f"a{number}", at=number)
    return history.append(reply, replace(result(f"t{number}", f"contents of {number}.py"), id=f"r{number}"))


@both
def test_over_200_turns_only_edits_break_the_prefix(kind: Kind) -> None:
    provider, history, edits = kind(manners=OPENAI), History([replace(user("go"), id="u")]), tuple[Edit, ...]()
    breaks: dict[int, PrefixBreak] = {}
    before = b""
    for number in range(200):
        history = turn(history, number)
        if number == 80:
            edits = (Replace("r10", (Text("[Old tool result cleared]"),)),)
        if number == 120:
            edits = (*edits, Drop(("a20", "r20")))
        if number == 160:
            edits = (*edits, Fold("a0", "r99", replace(user("So far: much."), id="s")))
        prepared = provider.prepare(request(), conversation(history, edits))
        body = b"".join(prepared.body)
        if prepared.broken is not None:
            breaks[number] = prepared.broken
        else:
            assert body.startswith(before)
        assert judge_of(provider)(body, prepared.headers) == []
        before = b"".join(prepared.body[:-2])  # without what closes it
    assert {number: found.why for number, found in breaks.items()} == dict.fromkeys(
        [80, 120, 160], "the context was edited"
    )


@both
def test_what_a_prompt_weighs_is_the_same_however_it_grew(kind: Kind) -> None:
    grown, history = kind(manners=OPENAI), History([replace(user("go"), id="u")])
    for number in range(20):
        history = turn(history, number)
        tokens = grown.prepare(request(), conversation(history)).tokens
    assert tokens == kind(manners=OPENAI).prepare(request(), conversation(history)).tokens
    assert tokens > 20 * 30
    edits = (Replace("r3", (Text("x" * 400),)),)
    edited = grown.prepare(request(), conversation(history, edits)).tokens
    assert edited == kind(manners=OPENAI).prepare(request(), conversation(history, edits)).tokens
    assert tokens + 80 < edited < tokens + 120
