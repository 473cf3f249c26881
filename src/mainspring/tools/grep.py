"""Grep: find lines that match an expression, in all files that may be read.

The formatting functions turn search output into the result for the model. Lines of files that may not be read never get
here.
"""

import os
from codecs import BOM_UTF8
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, field

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.processes.paths import Resolved
from mainspring.text import plural
from mainspring.tools.base import MOST_SHOWN, Input, Tool, ToolAnswer, ToolContext, Workspace, make_answer
from mainspring.tools.files import HaltSignal, mark_half_characters, newest_first, run_in_thread
from mainspring.tools.glob import shown_prefix
from mainspring.tools.read_lines import DescriptorBytes, count_ahead
from mainspring.tools.search import SECONDS, open_search_root, search_confirmed
from mainspring.tools.search_child import FileMatches, SearchLine, SearchOutput, parse_counts, parse_groups, parse_names
from mainspring.tools.search_walk import LARGEST, FileSearchRequest, Mode

HEAD_LIMIT = 250  # lines or files
MOST_TEXT = MOST_SHOWN - 2_000  # characters; the rest is for notes


class ResultNames(NamedTuple):
    """Converts a name from the search output to one for the rules, and to one for the result."""

    folder: str
    prefix: str
    may_read: Callable[[str], bool]
    only: str = ""  # the one file that was searched, which the search gets without a name

    def allowed(self, name: str) -> bool:
        return self.may_read(f"{self.folder}/{self.only or name}")

    def shown(self, name: str) -> str:
        return mark_half_characters(self.prefix + (self.only or name))


class GrepPage(NamedTuple):
    names: ResultNames
    offset: int
    limit: int  # 0: all
    numbered: bool
    folder: int  # a descriptor

    @property
    def end(self) -> int | None:
        return self.offset + self.limit if self.limit else None


def _files(output: SearchOutput, page: GrepPage) -> ToolAnswer:
    data = output.data if not page.names.only else (b"-\0" if output.data else b"")
    found = [name for name in parse_names(data) if page.names.allowed(name)]
    if not page.names.only:
        found = newest_first(found, page.folder)
    shown, cut = _fitting([page.names.shown(name) for name in found[page.offset : page.end]])
    notes = _notes(output, page, GrepShare(len(shown), len(found), "files", cut))
    facts: dict[str, Any] = {"mode": "files_with_matches", "filenames": shown, "numFiles": len(shown)}
    lines = [f"Found {plural(len(found), 'file')}", *shown] if found else ["No files found."]
    return _answered(lines, notes, facts, page, f"Found {plural(len(found), 'file')}")


def _count(output: SearchOutput, page: GrepPage) -> ToolAnswer:
    found = sorted((name, count) for name, count in _counts(output, page) if page.names.allowed(name))
    total = sum(count for _, count in found)
    rows = [f"{page.names.shown(name)}:{count}" for name, count in found[page.offset : page.end]]
    shown, cut = _fitting(rows)
    notes = _notes(output, page, GrepShare(len(shown), len(found), "files", cut))
    facts: dict[str, Any] = {
        "mode": "count",
        "content": "\n".join(shown),
        "numFiles": len(found),
        "numMatches": total,
        "filenames": [],
    }
    lines = [*shown, f"{plural(total, 'line')} in {plural(len(found), 'file')}"] if found else ["No matches found."]
    return _answered(lines, notes, facts, page, f"Found {plural(total, 'line')} in {plural(len(found), 'file')}")


def _counts(output: SearchOutput, page: GrepPage) -> list[tuple[str, int]]:
    return (
        parse_counts(output.data) if not page.names.only else [("", number) for _, number in parse_counts(output.data)]
    )


def _content(output: SearchOutput, page: GrepPage) -> ToolAnswer:
    allowed = sorted([group for group in parse_groups(output.data) if page.names.allowed(group.name)])
    sizes = [group.size for group in allowed]
    total = sum(sizes)
    lines, shown, cut = _lines(allowed, sizes, page)
    notes = _notes(output, page, GrepShare(shown, total, "lines", cut))
    facts: dict[str, Any] = {
        "mode": "content",
        "content": "\n".join(lines),
        "numLines": shown,
        "numFiles": len(allowed),
        "filenames": [],
    }
    return _answered(lines or ["No matches found."], notes, facts, page, f"Found {plural(total, 'line')}")


def _lines(found: list[FileMatches], sizes: list[int], page: GrepPage) -> tuple[list[str], int, bool]:
    """Names and rows to show, the number of rows, and whether some did not fit."""
    lines: list[str] = []
    shown = 0
    room = MOST_TEXT
    at = 0  # rows of the previous groups
    for group, size in zip(found, sizes, strict=True):
        begins, at = at, at + size
        if at <= page.offset or (page.end is not None and begins >= page.end):
            continue
        rows = _chosen(group, page, begins)
        head = [*[""][: len(lines)], page.names.shown(group.name)]
        for row in rows:
            new = [*head, _row(row, page.numbered)]
            room -= sum(len(line) + 1 for line in new)
            if room < 0 and lines:
                return _without_gap(lines), shown, True
            lines += new
            head = []
            shown += bool(row.number)
    return _without_gap(lines), shown, False


def _chosen(group: FileMatches, page: GrepPage, at: int) -> list[SearchLine]:
    """The rows of this page; `at` rows precede it."""
    rows: list[SearchLine] = []
    for row in group.rows:
        at += bool(row.number)
        if at > page.offset and (page.end is None or at <= page.end) and (row.number or rows):
            rows.append(row)
    return rows


def _without_gap(lines: list[str]) -> list[str]:
    return lines[:-1] if lines and lines[-1] == "--" else lines


def _row(row: SearchLine, numbered: bool) -> str:
    if not row.number:
        return "--"
    return f"{row.number}{':' if row.found else '-'}{row.text}" if numbered else row.text


BY_MODE: dict[Mode, Callable[[SearchOutput, GrepPage], ToolAnswer]] = {
    "files": _files,
    "count": _count,
    "content": _content,
}


# --- what they share --------------------------------------------------------------------------------


def _fitting(rows: list[str]) -> tuple[list[str], bool]:
    room = MOST_TEXT
    for at, row in enumerate(rows):
        room -= len(row) + 1
        if room < 0:
            return rows[:at], True
    return rows, False


class GrepShare(NamedTuple):
    shown: int
    total: int
    what: str
    cut: bool  # more did not fit


def _notes(output: SearchOutput, page: GrepPage, share: GrepShare) -> list[str]:
    notes: list[str] = []
    end = page.offset + share.shown
    if not share.shown and share.total:
        notes.append(f"There are only {share.total:,} {share.what}: choose a smaller 'offset'.")
    elif share.cut or end < share.total:
        shown = f"{share.what.capitalize()} {page.offset + 1}-{end} of {share.total:,}"
        notes.append(f"{shown}. Go on with offset={end}, or narrow it.")
    if output.cut:
        notes.append("There is more than was looked at: narrow the search.")
    if output.some_unread:
        notes.append("Some files or folders could not be read.")
    if output.late:
        notes.append(f"The search was ended after {SECONDS} seconds and is not complete: narrow it.")
    return notes


def _answered(lines: list[str], notes: list[str], facts: dict[str, Any], page: GrepPage, summary: str) -> ToolAnswer:
    if page.limit and notes:
        facts["appliedLimit"] = page.limit
    if page.offset:
        facts["appliedOffset"] = page.offset
    text = "\n".join([*lines, *[f"[{note}]" for note in notes]]) + "\n"
    return make_answer(text, facts, Rendering(summary, "\n".join(lines)))


Output = Literal["content", "files_with_matches", "count"]
Lines = Annotated[int, Meta(ge=0, le=1_000)]

_MODES: dict[Output, Mode] = {"content": "content", "files_with_matches": "files", "count": "count"}


class GrepInput(Input, frozen=True):
    pattern: Annotated[str, "A regular expression (ripgrep): escape braces and other signs."]
    path: Annotated[str | None, "A file or folder; the working folder unless given."] = None
    glob: Annotated[str | None, "Only files whose names fit, such as '*.{ts,tsx}' or '!*.min.js'."] = None
    type: Annotated[str | None, "Only files of this type: py, js, rust, ..."] = None
    output_mode: Annotated[
        Output,
        "'content': lines. 'files_with_matches' (default): names, newest first. 'count': how many lines.",
    ] = "files_with_matches"
    after: Annotated[Lines, "Lines after each, for 'content'."] = field(default=0, name="-A")
    before: Annotated[Lines, "Lines before each."] = field(default=0, name="-B")
    around: Annotated[Lines, "Lines before and after."] = field(default=0, name="-C")
    numbers: Annotated[bool, "Show line numbers; yes unless given."] = field(default=True, name="-n")
    any_case: Annotated[bool, "Upper and lower case are the same."] = field(default=False, name="-i")
    multiline: Annotated[bool, "Matches may span lines; '.' fits a line end."] = False
    head_limit: Annotated[int, Meta(ge=0), f"Lines or files to show; {HEAD_LIMIT} unless given, 0: all."] = HEAD_LIMIT
    offset: Annotated[int, Meta(ge=0), "Lines or files to skip."] = 0


async def run_grep(given: GrepInput, calling: ToolContext) -> ToolAnswer:
    if not given.pattern:
        raise ToolError("The pattern is empty: it would match every line. Use Glob to list files.")
    return await run_in_thread(lambda halt: _grep(given, calling, halt), seconds=SECONDS)


def _grep(given: GrepInput, calling: ToolContext, halt: HaltSignal) -> ToolAnswer:
    place = calling.place
    path = calling.resolve(given.path or calling.cwd)
    request = FileSearchRequest(
        _MODES[given.output_mode],
        given.pattern,
        globs=(given.glob,) if given.glob else (),
        type=given.type,
        before=given.before or given.around,
        after=given.after or given.around,
        ignore_case=given.any_case,
        multiline=given.multiline,
    )
    with open_search_root(path, calling) as where:
        output = search_confirmed(request, where, calling, halt)
        page = GrepPage(_names(path, calling), given.offset, given.head_limit, given.numbers, where.folder)
        shown = BY_MODE[request.mode](output, page)
        if where.file is not None and request.mode == "content":
            _look_ahead(where.file, place)
        return shown


def _look_ahead(fd: int, place: Workspace) -> None:
    """A model that saw lines of a big file usually reads around them next."""
    marked = os.pread(fd, len(BOM_UTF8), 0) == BOM_UTF8
    count_ahead(DescriptorBytes(fd, len(BOM_UTF8) if marked else 0), place)


def _names(path: Resolved, calling: ToolContext) -> ResultNames:
    cwd = calling.place.cwd
    if path.kind == "file":
        folder, _, name = path.real.rpartition("/")
        return ResultNames(folder, shown_prefix(folder or "/", cwd), calling.may_read, only=name)
    return ResultNames(path.real.rstrip("/"), shown_prefix(path.real, cwd), calling.may_read)


def _summary(given: GrepInput) -> str:
    return f"Grep {given.pattern}" + (f" in {given.path}" if given.path else "")


GREP = Tool(
    name="Grep",
    about=(
        "Search the contents of files with ripgrep. What .gitignore lists, "
        f"binary files and files over {LARGEST // 1_000_000} MB are left out unless 'path' names the file."
    ),
    input=GrepInput,
    run=run_grep,
    read_only=True,
    paths=("path",),
    summary=_summary,
)
