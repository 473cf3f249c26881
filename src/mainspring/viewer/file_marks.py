"""The file checkpoints and rewinds of a session, as moments of its trace.

They are not in the session file but in the session's file history, which belongs to this machine. A fork has the
checkpoints of the session before it; only its own are shown.
"""

from __future__ import annotations

import os
from contextlib import suppress

from mainspring.checkpoints.entries import FileCheckpoint
from mainspring.checkpoints.history import FileHistory
from mainspring.checkpoints.store import LOG
from mainspring.core.errors import UsageError
from mainspring.sessions.paths import Place, history_folder, size_of
from mainspring.text import plural
from mainspring.viewer.spans import Span, SpanIndex, SpanKind, make_label

KINDS = {
    "prompt": SpanKind.CHECKPOINT,
    "idle": SpanKind.CHECKPOINT,
    "rewind": SpanKind.CHECKPOINT,
    "rewound": SpanKind.REWIND,
}


class FileMarks:
    def __init__(self, session_file: Place) -> None:
        self._file, self._log = os.fspath(session_file), f"{history_folder(session_file)}/{LOG}"
        self._size = 0  # of the log, as it was read
        self._index: SpanIndex | None = None
        self._marks: dict[str, Span] = {}  # by checkpoint

    def look(self, index: SpanIndex) -> None:
        """Adds what is new to the spans of the session."""
        if index is not self._index:  # the session file was read from the beginning
            self._index, self._marks, self._size = index, {}, 0
        size = size_of(self._log)
        begin = min([span.begin for span in index.spans], default=None)
        if size == self._size or begin is None:
            return
        self._size = size
        with suppress(OSError, UsageError):  # removed meanwhile
            for point in self._read():
                if point.at >= begin:
                    self._mark(index, point)

    def _read(self) -> tuple[FileCheckpoint, ...]:
        history = FileHistory(self._file)
        try:
            return history.checkpoints()
        finally:
            history.close()

    def _mark(self, index: SpanIndex, point: FileCheckpoint) -> None:
        label = make_label(describe_mark(point))
        known = self._marks.get(point.id)
        if known is None:
            run = find_run(index, point)
            known = self._marks[point.id] = index.moment(KINDS[point.cause], point.at, label)
            known.run, known.turn = run, 0
        elif known.label != label:
            known.label = label
            index.changed(known)


def describe_mark(point: FileCheckpoint) -> str:
    match point.cause:
        case "prompt":
            return f"file checkpoint before this prompt, which changed {plural(point.changed, 'file')}"
        case "idle":
            return "file checkpoint after the run"
        case "rewind":
            return "file checkpoint before a rewind"
        case _:
            return "files rewound"


def find_run(index: SpanIndex, point: FileCheckpoint) -> int:
    """The run that it belongs to. Prompt hooks run before their run begins, and a checkpoint before them."""
    runs = [span for span in index.spans if span.kind is SpanKind.RUN]
    label = make_label(point.text)
    own = [span for span in runs if point.cause == "prompt" and span.label == label]
    if own:
        return min(own, key=lambda span: abs(span.begin - point.at)).run
    return max([span.run for span in runs if span.begin <= point.at], default=0)
