"""Answers over OpenAI's two protocols: whole, streamed, spoilt by every fault, and in the manners of odd servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainspring.core.money import Usage
from mainspring.simulator import openai_chat, openai_responses
from mainspring.simulator.faults import FAULTS, KNOWN, NO_SUCH_TOOL, ODD, FaultScene, fault_fits, is_delivering_fault
from mainspring.simulator.protocol import MESSAGES, ApiDialect
from mainspring.simulator.replies import RawStream, Refuse, Reply, ReplyStamp, Say
from mainspring.simulator.server_quirks import ODDITIES, apply_oddities, check_oddities
from simulator.bodies import Json, ask, assistant, call, thought, user
from simulator.openai_bodies import chat, respond
from simulator.openai_client import Chat, Response

STAMP = ReplyStamp("gpt-6-sol", "msg_001", lambda: "sig:gpt-6-sol:1")
WORDS = "I will read the file."
THINKS: Json = {"type": "thinking", "thinking": "Let me see.", "signature": "sig:gpt-6-sol:1"}
SAY = Say.of(
    THINKS, WORDS, call("call_1"), call("call_2"), usage=Usage(input=10, cache_write=4, cache_read=6, output=5)
)
ARGUMENTS = '{"file_path":"a.py"}'
BOTH = {"chat": openai_chat.SPEECH, "responses": openai_responses.SPEECH}
COUNTED: Any = {"stream_options": {"include_usage": True}}
ALOUD: Any = {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]}


def scene(speech: ApiDialect, say: Say = SAY, argument: str = "", *, stream: bool = True, **more: Any) -> FaultScene:
    asked = chat(stream=stream, **more) if speech is openai_chat.SPEECH else respond(stream=stream, **more)
    return FaultScene(ask(stream=stream), say, STAMP, argument, speech, asked)


def told(speech: ApiDialect, say: Say = SAY, **more: Any) -> bytes:
    return b"".join(scene(speech, say, **more).frames())


def whole(speech: ApiDialect, say: Say = SAY, **more: Any) -> Json:
    shown = scene(speech, say, stream=False, **more)
    assert shown.asked is not None
    return speech.whole(shown.say, shown.stamp, shown.asked)


def bytes_of(reply: Reply) -> bytes:
    assert isinstance(reply, RawStream)
    return b"".join(reply.frames)


# --- as they should be ----------------------------------------------------------------------------------------


def test_a_chat_says_the_same_whole_and_streamed() -> None:
    message = whole(openai_chat.SPEECH)
    streamed = Chat(told(openai_chat.SPEECH, **COUNTED))
    choice = message["choices"][0]
    calls = [{"id": each["id"], **each["function"]} for each in choice["message"]["tool_calls"]]
    assert calls == [{"id": id, "name": "Read", "arguments": ARGUMENTS} for id in ("call_1", "call_2")]
    assert (streamed.calls, streamed.text, streamed.finish) == (calls, choice["message"]["content"], "tool_calls")
    assert choice["finish_reason"] == "tool_calls"
    assert streamed.usage == message["usage"]
    assert streamed.done
    assert "Let me see" not in json.dumps(message), "nothing of what OpenAI's models think is shown here"


def test_usage_is_counted_as_openai_does() -> None:
    """What is cached is a part of the prompt; what was thought is a part of the answer."""
    usage = whole(openai_chat.SPEECH)["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (20, 5, 25)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 6
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 5
    assert Chat(told(openai_chat.SPEECH)).usage is None, "nobody asked for it"


def test_a_response_says_the_same_whole_and_streamed() -> None:
    streamed = Response(told(openai_responses.SPEECH, **ALOUD))
    assert whole(openai_responses.SPEECH, **ALOUD) == streamed.final
    assert streamed.final is not None
    assert list(streamed.items.values()) == streamed.final["output"]
    assert streamed.numbers == list(range(len(streamed.numbers)))
    reasoning, message, *calls = streamed.final["output"]
    assert reasoning == {
        "id": "rs_1_0",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Let me see."}],
        "encrypted_content": "sig:gpt-6-sol:1",
    }
    assert (message["id"], message["content"][0]["text"], streamed.pieces["msg_1_1r"]) == ("msg_1_1r", WORDS, WORDS)
    assert [(each["call_id"], each["arguments"]) for each in calls] == [("call_1", ARGUMENTS), ("call_2", ARGUMENTS)]
    assert (streamed.final["status"], streamed.final["usage"]["input_tokens"]) == ("completed", 20)


def test_thoughts_are_shown_only_to_those_who_ask() -> None:
    final = whole(openai_responses.SPEECH)
    assert final["output"][0] == {"id": "rs_1_0", "type": "reasoning", "summary": []}


def test_a_call_without_arguments_is_an_empty_object() -> None:
    say = Say.of({**call(), "input": {}})
    assert Chat(told(openai_chat.SPEECH, say)).calls[0]["arguments"] == "{}"
    assert Response(told(openai_responses.SPEECH, say)).items[0]["arguments"] == "{}"


# --- faults ---------------------------------------------------------------------------------------------------

REFUSED = {
    "rate_limited": (429, "rate_limit_exceeded"),
    "overloaded": (503, "server_is_overloaded"),
    "server_error": (500, None),
    "unauthorized": (401, "invalid_api_key"),
    "invalid_request": (400, None),
    "too_large": (413, "request_too_large"),
    "prompt_too_long": (400, "context_length_exceeded"),
    "bad_image": (400, "invalid_image"),
    "bad_signature": (400, "invalid_encrypted_content"),
}
SILENT = {"reset": "reset", "silence": "hang"}
# Where a stream stops: how, and how much of the text and of the first call was to be seen.
CUT = {
    "cut_at_start": ("close", 0, 0),
    "stall_at_start": ("hang", 0, 0),
    "cut_in_thinking": ("close", 0, 0),
    "cut_in_text": ("close", 10, 0),
    "stall": ("hang", 10, 0),
    "cut_in_call": ("close", 21, 10),
    "cut_after_call": ("close", 21, 20),
}
WRONG = {"error_event", "error_at_once", "malformed_json", "malformed_sse", "malformed_http"}
ODD_BUT_RIGHT = {"drip", "pings", "unknown_events", "duplicate_events", "huge_text"}
# What the model says: the chat's finish_reason, and the response's status with its reason.
SAID = {
    "truncated": ("length", "incomplete", "max_output_tokens"),
    "truncated_call": ("length", "incomplete", "max_output_tokens"),
    "window_full": ("length", "incomplete", "max_output_tokens"),
    "refusal": ("content_filter", "incomplete", "content_filter"),
    "empty": ("stop", "completed", None),
    "thinking_only": ("stop", "completed", None),
    "broken_call": ("tool_calls", "completed", None),
    "unknown_tool": ("tool_calls", "completed", None),
    "duplicate_ids": ("tool_calls", "completed", None),
}
NOT_SPELLED = {"paused"}


def test_every_fault_is_shown_here() -> None:
    shown = {*REFUSED, *SILENT, *CUT, *WRONG, *ODD_BUT_RIGHT, *SAID, *NOT_SPELLED}
    assert shown == set(FAULTS)
    assert not any(fault_fits(name, scene(speech)) for name in NOT_SPELLED for speech in BOTH.values())


@pytest.mark.parametrize("door", BOTH)
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_in_openais_words(name: str, door: str) -> None:
    reply = FAULTS[name].make(scene(BOTH[door]))
    assert isinstance(reply, Refuse)
    refusal = BOTH[door].refuse(reply, "req_7")
    error = json.loads(refusal.body)["error"]
    assert (refusal.status, error["code"]) == REFUSED[name]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert refusal.headers["x-request-id"] == "req_7"
    assert ("retry-after" in refusal.headers) == (name == "rate_limited")


def test_a_prompt_that_is_too_long_says_by_how_much() -> None:
    reply = FAULTS["prompt_too_long"].make(scene(openai_chat.SPEECH))
    assert isinstance(reply, Refuse)
    said = json.loads(openai_chat.SPEECH.refuse(reply, "req_1").body)["error"]["message"]
    assert said.startswith(
        "This model's maximum context length is 1000000 tokens. However, your messages resulted in 1000001"
    )


@pytest.mark.parametrize("door", BOTH)
@pytest.mark.parametrize("name", SILENT)
def test_no_answer_at_all(name: str, door: str) -> None:
    assert FAULTS[name].make(scene(BOTH[door])) == RawStream((), SILENT[name], head=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CUT)
def test_streams_that_stop(name: str) -> None:
    end, text, written = CUT[name]
    reply = FAULTS[name].make(scene(openai_chat.SPEECH))
    cut = Chat(bytes_of(reply))
    assert isinstance(reply, RawStream)
    assert (reply.end, reply.usage, cut.finish, cut.done) == (end, SAY.spent, None, False)
    assert (cut.text, "".join([each["arguments"] for each in cut.calls[:1]])) == (WORDS[:text], ARGUMENTS[:written])
    reply = FAULTS[name].make(scene(openai_responses.SPEECH, **ALOUD))
    stopped = Response(bytes_of(reply))
    assert isinstance(reply, RawStream)
    assert (reply.end, stopped.final, stopped.error) == (end, None, None)
    assert (stopped.text, stopped.pieces.get("fc_1_2", "")) == (WORDS[:text], ARGUMENTS[:written])


def test_a_cut_behind_a_call_delivers_it_only_where_the_protocol_ends_calls() -> None:
    speeches = (MESSAGES, openai_chat.SPEECH, openai_responses.SPEECH)
    assert [is_delivering_fault("cut_after_call", speech) for speech in speeches] == [True, False, True]


@pytest.mark.parametrize("door", BOTH)
@pytest.mark.parametrize("name", ["cut_in_text", "stall", "malformed_json"])
def test_a_whole_answer_is_cut_in_its_middle(name: str, door: str) -> None:
    reply = FAULTS[name].make(scene(BOTH[door], stream=False))
    head, _, body = bytes_of(reply).partition(b"\r\n\r\n")
    length = int(dict(line.split(b": ") for line in head.split(b"\r\n")[1:])[b"content-length"])
    assert len(body) == length // 2


def test_errors_in_a_chat() -> None:
    middle = Chat(bytes_of(FAULTS["error_event"].make(scene(openai_chat.SPEECH))))
    assert (middle.text, middle.finish) == (WORDS[:10], None)
    assert middle.error is not None
    assert (middle.error["code"], middle.error["type"]) == ("server_is_overloaded", "service_unavailable_error")
    at_once = Chat(bytes_of(FAULTS["error_at_once"].make(scene(openai_chat.SPEECH, argument="api_error"))))
    assert (at_once.text, (at_once.error or {})["type"]) == ("", "server_error")


def test_errors_in_a_response() -> None:
    middle = Response(bytes_of(FAULTS["error_event"].make(scene(openai_responses.SPEECH))))
    assert middle.kinds[-1] == "response.failed"
    assert middle.final is not None
    assert (middle.text, middle.final["status"], middle.final["error"]["code"]) == (
        *(WORDS[:10], "failed", "server_is_overloaded"),
    )
    at_once = Response(bytes_of(FAULTS["error_at_once"].make(scene(openai_responses.SPEECH))))
    assert (at_once.kinds, (at_once.error or {})["code"]) == (["error"], "server_is_overloaded")


@pytest.mark.parametrize("door", BOTH)
@pytest.mark.parametrize("name", ["malformed_json", "malformed_sse"])
def test_an_event_that_cannot_be_read(name: str, door: str) -> None:
    raw = bytes_of(FAULTS[name].make(scene(BOTH[door])))
    with pytest.raises(json.JSONDecodeError):
        (Chat if door == "chat" else Response)(raw)


@pytest.mark.parametrize("door", BOTH)
def test_a_chunk_without_a_length(door: str) -> None:
    reply = FAULTS["malformed_http"].make(scene(BOTH[door]))
    assert isinstance(reply, RawStream)
    assert reply.frames[-1] == b"no length\r\n"
    assert b"0\r\n\r\n" not in b"".join(reply.frames), "an empty chunk would have been the end"


@pytest.mark.parametrize("name", sorted(ODD_BUT_RIGHT))
def test_what_is_odd_but_right(name: str) -> None:
    argument = "1" if name == "drip" else "500"
    raw = bytes_of(FAULTS[name].make(scene(openai_chat.SPEECH, argument=argument)))
    read = Chat(raw)
    assert (len(read.text), read.finish, read.done) == (500 if name == "huge_text" else len(WORDS), "tool_calls", True)
    assert [each["id"] for each in read.calls] == ["call_1", "call_2"]
    assert [json.loads(each["arguments"]) for each in read.calls] == [{"file_path": "a.py"}] * 2
    response = Response(bytes_of(FAULTS[name].make(scene(openai_responses.SPEECH, argument=argument))))
    assert response.final is not None
    assert (len(response.text), response.final["status"]) == (len(read.text), "completed")


@pytest.mark.parametrize("name", SAID)
def test_what_the_model_says(name: str) -> None:
    finish, status, reason = SAID[name]
    say = FAULTS[name].make(scene(openai_chat.SPEECH))
    assert isinstance(say, Say)
    assert Chat(told(openai_chat.SPEECH, say)).finish == finish
    assert whole(openai_chat.SPEECH, say)["choices"][0]["finish_reason"] == finish
    final = Response(told(openai_responses.SPEECH, say)).final
    assert final is not None
    assert (final["status"], (final["incomplete_details"] or {}).get("reason")) == (status, reason)
    unfinished = [item for item in final["output"] if item.get("status") == "incomplete"]
    assert len(unfinished) == (status == "incomplete")


def test_calls_that_are_wrong() -> None:
    broken, unknown, twice = [
        Chat(told(openai_chat.SPEECH, FAULTS[name].make(scene(openai_chat.SPEECH)))).calls  # type: ignore[arg-type]
        for name in ("broken_call", "unknown_tool", "duplicate_ids")
    ]
    assert [each["arguments"] for each in broken] == ['{"broken": yes, }']
    assert [each["name"] for each in unknown] == [NO_SUCH_TOOL]
    assert [each["id"] for each in twice] == ["call_1", "call_1"]


def test_a_signature_is_refused_only_where_there_is_one() -> None:
    with_thought = ask(user("a"), assistant(thought("gpt-6-sol"), call()), user("b"))
    shown = scene(openai_responses.SPEECH)._replace(body=with_thought)
    assert fault_fits("bad_signature", shown)
    assert not fault_fits("bad_signature", scene(openai_responses.SPEECH))
    assert not fault_fits("bad_signature", shown._replace(speech=openai_chat.SPEECH)), "a chat carries none"


# --- manners of odd servers ---------------------------------------------------------------------------------------


def odd_chat(*names: str, say: Say = SAY, **more: Any) -> tuple[Chat, Json]:
    """Streamed, and the choice of the whole answer."""
    strange = apply_oddities(say, names)
    return Chat(told(openai_chat.SPEECH, strange, **COUNTED, **more)), whole(openai_chat.SPEECH, strange)["choices"][0]


@pytest.mark.parametrize(
    ("style", "written"),
    [
        ("", f'<tool_call>\n{{"name": "Read", "arguments": {ARGUMENTS}}}\n</tool_call>'),
        ("=llama", f"<function=Read>{ARGUMENTS}</function>"),
        ("=python", f'<|python_tag|>{{"name": "Read", "parameters": {ARGUMENTS}}}'),
        ("=mistral", f'[TOOL_CALLS][{{"name": "Read", "arguments": {ARGUMENTS}}}]'),
        ("=json", f'```json\n{{"name": "Read", "arguments": {ARGUMENTS}}}\n```'),
    ],
)
def test_calls_as_text(style: str, written: str) -> None:
    streamed, choice = odd_chat(f"calls_as_text{style}")
    assert (streamed.text, streamed.calls, streamed.finish) == (WORDS + written * 2, [], "stop")
    assert (choice["message"]["content"], "tool_calls" in choice["message"]) == (WORDS + written * 2, False)
    assert (
        Response(told(openai_responses.SPEECH, apply_oddities(SAY, [f"calls_as_text{style}"]))).text
        == WORDS + written * 2
    )


@pytest.mark.parametrize(("argument", "held"), [("", "missing"), ("=empty", ""), ("=null", None)])
def test_no_ids(argument: str, held: str | None) -> None:
    streamed, choice = odd_chat(f"no_ids{argument}")
    assert [each["id"] for each in streamed.calls] == [held if held != "missing" else None] * 2
    assert [each.get("id", "missing") for each in choice["message"]["tool_calls"]] == [held, held]
    items = whole(openai_responses.SPEECH, apply_oddities(SAY, [f"no_ids{argument}"]))["output"]
    assert [each.get("call_id", "missing") for each in items[2:]] == [held, held]


def test_repeated_ids() -> None:
    streamed, choice = odd_chat("repeated_ids")
    assert [each["id"] for each in streamed.calls] == ["call_0", "call_0"]
    assert [each["id"] for each in choice["message"]["tool_calls"]] == ["call_0", "call_0"]


def test_object_arguments() -> None:
    streamed, choice = odd_chat("object_arguments")
    assert [each["arguments"] for each in streamed.calls] == [{"file_path": "a.py"}] * 2
    assert [each["function"]["arguments"] for each in choice["message"]["tool_calls"]] == [{"file_path": "a.py"}] * 2
    items = whole(openai_responses.SPEECH, apply_oddities(SAY, ["object_arguments"]))["output"]
    assert items[2]["arguments"] == {"file_path": "a.py"}
    broken = odd_chat("object_arguments", say=Say.of({**call(), "partial_json": "{oh"}))[0]
    assert broken.calls[0]["arguments"] == "{oh", "what is no object stays text"


def test_calls_in_one_piece_and_pieces_without_index() -> None:
    for names in (("no_index",), ("whole_calls",), ("whole_calls", "no_index")):
        raw = told(openai_chat.SPEECH, apply_oddities(SAY, names))
        assert Chat(raw).calls == Chat(told(openai_chat.SPEECH)).calls
        assert (b'"tool_calls":[{"index"' in raw) == ("no_index" not in names)
        assert raw.count(b'"tool_calls":[') == (2 if "whole_calls" in names else 6)


def test_how_a_stream_ends() -> None:
    assert odd_chat("stop_with_calls")[0].finish == "stop"
    assert odd_chat("stop_with_calls")[1]["finish_reason"] == "stop"
    assert (odd_chat("no_finish")[0].finish, odd_chat("no_finish")[0].done) == (None, True)
    assert (odd_chat("no_done")[0].finish, odd_chat("no_done")[0].done) == ("tool_calls", False)


def test_no_usage() -> None:
    assert odd_chat("no_usage")[0].usage is None
    assert "usage" not in whole(openai_chat.SPEECH, apply_oddities(SAY, ["no_usage"]))
    assert whole(openai_responses.SPEECH, apply_oddities(SAY, ["no_usage"]))["usage"] is None


@pytest.mark.parametrize(
    ("name", "field"), [("reasoning_content", "reasoning_content"), ("reasoning_content=reasoning", "reasoning")]
)
def test_thinking_in_a_field_of_its_own(name: str, field: str) -> None:
    streamed, choice = odd_chat(name)
    assert (streamed.fields[field], choice["message"][field]) == ("Let me see.", "Let me see.")
    assert streamed.text == WORDS


def test_thinking_in_tags() -> None:
    streamed, choice = odd_chat("think_tags")
    said = f"<think>\nLet me see.\n</think>\n\n{WORDS}"
    assert (streamed.text, choice["message"]["content"]) == (said, said)
    silent, _ = odd_chat("think_tags", say=Say.of(THINKS, call()))
    assert (silent.text, len(silent.calls)) == ("<think>\nLet me see.\n</think>\n\n", 1)


def test_a_refusal_in_its_own_field() -> None:
    streamed, choice = odd_chat("refusal_field", say=Say.of("I would rather not."))
    assert (streamed.fields["refusal"], streamed.text, streamed.finish) == ("I would rather not.", "", "stop")
    assert (choice["message"]["refusal"], choice["message"]["content"]) == ("I would rather not.", None)
    response = Response(told(openai_responses.SPEECH, apply_oddities(Say.of("I would rather not."), ["refusal_field"])))
    assert "response.refusal.delta" in response.kinds
    assert response.items[0]["content"] == [{"type": "refusal", "refusal": "I would rather not."}]


def test_an_error_with_the_error_inside() -> None:
    nested = scene(openai_responses.SPEECH, apply_oddities(SAY, ["nested_error"]))
    error = Response(bytes_of(FAULTS["error_at_once"].make(nested))).error
    assert error is not None
    assert error["error"]["code"] == "server_is_overloaded"


def test_manners_can_be_planned_where_they_can_be_seen() -> None:
    assert set(ODD) == set(ODDITIES)
    assert set(KNOWN) == {*FAULTS, *ODDITIES}
    assert not fault_fits("no_done", scene(openai_responses.SPEECH))
    assert not fault_fits("no_ids", scene(openai_chat.SPEECH, Say.of("no calls")))
    assert not fault_fits("no_ids", FaultScene(ask(), SAY, STAMP)), "Anthropic's protocol has no such servers"
    made = KNOWN["calls_as_text"].make(scene(openai_chat.SPEECH, argument="mistral"))
    assert isinstance(made, Say)
    assert "[TOOL_CALLS]" in Chat(told(openai_chat.SPEECH, made)).text


def test_unknown_manners_are_told() -> None:
    with pytest.raises(ValueError, match=r"'moody' is not a quirk of odd servers; use one of calls_as_text"):
        check_oddities(["no_ids", "moody"])
    with pytest.raises(ValueError, match=r"'calls_as_text=latin' is not a quirk of odd servers; use one of hermes"):
        check_oddities(["calls_as_text=latin"])


def test_manners_and_faults_go_together() -> None:
    cut = bytes_of(FAULTS["cut_in_call"].make(scene(openai_chat.SPEECH, apply_oddities(SAY, ["no_index", "no_ids"]))))
    assert (Chat(cut).calls, b'"tool_calls":[{"index"' in cut) == (
        [{"id": None, "name": "Read", "arguments": ARGUMENTS[:10]}],
        False,
    )
