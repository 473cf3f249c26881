"""Files that the model has read and that changed since: by the user, a formatter, a branch change.

`ReadSet` knows by content what the model read or wrote itself. `FileChanges` keeps a copy of small files, so that it
can show the model what changed without another read. To write the file, the model must read it again.

`iter_recent_files` returns the files read last, as they are now: a compaction attaches them again, so that the model
need not read them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mainspring.context.attachments import Attachment, AttachmentKind
from mainspring.context.project_files import FileStamp, settle_stamp, stat_file
from mainspring.core.value import Bundle
from mainspring.processes.atomic_write import ReadSet, digest
from mainspring.processes.paths import PathRefused, Resolved
from mainspring.processes.safe_open import read_resolved_file
from mainspring.text import plural

MOST_FILES = 200  # that are watched: those read last
LARGEST = 100_000  # bytes of a file that is copied
TOTAL = 4_000_000  # bytes of all copies
READ = 2_000_000  # bytes; for a larger file only time and size are checked
MOST_SHOWN = 5  # files whose changes one note shows
MOST_NAMED = 20
LINES = 20  # of each side of a change
WIDTH = 200  # characters of a line


class FileSnapshot(Bundle):
    mark: FileStamp | None
    digest: str | None  # of the content that the model knows; None: too large
    lines: list[str] | None  # None: no copy is kept


class FileChanges:
    """The watched files of one session."""

    def __init__(self, known: ReadSet) -> None:
        self._known = known
        self._seen: dict[str, FileSnapshot] = {}
        self._size = 0

    def saw(self, path: Resolved) -> None:
        """The model has read or written this file by a tool."""
        known = self._known.of(path)
        if path.kind != "file" or known is None:
            return
        seen = self._look(path.real)
        if seen is not None and seen.digest not in (None, known):  # the file changed in between: report it
            seen = FileSnapshot(None, known, None)
        self._keep(path.real, seen)

    def news(self) -> Attachment | None:
        """What changed since the last time. One `lstat` for each unchanged file."""
        moved = [real for real, seen in self._seen.items() if stat_file(real) != seen.mark]
        told = [told for real in moved if (told := self._told(real)) is not None]
        if not told:
            return None
        left = [f"'{name}' changed, too." for name, _ in told[MOST_SHOWN:MOST_NAMED]]
        if len(told) > MOST_NAMED:
            left.append(f"So did {len(told) - MOST_NAMED:,} more.")
        return Attachment(AttachmentKind.CHANGED, "", "\n\n".join([*[text for _, text in told[:MOST_SHOWN]], *left]))

    def _told(self, real: str) -> tuple[str, str] | None:
        """None: the file is as the model knows it, by its own edits."""
        before, now = self._seen[real], self._look(real)
        if now is None:
            self._drop(real)
            return real, f"'{real}' is gone, or is no longer a regular file."
        self._keep(real, now)
        if now.digest is not None and now.digest in (before.digest, self._known.of(_plain(real))):
            return None
        if before.lines is None or now.lines is None:
            return real, f"'{real}' changed. Read it again before you rely on it."
        return real, f"'{real}' changed:\n{diff_changed_lines(before.lines, now.lines)}"

    def _look(self, real: str) -> FileSnapshot | None:
        mark = stat_file(real)
        if mark is None:
            return None
        if mark.size > READ:
            return FileSnapshot(settle_stamp(mark), None, None)
        try:
            data = read_resolved_file(_plain(real), limit=READ)
        except (OSError, PathRefused):
            return None
        return FileSnapshot(settle_stamp(mark), digest(data), _lines(data) if len(data) <= LARGEST else None)

    def _keep(self, real: str, seen: FileSnapshot | None) -> None:
        self._drop(real)
        if seen is None:
            return
        self._seen[real] = seen
        self._size += _size(seen)
        while len(self._seen) > MOST_FILES or self._size > TOTAL:
            self._drop(next(iter(self._seen)))

    def _drop(self, real: str) -> None:
        old = self._seen.pop(real, None)
        self._size -= _size(old) if old is not None else 0


def diff_changed_lines(before: list[str], now: list[str]) -> str:
    """Each side from the first differing line to the last. Linear in the length, unlike a real diff."""
    start = 0
    while start < min(len(before), len(now)) and before[start] == now[start]:
        start += 1
    end = 0
    while end < min(len(before), len(now)) - start and before[-1 - end] == now[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], now[start : len(now) - end]
    head = f"@@ -{start + 1},{len(old)} +{start + 1},{len(new)} @@"
    return "\n".join([head, *_side("-", old), *_side("+", new)])


def _side(sign: str, lines: list[str]) -> Iterable[str]:
    shown = [f"{sign}{line[:WIDTH]}" for line in lines[:LINES]]
    return [*shown, f"[{plural(len(lines) - LINES, 'more line')}]"] if len(lines) > LINES else shown


def _lines(data: bytes) -> list[str] | None:
    return None if b"\0" in data else data.decode(errors="replace").split("\n")


def _size(seen: FileSnapshot) -> int:
    return sum(map(len, seen.lines)) if seen.lines is not None else 0


def _plain(real: str) -> Resolved:
    """Opens without following links: fails if the file is now a link."""
    return Resolved(real, real, kind="file")


LOOKED_AT = 30  # files, at most: most of them are too large, or gone
LARGEST_RECENT = 20_000  # bytes


def iter_recent_files(known: ReadSet) -> Iterator[tuple[str, str]]:
    """Path and text, the most recently read first. Skips files that are not text or too large."""
    for real in known.newest()[:LOOKED_AT]:
        try:
            data = read_resolved_file(
                Resolved(real, real, kind="file"), limit=LARGEST_RECENT
            )  # does not follow a link that is there now
            text = data.decode()
        except (OSError, PathRefused, UnicodeDecodeError):
            continue
        if "\0" not in text:
            yield real, text
