"""Write: write a whole file, a new one or one that the session has read.

The new content keeps the file's mode, encoding and byte order mark. If every line of it ended as on Windows, and the
new text has no carriage return at all, its lines end so as well: the model does not see line ends. A file with mixed
line ends gets the text as it was sent.
"""

from typing import Annotated, Any

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.processes.atomic_write import digest
from mainspring.processes.paths import Resolved
from mainspring.text import plural
from mainspring.tools import patch
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer
from mainspring.tools.edit import MOST_DIFF, MOST_ORIGINAL, MOST_PREVIEW
from mainspring.tools.files import (
    UTF_8,
    WHOLE,
    FileEncoding,
    all_crlf,
    decode_text,
    encode_text,
    file_changed_error,
    get_read_digest,
    mark_half_characters,
    normalize_newlines,
    read_whole_file,
    refuse_half_characters,
    run_in_thread_to_end,
    snippet_around,
    translate_write_errors,
)


class WriteInput(Input, frozen=True):
    file_path: Annotated[str, "The file; missing folders are made."]
    content: Annotated[str, "All of it."]


async def run_write(given: WriteInput, calling: ToolContext) -> ToolAnswer:
    refuse_half_characters(content=given.content)
    path = calling.resolve(given.file_path)
    return await run_in_thread_to_end(lambda: _write(given, path, calling))  # it waits for the disk


def _write(given: WriteInput, path: Resolved, calling: ToolContext) -> ToolAnswer:
    if path.kind != "file":
        _put(path, given.content.encode(), None, calling)
        return _created(given, path)
    before = get_read_digest(path, calling)
    old, coding = _read_old(path, before, calling)
    text = given.content
    if "\r" not in text and all_crlf(old):
        text = text.replace("\n", "\r\n")
    _put(path, encode_text(text.removeprefix("\ufeff") if coding.mark else text, coding), before, calling)
    return _updated(given, path, old)


async def preview_write(given: WriteInput, calling: ToolContext) -> str:
    """The new content beside the old one, as a diff."""
    refuse_half_characters(content=given.content)
    path = calling.resolve(given.file_path)
    return await run_in_thread_to_end(lambda: _preview(given, path, calling))


def _preview(given: WriteInput, path: Resolved, calling: ToolContext) -> str:
    if path.kind != "file":
        return ""
    old, _ = _read_old(path, get_read_digest(path, calling), calling)
    return patch.format_patch(_compared(given, old)[2], path.asked, MOST_PREVIEW)


def _read_old(path: Resolved, before: str, calling: ToolContext) -> tuple[str, FileEncoding]:
    data = read_whole_file(path, calling)
    if digest(data) != before:
        raise file_changed_error(path)
    return _old(data, path)


def _old(data: bytes, path: Resolved) -> tuple[str, FileEncoding]:
    """A file that was not text can be replaced as well, and then there is nothing to keep."""
    try:
        return decode_text(data, path.asked)
    except ToolError:
        return "", UTF_8


def _put(path: Resolved, data: bytes, before: str | None, calling: ToolContext) -> None:
    if len(data) > WHOLE:
        raise ToolError(f"'content' has {len(data):,} bytes; {WHOLE:,} is the limit. Nothing was done.")
    with translate_write_errors(path):
        calling.place.put(path, data, before=before)


# --- the result -------------------------------------------------------------------------------------


def _created(given: WriteInput, path: Resolved) -> ToolAnswer:
    lines = patch.lines_of(normalize_newlines(given.content))
    return make_answer(
        f"File created successfully at: {path.asked}",
        _facts("create", given, path, None, []),
        Rendering(f"Wrote {plural(len(lines), 'line')} to {path.asked}", snippet_around(lines, 0, min(len(lines), 20))),
    )


def _updated(given: WriteInput, path: Resolved, old_text: str) -> ToolAnswer:
    before = mark_half_characters(normalize_newlines(old_text))
    new, ranges, hunks = _compared(given, old_text)
    old = patch.lines_of(before)
    words = f"'{path.asked}' was replaced: {plural(len(old), 'line')} before, {len(new):,} now."
    if ranges and new:
        words += f" The first change is here:\n{snippet_around(new, ranges[0].new, ranges[0].new_end)}"
    plus, minus = patch.count_changes(hunks)
    shown = Rendering(
        f"Wrote {path.asked} (+{plus} -{minus})", patch.format_patch(hunks, path.asked, MOST_DIFF), "diff"
    )
    return make_answer(words, _facts("update", given, path, before, hunks), shown)


def _compared(given: WriteInput, old_text: str) -> tuple[list[str], list[patch.ChangedRange], list[dict[str, Any]]]:
    """The new lines, where they differ from the old ones, and the hunks."""
    old = patch.lines_of(mark_half_characters(normalize_newlines(old_text)))
    new = patch.lines_of(normalize_newlines(given.content.removeprefix("\ufeff")))
    ranges = patch.ranges_between(old, new)
    return new, ranges, patch.make_hunks(old, new, ranges)


def _facts(kind: str, given: WriteInput, path: Resolved, before: str | None, hunks: list[Any]) -> dict[str, Any]:
    kept = before if before is not None and len(before) <= MOST_ORIGINAL else None
    return {
        "type": kind,
        "filePath": path.real,
        "content": given.content,
        "structuredPatch": hunks,
        "originalFile": kept,
    }


def _summary(given: WriteInput) -> str:
    return f"Write {given.file_path}"


WRITE = Tool(
    name="Write",
    about=(
        "Write a whole file. One that is there already must have been read, and is replaced: to change a part of it, "
        "use Edit. Its mode, encoding and line ends are kept."
    ),
    input=WriteInput,
    run=run_write,
    paths=("file_path",),
    summary=_summary,
    preview=preview_write,
)
