"""`statusLine` of the settings: a command of the user's that says what stands in the last line.

It is asked after each run and when something else has changed, one at a time, with what Claude Code tells such commands
on standard input. The first line that it prints is shown, without its colours. What fails, shows nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from mainspring.cli.terminal_session import TerminalSession
from mainspring.core.money import NANOS_PER_USD
from mainspring.hooks.commands import HookShell
from mainspring.hooks.invocation import HookCallError
from mainspring.text import strip_control_characters
from mainspring.version import __version__

SECONDS = 5.0
COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


class StatusCommand:
    def __init__(self, talk: TerminalSession, command: str, changed: Callable[[], None]) -> None:
        self.text = ""
        self._talk, self._command, self._changed = talk, command, changed
        self._asked = self._again = False
        self._task: asyncio.Future[None] | None = None

    def ask(self) -> None:
        """Soon. While it is asked, once more is enough, however often."""
        if self._asked:
            self._again = True
            return
        self._asked = True
        self._task = asyncio.ensure_future(self._ask())

    def close(self) -> None:
        """Nobody looks any more."""
        if self._task is not None:
            self._task.cancel()

    async def _ask(self) -> None:
        try:
            self.text = await self._line()
        finally:
            self._asked = False
        self._changed()
        if self._again:
            self._again = False
            self.ask()

    async def _line(self) -> str:
        kit = self._talk.world.kit
        shell = HookShell(kit.children, kit.env, cwd=kit.place.root, outside=(kit.place.root, *kit.place.folders))
        try:
            async with asyncio.timeout(SECONDS):
                ended = await kit.children.run(shell.job(self._command, self._facts()))
        except (TimeoutError, OSError, ValueError, HookCallError):
            return ""
        lines = COLOURS.sub("", ended.stdout.text).strip().splitlines()
        return strip_control_characters(lines[0]).strip() if lines and ended.code == 0 else ""

    def _facts(self) -> dict[str, Any]:
        world, config, place = self._talk.world, self._talk.config, self._talk.world.kit.place
        journal, name = self._talk.opened.journal, self._talk.model.name
        return {
            "hook_event_name": "Status",
            "session_id": world.about.session_id,
            "transcript_path": journal.file if journal is not None else "",
            "cwd": place.cwd,
            "model": {"id": name, "display_name": name},
            "workspace": {"current_dir": place.cwd, "project_dir": config.cwd, "added_dirs": list(place.folders)},
            "version": __version__,
            "output_style": {"name": world.about.output_style},
            "cost": {"total_cost_usd": world.session.shared.ledger.account.spent / NANOS_PER_USD},
        }
