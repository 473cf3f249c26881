"""Bytes to text: packed or not, in the character set that they are in."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.errors import ToolError
from mainspring.web.fetch import STEP, BodyDecoder, decode_body


@given(st.binary(max_size=2_000), st.integers(1, 700), st.integers(1, 60))
def test_in_whatever_pieces_it_comes(body: bytes, times: int, size: int) -> None:
    """Also where a piece that is let out ends just where the input does."""
    sent = gzip.compress(body * times)
    expanding = BodyDecoder({"content-encoding": "gzip"}, len(body) * times)
    pieces = [piece for at in range(0, len(sent), size) for piece in expanding.feed(sent[at : at + size])]
    expanding.end()
    assert b"".join(pieces) == body * times
    assert all(len(piece) <= STEP for piece in pieces)


@given(st.integers(0, 3 * STEP), st.integers(0, 3 * STEP))
def test_the_limit_is_exact(size: int, most: int) -> None:
    expanding = BodyDecoder({"content-encoding": "gzip"}, most)
    given = expanding.feed(gzip.compress(bytes(size)))
    if size <= most:
        assert sum(map(len, given)) == size
    else:
        with pytest.raises(ToolError, match="has more than"):
            list(given)


def test_as_it_is() -> None:
    expanding = BodyDecoder({}, 5)
    assert list(expanding.feed(b"hello")) == [b"hello"]
    expanding.end()
    with pytest.raises(ToolError, match="has more than 5 bytes"):
        list(expanding.feed(b"!"))


TEXTS = [
    ("é".encode(), "text/plain", "é"),
    ("é".encode("latin-1"), "text/html; charset=ISO-8859-1", "é"),
    ("€".encode("cp1252"), "text/html; charset=iso-8859-1", "€"),  # as browsers have it
    ("Привет".encode("cp1251"), 'text/html; charset="windows-1251"', "Привет"),
    ("日本".encode("shift_jis"), "text/html;charset=Shift_JIS", "日本"),
    (b'<meta charset="koi8-r">' + "да".encode("koi8-r"), "text/html", '<meta charset="koi8-r">да'),
    (b"\xef\xbb\xbfx", "text/html; charset=koi8-r", "x"),  # a byte order mark counts most
    (b"\xff\xfex\0", "text/html", "x"),
    (b"<meta charset=utf-16>x", "text/html", "<meta charset=utf-16>x"),
    (b"a\xffb", "text/plain", "a\ufffdb"),
    (b"x-", "text/plain; charset=punycode", "x-"),
    (b"\\x41", "text/plain; charset=unicode_escape", "\\x41"),
    (b"78", "text/plain; charset=hex", "78"),
    (b"+AGE-", "text/plain; charset=utf-7", "+AGE-"),
]


@pytest.mark.parametrize(("body", "kind", "text"), TEXTS)
def test_texts(body: bytes, kind: str, text: str) -> None:
    assert decode_body(body, kind) == text


@given(st.binary(max_size=200), st.text(max_size=60))
def test_any_bytes_are_some_text(body: bytes, kind: str) -> None:
    for said in (kind, f"text/html; charset={kind}"):
        assert isinstance(decode_body(body, said), str)
