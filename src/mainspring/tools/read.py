"""Read: a file as the model sees it. Text with line numbers, images, PDF documents, notebooks.

A line is its number, a tab and the text. Padding the number, as `cat -n` does, adds no information, and makes the
result 9 % longer over the sources of this project (3.7 characters a line).

The session remembers what it read by content, so that Edit and Write never change a version that the model has not
seen. That takes the whole file, so a file that is too big to be edited is not remembered.
"""

import os
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from mainspring.core.errors import ToolError
from mainspring.core.messages import Document, Image, Text
from mainspring.core.updates import Rendering
from mainspring.processes.paths import Resolved
from mainspring.processes.safe_open import read_all
from mainspring.text import plural
from mainspring.tools import media
from mainspring.tools.base import MOST_SHOWN, Input, Tool, ToolAnswer, ToolContext, Workspace, make_answer, without_nul
from mainspring.tools.files import HEAD, SMALL, WHOLE, FileEncoding, HaltSignal, coding_of, open_for_read, run_in_thread
from mainspring.tools.read_lines import (
    FAR,
    ByteSource,
    DescriptorBytes,
    FileLine,
    LineIndex,
    LineRequest,
    LineWindow,
    MemoryBytes,
    count_ahead,
    index_of,
    native_count,
    read_line_window,
)

MOST_LINES = 2_000
LONGEST = 2_000  # characters of a line
MOST_TEXT = MOST_SHOWN - 2_000  # characters in all; the rest is for notes
SECONDS = 20  # for counting a file that never ends


class ReadInput(Input, frozen=True):
    file_path: Annotated[str, "The file."]
    offset: Annotated[int, Meta(ge=0), "The first line, counted from 1."] = 1
    limit: Annotated[int, Meta(ge=1), f"How many lines; {MOST_LINES} unless given."] = MOST_LINES
    pages: Annotated[str, f"Of a PDF: '3' or '1-5'; {media.MOST_CUT} at most."] = ""


async def run_read(given: ReadInput, calling: ToolContext) -> ToolAnswer:
    path = calling.resolve(given.file_path)
    if path.kind == "folder":
        raise ToolError(f"'{path.asked}' is a folder: list it with Glob, or with ls in Bash.")
    if path.kind == "file" and (given.pages or _size(path) > SMALL):
        return await run_in_thread(lambda halt: _read(given, path, calling, halt), seconds=SECONDS)
    return _read(given, path, calling, HaltSignal())


def _size(path: Resolved) -> int:
    try:
        return os.lstat(path.real).st_size
    except OSError:
        return 0  # gone by now: opening it reports that


def _read(given: ReadInput, path: Resolved, calling: ToolContext, halt: HaltSignal) -> ToolAnswer:
    with open_for_read(path, calling) as fd:
        size = os.fstat(fd).st_size
        head = os.pread(fd, HEAD, 0)
        found = media.image_in(head)
        if given.pages:
            span = _span(given, path, head)
            return _pages(path, media.cut_out(fd, span, path.asked, calling.place, halt))
        if found is not None:
            media.refuse_large_image(found, size, path.asked)
        elif media.is_pdf(head):
            media.refuse_if_large(size, path.asked)
        elif size > WHOLE:
            return _big(given, path, _source(fd, coding_of(head, path.asked), path), calling.place, halt)
        data = read_all(fd, path.real, max(WHOLE, media.MOST_BYTES, media.MOST_IMAGE_BYTES))
    halt.check()
    calling.place.read.remember(path, data)
    if found is not None:
        return _image(path, data)
    if media.is_pdf(data):
        return _document(path, data)
    if path.real.endswith(".ipynb") and data.strip():
        return _notebook(path, data)
    return _small(given, path, data, coding_of(data[:HEAD], path.asked), halt)


# --- files that are not text ------------------------------------------------------------------------


def _image(path: Resolved, data: bytes) -> ToolAnswer:
    found = media.image_in(data)
    assert found is not None
    media.refuse_large_image(found, len(data), path.asked)
    size = f", {found.size[0]} x {found.size[1]}" if found.size else ""
    facts = {"type": found.media_type, "originalSize": len(data)}
    summary = f"Read {found.media_type.partition('/')[2].upper()} image ({len(data):,} bytes{size})"
    content = (Image(found.media_type, _base64(data)),)
    return ToolAnswer(content, {"type": "image", "file": facts}, shown=Rendering(summary))


def _document(path: Resolved, data: bytes) -> ToolAnswer:
    pages = media.pages_of(data)
    media.refuse_if_long(pages, path.asked)
    facts = {"filePath": path.real, "originalSize": len(data), "pages": pages}
    summary = f"Read PDF ({len(data):,} bytes" + (f", {_counted(pages, 'page')})" if pages else ")")
    return ToolAnswer(
        (Document("application/pdf", _base64(data)),), {"type": "pdf", "file": facts}, shown=Rendering(summary)
    )


def _span(given: ReadInput, path: Resolved, head: bytes) -> media.PageRange:
    if not media.is_pdf(head):
        raise ToolError(f"'{path.asked}' is not a PDF document: leave 'pages' out, and use 'offset' and 'limit'.")
    return media.span_of(given.pages)


def _pages(path: Resolved, found: media.PdfPages) -> ToolAnswer:
    facts = {"filePath": path.real, "originalSize": len(found.data), "pages": found.total, "shown": str(found.span)}
    said = f"[Pages {found.span} of {found.total:,} of '{path.asked}'.]"
    content = (Text(said), Document("application/pdf", _base64(found.data)))
    return ToolAnswer(content, {"type": "pdf", "file": facts}, shown=Rendering(f"Read PDF pages {found.span}"))


def _notebook(path: Resolved, data: bytes) -> ToolAnswer:
    from mainspring.tools import notebook  # its types are slow to define

    found = notebook.cells_in(data, path.asked)
    facts = [
        {"cell_id": cell.id, "cellType": cell.kind, "source": cell.source, "outputs": cell.output} for cell in found
    ]
    kept: Any = {"type": "notebook", "file": {"filePath": path.real, "cells": facts}}
    return ToolAnswer(
        notebook.render_cells(found, MOST_TEXT), kept, shown=Rendering(f"Read {_counted(len(found), 'cell')}")
    )


def _base64(data: bytes) -> str:
    import binascii

    return binascii.b2a_base64(data, newline=False).decode("ascii")


# --- text -------------------------------------------------------------------------------------------


def _small(given: ReadInput, path: Resolved, data: bytes, coding: FileEncoding, halt: HaltSignal) -> ToolAnswer:
    body = data[len(coding.mark) :]
    broken = False
    if coding.wide:
        text = body.decode(coding.name, "replace")
        broken = "\ufffd" in text
        body = text.encode("utf-8", "replace")
    if not body:
        return make_answer(f"['{path.asked}' is empty.]", _facts(path, "", 1, 0, 0), Rendering("Read 0 lines"))
    return _text(given, path, _seen(given, MemoryBytes(body), LineIndex(), halt), broken=broken)


def _source(fd: int, coding: FileEncoding, path: Resolved) -> DescriptorBytes:
    if coding.wide:
        raise ToolError(f"'{path.asked}' is UTF-16 and larger than {WHOLE:,} bytes: convert it with iconv, in Bash.")
    return DescriptorBytes(fd, len(coding.mark))


def _big(given: ReadInput, path: Resolved, source: DescriptorBytes, place: Workspace, halt: HaltSignal) -> ToolAnswer:
    with index_of(source.fd) as index:
        made = _text(given, path, _seen(given, source, index, halt))
    # After a native count this far, counting the rest on demand takes no longer.
    far = given.offset > FAR and native_count() is not None
    if not index.whole and not far:
        count_ahead(source, place)  # for the next read
    return made


def _seen(given: ReadInput, source: ByteSource, index: LineIndex, halt: HaltSignal) -> LineWindow:
    first = max(given.offset, 1) - 1
    return read_line_window(
        source, index, LineRequest(first, given.limit, longest=LONGEST * 4, most=MOST_TEXT * 4), halt
    )


class _Rows(NamedTuple):
    texts: list[str]
    cut: int  # lines that are shortened
    broken: bool  # whether some bytes are not UTF-8
    full: bool  # whether the limit was reached


def _text(given: ReadInput, path: Resolved, seen: LineWindow, *, broken: bool = False) -> ToolAnswer:
    first = max(given.offset, 1)
    if not seen.lines:
        count = "fewer lines" if seen.total is None else _counted(seen.total, "line")
        raise ToolError(f"'{path.asked}' has {count}, none from {first:,} on: choose a smaller 'offset'.")
    rows = _rows(seen.lines, first)
    shown = "".join([f"{number}\t{text}\n" for number, text in enumerate(rows.texts, first)])
    notes = _notes(rows, seen, first, broken)
    facts = _facts(path, "\n".join(rows.texts), first, len(rows.texts), seen.total)
    return make_answer(
        shown + "".join([f"[{note}]\n" for note in notes]), facts, Rendering(f"Read {plural(len(rows.texts), 'line')}")
    )


def _rows(lines: list[FileLine], first: int) -> _Rows:
    texts: list[str] = []
    cut, broken = 0, False
    room = MOST_TEXT
    for number, line in enumerate(lines, first):
        text, fine = _decoded(line)
        broken |= not fine
        if len(text) > LONGEST or line.cut:
            cut += 1
            text = f"{text[:LONGEST]} [... cut: this line has {line.size:,} bytes]"
        room -= len(text) + len(str(number)) + 2
        if room < 0 and texts:
            return _Rows(texts, cut, broken, full=True)
        texts.append(text)
    return _Rows(texts, cut, broken, full=False)


def _decoded(line: FileLine) -> tuple[str, bool]:
    """The line's text without its end, and whether all of it is UTF-8."""
    data = line.data if line.cut else line.data.removesuffix(b"\r")
    try:
        return without_nul(data.decode()), True
    except UnicodeDecodeError as error:
        at_the_cut = line.cut and error.start >= len(data) - 3
        return without_nul(data.decode("utf-8", "ignore" if at_the_cut else "replace")), at_the_cut


def _notes(rows: _Rows, seen: LineWindow, first: int, broken: bool) -> list[str]:
    notes: list[str] = []
    if rows.broken or broken:
        notes.append("Some bytes are not text in the file's encoding; they are shown as \ufffd.")
    if rows.cut:
        notes.append(f"{_counted(rows.cut, 'line')} cut at {LONGEST:,} characters.")
    if rows.full or seen.more:
        last = first + len(rows.texts) - 1
        total = f"about {_rounded(seen.about):,}" if seen.total is None else f"{seen.total:,}"
        notes.append(f"Lines {first}-{last} of {total}. Go on with offset={last + 1}, or search with Grep.")
    return notes


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _rounded(count: int) -> int:
    """Round to two digits: an estimate is no more precise."""
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return max(1, round(count / unit)) * unit


def _facts(path: Resolved, content: str, first: int, count: int, total: int | None) -> dict[str, Any]:
    file = {"filePath": path.real, "content": content, "numLines": count, "startLine": first, "totalLines": total}
    return {"type": "text", "file": file}


def _summary(given: ReadInput) -> str:
    if given.pages:
        return f"Read {given.file_path} (pages {given.pages})"
    if given.offset <= 1 and given.limit == MOST_LINES:
        return f"Read {given.file_path}"
    first = max(given.offset, 1)
    return f"Read {given.file_path} (lines {first}-{first + given.limit - 1})"


READ = Tool(
    name="Read",
    about=(
        "Read a file. Each line of text comes as its number, a tab, and the line as it is: number and tab are no part "
        f"of the file. At most {MOST_LINES} lines at once, and lines over {LONGEST} characters are cut; choose others "
        "with 'offset' and 'limit'. Images (PNG, JPEG, GIF, WebP), PDF documents of up to "
        f"{media.MOST_PAGES} pages (of longer ones, some 'pages') and notebooks (.ipynb, with outputs) are shown as "
        "such. Not for folders: use Glob, or ls in Bash. A file "
        "must be read before Edit or Write can change it."
    ),
    input=ReadInput,
    run=run_read,
    read_only=True,
    paths=("file_path",),
    summary=_summary,
)
