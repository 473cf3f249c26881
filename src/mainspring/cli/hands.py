"""Read, Edit, Write and Bash: real, and a few lines each, until the tools package brings better ones.

Nobody can be asked for permission yet. So which of them are offered is decided beforehand (`world.py`), and those that
are not allowed everywhere keep to the working folder and to those that `--add-dir` adds.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from mainspring.cli.shell import Shell
from mainspring.core.errors import ToolError
from mainspring.core.messages import ToolCall
from mainspring.core.value import Bundle
from mainspring.engine.plain import Tool
from mainspring.providers.base import ToolSpec

MOST_BYTES = 10_000_000  # of a file that is read
MOST_LINES = 2_000  # that are shown at once, unless more are asked for
MOST_SHOWN = 100_000  # characters of a result: about 30,000 tokens
SECONDS, MOST_SECONDS = 120, 600  # of a command


# --- what the model may say -------------------------------------------------------------------------


class ReadInput(Struct, forbid_unknown_fields=True):
    file_path: str
    offset: int = 1
    limit: int = MOST_LINES


class EditInput(Struct, forbid_unknown_fields=True):
    file_path: str
    old_string: str
    new_string: str
    replace_all: bool = False


class WriteInput(Struct, forbid_unknown_fields=True):
    file_path: str
    content: str


class BashInput(Struct, forbid_unknown_fields=True):
    command: str
    timeout: int = SECONDS * 1_000
    description: str = ""


def spec(name: str, about: str, required: dict[str, str], optional: dict[str, tuple[str, str]]) -> ToolSpec:
    """What is required is text; of the others, the kind stands before the words."""
    fields = {field: {"type": "string", "description": words} for field, words in required.items()}
    fields |= {field: {"type": kind, "description": words} for field, (kind, words) in optional.items()}
    schema = {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}
    return ToolSpec(name, about, schema)


FILE = "The file; relative names start at the working folder."

SPECS: dict[str, ToolSpec] = {
    tool.name: tool
    for tool in (
        spec(
            "Read",
            f"Read a text file. Each line comes with its number. At most {MOST_LINES} lines at once: 'offset' and "
            "'limit' choose others.",
            {"file_path": FILE},
            {"offset": ("integer", "The first line, counted from 1."), "limit": ("integer", "How many lines.")},
        ),
        spec(
            "Edit",
            "Replace a text in a file by another. Read the file first. 'old_string' must match exactly, without line "
            "numbers, and occur once, unless 'replace_all' is true.",
            {"file_path": FILE, "old_string": "What is there.", "new_string": "What is to be there."},
            {"replace_all": ("boolean", "Replace it wherever it occurs.")},
        ),
        spec(
            "Write",
            "Write a file, new or in place of one that is there.",
            {"file_path": FILE, "content": "All of it."},
            {},
        ),
        spec(
            "Bash",
            "Run a command in the working folder with /bin/sh, and see what it prints. It has no terminal, no standard "
            "input, and nothing it starts outlives it.",
            {"command": "The command."},
            {
                "timeout": (
                    "integer",
                    f"Milliseconds; {SECONDS * 1_000} unless given, {MOST_SECONDS * 1_000} at most.",
                ),
                "description": ("string", "What it does, in a few words."),
            },
        ),
    )
}
NAMES = tuple(SPECS)


class Reach(Bundle):
    """How far a tool may go."""

    folder: str
    roots: tuple[str, ...] | None = None  # real paths; None: anywhere

    def path(self, name: str) -> str:
        """The file that is meant. Links are followed before it is decided whether it lies within."""
        real = os.path.realpath(os.path.join(self.folder, name))  # noqa: PTH118  # pathlib takes 8 ms to load
        if self.roots is not None and not any(within(root, real) for root in self.roots):
            raise ToolError(f"'{name}' lies outside of the working folder: only '--add-dir' can allow it")
        return real


def within(root: str, path: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


# --- the tools --------------------------------------------------------------------------------------

Given = TypeVar("Given", bound=Struct)


def checked(kind: type[Given], act: Callable[[Given], Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """A tool whose input is looked at first; what is wrong with it the model is told."""

    async def run(**given: Any) -> str:
        try:
            wanted = msgspec.convert(given, kind)
        except msgspec.ValidationError as error:
            raise ToolError(f"The input does not fit: {error}") from None
        return await act(wanted)

    return run


def never(_: ToolCall) -> bool:
    return False


def tools(reaches: dict[str, Reach], shell: Shell, *, harmless: Callable[[ToolCall], bool] = never) -> tuple[Tool, ...]:
    """Those that have a reach. A command that is known to be harmless need not wait for the end of the reply."""

    async def read(given: ReadInput) -> str:
        return numbered(load(reaches["Read"], given.file_path), given.offset, given.limit)

    async def edit(given: EditInput) -> str:
        return replace_in(reaches["Edit"], given)

    async def write(given: WriteInput) -> str:
        store(reaches["Write"].path(given.file_path), given.file_path, given.content)
        return f"'{given.file_path}' is written: {len(given.content):,} characters"

    async def bash(given: BashInput) -> str:
        return await shell.run(given.command, min(given.timeout / 1_000, MOST_SECONDS))

    made = (
        Tool("Read", checked(ReadInput, read), True, SPECS["Read"]),
        Tool("Edit", checked(EditInput, edit), False, SPECS["Edit"]),
        Tool("Write", checked(WriteInput, write), False, SPECS["Write"]),
        Tool("Bash", checked(BashInput, bash), harmless, SPECS["Bash"]),
    )
    return tuple([tool for tool in made if tool.name in reaches])


def numbered(text: str, offset: int, limit: int) -> str:
    lines = text.splitlines()
    shown = lines[max(0, offset - 1) :][: max(1, limit)]
    result = "\n".join([f"{number:>3}  {line}" for number, line in enumerate(shown, start=max(1, offset))])
    if len(result) > MOST_SHOWN:
        return f"{result[:MOST_SHOWN]}\n... cut here, of {len(lines):,} lines in all: ask for fewer with 'limit'"
    left = len(lines) - (max(1, offset) - 1 + len(shown))
    return f"{result}\n... {left:,} more lines" if left > 0 and limit == MOST_LINES else result


def replace_in(reach: Reach, given: EditInput) -> str:
    text = load(reach, given.file_path)
    found = text.count(given.old_string) if given.old_string else 0
    if not found or (found > 1 and not given.replace_all):
        raise ToolError(
            f"'{given.old_string}' occurs {found} times in '{given.file_path}'; give a text that occurs once"
        )
    store(reach.path(given.file_path), given.file_path, text.replace(given.old_string, given.new_string))
    return f"- {given.old_string}\n+ {given.new_string}"


# --- files ------------------------------------------------------------------------------------------


def load(reach: Reach, name: str) -> str:
    """Regular files only (F3): a pipe or a device could make us wait for ever."""
    path = reach.path(name)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, encoding="utf-8", newline="") as file:  # noqa: PTH123  # line ends stay as they are
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise ToolError(f"'{name}' cannot be read: it is no ordinary file")
            if about.st_size > MOST_BYTES:
                raise ToolError(f"'{name}' cannot be read: it has {about.st_size:,} bytes, more than {MOST_BYTES:,}")
            return file.read()
    except UnicodeDecodeError:
        raise ToolError(f"'{name}' cannot be read: it is not text in UTF-8") from None
    except OSError as error:
        raise ToolError(f"'{name}' cannot be read: {error.strerror}") from error


def store(path: str, name: str, text: str) -> None:
    """Whole or not at all: a new file takes the place of the old one, with its mode (F4)."""
    beside = f"{path}.{os.urandom(4).hex()}.new"
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None  # noqa: PTH110, PTH116
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with open(fd, "w", encoding="utf-8", newline="", errors="surrogateescape") as file:  # noqa: PTH123
                file.write(text)
            if mode is not None:
                os.chmod(beside, mode)  # noqa: PTH101
            os.replace(beside, path)  # noqa: PTH105
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)  # noqa: PTH108
            raise
    except (OSError, UnicodeEncodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it holds half a character"
        raise ToolError(f"'{name}' cannot be written: {why}") from error
