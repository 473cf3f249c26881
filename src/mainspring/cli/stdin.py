"""The prompt: an argument, standard input, or both, the argument first."""

from __future__ import annotations

import os
import select
import sys

from mainspring.agent.options import StartError
from mainspring.agent.prompt_expansion import Prompt, text_prompt
from mainspring.cli.flags import show_argument
from mainspring.core.messages import Text

MOST = 10_000_000  # bytes; far more than any model's window
WAIT = 3_000  # milliseconds for the first byte, where an argument is prompt enough

NO_PROMPT = (
    "there is no prompt: give one as an argument, 'mainspring -p \"fix the failing test\"', or on standard input"
)


def read_piped_prompt(words: tuple[str, ...]) -> Prompt:
    """What is piped in beside an argument is data."""
    if len(words) > 1:
        raise StartError(f"one prompt, please: put it in quotes, '{words[0]} {words[1]} ...'")
    given = show_argument(words[0]) if words else ""
    piped = "" if os.isatty(0) else decode_stdin(read_stdin(0, wait=WAIT if given.strip() else None))
    if not given.strip():
        if not piped.strip():
            raise StartError(NO_PROMPT)
        return text_prompt(piped)
    return Prompt((Text(given),), data=f"\n\n{piped}" if piped.strip() else "")


def read_stdin(fd: int, wait: int | None) -> bytes:
    """All of it; nothing if not a byte comes within `wait` milliseconds: whoever started us left a pipe open."""
    if wait is not None and not is_readable(fd, wait):
        seconds = wait // 1_000
        print(
            f"mainspring: nothing came on standard input within {seconds} s: going on without it. "
            "'< /dev/null' saves the wait.",
            file=sys.stderr,
        )
        return b""
    data = bytearray()
    while chunk := os.read(fd, 65_536):
        data += chunk
        if len(data) > MOST:
            raise StartError(f"standard input holds more than {MOST:,} bytes: name a file instead, and let it be read")
    return bytes(data)


def is_readable(fd: int, wait: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(wait))


def decode_stdin(data: bytes) -> str:
    """What is no UTF-8 is shown as such; what is no text at all would only cost money."""
    if b"\0" in data:
        raise StartError("standard input is not text: it holds NUL bytes. Name the file instead, and let it be read")
    return data.decode("utf-8-sig", "replace")
