"""Session stores: the protocol, a store in memory, and the import of a session into a store.

A store keeps the lines of session files as they are and does not look into them. Names and shapes are those of
`claude-agent-sdk`: a store that was written for one works with the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NotRequired, Protocol, Required, TypedDict, cast

from mainspring.sdk.session_edits import check_id, session_not_found
from mainspring.sdk.session_info import note_prompt, parse_moment
from mainspring.sdk.sessions import (
    SUFFIX,
    about_agent,
    files_of,
    load_whole_entry,
    normalize_directory,
    payload_of,
    transcripts_below,
)
from mainspring.sdk.transcripts import Entry, as_entry, entry_of
from mainspring.sessions.paths import project_key, side_folder
from mainspring.sessions.reader import LONGEST_LINE

AGENT = "agent_metadata"  # the line for the metadata file of a subagent
MOST_LINES = 500  # per call of `append`
MOST_BYTES = 1 << 20


class SessionKey(TypedDict):
    """Names a session, or with `subpath` one of its subagents: `subagents/agent-ID`."""

    project_key: str
    session_id: str
    subpath: NotRequired[str]


class SessionListSubkeysKey(TypedDict):
    """The key of a session, for `SessionStore.list_subkeys`."""

    project_key: str
    session_id: str


class SessionStoreEntry(TypedDict, total=False):
    """A line. It has more fields than these; a store returns them unchanged."""

    type: Required[str]
    uuid: str
    timestamp: str


class SessionStoreListEntry(TypedDict):
    """One session of `SessionStore.list_sessions`."""

    session_id: str
    mtime: int  # milliseconds since 1970, by the store's own clock


class SessionSummaryEntry(TypedDict):
    """The list entry of a session, kept by the store so that a list does not have to read the session."""

    session_id: str
    mtime: int  # when it was stored, by the clock of `list_sessions`
    data: dict[str, Any]  # opaque to the store


SessionStoreFlushMode = Literal["batched", "eager"]  # once per turn, or as lines are written


def left_out(method: str, wanted: object) -> NotImplementedError:
    """Raise with a text of our own: a method that only raises NotImplementedError is abstract to type checkers, and
    would have to be implemented.
    """
    return NotImplementedError(f"this session store does not implement '{method}()', called for '{wanted}'")


class SessionStore(Protocol):
    """A store needs only `append` and `load`; methods that it omits, or inherits from here, are unsupported.

    Test your implementation with `claude_agent_sdk.testing.run_session_store_conformance`.
    """

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append lines. A line that is sent again has the same `uuid`, and may be skipped."""
        ...

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All lines in their order; None if there never were any."""
        ...

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        raise left_out("list_sessions", project_key)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The results of `fold_session_summary` for each session, without subagents."""
        raise left_out("list_session_summaries", project_key)

    async def delete(self, key: SessionKey) -> None:
        """A session with all of its subagents; or, with a `subpath`, one of them."""
        raise left_out("delete", key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The `subpath`s of a session."""
        raise left_out("list_subkeys", key)


def store_supports(store: SessionStore, method: str) -> bool:
    """Whether a store implements the method, and does not only inherit the default of ours or of claude-agent-sdk."""
    given: object = getattr(type(store), method, None)
    inherited = getattr(given, "__module__", ""), getattr(given, "__qualname__", "")
    words = [(module, f"SessionStore.{method}") for module in (__name__, "claude_agent_sdk.types")]
    return getattr(store, method, None) is not None and inherited not in words


def project_key_for_directory(directory: str | Path | None = None) -> str:
    """The name of a working directory in a store, as on disk; by default, of the current one."""
    return project_key(normalize_directory(directory if directory is not None else "."))


# --- summaries ----------------------------------------------------------------------------------------------------

_LATEST = {  # fields whose last line counts, and our names for them
    "customTitle": "custom_title",
    "aiTitle": "ai_title",
    "lastPrompt": "last_prompt",
    "summary": "summary_hint",
    "gitBranch": "git_branch",
}


def fold_session_summary(
    prev: SessionSummaryEntry | None, key: SessionKey, entries: list[SessionStoreEntry]
) -> SessionSummaryEntry:
    """The summary of a session after these lines: call it in `append`, but not for subagents.

    `mtime` is unchanged, 0 at first: the store sets it when it has stored the summary.
    """
    known: dict[str, Any] = dict(prev["data"]) if prev is not None else {}
    for line in entries:
        update_summary(known, cast("Entry", line))
    return {
        "session_id": prev["session_id"] if prev is not None else key["session_id"],
        "mtime": prev["mtime"] if prev is not None else 0,
        "data": known,
    }


def update_summary(known: dict[str, Any], entry: Entry) -> None:
    known.setdefault("is_sidechain", entry.get("isSidechain") is True)
    began, folder = parse_moment(entry.get("timestamp")), entry.get("cwd")
    if began is not None:
        known.setdefault("created_at", began)
    if isinstance(folder, str) and folder:
        known.setdefault("cwd", folder)
    note_prompt(known, entry)
    known.update({word: entry[field] for field, word in _LATEST.items() if isinstance(entry.get(field), str)})
    if entry.get("type") == "tag":
        known.pop("tag", None)
        if isinstance(tag := entry.get("tag"), str) and tag:
            known["tag"] = tag


# --- a store in memory ------------------------------------------------------------------------------------------------

_Name = tuple[str, str, str]  # project, session, subagent


def _name(key: SessionKey) -> _Name:
    return key["project_key"], key["session_id"], key.get("subpath", "")


class InMemorySessionStore(SessionStore):
    """For tests and experiments: its contents end with the process."""

    def __init__(self) -> None:
        self._lines: dict[_Name, list[SessionStoreEntry]] = {}
        self._changed: dict[_Name, int] = {}
        self._summaries: dict[_Name, SessionSummaryEntry] = {}
        self._last = 0

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        if not entries:
            return
        name = _name(key)
        self._lines.setdefault(name, []).extend(entries)
        self._changed[name] = self._last = max(int(time.time() * 1000), self._last + 1)  # always increasing
        if not name[2]:
            summary = fold_session_summary(self._summaries.get(name), key, entries)
            summary["mtime"] = self._last
            self._summaries[name] = summary

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        lines = self._lines.get(_name(key))
        return list(lines) if lines is not None else None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        names = [name for name in self._lines if name[0] == project_key and not name[2]]
        return [{"session_id": name[1], "mtime": self._changed[name]} for name in names]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        return [summary for name, summary in self._summaries.items() if name[0] == project_key]

    async def delete(self, key: SessionKey) -> None:
        wanted = _name(key)
        for name in [name for name in self._lines if name == wanted or (not wanted[2] and name[:2] == wanted[:2])]:
            del self._lines[name], self._changed[name]
            self._summaries.pop(name, None)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        wanted = key["project_key"], key["session_id"]
        return [name[2] for name in self._lines if name[2] and name[:2] == wanted]

    # --- for tests ---

    def get_entries(self, key: SessionKey) -> list[SessionStoreEntry]:
        return list(self._lines.get(_name(key), ()))

    @property
    def size(self) -> int:
        """The number of sessions."""
        return sum(not name[2] for name in self._lines)

    def clear(self) -> None:
        for kept in (self._lines, self._changed, self._summaries):
            kept.clear()


# --- from a file into a store -----------------------------------------------------------------------------------------


async def import_session_to_store(
    session_id: str,
    store: SessionStore,
    *,
    directory: str | None = None,
    include_subagents: bool = True,
    batch_size: int = MOST_LINES,
) -> None:
    """Import all readable lines of a session and its subagents. Its files are not changed.

    Raises `ValueError` for an invalid id, `FileNotFoundError` if there is no such session.
    """
    check_id(session_id)
    found = next(files_of(session_id, directory), None)
    if found is None:
        raise session_not_found(session_id, f"the folder '{directory}'" if directory else "any folder")
    most = batch_size if batch_size > 0 else MOST_LINES
    key: SessionKey = {"project_key": found.file.parent.name, "session_id": session_id}
    await _bring(found.file, store, key, most)
    beside = Path(side_folder(found.file))
    for file in transcripts_below(beside / "subagents") if include_subagents else ():
        agent: SessionKey = {**key, "subpath": file.relative_to(beside).as_posix().removesuffix(SUFFIX)}
        await _bring(file, store, agent, most)
        if (about := about_agent(file)) is not None:
            await store.append(agent, [_as_line(about | {"type": AGENT})])


async def _bring(file: Path, store: SessionStore, key: SessionKey, most: int) -> None:
    batch, size = list[SessionStoreEntry](), 0
    for entry, length in _lines_of(file):
        batch.append(_as_line(entry))
        size += length
        if len(batch) >= most or size >= MOST_BYTES:
            await store.append(key, batch)
            batch, size = [], 0
    if batch:
        await store.append(key, batch)


def _lines_of(file: Path) -> Iterator[tuple[Entry, int]]:
    """Including our own lines: a session that is resumed from the store needs them."""
    with file.open("rb") as lines:
        for line in lines:
            entry = entry_of(line)
            if entry is not None:
                full = complete_entry(entry, file)
                yield full, len(line) if full is entry else LONGEST_LINE  # a large one is sent alone


def complete_entry(entry: Entry, file: Path) -> Entry:
    """With the content that is stored beside the file, which no store gets; unless the line would be too long to
    read.
    """
    name = payload_of(entry)
    full = load_whole_entry(entry, file) if name else entry
    if full is entry or Path(side_folder(file), "payloads", name).stat().st_size > LONGEST_LINE // 2:
        return entry
    mark = as_entry(entry["mainspring"]) or {}
    return full | {"mainspring": {field: value for field, value in mark.items() if field != "payload"}}


def _as_line(entry: Entry) -> SessionStoreEntry:
    return cast("SessionStoreEntry", entry)
