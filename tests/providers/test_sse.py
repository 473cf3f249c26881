"""Server-sent events: byte by byte, at random cuts, and with everything a server may get wrong."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.errors import ProviderError
from mainspring.providers.http.sse import ServerEvent, SseParser


def parse(*chunks: bytes) -> list[ServerEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


STREAM = (
    b": welcome\n\n"
    b'event: message_start\ndata: {"type":"message_start"}\n\n'
    b"data:two\ndata: lines\n\n"
    b"id: 7\nretry: 100\nnonsense\nevent: ping\ndata: {}\n\n"
    b"event: nothing to say\n\n"
    b"data\n\n"
    b"event: last\ndata: cut off"
)
EVENTS = [
    ("message_start", b'{"type":"message_start"}'),
    ("message", b"two\nlines"),
    ("ping", b"{}"),
    ("message", b""),
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf"])
def test_whole_and_byte_by_byte(end: bytes, head: bytes) -> None:
    stream = head + STREAM.replace(b"\n", end)
    assert parse(stream) == EVENTS
    assert parse(*[stream[n : n + 1] for n in range(len(stream))]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM) * 2), max_size=12), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_at_any_cuts(cuts: list[int], end: bytes) -> None:
    stream = STREAM.replace(b"\n", end)
    places = [0, *sorted(cut for cut in cuts if cut <= len(stream)), len(stream)]
    assert parse(*[stream[a:b] for a, b in pairwise(places)]) == EVENTS


@given(st.lists(st.binary(max_size=30), max_size=20))
def test_any_bytes_at_any_cuts_are_the_same_events(chunks: list[bytes]) -> None:
    assert parse(*chunks) == parse(b"".join(chunks))


FRAGMENTS = [
    b"event: a\n",
    b"data: x\n",
    b"data:\n",
    b"data: y",
    b"\n",
    b"\n\n",
    b"\r",
    b": c\n",
    b"event:\n",
    b"event: b",
]


@given(st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=5).map(b"".join), max_size=12))
def test_the_quick_way_for_whole_events_is_the_slow_way(chunks: list[bytes]) -> None:
    """Byte by byte the quick way is never taken."""
    whole = b"".join(chunks)
    assert parse(*chunks) == parse(whole) == parse(*[whole[n : n + 1] for n in range(len(whole))])


@given(st.lists(st.tuples(st.text("abc_", min_size=1), st.binary().filter(lambda data: not set(data) & {10, 13}))))
def test_what_is_sent_arrives(sent: list[tuple[str, bytes]]) -> None:
    stream = b"".join(b"event: %s\ndata: %s\n\n" % (name.encode(), data) for name, data in sent)
    assert parse(stream) == [(name, data) for name, data in sent]


def test_a_read_that_brings_nothing_changes_nothing() -> None:
    """Found by cutting at random: an empty read between CR and LF made two line ends of one."""
    assert parse(b"event: ping\r", b"", b"\ndata: x\r\n\r\n") == [("ping", b"x")]


def test_an_event_without_its_end_is_none() -> None:
    assert parse(b"data: almost\n") == []
    assert parse(b"") == []
    assert parse(b"\xef\xbb") == []


@pytest.mark.covers("E-02")
def test_an_event_that_never_ends_is_refused() -> None:
    endless = SseParser(max_event=100)
    with pytest.raises(ProviderError, match="an event of more than 100 bytes"):
        for _ in range(30):
            endless.feed(b"data: x")
    many = SseParser(max_event=100)
    with pytest.raises(ProviderError, match="an event of more than 100 bytes"):
        many.feed(b"data: 0123456789\n" * 10)
    fine = SseParser(max_event=100)
    assert len(fine.feed(b"data: 0123456789\n\n" * 50)) == 50


def test_a_name_that_is_no_text_does_no_harm() -> None:
    assert parse(b"event: \xff\ndata: x\n\n") == [("\ufffd", b"x")]
