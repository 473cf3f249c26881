"""The functions on stored sessions, for session stores: the same lines give the same results."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple, cast

from mainspring.sdk.session_edits import (
    ForkSessionResult,
    check_id,
    check_message_id,
    fork_of,
    line_of,
    session_not_found,
    stamp_entry,
    tag_entry,
    timestamp_now,
    title_entry,
)
from mainspring.sdk.session_info import FileEnds, SDKSessionInfo, info_in, info_of, make_file_ends, parse_moment
from mainspring.sdk.sessions import find_sender, is_id, normalize_directory
from mainspring.sdk.stores import (
    AGENT,
    SessionKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    store_supports,
)
from mainspring.sdk.transcripts import (
    SPOKEN,
    Entry,
    SessionMessage,
    agent_conversation,
    entry_of,
    is_said,
    is_shown,
    message_of,
    select_conversation,
    slice_page,
)
from mainspring.sessions.listing import WINDOW
from mainspring.sessions.paths import project_key

MOST_LOADS = 16  # at a time: a store may have few connections


class StoreProject(NamedTuple):
    """The part of a store with the sessions of one working directory."""

    store: SessionStore
    project: str  # the directory

    def key(self, session_id: str, subpath: str = "") -> SessionKey:
        key: SessionKey = {"project_key": self.name, "session_id": session_id}
        return {**key, "subpath": subpath} if subpath else key

    @property
    def name(self) -> str:
        return project_key(self.project)

    async def load(self, session_id: str, subpath: str = "") -> list[Entry]:
        lines = await self.store.load(self.key(session_id, subpath)) if is_id(session_id) else None
        return [cast("Entry", line) for line in lines or ()]

    async def append(self, session_id: str, entries: list[Entry]) -> None:
        """Copies: a store may keep the objects, and the source of a fork may be in memory, too."""
        copies = [entry_of(line_of(entry)) for entry in entries]
        lines = [cast("SessionStoreEntry", copy) for copy in copies if copy is not None]
        await self.store.append(self.key(session_id), lines)


def _shelf(store: SessionStore, directory: str | None) -> StoreProject:
    return StoreProject(store, normalize_directory(directory if directory is not None else "."))


# --- lists ----------------------------------------------------------------------------------------------------------


class StoreListing(NamedTuple):
    """A session of a list. Without an `info` it must be loaded."""

    session_id: str
    changed: int
    info: SDKSessionInfo | None = None


async def list_sessions_from_store(
    session_store: SessionStore, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SDKSessionInfo]:
    """The newest first. If the store keeps summaries, they are used; of the others only one page is loaded.

    Raises `ValueError` if the store cannot list sessions.
    """
    first = max(offset, 0)
    end = first + limit if limit is not None and limit > 0 else None
    shelf = _shelf(session_store, directory)
    summaries, listed = await _summaries(shelf), await _listed(shelf)
    if summaries is not None:
        rows = _newest_first(_rows(summaries, listed, shelf.project))[first:end]
        return [row.info for row in await _filled(shelf, rows) if row.info is not None]
    if listed is None:
        raise ValueError("'session_store' needs 'list_sessions()' or 'list_session_summaries()', and has neither")
    loaded = await _filled(shelf, [StoreListing(one["session_id"], one["mtime"]) for one in listed])
    told = [row.info for row in _newest_first(loaded) if row.info is not None]  # others are not counted
    return told[first:end]


async def _summaries(shelf: StoreProject) -> list[SessionSummaryEntry] | None:
    """None if the store keeps no summaries."""
    try:
        kept = store_supports(shelf.store, "list_session_summaries")
        return await shelf.store.list_session_summaries(shelf.name) if kept else None
    except NotImplementedError:
        return None


async def _listed(shelf: StoreProject) -> list[SessionStoreListEntry] | None:
    return list(await shelf.store.list_sessions(shelf.name)) if store_supports(shelf.store, "list_sessions") else None


def _rows(
    summaries: list[SessionSummaryEntry], listed: list[SessionStoreListEntry] | None, project: str
) -> list[StoreListing]:
    """Summaries that are up to date, and a row without an `info` for each other session."""
    known = {one["session_id"]: one["mtime"] for one in listed} if listed is not None else None
    told: dict[str, StoreListing] = {}
    for summary in summaries:
        name, changed = summary["session_id"], summary["mtime"]
        if known is None or (name in known and changed >= known[name]):
            told[name] = StoreListing(name, changed, info_of(name, summary["data"], changed, project=project))
    gaps = [StoreListing(name, changed) for name, changed in (known or {}).items() if name not in told]
    return [row for row in told.values() if row.info is not None] + gaps


def _newest_first(rows: list[StoreListing]) -> list[StoreListing]:
    return sorted(rows, key=lambda row: -row.changed)


async def _filled(shelf: StoreProject, rows: list[StoreListing]) -> list[StoreListing]:
    """Load the sessions that have no `info`, a few at a time."""
    places = asyncio.Semaphore(MOST_LOADS)

    async def fill(row: StoreListing) -> StoreListing:
        if row.info is not None:
            return row
        async with places:
            return row._replace(info=await _loaded(shelf, row))

    return list(await asyncio.gather(*map(fill, rows)))


async def _loaded(shelf: StoreProject, row: StoreListing) -> SDKSessionInfo | None:
    try:
        lines = await shelf.store.load(shelf.key(row.session_id))
    except Exception:  # noqa: BLE001  # the store is the program's: one session that fails must not hide the others
        return SDKSessionInfo(row.session_id, "", row.changed)
    entries = [cast("Entry", line) for line in lines or ()]
    return info_in(row.session_id, _window(entries, row.changed), shelf.project) if entries else None


def _window(entries: list[Entry], changed: int) -> FileEnds:
    """As if the lines were in a file. A store may reorder fields, and a tag is recognized by how its line begins."""
    text = b"".join([line_of({name: entry[name] for name in ("type",) if name in entry} | entry) for entry in entries])
    return make_file_ends(text[:WINDOW], text[-WINDOW:], changed, len(text))


# --- one session ----------------------------------------------------------------------------------------------------


async def get_session_info_from_store(
    session_store: SessionStore, session_id: str, directory: str | None = None
) -> SDKSessionInfo | None:
    """None if it does not exist, belongs to a subagent, or has no messages. Its last line tells when it changed."""
    entries = await _shelf(session_store, directory).load(session_id)
    if not entries:
        return None
    changed = parse_moment(entries[-1].get("timestamp"))
    at = changed if changed is not None else int(time.time() * 1000)
    return info_in(session_id, _window(entries, at), _shelf(session_store, directory).project)


async def get_session_messages_from_store(
    session_store: SessionStore,
    session_id: str,
    directory: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[SessionMessage]:
    """The current conversation, without hidden messages."""
    said = list(filter(is_said, await _shelf(session_store, directory).load(session_id)))
    return list(map(message_of, slice_page(list(filter(is_shown, select_conversation(said))), limit, offset)))


async def list_subagents_from_store(
    session_store: SessionStore, session_id: str, directory: str | None = None
) -> list[str]:
    """The ids of the subagents of a session. Raises `ValueError` if the store cannot list them."""
    if is_id(session_id) and not store_supports(session_store, "list_subkeys"):
        raise ValueError("'session_store' has no 'list_subkeys()': it cannot list subagents")
    return list(await _agents(_shelf(session_store, directory), session_id))


async def get_subagent_messages_from_store(  # noqa: PLR0913, PLR0917  # as in claude-agent-sdk
    session_store: SessionStore,
    session_id: str,
    agent_id: str,
    directory: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[SessionMessage]:
    """The conversation of a subagent; each message names the call that started it."""
    shelf, place = _shelf(session_store, directory), f"subagents/agent-{agent_id}"
    if store_supports(session_store, "list_subkeys"):
        place = (await _agents(shelf, session_id)).get(agent_id, "")
    entries = await shelf.load(session_id, place) if agent_id and place else []
    call, agent = find_sender(next((entry for entry in reversed(entries) if entry.get("type") == AGENT), None))
    spoken = [entry for entry in agent_conversation(list(filter(is_said, entries))) if entry["type"] in SPOKEN]
    return [message_of(entry, call, agent) for entry in slice_page(spoken, limit, offset)]


async def _agents(shelf: StoreProject, session_id: str) -> dict[str, str]:
    """Where each subagent of a session is stored; of two with one id, the first."""
    if not is_id(session_id):
        return {}
    found: dict[str, str] = {}
    for place in await shelf.store.list_subkeys({"project_key": shelf.name, "session_id": session_id}):
        last = place.rpartition("/")[2]
        if place.startswith("subagents/") and last.startswith("agent-"):
            found.setdefault(last.removeprefix("agent-"), place)
    return found


# --- changes --------------------------------------------------------------------------------------------------------


async def rename_session_via_store(
    session_store: SessionStore, session_id: str, title: str, directory: str | None = None
) -> None:
    """Raises `ValueError` for an invalid id or title."""
    check_id(session_id)
    await _shelf(session_store, directory).append(
        session_id, [stamp_entry(title_entry(session_id, title), timestamp_now())]
    )


async def tag_session_via_store(
    session_store: SessionStore, session_id: str, tag: str | None, directory: str | None = None
) -> None:
    """None removes a tag. Raises as `rename_session_via_store`."""
    check_id(session_id)
    await _shelf(session_store, directory).append(
        session_id, [stamp_entry(tag_entry(session_id, tag), timestamp_now())]
    )


async def delete_session_via_store(session_store: SessionStore, session_id: str, directory: str | None = None) -> None:
    """Does nothing if the store cannot delete. Raises `ValueError` for an invalid id."""
    check_id(session_id)
    if store_supports(session_store, "delete"):
        await session_store.delete(_shelf(session_store, directory).key(session_id))


async def fork_session_via_store(
    session_store: SessionStore,
    session_id: str,
    directory: str | None = None,
    up_to_message_id: str | None = None,
    title: str | None = None,
) -> ForkSessionResult:
    """A copy of the conversation under a new id, in the same store. Raises as `fork_session`."""
    check_id(session_id)
    check_message_id(up_to_message_id)
    shelf = _shelf(session_store, directory)
    entries = await shelf.load(session_id)
    if not entries:
        raise session_not_found(session_id, "the store")
    new_id, lines = fork_of(entries, session_id, up_to_message_id, title)
    await shelf.append(new_id, lines)
    return ForkSessionResult(new_id)
