"""File searches: the request, and the program that answers it.

The program is ripgrep if it is installed, else a walk in Python, also in a separate process: an expression may run
without limit, and only a process can be ended then. Both print the same format (`search_child.py`). Requests are passed
as data: no shell, one argument each, and nothing after `--` but `./` or descriptors. The walk in Python follows no
link.

ripgrep opens files by name, and another process may swap a directory for a link meanwhile: then it reports one file
under the name of another (security F1). So Landlock restricts it to the directory that was decided on. Where Landlock
is not available, or a rule denies some files in there, the output only says where to look: `search_confirmed` opens
each file that the rules allow without following a link, and ripgrep searches the open descriptors.

Besides the directory, ripgrep may read the ignore files above it and the user's own.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from mainspring.core.errors import ToolError
from mainspring.processes.confined import LIBRARIES, can_be_confined, hold_descriptors
from mainspring.processes.paths import PathRefused, Resolved, is_within, resolve_path
from mainspring.processes.safe_open import open_below, open_folder, open_read, read_resolved_file
from mainspring.tools.base import ToolContext, Workspace
from mainspring.tools.files import HaltSignal, describe_missing_file
from mainspring.tools.search_child import (
    MOST_MEMORY,
    SearchJob,
    SearchLocation,
    SearchOutput,
    crashed_by_itself,
    find_ripgrep,
    output_of,
    parse_counts,
    parse_groups,
    parse_names,
    search_environment,
)
from mainspring.tools.search_walk import COLUMNS, FILES, LARGEST, NEVER, FileSearchRequest, Mode

MOST = 2_000  # files
AT_ONCE = 100  # descriptors
DESCRIPTORS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"

Again = Callable[[dict[str, int]], SearchOutput]  # runs the same search in open files, with their names in the output


def is_there(folder: int, name: str) -> bool:
    """Whether this file exists below a directory, without a link in its path."""
    try:
        os.close(open_below(folder, name))
    except PermissionError:  # it exists, but access is denied
        return True
    except (OSError, PathRefused):
        return False
    return True


class ConfirmFolder(NamedTuple):
    """Where files are opened, and which of them."""

    folder: int  # a descriptor
    may_read: Callable[[str], bool]  # by a name below it


def confirm_matches(output: SearchOutput, mode: Mode, below: ConfirmFolder, again: Again) -> SearchOutput:
    """The answer restricted to files below the directory, under their real names."""
    found = found_in(output, mode)
    allowed = (name for name in found if below.may_read(name))
    chosen = list(islice(allowed, MOST))
    pieces: list[bytes] = []
    late, cut = output.late, output.cut or len(found) > MOST
    for at in range(0, len(chosen), AT_ONCE):
        with open_chosen_files(below.folder, chosen[at : at + AT_ONCE]) as files:
            if not files:
                continue
            told = again({f"{DESCRIPTORS}/{fd}": fd for fd in files})
        late, cut = late or told.late, cut or told.cut
        pieces += rename_matches(told, mode, {f"{DESCRIPTORS}/{fd}": name for fd, name in files.items()})
    between = b"\n" if mode == "content" else b""
    return output._replace(data=between.join(pieces), late=late, cut=cut)


def found_in(output: SearchOutput, mode: Mode) -> list[str]:
    if mode == "count":
        return [name for name, _ in parse_counts(output.data)]
    if mode == "content":
        return [group.name for group in parse_groups(output.data)]
    return parse_names(output.data)


@contextlib.contextmanager
def open_chosen_files(folder: int, chosen: Iterable[str]) -> Generator[dict[int, str]]:
    """Open the files that can be opened."""
    files: dict[int, str] = {}
    try:
        for name in chosen:
            with contextlib.suppress(OSError, PathRefused):
                files[open_below(folder, name)] = name
        yield files
    finally:
        for fd in files:
            os.close(fd)


def rename_matches(output: SearchOutput, mode: Mode, known: dict[str, str]) -> Iterator[bytes]:
    """Rename entry by entry, in the format of the first answer."""
    if mode == "count":
        for name, count in parse_counts(output.data):
            yield _head(known[name]) + b"%d\n" % count
    elif mode == "content":
        for group in parse_groups(output.data):
            yield _head(known[group.name]) + group.body
    else:
        for name in os.fsdecode(output.data).split("\0")[:-1]:
            yield _head(known[name])


def _head(name: str) -> bytes:
    return b"./" + os.fsencode(name) + b"\0"


GrantedPlace = TypeVar("GrantedPlace")

LARGEST_GIT_CONFIG = 1_000_000  # bytes of git's settings
_EXCLUDES = re.compile(rb"(?im)^\s*excludesfile\s*=\s*\"?\s*(\S+?)\s*\"?\s*$")  # as ripgrep reads them


@contextmanager
def ignore_files_above(real: str) -> Generator[tuple[int, ...]]:
    """Open the ignore files above a directory. No link is followed."""
    parts = real.strip("/").split("/") if real != "/" else []
    folders = ["/".join(["", *parts[:count]]) for count in range(len(parts))]
    with _opened([(folder, name) for folder in folders for name in FILES], _open_in) as found:
        yield found


def _open_in(place: tuple[str, str]) -> int:
    folder = open_folder(place[0])
    try:
        return open_below(folder, place[1])
    finally:
        os.close(folder)


@contextmanager
def users_ignore_files(env: Mapping[str, str], folders: tuple[str, ...]) -> Generator[tuple[tuple[int, ...], str]]:
    """Open the user's own ignore file, and return its name if git's settings name it: ripgrep cannot look there. A file
    below a working directory is skipped: a command could redirect it."""
    home = env.get("HOME", "")
    settings = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = _named(home, settings)
    path = _outside(named or f"{settings}/git/ignore", folders)
    with _opened([path] if path is not None else [], open_read) as found:
        yield found, named if found else ""


def _named(home: str, settings: str) -> str:
    for file in (f"{home}/.gitconfig", f"{settings}/git/config"):
        with suppress(OSError, PathRefused):
            if said := _EXCLUDES.search(read_resolved_file(resolve_path(file, "/"), limit=LARGEST_GIT_CONFIG)):
                name = os.fsdecode(said[1])
                return f"{home}{name[1:]}" if name.startswith("~/") else name
    return ""


def _outside(file: str, folders: tuple[str, ...]) -> Resolved | None:
    with suppress(PathRefused):
        path = resolve_path(file, "/") if file.startswith("/") else None
        if path is not None and path.kind == "file":
            inside = any(is_within(name, folder) for name in path.names for folder in folders)
            return None if inside else path
    return None


@contextmanager
def _opened(places: Iterable[GrantedPlace], open_one: Callable[[GrantedPlace], int]) -> Generator[tuple[int, ...]]:
    """Open those that can be opened."""
    found: list[int] = []
    try:
        for place in places:
            with suppress(OSError, PathRefused):
                found.append(open_one(place))
        yield tuple(found)
    finally:
        for descriptor in found:
            os.close(descriptor)


SECONDS = 20
LONGEST = 20_000  # characters of a pattern
MOST_OUTPUT = 8_000_000  # bytes; no more would be shown anyway
MOST_NAMES = 32_000_000  # bytes of a list of all files, from which some are chosen: about half a million


@contextmanager
def open_search_root(path: Resolved, calling: ToolContext) -> Generator[SearchLocation]:
    """Open the root of the search as descriptors: it stays the same even if another process swaps the names."""
    if path.kind == "missing":
        raise ToolError(describe_missing_file(path, calling))
    held: list[int] = []
    try:
        if path.kind != "folder":
            held.append(open_read(path))
        folder = path.real if path.kind == "folder" else path.real.rpartition("/")[0] or "/"
        held.append(open_folder(folder))
        yield SearchLocation(held[-1], folder, held[0] if len(held) > 1 else None)
    except OSError as error:
        raise ToolError(f"'{path.asked}' cannot be searched: {error.strerror}.") from None
    finally:
        for fd in held:
            os.close(fd)


def run_search(request: FileSearchRequest, where: SearchLocation, place: Workspace, halt: HaltSignal) -> SearchOutput:
    """The program's raw output."""
    _check(request)
    program = find_ripgrep(place)
    most = MOST_NAMES if request.mode == "names" else MOST_OUTPUT
    if program is None:
        return _fine(output_of(SearchJob(_python(request, where), search_environment(place), most), where, halt))
    job = SearchJob(
        [program, *_arguments(request, ["./" if where.file is None else "-"])], search_environment(place), most
    )
    return _fine(_confined(job, where, place, halt) if can_be_confined(program) else output_of(job, where, halt))


def search_confirmed(
    request: FileSearchRequest, where: SearchLocation, calling: ToolContext, halt: HaltSignal
) -> SearchOutput:
    """The results for files below the directory that no rule denies, whatever another process swaps meanwhile."""
    output = run_search(request, where, calling.place, halt)
    program = find_ripgrep(calling.place)
    if program is None or where.file is not None or not is_in_doubt(calling):
        return output
    plain = replace(request, globs=(), type=None)

    def may_read(name: str) -> bool:
        return calling.may_read(f"{where.name.rstrip('/')}/{name}")

    def again(files: dict[str, int]) -> SearchOutput:
        command = [program, "--no-ignore", *_arguments(plain, list(files))]
        job = SearchJob(command, search_environment(calling.place), MOST_OUTPUT, passed=tuple(files.values()))
        return output_of(job, where, halt)

    return confirm_matches(output, request.mode, ConfirmFolder(where.folder, may_read), again)


def is_in_doubt(calling: ToolContext) -> bool:
    """Whether ripgrep may report files that it must not see."""
    program = find_ripgrep(calling.place)
    return program is not None and (calling.has_read_rules or not can_be_confined(program))


def _confined(job: SearchJob, where: SearchLocation, place: Workspace, halt: HaltSignal) -> SearchOutput:
    """The program can read the directory, the ignore files above it, and itself."""
    if where.file is not None:
        with hold_descriptors((job.command[0], *LIBRARIES)) as system:
            return output_of(job._replace(readable=system), where, halt)
    with (
        hold_descriptors((job.command[0], *LIBRARIES)) as system,
        ignore_files_above(where.name) as above,
        users_ignore_files(job.env, (place.root, *place.folders)) as (own, named),
    ):
        words = [f"--ignore-file={named}"] if named else []
        command = [job.command[0], *words, *job.command[1:]]
        return output_of(job._replace(command=command, readable=(where.folder, *system, *above, *own)), where, halt)


def _check(request: FileSearchRequest) -> None:
    texts = (("pattern", request.pattern), ("type", request.type or ""), *[("glob", one) for one in request.globs])
    for name, text in texts:
        if len(text) > LONGEST:
            raise ToolError(f"The {name} has {len(text):,} characters; {LONGEST:,} is the limit.")
        if "\0" in text:
            raise ToolError(f"The {name} contains a NUL character, which no text file does.")


def _fine(output: SearchOutput) -> SearchOutput:
    if crashed_by_itself(output):
        raise ToolError(
            f"The search crashed: some line may be longer than the {MOST_MEMORY // 1_000_000:,} MB that it can keep. "
            "Name other files with 'path' or 'glob'."
        )
    if output.code not in (0, 1) and not output.data and not output.late and output.errors:
        raise ToolError(f"The search failed: {_why(output.errors)}")
    return output


# Error texts of the program, and a hint in terms of the tool's input. The first match counts.
_HINTS = (
    ("is not allowed in a regex", "Set 'multiline': then matches may span lines."),
    ("look-around", "Search without it, and choose among what is found."),
    ("backreferences", "Search without them, and choose among what is found."),
    ("regex parse error", "Put '\\' before each sign that is meant as it is."),
    ("unrecognized file type", "Use 'glob' instead, such as '*.ext'."),
)


def _why(errors: str) -> str:
    said = errors.strip().removeprefix("rg: ")
    for sign, hint in _HINTS:
        if sign in said:
            return f"{said.partition(chr(10) * 2)[0]}\n{hint}"  # later paragraphs mention flags
    return said


_FORM: dict[Mode, tuple[str, ...]] = {
    "names": ("--files",),
    "files": ("--files-with-matches",),
    "count": ("--count", "--with-filename"),
    "content": ("--heading", "--line-number", "--with-filename", f"--max-columns={COLUMNS}", "--max-columns-preview"),
}


def _arguments(request: FileSearchRequest, paths: list[str]) -> list[str]:
    made = ["--no-config", "--color=never", "--null", "--hidden", "--no-require-git"]
    made.append("--no-messages")  # about files that cannot be read: their names may be of a directory that was swapped
    made += _FORM[request.mode]
    made += [f"--glob={one}" for one in request.globs] + [f"--glob=!{{{','.join(NEVER)}}}"]
    if request.mode != "names":
        made += [f"--max-filesize={LARGEST}", "--crlf", f"--regexp={request.pattern}"]
        made += [f"--type={request.type}"] if request.type else []
        made += ["--ignore-case"] if request.ignore_case else []
        made += ["--multiline", "--multiline-dotall"] if request.multiline else []
    if request.mode == "content":
        made += [f"--before-context={request.before}", f"--after-context={request.after}"]
    return [*made, "--", *paths]


def _python(request: FileSearchRequest, where: SearchLocation) -> list[str]:
    asked = msgspec.json.encode(request).decode()
    return [sys.executable, "-I", "-m", "mainspring.tools.search_walk", asked, "-" if where.file is not None else "."]
