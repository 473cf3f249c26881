"""One search, whoever does it: what is asked, and the program that answers.

ripgrep if there is one, else a walk in Python, in a process of its own as well: an expression may take for ever, and
only a process can be ended then. Both answer in the same form (`search_output.py`). What they are asked is data: no
shell, one argument each, and nothing after `--` but `./`.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

import msgspec

from mainspring.core.errors import ToolError
from mainspring.processes.opening import open_folder, open_read
from mainspring.processes.paths import Resolved
from mainspring.tools.aside import Halt
from mainspring.tools.base import Calling, Place
from mainspring.tools.files import missing
from mainspring.tools.search_child import MOST_MEMORY, Output, Where, died, environment, output_of, ripgrep
from mainspring.tools.search_request import COLUMNS, LARGEST, NEVER, Mode, Request

SECONDS = 20
LONGEST = 20_000  # characters of a pattern
MOST_OUTPUT = 8_000_000  # bytes; no more would be shown anyway
MOST_NAMES = 32_000_000  # bytes of a list of all files, from which some are chosen: about half a million


@contextmanager
def begun(path: Resolved, calling: Calling) -> Generator[Where]:
    """Where the search is to be, held by descriptors: it stays there even if somebody swaps the names."""
    if path.kind == "missing":
        raise ToolError(missing(path, calling))
    held: list[int] = []
    try:
        if path.kind != "folder":
            held.append(open_read(path))
        folder = path.real if path.kind == "folder" else path.real.rpartition("/")[0] or "/"
        held.append(open_folder(folder))
        yield Where(held[-1], folder, held[0] if len(held) > 1 else None)
    except OSError as error:
        raise ToolError(f"'{path.asked}' cannot be searched: {error.strerror}.") from None
    finally:
        for fd in held:
            os.close(fd)


def answered(request: Request, where: Where, place: Place, halt: Halt) -> Output:
    texts = (("pattern", request.pattern), ("type", request.type or ""), *[("glob", one) for one in request.globs])
    for name, text in texts:
        if len(text) > LONGEST:
            raise ToolError(f"The {name} has {len(text):,} characters; {LONGEST:,} is the most.")
        if "\0" in text:
            raise ToolError(f"The {name} holds a NUL character, which no text file does.")
    program = ripgrep(place)
    command = _python(request, where) if program is None else [program, *_arguments(request, where)]
    most = MOST_NAMES if request.mode == "names" else MOST_OUTPUT
    output = output_of(command, where, environment(place), most, halt)
    if died(output):
        raise ToolError(
            f"The search died: some line may be longer than the {MOST_MEMORY // 1_000_000:,} MB that it can keep. Name "
            "other files with 'path' or 'glob'."
        )
    if output.code not in (0, 1) and not output.data and not output.late:
        raise ToolError(f"The search failed: {_why(output.errors) or output.code}")
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


def _arguments(request: Request, where: Where) -> list[str]:
    made = ["--no-config", "--color=never", "--null", "--hidden", "--no-require-git"]
    made += _FORM[request.mode]
    made += [f"--glob={one}" for one in request.globs] + [f"--glob=!{{{','.join(NEVER)}}}"]
    if request.mode != "names":
        made += [f"--max-filesize={LARGEST}", "--crlf", f"--regexp={request.pattern}"]
        made += [f"--type={request.type}"] if request.type else []
        made += ["--ignore-case"] if request.ignore_case else []
        made += ["--multiline", "--multiline-dotall"] if request.multiline else []
    if request.mode == "content":
        made += [f"--before-context={request.before}", f"--after-context={request.after}"]
    return [*made, "--", "./" if where.file is None else "-"]


def _python(request: Request, where: Where) -> list[str]:
    asked = msgspec.json.encode(request).decode()
    return [sys.executable, "-I", "-m", "mainspring.tools.search_walk", asked, "-" if where.file is not None else "."]
