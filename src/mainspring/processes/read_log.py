"""The files that a session has read, on disk: one line per file, with the digest of its content, for a resume.

The log is beside the session's file. It is not part of the conversation: without it, files have to be read again
before they are changed, and nothing else is lost. So errors here are ignored.
"""

from __future__ import annotations

import os
from contextlib import suppress

MOST_BYTES = 1 << 20  # of a log that are read; the oldest entries are forgotten
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_MODE = 0o600


def load_read_log(log: str) -> dict[str, str]:
    """Digests by path, the last read at the end."""
    with suppress(OSError):
        fd = os.open(log, _READ)
        try:
            size = os.fstat(fd).st_size
            data = os.pread(fd, MOST_BYTES, max(0, size - MOST_BYTES))
        finally:
            os.close(fd)
        if size > MOST_BYTES:
            data = data[data.find(b"\n") + 1 :]
        found = _entries(data)
        if size > MOST_BYTES:
            _shorten(log, found)
        return found
    return {}


def _entries(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in data.split(b"\n")[:-1]:  # text after the last newline was cut off
        digest, space, path = line.partition(b" ")
        if space and path.startswith(b"/"):
            name = os.fsdecode(path)
            found.pop(name, None)
            found[name] = digest.decode("ascii", "replace")
    return found


def append_to_read_log(log: str, path: str, digest: str) -> None:
    if "\n" in path:
        return
    with suppress(OSError, ValueError):
        os.makedirs(os.path.dirname(log), 0o700, exist_ok=True)  # noqa: PTH103, PTH120  # pathlib takes 8 ms to load
        fd = os.open(log, _APPEND, _MODE)
        try:
            os.write(fd, _line(path, digest))
        finally:
            os.close(fd)


def copy_read_log(log: str, to: str) -> None:
    """For a fork: its model sees what this one has seen."""
    for path, digest in load_read_log(log).items():
        append_to_read_log(to, path, digest)


def _line(path: str, digest: str) -> bytes:
    return digest.encode() + b" " + os.fsencode(path) + b"\n"


def _shorten(log: str, entries: dict[str, str]) -> None:
    """To half its size, so that it is not needed again soon."""
    lines = [_line(path, digest) for path, digest in entries.items()]
    draft = f"{log}.{os.getpid()}"
    fd = os.open(draft, _APPEND | os.O_EXCL, _MODE)
    try:
        os.write(fd, b"".join(lines[len(lines) // 2 :]))
    finally:
        os.close(fd)
    os.replace(draft, log)  # noqa: PTH105
