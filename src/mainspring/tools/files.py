"""What the file tools share: opening and decoding files, error messages for the model, and worker threads.

Text is decoded so that unchanged parts are written back byte for byte: UTF-8 with or without a byte order mark, UTF-16
with one. In UTF-8, invalid bytes become lone surrogates (`surrogateescape`), which no text from a model may contain.

Work that would block the event loop runs in a thread. A thread cannot be cancelled, so the work checks its `HaltSignal`
from time to time; `HaltSignal.also` registers what ends anything else, such as a child process.
"""

import asyncio
import codecs
import contextlib
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import NamedTuple, TypeVar

from mainspring.core.errors import ToolError
from mainspring.processes.paths import PathRefused, Resolved
from mainspring.processes.safe_open import open_listing, open_read, read_all
from mainspring.text import plural
from mainspring.tools.base import ToolContext

WHOLE = 10_000_000  # bytes; a file up to this size is read whole, remembered, and may be edited
MOST_NAMES = 2_000  # names of a directory that are compared with a wrong one
MOST_HINTS = 3


@contextmanager
def open_for_read(path: Resolved, calling: ToolContext) -> Generator[int]:
    """Open a file for reading. Errors become messages for the model."""
    try:
        fd = open_read(path)
    except FileNotFoundError:
        raise ToolError(describe_missing_file(path, calling)) from None
    except OSError as error:
        raise ToolError(f"'{path.asked}' cannot be read: {error.strerror}.") from None
    try:
        yield fd
    except OSError as error:
        raise ToolError(f"'{path.asked}' cannot be read: {error.strerror}.") from None
    finally:
        os.close(fd)


def read_whole_file(path: Resolved, calling: ToolContext) -> bytes:
    """Read all bytes of a file that may be edited."""
    with open_for_read(path, calling) as fd:
        size = os.fstat(fd).st_size
        if size > WHOLE:
            raise ToolError(f"'{path.asked}' has {size:,} bytes; {WHOLE:,} is the limit for edits: use Bash for it.")
        return read_all(fd, path.real, WHOLE)


def get_read_digest(path: Resolved, calling: ToolContext) -> str:
    """Return the digest of the content that the session read, for a file that is to be changed."""
    before = calling.place.read.of(path)
    if before is None:
        raise ToolError(f"'{path.asked}' was not read yet. Nothing was done: use Read on it first.")
    return before


def file_changed_error(path: Resolved) -> ToolError:
    return ToolError(
        f"'{path.asked}' changed since it was read, by a person or a program. Nothing was done: use Read on it again."
    )


@contextmanager
def translate_write_errors(path: Resolved) -> Generator[None]:
    """Turn errors of a write into messages for the model."""
    try:
        yield
    except PathRefused as error:
        raise ToolError(f"{error}. Nothing was done: name a file.") from None
    except OSError as error:
        raise ToolError(f"'{path.asked}' cannot be written: {error.strerror}.") from None


# --- missing files ----------------------------------------------------------------------------------


def describe_missing_file(path: Resolved, calling: ToolContext) -> str:
    said = f"'{path.asked}' does not exist."
    if not path.asked.startswith("/"):
        said += f" The working folder is '{calling.place.cwd}'."
    hints = _near(path.real, calling)
    return f"{said} Did you mean {' or '.join(hints)}?" if hints else said


def _near(real: str, calling: ToolContext) -> list[str]:
    """Similar names in the same directory, as far as they may be read."""
    folder, _, name = real.rpartition("/")
    try:
        fd = open_listing(folder)
    except (OSError, PathRefused):  # the directory is missing, too, or it is a link by now
        return []
    try:
        with os.scandir(fd) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST_NAMES), strict=False)]
    except OSError:
        return []
    finally:
        os.close(fd)
    found = [f"{folder}/{near}" for near in _alike(name, names)]
    return [f"'{near}'" for near in found if calling.may_read(near)][:MOST_HINTS]


def _alike(name: str, names: list[str]) -> list[str]:
    from difflib import get_close_matches  # only after a failure

    stem = _stem(name)
    same = sorted(other for other in names if _stem(other) == stem)
    close = get_close_matches(name[:100], names, n=MOST_HINTS, cutoff=0.75)
    return list(dict.fromkeys([*same[:MOST_HINTS], *close]))


def _stem(name: str) -> str:
    """The name without case and suffix: `App.tsx` and `app.ts` are similar."""
    return (name.rpartition(".")[0] or name).lower()


HEAD = 8_000  # bytes that are searched for a NUL, as git does

_UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class FileEncoding(NamedTuple):
    name: str = "utf-8"
    mark: bytes = b""

    @property
    def wide(self) -> bool:
        return self.name != "utf-8"

    @property
    def errors(self) -> str:
        return "surrogatepass" if self.wide else "surrogateescape"


UTF_8 = FileEncoding()


def coding_of(head: bytes, name: str) -> FileEncoding:
    """Detect the encoding from the first bytes. Raises `ToolError` with the file's name for a binary file."""
    if head.startswith(_UTF_32):
        raise ToolError(f"'{name}' is UTF-32, which is not read here: convert it with iconv, in Bash.")
    for mark, coding in _MARKS:
        if head.startswith(mark):
            return FileEncoding(coding, mark)
    if b"\0" in head[:HEAD]:
        raise ToolError(f"'{name}' is a binary file, not text: look at it with a program made for it, in Bash.")
    return UTF_8


def decode_text(data: bytes, name: str) -> tuple[str, FileEncoding]:
    """Decode the text without its byte order mark; `encode_text` restores the same bytes."""
    coding = coding_of(data[:HEAD], name)
    try:
        text = data[len(coding.mark) :].decode(coding.name, coding.errors)
    except UnicodeDecodeError:
        raise ToolError(f"'{name}' begins like UTF-16 but is not valid UTF-16: it cannot be edited as text.") from None
    return text, coding


def encode_text(text: str, coding: FileEncoding) -> bytes:
    return coding.mark + text.encode(coding.name, coding.errors)


def refuse_half_characters(**texts: str) -> None:
    """Text from a model must be valid Unicode to be written: a lone surrogate would become an arbitrary byte."""
    for name, text in texts.items():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ToolError(f"'{name}' contains half a character (a lone surrogate). Nothing was done.") from None


# --- line ends --------------------------------------------------------------------------------------


def normalize_newlines(text: str) -> str:
    """The text as the model sees it: every line ends in a single line feed."""
    return text.replace("\r\n", "\n")


def all_crlf(text: str) -> bool:
    """Whether there are lines, and each ends as on Windows."""
    count = text.count("\r\n")
    return count > 0 and count == text.count("\n")


def mark_half_characters(text: str) -> str:
    """Replace each lone surrogate by a visible sign; all positions stay the same."""
    try:
        text.encode()
    except UnicodeEncodeError:
        import re

        return re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text


AROUND = 4  # lines before and after
MOST_LINES = 40
LONGEST = 500  # characters of a line; a snippet is a reminder, not a full read


def number_lines(lines: list[str], first: int) -> str:
    """Number lines as Read shows them. `first` is the number of the first one."""
    return "".join([f"{number}\t{_short(line.rstrip(chr(10)))}\n" for number, line in enumerate(lines, first)])


def snippet_around(lines: list[str], start: int, end: int) -> str:
    """The lines from `start` to `end`, counted from 0, and those around them."""
    first, last = max(0, start - AROUND), min(len(lines), end + AROUND)
    if last - first <= MOST_LINES:
        return number_lines(lines[first:last], first + 1)
    half = MOST_LINES // 2
    left_out = last - first - 2 * half
    head, tail = lines[first : first + half], lines[last - half : last]
    return f"{number_lines(head, first + 1)}[{plural(left_out, 'line')}]\n{number_lines(tail, last - half + 1)}"


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} [... {plural(len(line) - LONGEST, 'more character')}]"


def newest_first(names: list[str], folder: int) -> list[str]:
    """Sort names below an open directory by their last change. Files that are gone by now come last."""
    times: list[tuple[int, str]] = []
    stat = os.stat
    for name in names:
        try:
            times.append((-stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns, name))
        except OSError:
            times.append((0, name))
    times.sort()
    return [name for _, name in times]


SMALL = 1 << 20  # bytes; smaller reads happen directly: handing work to a thread takes as long

T = TypeVar("T")


class HaltSignal:
    """Shared by the event loop, which sets it, and the worker, which checks it."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self.deadline = None if seconds is None else monotonic() + seconds
        self.set = False
        self._also: list[Callable[[], object]] = []

    def also(self, end: Callable[[], object]) -> None:
        """Register a function that is called when the work must end; at once if it must end already."""
        self._also.append(end)
        if self.set:
            end()

    def now(self) -> None:
        self.set = True
        for end in self._also:
            with contextlib.suppress(OSError):
                end()

    @property
    def left(self) -> float | None:
        """Seconds left, at least 0; None: no limit."""
        return None if self.deadline is None else max(0.0, self.deadline - monotonic())

    def check(self) -> None:
        if self.set:
            raise ToolError("It was cancelled.")
        if self.left == 0:
            raise ToolError(
                f"It took longer than {plural(self.seconds or 0, 'second')}, and was ended: ask for less at once."
            )


async def run_in_thread(work: Callable[[HaltSignal], T], *, seconds: float | None = None) -> T:
    """For work that changes nothing: a cancellation does not wait for it."""
    halt = HaltSignal(seconds)
    try:
        return await asyncio.to_thread(work, halt)
    except asyncio.CancelledError:  # the call was cancelled
        halt.now()
        raise


async def run_in_thread_to_end(work: Callable[[], T]) -> T:
    """For work that changes files: it is complete or undone when this returns, also after a cancellation."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:  # the call was cancelled; a write takes milliseconds, and its outcome must be known
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved: no other code reads it
        raise
