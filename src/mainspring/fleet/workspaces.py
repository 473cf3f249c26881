"""The directory that a task works in, from its start until its result is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.fleet.results import TaskResult
from mainspring.fleet.tasks import FleetTask


class TaskWorkspace(Protocol):
    """A task that is interrupted keeps its workspace: the next process opens it again, at the same path."""

    @property
    def cwd(self) -> str | None:
        """None: that of the agent."""
        ...

    async def finish(self, result: TaskResult) -> TaskResult:
        """After the run: add the check's exit code and the diff. Called again if the process ends before `remove`."""
        ...

    async def remove(self) -> None:
        """The result is stored."""
        ...


class WorkspaceInPlace(Bundle):
    """Tasks work where they are, and what they change stays."""

    cwd: str | None

    async def finish(self, result: TaskResult) -> TaskResult:
        return result

    async def remove(self) -> None:
        pass


async def open_workspace(task: FleetTask, folder: Path | None) -> TaskWorkspace:  # noqa: ARG001  # for clones
    """`folder`: of the fleet, None if it stores nothing."""
    if task.repo is not None:
        raise UsageError(f"task '{task.id}': a task with 'repo' needs 'mainspring fleet run'")
    return WorkspaceInPlace(task.cwd)
