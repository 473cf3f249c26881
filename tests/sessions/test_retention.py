"""`cleanupPeriodDays`: what is old is removed, and nothing else."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from uuid import UUID

import pytest

from mainspring.sessions.retention import DAY, delete_stored_session, remove_old_sessions

NOW = 1_800_000_000.0


def name(number: int) -> str:
    return str(UUID(int=number))


def aged(path: Path, days: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}\n")
    os.utime(path, (NOW - days * DAY,) * 2)
    return path


def test_sessions_that_are_older_than_that_are_removed_with_what_belongs_to_them(tmp_path: Path) -> None:
    old = aged(tmp_path / f"projects/a/{name(1)}.jsonl", 9)
    aged(tmp_path / f"projects/a/{name(1)}/payloads/x", 9)
    new = aged(tmp_path / f"projects/a/{name(2)}.jsonl", 0.5)
    aged(tmp_path / f"projects/a/{name(2)}/payloads/x", 9)
    other = aged(tmp_path / f"projects/b/{name(3)}.jsonl", 1.1)
    assert sorted(remove_old_sessions(str(tmp_path), 1, now=NOW)) == [name(1), name(3)]
    assert not old.exists()
    assert not old.with_suffix("").exists()
    assert not other.exists()
    assert new.exists()
    assert (new.with_suffix("") / "payloads/x").exists()


def history(home: Path, session: str, days: float = 9) -> Path:
    """The file checkpoints of a session, as they are stored."""
    folder = home / "file-history" / session
    aged(folder / "packs/0011", days)
    aged(folder / "lock", days)
    aged(folder / "log", days)
    return folder


@pytest.mark.parametrize("way", ["cleanup", "delete"])
def test_file_checkpoints_go_with_their_session(tmp_path: Path, way: str) -> None:
    session, other = (
        aged(tmp_path / f"projects/a/{name(1)}.jsonl", 9),
        aged(tmp_path / f"projects/a/{name(2)}.jsonl", 0),
    )
    gone, kept = history(tmp_path, name(1)), history(tmp_path, name(2))
    mark = aged(tmp_path / "file-history/unfinished" / name(1), 9)
    remove_old_sessions(str(tmp_path), 1, now=NOW) if way == "cleanup" else delete_stored_session(str(session))
    assert (session.exists(), gone.exists(), mark.exists()) == (False, False, False)
    assert (other.exists(), (kept / "log").exists()) == (True, True)


def test_file_checkpoints_without_a_session_go_when_they_are_old(tmp_path: Path) -> None:
    aged(tmp_path / f"projects/a/{name(1)}.jsonl", 0)
    old, new, own, used = [history(tmp_path, name(number), days) for number, days in ((2, 9), (3, 0), (4, 9), (5, 9))]
    odd = aged(tmp_path / "file-history/notes/log", 9)
    with (used / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # of a process that rewinds to its first prompt
        assert remove_old_sessions(str(tmp_path), 1, now=NOW, keep=name(4)) == []
    assert [one.exists() for one in (old, new, own, used, odd)] == [False, True, True, True, True]


def test_nothing_goes_if_there_may_be_sessions_elsewhere(tmp_path: Path) -> None:
    """A folder of sessions that is a link is not followed, so it is not known which there are."""
    kept = history(tmp_path, name(1))
    aged(tmp_path / f"elsewhere/{name(1)}.jsonl", 0)
    (tmp_path / "projects").mkdir()
    (tmp_path / "projects/a").symlink_to(tmp_path / "elsewhere")
    remove_old_sessions(str(tmp_path), 1, now=NOW)
    assert kept.exists()


def test_only_sessions_are_removed(tmp_path: Path) -> None:
    kept = [
        aged(tmp_path / "projects/a/notes.jsonl", 99),
        aged(tmp_path / f"projects/a/{name(1)}.txt", 99),
        aged(tmp_path / f"projects/a/{name(2)}/payloads/x", 99),  # of a session that is not there
        aged(tmp_path / "projects/a/memory/note.md", 99),
        aged(tmp_path / f"projects/{name(3)}.jsonl", 99),
        aged(tmp_path / f"{name(4)}.jsonl", 99),
        aged(tmp_path / "trusted.json", 99),
    ]
    assert remove_old_sessions(str(tmp_path), 1, now=NOW) == []
    assert all(path.exists() for path in kept)


def test_the_session_in_use_stays(tmp_path: Path) -> None:
    own = aged(tmp_path / f"projects/a/{name(1)}.jsonl", 9)
    locked = aged(tmp_path / f"projects/a/{name(2)}.jsonl", 9)
    with locked.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the journal of another process does
        assert remove_old_sessions(str(tmp_path), 1, now=NOW, keep=name(1)) == []
    assert own.exists()
    assert locked.exists()
    assert remove_old_sessions(str(tmp_path), 1, now=NOW, keep=name(1)) == [name(2)]


@pytest.mark.parametrize("what", ["projects", "project", "file", "side folder"])
def test_no_link_is_followed(tmp_path: Path, what: str) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    session = aged(outside / f"projects/a/{name(1)}.jsonl", 9)
    beside = aged(outside / f"projects/a/{name(1)}/payloads/x", 9)
    home.mkdir()
    if what == "projects":
        (home / "projects").symlink_to(outside / "projects")
    elif what == "project":
        (home / "projects").mkdir()
        (home / "projects/a").symlink_to(outside / "projects/a")
    else:
        (home / "projects/a").mkdir(parents=True)
        if what == "file":
            (home / f"projects/a/{name(1)}.jsonl").symlink_to(session)
        else:
            aged(home / f"projects/a/{name(1)}.jsonl", 9)
            (home / f"projects/a/{name(1)}").symlink_to(beside.parent.parent)
    remove_old_sessions(str(home), 1, now=NOW)
    assert session.exists()
    assert beside.exists()


def test_a_home_without_sessions(tmp_path: Path) -> None:
    assert remove_old_sessions(str(tmp_path / "nowhere"), 1, now=NOW) == []
