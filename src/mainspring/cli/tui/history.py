"""Prompts that were typed, per project folder, across sessions: `history.jsonl` in our home, a line of JSON for each.

Several processes write it at once. A line is one `write` at the end of the file, under a lock, which whoever cuts the
file down takes as well. A line that was torn, by a full disk or a crash, is skipped, and the next one begins anew. (A
shared lock would do for the writes, but who looks for a torn line would take one for it that is being written.)
Where nothing can be written, this session's own prompts are remembered all the same. Nothing here ever raises.
"""

# ruff: noqa: PTH116, PTH118  # descriptors, and names as plain strings

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from mainspring.secrets.redaction import redact
from mainspring.sessions.paths import FILE, draft_of, make_folder, put_in_place, remove_session
from mainspring.text import strip_control_characters

NAME = "history.jsonl"
LARGEST = 2 << 20  # bytes; a larger file is cut at the next start
KEPT = 1 << 20  # bytes that are left of it: the newest
LONGEST = 50_000  # characters of a prompt; a longer one is remembered by this session only, for half of it is a trap
MOST_OWN = 1_000  # prompts of this session
MOST_READ = 2 * LARGEST  # bytes, however large the file is
BLOCK = 1 << 16
PATIENCE = 0.5  # seconds; others take milliseconds, but may have been stopped meanwhile
PAUSE = 0.005
TRIES = 3  # the file may be replaced while we open it; three times in a row is no accident

_OPEN = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK


class HistoryEntry(Struct):
    text: str
    folder: str
    time: float = 0  # milliseconds


Unreadable = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class StoredHistory:
    """The prompts of one folder."""

    def __init__(self, home: str | None, folder: str, *, now: Callable[[], float] = time.time) -> None:
        """`home`: as `settings/load.py` finds it; None: there is none."""
        self._file = os.path.join(home, NAME) if home else ""
        self._folder = unicodedata.normalize("NFC", os.path.realpath(folder)).encode(errors="replace").decode()
        self._now = now
        self._last = ""
        self._own: deque[str] = deque(maxlen=MOST_OWN)  # what is not in the file

    def keeps(self, text: str) -> bool:
        """Not what begins with a blank, as shells have it, and not the same twice in a row."""
        return bool(text.strip()) and not text.startswith(" ") and _storable(text) != self._last

    def add(self, text: str) -> None:
        if not self.keeps(text):
            return
        self._last = kept = _storable(text)
        if len(kept) > LONGEST or not self._append(kept):
            self._own.append(kept)

    def newest(self) -> Iterator[str]:
        """The newest first. It is read as far as it is asked for."""
        before = ""
        for text in self._all():
            if text != before:
                before = text
                yield text

    def _all(self) -> Iterator[str]:
        yield from tuple(reversed(self._own))
        with contextlib.suppress(OSError):
            yield from self._stored()

    # --- reading ---

    def _stored(self) -> Iterator[str]:
        fd = _opened(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mark = msgspec.json.encode(self._folder)  # most lines are of other folders: those are not taken apart
            for line in _backwards(fd, mark):
                if mark in line and (text := self._text(line)):
                    yield text
        finally:
            os.close(fd)

    def _text(self, line: bytes) -> str:
        try:
            found = msgspec.json.decode(line, type=HistoryEntry)
        except Unreadable:
            return ""
        return strip_control_characters(found.text) if found.folder == self._folder else ""

    # --- writing ---

    def _append(self, text: str) -> bool:
        """Whether it is in the file, as a whole."""
        line = msgspec.json.encode(HistoryEntry(text, self._folder, int(self._now() * 1_000))) + b"\n"
        if not self._file:
            return False
        try:
            make_folder(os.path.dirname(self._file))  # noqa: PTH120
            fd = self._held()
        except OSError:
            return False
        try:
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            data = b"\n" + line if torn else line
            return os.write(fd, data) == len(data)
        except OSError:
            return False
        finally:
            os.close(fd)

    def _held(self) -> int:
        """The file, so that nobody replaces it meanwhile. Without locks, or where somebody does not let go, it is
        better written than not."""
        for _ in range(TRIES):
            fd = _opened(self._file, _OPEN | os.O_CREAT)
            if not _locked(fd) or _is_still(fd, self._file):
                return fd
            os.close(fd)
        return _opened(self._file, _OPEN | os.O_CREAT)

    def trim(self) -> None:
        """Leaves the newest of a file that has grown too large. If another process is at it, it does so."""
        with contextlib.suppress(OSError):
            if self._file and os.stat(self._file).st_size > LARGEST:
                self._trim()

    def _trim(self) -> None:
        fd = _opened(self._file, _OPEN)
        draft = draft_of(self._file)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = os.fstat(fd).st_size
            if size <= LARGEST or not _is_still(fd, self._file):
                return
            newest = os.pread(fd, KEPT, size - KEPT)
            # It is not synced: whoever sends a prompt waits for us, and a disk may take a second.
            _write(draft, newest[newest.find(b"\n") + 1 :])
            put_in_place(draft, self._file)
        finally:
            remove_session(draft)
            os.close(fd)


def _storable(text: str) -> str:
    """Without secrets (security K3), and as something that JSON can hold."""
    return redact(text).encode(errors="replace").decode()


def _opened(file: str, flags: int) -> int:
    """A regular file, for nobody else's eyes."""
    fd = os.open(file, flags, FILE)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise OSError(f"'{file}' is no regular file")
    if found.st_mode & 0o077:
        with contextlib.suppress(OSError):  # it is somebody else's
            os.fchmod(fd, FILE)
    return fd


def _locked(fd: int) -> bool:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE)
        except OSError:  # a file system without locks
            return False
        else:
            return True


def _is_still(fd: int, file: str) -> bool:
    """Whether the name leads to what is open."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(file))
    except OSError:
        return False


def _write(file: str, data: bytes) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, FILE)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
    finally:
        os.close(fd)


def _backwards(fd: int, mark: bytes, block: int = BLOCK) -> Iterator[bytes]:
    """The lines, the last one first, read block by block; those of a block without the mark are left out. What follows
    the last line feed is torn, and is one, too: its reader finds out."""
    at = os.fstat(fd).st_size
    least = max(0, at - MOST_READ)
    rest: list[bytes] = []  # pieces of a line whose beginning is not read yet, the last one first
    while at > least:
        size = min(block, at - least)
        at -= size
        first, end, lines = os.pread(fd, size, at).partition(b"\n")
        if end:
            lines += b"".join(reversed(rest))
            rest = []
            if mark in lines:
                yield from reversed(lines.split(b"\n"))
        rest.append(first)
    if least == 0:
        yield b"".join(reversed(rest))
