"""Read stored sessions: list them, get one, its messages, and those of its subagents.

Names, parameters and results are those of `claude-agent-sdk`; `test_sessions_differences.py` explains where results
differ. A list reads 64 KiB from each end of the sessions that it shows, and nothing of the others.

`session_edits.py` changes sessions, and `store_sessions.py` handles those in a session store.
"""

from __future__ import annotations

import os
import stat
import subprocess
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mainspring.sdk.session_info import SDKSessionInfo, info_in, modified_ms, window_of
from mainspring.sdk.transcripts import (
    SPOKEN,
    Entry,
    SessionMessage,
    agent_conversation,
    as_entry,
    entry_of,
    is_said,
    is_shown,
    message_of,
    select_conversation,
    slice_page,
    value_of,
)
from mainspring.sessions.line_format import OURS
from mainspring.sessions.paths import LONGEST_KEY, Place, is_session_id, project_key, side_folder
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.subagents import meta_file
from mainspring.settings.load import home_folder, other_homes

SUFFIX = ".jsonl"
GIT_PATIENCE = 5  # seconds; as claude-agent-sdk waits


def list_sessions(
    directory: str | None = None, limit: int | None = None, offset: int = 0, include_worktrees: bool = True
) -> list[SDKSessionInfo]:
    """The sessions of a directory and, in a git repository, of its other worktrees; without a directory, all of them.

    The newest come first. Sessions of subagents, and sessions without messages, are left out.
    """
    first = max(offset, 0)
    end = first + limit if limit is not None and limit > 0 else None
    own = normalize_directory(directory) if directory else ""
    folders = _folders(_listed_with(own) if include_worktrees else [own]) if own else _all_folders()
    return list(islice(_described(folders), first, end))


def get_session_info(session_id: str, directory: str | None = None) -> SDKSessionInfo | None:
    """None if it does not exist, belongs to a subagent, or has no messages."""
    for found in files_of(session_id, directory):
        window = window_of(found.file)
        if window is not None:
            return info_in(session_id, window, found.project)
    return None


def get_session_messages(
    session_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """The current conversation, without hidden messages. Empty if the session does not exist."""
    for found in files_of(session_id, directory):
        said = said_in(found.file)
        if said is not None:
            shown = [entry for entry in select_conversation(said) if is_shown(entry)]
            return [message_of(load_whole_entry(entry, found.file)) for entry in slice_page(shown, limit, offset)]
    return []


def list_subagents(session_id: str, directory: str | None = None) -> list[str]:
    """The ids of the subagents of a session."""
    return [agent for agent, _ in agents_of(session_id, directory)]


def get_subagent_messages(
    session_id: str, agent_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """The conversation of a subagent; each message names the call that started it."""
    agents = agents_of(session_id, directory) if agent_id else []
    file = next((file for agent, file in agents if agent == agent_id), None)
    said = said_in(file) if file is not None else None
    if file is None or said is None:
        return []
    call, agent = find_sender(about_agent(file))
    spoken = [entry for entry in agent_conversation(said) if entry["type"] in SPOKEN]
    return [message_of(load_whole_entry(entry, file), call, agent) for entry in slice_page(spoken, limit, offset)]


# --- locations --------------------------------------------------------------------------------------------------


class SessionFile(NamedTuple):
    file: Path
    project: str | None  # the requested working directory; None: any
    changed: int = 0


def is_id(text: str) -> bool:
    return is_session_id(text.lower())


def normalize_directory(directory: Place) -> str:
    return unicodedata.normalize("NFC", os.path.realpath(directory))


def find_projects_folders() -> list[Path]:
    """By the environment of the process: these functions have no options. Our home comes first, then the others where
    sessions may be, unless a variable names ours (settled 31)."""
    home = home_folder(os.environ)
    others, has_usual_home = other_homes(os.environ)
    homes = [home] if home is not None else []
    return [Path(one, "projects") for one in (*homes, *(others if has_usual_home else ()))]


def files_of(session_id: str, directory: str | None) -> Iterator[SessionFile]:
    """The possible files of a session, the likeliest first. Empty for an invalid id: it could be any path."""
    if not is_id(session_id):
        return
    folders = _folders(_with_worktrees(normalize_directory(directory))) if directory else _all_folders()
    found = (_looked_at(folder / f"{session_id}{SUFFIX}", project) for folder, project in folders)
    there = (each for each in found if each is not None)
    yield from there if directory else sorted(there, key=_newest)  # of several copies, the one that a list shows


def _newest(found: SessionFile) -> int:
    return -found.changed


def _looked_at(file: Path, project: str | None) -> SessionFile | None:
    """None if it is not a regular file, or empty: opening a pipe could block."""
    try:
        about = file.stat()
    except OSError:
        return None
    if not about.st_size or not stat.S_ISREG(about.st_mode):
        return None
    return SessionFile(file, project, modified_ms(about))


def _all_folders() -> Iterator[tuple[Path, str | None]]:
    return ((folder, None) for above in find_projects_folders() for folder in _listed(above) if folder.is_dir())


def _folders(paths: Iterable[str]) -> Iterator[tuple[Path, str | None]]:
    """The session directories of working directories, where they exist; with the working directory."""
    seen: set[Path] = set()
    for path in paths:
        for above in find_projects_folders():
            folder = _folder_for(path, above)
            if folder is not None and folder not in seen:
                seen.add(folder)
                yield folder, path


def _with_worktrees(path: str) -> Iterator[str]:
    """Git runs only if the caller reads past the first entry."""
    yield path
    yield from list_worktrees(path)


def _listed_with(path: str) -> list[str]:
    """A single worktree adds nothing: the sessions of a repository are not those of every directory in it."""
    others = list_worktrees(path)
    return [path, *others] if len(others) > 1 else [path]


def list_worktrees(path: str) -> list[str]:
    """Worktrees of the git repository of a directory; empty without git, or if git does not answer."""
    try:
        done = subprocess.run(
            ["git", "worktree", "list", "--porcelain"],  # noqa: S607  # the user's own
            cwd=path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = os.fsdecode(done.stdout).split("\n")
    return [unicodedata.normalize("NFC", row[9:]) for row in rows if row.startswith("worktree ")]


def _folder_for(path: str, above: Path) -> Path | None:
    """Where the sessions of a working directory are. Programs differ in how they shorten a long name (14.1)."""
    exact = above / project_key(path)
    if exact.is_dir():
        return exact
    long = exact.name[: LONGEST_KEY + 1] if len(exact.name) > LONGEST_KEY else ""
    return next((each for each in _listed(above) if long and each.name.startswith(long) and each.is_dir()), None)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


# --- lists --------------------------------------------------------------------------------------------------------


def _described(folders: Iterable[tuple[Path, str | None]]) -> Iterator[SDKSessionInfo]:
    """The newest first, each once. An entry is read only when the caller reaches it."""
    found = [each for folder, project in folders for each in _in_folder(folder, project)]
    shown: set[str] = set()
    for file, project, _ in sorted(found, key=_newest):
        session_id = file.name.removesuffix(SUFFIX)
        window = window_of(file) if session_id not in shown else None
        info = info_in(session_id, window, project) if window is not None else None
        if info is not None:
            shown.add(session_id)
            yield info


def _in_folder(folder: Path, project: str | None) -> Iterator[SessionFile]:
    for file in _listed(folder):
        if file.name.endswith(SUFFIX) and is_id(file.name.removesuffix(SUFFIX)):
            found = _looked_at(file, project)
            if found is not None:
                yield found


# --- files ----------------------------------------------------------------------------------------------------------


def entries_in(file: Path) -> Iterator[Entry]:
    """The readable lines of a file, without those that are ours alone. Raises `OSError`."""
    with file.open("rb") as lines:
        for line in lines:
            entry = entry_of(line) if not line.startswith(OURS) else None
            if entry is not None:
                yield entry


def said_in(file: Path) -> list[Entry] | None:
    try:
        return [entry for entry in entries_in(file) if is_said(entry)]
    except OSError:
        return None


def load_whole_entry(entry: Entry, file: Path) -> Entry:
    """With all of its content, if that was too large for the line, which then has only the beginning."""
    message, content = as_entry(entry.get("message")), None
    name = payload_of(entry)
    if name and message is not None:
        with suppress(OSError), JournalReader(file) as reader:
            content = value_of(reader.payload(name) or b"")
    return entry if content is None or message is None else entry | {"message": message | {"content": content}}


def payload_of(entry: Entry) -> str:
    """The name of the file with the content that was too large for the line."""
    name = (as_entry(entry.get("mainspring")) or {}).get("payload")
    return name if isinstance(name, str) else ""


def agents_of(session_id: str, directory: str | None) -> list[tuple[str, Path]]:
    found = next(files_of(session_id, directory), None)
    files = transcripts_below(Path(side_folder(found.file), "subagents")) if found is not None else ()
    return [(file.stem.removeprefix("agent-"), file) for file in files if file.name.startswith("agent-")]


def transcripts_below(folder: Path) -> Iterator[Path]:
    """Sorted by name. A directory that several links point to is read once."""
    waiting, seen = [folder], set[tuple[int, int]]()
    while waiting:
        at = waiting.pop()
        if at.is_dir():
            if (place := _identity(at)) not in seen:
                seen.add(place)
                waiting += sorted(_listed(at), reverse=True)
        elif at.name.endswith(SUFFIX) and at.is_file():
            yield at


def _identity(folder: Path) -> tuple[int, int]:
    try:
        about = folder.stat()
    except OSError:
        return 0, 0  # gone meanwhile
    return about.st_dev, about.st_ino


def about_agent(file: Path) -> Entry | None:
    """The metadata beside a subagent's file; None if it cannot be read."""
    try:
        return entry_of(Path(meta_file(str(file))).read_bytes())
    except OSError:
        return None


def find_sender(about: Entry | None) -> tuple[str | None, str | None]:
    """The call that started a subagent, and the subagent that made the call."""
    call, agent = (about or {}).get("toolUseId"), (about or {}).get("parentAgentId")
    return call if isinstance(call, str) else None, agent if isinstance(agent, str) else None
