"""Glob: find files by a name pattern, the newest first.

The tool lists all files that a search sees, and matches the pattern against that list itself: as a ripgrep option, the
pattern would include files that `.gitignore` excludes, and a `!` in it would have a meaning.
"""

from time import monotonic
from typing import Annotated, NamedTuple

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.processes.paths import Resolved, resolve_path
from mainspring.text import plural
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer
from mainspring.tools.files import HaltSignal, mark_half_characters, newest_first, run_in_thread
from mainspring.tools.glob_pattern import make_chooser, split_pattern
from mainspring.tools.search import SECONDS, is_in_doubt, is_there, open_search_root, run_search
from mainspring.tools.search_child import SearchOutput, parse_names
from mainspring.tools.search_walk import FileSearchRequest

MOST_FILES = 100
MOST_COUNTED = 2_000  # further files that are checked against the rules, to report how many there are


class GlobInput(Input, frozen=True):
    pattern: Annotated[str, "Such as '**/*.py', 'src/**/test_*.{js,ts}'."]
    path: Annotated[str | None, "The folder to look in; the working folder unless given."] = None


async def run_glob(given: GlobInput, calling: ToolContext) -> ToolAnswer:
    return await run_in_thread(lambda halt: _glob(given, calling, halt), seconds=SECONDS)


def _glob(given: GlobInput, calling: ToolContext, halt: HaltSignal) -> ToolAnswer:
    began = monotonic()
    place = calling.place
    root = calling.resolve(given.path or calling.cwd)
    if root.kind == "file":
        raise ToolError(f"'{root.asked}' is a file: give a folder as 'path', or use Read.")
    pattern = _below(given.pattern, root)
    start, rest = _start(root, pattern)
    chosen = make_chooser(rest, whole="/" in pattern)
    if start.kind == "missing" and root.kind != "missing":
        return _answered(GlobMatches([], 0, more=False), None, began)
    with open_search_root(start, calling) as where:
        output = run_search(FileSearchRequest("names"), where, place, halt)
        hits = chosen(parse_names(output.data))
        found = _newest(hits, where.folder, start.real, calling)
    prefix = shown_prefix(start.real, place.cwd)
    return _answered(GlobMatches([prefix + name for name in found.files], found.others, found.more), output, began)


class GlobMatches(NamedTuple):
    files: list[str]
    others: int  # not shown
    more: bool  # more than were counted


def _below(pattern: str, root: Resolved) -> str:
    """The pattern relative to the directory."""
    if "\0" in pattern or not pattern:
        raise ToolError("The pattern is empty, or contains a NUL character.")
    if pattern.startswith("/"):
        folder, rest = split_pattern(pattern)
        for name in root.names:
            if f"{folder}/".startswith(f"{name.rstrip('/')}/"):
                return f"./{pattern[len(name.rstrip('/')) + 1 :]}"
        raise ToolError(f"The pattern begins outside of '{root.real}': give '{folder}' as 'path', and '{rest}' here.")
    if ".." in pattern.split("/"):
        raise ToolError("The pattern leads upwards ('..'): give the folder as 'path' instead.")
    return pattern


def _start(root: Resolved, pattern: str) -> tuple[Resolved, str]:
    """Start deeper, if the pattern begins with directories. Not through a link, which may lead elsewhere."""
    folder, rest = split_pattern(pattern.removeprefix("./"))
    if not folder:
        return root, pattern
    straight = f"{root.real.rstrip('/')}/{folder}"
    start = resolve_path(straight, "/")
    if start.real != straight or start.kind not in ("folder", "missing"):
        return root, pattern
    return start, rest


def _newest(hits: list[str], folder: int, real: str, calling: ToolContext) -> GlobMatches:
    """The newest files that may be read."""
    files: list[str] = []
    others = 0
    doubt = is_in_doubt(calling)
    for name in newest_first(hits, folder):
        if not calling.may_read(f"{real.rstrip('/')}/{name}"):
            continue
        if len(files) < MOST_FILES:
            if doubt and not is_there(folder, name):
                continue
            files.append(name)
            continue
        others += 1
        if others > MOST_COUNTED:
            return GlobMatches(files, MOST_COUNTED, more=True)
    return GlobMatches(files, others, more=False)


def shown_prefix(real: str, cwd: str) -> str:
    """The prefix of a name below a directory: the shortest path from the working directory."""
    if real == cwd:
        return ""
    within = real.startswith(f"{cwd.rstrip('/')}/")
    return f"{real[len(cwd.rstrip('/')) + 1 :] if within else real.rstrip('/')}/"


def _answered(found: GlobMatches, output: SearchOutput | None, began: float) -> ToolAnswer:
    files = [mark_half_characters(name) for name in found.files]
    lines = [*files] or ["No files found."]
    if found.others:
        more = "More than " if found.more else ""
        lines.append(f"[{more}{plural(found.others, 'other file')} not shown: use a narrower pattern.]")
    if output is not None and (output.cut or output.late):
        lines.append("[Not all folders were looked at: there are too many files. Name a folder as 'path'.]")
    if output is not None and output.some_unread:
        lines.append("[Some folders could not be read.]")
    facts = {
        "filenames": files,
        "durationMs": round((monotonic() - began) * 1_000),
        "numFiles": len(files),
        "truncated": bool(found.others),
    }
    count = len(files) + found.others
    return make_answer("\n".join(lines) + "\n", facts, Rendering(f"Found {plural(count, 'file')}", "\n".join(files)))


def _summary(given: GlobInput) -> str:
    return f"Glob {given.pattern}" + (f" in {given.path}" if given.path else "")


GLOB = Tool(
    name="Glob",
    about=(
        f"Find files by name, the last changed first, at most {MOST_FILES}. '**' stands for any folders; a pattern "
        "without a slash is about names at any depth. What .gitignore lists is left out."
    ),
    input=GlobInput,
    run=run_glob,
    read_only=True,
    paths=("path",),
    summary=_summary,
)
