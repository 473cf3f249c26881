"""The list of earlier prompts: of this project or of all, with ages and a preview (Ctrl-R)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainspring.agent.session_rows import format_age
from mainspring.cli.tui.list_dialog import ListDialog, ListRow, ListScope
from mainspring.cli.tui.menu import Clock
from mainspring.cli.tui.pickers import ask_dialog
from mainspring.text import shorten_folder

if TYPE_CHECKING:
    from mainspring.cli.tui.history import HistoryEntry
    from mainspring.cli.tui.input_help import PromptHistory
    from mainspring.cli.tui.screen import Screen


async def choose_past_prompt(history: PromptHistory, stage: Screen) -> str | None:
    """None: cancelled."""
    here = await asyncio.to_thread(lambda: history.newest_entries(everywhere=False))
    everywhere = await asyncio.to_thread(lambda: history.newest_entries(everywhere=True))
    dialog = make_history_picker(here, everywhere, at=time.time(), now=stage.attended)
    return await ask_dialog(dialog, stage)


def make_history_picker(
    here: Sequence[HistoryEntry], everywhere: Sequence[HistoryEntry], *, at: float, now: Clock
) -> ListDialog:
    """`at`: seconds since 1970, to compute ages. The answer is the whole prompt."""
    home = os.path.expanduser("~")  # noqa: PTH111

    def age(entry: HistoryEntry) -> str:
        return format_age(at - entry.time / 1_000) if entry.time else "this session"

    def rows_here() -> list[ListRow]:
        return [ListRow(one.text, one.text, age(one)) for one in here]

    def rows_everywhere() -> list[ListRow]:
        return [
            ListRow(one.text, one.text, f"{age(one)} · {shorten_folder(one.folder, home)}", one.folder)
            for one in everywhere
        ]

    scopes = (
        ListScope("this project", rows_here, "No earlier prompts in this project."),
        ListScope("everywhere", rows_everywhere, "No earlier prompts."),
    )
    return ListDialog("Earlier prompts", scopes, preview_prompt, now=now)


def preview_prompt(row: ListRow) -> list[str]:
    """Prompts of one line are in the list already, unless they are long."""
    return row.name.split("\n")[:50] if "\n" in row.name.strip() or len(row.name) > 60 else []
