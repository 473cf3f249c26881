"""Prompt history per project folder, across sessions: `history.jsonl` in our home, one JSON line per prompt.

Several processes write the file at once. Each appends a line with one `write` under a lock; trimming the file takes the
same lock. Readers skip a line torn by a full disk or a crash, and the next write starts a new line. (A shared lock
would do for appending, but then a writer that looks for a torn line would mistake a line being written for one.) If
the file cannot be written, the session still remembers its own prompts. Nothing here raises.
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
from itertools import chain

import msgspec
from msgspec import Struct

from mainspring.secrets.redaction import redact
from mainspring.sessions.paths import FILE, draft_of, make_folder, put_in_place, remove_session
from mainspring.text import strip_control_characters

NAME = "history.jsonl"
LARGEST = 2 << 20  # bytes; a larger file is trimmed at the next start
KEPT = 1 << 20  # bytes kept by trimming: the newest
LONGEST = 50_000  # characters of a prompt; a longer one is remembered by this session only: half of it would be a trap
MOST_OWN = 1_000  # prompts of this session
MOST_READ = 2 * LARGEST  # bytes, however large the file is
BLOCK = 1 << 16
PATIENCE = 0.5  # seconds; other processes hold the lock for milliseconds, but may be stopped
PAUSE = 0.005
TRIES = 3  # the file may be replaced while we open it, but hardly three times in a row

_OPEN = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK


class HistoryEntry(Struct):
    text: str
    folder: str
    time: float = 0  # milliseconds


Unreadable = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class StoredHistory:
    """The prompts of one project folder."""

    def __init__(self, home: str | None, folder: str, *, now: Callable[[], float] = time.time) -> None:
        """`home`: as `settings/load.py` finds it; None if there is none."""
        self._file = os.path.join(home, NAME) if home else ""
        self._folder = unicodedata.normalize("NFC", os.path.realpath(folder)).encode(errors="replace").decode()
        self._now = now
        self._last = ""
        self._own: deque[str] = deque(maxlen=MOST_OWN)  # prompts that are not in the file

    def keeps(self, text: str) -> bool:
        """Skip prompts that start with a space, as shells do, and repeated prompts."""
        return bool(text.strip()) and not text.startswith(" ") and _storable(text) != self._last

    def add(self, text: str) -> None:
        if not self.keeps(text):
            return
        self._last = kept = _storable(text)
        if len(kept) > LONGEST or not self._append(kept):
            self._own.append(kept)

    def newest(self) -> Iterator[str]:
        """Yield prompts lazily, newest first."""
        before = ""
        for text in self._all():
            if text != before:
                before = text
                yield text

    def newest_entries(self, *, everywhere: bool) -> Iterator[HistoryEntry]:
        """Yield each prompt once, newest first, of this folder or of all. Prompts that are not in the file have no
        time."""
        known: set[str] = set()
        with contextlib.suppress(OSError):
            for entry in chain(self._unstored(), self._stored_entries(everywhere=everywhere)):
                if entry.text not in known:
                    known.add(entry.text)
                    yield entry

    def _unstored(self) -> Iterator[HistoryEntry]:
        yield from [HistoryEntry(text, self._folder) for text in reversed(self._own)]

    def _all(self) -> Iterator[str]:
        yield from tuple(reversed(self._own))
        with contextlib.suppress(OSError):
            yield from self._stored()

    # --- reading ---

    def _stored(self) -> Iterator[str]:
        return (entry.text for entry in self._stored_entries(everywhere=False))

    def _stored_entries(self, *, everywhere: bool) -> Iterator[HistoryEntry]:
        fd = _opened(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mark = b"" if everywhere else msgspec.json.encode(self._folder)  # lines of other folders are not parsed
            for line in _backwards(fd, mark):
                entry = _parse_entry(line) if mark in line else None
                if entry is not None and entry.text and (everywhere or entry.folder == self._folder):
                    yield entry
        finally:
            os.close(fd)

    # --- writing ---

    def _append(self, text: str) -> bool:
        """Append the prompt; return whether the whole line was written."""
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
        """Open and lock the file, so that no process replaces it. Without locks, or if another process keeps its lock,
        write anyway: that is better than losing the prompt."""
        for _ in range(TRIES):
            fd = _opened(self._file, _OPEN | os.O_CREAT)
            if not _locked(fd) or _is_still(fd, self._file):
                return fd
            os.close(fd)
        return _opened(self._file, _OPEN | os.O_CREAT)

    def trim(self) -> None:
        """Trim a file that is too large to its newest part. If another process has the lock, do nothing."""
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
            # Not synced: the user's prompt waits for us, and a sync may take a second.
            _write(draft, newest[newest.find(b"\n") + 1 :])
            put_in_place(draft, self._file)
        finally:
            remove_session(draft)
            os.close(fd)


def _parse_entry(line: bytes) -> HistoryEntry | None:
    try:
        found = msgspec.json.decode(line, type=HistoryEntry)
    except Unreadable:
        return None
    found.text, found.folder = strip_control_characters(found.text), strip_control_characters(found.folder)
    return found


def _storable(text: str) -> str:
    """Redact secrets (security K3), and replace what JSON cannot store."""
    return redact(text).encode(errors="replace").decode()


def _opened(file: str, flags: int) -> int:
    """Open a regular file that only the user can read."""
    fd = os.open(file, flags, FILE)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise OSError(f"'{file}' is not a regular file")
    if found.st_mode & 0o077:
        with contextlib.suppress(OSError):  # another user owns it
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
    """Whether the name still leads to the open file."""
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
    """Yield the lines in reverse order, block by block, and skip blocks without the mark. A torn last line is yielded,
    too: the reader detects it."""
    at = os.fstat(fd).st_size
    least = max(0, at - MOST_READ)
    rest: list[bytes] = []  # parts of a line whose start is not read yet, last part first
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
