"""What is too long for the model: stored whole, and shown with both its ends (P8).

The end of a log says what went wrong, so both ends are kept.
"""

import os

from msgspec.structs import replace

from mainspring.core.messages import Text
from mainspring.tools.base import Answer, Place

MOST_STORED = 64 << 20  # bytes of one result


def fitted(made: Answer, most: int, place: Place, call_id: str) -> Answer:
    """The answer with at most so many characters of text."""
    length = sum(len(part.text) for part in made.content if isinstance(part, Text))
    if length <= most:
        return made
    whole = "".join([part.text for part in made.content if isinstance(part, Text)])
    stored = store(whole, place.spill, call_id)
    where = f"; all of it is in '{stored}': read it with offset and limit" if stored else ""
    head = most * 2 // 3  # what a text is about stands at its beginning
    tail = most - head
    note = f"\n\n[... {length - head - tail:,} of {length:,} characters left out{where} ...]\n\n"
    others = tuple([part for part in made.content if not isinstance(part, Text)])
    return replace(made, content=(Text(whole[:head] + note + whole[-tail:]), *others))


def store(text: str, folder: str, name: str) -> str:
    """Where it is; empty if it could not be stored, which is no reason to fail."""
    if not folder:
        return ""
    safe = "".join([c for c in name if c.isalnum() or c in "-_"])[:64]
    path = f"{folder}/{safe or 'result'}-{os.urandom(4).hex()}.txt"
    try:
        os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103  # pathlib takes 8 ms to load
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return ""
    rest = memoryview(text.encode("utf-8", "replace")[:MOST_STORED])
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError:  # half of it, under the name of all of it, would mislead
        os.unlink(path)  # noqa: PTH108
        return ""
    finally:
        os.close(fd)
    return path
