"""Files that were read last, as they are now: a compaction sends them again, so that nobody need read them again."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.processes.atomic_write import ReadSet
from mainspring.processes.paths import PathRefused, Resolved
from mainspring.processes.safe_open import read_resolved_file

LOOKED_AT = 30  # files, at most: most of them are too large, or gone
LARGEST = 20_000  # bytes


def iter_recent_files(known: ReadSet) -> Iterator[tuple[str, str]]:
    """Path and text, what was read last first. What is no text, or too large, is left out."""
    for real in known.newest()[:LOOKED_AT]:
        try:
            data = read_resolved_file(
                Resolved(real, real, kind="file"), limit=LARGEST
            )  # a link that is there now is not followed
            text = data.decode()
        except (OSError, PathRefused, UnicodeDecodeError):
            continue
        if "\0" not in text:
            yield real, text
