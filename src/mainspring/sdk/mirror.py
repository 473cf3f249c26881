"""The lines of a session, as they are written, into a store elsewhere (stream-json 14.5).

Its own file comes first and is the truth. Lines of one file reach the store in order, and all that a turn has written
is there before its result is shown: so a slow store holds up results, and the end of the session, for up to `PATIENCE`
a file. What it does not take is told (`mirror_error`, and in the log), with the file that has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from mainspring.engine.tasks import end_all, run_to_completion
from mainspring.sdk.options import Options

Frame = dict[str, Any]
TRIES = (0.0, 0.2, 0.8)  # seconds before each
PATIENCE = 60.0  # seconds for one call
MOST = 500  # lines that wait for the end of a turn
TEMPORARY = ".goes-with-its-session"  # a file that marks a home for one session; a home without it is kept


class StoreMirror:
    def __init__(self, options: Options, projects: str, show: Callable[[Frame], object]) -> None:
        """`projects`: the folder below which the session's files are. `show` is told what a store did not take."""
        self._store: Any = options.session_store
        self._projects, self._show = projects, show
        self._most = 0 if options.session_store_flush == "eager" else MOST
        self._waiting: dict[str, list[bytes]] = {}  # lines by file
        self._one = asyncio.Lock()
        self._now: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None  # has not begun: takes all that comes until then

    def add(self, file: str, lines: bytes) -> None:
        """As they were written. Cheap: it is called for every record."""
        self._waiting.setdefault(file, []).extend([line for line in lines.split(b"\n") if line])
        if sum(map(len, self._waiting.values())) > self._most:
            self._coming()

    async def flush(self) -> None:
        """Until all that has come is in the store, or told of. Who is cancelled here only stops waiting."""
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
                if rest:  # came meanwhile
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
                break  # its lines may still come: once more could be twice
        self._lose(file, key, len(entries), why)

    async def _tried(self, key: dict[str, str], entries: tuple[Any, ...]) -> BaseException | None:
        """In a task of its own: so a store that was cancelled is told from us, and one that never ends is left."""
        task = asyncio.ensure_future(self._stored(key, list(entries)))
        try:
            done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        finally:
            await end_all([task])
        if not done:
            return TooSlowError(f"it took more than {PATIENCE:g} s")
        return asyncio.CancelledError("what it waited for was cancelled") if task.cancelled() else task.exception()

    async def _stored(self, key: dict[str, str], entries: list[Any]) -> None:
        await self._store.append(key, entries)

    def _lose(self, file: str, key: dict[str, str], count: int, why: BaseException | None) -> None:
        with suppress(OSError):  # most homes have none
            Path(self._projects).with_name(TEMPORARY).unlink()
        words = f"{type(why).__name__}: {why}; '{file}' keeps the {count} lines"
        logging.getLogger("mainspring").error("the session store failed: %s", words, exc_info=why)
        self._show({"type": "system", "subtype": "mirror_error", "key": key, "error": words})


class TooSlowError(Exception):
    """Ours: a store may have a `TimeoutError` of its own, and be tried again."""


def key_of(file: str, projects: str) -> dict[str, str] | None:
    """Of a session's file, or of an agent's beside it; None for anything else."""
    try:
        project, session, *below = PurePosixPath(file).relative_to(projects).parts
    except ValueError:
        return None
    if not below:
        return {"project_key": project, "session_id": session.removesuffix(".jsonl")}
    return {"project_key": project, "session_id": session, "subpath": "/".join(below).removesuffix(".jsonl")}
