"""PDF documents and images for the model.

The model gets small PDF files whole; of larger ones, some pages as a document of their own. `pypdf` (the extra 'pdf')
cuts out the pages in a separate process (`pdf_pages.py`): a malicious document may make a parser run without limit or
use all memory, and only a process can be ended then.

Images are recognized by their first bytes, never by a name.
"""

import re
import sys
from collections.abc import Callable
from typing import NamedTuple

from mainspring import tools
from mainspring.core.errors import ToolError
from mainspring.providers.projection import LARGEST_DOCUMENT, LARGEST_IMAGE
from mainspring.tools.base import Workspace
from mainspring.tools.files import HaltSignal

MOST_BYTES = LARGEST_DOCUMENT // 4 * 3  # of the file: base64 turns three bytes into four
MOST_PAGES = 100  # the API's limit
MOST_CUT = 20  # pages cut out at once, as in Claude Code

_PAGE = rb"/Type\s*/Page(?![a-zA-Z])"
_COUNT = rb"/Count\s+(\d{1,9})"
_SPAN = r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?"
_OUT = f"Choose some with 'pages', such as '1-{MOST_CUT}', or take out what you need in Bash, with 'pdftotext'."


def is_pdf(data: bytes) -> bool:
    return data.startswith(b"%PDF-")


def pages_of(data: bytes) -> int | None:
    """Count pages by scanning the bytes, without decompressing; None: unknown."""
    counts = [int(found[1]) for found in re.finditer(_COUNT, data)]
    return max(counts, default=0) or len(re.findall(_PAGE, data)) or None


def too_large(size: int) -> str:
    """Why the model would reject it; empty: it would not."""
    return f"has {size:,} bytes; {MOST_BYTES:,} is the model's limit" if size > MOST_BYTES else ""


def too_long(pages: int | None) -> str:
    return f"has {pages:,} pages; {MOST_PAGES} is the limit at once" if pages is not None and pages > MOST_PAGES else ""


def refuse_if_large(size: int, name: str) -> None:
    if why := too_large(size):
        raise ToolError(f"The document '{name}' {why}. {_OUT}")


def refuse_if_long(pages: int | None, name: str) -> None:
    if why := too_long(pages):
        raise ToolError(f"The document '{name}' {why}. {_OUT}")


# --- some pages -------------------------------------------------------------------------------------


class PageRange(NamedTuple):
    """Pages, counted from 1, the last one included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


class PdfPages(NamedTuple):
    data: bytes  # a document that holds only these
    span: PageRange  # limited to the pages that exist
    total: int


def span_of(text: str) -> PageRange:
    found = re.fullmatch(_SPAN, text)
    if found is None:
        raise ToolError(f"'pages' is '{text[:100]}': give one page, such as '3', or some, such as '1-5'.")
    first = int(found[1])
    last = first if found[2] is None else int(found[2])
    if not 1 <= first <= last:
        raise ToolError(f"'pages' is '{text[:100]}': pages are counted from 1, and the first page comes first.")
    if last - first >= MOST_CUT:
        raise ToolError(f"'pages' is '{text[:100]}': {MOST_CUT} pages is the limit. Read the rest with another call.")
    return PageRange(first, last)


def cut_out(fd: int, span: PageRange, name: str, place: Workspace, halt: HaltSignal) -> PdfPages:
    command = [sys.executable, "-I", "-m", "mainspring.tools.pdf_pages", str(span.first), str(span.last)]
    output = tools.output_alone(command, place, MOST_BYTES + 100, halt, stdin=fd)
    if output.cut:
        raise ToolError(f"Pages {span} of '{name}' have over {MOST_BYTES:,} bytes: choose fewer with 'pages'.")
    if output.late:
        raise ToolError(f"'{name}' takes too long to be cut: use 'pdftotext' in Bash.")
    count, _, data = output.data.partition(b"\n")
    if output.code != 0 or not count.isdigit():
        raise ToolError(_why(output.code, output.errors, name))
    total = int(count)
    if not data:
        raise ToolError(
            f"'{name}' has {total:,} page{'s' * (total != 1)}, none from {span.first:,} on: choose others with 'pages'."
        )
    return PdfPages(data, PageRange(span.first, min(span.last, total)), total)


def _why(code: int, errors: str, name: str) -> str:
    from mainspring.tools.pdf_pages import NO_LIBRARY, REFUSED  # the exit codes of the program

    if code == NO_LIBRARY:
        return (
            "Pages cannot be cut out here: 'pypdf' is not installed ('pip install mainspring[pdf]'). Leave 'pages' out "
            f"to read all of '{name}', or use 'pdftotext -f FIRST -l LAST FILE -' in Bash."
        )
    said = (
        errors.strip().rpartition("\n")[2][:300] if code == REFUSED else f"the program that cuts it ended with {code}"
    )
    return f"Pages of '{name}' cannot be cut out: {said}. Use 'pdftotext' or 'qpdf' in Bash."


MOST_IMAGE_BYTES = LARGEST_IMAGE // 4 * 3  # of the file: base64 turns three bytes into four
MOST_PIXELS = 8_000  # on a side; the API's limit

Size = tuple[int, int]


class ImageInfo(NamedTuple):
    media_type: str
    size: Size | None  # width and height; None: unknown


def image_in(data: bytes) -> ImageInfo | None:
    """Recognize an image in a format that models accept."""
    for media_type, is_it, size in _KINDS:
        if is_it(data):
            return ImageInfo(media_type, size(data))
    return None


def image_too_large(found: ImageInfo, size: int) -> str:
    """Why the model would reject it; empty: it would not."""
    if size > MOST_IMAGE_BYTES:
        return f"has {size:,} bytes; {MOST_IMAGE_BYTES:,} is the model's limit"
    if found.size and max(found.size) > MOST_PIXELS:
        return f"has {found.size[0]} x {found.size[1]} pixels; {MOST_PIXELS} on a side is the limit"
    return ""


def refuse_large_image(found: ImageInfo, size: int, name: str) -> None:
    if why := image_too_large(found, size):
        raise ToolError(f"The image '{name}' {why}: make a smaller copy first, in Bash.")


# --- formats ----------------------------------------------------------------------------------------


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


_NO_FRAMES = (0xC4, 0xC8, 0xCC)  # look like frame markers and are none


def _jpeg(data: bytes) -> Size | None:
    """Walk from marker to marker, until the one that begins a frame."""
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
