r"""The search without ripgrep: a separate program that prints what ripgrep would (`search_child.py`).

Its expressions are Python's, which differ in rare cases (`\\pL`, `\\z`). Links are not followed. The module is light,
because the program starts anew for each search. It knows fewer file types than ripgrep.

It reads the ignore rules in `.git/info/exclude`, `.gitignore`, `.ignore` and `.rgignore` of a directory and of all
above it. Not the user's own file, which only git's settings can name.
"""

import os
import re
import stat
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from mainspring.core.errors import ToolError
from mainspring.processes.paths import PathRefused
from mainspring.processes.safe_open import open_below
from mainspring.tools.glob_pattern import compile_glob, without_braces

COLUMNS = 500  # bytes of a line that are shown
LARGEST = 100_000_000  # bytes of a file that is searched without being named itself
NEVER = (".git", ".hg", ".svn", ".jj", ".bzr")  # internal directories of version control

Mode = Literal["names", "files", "content", "count"]


class FileSearchRequest(Struct, frozen=True):
    mode: Mode
    pattern: str = ""
    globs: tuple[str, ...] = ()
    type: str | None = None
    before: int = 0
    after: int = 0
    ignore_case: bool = False
    multiline: bool = False


TYPES: dict[str, tuple[str, ...]] = {
    "c": (".c", ".h"),
    "cpp": (".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".h"),
    "cs": (".cs",),
    "css": (".css", ".scss"),
    "csv": (".csv",),
    "go": (".go",),
    "html": (".html", ".htm"),
    "java": (".java", ".jsp", ".properties"),
    "js": (".js", ".jsx", ".mjs", ".cjs", ".vue"),
    "json": (".json",),
    "kotlin": (".kt", ".kts"),
    "lua": (".lua",),
    "md": (".md", ".markdown", ".mdown", ".mdx", ".mkd"),
    "php": (".php", ".phtml"),
    "py": (".py", ".pyi"),
    "rb": (".rb", ".gemspec"),
    "rust": (".rs",),
    "sh": (".sh", ".bash", ".zsh"),
    "sql": (".sql",),
    "swift": (".swift",),
    "toml": (".toml",),
    "ts": (".ts", ".tsx", ".mts", ".cts"),
    "txt": (".txt",),
    "xml": (".xml",),
    "yaml": (".yaml", ".yml"),
}


FILES = (".git/info/exclude", ".gitignore", ".ignore", ".rgignore")  # later ones take precedence
LARGEST_IGNORE_FILE = 1_000_000  # bytes of such a file
LONGEST = 1_000  # characters of a rule


class IgnoreRule(NamedTuple):
    matches: re.Pattern[str]
    ignore: bool
    folders_only: bool


class IgnoreRules(NamedTuple):
    """The rules of one directory."""

    prefix: str  # from there to the start of the walk; empty, or ends with a slash
    below: str  # from the start of the walk to there, likewise
    rules: list[IgnoreRule]

    def decide(self, path: str, *, folder: bool) -> bool | None:
        """Whether it is ignored; None: no rule matches. `path` is relative to the start of the walk."""
        here = self.prefix + path.removeprefix(self.below)
        for rule in reversed(self.rules):
            if (folder or not rule.folders_only) and rule.matches.match(here):
                return rule.ignore
        return None


def is_ignored(path: str, stack: list[IgnoreRules], *, folder: bool) -> bool:
    for rules in reversed(stack):
        said = rules.decide(path, folder=folder)
        if said is not None:
            return said
    return False


def read_rules_above(start: str) -> list[IgnoreRules]:
    """The rules of the directories above, the outermost first."""
    stack: list[IgnoreRules] = []
    parts = start.strip("/").split("/") if start != "/" else []
    for count in range(len(parts)):
        folder = "/" + "/".join(parts[:count])
        stack += read_rules_in_folder(folder, "/".join(parts[count:]) + "/")
    return stack


def read_rules_in_folder(folder: str, prefix: str) -> list[IgnoreRules]:
    rules = [rule for name in FILES for rule in _rules(f"{folder}/{name}")]
    return [IgnoreRules(prefix, "", rules)] if rules else []


def read_folder_rules(folder: int, below: str) -> list[IgnoreRules]:
    """The rules of a directory in the walk. No link is followed."""
    rules: list[IgnoreRule] = []
    for name in FILES:
        with suppress(OSError, PathRefused):
            rules += _parsed(open_below(folder, name))
    return [IgnoreRules("", below, rules)] if rules else []


def _rules(file: str) -> list[IgnoreRule]:
    try:
        return _parsed(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:  # none, or a directory of that name
        return []


def _parsed(fd: int) -> list[IgnoreRule]:
    """Closes the descriptor."""
    try:
        text = os.read(fd, LARGEST_IGNORE_FILE).decode("utf-8", "surrogateescape")
    finally:
        os.close(fd)
    return [rule for line in text.split("\n") if (rule := _rule(line)) is not None]


def _rule(line: str) -> IgnoreRule | None:
    line = line.removesuffix("\r").removeprefix("\ufeff")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#") or len(line) > LONGEST:
        return None
    kept = line.startswith("!")
    line = line[1:] if kept else line
    folders_only = line.endswith("/")
    line = line.rstrip("/") if folders_only else line
    if not line:
        return None
    try:
        return IgnoreRule(without_braces(line, whole="/" in line), not kept, folders_only)
    except re.error:  # such as an odd range
        return None


_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WIDE = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class WalkEntry(NamedTuple):
    """A file in the walk."""

    folder: int  # a descriptor, open until the next entry is requested
    name: str
    path: str  # relative to the start of the walk


class GlobFilter(NamedTuple):
    """The request's glob: files that match, or (with `!`) that do not."""

    matches: re.Pattern[str]
    wanted: bool


class DirectoryWalk:
    def __init__(self, request: FileSearchRequest) -> None:
        self.wishes = [_wish(one) for one in (*request.globs, *[f"!{name}" for name in NEVER])]
        self.choosy = any(wish.wanted for wish in self.wishes)
        self.ends = _ends(request.type)

    def files(self, folder: int, below: str, stack: list[IgnoreRules]) -> Iterator[WalkEntry]:
        """Walk from one descriptor to the next: a directory that is swapped for a link is not entered."""
        stack = [*stack, *read_folder_rules(folder, below)]
        try:
            with os.scandir(folder) as entries:
                found = sorted([(entry.name, _is_folder(entry)) for entry in entries])
        except OSError:
            return
        for name, is_folder in found:
            path = below + name
            if is_folder is None or not self.takes(path, stack, folder=is_folder):
                continue
            if not is_folder:
                yield WalkEntry(folder, name, path)
            elif (inner := _opened(name, _LIST, folder)) is not None:
                try:
                    yield from self.files(inner, f"{path}/", stack)
                finally:
                    os.close(inner)

    def takes(self, path: str, stack: list[IgnoreRules], *, folder: bool) -> bool:
        for wish in reversed(self.wishes):
            if wish.matches.match(path):
                return wish.wanted
        if self.choosy and not folder:
            return False
        if is_ignored(path, stack, folder=folder):
            return False
        return folder or not self.ends or path.endswith(self.ends)


def _is_folder(entry: os.DirEntry[str]) -> bool | None:
    """None: neither a directory nor a file."""
    if entry.is_dir(follow_symlinks=False):
        return True
    return False if entry.is_file(follow_symlinks=False) else None


def _opened(name: str, flags: int, folder: int | None = None) -> int | None:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError:
        return None


def _wish(glob: str) -> GlobFilter:
    pattern = glob.removeprefix("!")
    return GlobFilter(compile_glob(pattern, whole="/" in pattern), not glob.startswith("!"))


def _ends(kind: str | None) -> tuple[str, ...]:
    if kind is None:
        return ()
    if kind not in TYPES:
        raise ToolError(f"the type '{kind}' is unknown here: use 'glob', or one of {', '.join(TYPES)}")
    return TYPES[kind]


# --- in a file --------------------------------------------------------------------------------------


def text_of(name: str, folder: int) -> str | None:
    """None: it cannot be read, or is not text."""
    fd = _opened(name, _READ, folder)
    if fd is None:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            return None
        return _decoded(_all(fd))
    except OSError:
        return None
    finally:
        os.close(fd)


def _all(fd: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(fd, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _decoded(data: bytes) -> str | None:
    wide = _WIDE.get(data[:2])
    if wide is None and b"\0" in data:
        return None
    return data.decode(wide or "utf-8-sig", "replace").replace("\r\n", "\n")


def lines_found(text: str, pattern: re.Pattern[str], *, multiline: bool) -> Generator[int]:
    """The line numbers, counted from 0, in order and without duplicates."""
    if not multiline:
        lines = text.removesuffix("\n").split("\n") if text else []
        yield from (number for number, line in enumerate(lines) if pattern.search(line))
        return
    last = -1
    for found in pattern.finditer(text):
        first = text.count("\n", 0, found.start())
        end = max(found.start(), found.end() - 1)
        for number in range(max(first, last + 1), text.count("\n", 0, end) + 1):
            yield number
            last = number


def format_with_context(text: str, numbers: list[int], request: FileSearchRequest) -> str:
    """The matching lines and their context, as ripgrep prints them."""
    lines = text.removesuffix("\n").split("\n")
    found = set(numbers)
    shown = sorted(
        {
            near
            for number in numbers
            for near in range(max(0, number - request.before), min(len(lines), number + request.after + 1))
        }
    )
    out: list[str] = []
    for place, number in enumerate(shown):
        if place and shown[place - 1] != number - 1 and (request.before or request.after):
            out.append("--\n")
        sign = ":" if number in found else "-"
        out.append(f"{number + 1}{sign}{_short(lines[number])}\n")
    return "".join(out)


def _short(line: str) -> str:
    return line if len(line) <= COLUMNS else f"{line[:COLUMNS]} [... omitted end of long line]"


# --- the program ------------------------------------------------------------------------------------


def format_file_matches(name: str, text: str, pattern: re.Pattern[str], request: FileSearchRequest) -> bytes:
    numbers = lines_found(text, pattern, multiline=request.multiline)
    if request.mode == "files":
        return b"" if next(numbers, None) is None else os.fsencode(name) + b"\0"
    all_numbers = list(numbers)
    if not all_numbers:
        return b""
    if request.mode == "count":
        return os.fsencode(name) + b"\0" + f"{len(all_numbers)}\n".encode()
    return os.fsencode(name) + b"\0" + format_with_context(text, all_numbers, request).encode()


def iter_outputs(request: FileSearchRequest, where: str) -> Iterator[bytes]:
    flags = (re.IGNORECASE if request.ignore_case else 0) | re.MULTILINE
    pattern = re.compile(request.pattern, flags | (re.DOTALL if request.multiline else 0))
    if where == "-":
        text = _decoded(_all(0))
        yield b"" if text is None else format_file_matches("<stdin>", text, pattern, request)
        return
    start = os.open(".", _LIST)
    for entry in DirectoryWalk(request).files(start, "", read_rules_above(os.getcwd())):  # noqa: PTH109  # nor is pathlib loaded
        if request.mode == "names":
            yield os.fsencode(f"./{entry.path}") + b"\0"
        elif (text := text_of(entry.name, entry.folder)) is not None:
            yield format_file_matches(f"./{entry.path}", text, pattern, request)
    os.close(start)


def main() -> None:
    request = msgspec.json.decode(sys.argv[1], type=FileSearchRequest)
    between = b""
    try:
        for piece in iter_outputs(request, sys.argv[2]):
            if piece:
                sys.stdout.buffer.write(between + piece)
                between = b"\n" if request.mode == "content" else b""
        sys.stdout.buffer.flush()
    except (ToolError, re.error) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
