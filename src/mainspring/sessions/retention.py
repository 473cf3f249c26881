"""`cleanupPeriodDays`: removes session files that have not been written to for so many days.

It considers only names of sessions, in the directories of sessions, and follows no link: every step uses the descriptor
of the directory before it. A session that any process has open stays, however old it is. What belongs to a session
(payloads, subagents) is removed before its file, so that an interrupted removal is finished the next time.
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

from mainspring.sessions.paths import is_session_id

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
    before = now - days * DAY
    removed: list[str] = []
    with suppress(OSError), _opened(f"{home}/projects") as projects:
        for name in os.listdir(projects):
            with suppress(OSError), _opened(name, projects) as project:
                removed += [one for one in _old(project, before) if one != keep and _remove(one, project)]
    return removed


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


def _remove(session_id: str, project: int) -> bool:
    """Whether it is gone. Takes the lock that a session in use holds."""
    name = f"{session_id}{SUFFIX}"
    try:
        file = os.open(name, _FILE, dir_fd=project)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError, NotADirectoryError):
            shutil.rmtree(session_id, dir_fd=project)
        os.unlink(name, dir_fd=project)
    except OSError:  # another process has it open, or we may not remove it
        return False
    finally:
        os.close(file)
    return True


@contextmanager
def _opened(path: str, within: int | None = None) -> Generator[int]:
    folder = os.open(path, _FOLDER, dir_fd=within)
    try:
        yield folder
    finally:
        os.close(folder)
