"""Auto-memory: a directory of notes per project, which outlives sessions. `MEMORY.md` in it is the index.

The index is sent at the start. Other notes are added when the words of a prompt match their name or description. This
needs no model, runs while the reply streams, and is used only if it is ready in time (B-30, N-20).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable

from mainspring.context.attachments import Attachment, AttachmentKind
from mainspring.context.frontmatter import split_frontmatter
from mainspring.context.project_files import FileStamp, read_text, stat_file
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.processes.paths import PathRefused, resolve_path

INDEX = "MEMORY.md"
INDEX_LINES, INDEX_SIZE = 200, 25_000  # as in Claude Code
MOST_NOTES = 500  # that are read
BESIDE = 20  # files between two yields to other tasks: about 1 ms
HEAD = 2_000  # bytes of a note that contain its description
MOST_FOUND = 3
LARGEST = 6_000  # bytes of a note that are sent; the model can read the rest
ENOUGH = 2  # a word in the name counts as much as two in the description
LONGEST_PROMPT = 20_000  # characters that are searched for words

_WORD = re.compile(r"[^\W_]{3,}")
_COMMON = frozenset(
    {
        *("the", "and", "for", "with", "that", "this", "from", "what", "when", "where", "which", "who", "how", "why"),
        *("can", "could", "should", "would", "will", "are", "was", "were", "has", "have", "had", "not", "but", "you"),
        *("your", "our", "its", "all", "any", "some", "into", "onto", "about", "use", "using", "used", "make", "made"),
        *("please", "file", "files", "code", "add", "fix", "new", "get", "set", "run", "also", "then", "than", "there"),
        *("here", "them", "they", "does", "did"),
    }
)


class MemoryNote(Bundle):
    path: str
    mark: FileStamp
    name: frozenset[str]  # words
    about: frozenset[str]


def _never(path: str) -> bool:  # noqa: ARG001  # it has the shape of a question
    return False


class MemoryNotes:
    def __init__(self, folder: str, *, is_read: Callable[[str], bool] = _never) -> None:
        """`is_read`: whether the model has read this file by itself."""
        self.folder = folder
        self._is_read = is_read
        self._known: dict[str, MemoryNote] = {}

    @property
    def index(self) -> Attachment | None:
        """None: there is no index."""
        try:
            found = read_text(resolve_path(f"{self.folder}/{INDEX}", "/"), INDEX_SIZE)
        except (OSError, PathRefused):
            return None
        lines = found.text.rstrip().split("\n")
        text = "\n".join(lines[:INDEX_LINES])
        if found.cut or len(lines) > INDEX_LINES:
            text += f"\n[Cut: this is the beginning of the index, {len(text):,} characters. Keep it short.]"
        head = f"The index of the notes in '{self.folder}'. Read those that matter; keep new ones there.\n\n"
        return Attachment(AttachmentKind.NOTES, f"{self.folder}/{INDEX}", head + text) if text.strip() else None

    async def recall(self, prompt: str) -> tuple[Attachment, ...]:
        """The notes that match a prompt best."""
        asked = word_stems(prompt[:LONGEST_PROMPT])
        scored: list[tuple[int, str]] = []
        for count, name in enumerate(self._names() if asked else ()):
            if count % BESIDE == BESIDE - 1:
                await asyncio.sleep(0)
            note = self._note(f"{self.folder}/{name}")
            score = ENOUGH * len(asked & note.name) + len(asked & note.about) if note is not None else 0
            if score >= ENOUGH:
                scored.append((-score, f"{self.folder}/{name}"))
        fitting = [path for _, path in sorted(scored) if not self._is_read(path)]
        return tuple([found for path in fitting[:MOST_FOUND] if (found := _attached(path)) is not None])

    def _names(self) -> list[str]:
        try:
            with os.scandir(self.folder) as entries:
                names = [entry.name for entry, _ in zip(entries, range(MOST_NOTES), strict=False)]
        except OSError:
            return []
        return sorted([name for name in names if name.endswith(".md") and name != INDEX])

    def _note(self, path: str) -> MemoryNote | None:
        mark = stat_file(path)
        known = self._known.get(path)
        if known is not None and known.mark == mark:
            return known
        try:
            found = read_text(resolve_path(path, "/"), HEAD)
        except (OSError, PathRefused):
            return None
        name = path.rpartition("/")[2].removesuffix(".md")
        note = MemoryNote(path, found.mark, word_stems(name.replace("_", " ")), word_stems(_about(found.text)))
        self._known[path] = note
        return note


def word_stems(text: str) -> frozenset[str]:
    """The beginnings of its words: 'deploys' and 'deployment' are near enough."""
    return frozenset([word[:6] for word in _WORD.findall(text.lower()) if word not in _COMMON])


def _about(text: str) -> str:
    """The description in its frontmatter, or else its first line."""
    try:
        head = split_frontmatter(text)
    except UsageError:
        return ""
    return head.fields.get("description") or head.body.strip().partition("\n")[0]


def _attached(path: str) -> Attachment | None:
    try:
        found = read_text(resolve_path(path, "/"), LARGEST)
    except (OSError, PathRefused):
        return None
    more = f"\n[Cut: the note has {found.size:,} bytes. Read it for the rest.]" if found.cut else ""
    return Attachment(AttachmentKind.NOTES, path, found.text.rstrip() + more)
