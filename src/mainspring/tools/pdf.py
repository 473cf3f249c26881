"""PDF files, handed to the model whole. There is no PDF library here, so single pages cannot be cut out."""

import re

from mainspring.core.errors import ToolError
from mainspring.providers.media import LARGEST_DOCUMENT

MOST_BYTES = LARGEST_DOCUMENT // 4 * 3  # of the file: base64 makes four of three
MOST_PAGES = 100  # the API takes no more

_PAGE = rb"/Type\s*/Page(?![a-zA-Z])"
_COUNT = rb"/Count\s+(\d{1,9})"
_OUT = "Take out what you need in Bash, with 'pdftotext -f 1 -l 10 FILE -' or 'qpdf'."


def is_pdf(data: bytes) -> bool:
    return data.startswith(b"%PDF-")


def pages_of(data: bytes) -> int | None:
    """By a look at the bytes, without reading what is compressed; None: it cannot be seen."""
    counts = [int(found[1]) for found in re.finditer(_COUNT, data)]
    return max(counts, default=0) or len(re.findall(_PAGE, data)) or None


def refuse_if_large(size: int, name: str) -> None:
    if size > MOST_BYTES:
        raise ToolError(
            f"The document '{name}' has {size:,} bytes; {MOST_BYTES:,} is the most that a model takes. {_OUT}"
        )


def refuse_if_long(pages: int | None, name: str) -> None:
    if pages is not None and pages > MOST_PAGES:
        raise ToolError(f"The document '{name}' has {pages:,} pages; {MOST_PAGES} is the most at once. {_OUT}")
