"""PDF files. Small ones are handed to the model whole; of others, some pages, as a document of their own.

Pages are cut out by `pypdf` (the extra 'pdf'), in a process of its own (`pdf_pages.py`): a document from anywhere may
make a parser run for ever or take all memory, and only a process can be ended then.
"""

import re
import sys
from typing import NamedTuple

from mainspring.core.errors import ToolError
from mainspring.providers.projection import LARGEST_DOCUMENT
from mainspring.tools.aside import HaltSignal
from mainspring.tools.base import Workspace

MOST_BYTES = LARGEST_DOCUMENT // 4 * 3  # of the file: base64 makes four of three
MOST_PAGES = 100  # the API takes no more
MOST_CUT = 20  # pages cut out at once, as users of Claude Code know it

_PAGE = rb"/Type\s*/Page(?![a-zA-Z])"
_COUNT = rb"/Count\s+(\d{1,9})"
_SPAN = r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?"
_OUT = f"Choose some with 'pages', such as '1-{MOST_CUT}', or take out what you need in Bash, with 'pdftotext'."


def is_pdf(data: bytes) -> bool:
    return data.startswith(b"%PDF-")


def pages_of(data: bytes) -> int | None:
    """By a look at the bytes, without reading what is compressed; None: it cannot be seen."""
    counts = [int(found[1]) for found in re.finditer(_COUNT, data)]
    return max(counts, default=0) or len(re.findall(_PAGE, data)) or None


def too_large(size: int) -> str:
    """Why a model does not take it; empty: it does."""
    return f"has {size:,} bytes; {MOST_BYTES:,} is the most that a model takes" if size > MOST_BYTES else ""


def too_long(pages: int | None) -> str:
    return f"has {pages:,} pages; {MOST_PAGES} is the most at once" if pages is not None and pages > MOST_PAGES else ""


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
    span: PageRange  # as far as there are any
    total: int


def span_of(text: str) -> PageRange:
    found = re.fullmatch(_SPAN, text)
    if found is None:
        raise ToolError(f"'pages' is '{text[:100]}': give one page, such as '3', or some, such as '1-5'.")
    first = int(found[1])
    last = first if found[2] is None else int(found[2])
    if not 1 <= first <= last:
        raise ToolError(f"'pages' is '{text[:100]}': pages are counted from 1, and the first stands first.")
    if last - first >= MOST_CUT:
        raise ToolError(f"'pages' is '{text[:100]}': {MOST_CUT} pages are the most at once. Go on with another call.")
    return PageRange(first, last)


def cut_out(fd: int, span: PageRange, name: str, place: Workspace, halt: HaltSignal) -> PdfPages:
    from mainspring.tools.search_child import output_alone  # few documents are cut

    command = [sys.executable, "-I", "-m", "mainspring.tools.pdf_pages", str(span.first), str(span.last)]
    output = output_alone(command, place, MOST_BYTES + 100, halt, stdin=fd)
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
    from mainspring.tools.pdf_pages import NO_LIBRARY, REFUSED  # what the program ends with

    if code == NO_LIBRARY:
        return (
            "Pages cannot be cut out here: 'pypdf' is not installed ('pip install mainspring[pdf]'). Leave 'pages' out "
            f"to read all of '{name}', or use 'pdftotext -f FIRST -l LAST FILE -' in Bash."
        )
    said = (
        errors.strip().rpartition("\n")[2][:300] if code == REFUSED else f"the program that cuts it ended with {code}"
    )
    return f"Pages of '{name}' cannot be cut out: {said}. Use 'pdftotext' or 'qpdf' in Bash."
