"""`/agents`: the agent types with tools, model and source; edit one, or create one from a template."""

from __future__ import annotations

import asyncio
import os
import re

from mainspring import context as context_package
from mainspring.agent.slash.info import describe_type_source, model_of, tools_of
from mainspring.agent.slash.lines import clean_line
from mainspring.cli.tui.menu import MenuItem
from mainspring.cli.tui.panel import Panel, PanelAction, PanelRow, PanelTab
from mainspring.cli.tui.panels import PanelContext
from mainspring.cli.tui.panels.scopes import RELOAD, edit_file, print_changes
from mainspring.context.agent_types import AgentType

TEMPLATE = """\
---
name: {name}
description: {about}
tools: Read, Grep, Glob
---

You are {name}. {about}

Report what you found, with paths and lines.
"""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


async def open_panel(context: PanelContext) -> str | None:
    panel = AgentsPanel(context)
    await panel.panel.run()
    print_changes(context, panel.panel)
    return RELOAD if panel.changed else None


class AgentsPanel:
    def __init__(self, context: PanelContext) -> None:
        self._context = context
        self._types: dict[str, AgentType] = dict(context.talk.world.kinds or context_package.BUILTIN_AGENT_TYPES)
        self.changed = False
        tab = PanelTab(
            self._rows,
            "",
            (
                PanelAction("enter", "edit", self._edit, lambda row: bool(self._types[row.id].path)),
                PanelAction("n", "new", self._create, needs_row=False),
            ),
            self._about,
        )
        self.panel = Panel("Agent types", [tab], context.screen)

    def _rows(self) -> list[PanelRow]:
        return [PanelRow(name, name, describe_type_source(one), one.about) for name, one in self._types.items()]

    def _about(self, row: PanelRow) -> list[str]:
        one = self._types[row.id]
        return [clean_line(one.about), f"{tools_of(one)}; {', '.join(model_of(one)) or 'model of the session'}"]

    async def _edit(self, row: PanelRow) -> None:
        await self._open(self._types[row.id].path)

    async def _open(self, path: str) -> None:
        await edit_file(self._context, path)
        self.changed = True
        self.panel.tell(f"'{path}' is read again when you close this panel.")

    async def _create(self, _: PanelRow) -> None:
        name = await self.panel.enter("Name", hint="such as reviewer", check=self._check_name)
        if name is None:
            return
        about = await self.panel.enter("When to use it", hint="one sentence for the model", check=check_about)
        if about is None:
            return
        places = self._context.talk.world.around.memory.places("agents")
        folders = [one for one in places.folders() if one[0].endswith((".claude/agents", "/agents"))]
        items = [MenuItem(clean_line(folder), "project" if project else "user") for folder, project in folders]
        picked = await self.panel.choose(f"Where is '{name}' kept?", items)
        if picked is None:
            return
        path = f"{folders[picked][0]}/{name}.md"
        await asyncio.to_thread(write_new_file, path, TEMPLATE.format(name=name, about=about))
        self.panel.tell(f"Created '{path}'.")
        await self._open(path)

    def _check_name(self, text: str) -> str:
        if not _NAME.fullmatch(text):
            return "A name has lower-case letters, digits and '-'."
        return f"There is an agent type '{text}' already." if text in self._types else ""


def check_about(text: str) -> str:
    """It becomes a line of the file's head."""
    if not text.strip():
        return "The model needs to know when to use it."
    return "Leave out ':' and '#': they have a meaning in the head of the file." if {":", "#"} & {*text} else ""


def write_new_file(path: str, text: str) -> None:
    """Raises `FileExistsError`: nothing is overwritten."""
    os.makedirs(path.rpartition("/")[0], exist_ok=True)  # noqa: PTH103  # as elsewhere
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(fd, "w") as file:
        file.write(text)
