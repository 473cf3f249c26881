"""File checkpoints and rewinds as moments of a trace."""

from __future__ import annotations

from pathlib import Path

from mainspring.checkpoints.history import FileHistory
from mainspring.sessions.paths import history_folder
from mainspring.viewer.file_marks import FileMarks
from mainspring.viewer.spans import SpanIndex, SpanKind

ID = "11111111-1111-4111-8111-111111111111"


def marks_of(index: SpanIndex) -> list[tuple[str, int, str]]:
    kinds = (SpanKind.CHECKPOINT, SpanKind.REWIND)
    return [(span.kind, span.run, span.label) for span in index.spans if span.kind in kinds]


def run(index: SpanIndex, number: int, at: int, label: str) -> None:
    index.run = number
    index.new(SpanKind.RUN, at, label=label)


def test_each_is_a_moment_of_its_run_and_what_is_new_is_added(tmp_path: Path) -> None:
    work, session = tmp_path / "work", tmp_path / "home" / "projects" / "p" / f"{ID}.jsonl"
    work.mkdir()
    session.parent.mkdir(parents=True)
    session.touch()
    index, marks = SpanIndex(0), FileMarks(session)
    marks.look(index)
    run(index, 1, 1_000, "one")
    marks.look(index)
    assert marks_of(index) == [], "no checkpoints"
    history, roots = FileHistory(str(session)), (str(work),)
    history.take(roots, "prompt", 10, prompt="p0", text="of the session before the fork")
    history.take(roots, "prompt", 1_100, prompt="p1", text="one")
    (work / "a").write_text("1")
    history.take(roots, "idle", 1_500, rests=True)
    marks.look(index)
    told = [
        (SpanKind.CHECKPOINT, 1, "file checkpoint before this prompt, which changed 1 file"),
        (SpanKind.CHECKPOINT, 1, "file checkpoint after the run"),
    ]
    assert marks_of(index) == told
    run(index, 2, 2_010, "two")
    index.rev += 1
    history.take(roots, "prompt", 2_000, prompt="p2", text="two")  # before a hook, and so before the run
    (work / "b").write_text("2")
    history.take(roots, "rewind", 2_500)
    (work / "b").unlink()
    history.take(roots, "rewound", 2_600, rests=True)
    marks.look(index)
    assert marks_of(index) == [
        *told,
        (SpanKind.CHECKPOINT, 2, "file checkpoint before this prompt, which changed 1 file"),
        (SpanKind.CHECKPOINT, 2, "file checkpoint before a rewind"),
        (SpanKind.REWIND, 2, "files rewound"),
    ]
    before = len(index.spans)
    marks.look(index)
    assert len(index.spans) == before, "nothing is new"
    history.close()
    Path(history_folder(session), "log").unlink()
    marks.look(index)
    assert len(index.spans) == before, "and nothing is lost with the files"


def test_a_session_file_that_is_read_anew_gets_them_again(tmp_path: Path) -> None:
    work, session = tmp_path / "work", tmp_path / "home" / "projects" / "p" / f"{ID}.jsonl"
    work.mkdir()
    session.parent.mkdir(parents=True)
    session.touch()
    history = FileHistory(str(session))
    history.take((str(work),), "prompt", 1_100, prompt="p1", text="one")
    history.close()
    marks = FileMarks(session)
    for _ in range(2):
        index = SpanIndex(0)
        run(index, 1, 1_000, "one")
        marks.look(index)
        assert len(marks_of(index)) == 1
