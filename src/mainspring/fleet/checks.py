"""Checks of tasks: a command of yours that judges what a task left in its workspace, by its exit code.

It runs in the sandbox of the task's session, because it usually runs code that the model wrote.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mainspring.agent.config import HostSupplied, resolve_config
from mainspring.library.session import SessionPlan
from mainspring.processes.child import ProcessLimits, ProcessSpec, SandboxAccess
from mainspring.processes.children import Children
from mainspring.processes.environment import child_environment
from mainspring.secrets.redaction import redact

CHECKS = "checks"
TIMED_OUT = 124  # as of timeout(1)
NOT_STARTED = 126
SECONDS = 600.0


class CheckRunner:
    def __init__(self, folder: Path | None, seconds: float = SECONDS) -> None:
        """`folder`: of the fleet, for the output of the checks."""
        self._folder, self._seconds = folder, seconds
        self._slots = asyncio.Semaphore(max(2, os.cpu_count() or 1))

    async def run(self, command: str, plan: SessionPlan, cwd: str, name: str) -> int:
        """The exit code; 124: it took too long. `plan`: of the session whose sandbox and environment it gets."""
        async with self._slots:
            code, output = await self._run(command, plan, cwd)
        if self._folder is not None:
            await asyncio.to_thread(self._store, name, output)
        return code

    async def _run(self, command: str, plan: SessionPlan, cwd: str) -> tuple[int, str]:
        options = plan.options.replace(cwd=cwd, resume=None, session_id=None, persist=False)
        config = resolve_config(options, plan.environment, HostSupplied((), plan.provider))
        try:
            await config.sandboxing.open()
            job = ProcessSpec(
                ("/bin/sh", "-c", command),
                cwd,
                child_environment(config.environment),
                ProcessLimits(self._seconds),
                merged=True,
                walls=SandboxAccess.USUAL,
            )
            try:
                ended = await Children(around=config.sandboxing.around).run(job)
            except OSError as error:
                return NOT_STARTED, f"{error}\n"
            code = TIMED_OUT if ended.timed_out else ended.code if ended.code >= 0 else 128 - ended.code
            return code, ended.stdout.text
        finally:
            await config.sandboxing.close()
            config.holder.release()

    def _store(self, name: str, output: str) -> None:
        assert self._folder is not None
        file = self._folder / CHECKS / f"{name}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(redact(output), "utf-8")
