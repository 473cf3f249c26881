"""A reply as it streams: what comes of each event, and what is never taken for an answer."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.errors import ProviderError
from mainspring.core.messages import Defect, RedactedThinking, ServerBlock, Stop, Text, Thinking, ToolCall
from mainspring.core.money import Usage
from mainspring.core.reasons import Trouble
from mainspring.core.updates import BlockKind
from mainspring.providers.anthropic.stream import AnthropicStreamReader
from mainspring.providers.base import (
    BlockDelta,
    BlockFinished,
    BlockOpened,
    Item,
    ResultsCleared,
    StreamEnded,
    StreamStarted,
)
from mainspring.providers.http.sse import SseParser

START = {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 7, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def end(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def stops(reason: str | None, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [begin(index, type="text", text=""), *[delta(index, type="text_delta", text=p) for p in pieces], end(index)]


def call(index: int, *pieces: str, id: str = "toolu_1", name: str = "Read") -> list[dict[str, Any]]:
    written = [delta(index, type="input_json_delta", partial_json=piece) for piece in pieces]
    return [begin(index, type="tool_use", id=id, name=name, input={}), *written, end(index)]


def wire(*events: dict[str, Any]) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), msgspec.json.encode(e)) for e in events)


def read(*events: dict[str, Any]) -> list[Item]:
    return list(AnthropicStreamReader().take(SseParser().feed(wire(*events))))


def blocks(*events: dict[str, Any]) -> list[object]:
    return [item.block for item in read(START, *events, stops("end_turn"), STOP) if isinstance(item, BlockFinished)]


def failure(*events: dict[str, Any]) -> tuple[Trouble, str]:
    with pytest.raises(ProviderError) as caught:
        read(*events)
    return caught.value.failure.kind, caught.value.failure.detail


@pytest.mark.covers("E-02", "E-14")
def test_a_reply_from_its_start_to_its_stop() -> None:
    got = read(
        START, *text(0, "Hel", "lo"), *call(1, '{"file_', 'path":"a"}'), stops("tool_use", output_tokens=25), STOP
    )
    assert got == [
        StreamStarted(Usage(input=7, output=1)),
        BlockOpened(BlockKind.TEXT),
        BlockDelta(BlockKind.TEXT, "Hel"),
        BlockDelta(BlockKind.TEXT, "lo"),
        BlockFinished(Text("Hello")),
        BlockOpened(BlockKind.INPUT, "toolu_1", "Read"),
        BlockDelta(BlockKind.INPUT, '{"file_'),
        BlockDelta(BlockKind.INPUT, 'path":"a"}'),
        BlockFinished(ToolCall("toolu_1", "Read", {"file_path": "a"})),
        StreamEnded(Stop.TOOL_USE, Usage(input=7, output=25)),
    ]


def woven(*written: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of several blocks, one of each in turn."""
    rows = zip_longest(*written)
    return [event for row in rows for event in row if event is not None]


@pytest.mark.covers("E-02")
def test_blocks_that_are_written_at_once_are_shown_one_after_the_other() -> None:
    """content_block_start of block 1 before content_block_stop of block 0: the API's index says whose each piece is."""
    events = woven(text(0, "Hel", "lo", "!"), call(1, '{"file_', 'path":"a"}'))
    assert read(START, *events, stops("tool_use"), STOP) == [
        StreamStarted(Usage(input=7, output=1)),
        BlockOpened(BlockKind.TEXT),
        BlockDelta(BlockKind.TEXT, "Hel"),
        BlockDelta(BlockKind.TEXT, "lo"),
        BlockDelta(BlockKind.TEXT, "!"),
        BlockFinished(Text("Hello!")),
        BlockOpened(BlockKind.INPUT, "toolu_1", "Read"),
        BlockDelta(BlockKind.INPUT, '{"file_path":"a"}'),
        BlockFinished(ToolCall("toolu_1", "Read", {"file_path": "a"})),
        StreamEnded(Stop.TOOL_USE, Usage(input=7, output=1)),
    ]


def test_a_block_that_waited_goes_on_where_it_is() -> None:
    first, second = text(0, "one"), text(1, "t", "w", "o")
    events = [first[0], second[0], second[1], first[1], first[2], second[2], second[3], second[4]]
    shown = [item for item in read(START, *events) if isinstance(item, BlockDelta | BlockFinished)]
    assert shown == [
        BlockDelta(BlockKind.TEXT, "one"),
        BlockFinished(Text("one")),
        BlockDelta(BlockKind.TEXT, "t"),
        BlockDelta(BlockKind.TEXT, "w"),
        BlockDelta(BlockKind.TEXT, "o"),
        BlockFinished(Text("two")),
    ]


@given(st.permutations([0] * 4 + [1] * 4 + [2] * 4))
def test_any_weaving_of_blocks_gives_the_same_blocks_in_the_order_of_their_beginnings(order: list[int]) -> None:
    rows = {
        0: text(0, "a", "b"),
        1: call(1, '{"x":', "1}"),
        2: [begin(2, type="thinking", thinking=""), delta(2, type="thinking_delta", thinking="hm"), *SIGNED],
    }
    whole = {0: Text("ab"), 1: ToolCall("toolu_1", "Read", {"x": 1}), 2: Thinking("hm", "s")}
    left = {place: iter(row) for place, row in rows.items()}
    assert blocks(*[next(left[place]) for place in order]) == [whole[place] for place in dict.fromkeys(order)]


SIGNED = [delta(2, type="signature_delta", signature="s"), end(2)]


def test_thinking_is_kept_byte_for_byte_with_its_signature() -> None:
    thinking = [
        begin(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="hm é\u2028 "),
        delta(0, type="signature_delta", signature="Eq+/"),
        delta(0, type="signature_delta", signature="=="),
        end(0),
        begin(1, type="redacted_thinking", data="opaque+/="),
        end(1),
    ]
    assert blocks(*thinking) == [Thinking("hm é\u2028 ", "Eq+/=="), RedactedThinking("opaque+/=")]


def test_what_a_block_begins_with_belongs_to_it() -> None:
    whole = [begin(0, type="text", text="Hi"), delta(0, type="text_delta", text=" there"), end(0)]
    assert blocks(*whole) == [Text("Hi there")]
    assert blocks(begin(0, type="tool_use", id="t", name="Read", input={"a": 1}), end(0)) == [
        ToolCall("t", "Read", {"a": 1})
    ]


def test_citations_are_passed_through() -> None:
    place = {"type": "char_location", "cited_text": "x"}
    cited = [begin(0, type="text", text="", citations=[]), delta(0, type="text_delta", text="So.")]
    got = blocks(*cited, delta(0, type="citations_delta", citation=place), end(0))
    assert got == [Text("So.", '[{"type":"char_location","cited_text":"x"}]')]


def test_a_server_s_own_blocks_are_handed_back_as_they_came() -> None:
    call_ = [
        begin(0, type="server_tool_use", id="srv", name="web_search", input={}),
        delta(0, type="input_json_delta", partial_json='{"query":"x"}'),
        end(0),
        begin(1, type="web_search_tool_result", tool_use_id="srv", content=[{"new": "field"}]),
        end(1),
    ]
    call_block, found = blocks(*call_)
    assert isinstance(call_block, ServerBlock)
    assert msgspec.json.decode(call_block.json)["input"] == {"query": "x"}
    assert found == ServerBlock(
        "web_search_tool_result", '{"type":"web_search_tool_result","tool_use_id":"srv","content":[{"new":"field"}]}'
    )


@pytest.mark.parametrize(
    ("pieces", "defect"),
    [
        (['{"a":1'], Defect.CUT),
        (['{"a":"x'], Defect.CUT),
        (["{]"], Defect.MALFORMED),
        (["[1]"], Defect.MALFORMED),
        (["{} {}"], Defect.MALFORMED),
        (['{"a":' * 100_000], Defect.MALFORMED),
    ],
)
def test_a_call_whose_input_is_no_object_is_never_one_that_can_run(pieces: list[str], defect: Defect) -> None:
    assert blocks(*call(0, *pieces)) == [ToolCall("toolu_1", "Read", {}, defect)]


@pytest.mark.covers("E-14")
def test_usage_is_in_classes_that_do_not_overlap() -> None:
    start = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 50,
        "cache_read_input_tokens": 300,
        "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 20},
        "output_tokens": 1,
        "service_tier": "standard",
    }
    got = read({"type": "message_start", "message": {"usage": start}}, stops("end_turn", output_tokens=9), STOP)
    assert got[-1] == StreamEnded(Stop.END_TURN, Usage(10, 30, 20, 300, 9))
    assert Usage(10, 30, 20, 300, 9).prompt == 360


def test_usage_may_be_missing_null_or_corrected_later() -> None:
    nulls = {"input_tokens": 5, "cache_read_input_tokens": None, "cache_creation": None}
    got = read({"type": "message_start", "message": {"usage": nulls}}, stops(None, input_tokens=6), STOP)
    assert got[-1] == StreamEnded(Stop.END_TURN, Usage(input=6))
    untold = read({"type": "message_start", "message": {}}, STOP)[-1]
    assert untold == StreamEnded(Stop.END_TURN, Usage(estimated=True))  # nought is no figure of the server's


@pytest.mark.parametrize("reason", ["pause_turn", "refusal", "model_context_window_exceeded", "max_tokens"])
def test_stop_reasons_come_through(reason: str) -> None:
    ended = read(START, *text(0, "x"), stops(reason), STOP)[-1]
    assert isinstance(ended, StreamEnded)
    assert ended.stop == reason


def test_a_stop_reason_that_nobody_knows_is_the_nearest_one() -> None:
    for events, nearest in ((text(0, "x"), Stop.END_TURN), (call(0, "{}"), Stop.TOOL_USE)):
        for reason in ("brand_new", "unfinished", None):
            ended = read(START, *events, stops(reason), STOP)[-1]
            assert isinstance(ended, StreamEnded)
            assert ended.stop is nearest


def test_unknown_events_fields_and_deltas_are_ignored() -> None:
    odd: list[dict[str, Any]] = [
        {"type": "ping"},
        {"type": "brand_new", "index": 3},
        {"type": "message_start", "message": {"usage": {}}},
    ]
    got = read(
        START,
        *odd,
        begin(0, type="text", text="", brand_new={"x": 1}),
        delta(0, type="text_delta", text="a", more=1),
        delta(0, type="brand_new_delta", thing=[1]),
        end(0),
        stops("end_turn"),
        STOP,
    )
    assert got[1:] == [
        BlockOpened(BlockKind.TEXT), BlockDelta(BlockKind.TEXT, "a"), BlockFinished(Text("a")),
            StreamEnded(Stop.END_TURN, Usage(input=7,
            output=1))
    ]  # fmt: skip


def test_duplicates_of_what_is_complete_change_nothing() -> None:
    doubled = [START, *text(0, "a"), end(0), begin(0, type="text", text=""), *text(1, "b")]
    got = [
        item.block
        for item in read(*doubled, stops("end_turn"), STOP, STOP, *text(2, "c"))
        if type(item) is BlockFinished
    ]
    assert got == [Text("a"), Text("b")]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([delta(0, type="text_delta", text="x")], "block 0, which is not open"),
        ([begin(0, type="text", text=""), STOP], "in the middle of a block"),
        ([begin(0, type="text", text=""), begin(1, type="text", text=""), end(1), STOP], "in the middle of a block"),
        ([*text(0, "a"), begin(0, type="text", text="b")], "block 0 a second time"),
        (
            [begin(0, type="text", text=""), *text(1, "a"), delta(1, type="text_delta", text="b")],
            "block 1, which is not",
        ),
        ([end(4)], "block 4, which is not open"),
        ([{"type": "content_block_delta", "index": "no", "delta": {}}], "cannot be read"),
        ([begin(0, type="text", text=5)], "cannot be read"),
    ],
)
def test_what_contradicts_itself_is_an_error(events: list[dict[str, Any]], words: str) -> None:
    kind, detail = failure(START, *events)
    assert kind is Trouble.SERVER
    assert words in detail


@pytest.mark.parametrize(
    ("type_", "message", "kind"),
    [
        ("overloaded_error", "Overloaded", Trouble.OVERLOADED),
        ("rate_limit_error", "slow down", Trouble.RATE_LIMIT),
        ("api_error", "Internal server error", Trouble.SERVER),
        ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", Trouble.PROMPT_TOO_LONG),
        ("brand_new_error", "?", Trouble.SERVER),
    ],
)
def test_an_error_event_is_classified_like_an_error_response(type_: str, message: str, kind: Trouble) -> None:
    assert failure(START, {"type": "error", "error": {"type": type_, "message": message}}) == (kind, message)


def test_malformed_json_and_bytes_that_are_no_text_are_errors() -> None:
    for data in (b"{", b"nonsense", b'{"type": "ping"} x', b'{"type":"\xff"}', b"[1]"):
        with pytest.raises(ProviderError):
            AnthropicStreamReader().take([("x", data)])


@given(st.data())
def test_however_the_bytes_are_cut_the_items_are_the_same(data: st.DataObject) -> None:
    events = [START, *text(0, "Hé", "llo"), *call(1, '{"a":', '"漢"}'), stops("tool_use", output_tokens=3), STOP]
    stream = wire(*events)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=40)))
    parser, reply = SseParser(), AnthropicStreamReader()
    got: list[Item] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += reply.take(parser.feed(stream[start:stop]))
    assert got == read(*events)
    assert reply.ended


def test_no_truncation_of_a_reply_is_an_answer() -> None:
    events = [START, *text(0, "Hello"), *call(1, "{}"), stops("tool_use"), STOP]
    stream = wire(*events)
    for length in range(len(stream) - 1):  # the very last byte is the empty line's: without it nothing is dispatched
        reply = AnthropicStreamReader()
        reply.take(SseParser().feed(stream[:length]))
        assert not reply.ended


# --- what the service cleared ----------------------------------------------------------------------


def managed(*applied: dict[str, Any]) -> dict[str, Any]:
    return {**stops("end_turn", output_tokens=9), "context_management": {"applied_edits": list(applied)}}


CLEARED = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000}
THOUGHTS = {"type": "clear_thinking_20251015", "cleared_thinking_turns": 3, "cleared_input_tokens": 1_000}


@pytest.mark.covers("D-14")
def test_what_the_service_cleared_comes_right_before_the_end() -> None:
    got = read(START, *text(0, "So."), managed(CLEARED), STOP)
    assert got[-2:] == [ResultsCleared(50_000, 8), StreamEnded(Stop.END_TURN, Usage(input=7, output=9))]
    assert got[:-2] == read(START, *text(0, "So."))


def test_several_edits_are_one_figure_and_the_last_event_counts() -> None:
    got = read(START, managed(CLEARED), stops("end_turn"), managed(CLEARED, THOUGHTS), stops("end_turn"), STOP)
    assert got[1:-1] == [ResultsCleared(51_000, 8)]


@pytest.mark.parametrize("said", [None, {}, {"applied_edits": None}, {"applied_edits": []}, {"original": 1}])
def test_where_nothing_was_cleared_nothing_is_said(said: Any) -> None:
    got = read(START, {**stops("end_turn"), "context_management": said}, STOP)
    assert [type(item) for item in got] == [StreamStarted, StreamEnded]


@pytest.mark.covers("D-14")
def test_a_reply_without_its_end_tells_of_no_clearing() -> None:
    assert not any(isinstance(item, ResultsCleared) for item in read(START, *text(0, "So."), managed(CLEARED)))
