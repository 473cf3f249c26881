"""Removes sessions: one by its file, or all that have not been written to for so many days (`cleanupPeriodDays`).

It considers only names of sessions, in the directories of sessions, and follows no link: every step uses the descriptor
of the directory before it. A session that any process has open stays, however old it is. What belongs to a session
(payloads, subagents, file checkpoints) is removed before its file, so an interrupted removal is finished the next time.
File checkpoints without a session, which a crash can leave, go when they are as old.
"""

# ruff: noqa: PTH208  # pathlib takes 8 ms to load

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from mainspring.core.errors import UsageError
from mainspring.sessions.paths import HISTORY, HISTORY_LOCK, HISTORY_LOG, UNFINISHED, is_session_id

DAY = 86_400  # seconds
SUFFIX = ".jsonl"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def start_cleanup(home: str, days: int, *, now: float, keep: str) -> threading.Thread:
    """Runs in the background and ends with the process."""
    work = threading.Thread(
        target=remove_old_sessions, args=(home, days), kwargs={"now": now, "keep": keep}, daemon=True,
        name="mainspring-cleanup",
    )  # fmt: skip
    work.start()
    return work


def remove_old_sessions(home: str, days: int, *, now: float, keep: str = "") -> list[str]:
    """Returns the ids of the removed sessions. `now` is in seconds; `keep` is the session in use. Keeps what cannot be
    removed."""
    removed: list[str] = []
    with suppress(OSError), _opened(f"{home}/projects") as projects:
        for name in os.listdir(projects):
            with suppress(OSError), _opened(name, projects) as project:
                for one in _old(project, now - days * DAY):
                    with suppress(OSError):  # another process has it open, or we may not remove it
                        if one != keep:
                            _remove(one, project)
                            removed.append(one)
    _remove_orphans(home, now - days * DAY, keep)
    return removed


def _remove_orphans(home: str, before: float, keep: str) -> None:
    """File checkpoints of sessions that are not there. Nothing goes if it is not known which sessions there are."""
    with suppress(OSError), _opened(f"{home}/{HISTORY}") as histories:
        known = {keep, *_list_all(home)}
        for name in os.listdir(histories):
            if is_session_id(name) and name not in known:
                with suppress(OSError):
                    _remove_orphan(name, histories, before)


def _list_all(home: str) -> set[str]:
    """The ids of all sessions. Raises `OSError` if there may be others."""
    known = set[str]()
    try:
        with _opened(f"{home}/projects") as projects:
            for name in os.listdir(projects):
                if not stat.S_ISREG(os.stat(name, dir_fd=projects, follow_symlinks=False).st_mode):
                    with _opened(name, projects) as project:
                        known.update([file.removesuffix(SUFFIX) for file in os.listdir(project)])
    except FileNotFoundError:
        return known
    return known


def _remove_orphan(session_id: str, histories: int, before: float) -> None:
    """Takes the lock that a process holds which is using it."""
    with _opened(session_id, histories) as history:
        if os.stat(HISTORY_LOG, dir_fd=history, follow_symlinks=False).st_mtime < before:
            lock = os.open(HISTORY_LOCK, _FILE, dir_fd=history)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(session_id, dir_fd=histories)
            finally:
                os.close(lock)


def find_old_sessions(home: str, *, before: float) -> list[str]:
    """The files of sessions that were last written to before this time, in seconds. The oldest come first."""
    found: list[tuple[float, str]] = []
    with suppress(OSError), _opened(f"{home}/projects") as projects:
        for name in os.listdir(projects):
            with suppress(OSError), _opened(name, projects) as project:
                for one in _old(project, before):
                    changed = os.stat(f"{one}{SUFFIX}", dir_fd=project, follow_symlinks=False).st_mtime
                    found.append((changed, f"{home}/projects/{name}/{one}{SUFFIX}"))
    return [file for _, file in sorted(found)]


def delete_stored_session(file: str) -> None:
    """Removes a session with all that belongs to it. Raises `BlockingIOError` if it is in use, other errors of the
    system, and `UsageError` if the file has not the name of a session."""
    folder, _, name = file.rpartition("/")
    session_id = name.removesuffix(SUFFIX)
    if not name.endswith(SUFFIX) or not is_session_id(session_id):
        raise UsageError(f"'{file}' is not the file of a session: its name is not '<id>.jsonl'")
    with _opened(folder or ".") as project:
        _remove(session_id, project)


def _old(project: int, before: float) -> list[str]:
    found: list[str] = []
    for name in os.listdir(project):
        session_id = name.removesuffix(SUFFIX)
        if name.endswith(SUFFIX) and is_session_id(session_id):
            with suppress(OSError):
                file = os.stat(name, dir_fd=project, follow_symlinks=False)
                if stat.S_ISREG(file.st_mode) and file.st_mtime < before:
                    found.append(session_id)
    return found


def _remove(session_id: str, project: int) -> None:
    """Takes the lock that a session in use holds. Raises `OSError` if it is still there."""
    name = f"{session_id}{SUFFIX}"
    file = os.open(name, _FILE, dir_fd=project)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for folder in (f"../../{HISTORY}", HISTORY):  # file checkpoints; the latter of a file outside our home
            with suppress(FileNotFoundError, NotADirectoryError), _opened(folder, project) as histories:
                with suppress(FileNotFoundError):
                    os.unlink(f"{UNFINISHED}/{session_id}", dir_fd=histories)
                shutil.rmtree(session_id, dir_fd=histories)
        with suppress(FileNotFoundError, NotADirectoryError):
            shutil.rmtree(session_id, dir_fd=project)
        os.unlink(name, dir_fd=project)
    finally:
        os.close(file)


@contextmanager
def _opened(path: str, within: int | None = None) -> Generator[int]:
    folder = os.open(path, _FOLDER, dir_fd=within)
    try:
        yield folder
    finally:
        os.close(folder)
