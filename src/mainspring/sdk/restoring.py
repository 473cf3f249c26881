"""A session out of a store: brought into a folder of its own for as long as it is taken up again."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from mainspring.assembly.options import is_uuid
from mainspring.core.errors import UsageError
from mainspring.sdk.errors import ClaudeSDKError
from mainspring.sdk.options import Options
from mainspring.sdk.session_changes import line_of
from mainspring.sdk.stores import offers
from mainspring.sessions.places import folder_of

Entry = dict[str, Any]
META = "agent_metadata"  # an entry that stands for the file beside an agent's


class Restored:
    def __init__(self, options: Options, folder: str) -> None:
        self.options = options  # with the session's id
        self.folder = folder  # a home for this session alone

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


async def restored(options: Options) -> Restored | None:
    """None: there is nothing to take up, or the store does not have it. Raises `UsageError` for wishes that exclude
    each other, and `ClaudeSDKError` if the store fails."""
    check(options)
    if options.resume is None and not options.continue_conversation:
        return None
    project = project_of(options)
    found = await candidate(options, project)
    if found is None:
        return None
    session_id, entries = found
    made = Restored(
        replace(options, resume=session_id, continue_conversation=False), tempfile.mkdtemp(prefix="mainspring-session-")
    )
    try:
        place = f"{made.folder}/projects/{project}"
        write(f"{place}/{session_id}.jsonl", entries)
        await bring_agents(options, {"project_key": project, "session_id": session_id}, f"{place}/{session_id}")
    except BaseException:
        made.remove()
        raise
    return made


def project_of(options: Options) -> str:
    return os.path.basename(folder_of("", os.path.realpath(options.cwd or ".")))  # noqa: PTH119


def check(options: Options) -> None:
    if options.enable_file_checkpointing:
        raise UsageError("'session_store' and 'enable_file_checkpointing' exclude each other: a store keeps no files")
    if options.continue_conversation and not options.resume and not offers(options.session_store, "list_sessions"):
        raise UsageError(
            "'continue_conversation' needs a store with 'list_sessions()': or name the session by 'resume'"
        )


async def candidate(options: Options, project: str) -> tuple[str, list[Any]] | None:
    """The session that is named, or the newest that is no agent's."""
    store = options.session_store
    if options.resume is not None:
        names = [options.resume] if is_uuid(options.resume) else []
    else:
        listed = await waited(store.list_sessions(project), options, "list_sessions()")
        names = [one["session_id"] for one in sorted(listed or (), key=lambda one: one["mtime"], reverse=True)]
    for name in filter(is_uuid, names):
        entries = await waited(store.load({"project_key": project, "session_id": name}), options, "load()")
        if entries and not entries[0].get("isSidechain"):
            return name, entries
    return None


async def bring_agents(options: Options, key: dict[str, str], folder: str) -> None:
    store = options.session_store
    if not offers(store, "list_subkeys"):
        return
    for subpath in await waited(store.list_subkeys(key), options, "list_subkeys()") or ():
        if subpath.startswith("/") or ".." in subpath.split("/"):
            continue  # out of the folder
        entries: list[Entry] = await waited(store.load({**key, "subpath": subpath}), options, "load()") or []
        lines = [one for one in entries if one.get("type") != META]
        about = [one for one in entries if one.get("type") == META]
        if lines:
            write(f"{folder}/{subpath}.jsonl", lines)
        if about:
            kept = {name: value for name, value in about[-1].items() if name != "type"}
            write(f"{folder}/{subpath}.meta.json", [kept])


async def waited(work: Awaitable[Any], options: Options, what: str) -> Any:
    try:
        async with asyncio.timeout(options.load_timeout_ms / 1_000):
            return await work
    except TimeoutError:
        raise ClaudeSDKError(f"the session store's {what} took more than {options.load_timeout_ms} ms") from None
    except Exception as error:
        raise ClaudeSDKError(f"the session store's {what} failed: {error}") from error


def write(path: str, entries: list[Any]) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(b"".join([line_of(entry) for entry in entries]))
