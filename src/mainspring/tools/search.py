"""One search, whoever does it: what is asked, and the program that answers.

ripgrep if there is one, else a walk in Python, in a process of its own as well: an expression may take for ever, and
only a process can be ended then. Both answer in the same form (`search_output.py`). What they are asked is data: no
shell, one argument each, and nothing after `--` but `./` or descriptors.

ripgrep opens files by name. So Landlock keeps it below the folder that was decided on (`confined.py`); where that is
not to be had, or a rule closes files in there, what it found is searched again through descriptors of ours
(`search_confirm.py`). The walk in Python follows no link.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from mainspring.core.errors import ToolError
from mainspring.processes.confined import LIBRARIES, can_be_confined, hold_descriptors
from mainspring.processes.paths import Resolved
from mainspring.processes.safe_open import open_folder, open_read
from mainspring.tools.aside import HaltSignal
from mainspring.tools.base import ToolContext, Workspace
from mainspring.tools.files import describe_missing_file
from mainspring.tools.search_child import (
    MOST_MEMORY,
    SearchJob,
    SearchLocation,
    SearchOutput,
    crashed_by_itself,
    find_ripgrep,
    output_of,
    search_environment,
)
from mainspring.tools.search_confirm import ConfirmFolder, confirm_matches
from mainspring.tools.search_grants import ignore_files_above, users_ignore_files
from mainspring.tools.search_request import COLUMNS, LARGEST, NEVER, FileSearchRequest, Mode

SECONDS = 20
LONGEST = 20_000  # characters of a pattern
MOST_OUTPUT = 8_000_000  # bytes; no more would be shown anyway
MOST_NAMES = 32_000_000  # bytes of a list of all files, from which some are chosen: about half a million


@contextmanager
def open_search_root(path: Resolved, calling: ToolContext) -> Generator[SearchLocation]:
    """Where the search is to be, held by descriptors: it stays there even if somebody swaps the names."""
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
    """As the program tells it."""
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
    """What is true of files below the folder that no rule closes, whatever is swapped meanwhile."""
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
    """Whether ripgrep may tell of files that it should not have seen."""
    program = find_ripgrep(calling.place)
    return program is not None and (calling.has_read_rules or not can_be_confined(program))


def _confined(job: SearchJob, where: SearchLocation, place: Workspace, halt: HaltSignal) -> SearchOutput:
    """It can read what is below the folder, the files above that say what is left out, and itself."""
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
            raise ToolError(f"The {name} has {len(text):,} characters; {LONGEST:,} is the most.")
        if "\0" in text:
            raise ToolError(f"The {name} holds a NUL character, which no text file does.")


def _fine(output: SearchOutput) -> SearchOutput:
    if crashed_by_itself(output):
        raise ToolError(
            f"The search died: some line may be longer than the {MOST_MEMORY // 1_000_000:,} MB that it can keep. Name "
            "other files with 'path' or 'glob'."
        )
    if output.code not in (0, 1) and not output.data and not output.late and output.errors:
        raise ToolError(f"The search failed: {_why(output.errors)}")
    return output


# What the program complains of, and the way out of it with what the tool takes. The first one that fits counts.
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
            return f"{said.partition(chr(10) * 2)[0]}\n{hint}"  # further paragraphs speak of flags
    return said


_FORM: dict[Mode, tuple[str, ...]] = {
    "names": ("--files",),
    "files": ("--files-with-matches",),
    "count": ("--count", "--with-filename"),
    "content": ("--heading", "--line-number", "--with-filename", f"--max-columns={COLUMNS}", "--max-columns-preview"),
}


def _arguments(request: FileSearchRequest, paths: list[str]) -> list[str]:
    made = ["--no-config", "--color=never", "--null", "--hidden", "--no-require-git"]
    made.append("--no-messages")  # about files that cannot be read: their names may be of a folder that was swapped
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
