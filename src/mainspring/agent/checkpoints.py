"""File checkpoints: restore files as they were at a prompt (stream-json 4, `rewind_files`). Off by default.

Before a tool changes a file for the first time since a prompt, its state is stored with the session: the content beside
the session file, and a line in it (`sessions/file_history.py`). A rewind restores each file, and stores its current
state in the same way, so that the client can rewind again, also to a later prompt.

A program that can write the session file could name any path in it. So a file is restored only if the change would be
allowed now (in the workspace, and not a protected path), or if a tool of this very process has changed it.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Bundle
from mainspring.permissions.policy import PermissionRequest
from mainspring.processes.atomic_write import FileChanged
from mainspring.secrets.held import mask_secrets
from mainspring.sessions.file_history import FileVersion, files_changed_since, is_kept, kept_size, read_version
from mainspring.sessions.records import FileRecord
from mainspring.text import plural
from mainspring.tools.checkpoints import (
    FileState,
    LineCounts,
    count_changed_lines,
    is_same,
    put_back,
    read_file_state,
    resolve_for_restore,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mainspring.engine.shared_state import EnginePolicy
    from mainspring.permissions.checker import PermissionChecker
    from mainspring.processes.paths import Resolved
    from mainspring.sessions.journal import FileJournal

LARGEST = 10_000_000  # bytes of a file: the limit of our edit tools, so only other programs write larger files
TOTAL = 200_000_000  # bytes per session
TRIES = 3  # another program may save a file during the restore
MOST_NAMED = 10
FREE = ("acceptEdits", "bypassPermissions")  # modes in which edits in the workspace need no approval


class CheckpointLimits(Bundle):
    file: int = LARGEST
    total: int = TOTAL


class FileCheckpoints:
    """The checkpoints of one session. Create it inside the event loop: tools call `keep` from their threads."""

    def __init__(
        self,
        journal: FileJournal,
        gate: PermissionChecker,
        root: str,
        policy: Callable[[], EnginePolicy],
        limits: CheckpointLimits | None = None,
    ) -> None:
        """`root`: the working directory, which rules are relative to. `policy`: the one in force."""
        self._journal, self._gate, self._root, self._policy = journal, gate, root, policy
        self._limits = limits or CheckpointLimits()
        self._loop = asyncio.get_running_loop()
        self._kept = journal.keep_files()
        self._size = -1  # of all stored contents; -1: not counted yet
        self._changed: set[str] = set()  # by tools of this process

    # --- before a change ---

    def keep(self, path: Resolved) -> None:
        """Stores the file's state. Called in a tool's thread, right before it writes."""
        self._changed.add(path.real)
        if path.real not in self._kept:
            now = read_file_state(path.real, self._limits.file)
            asyncio.run_coroutine_threadsafe(self._append(path.real, now), self._loop).result()

    async def _append(self, real: str, now: FileState, rewound: str = "") -> None:
        now = self._bounded(now)
        await self._journal.append(
            FileRecord(real, now_ms(), now.there, now.mode, now.digest, now.data, now.why, rewound)
        )

    def _bounded(self, now: FileState) -> FileState:
        """Without the content, if it cannot be stored."""
        if not now.there or now.why:
            return now
        if now.data is None:
            return replace(now, why=f"it had {now.size:,} bytes; at most {self._limits.file:,} are stored per file")
        if mask_secrets(now.data) != now.data:
            return replace(now, data=None, why="it contains a key of this session, and keys are never stored")
        if is_kept(self._journal.file, now.digest):
            return now
        if self._size < 0:
            self._size = kept_size(self._journal.file)
        if self._size + now.size > self._limits.total:
            return replace(now, data=None, why=f"at most {self._limits.total:,} bytes are stored per session")
        self._size += now.size
        return now

    # --- rewind ---

    async def rewind(self, prompt: str) -> dict[str, Any]:
        """Restores the files and returns what changed. Raises `UsageError` if it cannot restore some or all."""
        if not self._journal.stored:
            raise UsageError("Files cannot be rewound: this session is not stored, so there are no checkpoints")
        files = await asyncio.to_thread(files_changed_since, self._journal.file, prompt)
        if files is None:
            raise UsageError(
                f"No file checkpoint found for message '{prompt}': only prompts of this session that were sent while "
                "file checkpointing was enabled have one"
            )
        changed, left = dict[str, LineCounts](), list[str]()
        for real, was in files.items():
            try:
                done = await self._one(real, was, prompt)
            except ToolError as error:
                left.append(f"'{real}' ({error})")
                continue
            if done is not None:
                changed[real] = done
        if left:
            raise UsageError(describe_incomplete_rewind(len(changed), left))
        lines = changed.values()
        return {
            "canRewind": True,
            "filesChanged": list(changed),
            "insertions": sum([one.plus for one in lines]),
            "deletions": sum([one.minus for one in lines]),
        }

    async def _one(self, real: str, was: FileVersion, prompt: str) -> LineCounts | None:
        """Restores one file; None: it has not changed. Raises `ToolError` if it cannot be restored."""
        for _ in range(TRIES):
            now = await asyncio.to_thread(read_file_state, real, self._limits.file)
            if is_same(now, FileState(was.there, was.mode, was.digest)):
                return None
            path, aim = await self._aim(real, was)
            if now.why:
                raise ToolError(now.why)
            await self._append(real, now, prompt)
            try:
                await asyncio.to_thread(put_back, path, now, aim)
            except FileChanged:
                continue
            return await asyncio.to_thread(count_changed_lines, now, aim)
        raise ToolError("another program keeps changing it")

    async def _aim(self, real: str, was: FileVersion) -> tuple[Resolved, FileState]:
        """Its path, and the state to restore."""
        path = await asyncio.to_thread(resolve_for_restore, real)
        if real not in self._changed:
            await self._check(real)
        if not was.there:
            return path, FileState()
        if was.why:
            raise ToolError(was.why)
        data = await asyncio.to_thread(read_version, self._journal.file, was)
        if data is None:
            raise ToolError("its content is not available: it is stored with the session, on the machine that wrote it")
        return path, FileState(True, was.mode, was.digest, len(data), data)

    async def _check(self, real: str) -> None:
        policy = self._policy()
        standing = policy if policy.mode in FREE else replace(policy, mode=FREE[0])
        verdict = await self._gate.verdict(PermissionRequest("Edit", {"file_path": real}, self._root), standing)
        if verdict.decision != "allow":
            raise ToolError(f"tools may not change it now: {verdict.reason}")


def now_ms() -> int:
    return int(time.time() * 1_000)


def describe_incomplete_rewind(done: int, left: list[str]) -> str:
    more = f", and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
    return f"Restored {plural(done, 'file')}, but not {', '.join(left[:MOST_NAMED])}{more}"
