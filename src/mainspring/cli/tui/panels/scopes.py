"""What several panels share: the choice of a settings file, the end of a panel, and the user's editor."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Sequence

from mainspring.agent.config import asked_by
from mainspring.agent.slash.lines import TextStyle
from mainspring.cli.tui.menu import MenuItem
from mainspring.cli.tui.panel import Panel
from mainspring.cli.tui.panels import PanelContext
from mainspring.processes.child import UserProgram
from mainspring.settings.persist import PersistReport, SettingsWriter
from mainspring.settings.values import SettingsSource
from mainspring.text import strip_control_characters

SCOPES = (
    (SettingsSource.USER, "for you, in every folder"),
    (SettingsSource.PROJECT, "for everyone in this project"),
    (SettingsSource.LOCAL, "for you, in this folder"),
)
RELOAD = "/config reload"  # the command that applies changed settings


def get_settings_writer(context: PanelContext) -> SettingsWriter:
    config = context.talk.config
    return SettingsWriter(config.cwd, config.environment, asked_by(config.options))


async def choose_scope(
    panel: Panel, question: str, *, without: Sequence[SettingsSource] = (), about: Sequence[str] = ()
) -> SettingsSource | None:
    offered = [(source, words) for source, words in SCOPES if source not in without]
    if len(offered) == 1:
        return offered[0][0]
    picked = await panel.choose(question, [MenuItem(source.capitalize(), words) for source, words in offered], about)
    return None if picked is None else offered[picked][0]


def report_changes(panel: Panel, words: str, report: PersistReport) -> None:
    """Report the file that was written, and what has no effect."""
    if report.files:
        panel.tell(words)
    if report.words:
        panel.warn(". ".join(report.words))


def print_changes(context: PanelContext, panel: Panel) -> None:
    """The scrollback keeps what was changed."""
    for words in panel.done:
        context.talk.output.line(strip_control_characters(words), TextStyle.DIM)


async def edit_file(context: PanelContext, path: str) -> None:
    """Opens the user's editor. Raises `OSError`."""
    environment = context.talk.config.environment
    editor = environment.get("VISUAL") or environment.get("EDITOR") or "vi"
    folder = os.path.dirname(path)  # noqa: PTH120  # a string
    await asyncio.to_thread(os.makedirs, folder, exist_ok=True)
    async with context.given_away():
        await UserProgram((*shlex.split(editor), path), cwd=context.talk.config.cwd).wait_or_end()
