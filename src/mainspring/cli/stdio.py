"""The one way to a terminal: standard output and standard error pass control characters of others as escapes.

`protect_terminal` puts it under every `print`, log line and traceback, so that no writer can forget it. Our own styling
goes through `write_own`; prompt-toolkit writes to the buffer behind the stream, and escapes what it draws itself.

Words for the person: on standard error, so that the answer stays alone on standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from mainspring.text import escape_controls


class SafeStream:
    """A text stream, in whose `write` nothing is left that a terminal would obey."""

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
    """Returns what undoes it."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = make_safe_stream(sys.stdout), make_safe_stream(sys.stderr)

    def undo() -> None:
        sys.stdout, sys.stderr = before

    return undo


def make_safe_stream(stream: TextIO | None) -> Any:
    """None: whoever started us closed it."""
    return stream if stream is None or isinstance(stream, SafeStream) else SafeStream(stream)


def write_own(text: str) -> None:
    """On standard output, with our own codes in it: what comes from others must be harmless already."""
    stream = sys.stdout
    (stream.stream if isinstance(stream, SafeStream) else stream).write(text)
    stream.flush()


def safe_bytes(fd: int, data: bytes) -> bytes:
    """For who writes to a descriptor: frames in JSON, or text. Programs get them as they are; JSON is the same value
    either way."""
    if not os.isatty(fd):
        return data
    return escape_controls(data.decode("utf-8", "surrogateescape")).encode()


def print_stderr(words: str) -> None:
    print(f"mainspring: {words}", file=sys.stderr, flush=True)


def print_hook_message(words: str) -> None:
    """Not ours: a hook's."""
    print(words, file=sys.stderr, flush=True)
