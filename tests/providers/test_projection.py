"""Law 2: whatever a history looks like, the request is valid. Law 4: each request extends the last, or says why not."""

from __future__ import annotations

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
from mainspring.providers.anthropic.json import MARK, encode_part
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.base import Conversation, PrefixBreak, ToolSpec
from mainspring.providers.message_order import ProjectionTarget
from mainspring.providers.prefix import ByteChunks
from mainspring.providers.projection import MOST, REMOVED, RequestProjection
from mainspring.simulator.validate import find_request_violations
from providers.histories import PNG, disorderly, edits_of, orderly, signature

SONNET, HAIKU = "claude-sonnet-5-5", "claude-haiku-4-5"
TOOLS = (ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}}),)
ASKED = st.sampled_from([SONNET, HAIKU, "claude-haiku-4-5-20251001", "claude-fable-5-1", "some-local-model"])


def request(name: str = SONNET, *, thinking: bool = True, max_output: int = 32_000) -> Request:
    model = model_named(name)
    budget = model.thinking_budget if thinking and model.thinking_budget else None
    adaptive = thinking and model.adaptive_thinking
    return Request(name, max_output, 1, "sdk", "", 0, overload_tries=1, thinking=budget, adaptive=adaptive)


def conversation(messages: list[Message] | History, edits: tuple[Edit, ...] = ()) -> Conversation:
    history = messages if isinstance(messages, History) else History(messages)
    return Conversation(history, edits, ("You are mainspring.",), TOOLS, default_cache_marks(history))


def sent(asked: Request, talk: Conversation, provider: Anthropic | None = None) -> dict[str, Any]:
    prepared = (provider or Anthropic()).prepare(asked, talk)
    body = b"".join(prepared.body)
    assert len(body) == prepared.body.size
    assert find_request_violations(body, prepared.headers) == []
    decoded: dict[str, Any] = msgspec.json.decode(body)
    return decoded


def messages_of(*messages: Message, asked: Request | None = None) -> list[dict[str, Any]]:
    stamped = [replace(message, id=message.id or f"m{n}") for n, message in enumerate(messages)]
    found: list[dict[str, Any]] = sent(asked or request(), Conversation(History(stamped)))["messages"]
    return found


# --- law 2, for anything ------------------------------------------------------------------------


@pytest.mark.covers("B-27", "E-08", "K-01", "K-02")
@given(st.data(), st.one_of(orderly(), disorderly()), ASKED, st.booleans())
def test_every_request_is_valid(data: st.DataObject, messages: list[Message], model: str, thinking: bool) -> None:
    edits = data.draw(edits_of(messages))
    sent(request(model, thinking=thinking), conversation(messages, edits))


@settings(max_examples=examples(30))
@given(orderly(), ASKED)
def test_every_truncation_of_a_session_gives_a_valid_request(messages: list[Message], model: str) -> None:
    for start in range(len(messages) + 1):
        for end in range(start, len(messages) + 1):
            sent(request(model), conversation(messages[start:end]))


@given(st.data(), st.one_of(orderly(), disorderly()))
def test_growing_and_making_anew_lead_to_the_same_request(data: st.DataObject, messages: list[Message]) -> None:
    """The quick way, which extends the last request, is the slow way: at each length, with any cut of the steps."""
    target = ProjectionTarget(data.draw(ASKED), data.draw(st.booleans()), data.draw(st.booleans()))
    grown = RequestProjection(encode_part)
    history = History()
    while True:
        quick = grown.project(history, (), target)
        slow = RequestProjection(encode_part).project(history, (), target)
        assert quick == slow
        if len(history) == len(messages):
            break
        step = data.draw(st.integers(1, len(messages) - len(history)))
        history = history.append(*messages[len(history) : len(history) + step])


@given(st.data(), st.one_of(orderly(), disorderly()))
def test_growing_under_edits_leads_to_the_same_request(data: st.DataObject, messages: list[Message]) -> None:
    known = data.draw(st.integers(0, len(messages)))
    edits = data.draw(edits_of(messages[:known]))
    grown = RequestProjection(encode_part)
    history = History(messages[:known])
    for message in (None, *messages[known:]):
        history = history if message is None else history.append(message)
        quick = grown.project(history, edits, ProjectionTarget(SONNET, True))
        assert quick == RequestProjection(encode_part).project(history, edits, ProjectionTarget(SONNET, True))


@given(st.data(), st.one_of(orderly(), disorderly()))
def test_growing_while_results_are_cut_leads_to_the_same_request(data: st.DataObject, messages: list[Message]) -> None:
    """As by the layer that cuts large results: mostly the newest ones, and now and then an old one."""
    target, grown, history = ProjectionTarget(SONNET, True), RequestProjection(encode_part), History()
    edits: tuple[Edit, ...] = ()
    for message in messages:
        history = history.append(message)
        chosen = data.draw(st.sampled_from([None, message, message, messages[0]]))
        if chosen is not None:
            edits = (*edits, Replace(chosen.id, (Text(f"cut {len(edits)}"),)))
        assert grown.project(history, edits, target) == RequestProjection(encode_part).project(history, edits, target)


def call(id: str, name: str) -> Assistant:
    return Assistant((ToolCall(id, "Read", {}),), SONNET, id=name)


def answer(id: str, name: str) -> ToolResult:
    return replace(result(id, f"the result {name}"), id=name)


SAID, AGAIN = replace(user("go"), id="u1"), replace(user("on"), id="u2")
OUT_OF_ORDER: dict[str, list[Message]] = {
    "a result before its call": [answer("t1", "r1"), Assistant((), SONNET, id="a1"), SAID, call("t1", "a2"), AGAIN],
    "and another behind it": [answer("t1", "r1"), call("t1", "a1"), answer("t1", "r2"), SAID],
    "two before one call": [answer("t1", "r1"), answer("t1", "r2"), call("t1", "a1"), SAID, call("t2", "a2"), AGAIN],
    "in the middle": [SAID, call("t1", "a1"), answer("t2", "r2"), call("t2", "a2"), AGAIN, call("t3", "a3")],
    "an id that is renamed, twice": [
        call("a b", "a1"), answer("a b", "r1"), answer("a b", "r2"), call("x", "a2"), AGAIN, call("a b", "a3"), SAID
    ],
}  # fmt: skip


@pytest.mark.parametrize("messages", OUT_OF_ORDER.values(), ids=OUT_OF_ORDER)
@pytest.mark.parametrize("step", [1, 2, 3])
def test_results_out_of_order_are_told_alike_however_the_request_grew(messages: list[Message], step: int) -> None:
    """What was said in the meantime has settled what stands before it. A call that comes later takes its result from
    there, or there is a call of the same id already."""
    target, grown, history = ProjectionTarget(SONNET), RequestProjection(encode_part), History()
    for start in range(0, len(messages), step):
        history = history.append(*messages[start : start + step])
        assert grown.project(history, (), target) == RequestProjection(encode_part).project(history, (), target)


def test_a_result_without_its_call_is_placed_once_and_for_all() -> None:
    """It is remembered, for the call that may still come; the others extend the request as ever."""
    target, grown, history = (
        ProjectionTarget(SONNET),
        RequestProjection(encode_part),
        History([answer("gone", "r"), call("t", "a"), SAID]),
    )
    rows = list[ByteChunks]()
    for number in range(5):
        quick = grown.project(history, (), target)
        assert quick == RequestProjection(encode_part).project(history, (), target)
        rows += [] if any(quick.chunks is row for row in rows) else [quick.chunks]
        history = history.append(call(f"t{number}", f"a{number}"), answer(f"t{number}", f"r{number}"))
    assert len(rows) == 1


LOOPS = {"it never thinks": (False, False), "it thinks at first": (True, False), "it thinks later": (False, True)}


@pytest.mark.parametrize("thinks", LOOPS.values(), ids=LOOPS)
def test_budgeted_thinking_that_comes_and_goes_makes_nothing_anew(thinks: tuple[bool, bool]) -> None:
    """A loop that began without thinking goes on without it; the next one may think again."""
    target, grown, history = (
        ProjectionTarget(HAIKU, thinking=True, leads=True),
        RequestProjection(encode_part),
        History(),
    )
    thinking, rows = list[bool](), list[ByteChunks]()  # one that is made anew has chunks of its own
    for loop in range(4):
        history = history.append(replace(user(f"prompt {loop}"), id=f"u{loop}"))
        for turn in range(3):
            quick = grown.project(history, (), target)
            assert quick == RequestProjection(encode_part).project(history, (), target)
            thinking.append(quick.thinking)
            rows += [] if any(quick.chunks is row for row in rows) else [quick.chunks]
            thought = [Thinking("hm", "sig")] if thinks[turn > 0] else []
            call, number = ToolCall(f"c{loop}-{turn}", "Look", {}), f"{loop}-{turn}"
            history = history.append(Assistant((*thought, call), HAIKU, id=f"a{number}"))
            history = history.append(replace(result(call.id, "fine"), id=f"r{number}"))
        history = history.append(Assistant((Text("That is all."),), HAIKU, id=f"e{loop}"))
    assert thinking == [True, thinks[0], thinks[0]] * 4
    assert len(rows) == (1 if thinks[0] else 2)  # one, and one that shows no thinking


LONG_TALK: list[Message] = [
    Assistant((Text(f"reply {n}"),), SONNET, id=f"m{n}") if n % 2 else replace(user("x" * (n % 41) ** 2), id=f"m{n}")
    for n in range(400)
]


@given(st.lists(st.sampled_from([message.id for message in LONG_TALK]), max_size=3))
def test_marks_stand_in_a_long_conversation_as_in_a_short_one(chosen: list[str]) -> None:
    """A long one is put together from packs of parts, and a mark may stand within one."""
    talk = Conversation(History(LONG_TALK), system=("be kind",), marks=tuple(chosen))
    body, plain = [Anthropic().prepare(request(), each).body for each in (talk, replace(talk, marks=()))]
    whole = b"".join(body)
    assert len(body) < len(LONG_TALK)
    assert len(whole) == body.size
    assert whole.replace(MARK, b"}") == b"".join(plain).replace(MARK, b"}")
    blocks = [block for message in msgspec.json.decode(whole)["messages"] for block in message["content"]]
    marked = [block["text"] for block in blocks if "cache_control" in block]
    assert marked == [message.text for message in LONG_TALK if message.id in chosen and message.text]


@settings(max_examples=examples(60))
@given(orderly(), ASKED, ASKED)
def test_switching_models_in_mid_session_is_valid_both_ways(messages: list[Message], one: str, other: str) -> None:
    provider, history = Anthropic(), History()
    for number, message in enumerate(messages):
        history = history.append(message)
        sent(request(one if number % 2 else other), conversation(history), provider)


# --- law 2, case by case ------------------------------------------------------------------------


@pytest.mark.covers("B-27")
def test_a_call_without_a_result_is_told_that_nobody_knows() -> None:
    got = messages_of(user("go"), Assistant((ToolCall("t1", "Read", {}),)), user("and now?"))
    assert [m["role"] for m in got] == ["user", "assistant", "user"]
    answer, said = got[2]["content"]
    assert (answer["tool_use_id"], answer["is_error"], answer["content"][0]["text"]) == ("t1", True, NeverRan.LOST)
    assert said == {"type": "text", "text": "and now?"}


@pytest.mark.covers("B-27")
def test_a_result_whose_call_is_gone_stays_as_text() -> None:
    (only,) = messages_of(result("t0", "the answer is 42"), user("so?"))
    assert "the answer is 42" in only["content"][0]["text"]
    assert only["content"][1]["text"] == "so?"


def test_a_late_result_is_put_where_it_belongs() -> None:
    got = messages_of(
        user("go"), Assistant((ToolCall("t1", "Read", {}),)), Assistant((Text("hm"),)), result("t1", "late"), user("ok")
    )
    assert [m["role"] for m in got] == ["user", "assistant", "user", "assistant", "user"]
    assert got[2]["content"][0]["content"] == [{"type": "text", "text": "late"}]


def test_results_come_in_the_order_of_the_calls_and_before_what_was_said() -> None:
    calls = Assistant((ToolCall("t1", "Read", {}), ToolCall("t2", "Read", {})))
    got = messages_of(user("go"), calls, user("hurry"), result("t2", "two"), result("t1", "one"))
    assert [block.get("tool_use_id", block.get("text")) for block in got[2]["content"]] == ["t1", "t2", "hurry"]


def test_a_result_that_we_made_up_never_beats_a_real_one() -> None:
    made_up = result("t1", "It had no effect.", is_error=True, synthetic=True)
    got = messages_of(user("go"), Assistant((ToolCall("t1", "Read", {}),)), made_up, result("t1", "real"))
    assert [block["content"][0]["text"] for block in got[2]["content"]] == ["real"]


def test_an_id_that_is_used_twice_is_renamed_with_its_result() -> None:
    one, two = Assistant((ToolCall("t1", "Read", {}),)), Assistant((ToolCall("t1", "Bash", {}),))
    got = messages_of(user("go"), one, result("t1", "first"), two, result("t1", "second"))
    assert got[3]["content"][0]["id"] == got[4]["content"][0]["tool_use_id"] != "t1"
    assert got[4]["content"][0]["content"][0]["text"] == "second"


@pytest.mark.covers("E-08", "K-03")
def test_thinking_is_kept_for_the_model_that_signed_it_and_dropped_for_others() -> None:
    reply = Assistant((Thinking("hm", signature(SONNET)), Text("So.")), SONNET)
    mine = messages_of(user("go"), reply, user("on"), asked=request(SONNET))
    assert mine[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": signature(SONNET)}
    theirs = messages_of(user("go"), reply, user("on"), asked=request(HAIKU))
    assert [block["type"] for block in theirs[1]["content"]] == ["text"]


@pytest.mark.covers("K-03")
def test_thinking_is_kept_for_the_whole_trajectory() -> None:
    history: list[Message] = [user("go")]
    for n in range(5):
        history.append(Assistant((Thinking(f"{n}", signature(SONNET)), ToolCall(f"t{n}", "Read", {})), SONNET))
        history.append(result(f"t{n}", "done"))
    got = messages_of(*history)
    assert [m["content"][0]["thinking"] for m in got if m["role"] == "assistant"] == ["0", "1", "2", "3", "4"]


@pytest.mark.covers("K-01", "K-02")
def test_thinking_is_never_last_and_never_sent_where_it_is_off() -> None:
    reply = Assistant((Text("So."), Thinking("hm", signature(SONNET))), SONNET)
    assert [b["type"] for b in messages_of(user("go"), reply, user("on"))[1]["content"]] == ["text"]
    first = Assistant((Thinking("hm", signature(SONNET)), Text("So.")), SONNET)
    first = replace(first, model="claude-sonnet-5")
    off = messages_of(user("go"), first, user("on"), asked=request("claude-sonnet-5", thinking=False))
    assert [b["type"] for b in off[1]["content"]] == ["text"]


@pytest.mark.covers("K-01")
def test_a_tool_loop_that_began_without_thinking_goes_on_without_it() -> None:
    """A budgeted model refuses to think in the middle of it, as after a fallback from a model that signs otherwise."""
    loop: list[Message] = [
        Assistant((Thinking("hm", "sig:other:1"), ToolCall("t1", "Read", {})), "other"),
        result("t1", "done"),
    ]
    in_loop = sent(request(HAIKU), Conversation(History([user("go"), *loop])))
    assert "thinking" not in in_loop
    next_turn = sent(request(HAIKU), Conversation(History([user("go"), *loop, Assistant((Text("ok"),)), user("on")])))
    assert next_turn["thinking"] == {"type": "enabled", "budget_tokens": 8_000}


def test_thinking_that_is_tied_to_its_prefix_may_be_dropped_by_the_server() -> None:
    """Else a summary would make the next request invalid. Only Anthropic's own server is sure to know the setting."""
    bound = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert sent(request(SONNET), conversation([user("go")]))["thinking"] == bound
    assert sent(request("claude-opus-5"), conversation([user("go")]))["thinking"] == {"type": "adaptive"}
    elsewhere = Anthropic(base_url="http://127.0.0.1:1")
    assert sent(request(SONNET), conversation([user("go")]), elsewhere)["thinking"] == {"type": "adaptive"}


def test_a_paused_turn_is_handed_back_as_it_is() -> None:
    block = ServerBlock("server_tool_use", '{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}')
    paused = Assistant((Text("Searching."), block), SONNET, Stop.PAUSE_TURN)
    assert messages_of(user("go"), paused)[-1]["role"] == "assistant"
    found = ServerBlock("web_search_tool_result", '{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}')
    got = messages_of(user("go"), paused, Assistant((found, Text("Found.")), SONNET), user("thanks"))
    assert [b["type"] for b in got[1]["content"]] == ["text", "server_tool_use", "web_search_tool_result", "text"]


def test_citations_are_handed_back_as_they_came() -> None:
    place = {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": None}
    cited = msgspec.json.encode([place | {"start_char_index": 0, "end_char_index": 1}]).decode()
    got = messages_of(user("go"), Assistant((Text("So.", cited),)), user("on"))
    assert msgspec.json.encode(got[1]["content"][0]["citations"]) == cited.encode()


@pytest.mark.covers("F-22")
def test_an_error_result_holds_text_and_nothing_else() -> None:
    failed = ToolResult("t1", (Image("image/png", PNG),), is_error=True)
    got = messages_of(user("go"), Assistant((ToolCall("t1", "Read", {}),)), failed)
    assert [b["type"] for b in got[2]["content"][0]["content"]] == ["text"]


@pytest.mark.covers("F-22")
def test_media_that_the_api_does_not_take_are_named_in_words() -> None:
    odd = (Image("image/tiff", PNG), Image("image/png", "x" * 6_000_000), Image("image/png", "???"))
    (only,) = messages_of(User((Text("look"), *odd)))
    words = [block["text"] for block in only["content"][1:]]
    assert ["image/tiff" in words[0], "5 MB" in words[1], "damaged" in words[2]] == [True] * 3


def test_of_too_many_images_the_oldest_go_and_in_batches() -> None:
    history = History([replace(User((Image("image/png", PNG),)), id=f"m{n}") for n in range(MOST + 1)])
    provider = Anthropic()
    (only,) = sent(request(), conversation(history), provider)["messages"]
    kinds = [block["type"] for block in only["content"]]
    assert (kinds.count("image"), kinds[0]) == (MOST // 2, "text")
    assert only["content"][0]["text"] == REMOVED.text
    more = history.append(*[replace(User((Image("image/png", PNG),)), id=f"n{n}") for n in range(MOST // 2)])
    assert provider.prepare(request(), conversation(more)).broken is None


def test_text_that_no_utf8_can_express_is_mended() -> None:
    call = ToolCall("t1", "Read", {"file_path": "\ud83d", "list": ["\ud83d"]})
    got = messages_of(user("half \ud83d"), Assistant((call,)), result("t1", "ok"))
    assert got[0]["content"][0]["text"] == "half ?"
    assert got[1]["content"][0]["input"] == {"file_path": "?", "list": ["?"]}


def test_an_empty_conversation_still_asks_something() -> None:
    assert [m["role"] for m in messages_of()] == ["user"]
    assert [m["role"] for m in messages_of(Assistant((Text("I was saying"),)))] == ["user", "assistant", "user"]


# --- marks --------------------------------------------------------------------------------------


def marked_texts(body: dict[str, Any]) -> list[str]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [block.get("tool_use_id") or block["text"] for block in blocks if "cache_control" in block]


@pytest.mark.covers("D-39")
def test_marks_stand_at_the_end_and_where_the_last_request_ended() -> None:
    calls = Assistant(tuple(ToolCall(f"t{n}", "Read", {}) for n in range(12)), id="a1")
    messages: list[Message] = [
        replace(user("go"), id="u1"),
        calls,
        *[replace(result(f"t{n}", "x"), id=f"r{n}") for n in range(12)],
    ]
    body = sent(request(), conversation(messages))
    assert marked_texts(body) == ["go", "t11"]
    assert "cache_control" in body["system"][-1]


@pytest.mark.covers("D-39")
@pytest.mark.parametrize(
    ("system", "marked"),
    [
        (("a", "b"), [False, True]),
        (("a", "b", "", "mine"), [False, True, False]),
        (("a", " ", "b", "", "mine", "more"), [False, True, False, False]),
        (("", "mine"), [True]),
        (("",), []),
    ],
)
def test_the_mark_of_the_system_text_is_where_sessions_stop_to_share_it(
    system: tuple[str, ...], marked: list[bool]
) -> None:
    body = sent(request(), Conversation(History([replace(user("go"), id="u1")]), system=system, marks=("u1",)))
    assert ["cache_control" in block for block in body.get("system", ())] == marked


def test_a_mark_never_stands_on_thinking_and_there_are_never_more_than_four() -> None:
    thought = Assistant((Text("a"), Thinking("hm", signature(SONNET)), Text("b")), SONNET, id="a1")
    messages = [replace(user(f"u{n}"), id=f"u{n}") for n in range(6)]
    talk = Conversation(History([*messages, thought]), (), ("s",), (), ("a1", "u0", "u1", "u2", "u3"))
    assert marked_texts(sent(request(), talk)) == ["u2", "u3", "b"]


# --- law 4 --------------------------------------------------------------------------------------


def turn(history: History, number: int) -> History:
    reply = Assistant(
        (Thinking("hm", signature(SONNET)), ToolCall(f"t{number}", "Read", {"file_path": f"{number}.py"})),
        SONNET,
        Stop.TOOL_USE,
        id=f"a{number}",
        at=number,
    )
    return history.append(reply, replace(result(f"t{number}", f"contents of {number}.py"), id=f"r{number}"))


def test_over_200_turns_only_edits_break_the_prefix() -> None:
    provider, history, edits = Anthropic(), History([replace(user("go"), id="u")]), tuple[Edit, ...]()
    breaks: dict[int, PrefixBreak] = {}
    before: list[Any] = []
    for number in range(200):
        history = turn(history, number)
        if number == 80:
            edits = (Replace("r10", (Text("[Old tool result cleared]"),)),)
        if number == 120:
            edits = (*edits, Drop(("a20", "r20")))
        if number == 160:
            edits = (*edits, Fold("a0", "r99", replace(user("So far: much."), id="s")))
        prepared = provider.prepare(request(), conversation(history, edits))
        blocks = bare(b"".join(prepared.body))
        if prepared.broken is not None:
            breaks[number] = prepared.broken
            assert blocks[: prepared.broken.block] == before[: prepared.broken.block]
            assert blocks[prepared.broken.block] != before[prepared.broken.block]
        else:
            assert blocks[: len(before)] == before
        before = blocks
    assert {number: found.why for number, found in breaks.items()} == dict.fromkeys(
        [80, 120, 160], "the context was edited"
    )
    assert all(found.tokens > 0 and found.price > 0 for found in breaks.values())


def bare(body: bytes) -> list[Any]:
    """The blocks of a request as the cache sees them: tools, system, messages, without marks."""
    decoded: dict[str, Any] = msgspec.json.decode(body)
    blocks = [*decoded["tools"], *decoded["system"]]
    for number, message in enumerate(decoded["messages"]):
        blocks += [(number, message["role"], block) for block in message["content"]]
    for block in blocks:
        (block[2] if isinstance(block, tuple) else block).pop("cache_control", None)
    return blocks


def test_a_break_names_its_place_its_reason_and_its_price() -> None:
    history = turn(turn(History([replace(user("go"), id="u")]), 1), 2)

    def after(change: Conversation, asked: Request) -> PrefixBreak | None:
        provider = Anthropic()
        assert provider.prepare(request(), conversation(history)).broken is None
        assert provider.prepare(request(), conversation(history)).broken is None, "the same again extends itself"
        return provider.prepare(asked, change).broken

    same = conversation(history)
    more_tools = (*TOOLS, ToolSpec("Bash", "Runs a command.", {"type": "object"}))
    cases = {
        "the model changed from 'claude-sonnet-5-5' to 'claude-opus-5-5'": (same, request("claude-opus-5-5"), 0),
        "the set of tools changed": (replace(same, tools=more_tools), request(), 1),
        "the system text changed": (replace(same, system=("Be brief.",)), request(), 1),
        "thinking was switched": (same, request(thinking=False), 2),
        "the context was edited": (replace(same, edits=(Replace("r1", (Text("-"),)),)), request(), 5),
        "the conversation was resumed elsewhere": (conversation(turn(History([user("no")]), 1)), request(), 2),
    }
    for why, (change, asked, block) in cases.items():
        found = after(change, asked)
        assert found is not None
        assert (found.why, found.block) == (why, block)
        assert found.price == found.tokens * (
            model_named(asked.model).price.cache_write - model_named(asked.model).price.cache_read
        )


def test_an_unfinished_turn_that_is_completed_later_is_named() -> None:
    provider = Anthropic()
    history = History([user("go"), Assistant((Text("So."),))])
    provider.prepare(request(), conversation(history))
    found = provider.prepare(request(), conversation(history.append(user("what?")))).broken
    assert found is not None
    assert found.why == "an unfinished turn was completed"


def test_images_that_make_room_for_new_ones_are_named() -> None:
    provider = Anthropic()
    history = History([replace(User((Image("image/png", PNG),)), id=f"m{n}") for n in range(MOST)])
    provider.prepare(request(), conversation(history))
    found = provider.prepare(request(), conversation(history.append(User((Image("image/png", PNG),), id="new")))).broken
    assert found is not None
    assert found.why == "old images or documents were left out to make room for new ones"


def test_a_summary_s_request_does_not_count_against_the_conversation_s() -> None:
    provider, history = Anthropic(), History([user("go")])
    provider.prepare(request(), conversation(history))
    provider.prepare(replace(request(), source="compact"), conversation(History([user("sum up")])))
    assert (
        provider.prepare(request(), conversation(history.append(Assistant((Text("ok"),)), user("on")))).broken is None
    )
