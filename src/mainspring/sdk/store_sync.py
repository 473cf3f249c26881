"""Mirror a session's lines to a session store (stream-json 14.5), and restore a session from one to resume it.

The session's own file is written first and is the source of truth. Lines of one file reach the store in order, and all
lines of a turn are there before its result is shown: so a slow store delays results, and the end of the session, for up
to `PATIENCE` per file. If the store does not accept lines, a `mirror_error` message and the log name the file that has
them.

A restored session is in a directory of its own while it runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

import msgspec

from mainspring.agent.options import is_uuid
from mainspring.core.errors import UsageError
from mainspring.core.value import as_object_or_none
from mainspring.engine.tasks import end_all, run_to_completion
from mainspring.sdk.errors import ClaudeSDKError, is_cancelled
from mainspring.sdk.options import Options
from mainspring.sdk.session_edits import line_of
from mainspring.sdk.stores import SessionStore, store_supports
from mainspring.sessions.paths import folder_of
from mainspring.text import plural

Frame = dict[str, Any]
TRIES = (0.0, 0.2, 0.8)  # seconds before each retry
PATIENCE = 60.0  # seconds for one call
MOST = 500  # lines that wait for the end of a turn
TEMPORARY = ".goes-with-its-session"  # marks a home for one session; a home without it is kept


class StoreMirror:
    def __init__(self, options: Options, projects: str, show: Callable[[Frame], object]) -> None:
        """`projects`: the directory of the session's files. `show` receives an error if the store does not accept
        lines.
        """
        self._store: Any = options.session_store
        self._projects, self._show = projects, show
        self._most = 0 if options.session_store_flush == "eager" else MOST
        self._waiting: dict[str, list[bytes]] = {}  # lines per file
        self._one = asyncio.Lock()
        self._now: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None  # not started yet: takes all lines that arrive until then

    def add(self, file: str, lines: bytes) -> None:
        """Add lines as they are written. Cheap: it is called for every record."""
        self._waiting.setdefault(file, []).extend([line for line in lines.split(b"\n") if line])
        if sum(map(len, self._waiting.values())) > self._most:
            self._coming()

    async def flush(self) -> None:
        """Wait until all lines are in the store, or reported. A caller that is cancelled only stops waiting."""
        await asyncio.shield(self._coming())

    async def close(self) -> None:
        await run_to_completion(self.flush())

    def _coming(self) -> asyncio.Task[None]:
        if self._next is None or self._next.done():
            self._next = asyncio.ensure_future(self._flush())
        return self._next

    async def _flush(self) -> None:
        async with self._one:
            self._now, self._next = self._next, None
            for file in tuple(self._waiting):
                entries = tuple([msgspec.json.decode(line) for line in self._waiting[file]])
                await self._append(file, entries)
                rest = self._waiting.pop(file)[len(entries) :]
                if rest:  # arrived meanwhile
                    self._waiting[file] = rest

    async def _append(self, file: str, entries: tuple[Any, ...]) -> None:
        key = key_of(file, self._projects)
        if key is None:
            return
        why: BaseException | None = None
        for wait in TRIES:
            await asyncio.sleep(wait)
            why = await self._tried(key, entries)
            if why is None:
                return
            if isinstance(why, TooSlowError):
                break  # the lines may still arrive: a retry could store them twice
        self._lose(file, key, len(entries), why)

    async def _tried(self, key: dict[str, str], entries: tuple[Any, ...]) -> BaseException | None:
        """In a task of its own, to tell a cancellation in the store from ours, and to abandon a call that never
        ends.
        """
        task = asyncio.ensure_future(self._stored(key, list(entries)))
        try:
            done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        finally:
            await end_all([task])
        if not done:
            return TooSlowError(f"it took more than {PATIENCE:g} s")
        return asyncio.CancelledError("something it awaited was cancelled") if task.cancelled() else task.exception()

    async def _stored(self, key: dict[str, str], entries: list[Any]) -> None:
        await self._store.append(key, entries)

    def _lose(self, file: str, key: dict[str, str], count: int, why: BaseException | None) -> None:
        with suppress(OSError):  # most homes have none
            Path(self._projects).with_name(TEMPORARY).unlink()
        words = f"{type(why).__name__}: {why}; '{file}' keeps the {plural(count, 'line')}"
        logging.getLogger("mainspring").error("the session store failed: %s", words, exc_info=why)
        self._show({"type": "system", "subtype": "mirror_error", "key": key, "error": words})


class TooSlowError(Exception):
    """Our own class: a store may raise a `TimeoutError` of its own, which is retried."""


def key_of(file: str, projects: str) -> dict[str, str] | None:
    """The key of a session's file, or of a subagent's beside it; None for other files."""
    try:
        project, session, *below = PurePosixPath(file).relative_to(projects).parts
    except ValueError:
        return None
    if not below:
        return {"project_key": project, "session_id": session.removesuffix(".jsonl")}
    return {"project_key": project, "session_id": session, "subpath": "/".join(below).removesuffix(".jsonl")}


Entry = dict[str, Any]
META = "agent_metadata"  # an entry for the metadata file of a subagent


class RestoredSession:
    def __init__(self, options: Options, folder: str) -> None:
        self.options = options  # including the session's id
        self.folder = folder  # a home for this session alone
        self._mark = Path(folder, TEMPORARY)
        self._mark.touch()

    def remove(self) -> None:
        """Remove the directory, unless the store did not accept all lines: then it is the only copy."""
        if self._mark.exists():
            shutil.rmtree(self.folder, ignore_errors=True)


async def restore_from_store(options: Options) -> RestoredSession | None:
    """None: there is nothing to resume, or the store does not have it. Raises `UsageError` for options that cannot be
    combined, and `ClaudeSDKError` if the store fails.
    """
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
        raise UsageError("'session_store' and 'enable_file_checkpointing' cannot be combined: a store keeps no files")
    if (
        options.continue_conversation
        and not options.resume
        and not store_supports(cast("SessionStore", options.session_store), "list_sessions")
    ):
        raise UsageError(
            "'continue_conversation' needs a store with 'list_sessions()': add it, or name the session with 'resume'"
        )


async def find_candidate(options: Options, project: str) -> tuple[str, list[Entry]] | None:
    """The session that `resume` names, or the newest one that is not a subagent's."""
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
        raise odd_answer_error("list_subkeys", "strings")
    if len(set(subpaths)) < len(subpaths):
        twice = next(one for one in subpaths if subpaths.count(one) > 1)
        raise ClaudeSDKError(f"the session store's list_subkeys() returned '{twice}' twice")
    for subpath in subpaths:
        if not subpath or subpath.startswith("/") or ".." in subpath.split("/"):
            continue  # outside of the directory
        entries = await load_lines(options, {**key, "subpath": subpath})
        said = [one for one in entries if one.get("type") != META]
        about = [one for one in entries if one.get("type") == META]
        if said:
            await write_in_thread(f"{folder}/{subpath}.jsonl", said)
        if about:
            kept = {name: value for name, value in about[-1].items() if name != "type"}
            await write_in_thread(f"{folder}/{subpath}.meta.json", [kept])


# --- answers of a store: it is the program's code, so anything is possible --------------------------------------------


async def load_lines(options: Options, key: dict[str, str]) -> list[Entry]:
    entries = await call_store(options, "load", key)
    if not all(isinstance(one, dict) for one in entries):
        raise odd_answer_error("load", "dicts")
    return entries


async def call_store(options: Options, method: str, about: object) -> list[Any]:
    """None counts as an empty list."""
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
    """Without the value: that may be a whole conversation."""
    return ClaudeSDKError(f"the session store's {method}() did not return a list" + (f" of {of}" if of else ""))


# --- files ------------------------------------------------------------------------------------------------------------


async def write_in_thread(path: str, entries: list[Entry]) -> None:
    """In a thread: a session of 16 MB takes 0.2 s. The thread ends before this returns, as the directory may be removed
    then.
    """
    try:
        await run_to_completion(asyncio.to_thread(write_entries, path, entries))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ClaudeSDKError(f"the session store's answer cannot be written to {path!r:.300}: {error}") from error


def write_entries(path: str, entries: list[Entry]) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        for entry in entries:
            file.write(line_of(entry))
