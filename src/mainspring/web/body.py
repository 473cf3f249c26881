"""The body of an answer: expanded within limits (security N3), and decoded.

We ask for gzip and take that or nothing around the text, once: a body that is packed in several layers, or in another
way, is refused. What follows the end of a packed body is refused, too.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator, Mapping

from mainspring.core.errors import ToolError

STEP = 1 << 18  # bytes that are expanded at once: less than a millisecond
_GZIP = 31  # zlib's word for: 32 KB of window, with the head and the checksum of gzip

# What pages are written in, by the names that the web has for it. Python knows more codecs than there are character
# sets, such as `punycode` and `unicode_escape`: those are slow, or mean something else.
_CHARSETS = """
utf-8 utf8 us-ascii ascii utf-16 utf-16le utf-16be iso-8859-1 iso-8859-2 iso-8859-3 iso-8859-4 iso-8859-5
iso-8859-6 iso-8859-7 iso-8859-8 iso-8859-9 iso-8859-10 iso-8859-13 iso-8859-14 iso-8859-15 iso-8859-16 latin1
windows-1250 windows-1251 windows-1252 windows-1253 windows-1254 windows-1255 windows-1256 windows-1257 windows-1258
windows-874 koi8-r koi8-u macintosh gb2312 gbk gb18030 big5 euc-jp iso-2022-jp shift_jis shift-jis euc-kr
"""
_KNOWN = frozenset(_CHARSETS.split())
_AS_BROWSERS = dict.fromkeys(("iso-8859-1", "latin1", "us-ascii", "ascii"), "cp1252") | {
    "gb2312": "gbk", "macintosh": "mac_roman", "windows-874": "cp874"
}  # fmt: skip
_NAMED = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16le"), (codecs.BOM_UTF16_BE, "utf-16be"))
_HEAD = 2_048  # bytes in which a page may name its character set; browsers look at 1,024


class BodyDecoder:
    """Bytes as they come from the server in, those of the page out."""

    def __init__(self, headers: Mapping[str, str], most: int) -> None:
        coding = headers.get("content-encoding", "").strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip"):
            raise ToolError(f"The page is packed as '{coding[:60]}', and we asked for gzip or nothing.")
        self._gzip = zlib.decompressobj(_GZIP) if "gzip" in coding else None
        self._room = most
        self._most = most

    def feed(self, data: bytes) -> Iterator[bytes]:
        """In pieces of at most `STEP`, so that whoever takes them can let others have a turn."""
        if self._gzip is None:
            yield self._counted(data)
            return
        while data:
            try:
                piece = self._gzip.decompress(data, STEP)
            except zlib.error:
                raise ToolError("The page is packed as gzip, but broken.") from None
            if self._gzip.unused_data:
                raise ToolError("The page is packed as gzip, and something follows its end.")
            yield self._counted(piece)
            data = self._gzip.unconsumed_tail

    def end(self) -> None:
        if self._gzip is not None and not self._gzip.eof:
            raise ToolError("The page is packed as gzip, but its end is missing.")

    def _counted(self, piece: bytes) -> bytes:
        self._room -= len(piece)
        if self._room < 0:
            raise ToolError(f"The page has more than {self._most:,} bytes: fetch a part of it, or use curl in Bash.")
        return piece


def decode_body(body: bytes, content_type: str) -> str:
    """By its byte order mark, else by the header, else by what the page says itself, else UTF-8. Never fails."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    name = _named_in(content_type)
    if not name:
        name = _named_in(body[:_HEAD].decode("latin-1"))
        name = "utf-8" if not name or name.startswith("utf-16") else name  # it could not be read if it were that
    return body.decode(_AS_BROWSERS.get(name, name), "replace")


def _named_in(text: str) -> str:
    """A character set that we know."""
    found = _NAMED.search(text.lower())
    return found[1] if found and found[1] in _KNOWN else ""
