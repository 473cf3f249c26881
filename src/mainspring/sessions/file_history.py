"""The state of files at a prompt, read from a session (stream-json 4, `rewind_files`).

The session's file contains lines of the type `file-history-snapshot` in the order of events: one with each prompt, and
one before each first change of a file since. So the state of a file at a prompt is in the first line about it after the
prompt's; a file without such a line is unchanged. Contents are payloads, named by digest, so the same content is stored
once.

There is no other state, so another process reads the same. A line that cannot be read was torn by a crash, and then the
change that it was written for did not happen.
"""
# ruff: noqa: PTH123, PTH118, PTH208  # see paths.py

from __future__ import annotations

import os
from hashlib import blake2b

import msgspec
from msgspec import Struct

from mainspring.messages_api import Unreadable
from mainspring.sessions.line_format import KEPT_FILE, SNAPSHOT, VERSION
from mainspring.sessions.paths import payload_file, size_of


class FileVersion(Struct):
    """A file as stored in a line."""

    path: str
    there: bool = False
    mode: int = 0
    digest: str = ""
    why: str = ""  # why it cannot be restored


class FileHistoryEntry(Struct):
    v: int = 0
    messageId: str = ""  # noqa: N815  # the file's own word
    file: FileVersion | None = None


_snapshot = msgspec.json.Decoder(FileHistoryEntry)


def files_changed_since(file: str, prompt: str) -> dict[str, FileVersion] | None:
    """The state of each file at this prompt, for those changed later; None: nothing is known about the prompt."""
    found: dict[str, FileVersion] | None = None
    with open(file, "rb") as lines:
        for line in lines:
            said = _read(line) if line.startswith(SNAPSHOT) else None
            if said is None:
                continue
            if said.file is None:
                found = {} if said.messageId == prompt else found
            elif found is not None:
                found.setdefault(said.file.path, said.file)
    return found


def _read(line: bytes) -> FileHistoryEntry | None:
    try:
        said = _snapshot.decode(line)
    except Unreadable:
        return None
    return said if said.v == VERSION else None


def read_version(file: str, was: FileVersion) -> bytes | None:
    """The bytes of a file that existed; None: they are missing, or have changed."""
    if not was.digest.isalnum():
        return None
    try:
        with open(payload_file(file, KEPT_FILE + was.digest), "rb") as kept:
            data = kept.read()
    except OSError:
        return None
    return data if blake2b(data, digest_size=32).hexdigest() == was.digest else None


def is_kept(file: str, digest: str) -> bool:
    return size_of(payload_file(file, KEPT_FILE + digest)) > 0


def kept_size(file: str) -> int:
    """Bytes of all stored contents."""
    folder = payload_file(file, "")
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    return sum([size_of(os.path.join(folder, name)) for name in names if name.startswith(KEPT_FILE)])
