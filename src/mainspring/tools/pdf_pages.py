"""Child program that cuts pages out of the PDF document on standard input. See `media.py`.

    python -m mainspring.tools.pdf_pages FIRST LAST

It prints the total number of pages, a line end, and the new document, or nothing if there are no such pages.
"""

import io
import sys
from importlib import import_module
from typing import Any

REFUSED, NO_LIBRARY = 2, 3  # exit codes


def extract_pages(pypdf: Any, source: io.BufferedReader, first: int, last: int) -> tuple[int, bytes]:
    reader = pypdf.PdfReader(source)
    total = len(reader.pages)
    if first > total:
        return total, b""
    writer = pypdf.PdfWriter()
    for page in reader.pages[first - 1 : last]:
        writer.add_page(page)
    made = io.BytesIO()
    writer.write(made)
    return total, made.getvalue()


def main() -> int:
    try:
        pypdf = import_module("pypdf")  # imported by name: it is optional
    except ImportError:
        return NO_LIBRARY
    try:
        with open(0, "rb", closefd=False) as source:
            total, made = extract_pages(pypdf, source, int(sys.argv[1]), int(sys.argv[2]))
    except Exception as error:  # noqa: BLE001  # a damaged document raises anything, and this program has no other job
        sys.stderr.write(f"{type(error).__name__}: {' '.join(str(error).split())}\n")
        return REFUSED
    sys.stdout.buffer.write(f"{total}\n".encode() + made)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
