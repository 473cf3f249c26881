"""Histories as they come out of a session, and as they come out of an accident."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.core.history import History
from mainspring.core.messages import (
    Assistant,
    Block,
    Content,
    Defect,
    Document,
    Image,
    Message,
    Origin,
    RedactedThinking,
    ServerBlock,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from mainspring.core.view import Drop, Edit, Fold, Replace

MODELS = ("claude-sonnet-5-5", "claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-fable-5-1", "some-local-model")

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

texts = st.sampled_from(
    ["hello", "", "  \n", "é ü 漢字 🙂", "half \ud83d of a pair", '"quoted" \\ \x00 \u2028', "x" * 500]
)
contents: st.SearchStrategy[Content] = st.one_of(
    st.builds(Text, texts),
    st.sampled_from(
        [Image("image/png", PNG), Image("image/tiff", PNG), Image("image/png", "not base64!"), Image("", "")]
    ),
    st.sampled_from([Document("application/pdf", "JVBERi0xLjQ="), Document("text/csv", "YSxi")]),
)
ids = st.sampled_from(["toolu_1", "toolu_2", "toolu_3", "", "a b/ü", "call:7"])
names = st.sampled_from(["Read", "Bash", "mcp__a__b", "", "no such tool!", "n" * 300])
inputs: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"file_path": "a.py"}, {"deep": [{"a": None}, 1.5]}, {"bad \udc00": "\ud800"}]
)
server_blocks = st.sampled_from(
    [
        ServerBlock("server_tool_use", '{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}'),
        ServerBlock("web_search_tool_result", '{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}'),
        ServerBlock("broken", "{no json"),
    ]
)


def signature(model: str) -> str:
    """As our simulators sign: a server that is not this model refuses it."""
    return f"sig:{model.removesuffix('-20251001')}:1"


@st.composite
def replies(draw: st.DrawFn) -> Assistant:
    model = draw(st.sampled_from(MODELS))
    thoughts: st.SearchStrategy[Block] = st.sampled_from(
        [
            Thinking("hm", signature(model)),
            Thinking("", signature(model)),
            Thinking("unsigned"),
            RedactedThinking("opaque"),
        ]
    )
    calls = st.builds(ToolCall, ids, names, inputs, st.sampled_from([None, None, None, Defect.CUT, Defect.MALFORMED]))
    blocks = draw(st.lists(st.one_of(st.builds(Text, texts), thoughts, calls, calls, server_blocks), max_size=5))
    return Assistant(tuple(blocks), model, draw(st.sampled_from(list(Stop))))


users = st.builds(User, st.lists(contents, max_size=3).map(tuple), st.sampled_from(list(Origin)))
results = st.builds(ToolResult, ids, st.lists(contents, max_size=3).map(tuple), st.booleans(), st.booleans())


def stamped(messages: list[Message]) -> list[Message]:
    return [replace(message, id=f"m{number}", at=number) for number, message in enumerate(messages)]


@st.composite
def orderly(draw: st.DrawFn) -> list[Message]:
    """As the engine leaves them: each reply's calls are answered before anything else is said."""
    messages: list[Message] = [User((Text("go"),))]
    number = 0
    for reply in draw(st.lists(replies(), max_size=6)):
        blocks: list[Block] = []
        for block in reply.blocks:
            if isinstance(block, ToolCall):
                number += 1
                block = replace(block, id=f"toolu_{number}")  # noqa: PLW2901  # unique, as at ingestion
            blocks.append(block)
        reply = replace(reply, blocks=tuple(blocks))  # noqa: PLW2901
        messages.append(reply)
        messages += [replace(draw(results), call_id=call.id) for call in reply.calls]
        if not reply.calls or draw(st.booleans()):
            messages.append(draw(users))
    return stamped(messages)


@st.composite
def disorderly(draw: st.DrawFn) -> list[Message]:
    """Anything after anything: truncated at both ends, interleaved, repeated."""
    one, other = draw(orderly()), draw(orderly())
    mixed: list[Message] = []
    for take_other in draw(st.lists(st.booleans(), max_size=len(one) + len(other))):
        source = other if take_other else one
        if source:
            mixed.append(source.pop(0))
    mixed += draw(st.lists(st.one_of(users, results, replies()), max_size=4))
    if mixed:
        start = draw(st.integers(0, len(mixed) - 1))
        mixed = mixed[start : draw(st.integers(start, len(mixed)))]
    return stamped(mixed)


@st.composite
def edits_of(draw: st.DrawFn, messages: list[Message]) -> tuple[Edit, ...]:
    if not messages:
        return ()
    any_id = st.sampled_from([message.id for message in messages])
    edits: list[Edit] = draw(
        st.lists(
            st.one_of(
                st.builds(Drop, st.lists(any_id, min_size=1, max_size=3).map(tuple)),
                st.builds(Replace, any_id, st.just((Text("[Old tool result cleared]"),))),
                st.builds(
                    Fold, any_id, any_id, st.just(User((Text("What happened so far."),), Origin.SUMMARY, id="summary"))
                ),
            ),
            max_size=2,
        )
    )
    return tuple(edits)


def history_of(messages: list[Message]) -> History:
    return History(messages)
