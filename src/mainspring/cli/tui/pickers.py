"""Pickers of slash commands without arguments, and how a dialog is asked: `/effort` and `/theme`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from mainspring.agent.slash.preferences import EFFORTS
from mainspring.cli.tui.dialog import Dialog, make_picker
from mainspring.cli.tui.menu import MenuItem
from mainspring.settings.keys import THEMES

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.cli.tui.screen import Screen

T = TypeVar("T")

ABOUT_THEMES = {
    "auto": "dark or light, by the terminal",
    "dark-daltonized": "blue and orange in place of green and red",
    "light-daltonized": "blue and orange in place of green and red",
    "ansi": "your terminal's sixteen colours, no backgrounds",
    "none": "no colours",
}
ALIASES = ("dark-ansi", "light-ansi")


async def ask_dialog(sheet: Dialog[T], stage: Screen) -> T:
    stage.open(sheet)
    try:
        return await sheet.answer()
    finally:
        sheet.close()
        stage.close(sheet)


async def choose_effort(talk: TerminalSession, stage: Screen) -> str | None:
    told = f"How much {talk.model.name} thinks, from the next prompt."
    return await pick_name("Effort", told, EFFORTS, talk.session.effort or "default", stage)


async def choose_theme(talk: TerminalSession, stage: Screen) -> str | None:
    rows = [(name, ABOUT_THEMES.get(name, "")) for name in THEMES if name not in ALIASES]
    return await pick_name("Theme", "Kept in your settings.", rows, talk.config.settings.theme, stage)


async def pick_name(title: str, told: str, rows: Sequence[tuple[str, str]], current: str, stage: Screen) -> str | None:
    """None: cancelled."""
    names = [name for name, _ in rows]
    items = [MenuItem(f"{name} (in use)" if name == current else name, about) for name, about in rows]
    start = names.index(current) if current in names else 0
    return await ask_dialog(make_picker(title, told, items, names, now=stage.attended, start=start), stage)
