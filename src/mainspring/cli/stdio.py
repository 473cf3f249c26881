"""Standard output and standard error, with control characters escaped.

`protect_terminal` wraps both streams, so that every `print`, log line and traceback is safe. Our own styling goes
through `write_own`; prompt-toolkit writes to the underlying buffer and escapes what it draws itself.

Messages for the user go to standard error: standard output has the answer alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from mainspring.text import escape_controls


class SafeStream:
    """A text stream whose `write` escapes control characters."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def protect_terminal() -> Callable[[], None]:
    """Wraps the streams; returns a function that restores them."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = make_safe_stream(sys.stdout), make_safe_stream(sys.stderr)

    def undo() -> None:
        sys.stdout, sys.stderr = before

    return undo


def make_safe_stream(stream: TextIO | None) -> Any:
    """None: the parent process closed it."""
    return stream if stream is None or isinstance(stream, SafeStream) else SafeStream(stream)


def write_own(text: str) -> None:
    """Write to standard output with our own control codes. The caller has sanitized all other text."""
    stream = sys.stdout
    (stream.stream if isinstance(stream, SafeStream) else stream).write(text)
    stream.flush()


def safe_bytes(fd: int, data: bytes) -> bytes:
    """For writers to a descriptor, of JSON frames or text: escaped on a terminal, unchanged for programs. Escaped JSON
    has the same value."""
    if not os.isatty(fd):
        return data
    return escape_controls(data.decode("utf-8", "surrogateescape")).encode()


def print_stderr(words: str) -> None:
    print(f"mainspring: {words}", file=sys.stderr, flush=True)


def print_hook_message(words: str) -> None:
    """A hook's message, without our prefix."""
    print(words, file=sys.stderr, flush=True)
