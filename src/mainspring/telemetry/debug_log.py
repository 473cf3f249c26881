"""The debug log of a process (`--debug`): the records of our loggers as lines in a file, or on standard error.

    2026-11-19 20:31:53.120 api request finished run=2c7f... model=claude-sonnet-5-5 input_tokens=100 ms=812

A category is a logger. The file is readable by its owner alone. At `MOST_BYTES` it becomes `FILE.1`, which replaces an
earlier one, so a log takes twice that at most. Lines are redacted, and hold no prompts, replies or results.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import time
from contextlib import suppress

from mainspring.secrets.redaction import redact
from mainspring.text import strip_control_characters

CATEGORIES = {
    "api": "mainspring.request",
    "tools": "mainspring.tools",
    "hooks": "mainspring.hooks",
    "mcp": "mainspring.mcp",
    "permissions": "mainspring.permissions",
    "context": "mainspring.context",
    "session": "mainspring.session",
}
NAMES = {logger: category for category, logger in CATEGORIES.items()}
MOST_BYTES = 5_000_000  # of a file
MOST_FILES = 20  # in the folder of logs without a name
LONGEST_LINE = 4_000  # characters


class DebugLog(logging.Handler):
    def __init__(self, path: str = "", most: int = MOST_BYTES) -> None:
        """Writes to the file; without a path, to standard error. Raises `OSError`."""
        super().__init__()
        self.path, self._most = path, most
        self._fd = self._open() if path else -1
        self._size = os.fstat(self._fd).st_size if path else 0

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def emit(self, record: logging.LogRecord) -> None:
        """A full disk ends no run."""
        with suppress(OSError, ValueError):
            line = format_record(record)
            if self._fd < 0:
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()
            else:
                self._write(line.encode(errors="replace") + b"\n")

    def _write(self, line: bytes) -> None:
        if self._size and self._size + len(line) > self._most and stat.S_ISREG(os.fstat(self._fd).st_mode):
            os.rename(self.path, f"{self.path}.1")  # noqa: PTH104
            before, self._fd, self._size = self._fd, self._open(), 0
            os.close(before)
        self._size += os.write(self._fd, line)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        super().close()


def format_record(record: logging.LogRecord) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
    words = " ".join(strip_control_characters(redact(record.getMessage())).split())
    return f"{at}.{int(record.msecs):03d} {NAMES.get(record.name, record.name)} {words}"[:LONGEST_LINE]


def start_debug_log(categories: tuple[str, ...], *, path: str = "", folder: str = "", stderr: bool = False) -> str:
    """Log these categories from now on: to `path`, else to a new file in `folder`, and to standard error if `stderr`.
    Returns the file; empty: there is none. Raises `OSError`."""
    made = path or (new_log_file(folder) if folder else "")
    handlers = [DebugLog(made)] if made else []
    handlers += [DebugLog()] if stderr else []
    for name in categories:
        logger = logging.getLogger(CATEGORIES[name])
        logger.setLevel(logging.DEBUG)
        logger.propagate = False  # a package that sets up logging would print the records, too
        for handler in handlers:
            logger.addHandler(handler)
    return made


def new_log_file(folder: str) -> str:
    """Its name; removes the oldest logs, so that there are `MOST_FILES` with it. Raises `OSError`."""
    os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103  # pathlib takes 8 ms to load
    logs = sorted([name for name in os.listdir(folder) if name.endswith(".log")])  # noqa: PTH208
    for name in logs[: max(0, len(logs) - MOST_FILES + 1)]:
        for old in (name, f"{name}.1"):
            with suppress(OSError):
                os.unlink(f"{folder}/{old}")  # noqa: PTH108
    return f"{folder}/{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def parse_categories(text: str) -> tuple[str, ...] | None:
    """`api,tools` are these two, `!api` all others. None: another word is in it."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    names = [word.removeprefix("!") for word in words]
    if not words or any(name not in CATEGORIES for name in names):
        return None
    wanted = [word for word in words if not word.startswith("!")] or list(CATEGORIES)
    return tuple([name for name in CATEGORIES if name in wanted and f"!{name}" not in words])
