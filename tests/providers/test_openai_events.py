"""Replies as OpenAI's two protocols stream them: what comes of each event, and what is never taken for an answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.errors import ProviderError
from mainspring.core.messages import Defect, Stop, Text, Thinking, ToolCall
from mainspring.core.money import Usage
from mainspring.core.reasons import Trouble
from mainspring.core.updates import BlockKind
from mainspring.providers.base import BlockDelta, BlockFinished, BlockOpened, Item, StreamEnded, StreamStarted
from mainspring.providers.http.sse import SseParser
from mainspring.providers.openai.blocks import MAX_REPLY, BlockReader, ExpectedReply
from mainspring.providers.openai.chat_stream import ChatStreamReader as ChatReply
from mainspring.providers.openai.responses_stream import ResponsesStreamReader as ResponsesReply

Readers = type[ChatReply] | type[ResponsesReply]
both = pytest.mark.parametrize("reader", [ChatReply, ResponsesReply], ids=["chat", "responses"])

# --- one reply, in both spellings ------------------------------------------------------------------


def said(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], "usage": None}


def call_piece(arguments: str, **more: Any) -> dict[str, Any]:
    name = more.pop("name", None)
    return said(
        tool_calls=[{"index": 0, **more, "function": {"arguments": arguments, **({"name": name} if name else {})}}]
    )


def spent(prompt: int, output: int, **details: int) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return {"choices": [], "usage": {**usage, "prompt_tokens_details": details}}


def response(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 1, **more}


def completed(status: str = "completed", reason: str | None = None, **usage: Any) -> dict[str, Any]:
    details = {"reason": reason} if reason else None
    return response(status, response={"status": status, "incomplete_details": details, "usage": usage or None})


MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "Read"}
WHOLE: dict[Readers, list[dict[str, Any]]] = {
    ChatReply: [
        said(role="assistant", content="", refusal=None),
        said(content="Hé"),
        said(content="llo"),
        call_piece("", id="c1", name="Read", type="function"),
        call_piece('{"file_'),
        call_piece('path":"漢"}'),
        said("tool_calls"),
        spent(400, 25, cached_tokens=300, cache_write_tokens=50),
    ],
    ResponsesReply: [
        response("created", response={"status": "in_progress", "usage": None}),
        response("output_item.added", output_index=0, item={**MESSAGE, "content": []}),
        response("content_part.added", output_index=0, content_index=0, part={"type": "output_text", "text": ""}),
        response("output_text.delta", output_index=0, content_index=0, delta="Hé"),
        response("output_text.delta", output_index=0, content_index=0, delta="llo"),
        response("output_text.done", output_index=0, content_index=0, text="Héllo"),
        response(
            "output_item.done", output_index=0, item={**MESSAGE, "content": [{"type": "output_text", "text": "Héllo"}]}
        ),
        response("output_item.added", output_index=1, item={**CALL, "arguments": ""}),
        response("function_call_arguments.delta", output_index=1, delta='{"file_'),
        response("function_call_arguments.delta", output_index=1, delta='path":"漢"}'),
        response("function_call_arguments.done", output_index=1, arguments='{"file_path":"漢"}'),
        response("output_item.done", output_index=1, item={**CALL, "arguments": '{"file_path":"漢"}'}),
        completed(
            input_tokens=400,
            input_tokens_details={"cached_tokens": 300, "cache_write_tokens": 50},
            output_tokens=25,
            output_tokens_details={"reasoning_tokens": 5},
        ),
    ],
}
ITEMS: list[Item] = [
    StreamStarted(Usage(input=77, estimated=True)),  # nobody says before the end
    BlockOpened(BlockKind.TEXT),
    BlockDelta(BlockKind.TEXT, "Hé"),
    BlockDelta(BlockKind.TEXT, "llo"),
    BlockFinished(Text("Héllo")),
    BlockOpened(BlockKind.INPUT, "c1", "Read"),
    BlockDelta(BlockKind.INPUT, '{"file_'),
    BlockDelta(BlockKind.INPUT, 'path":"漢"}'),
    BlockFinished(ToolCall("c1", "Read", {"file_path": "漢"})),
    StreamEnded(Stop.TOOL_USE, Usage(input=50, cache_write=50, cache_read=300, output=25)),
]
GUESSED = ExpectedReply(tokens=77)


def wire(*events: dict[str, Any], done: bool = True) -> bytes:
    return b"".join([b"data: %s\n\n" % msgspec.json.encode(event) for event in events]) + b"data: [DONE]\n\n" * done


def read(reader: BlockReader, stream: bytes) -> list[Item]:
    got = list(reader.take(SseParser().feed(stream)))
    if reader.error is not None:
        raise reader.error
    return got


@pytest.mark.covers("E-02", "E-14")
@both
def test_a_reply_from_its_start_to_its_stop(reader: Readers) -> None:
    assert read(reader(GUESSED), wire(*WHOLE[reader])) == ITEMS


@given(st.data(), st.sampled_from([ChatReply, ResponsesReply]))
def test_however_the_bytes_are_cut_the_items_are_the_same(data: st.DataObject, reader: Readers) -> None:
    stream = wire(*WHOLE[reader])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=40)))
    parser, reply = SseParser(), reader(GUESSED)
    got: list[Item] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += reply.take(parser.feed(stream[start:stop]))
    assert got == ITEMS
    assert reply.ended


def test_no_truncation_of_a_response_is_an_answer() -> None:
    stream = wire(*WHOLE[ResponsesReply], done=False)
    for length in range(len(stream) - 1):  # the very last byte is the empty line's: without it nothing is dispatched
        reply = ResponsesReply()
        reply.take(SseParser().feed(stream[:length]))
        assert reply.close() == ()
        assert not reply.ended


def test_no_truncation_of_a_chat_is_an_answer_before_it_says_why_it_stopped() -> None:
    stream = wire(*WHOLE[ChatReply][:-2], done=False)
    for length in range(len(stream) + 1):
        reply = ChatReply()
        reply.take(SseParser().feed(stream[:length]))
        assert reply.close() == ()
        assert not reply.ended


# --- usage and stops --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}, Usage(input=10, output=4)),
        # thinking that is only in the total
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 20}, Usage(input=10, output=10)),
        ({"prompt_tokens": 10, "completion_tokens": 4, "prompt_cache_hit_tokens": 8}, Usage(2, cache_read=8, output=4)),
        (
            {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 99}},
            Usage(cache_read=10, output=4),
        ),
        ({"prompt_tokens": 10, "completion_tokens": None, "prompt_tokens_details": None}, Usage(input=10)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(input=77, output=2, estimated=True)),
        (None, Usage(input=77, output=2, estimated=True)),
    ],
)
def test_what_a_chat_cost(usage: Any, expected: Usage) -> None:
    events = [said(content="Hello"), {**said("stop"), "usage": usage}]
    ended = read(ChatReply(GUESSED), wire(*events))[-1]
    assert isinstance(ended, StreamEnded)
    assert ended.usage == expected


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", Stop.END_TURN),
        ("length", Stop.MAX_TOKENS),
        ("content_filter", Stop.REFUSAL),
        ("brand_new", Stop.END_TURN),
        ("eos", Stop.END_TURN),
    ],
)
def test_why_a_chat_stopped(reason: str, stop: Stop) -> None:
    ended = read(ChatReply(), wire(said(content="Hello"), said(reason)))[-1]
    assert isinstance(ended, StreamEnded)
    assert ended.stop is stop


@pytest.mark.parametrize(
    ("end", "stop"),
    [
        (completed(), Stop.END_TURN),
        (completed("incomplete", "max_output_tokens"), Stop.MAX_TOKENS),
        (completed("incomplete", "content_filter"), Stop.REFUSAL),
        (completed("incomplete", "brand_new"), Stop.END_TURN),
    ],
)
def test_why_a_response_stopped(end: dict[str, Any], stop: Stop) -> None:
    ended = read(ResponsesReply(GUESSED), wire(response("output_text.delta", output_index=0, delta="Hello"), end))[-1]
    assert ended == StreamEnded(stop, Usage(input=77, output=2, estimated=True))


@pytest.mark.parametrize(("tokens", "stop"), [(7, Stop.END_TURN), (8, Stop.MAX_TOKENS), (9, Stop.MAX_TOKENS)])
def test_a_response_that_reached_its_limit_is_not_complete_whatever_the_server_says(tokens: int, stop: Stop) -> None:
    """llama.cpp's server says 'completed' and gives no details."""
    end = completed(input_tokens=10, output_tokens=tokens)
    text = response("output_text.delta", output_index=0, delta="Hello")
    ended = read(ResponsesReply(ExpectedReply(most=8)), wire(text, end))[-1]
    assert ended == StreamEnded(stop, Usage(input=10, output=tokens))


def test_a_refusal_is_shown_and_known_as_one() -> None:
    chat = read(ChatReply(), wire(said(refusal="I can't."), said("stop")))
    spoken = read(ResponsesReply(), wire(response("refusal.delta", output_index=0, delta="I can't."), completed()))
    for got in (chat, spoken):
        assert BlockFinished(Text("I can't.")) in got
        assert isinstance(got[-1], StreamEnded)
        assert got[-1].stop is Stop.REFUSAL


@both
def test_a_call_cut_by_the_limit_is_never_one_that_can_run(reader: Readers) -> None:
    if reader is ChatReply:
        events = [call_piece('{"file_', id="c1", name="Read"), said("length")]
    else:
        added = response("output_item.added", output_index=0, item=CALL)
        cut = response("function_call_arguments.delta", output_index=0, delta='{"file_')
        events = [added, cut, completed("incomplete", "max_output_tokens")]
    got = read(reader(), wire(*events))
    assert BlockFinished(ToolCall("c1", "Read", {}, Defect.CUT)) in got
    assert isinstance(got[-1], StreamEnded)
    assert got[-1].stop is Stop.MAX_TOKENS


def test_reasoning_is_kept_with_what_the_server_needs_to_read_it() -> None:
    done = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gA+/=",
    }
    events = [
        response(
            "output_item.added",
            output_index=0,
            item={"type": "reasoning", "id": "rs_1", "encrypted_content": "not all"},
        ),
        response("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="hm"),
        response("output_item.done", output_index=0, item=done),
        completed(),
    ]
    assert BlockFinished(Thinking("hm", "rs_1 gA+/=")) in read(ResponsesReply(), wire(*events))


def test_a_tool_s_long_name_comes_back_as_its_own() -> None:
    reply = ChatReply(ExpectedReply(names={"short_1a2b": "a_long_name"}))
    got = read(reply, wire(call_piece("{}", id="c1", name="short_1a2b"), said("tool_calls")))
    assert BlockOpened(BlockKind.INPUT, "c1", "a_long_name") in got
    assert BlockFinished(ToolCall("c1", "a_long_name", {})) in got


# --- what is an error ----------------------------------------------------------------------------------

NONSENSE = {"message": "what was asked makes no sense"}
BUSY = {"message": "The server is overloaded", "type": "server_error", "code": "server_is_overloaded"}


@pytest.mark.parametrize(
    ("reader", "event", "kind"),
    [
        (ChatReply, {"error": BUSY}, Trouble.OVERLOADED),
        (ChatReply, {"error": {"code": 429, "message": "slow down"}}, Trouble.RATE_LIMIT),
        (ChatReply, {"error": "it broke"}, Trouble.SERVER),
        (ChatReply, {"error": {"message": "maximum context length is 8192 tokens"}}, Trouble.PROMPT_TOO_LONG),
        (ChatReply, said("error"), Trouble.SERVER),
        (ChatReply, {"error": {**NONSENSE, "type": "invalid_request_error"}}, Trouble.INVALID_REQUEST),
        (ChatReply, {"error": {**NONSENSE, "code": 400}}, Trouble.INVALID_REQUEST),
        (ChatReply, {"error": {**NONSENSE, "type": "BadRequestError"}}, Trouble.INVALID_REQUEST),
        (ChatReply, {"error": {**NONSENSE, "type": "permission_error"}}, Trouble.AUTH),
        (ChatReply, {"error": {**NONSENSE, "code": "model_not_found"}}, Trouble.INVALID_REQUEST),
        (ChatReply, {"error": {**NONSENSE, "type": "something_new"}}, Trouble.SERVER),
        (ResponsesReply, {"type": "error", "error": {**NONSENSE, "code": "invalid_prompt"}}, Trouble.INVALID_REQUEST),
        (ResponsesReply, {**NONSENSE, "type": "error", "code": "invalid_prompt"}, Trouble.INVALID_REQUEST),
        (
            ResponsesReply,
            response("failed", response={"error": {**NONSENSE, "code": "invalid_prompt"}}),
            Trouble.INVALID_REQUEST,
        ),
        (
            ResponsesReply,
            response("failed", response={"error": {**NONSENSE, "code": "invalid_image_url"}}),
            Trouble.MEDIA,
        ),
        (ChatReply, {"choices": "nonsense"}, Trouble.SERVER),
        (ResponsesReply, {**BUSY, "type": "error"}, Trouble.OVERLOADED),
        (ResponsesReply, {"type": "error", "error": BUSY}, Trouble.OVERLOADED),
        (ResponsesReply, {"error": BUSY}, Trouble.OVERLOADED),
        (ResponsesReply, response("failed", response={"status": "failed", "error": BUSY}), Trouble.OVERLOADED),
        (
            ResponsesReply,
            response("failed", response={"error": {"code": "rate_limit_exceeded", "message": "later"}}),
            Trouble.RATE_LIMIT,
        ),
        (ResponsesReply, response("failed"), Trouble.SERVER),
        (ResponsesReply, response("output_text.delta", output_index="no", delta="x"), Trouble.SERVER),
        (ResponsesReply, response("output_item.added", item=5), Trouble.SERVER),
    ],
)
def test_an_error_event_is_classified_like_an_error_response(
    reader: Readers, event: dict[str, Any], kind: Trouble
) -> None:
    with pytest.raises(ProviderError) as caught:
        read(reader(), wire(event))
    assert caught.value.failure.kind is kind
    assert caught.value.failure.detail


def test_what_contradicts_itself_is_an_error() -> None:
    written_on = [call_piece("{}", id="c1", name="Read"), said(content="So."), call_piece('{"a":1}', id="c1")]
    with pytest.raises(ProviderError, match="'Read', which was complete"):
        read(ChatReply(), wire(*written_on))
    done = response("output_item.done", output_index=0, item={**MESSAGE, "content": []})
    with pytest.raises(ProviderError, match="an item that was complete"):
        read(ResponsesReply(), wire(done, response("output_text.delta", output_index=0, delta="x")))
    added = response("output_item.added", output_index=0, item=CALL)
    with pytest.raises(ProviderError, match="as 'message', which it began as 'function_call'"):
        read(ResponsesReply(), wire(added, response("output_text.delta", output_index=0, delta="x")))


@both
def test_malformed_json_and_bytes_that_are_no_text_are_errors(reader: Readers) -> None:
    for data in (
        b"{",
        b"nonsense",
        b'{"choices": []} x',
        b'{"type":"\xff","choices":[{"delta":{"content":"\xff"}}]}',
        b"[1]",
    ):
        reply = reader()
        reply.take([("x", data)])
        assert reply.error is not None, data


@both
def test_what_came_before_an_error_in_the_same_read_is_handed_on(reader: Readers) -> None:
    begun = {
        ChatReply: [said(content="half")],
        ResponsesReply: [response("output_text.delta", output_index=0, delta="half")],
    }
    reply = reader()
    got = reply.take(SseParser().feed(wire(*begun[reader]).replace(b"data: [DONE]", b"data: {broken")))
    assert BlockDelta(BlockKind.TEXT, "half") in got
    assert reply.error is not None


@both
def test_a_reply_that_only_began_before_an_error_may_be_asked_for_again(reader: Readers) -> None:
    begun = {ChatReply: said(role="assistant", content=""), ResponsesReply: response("created")}
    reply = reader()
    assert reply.take(SseParser().feed(wire(begun[reader], {"type": "error", "error": BUSY}))) == ()
    assert reply.error is not None


@both
def test_a_reply_without_end_is_ended_by_us(reader: Readers) -> None:
    reply = reader()
    junk = b'{"x":"' + b"x" * (MAX_REPLY // 4) + b'"}'
    for _ in range(4):
        reply.take([("", junk)])
    assert reply.error is not None
    assert "more than" in reply.error.failure.detail
