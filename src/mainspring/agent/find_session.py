"""Finds a session by what a user calls it: its id, the start of an id, its title, the path of its file, or a folder.

    file = locate_session("1f3a", place)

All front ends and commands search with it, first in our home, then in the other homes where sessions may be (settled
31): the pipe stores them in `~/.claude`, and so does Claude Code.
"""

# ruff: noqa: PTH100, PTH112, PTH123  # pathlib takes 8 ms to load

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

from mainspring import sessions
from mainspring.agent.options import StartError, is_uuid
from mainspring.agent.resume import ResumeError, SessionLocation
from mainspring.sessions.listing import MOST_LISTED, SessionEntry
from mainspring.sessions.paths import find_session_file, folder_of
from mainspring.text import distance

SHORTEST = 4  # characters of a session id prefix
OF_IDS = frozenset("0123456789abcdef-")
MOST_CANDIDATES = 5
MOST_NEAR = 3
MOST_EVERYWHERE = 200  # sessions in a list of all directories
MOST_SEARCHED = 1_000  # ids of each folder, the newest
NO_HOME = "no home folder to find sessions in: set MAINSPRING_HOME"
HOW = "Run 'mainspring sessions' to list the sessions of this folder"


# --- by anything that a user may call it ----------------------------------------------------------------------------


def locate_session(name: str, place: SessionLocation) -> str:
    """The file of a session: by its path, its id, the start of an id, its title, or the folder whose newest session it
    is. Raises `StartError`, which names sessions with a similar id."""
    if "/" in name or name.endswith(".jsonl") or name in (".", ".."):
        return locate_newest_session(name, place) if os.path.isdir(name) else check_session_path(name)
    if place.home is None:
        raise StartError(f"{NO_HOME}, or give the path of a session file")
    file = find_session_by_name(name, place)
    if file is not None:
        return file
    if os.path.isdir(name):
        return locate_newest_session(name, place)
    near = ", ".join([f"'{one}'" for one in find_near_ids(name, place)])
    where = ", ".join([f"'{home}'" for home in place.homes])
    similar = f"Similar ids: {near}. " if near else ""
    raise StartError(f"{format_no_session(name)}. {similar}{HOW}. Searched: {where}")


def locate_newest_session(folder: str, place: SessionLocation) -> str:
    """The newest session of a working directory, or of a directory of session files. Raises `StartError`."""
    for searched in list_session_folders(folder, place):
        found = sessions.find_newest_session(searched)
        if found is not None:
            return os.fspath(found)
    if place.home is None:
        raise StartError(f"{NO_HOME}, or give the path of a session file")
    raise StartError(f"no sessions in '{folder_of(place.home, folder)}'. {HOW}")


def list_session_folders(folder: str, place: SessionLocation) -> list[str]:
    """Where the sessions of a directory may be: in it, if it is one of session files; else in our home, then in the
    others."""
    if next(sessions.newest_first(folder), None) is not None:
        return [folder]
    return [folder_of(home, os.path.abspath(folder)) for home in place.listed_homes]


def list_sessions_of(
    folder: str, place: SessionLocation, limit: int | None = MOST_LISTED, *, trials: bool = True
) -> list[SessionEntry]:
    """The sessions of a directory in all homes, the newest first, each once: that of our home wins. `trials`: with
    those of models for tests and of the demo's, which no list offers to resume."""
    found: dict[str, SessionEntry] = {}
    for searched in list_session_folders(folder, place):
        for entry in sessions.list_sessions_in(searched, limit, trials=trials):
            found.setdefault(entry.session_id, entry)
    return sorted(found.values(), key=lambda entry: -entry.changed)[:limit]


def list_all_sessions(place: SessionLocation, limit: int = MOST_EVERYWHERE) -> list[SessionEntry]:
    """The sessions to resume of all directories in all homes, the newest first, each once: that of our home wins."""
    entries: dict[str, SessionEntry] = {}
    for home in place.listed_homes:
        for folder in list_project_folders(home):
            for entry in islice(sessions.newest_first(folder), limit):
                entries.setdefault(entry.session_id, entry)
    newest = sorted(entries.values(), key=lambda entry: -entry.changed)
    described = (sessions.describe_session(entry) for entry in newest)
    return list(islice((one for one in described if one is not None and not one.is_trial), limit))


def check_session_path(path: str) -> str:
    try:
        with open(path, "rb") as opened:  # as the user gave it
            opened.read(1)
    except OSError as error:
        raise StartError(f"cannot read '{path}': {error.strerror}") from None
    return path


def describe_other_home(file: str, place: SessionLocation) -> str:
    """Where a session was found; empty if that is in our home, or in none."""
    real = os.path.realpath(file)
    home = next((one for one in place.homes if real.startswith(f"{os.path.realpath(one)}/projects/")), place.home)
    return "" if home == place.home else f"session {sessions.id_of(file)} was found in '{home}'"


# --- by name --------------------------------------------------------------------------------------------------------


def find_session_by_name(name: str, place: SessionLocation) -> str | None:
    """By its id, from any directory; by its title, from this one; else by a prefix of its id. In our home first."""
    assert place.home is not None
    found = (find_session_in(home, name, place.cwd) for home in place.homes)
    return next(filter(None, found), None)


def find_session_in(home: str, name: str, cwd: str) -> str | None:
    if is_uuid(name):
        return find_session_file(home, name.lower(), cwd)
    own = sessions.list_sessions_in(folder_of(home, cwd), None)
    titled = [os.fspath(entry.file) for entry in own if entry.title == name]
    return titled[0] if titled else find_session_by_prefix(home, name.lower(), cwd)


def find_session_by_prefix(home: str, name: str, cwd: str) -> str | None:
    """Sessions of this directory come before those of others. Raises `ResumeError` if several match."""
    if len(name) < SHORTEST or not set(name) <= OF_IDS:
        return None
    for folders in ((folder_of(home, cwd),), tuple(list_project_folders(home))):
        entries = [
            entry for folder in folders for entry in sessions.newest_first(folder) if entry.session_id.startswith(name)
        ]
        if len(entries) > 1:
            told = ", ".join([f"'{entry.session_id}'" for entry in entries[:MOST_CANDIDATES]])
            more = f" and {len(entries) - MOST_CANDIDATES} more" if len(entries) > MOST_CANDIDATES else ""
            raise ResumeError(f"'{name}' matches {len(entries)} sessions: {told}{more}. Give more characters of the id")
        if entries:
            return os.fspath(entries[0].file)
    return None


def list_project_folders(home: str) -> list[str]:
    projects = f"{home}/projects"
    try:
        return [f"{projects}/{name}" for name in sorted(os.listdir(projects))]  # noqa: PTH208
    except OSError:
        return []


def format_no_session(name: str) -> str:
    return f"No conversation found with session ID: {name}"


# --- similar ids ----------------------------------------------------------------------------------------------------


def find_near_ids(name: str, place: SessionLocation) -> list[str]:
    """Ids that begin with the same characters, or nearly like this one, the nearest first; those of this folder before
    others."""
    said = name.lower()[:36]
    limit, begin = max(1, len(said) // 4), said[:SHORTEST]
    found = [(distance(said, one[: len(said)]), one) for one in dict.fromkeys(list_session_ids(place))]
    near = sorted([pair for pair in found if pair[0] <= limit or pair[1].startswith(begin)], key=lambda pair: pair[0])
    return [one for _, one in near[:MOST_NEAR]]


def list_session_ids(place: SessionLocation) -> Iterator[str]:
    for home in place.homes:
        for folder in (folder_of(home, place.cwd), *list_project_folders(home)):
            for number, entry in enumerate(sessions.newest_first(folder)):
                if number >= MOST_SEARCHED:
                    break
                yield entry.session_id
