"""How an answer becomes a stream: framed as documented, in pieces that add up to the message."""

from __future__ import annotations

import json
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.money import Usage
from mainspring.simulator.replies import ReplyStamp, Say, frame_event, make_message, stream_events
from simulator.bodies import Json, call, pages, redacted, searched, text
from simulator.client import Event, assembled


def stamp() -> ReplyStamp:
    numbers = count(1)
    return ReplyStamp("claude-sonnet-5-5", "msg_1", lambda: f"sig:claude-sonnet-5-5:{next(numbers)}")


def stream(say: Say) -> list[Event]:
    return [Event(str(event["type"]), json.loads(json.dumps(event))) for event in stream_events(say, stamp())]


def test_the_events_of_a_reply_in_their_order() -> None:
    usage = Usage(input=7, cache_write=1, cache_write_1h=2, cache_read=3, output=40)
    say = Say.of({"type": "thinking", "thinking": "Hm."}, "Let me look there.", call(), usage=usage)
    start, ended = stream(say)[0].data["message"], stream(say)[-2].data
    assert [event.name for event in stream(say)] == [
        "message_start",
        *("content_block_start", "ping", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *(
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
        ),
        *("message_delta", "message_stop"),
    ]
    assert (start["content"], start["stop_reason"], start["usage"]["output_tokens"]) == ([], None, 1)
    assert ended["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert ended["usage"] == {
        "input_tokens": 7,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 3,
        "output_tokens": 40,
    }
    deltas = [event.data["delta"] for event in stream(say) if event.name == "content_block_delta"]
    assert deltas == [
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "sig:claude-sonnet-5-5:1"},
        {"type": "text_delta", "text": "Let me look "},
        {"type": "text_delta", "text": "there."},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"file_path"'},
        {"type": "input_json_delta", "partial_json": ':"a.py"}'},
    ]


def test_what_was_cleared_is_in_the_last_delta_and_in_the_whole_message() -> None:
    say = Say.of("So.", cleared=(8, 50_000))
    edit = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000}
    told = [event.name for event in stream(say) if "context_management" in event.data]
    assert told == ["message_delta"]
    assert stream(say)[-2].data["context_management"] == {"applied_edits": [edit]}
    assert make_message(say, stamp())["context_management"] == {"applied_edits": [edit]}
    assert "context_management" not in make_message(Say.of("So."), stamp())


def test_a_frame() -> None:
    assert frame_event({"type": "ping"}) == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_a_call_without_arguments_has_one_empty_piece() -> None:
    deltas = [event.data["delta"] for event in stream(Say.of({**call(), "input": {}})) if "delta" in event.data]
    assert deltas[0] == {"type": "input_json_delta", "partial_json": ""}
    assert assembled(stream(Say.of({**call(), "input": {}})))["content"] == [{**call(), "input": {}}]


def test_nothing_to_say() -> None:
    assert [event.name for event in stream(Say(()))] == ["message_start", "ping", "message_delta", "message_stop"]


def test_a_block_that_no_model_writes_is_a_mistake_of_the_script() -> None:
    with pytest.raises(AssertionError, match="'image' is not a block that a model writes"):
        stream(Say.of({"type": "image"}))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
blocks: st.SearchStrategy[Json] = st.one_of(
    st.text(max_size=60).map(text),
    st.just(text("cited", citations=[{"type": "char_location", "cited_text": "a"}])),
    st.text(max_size=60).map(lambda words: {"type": "thinking", "thinking": words}),
    st.just(redacted()),
    st.dictionaries(st.text(max_size=5), json_values, max_size=3).map(lambda given: {**call(), "input": given}),
    st.sampled_from([searched(), pages()]),
)


@given(st.lists(blocks, max_size=5), st.sampled_from(["", "max_tokens", "pause_turn", "refusal"]))
def test_a_stream_adds_up_to_the_message(said: list[Json], stop: str) -> None:
    say = Say(tuple(said), stop)
    assert assembled(stream(say)) == make_message(say, stamp())
