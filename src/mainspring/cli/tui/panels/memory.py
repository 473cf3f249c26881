"""`/memory`: the memory files in force; Enter opens one in your editor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mainspring.agent.slash.lines import clean_line
from mainspring.agent.slash.settings import describe_file_size, get_sent_files, notes_of
from mainspring.cli.tui.panel import Panel, PanelAction, PanelRow, PanelTab
from mainspring.cli.tui.panels import PanelContext
from mainspring.cli.tui.panels.scopes import RELOAD, edit_file, print_changes
from mainspring.text import plural, shorten_folder

if TYPE_CHECKING:
    from mainspring.context.memory import MemoryFile


async def open_panel(context: PanelContext) -> str | None:
    panel = MemoryPanel(context)
    await panel.panel.run()
    print_changes(context, panel.panel)
    return RELOAD if panel.changed else None


class MemoryPanel:
    def __init__(self, context: PanelContext) -> None:
        self._context = context
        self.changed = False
        found = context.talk.world.around.memory
        self._files: dict[str, MemoryFile] = {file.path: file for file in found.files}
        self._sent = get_sent_files(context.talk)
        self._notes = notes_of(context.talk)
        edit = PanelAction("enter", "edit", self._edit)
        tab = PanelTab(self._rows, "", (edit,), self._about, self._note)
        self.panel = Panel("Memory", [tab], context.screen)
        if found.problems:
            self.panel.warn(" ".join(map(clean_line, found.problems)))

    def _rows(self) -> list[PanelRow]:
        rows = [
            PanelRow(path, self._label(path), f"{file.scope} · {plural(len(file.text), 'character')}")
            for path, file in self._files.items()
        ]
        return [*rows, *[PanelRow(path, self._label(path), f"new · {what}") for path, what in self._missing()]]

    def _label(self, path: str) -> str:
        where = self._context.talk.world.around.memory.where
        return clean_line(
            path.removeprefix(f"{where.cwd}/") if path.startswith(f"{where.cwd}/") else shorten_folder(path, where.user)
        )

    def _missing(self) -> list[tuple[str, str]]:
        """Files that do not exist yet: the user's, and the project's if it has none."""
        where = self._context.talk.world.around.memory.where
        scopes = {str(file.scope) for file in self._files.values()}
        found: list[tuple[str, str]] = []
        if "project" not in scopes:
            found.append((f"{where.cwd}/AGENTS.md", "for everyone in this project"))
        if "user" not in scopes and where.home:
            found.append((f"{where.home}/AGENTS.md", "for you, in every folder"))
        return [one for one in found if one[0] not in self._files]

    def _about(self, row: PanelRow) -> list[str]:
        file = self._files.get(row.id)
        if file is None:
            return ["This file does not exist yet. Enter creates it in your editor."]
        return [f"In the context: {describe_file_size(file, self._sent.get(file.path, ''))}"]

    def _note(self) -> str:
        return " ".join(["Every session here begins with these files.", *self._notes])

    async def _edit(self, row: PanelRow) -> None:
        before = _stamp(row.id)
        await edit_file(self._context, row.id)
        if _stamp(row.id) == before:
            self.panel.remark(f"'{row.id}' was not changed.")
            return
        self.changed = True
        self.panel.tell(f"Changed '{row.id}'. It is loaded again when you close this panel.")


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # as elsewhere
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
