"""Odd and weak servers, each spelled out: what it writes, and what comes of it.

Each row is a repaired call, a call with a defect (which the loop answers with a bounded retry), or text. None is a
silent end: a test at the end of the file says so for all of them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.messages import Assistant, Block, Defect, Stop, Text, Thinking, ToolCall
from mainspring.core.step import diagnose
from mainspring.core.updates import BlockKind
from mainspring.providers.base import BlockDelta, BlockFinished, BlockOpened, Item, StreamEnded, StreamStarted
from mainspring.providers.http.sse import SseParser
from mainspring.providers.openai.blocks import BlockReader, ExpectedReply
from mainspring.providers.openai.chat_stream import ChatStreamReader as ChatReply
from mainspring.providers.openai.responses_stream import ResponsesStreamReader as ResponsesReply
from mainspring.providers.text_tool_calls import TextToolCallReader, call_of

SCHEMA = {"type": "object", "properties": {"file_path": {"type": "string"}, "limit": {"type": "integer"}}}
TOOLS: dict[str, Any] = {"Read": SCHEMA, "Bash": {"type": "object"}}
READ = ToolCall("", "Read", {"file_path": "a.py"})
BASH = ToolCall("", "Bash", {})
CALL = '{"name": "Read", "arguments": {"file_path": "a.py"}}'


def defective(name: str, defect: Defect = Defect.MALFORMED) -> ToolCall:
    return ToolCall("", name, {}, defect)


# --- calls and thoughts in the text -----------------------------------------------------------------

IN_TEXT: dict[str, tuple[str, list[Block]]] = {
    "Hermes, Qwen": (f"<tool_call>\n{CALL}\n</tool_call>", [READ]),
    "behind words": (f"I'll look.\n<tool_call>{CALL}</tool_call>", [Text("I'll look.\n"), READ]),
    "several": (f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>", [READ, READ]),
    "one on each line": (f'<tool_call>{CALL}\n{{"name": "Bash", "arguments": {{}}}}</tool_call>', [READ, BASH]),
    "never closed": (f"<tool_call>{CALL}", [READ]),
    "Phi": (f"<|tool_call|>[{CALL}]<|/tool_call|>", [READ]),
    "GLM": (
        "<tool_call>Read\n<arg_key>file_path</arg_key>\n<arg_value>a.py</arg_value>\n</tool_call>",
        [READ],
    ),
    "Llama 3.1": ('<function=Read>{"file_path": "a.py"}</function>', [READ]),
    "Qwen coder": (
        (
            "<tool_call>\n<function=Read>\n<parameter=file_path>\n12\n</parameter>\n<parameter=limit>\n12\n</parameter>\n"
            "</function>\n</tool_call>"
        ),
        [ToolCall("", "Read", {"file_path": "12", "limit": 12})],
    ),
    "Llama 3": ('<|python_tag|>{"name": "Read", "parameters": {"file_path": "a.py"}}<|eom_id|>', [READ]),
    "Mistral": (f"[TOOL_CALLS][{CALL}]", [READ]),
    "Mistral, later": ('[TOOL_CALLS]Read[ARGS]{"file_path": "a.py"}</s>', [READ]),
    "a fence": (f"So:\n```json\n{CALL}\n```", [Text("So:\n"), READ]),
    "a fence without a name": (f"```\n{CALL}\n```\n", [READ]),
    "nothing around it": ('{"name": "Read", "parameters": {"file_path": "a.py"}}', [READ]),
    "a list, nothing around it": (f"[{CALL}]", [READ]),
    "OpenAI's own form": (
        (
            '{"tool_calls": [{"id": "c1", "type": "function", "function": '
            '{"name": "Read", "arguments": "{\\"file_path\\": \\"a.py\\"}"}}]}'
        ),
        [ToolCall("c1", "Read", {"file_path": "a.py"})],
    ),
    "a tool that there is not": (
        '<tool_call>{"name": "Look", "arguments": {}}</tool_call>',
        [ToolCall("", "Look", {})],
    ),
    "no JSON": ('<tool_call>{"name": "Read", "arguments": {file</tool_call>', [defective("Read")]),
    "cut": ('<tool_call>{"name": "Read", "argum', [defective("Read")]),
    "nothing in it": ("[TOOL_CALLS]", [defective("unknown")]),
    "thoughts": ("<think>\nhm <b>\n</think>\n\nHello.", [Thinking("hm <b>\n"), Text("Hello.")]),
    "thoughts, then a call": (f"<think>hm</think>\n{CALL}", [Thinking("hm"), READ]),
    "thoughts without an end": ("<think>hm", [Thinking("hm")]),
    # and what is none of these
    "talked about": ("Write `<tool_call>` first.", [Text("Write `<tool_call>` first.")]),
    "an answer in JSON": ('{"answer": 42}', [Text('{"answer": 42}')]),
    "a person": ('{"name": "Alice", "arguments": {}}', [Text('{"name": "Alice", "arguments": {}}')]),
    "code": ('```json\n{"a": 1}\n```\nDone.', [Text('```json\n{"a": 1}\n```\nDone.')]),
    "Python": ("```python\nx = [1]\n```\n", [Text("```python\nx = [1]\n```\n")]),
    "comparisons": ("a < b, c[0], {d}", [Text("a < b, c[0], {d}")]),
    "a tag at the end": ("see <tool", [Text("see <tool")]),
}
in_text = pytest.mark.parametrize("name", IN_TEXT)


def read_text(text: str, cuts: list[int]) -> list[Block]:
    """Through the reader of chats, in pieces."""
    reply = ChatReply(ExpectedReply(written=TextToolCallReader(TOOLS)))
    ends = [*cuts, len(text)]
    pieces = [text[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
    events = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    return blocks(reply, *events, {"choices": [{"delta": {}, "finish_reason": "stop"}]})


def items(reader: BlockReader, *events: dict[str, Any], done: bool = True) -> list[Item]:
    stream = b"".join([b"data: %s\n\n" % msgspec.json.encode(event) for event in events])
    got = list(reader.take(SseParser().feed(stream + (b"data: [DONE]\n\n" if done else b""))))
    if reader.error is not None:
        raise reader.error
    return [*got, *reader.close()]


def blocks(reader: BlockReader, *events: dict[str, Any], done: bool = True) -> list[Block]:
    got = items(reader, *events, done=done)
    assert isinstance(got[0], StreamStarted)
    assert isinstance(got[-1], StreamEnded)
    well_told(got)
    return [item.block for item in got if isinstance(item, BlockFinished)]


def well_told(got: list[Item]) -> None:
    """Each block is opened, its pieces make it, and it is finished before the next begins."""
    opened: BlockOpened | None = None
    pieces = ""
    for item in got[1:-1]:
        if isinstance(item, BlockOpened):
            assert opened is None
            opened, pieces = item, ""
        elif isinstance(item, BlockDelta):
            assert opened is not None
            assert item.kind is opened.kind
            pieces += item.text
        elif isinstance(item, BlockFinished):
            assert opened is not None
            if isinstance(item.block, Text | Thinking):
                assert item.block.text == pieces
            opened = None
    assert opened is None


@in_text
def test_what_a_server_left_in_the_text(name: str) -> None:
    text, expected = IN_TEXT[name]
    assert read_text(text, []) == expected
    assert read_text(text, list(range(1, len(text)))) == expected, "character by character"


@given(st.sampled_from(sorted(IN_TEXT)), st.data())
def test_however_the_text_is_cut_the_blocks_are_the_same(name: str, data: st.DataObject) -> None:
    text, expected = IN_TEXT[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=8)))
    assert read_text(text, cuts) == expected


@given(
    st.lists(
        st.sampled_from(
            ["<tool_call>", "</tool_call>", "{", '"name"', "```json", "```", "\n", "<think>", "a", "[", "TOOL_CALLS]"]
        )
    )
)
def test_nothing_is_lost_but_the_wrapping(parts: list[str]) -> None:
    """Whatever comes, words are said, thought, or part of a call with a defect: never nothing."""
    text = "".join(parts)
    if text.strip():
        assert read_text(text, []) or not text.replace("<think>", "").strip()


def test_without_tools_only_thoughts_are_looked_for() -> None:
    reply = ChatReply(ExpectedReply(written=TextToolCallReader({})))
    assert blocks(reply, said(content=f"<think>hm</think>[TOOL_CALLS][{CALL}]")) == [
        Thinking("hm"),
        Text(f"[TOOL_CALLS][{CALL}]"),
    ]


def test_a_trusted_server_s_text_is_not_looked_through() -> None:
    text = f"<think>hm</think><tool_call>{CALL}</tool_call>"
    assert blocks(ChatReply(), said(content=text)) == [Text(text)]


def test_text_is_shown_as_it_comes_until_a_call_may_have_begun() -> None:
    written = TextToolCallReader(TOOLS)
    assert written.feed("Let me look") == [(BlockKind.TEXT, "Let me look")]
    assert written.feed(" <") == [(BlockKind.TEXT, " ")]
    assert written.feed("b>") == [(BlockKind.TEXT, "<b>")]
    assert written.feed("<tool_") == []
    assert written.feed("call>") == []
    assert written.close() == [ToolCall("", "unknown", {}, Defect.MALFORMED)]


def test_a_call_cut_by_the_limit_is_known_as_such() -> None:
    reply = ChatReply(ExpectedReply(written=TextToolCallReader(TOOLS)))
    cut = said(content='<tool_call>{"name": "Read", "argu')
    assert blocks(reply, cut, {"choices": [{"delta": {}, "finish_reason": "length"}]}) == [
        defective("Read", Defect.CUT)
    ]


# --- arguments ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", ToolCall("c", "Read", {})),
        ("null", ToolCall("c", "Read", {})),
        ("{}", ToolCall("c", "Read", {})),
        ('{"a":1}', ToolCall("c", "Read", {"a": 1})),
        ('"{\\"a\\":1}"', ToolCall("c", "Read", {"a": 1})),
        ('{"a":1', ToolCall("c", "Read", {}, Defect.CUT)),
        ("{]", ToolCall("c", "Read", {}, Defect.MALFORMED)),
        ("[1]", ToolCall("c", "Read", {}, Defect.MALFORMED)),
        ("{} {}", ToolCall("c", "Read", {}, Defect.MALFORMED)),
        ('{"a":' * 100_000, ToolCall("c", "Read", {}, Defect.MALFORMED)),
    ],
)
def test_arguments(written: str, expected: ToolCall) -> None:
    assert call_of("c", "Read", written) == expected
    assert call_of("c", "", written) == ToolCall("c", "unknown", {}, Defect.MALFORMED)


# --- chunks of chats -----------------------------------------------------------------------------------


def said(finish_reason: Any = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def call(arguments: Any = None, name: Any = None, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"name": name, "arguments": arguments}}


def piece(*calls: dict[str, Any]) -> dict[str, Any]:
    return said(tool_calls=list(calls))


WRITTEN = '{"file_path":"a.py"}'
STOPPED = said(finish_reason="tool_calls")
READ_1, READ_2 = ToolCall("c1", "Read", {"file_path": "a.py"}), ToolCall("c2", "Read", {"file_path": "b.py"})
OTHER = '{"file_path":"b.py"}'

CHATS: dict[str, tuple[list[dict[str, Any]], list[Block]]] = {
    "OpenAI": (
        [
            piece(call("", "Read", index=0, id="c1")),
            piece(call('{"file_path"', index=0)),
            piece(call(':"a.py"}', index=0)),
            piece(call("", "Read", index=1, id="c2")),
            piece(call(OTHER, index=1)),
            STOPPED,
        ],
        [READ_1, READ_2],
    ),
    "two at once, in turns": (
        [
            piece(call("", "Read", index=0, id="c1"), call("", "Read", index=1, id="c2")),
            piece(call('{"file_path"', index=1)),
            piece(call('{"file_path"', index=0)),
            piece(call(':"b.py"}', index=1), call(':"a.py"}', index=0)),
            STOPPED,
        ],
        [READ_1, READ_2],
    ),
    "an error that is none, in a chunk of an odd form": (
        [{**piece(call(WRITTEN, "Read", index="0", id="c1")), "error": None}, STOPPED],
        [READ_1],
    ),
    "no index, whole calls": (
        [piece(call(WRITTEN, "Read", id="c1")), piece(call(OTHER, "Read", id="c2")), STOPPED],
        [READ_1, READ_2],
    ),
    "no index, in one chunk": (
        [piece(call(WRITTEN, "Read", id="c1"), call(OTHER, "Read", id="c2")), STOPPED],
        [READ_1, READ_2],
    ),
    "no index, in pieces": (
        [
            piece(call("", "Read", id="c1")),
            piece(call('{"file_path"')),
            piece(call(':"a.py"}')),
            piece(call("", "Read", id="c2")),
            piece(call(OTHER)),
            STOPPED,
        ],
        [READ_1, READ_2],
    ),
    "no index, in turns by id": (
        [
            piece(call('{"file_path"', "Read", id="c1")),
            piece(call('{"file_path"', "Read", id="c2")),
            piece(call(':"a.py"}', id="c1")),
            piece(call(':"b.py"}', id="c2")),
            STOPPED,
        ],
        [READ_1, READ_2],
    ),
    "index 0 for all": (
        [piece(call(WRITTEN, "Read", index=0, id="c1")), piece(call(OTHER, "Read", index=0, id="c2")), STOPPED],
        [READ_1, READ_2],
    ),
    "index 0 for all, no ids": (
        [piece(call(WRITTEN, "Read", index=0)), piece(call(OTHER, "Read", index=0)), STOPPED],
        [READ, ToolCall("", "Read", {"file_path": "b.py"})],
    ),
    "no ids": (
        [piece(call(WRITTEN, "Read", index=0)), piece(call(OTHER, "Read", index=1, id="")), STOPPED],
        [READ, ToolCall("", "Read", {"file_path": "b.py"})],
    ),
    "one id for all": (
        [piece(call(WRITTEN, "Read", index=0, id="c1")), piece(call(OTHER, "Read", index=1, id="c1")), STOPPED],
        [READ_1, ToolCall("c1", "Read", {"file_path": "b.py"})],
    ),
    "a new id with each piece": (
        [piece(call("", "Read", index=0, id="c1")), piece(call(WRITTEN, index=0, id="x9")), STOPPED],
        [READ_1],
    ),
    "the name with each piece": (
        [
            piece(call('{"file_path"', "Read", index=0, id="c1")),
            piece(call(':"a.py"}', "Read", index=0, id="c1")),
            piece(call("", "Read", index=0, id="c1")),
            STOPPED,
        ],
        [READ_1],
    ),
    "arguments as an object": ([piece(call({"file_path": "a.py"}, "Read", index=0, id="c1")), STOPPED], [READ_1]),
    "arguments packed twice": (
        [piece(call(msgspec.json.encode(WRITTEN).decode(), "Read", index=0, id="c1")), STOPPED],
        [READ_1],
    ),
    "numbers and text the wrong way round": (
        [piece(call(WRITTEN, "Read", index="0", id=7)), STOPPED],
        [ToolCall("7", "Read", {"file_path": "a.py"})],
    ),
    "the function's fields one level up": (
        [piece({"index": "0", "id": "c1", "name": "Read", "arguments": {"file_path": "a.py"}}), STOPPED],
        [READ_1],
    ),
    "as before there could be several": (
        [
            said(function_call={"name": "Read", "arguments": ""}),
            said(function_call={"arguments": WRITTEN}),
            said(finish_reason="function_call"),
        ],
        [READ],
    ),
    "stop behind calls": ([piece(call(WRITTEN, "Read", index=0, id="c1")), said(finish_reason="stop")], [READ_1]),
    "no reason at all": ([piece(call(WRITTEN, "Read", index=0, id="c1"))], [READ_1]),
    "a call without a name": (
        [piece(call(WRITTEN, index=0, id="c1")), STOPPED],
        [ToolCall("c1", "unknown", {}, Defect.MALFORMED)],
    ),
    "no arguments": ([piece(call("", "Bash", index=0, id="c1")), STOPPED], [ToolCall("c1", "Bash", {})]),
    "calls that never come": ([said(content="I will look."), STOPPED], [Text("I will look."), defective("unknown")]),
    "broken arguments": (
        [piece(call("{]", "Read", index=0, id="c1")), STOPPED],
        [ToolCall("c1", "Read", {}, Defect.MALFORMED)],
    ),
    "words behind a call": (
        [piece(call("", "Bash", index=0, id="c1")), said(content="ok"), said(finish_reason="stop")],
        [ToolCall("c1", "Bash", {}), Text("ok")],
    ),
    "blanks before a call": ([said(content="\n\n"), piece(call(WRITTEN, "Read", index=0, id="c1")), STOPPED], [READ_1]),
    "text in parts": (
        [said(content=[{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}])],
        [Text("Hello")],
    ),
    "thoughts among the parts": (
        [said(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]), said(content="So.")],
        [Thinking("hm", "reasoning_content"), Text("So.")],
    ),
    "thoughts in a field": (
        [said(reasoning_content="h"), said(reasoning_content="m", content=None), said(content="So.")],
        [Thinking("hm", "reasoning_content"), Text("So.")],
    ),
    "thoughts in another field": (
        [said(reasoning="hm", content=""), said(content="So.")],
        [Thinking("hm", "reasoning"), Text("So.")],
    ),
    "not streamed": (
        [{"choices": [{"message": {"role": "assistant", "content": "So."}, "finish_reason": "stop"}]}],
        [Text("So.")],
    ),
    "choices that are null": ([{"choices": None}, said(content="So."), {"choices": []}, {"x": 1}], [Text("So.")]),
}


@pytest.mark.parametrize("name", CHATS)
def test_odd_chats(name: str) -> None:
    events, expected = CHATS[name]
    assert blocks(ChatReply(), *events) == expected


@pytest.mark.parametrize("name", CHATS)
def test_a_reply_with_calls_stops_for_them(name: str) -> None:
    events, expected = CHATS[name]
    ended = items(ChatReply(), *events)[-1]
    assert isinstance(ended, StreamEnded)
    calls = any(isinstance(block, ToolCall) for block in expected)
    assert ended.stop is (Stop.TOOL_USE if calls else Stop.END_TURN)


def test_the_stream_may_end_without_saying_so() -> None:
    assert blocks(ChatReply(), said(content="So."), said(finish_reason="stop"), done=False) == [Text("So.")]


def test_but_not_without_an_end_of_any_kind() -> None:
    reply = ChatReply()
    items(reply, said(content="So."), done=False)
    assert not reply.ended


def test_a_call_starts_as_soon_as_it_is_whole() -> None:
    """The next one begins: the first is handed on, so that it can run meanwhile."""
    reply = ChatReply()
    first = items(
        reply, piece(call(WRITTEN, "Read", index=0, id="c1")), piece(call("", "Read", index=1, id="c2")), done=False
    )
    assert BlockFinished(READ_1) in first


# --- items of responses -----------------------------------------------------------------------------------


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **more}


def item(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


COMPLETED = event("completed", response={"status": "completed", "usage": None})
CALL_ITEM = item("function_call", id="fc_1", call_id="c1", name="Read")
RESPONSES: dict[str, tuple[list[dict[str, Any]], list[Block]]] = {
    "no items are announced": (
        [event("output_text.delta", item_id="m1", delta="So."), COMPLETED],
        [Text("So.")],
    ),
    "no deltas": (
        [
            event(
                "output_item.done",
                output_index=0,
                item=item("message", content=[{"type": "output_text", "text": "So."}]),
            ),
            COMPLETED,
        ],
        [Text("So.")],
    ),
    "only the whole response": (
        [event("completed", response={"output": [{**CALL_ITEM, "arguments": WRITTEN}, item("brand_new")]})],
        [READ_1],
    ),
    "nothing says that an item is done": (
        [
            event("output_item.added", output_index=0, item=CALL_ITEM),
            event("function_call_arguments.delta", output_index=0, delta=WRITTEN),
            COMPLETED,
        ],
        [READ_1],
    ),
    "arguments as an object": (
        [
            event("output_item.added", output_index=0, item=CALL_ITEM),
            event("output_item.done", output_index=0, item={**CALL_ITEM, "arguments": {"file_path": "a.py"}}),
            COMPLETED,
        ],
        [READ_1],
    ),
    "two at once, in turns": (
        [
            event("output_item.added", output_index=0, item=CALL_ITEM),
            event("output_item.added", output_index=1, item={**CALL_ITEM, "id": "fc_2", "call_id": "c2"}),
            event("function_call_arguments.delta", output_index=1, delta='{"file_path"'),
            event("function_call_arguments.delta", output_index=0, delta='{"file_path"'),
            event("function_call_arguments.delta", output_index=1, delta=':"b.py"}'),
            event("output_item.done", output_index=1, item={**CALL_ITEM, "call_id": "c2", "arguments": OTHER}),
            event("function_call_arguments.delta", output_index=0, delta=':"a.py"}'),
            event("output_item.done", output_index=0, item={**CALL_ITEM, "arguments": WRITTEN}),
            COMPLETED,
        ],
        [READ_1, READ_2],
    ),
    "no ids": (
        [
            event("output_item.done", output_index=0, item=item("function_call", name="Read", arguments=WRITTEN)),
            COMPLETED,
        ],
        [READ],
    ),
    "reasoning in plain words": (
        [
            event("output_item.added", output_index=0, item=item("reasoning", id="rs_1")),
            event("reasoning_text.delta", output_index=0, delta="hm"),
            event("output_item.done", output_index=0, item=item("reasoning", id="rs_1", summary=[])),
            event("output_text.delta", output_index=1, delta="So."),
            COMPLETED,
        ],
        [Thinking("hm"), Text("So.")],
    ),
    "reasoning without words": (
        [
            event(
                "output_item.done",
                output_index=0,
                item=item("reasoning", id="rs_1", summary=[], encrypted_content="gA"),
            ),
            event("output_text.delta", output_index=1, delta="So."),
            COMPLETED,
        ],
        [Thinking("", "rs_1 gA"), Text("So.")],
    ),
    "a summary in parts": (
        [
            event("reasoning_summary_part.added", output_index=0, summary_index=0),
            event("reasoning_summary_text.delta", output_index=0, delta="one"),
            event("reasoning_summary_part.added", output_index=0, summary_index=1),
            event("reasoning_summary_text.delta", output_index=0, delta="two"),
            event("output_item.done", output_index=0, item=item("reasoning", id="rs_1", encrypted_content="gA")),
            COMPLETED,
        ],
        [Thinking("one\n\ntwo", "rs_1 gA")],
    ),
    "a call in the text": (
        [event("output_text.delta", output_index=0, delta=f"<tool_call>{CALL}</tool_call>"), COMPLETED],
        [READ],
    ),
    "events that nobody knows": (
        [event("weather", rain=1), event("output_text.delta", output_index=0, delta="So."), event("queued"), COMPLETED],
        [Text("So.")],
    ),
    "duplicates": (
        [
            event("output_item.added", output_index=0, item=CALL_ITEM),
            event("output_item.added", output_index=0, item=CALL_ITEM),
            event("output_item.done", output_index=0, item={**CALL_ITEM, "arguments": WRITTEN}),
            event("output_item.done", output_index=0, item={**CALL_ITEM, "arguments": WRITTEN}),
            COMPLETED,
            COMPLETED,
        ],
        [READ_1],
    ),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_odd_responses(name: str) -> None:
    events, expected = RESPONSES[name]
    reply = ResponsesReply(ExpectedReply(written=TextToolCallReader(TOOLS)))
    assert blocks(reply, *events, done=False) == expected


def test_a_response_that_is_not_streamed() -> None:
    reply = ResponsesReply()
    output = [item("message", content=[{"type": "output_text", "text": "So."}]), {**CALL_ITEM, "arguments": WRITTEN}]
    got = list(reply.not_streamed(msgspec.json.encode({"status": "completed", "output": output})))
    assert [each.block for each in got if isinstance(each, BlockFinished)] == [Text("So."), READ_1]


# --- never a silent end -----------------------------------------------------------------------------------


def test_no_oddity_ends_a_run_without_a_word() -> None:
    """Each of them leaves a call to run, words for the person, or a trouble that the loop has a ladder for."""
    found = [expected for rows in (IN_TEXT, CHATS, RESPONSES) for _, expected in rows.values()]
    for expected in found:
        reply = Assistant(tuple(expected))
        assert reply.runnable or reply.text.strip() or diagnose(reply) is not None
