"""Rewinds a session that no process has open, and says what it changed: `mainspring rewind` and `mainspring diff`.

The permission rules of the session's folder hold, as in a live session: a rewind writes only what an edit could write
without a question. The lock of the session file keeps other processes out.
"""

# ruff: noqa: PTH111, PTH112  # pathlib takes 8 ms to load

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.agent.checkpoints import RewindPermissions, finish_rewinds, recover_history, rewind_history
from mainspring.agent.config import settings_of
from mainspring.agent.options import StartError
from mainspring.agent.permissions import list_additional_folders, new_gate
from mainspring.agent.prompt_list import list_prompts_in_file
from mainspring.agent.rewind import RewindPoint, find_prompt_in_file
from mainspring.agent.slash.rewind import join_points
from mainspring.checkpoints.entries import FileCheckpoint, PromptChanges, RewindReport
from mainspring.checkpoints.history import FileHistory
from mainspring.core.errors import UsageError
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.policy import Mode
from mainspring.sessions.journal import SessionInUse, lock_owner
from mainspring.sessions.listing import SessionEntry, describe_session
from mainspring.sessions.paths import history_folder, id_of, list_unfinished_rewinds, size_of, state_folder
from mainspring.settings.load import home_folder

if TYPE_CHECKING:
    from mainspring.agent.options import SessionOptions


class RewindableSession:
    """Use it as a context manager. `file`: of the session."""

    def __init__(self, file: str, options: SessionOptions, environment: Mapping[str, str]) -> None:
        self.file, self.id = file, id_of(file)
        self._options, self._environment = options, environment
        self._ours = home_folder(environment)
        entry = describe_session(SessionEntry(self.id, Path(file), 0, size_of(file)))
        self.cwd = os.path.realpath((entry.cwd if entry is not None else "") or os.getcwd())  # noqa: PTH109
        self.history = FileHistory(file, ours=self._ours)

    def __enter__(self) -> RewindableSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.history.close()

    def points(self) -> list[FileCheckpoint]:
        """Prompts and earlier rewinds, the newest first. A prompt without a file checkpoint has its own id."""
        return join_points(self.history.points(), list_prompts_in_file(self.file))

    @property
    def has_checkpoints(self) -> bool:
        return bool(self.history.store.records)

    def changes(self) -> tuple[PromptChanges, ...]:
        """What the session changed, by prompt, the oldest first."""
        return self.history.changes_by_prompt(())

    async def rewind_files(
        self, point: FileCheckpoint, *, dry_run: bool = False, include: Collection[str] = ()
    ) -> RewindReport:
        """Raises `UsageError`, `SessionInUse` or `StartError`; then nothing has changed."""
        writable = self._permissions()
        with lock_session(self.file):
            if not dry_run:
                await self._finish_rewinds(writable)
            roots = self.history.find(point.id).roots
            report = await rewind_history(self.history, writable, point.id, roots, include, dry_run=dry_run)
        return replace(report, to=point, dry_run=dry_run, session_before=self.id, session_after=self.id)

    async def _finish_rewinds(self, writable: RewindPermissions) -> None:
        """Those that a crash has interrupted: of this session, and of others in its workspace."""
        if said := await recover_history(self.history, writable):
            self._options.tell(said)
        home = state_folder(self.file)
        async for said in finish_rewinds(list_unfinished_rewinds(home), home, (self.cwd,), writable):
            self._options.tell(said)

    def find_prompt(self, point: FileCheckpoint) -> RewindPoint:
        """Where the conversation was before it. Raises `SessionInUse` or `StartError`."""
        with lock_session(self.file):
            return find_prompt_in_file(self.file, point.prompt_id)

    def _permissions(self) -> RewindPermissions:
        if not os.path.isdir(self.cwd):
            raise UsageError(f"the folder of the session does not exist: '{self.cwd}'")
        options, home = self._options, os.path.expanduser("~")
        settings = settings_of(options, self.cwd, self._environment)
        gate = new_gate(options, settings, self.cwd, home, self._ours)
        gate.set_folders((self.cwd, *list_additional_folders(options, settings, self.cwd, home)))
        return RewindPermissions(gate, self.cwd, lambda: EnginePolicy(Mode.ACCEPT_EDITS))

    def take_over(self, forked: str, prompt_id: str) -> None:
        """The conversation continues in this file, from before this prompt: so do the checkpoints."""
        history = FileHistory(forked, ours=self._ours)
        try:
            history.take_over(history_folder(self.file), prompt_id)
        finally:
            history.close()


@contextmanager
def lock_session(file: str) -> Generator[None]:
    """Raises `SessionInUse` or `StartError`."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StartError(f"cannot read '{file}': {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise SessionInUse(f"session '{id_of(file)}' is open in {lock_owner(fd)}") from None
    finally:
        os.close(fd)


def explain_no_checkpoints(session_id: str) -> str:
    """Why, and what to do."""
    return (
        f"no file checkpoints are stored for session '{session_id}': it ran with checkpoints off, or before mainspring "
        "stored them. 'mainspring rewind SESSION --conversation' rewinds the conversation alone. See 'mainspring help "
        "undo'"
    )
