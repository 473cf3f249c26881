"""The journal as a plain file: a line of JSON for each record, appended before it is acted on.

The sessions package will replace this: it cannot be read back yet.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from mainspring.cli.lines import encoded
from mainspring.sessions.records import Record

LONGEST_KEY = 200
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class PlainJournal:
    def __init__(self, path: str) -> None:
        """Raises `FileExistsError` for a session that is there already, and `OSError` where nothing can be written."""
        make_private(os.path.dirname(path))  # noqa: PTH120  # pathlib takes 8 ms to load
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)

    async def append(self, record: Record) -> None:
        line = encoded(record) + b"\n"
        while line:  # once, unless the disk is all but full
            line = line[os.write(self._fd, line) :]

    async def sync(self) -> None:
        """In a thread (settled 8): it may take long, and what was said is shown meanwhile."""
        sync = getattr(os, "fdatasync", None) or os.fsync  # macOS has only the second
        await asyncio.get_running_loop().run_in_executor(None, sync, self._fd)


def make_private(folder: str) -> None:
    """With those above it, as far as they are missing: `makedirs` would leave those open to all."""
    if not os.path.isdir(folder):  # noqa: PTH112
        make_private(os.path.dirname(folder))  # noqa: PTH120
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)  # noqa: PTH102


def home(environment: dict[str, str]) -> str:
    """Settled 31."""
    own = environment.get("MAINSPRING_HOME") or environment.get("CLAUDE_CONFIG_DIR")
    return own or os.path.join(os.path.expanduser("~"), ".mainspring")  # noqa: PTH111, PTH118


def session_file(environment: dict[str, str], cwd: str, session_id: str) -> str:
    return os.path.join(home(environment), "projects", project_key(cwd), f"{session_id}.jsonl")  # noqa: PTH118


def project_key(cwd: str) -> str:
    """Stream-json 14.1: readers of these folders look for exactly this name."""
    path = os.path.realpath(cwd)
    if not path.isascii():
        from unicodedata import normalize

        path = normalize("NFC", path)
    key = "".join([char if char.isascii() and char.isalnum() else "-" for char in path])
    return key if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]}-{short_hash(path)}"


def short_hash(path: str) -> str:
    number = 0
    for char in path:
        number = (number * 31 + ord(char) + 2**31) % 2**32 - 2**31
    number, digits = abs(number), ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = DIGITS[digit] + digits
    return digits
