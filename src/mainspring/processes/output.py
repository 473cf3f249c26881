"""The output of a program, of any size (security X6): both ends in memory, all of it in a capped file of ours.

Bytes come in as they are read. Text is decoded as UTF-8, with invalid bytes replaced, and no character is split at a
cut. The last lines matter as much as the first ones: in a test log, that is where the failure is.

Texts that are too long to show are stored in full, readable by their owner only, and shown with both their ends
(security P8).
"""

from __future__ import annotations

import codecs
import contextlib
import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mainspring.processes.safe_open import create_private
from mainspring.text import plural

HEAD, TAIL = 10_000, 20_000  # bytes that are kept: with the note between them, about 8,000 tokens
DISK = 64_000_000  # bytes of one output that are stored at most
BORDER = 1_000  # bytes that a cut may move to fall between two lines

_CONTINUED = range(0x80, 0xC0)  # bytes within a character
_LONGEST = 4  # bytes of a character


class OutputFilter(Protocol):
    """Takes bytes and returns as many bytes, though some of them only with the next chunk."""

    def feed(self, data: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


class OutputSizes(NamedTuple):
    """How much of an output is kept, and where. No folder: nothing is stored."""

    head: int = HEAD
    tail: int = TAIL
    folder: str = ""
    disk: int = DISK
    cover: Callable[[], OutputFilter] | None = None  # makes a filter that masks our keys in what is stored


class ProcessOutput:
    def __init__(self, sizes: OutputSizes, *, store_all: bool = False) -> None:
        """`store_all`: the file begins with the first byte; otherwise there is one only if something is left out."""
        self._sizes = sizes
        self._file = SpillFile(sizes.folder, sizes.disk, sizes.cover() if sizes.cover is not None else None)
        self._storing = store_all
        self._head, self._tail = bytearray(), bytearray()
        self.size = self.lines = 0  # since the beginning, or since `take`
        if store_all:
            self._file.write(b"")  # creates the file

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        if self.size <= self._sizes.disk:  # counting the lines of a flood would cost as much as reading it
            self.lines += data.count(b"\n")
        if self._storing:
            self._file.write(data)
        room = self._sizes.head - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if self.cut and not self._storing:
            self._storing = True
            self._file.write(bytes(self._head + self._tail))
        if len(self._tail) > 2 * self._sizes.tail:
            del self._tail[: len(self._tail) - self._sizes.tail]

    @property
    def cut(self) -> bool:
        """Whether the middle is no longer in memory."""
        return self.size > self._sizes.head + self._sizes.tail

    @property
    def path(self) -> str:
        """The file with all of it, or its beginning; empty if it is not stored."""
        return self._file.path

    @property
    def stored(self) -> int:
        """Bytes in that file."""
        return self._file.written

    @property
    def text(self) -> str:
        return self._text(final=True)

    @property
    def data(self) -> bytes:
        """Complete only if it is not `cut`."""
        return bytes(self._head + self._tail)

    def end(self, size: int) -> str:
        """The last part, for a progress display."""
        kept = bytes(self._tail[-size:]) if len(self._tail) >= size else self.data[-size:]
        return _from_character(kept).decode(errors="replace")

    def take(self) -> str:
        """The text since the last call. An incomplete character stays for the next."""
        text = self._text(final=False)
        _, unfinished = _decoded(self.data[-_LONGEST:])
        self._head, self._tail = bytearray(unfinished), bytearray()
        self.size, self.lines = len(unfinished), 0
        return text

    def close(self) -> None:
        self._file.close()

    def _text(self, *, final: bool) -> str:
        if not self.cut:
            return self.data.decode(errors="replace") if final else _decoded(self.data)[0]
        head = _to_line(bytes(self._head))
        tail = _from_line(bytes(self._tail[-self._sizes.tail :]))
        shown = tail.decode(errors="replace") if final else _decoded(tail)[0]
        return f"{_decoded(head)[0].rstrip()}\n\n{self._note(head, tail)}\n\n{shown}"

    def _note(self, head: bytes, tail: bytes) -> str:
        amount = plural(self.size - len(head) - len(tail), "byte")
        if self.size <= self._sizes.disk:
            amount = f"{plural(self.lines - head.count(NEWLINE) - tail.count(NEWLINE), 'line')} ({amount})"
        return f"[... {amount} left out here. {self._file.told} ...]"


class SpillFile:
    """A file for an output that is too long to show. It never fails: the note reports a full disk."""

    def __init__(self, folder: str, most: int, cover: OutputFilter | None = None) -> None:
        self.path = ""
        self._cover = cover
        self._folder, self._most = folder, most
        self._fd, self.written = -1, 0
        self._closed = not folder
        self._why = ""  # how much is stored, if not everything

    def write(self, data: bytes) -> None:
        if self._closed:
            return
        try:
            if self._fd < 0:
                self.path, self._fd = create_spill_file(self._folder)
            data = self._cover.feed(data) if self._cover is not None else data
            room = self._most - self.written
            self.written += _write_all(self._fd, data[:room])
            if room < len(data):
                self._why = f"Its first {self._most:,} bytes are"
                self.close()
        except OSError as error:
            self._why = f"A part ({error.strerror}) is" if self.path else ""
            self.close()

    @property
    def told(self) -> str:
        if not self.path:
            return "It is not stored: run it again with 'head', 'tail' or 'grep' to see it"
        return f"{self._why or 'The whole is'} in '{self.path}': Read it with 'offset', or search it with Grep"

    def close(self) -> None:
        self._closed = True
        if self._fd >= 0:
            if self._cover is not None:
                with contextlib.suppress(OSError):  # the note reports a full disk
                    self.written += _write_all(self._fd, self._cover.finish()[: self._most - self.written])
            os.close(self._fd)
            self._fd = -1


def create_spill_file(folder: str) -> tuple[str, int]:
    """A new file that only we can read, whatever the umask is, and whatever exists there."""
    name = f"output-{os.urandom(8).hex()}.txt"
    fd = create_private(folder, name)
    with contextlib.suppress(OSError):  # a file system without modes
        os.fchmod(fd, 0o600)
    return f"{folder}/{name}", fd


def _write_all(fd: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return len(data)


# --- where to cut -----------------------------------------------------------------------------------------------

NEWLINE = b"\n"


def _decoded(data: bytes) -> tuple[str, bytes]:
    """The text, and the bytes of an incomplete character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data)
    return text, decoder.getstate()[0]


def _to_line(head: bytes) -> bytes:
    end = head.rfind(NEWLINE, len(head) - BORDER if len(head) > BORDER else 0)
    return head[: end + 1] if end >= 0 else head


def _from_line(tail: bytes) -> bytes:
    start = tail.find(NEWLINE, 0, BORDER)
    return tail[start + 1 :] if start >= 0 else _from_character(tail)


def _from_character(data: bytes) -> bytes:
    skipped = 0
    while skipped < min(_LONGEST - 1, len(data)) and data[skipped] in _CONTINUED:
        skipped += 1
    return data[skipped:]


# --- all outputs of a session -----------------------------------------------------------------------------------

TOTAL = 4 * DISK  # bytes of stored outputs that a session keeps


class StoredOutputs:
    """The files of a session, so that many large outputs do not fill the disk: the oldest are removed."""

    def __init__(self, most: int = TOTAL) -> None:
        self._most = most
        self._files: dict[str, int] = {}

    def keep(self, output: ProcessOutput) -> None:
        """Registers a complete output."""
        if output.path:
            self._files[output.path] = output.stored
        while sum(self._files.values()) > self._most:
            oldest = next(iter(self._files))
            del self._files[oldest]
            with contextlib.suppress(OSError):  # another process removed it first
                os.unlink(oldest)  # noqa: PTH108


MOST_STORED = 64 << 20  # bytes of one text


class SpillFolder:
    """A folder for them, by its real path."""

    def __init__(self, folder: str = "", cover: Callable[[bytes], bytes] = bytes) -> None:
        """`cover` masks secrets with stars."""
        self._folder = folder  # empty: nothing is stored
        self._cover = cover

    def put(self, name: str, text: str) -> str:
        """Returns the path; empty if it could not be stored, which is no error. An existing file is left as it is:
        named after its message, a text gets the same path also after a resume.
        """
        safe = "".join([c for c in name if c.isascii() and (c.isalnum() or c in "-_")])[:64]
        if not self._folder or not safe:
            return ""
        path = f"{self._folder}/{safe}.txt"
        try:
            write_new_file(path, self._cover(text.encode("utf-8", "replace")[:MOST_STORED]))
        except FileExistsError:
            return path
        except OSError:
            return ""
        return path


def write_new_file(path: str, data: bytes) -> None:
    """A new file. The path is a real one: no link on the way is followed."""
    folder, _, name = path.rpartition("/")
    fd = create_private(folder, name)
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError:
        os.unlink(path)  # noqa: PTH108  # half of it would pass for all of it
        raise
    finally:
        os.close(fd)


def both_ends(text: str, most: int, stored: str = "", *, head: int | None = None) -> str:
    """Both ends, with so many characters. Most of them from the end, where a log says what went wrong, unless `head`
    says otherwise. `stored`: the file with all of it.
    """
    head = most // 3 if head is None else head
    tail = most - head
    where = f"; all of it is in '{stored}': read it with offset and limit" if stored else ""
    left_out = len(text) - head - tail
    note = f"\n\n[... {left_out:,} of {len(text):,} characters left out{where} ...]\n\n"
    return text[:head] + note + text[len(text) - tail :]
