"""AWS event streams: however they are cut, flipped or invented, they give events or one kind of error."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from itertools import pairwise
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.errors import ProviderError
from mainspring.core.reasons import Trouble
from mainspring.providers.anthropic.stream import AnthropicStreamReader
from mainspring.providers.base import BlockDelta
from mainspring.providers.clouds.event_stream import (
    BedrockEventParser,
    MessageDecoder,
    StreamMessage,
    read_headers,
)
from mainspring.simulator.clouds import encode_stream_message, frame_bedrock_event
from mainspring.simulator.replies import ReplyStamp, Say, stream_events

names = st.text("abcdefghijklmnopqrstuvwxyz:-", min_size=1, max_size=30)
messages = st.builds(StreamMessage, st.dictionaries(names, st.text(max_size=60), max_size=5), st.binary(max_size=300))
several = st.lists(messages, max_size=6)


def encode(stream: list[StreamMessage]) -> bytes:
    return b"".join([encode_stream_message(message.headers, message.payload) for message in stream])


def feed_all(feed: Callable[[bytes], object], chunks: list[bytes]) -> Trouble | None:
    """The kind of the error; None: there was none. Any other exception fails the test."""
    try:
        for chunk in chunks:
            feed(chunk)
    except ProviderError as error:
        return error.failure.kind
    return None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({0, len(data), *[place % (len(data) + 1) for place in places]})
    return [data[begin:end] for begin, end in pairwise(ends)]


@given(several, st.lists(st.integers(0, 10_000), max_size=30))
def test_the_same_messages_however_the_bytes_are_cut(stream: list[StreamMessage], places: list[int]) -> None:
    decoder = MessageDecoder()
    data = encode(stream)
    assert [message for chunk in cut(data, places) for message in decoder.feed(chunk)] == stream
    assert decoder.waiting == 0


@given(several)
def test_botocore_reads_the_same(stream: list[StreamMessage]) -> None:
    theirs = EventStreamBuffer()
    theirs.add_data(encode(stream))
    assert [StreamMessage(found.headers, found.payload) for found in theirs] == MessageDecoder().feed(encode(stream))


@given(several.filter(bool), st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_bit_is_never_accepted(stream: list[StreamMessage], place: int, flip: int) -> None:
    """The messages before it are whole; what follows is an error, or waits for bytes that never come."""
    written = bytearray(encode(stream))
    written[place % len(written)] ^= flip
    data = bytes(written)
    decoder, found = MessageDecoder(), list[StreamMessage]()
    failed = feed_all(lambda chunk: found.extend(decoder.feed(chunk)), [data[at : at + 1] for at in range(len(data))])
    assert failed in (None, Trouble.SERVER)
    assert found == stream[: len(found)]
    assert len(found) < len(stream)


@given(st.binary(max_size=400), st.lists(st.integers(0, 10_000), max_size=10))
def test_random_bytes_give_one_kind_of_error(data: bytes, places: list[int]) -> None:
    failed = feed_all(BedrockEventParser().feed, cut(data, places))
    assert failed is (Trouble.SERVER if len(data) >= 12 else None)


@given(st.binary(max_size=200))
def test_random_headers_give_one_kind_of_error(head: bytes) -> None:
    """Behind right checksums."""
    prelude = struct.pack(">II", 16 + len(head), len(head))
    message = prelude + struct.pack(">I", crc32(prelude)) + head
    decoder = MessageDecoder()
    failed = feed_all(decoder.feed, [message + struct.pack(">I", crc32(message))])
    assert failed is Trouble.SERVER or (failed is None and decoder.waiting == 0)


@given(st.dictionaries(names, st.text(max_size=20), max_size=3), st.binary(max_size=100))
def test_random_payloads_give_one_kind_of_error(extra: dict[str, str], payload: bytes) -> None:
    parser = BedrockEventParser()
    for kind in ("event", "exception", "error", "other"):
        headers = {**extra, ":message-type": kind, ":event-type": "chunk"}
        failed = feed_all(parser.feed, [encode_stream_message(headers, payload)])
        assert failed is None or (kind, failed) == ("event", Trouble.SERVER)


def test_every_type_of_header_is_skipped_or_read() -> None:
    values = [b"\x00", b"\x01", b"\x02x", b"\x03xx", b"\x04xxxx", b"\x05xxxxxxxx", b"\x06\x00\x02xx"]
    values += [b"\x08xxxxxxxx", b"\x09" + b"x" * 16, b"\x07\x00\x03abc"]
    head = b"".join([b"\x01" + bytes([97 + at]) + value for at, value in enumerate(values)])
    assert dict(read_headers(head)) == {"j": "abc"}


@pytest.mark.parametrize(("size", "headers"), [(2**32 - 1, 0), (16 * 1024 * 1024 + 1, 0), (15, 0), (40, 30), (0, 0)])
def test_an_impossible_length_is_refused_before_its_bytes_are_collected(size: int, headers: int) -> None:
    prelude = struct.pack(">II", size, headers)
    decoder = MessageDecoder()
    with pytest.raises(ProviderError, match="invalid event stream"):
        decoder.feed(prelude + struct.pack(">I", crc32(prelude)))


def test_a_long_stream_is_not_kept() -> None:
    decoder, message = MessageDecoder(), encode_stream_message({":event-type": "chunk"}, b"x" * 1_000)
    for _ in range(1_000):
        assert len(decoder.feed(message)) == 1
    assert decoder.waiting == 0


# --- the events within --------------------------------------------------------------------------------------------


def test_the_reader_of_anthropic_s_stream_reads_the_events_within() -> None:
    stamp = ReplyStamp("claude-sonnet-5-5", "msg_1", lambda: "signed")
    parser, reader = BedrockEventParser(), AnthropicStreamReader()
    data = b"".join([frame_bedrock_event(event) for event in stream_events(Say.of("Hello there."), stamp)])
    items = [item for at in range(len(data)) for item in reader.take(parser.feed(data[at : at + 1]))]
    assert reader.ended
    assert "".join([item.text for item in items if isinstance(item, BlockDelta)]) == "Hello there."


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("throttlingException", Trouble.RATE_LIMIT),
        ("serviceUnavailableException", Trouble.OVERLOADED),
        ("internalServerException", Trouble.SERVER),
        ("modelStreamErrorException", Trouble.SERVER),
        ("modelTimeoutException", Trouble.SERVER),
        ("validationException", Trouble.INVALID_REQUEST),
        ("somethingNewException", Trouble.SERVER),
    ],
)
def test_an_exception_in_mid_stream_is_a_failure(name: str, kind: Trouble) -> None:
    payload = json.dumps({"message": "Too bad."}).encode()
    data = encode_stream_message({":message-type": "exception", ":exception-type": name}, payload)
    with pytest.raises(ProviderError) as caught:
        AnthropicStreamReader().take(BedrockEventParser().feed(data))
    assert (caught.value.failure.kind, caught.value.failure.detail) == (kind, f"{name}: Too bad.")


def test_an_error_without_a_model_is_a_failure_too() -> None:
    data = encode_stream_message({":message-type": "error", ":error-code": "Broken", ":error-message": "Oh."}, b"")
    with pytest.raises(ProviderError, match=r"Broken: Oh\."):
        AnthropicStreamReader().take(BedrockEventParser().feed(data))


def test_padding_and_unknown_events_are_ignored() -> None:
    parser = BedrockEventParser()
    assert parser.feed(encode_stream_message({":message-type": "event", ":event-type": "weather"}, b"?")) == []
    payload = json.dumps({"bytes": base64.b64encode(b"{}").decode(), "p": "abcdef"}).encode()
    assert parser.feed(encode_stream_message({":event-type": "chunk"}, payload)) == [("message", b"{}")]
