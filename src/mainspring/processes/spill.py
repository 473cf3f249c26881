"""Texts that are too long to show: stored whole, for the owner's eyes only, and shown with both their ends
(security P8)."""

from __future__ import annotations

import os
from collections.abc import Callable

from mainspring.processes.safe_open import create_private

MOST_STORED = 64 << 20  # bytes of one text


class SpillFolder:
    """A folder for them, by its real path."""

    def __init__(self, folder: str = "", cover: Callable[[bytes], bytes] = bytes) -> None:
        """`cover` puts stars in the place of secrets."""
        self._folder = folder  # empty: nothing is stored
        self._cover = cover

    def put(self, name: str, text: str) -> str:
        """Where it is; empty if it could not be stored, which is no reason to fail. One that is there is left as it is:
        named after its message, a text lands in the same place also after a resume."""
        safe = "".join([c for c in name if c.isascii() and (c.isalnum() or c in "-_")])[:64]
        if not self._folder or not safe:
            return ""
        path = f"{self._folder}/{safe}.txt"
        try:
            write_new_file(path, self._cover(text.encode("utf-8", "replace")[:MOST_STORED]))
        except FileExistsError:
            return path
        except OSError:
            return ""
        return path


def write_new_file(path: str, data: bytes) -> None:
    """A new file. The path is a real one: no link on the way is followed."""
    folder, _, name = path.rpartition("/")
    fd = create_private(folder, name)
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError:
        os.unlink(path)  # noqa: PTH108  # half of it would pass for all of it
        raise
    finally:
        os.close(fd)


def both_ends(text: str, most: int, stored: str = "", *, head: int | None = None) -> str:
    """So many characters of it. Most of them from the end, where a log says what went wrong, unless told otherwise.
    `stored`: where all of it is."""
    head = most // 3 if head is None else head
    tail = most - head
    where = f"; all of it is in '{stored}': read it with offset and limit" if stored else ""
    left_out = len(text) - head - tail
    note = f"\n\n[... {left_out:,} of {len(text):,} characters left out{where} ...]\n\n"
    return text[:head] + note + text[len(text) - tail :]
