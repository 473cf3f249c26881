"""Images as files hold them: which kind, how large. They are told by their first bytes, never by a name."""

from collections.abc import Callable
from typing import NamedTuple

from mainspring.core.errors import ToolError
from mainspring.providers.projection import LARGEST_IMAGE

MOST_BYTES = LARGEST_IMAGE // 4 * 3  # of the file: base64 makes four of three
MOST_PIXELS = 8_000  # on a side; the API takes no more

Size = tuple[int, int]


class ImageInfo(NamedTuple):
    media_type: str
    size: Size | None  # width and height; None: it does not say


def image_in(data: bytes) -> ImageInfo | None:
    """What the bytes are, if they are an image that models see."""
    for media_type, is_it, size in _KINDS:
        if is_it(data):
            return ImageInfo(media_type, size(data))
    return None


def too_large(found: ImageInfo, size: int) -> str:
    """Why a model does not take it; empty: it does."""
    if size > MOST_BYTES:
        return f"has {size:,} bytes; {MOST_BYTES:,} is the most that a model takes"
    if found.size and max(found.size) > MOST_PIXELS:
        return f"has {found.size[0]} x {found.size[1]} pixels; {MOST_PIXELS} on a side is the most"
    return ""


def refuse_if_large(found: ImageInfo, size: int, name: str) -> None:
    if why := too_large(found, size):
        raise ToolError(f"The image '{name}' {why}: make a smaller copy first, in Bash.")


# --- kinds ------------------------------------------------------------------------------------------


def _png(data: bytes) -> Size | None:
    return (_big(data, 16, 4), _big(data, 20, 4)) if len(data) >= 24 else None


def _gif(data: bytes) -> Size | None:
    return (_little(data, 6, 2), _little(data, 8, 2)) if len(data) >= 10 else None


def _webp(data: bytes) -> Size | None:
    kind = data[12:16]
    if len(data) < 30:
        return None
    if kind == b"VP8X":
        return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
    if kind == b"VP8L":
        bits = _little(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF


_NO_FRAMES = (0xC4, 0xC8, 0xCC)  # stand among the markers of frames and are none


def _jpeg(data: bytes) -> Size | None:
    """From marker to marker, until the one that begins a frame."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAMES:
            return _big(data, at + 7, 2), _big(data, at + 5, 2)
        at += 2 + _big(data, at + 2, 2)
    return None


def _big(data: bytes, at: int, count: int) -> int:
    return int.from_bytes(data[at : at + count], "big")


def _little(data: bytes, at: int, count: int) -> int:
    return int.from_bytes(data[at : at + count], "little")


_KINDS: tuple[tuple[str, Callable[[bytes], bool], Callable[[bytes], Size | None]], ...] = (
    ("image/png", lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"), _png),
    ("image/jpeg", lambda data: data.startswith(b"\xff\xd8\xff"), _jpeg),
    ("image/gif", lambda data: data.startswith((b"GIF87a", b"GIF89a")), _gif),
    ("image/webp", lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP", _webp),
)
