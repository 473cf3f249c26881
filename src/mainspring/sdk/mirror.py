"""The lines of a session, as they are written, into a store elsewhere (stream-json 14.5).

Its own file comes first and is the truth: a store that fails is told of, and holds up nothing. Lines of one file reach
the store in order; all that a turn has written is there before its result is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from mainspring.engine.endings import regardless
from mainspring.sdk.options import Options

Frame = dict[str, Any]
TRIES = (0.0, 0.2, 0.8)  # seconds before each
PATIENCE = 60.0  # seconds for one call
MOST = 500  # lines that wait for the end of a turn


class Mirror:
    def __init__(self, options: Options, projects: str, show: Callable[[Frame], object]) -> None:
        """`projects`: the folder below which the session's files are. `show` is told what a store did not take."""
        self._store, self._projects, self._show = options.session_store, projects, show
        self._most = 0 if options.session_store_flush == "eager" else MOST
        self._waiting: dict[str, list[Any]] = {}  # by file
        self._lines = 0
        self._one = asyncio.Lock()
        self._flushing: set[asyncio.Task[None]] = set()

    def take(self, frame: Frame) -> None:
        self._waiting.setdefault(frame["filePath"], []).extend(frame["entries"])
        self._lines += len(frame["entries"])
        if self._lines > self._most:
            task = asyncio.ensure_future(self.flush())
            self._flushing.add(task)
            task.add_done_callback(self._flushing.discard)

    async def flush(self) -> None:
        async with self._one:
            waiting, self._waiting, self._lines = self._waiting, {}, 0
            for file, entries in waiting.items():
                await self._append(file, entries)

    async def close(self) -> None:
        await regardless(self.flush())

    async def _append(self, file: str, entries: list[Any]) -> None:
        key = key_of(file, self._projects)
        if key is None:
            return
        why = ""
        for wait in TRIES:
            await asyncio.sleep(wait)
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._store.append(key, entries)
            except TimeoutError:  # it may still land: once more could be twice
                why = f"it took more than {PATIENCE:.0f} s"
                break
            except Exception as error:  # noqa: BLE001  # a store is the program's
                why = str(error) or type(error).__name__
            else:
                return
        self._show({"type": "system", "subtype": "mirror_error", "key": key, "error": why})


def key_of(file: str, projects: str) -> dict[str, str] | None:
    """Of a session's file, or of an agent's beside it; None for anything else."""
    try:
        project, session, *below = PurePosixPath(file).relative_to(projects).parts
    except ValueError:
        return None
    if not below:
        return {"project_key": project, "session_id": session.removesuffix(".jsonl")}
    return {"project_key": project, "session_id": session, "subpath": "/".join(below).removesuffix(".jsonl")}
