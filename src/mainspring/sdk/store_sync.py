"""A session out of a store: brought into a folder of its own for as long as it is taken up again."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from mainspring.agent.options import is_uuid
from mainspring.core.errors import UsageError
from mainspring.engine.tasks import run_to_completion
from mainspring.mcp.host_transport import as_object_or_none
from mainspring.sdk.complaints import is_cancelled
from mainspring.sdk.errors import ClaudeSDKError
from mainspring.sdk.mirror import TEMPORARY
from mainspring.sdk.options import Options
from mainspring.sdk.session_edits import line_of
from mainspring.sdk.stores import SessionStore, store_supports
from mainspring.sessions.paths import folder_of

Entry = dict[str, Any]
META = "agent_metadata"  # an entry that stands for the file beside an agent's


class RestoredSession:
    def __init__(self, options: Options, folder: str) -> None:
        self.options = options  # with the session's id
        self.folder = folder  # a home for this session alone
        self._mark = Path(folder, TEMPORARY)
        self._mark.touch()

    def remove(self) -> None:
        """Unless the store did not take all that was written since: then it is the only place that has it."""
        if self._mark.exists():
            shutil.rmtree(self.folder, ignore_errors=True)


async def restore_from_store(options: Options) -> RestoredSession | None:
    """None: there is nothing to take up, or the store does not have it. Raises `UsageError` for wishes that exclude
    each other, and `ClaudeSDKError` if the store fails."""
    check_store_options(options)
    if options.resume is None and not options.continue_conversation:
        return None
    project = project_of(options)
    found = await find_candidate(options, project)
    if found is None:
        return None
    session_id, entries = found
    made = RestoredSession(
        replace(options, resume=session_id, continue_conversation=False), tempfile.mkdtemp(prefix="mainspring-session-")
    )
    try:
        place = f"{made.folder}/projects/{project}"
        await write_in_thread(f"{place}/{session_id}.jsonl", entries)
        await bring_agents(options, {"project_key": project, "session_id": session_id}, f"{place}/{session_id}")
    except BaseException:
        made.remove()
        raise
    return made


def project_of(options: Options) -> str:
    return os.path.basename(folder_of("", os.path.realpath(options.cwd or ".")))  # noqa: PTH119


def check_store_options(options: Options) -> None:
    if options.enable_file_checkpointing:
        raise UsageError("'session_store' and 'enable_file_checkpointing' exclude each other: a store keeps no files")
    if (
        options.continue_conversation
        and not options.resume
        and not store_supports(cast("SessionStore", options.session_store), "list_sessions")
    ):
        raise UsageError(
            "'continue_conversation' needs a store with 'list_sessions()': or name the session by 'resume'"
        )


async def find_candidate(options: Options, project: str) -> tuple[str, list[Entry]] | None:
    """The session that is named, or the newest that is no agent's."""
    if options.resume is not None:
        names = [options.resume]
    else:
        listed = await call_store(options, "list_sessions", project)
        if not all(map(is_listed, listed)):
            raise odd_answer_error("list_sessions", "dicts with a text 'session_id' and a number 'mtime'")
        names = [one["session_id"] for one in sorted(listed, key=lambda one: one["mtime"], reverse=True)]
    for name in filter(is_uuid, names):
        entries = await load_lines(options, {"project_key": project, "session_id": name})
        if entries and not entries[0].get("isSidechain"):
            return name, entries
    return None


def is_listed(given: object) -> bool:
    one = as_object_or_none(given) or {}
    return isinstance(one.get("session_id"), str) and isinstance(one.get("mtime"), int | float)


async def bring_agents(options: Options, key: dict[str, str], folder: str) -> None:
    if not store_supports(cast("SessionStore", options.session_store), "list_subkeys"):
        return
    subpaths = await call_store(options, "list_subkeys", key)
    if not all(isinstance(one, str) for one in subpaths):
        raise odd_answer_error("list_subkeys", "texts")
    if len(set(subpaths)) < len(subpaths):
        twice = next(one for one in subpaths if subpaths.count(one) > 1)
        raise ClaudeSDKError(f"the session store's list_subkeys() gives '{twice}' twice")
    for subpath in subpaths:
        if not subpath or subpath.startswith("/") or ".." in subpath.split("/"):
            continue  # out of the folder
        entries = await load_lines(options, {**key, "subpath": subpath})
        said = [one for one in entries if one.get("type") != META]
        about = [one for one in entries if one.get("type") == META]
        if said:
            await write_in_thread(f"{folder}/{subpath}.jsonl", said)
        if about:
            kept = {name: value for name, value in about[-1].items() if name != "type"}
            await write_in_thread(f"{folder}/{subpath}.meta.json", [kept])


# --- what a store answers: it is the program's, and may be anything -------------------------------------------------


async def load_lines(options: Options, key: dict[str, str]) -> list[Entry]:
    entries = await call_store(options, "load", key)
    if not all(isinstance(one, dict) for one in entries):
        raise odd_answer_error("load", "dicts")
    return entries


async def call_store(options: Options, method: str, about: object) -> list[Any]:
    """None is an empty list."""
    limit = asyncio.timeout(options.load_timeout_ms / 1_000)
    try:
        async with limit:
            answer: Any = await getattr(options.session_store, method)(about)
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise store_error(method, error) from error
    except Exception as error:
        if limit.expired():
            raise ClaudeSDKError(
                f"the session store's {method}() took more than {options.load_timeout_ms} ms ('load_timeout_ms')"
            ) from None
        raise store_error(method, error) from error
    if not isinstance(answer, list | tuple | None):
        raise odd_answer_error(method)
    return [*(answer or ())]


def store_error(method: str, error: BaseException) -> ClaudeSDKError:
    return ClaudeSDKError(f"the session store's {method}() failed: {type(error).__name__}: {error}")


def odd_answer_error(method: str, of: str = "") -> ClaudeSDKError:
    """Without what it gave: that may be a whole conversation."""
    return ClaudeSDKError(f"the session store's {method}() gives no list" + (f" of {of}" if of else ""))


# --- files ------------------------------------------------------------------------------------------------------------


async def write_in_thread(path: str, entries: list[Entry]) -> None:
    """In a thread: a session of 16 MB takes 0.2 s. The thread ends before us, as the folder may be removed then."""
    try:
        await run_to_completion(asyncio.to_thread(write_entries, path, entries))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ClaudeSDKError(f"what the session store gives cannot be written to {path!r:.300}: {error}") from error


def write_entries(path: str, entries: list[Entry]) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        for entry in entries:
            file.write(line_of(entry))
