"""Grep: lines that fit an expression, in all files that may be read."""

import os
from codecs import BOM_UTF8
from typing import Annotated, Literal

from msgspec import Meta, field

from mainspring.core.errors import ToolError
from mainspring.processes.paths import Resolved
from mainspring.tools import grep_shown
from mainspring.tools.aside import HaltSignal, run_in_thread
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, Workspace
from mainspring.tools.glob import shown_prefix
from mainspring.tools.grep_shown import HEAD_LIMIT, GrepPage, ResultNames
from mainspring.tools.line_ends import DescriptorBytes
from mainspring.tools.search import SECONDS, open_search_root, search_confirmed
from mainspring.tools.search_request import LARGEST, FileSearchRequest, Mode

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
        raise ToolError("The pattern is empty: it would fit every line. Use Glob to list files.")
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
        shown = grep_shown.BY_MODE[request.mode](output, page)
        if where.file is not None and request.mode == "content":
            _look_ahead(where.file, place)
        return shown


def _look_ahead(fd: int, place: Workspace) -> None:
    """Who was shown lines of a big file reads around them next."""
    from mainspring.tools.counting import count_ahead  # most searches are in folders

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
