"""Every message and every block comes back from its line as it was."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.history import History
from mainspring.core.messages import (
    Assistant,
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
from mainspring.core.money import Usage
from mainspring.messages_api import format_timestamp
from mainspring.sessions.decoder import TranscriptDecoder
from mainspring.sessions.encoder import TranscriptEncoder
from mainspring.sessions.line_parser import parse_journal_line, parse_timestamp
from mainspring.sessions.records import (
    AnsweredRecord,
    AskedRecord,
    DecisionRecord,
    NoteRecord,
    PrefixRecord,
    Record,
    ToolSummaryRecord,
)
from sessions.stage import ENVELOPE

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NUMBERS = st.integers(0, 10**9)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
CITATIONS = (
    st.just("") | JSON.map(lambda value: msgspec.json.encode(value).decode()) | st.sampled_from(["{", "[1,\n2]"])
)
CONTENT = st.one_of(
    st.builds(Text, TEXTS, CITATIONS), st.builds(Image, TEXTS, TEXTS), st.builds(Document, TEXTS, TEXTS)
)
PLAIN_CONTENT = st.one_of(st.builds(Text, TEXTS), st.builds(Image, TEXTS, TEXTS), st.builds(Document, TEXTS, TEXTS))
SERVER = st.one_of(
    st.sampled_from(["web", "a b"]).map(lambda kind: ServerBlock(kind, json.dumps({"type": kind, "x": [1, {}]}))),
    st.builds(
        ServerBlock, TEXTS | st.sampled_from(["text", "tool_use"]), TEXTS | st.sampled_from(["0", '{"type":"text"}'])
    ),
)
BLOCK = st.one_of(
    st.builds(Text, TEXTS, CITATIONS),
    st.builds(Thinking, TEXTS, TEXTS),
    st.builds(RedactedThinking, TEXTS),
    st.builds(ToolCall, TEXTS, TEXTS, st.dictionaries(TEXTS, JSON, max_size=3), st.none() | st.sampled_from(Defect)),
    SERVER,
)
IDS = st.uuids(version=4).map(str)
USAGE = st.builds(Usage, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)


def many(kind: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(kind, max_size=4).map(tuple)


MESSAGE = st.one_of(
    st.builds(User, many(CONTENT), st.sampled_from(Origin), id=IDS, at=NUMBERS),
    st.builds(ToolResult, TEXTS, many(PLAIN_CONTENT), st.booleans(), st.booleans(), id=IDS, at=NUMBERS),
    st.builds(
        Assistant,
        st.lists(BLOCK, min_size=1, max_size=4).map(tuple),
        TEXTS,
        st.sampled_from(Stop),
        USAGE,
        id=IDS,
        at=NUMBERS,
    ),
)


@given(st.lists(MESSAGE, max_size=5, unique_by=lambda message: message.id))
def test_a_conversation_survives_its_lines(messages: list[Message]) -> None:
    data = TranscriptEncoder(ENVELOPE).take_over(History(messages))
    lines = data.split(b"\n")[:-1]
    assert len(data.decode().splitlines()) == len(lines), "whoever splits by any line end finds the same lines"
    book = TranscriptDecoder(lambda _: None)
    ids = [name for line in lines for name in book.take(0, parse_journal_line(line))]
    found = [book.message(name) for name in dict.fromkeys(ids)]
    assert found == messages
    for line, parent in zip(lines, [None, *lines], strict=False):
        entry = json.loads(line)
        assert line.startswith(b'{"type":"' + entry["type"].encode())
        assert entry["parentUuid"] == (json.loads(parent)["uuid"] if parent else None), "a straight chain"


@given(st.integers(0, 253_402_300_799_999))
def test_times(at: int) -> None:
    assert parse_timestamp(format_timestamp(at)) == at


def test_odd_times() -> None:
    assert format_timestamp(-5) == "1970-01-01T00:00:00.000Z"
    assert format_timestamp(10**18) == "9999-12-31T23:59:59.999Z"
    assert parse_timestamp("2026-11-15T10:00:00+02:00") == parse_timestamp("2026-11-15T08:00:00Z")
    assert parse_timestamp("yesterday") == parse_timestamp("2026-11-15T10:00:00") == 0


@pytest.mark.parametrize(
    "record",
    [
        DecisionRecord("c", "allow", "rule", 1),
        AskedRecord("q", "c", "may I?", 1),
        AnsweredRecord("q", "yes", 2),
        NoteRecord("kind", "words", 3),
        PrefixRecord(1, "what", "why", 2, 3, 4),
        ToolSummaryRecord("did things", ("c1",), 5),
    ],
)
def test_other_records_stand_as_they_are(record: Record) -> None:
    line = TranscriptEncoder(ENVELOPE).lines(record)
    assert line.startswith(b'{"type":"mainspring","v":1,"record":{"type":"')
    assert msgspec.json.decode(parse_journal_line(line).record, type=type(record)) == record
